#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the sandbox costs: bare python3 beside exec with and without a warm unit, in one run, in turn.

Inside a test machine, as root:

    tests/run shell --suite trixie --deb -- python3 /mnt/tree/tests/bench/compare.py [ROUNDS]

Prints medians in ms and their ratio to bare python3. Nothing is asserted: machines differ, and are shared."""

import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from lib import Client, configured, minimal_environment, wait_until, run_units

CASES = {"pass": "pass", "print 1 MB": "print('x' * 1000000)",
         "100,000 prints": "for i in range(100000): print(i)", "import numpy": "import numpy"}


def bare(code):
    subprocess.run(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, env=minimal_environment(), check=True)


def timed(function, *arguments):
    began = time.perf_counter()
    function(*arguments)
    return (time.perf_counter() - began) * 1000


def measure(client, is_warm, rounds):
    medians = {}
    for name, code in CASES.items():
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(timed(bare, code))
            if is_warm:
                wait_until(run_units, 10)
                time.sleep(0.2)
            ours.append(timed(client.exec, code))
        medians[name] = statistics.median(theirs), statistics.median(ours)
    return medians


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"{rounds} rounds, medians in ms")
    for title, pool in ("cold", 0), ("warm", 1):
        with configured(f"[Exec]\nPoolSize={pool}\n"), Client() as client:
            client.exec("pass")
            for name, (theirs, ours) in measure(client, pool > 0, rounds).items():
                print(f"{title}  {name:16} bare {theirs:7.1f}  exec {ours:7.1f}  ratio {ours / theirs:5.2f}")


if __name__ == "__main__":
    main()
