#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a set of packages costs once it is there: exec with a set beside an equally cold exec without, and imports from
a set beside those of Debian's packages of the same versions, in one run, in turn (A B A B).

Inside a test machine with the host's network, as root:

    tests/run shell --suite trixie --deb --network -- python3 /mnt/tree/tests/bench/packages.py [ROUNDS] [alone]

Prints medians in ms. Nothing is asserted: machines differ, and are shared. With "alone" all that is measured goes before
what else the host has to do (SCHED_RR), for a host that is never idle."""

import contextlib
import importlib.metadata
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from lib import Client, configured, main_pid, text_of  # noqa: E402  (found by the line above)

UV = "/mnt/uv/uv"
PACKAGES = ("numpy", "pandas", "matplotlib")
MODULES = ("numpy", "pandas", "matplotlib.pyplot")
SECONDS = 600
TIMED = "import time\nbegan = time.perf_counter()\nimport {}\nprint((time.perf_counter() - began) * 1000)\n"


@contextlib.contextmanager
def alone():
    """What PID 1 and the daemons start from now on inherits it."""
    pids = [1, os.getpid(), main_pid("mcp-exec.service"), main_pid("mcp-exec-launcher.service")]
    for pid in pids:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        for pid in pids:
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def call(client, script, dependencies=()):
    """(ms of the call, what it printed)."""
    began = time.perf_counter()
    result = client.start("execute_python", {"script": script, "dependencies": list(dependencies)},
                          meta={"progressToken": "bench"}).result(SECONDS)
    spent = (time.perf_counter() - began) * 1000
    if result.get("isError") or result["structuredContent"]["status"] != "ok":
        sys.exit(text_of(result))
    return spent, result["structuredContent"]["stdout"]


def in_turn(rounds, plain, with_set):
    """Medians of both."""
    a, b = [], []
    for _ in range(rounds):
        a.append(plain())
        b.append(with_set())
    return statistics.median(a), statistics.median(b)


def measure(client, rounds, wanted):
    plain, with_set = in_turn(rounds, lambda: call(client, "pass")[0], lambda: call(client, "pass", wanted)[0])
    print(f"{'pass, whole call':24} plain {plain:7.1f}  set {with_set:7.1f}  difference {with_set - plain:6.1f}")
    for module in MODULES:
        script = TIMED.format(module)
        call(client, script, wanted)
        plain, with_set = in_turn(rounds, lambda: float(call(client, script)[1]),
                                  lambda: float(call(client, script, wanted)[1]))
        print(f"{'import ' + module:24} Debian {plain:6.1f}  set {with_set:7.1f}  ratio {with_set / plain:10.2f}")


def main():
    is_alone = "alone" in sys.argv[1:]
    rounds = int(next((word for word in sys.argv[1:] if word.isdecimal()), 15))
    wanted = [f"{name}=={importlib.metadata.version(name).partition("+")[0]}" for name in PACKAGES]
    print(f"{rounds} rounds, medians in ms; {' '.join(wanted)}")
    # What the names of the world lead to in this host's network is its administrator's affair.
    settings = f"[Exec]\nPoolSize=0\n[Sandbox]\nMemoryMax=2G\n[Packages]\nUvPath={UV}\nInternalHosts=*\n"
    with configured(settings), Client() as client:
        print(f"preparing the set: {call(client, 'pass', wanted)[0]:.0f}")
        with alone() if is_alone else contextlib.nullcontext():
            measure(client, rounds, wanted)


if __name__ == "__main__":
    main()
