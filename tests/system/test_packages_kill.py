# SPDX-License-Identifier: MIT
"""Killed in the middle of a preparation: the daemon, the launcher, the unit itself. Again, it works, and nothing is
left."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time

import wheels
from held import held_at
from lib import Client, main_pid, minimal_environment, one_release, sh, show, slow, timeout, wait_until
from packages import (FETCHES, INSTALLS, PARSES, SETS, complete, names, nothing_is_left, output, packages, run, start, told,
                      wait_for_unit)

DAEMON, LAUNCHER = "mcp-exec.service", "mcp-exec-launcher.service"
# An installation that takes its time: many files to write and to compile.
MANY = {f"mx_heavy/m{i}.py": f"x = {i}\n" + "def f(a, b):\n    return [a + b for _ in range(3)]\n" * 40 for i in range(1000)}
# Few files, each of which keeps a compiler busy for a second and more.
LARGE = {f"mx_large/m{i}.py": "".join(f"def f{n}(a, b):\n    return [a + {n}, b, {{a: b}}]\n" for n in range(12000))
         for i in range(12)}


def kill_only(unit):
    """Gives its process, or 0 when it was over before."""
    pid = main_pid(unit)
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, signal.SIGKILL)
    return pid


def kill(unit):
    pid = kill_only(unit)
    wait_until(lambda: not pid or show(unit, "MainPID")["MainPID"] != str(pid), 20, f"{unit} is gone")


def leaves_with(*parts):
    """Sets in the making that have a file or directory of this name."""
    return [name for name in names() if any((SETS / name).glob("/".join(parts)))]


def killed_in(what, victim, dependency, has_begun):
    """One preparation in which something is killed; whoever waits is told, or sees the connection end. has_begun: its
    program works. Before that, a unit that dies is replaced by another, and nobody notices."""
    with Client() as client:
        nothing_is_left()
        reply = start(client, "print(1)", dependency)
        unit = wait_for_unit(what)
        wait_until(lambda: has_begun(client), 60, f"its program {what}", step=0.01)
        kill(unit if victim == "unit" else victim)
        expect_end(reply, victim)


def expect_end(reply, victim):
    try:
        result = reply.result(100)
    except ConnectionError:
        assert victim == DAEMON
    else:
        assert victim != DAEMON and result.get("isError") is True, (victim, result)


def phases(client):
    return [m["params"].get("message", "") for m in client.notifications("notifications/progress")]


def killed_at_the_index(index, dependency, path):
    """Each victim while the index takes its time over a path; then it does not any more."""
    for victim in "unit", LAUNCHER, DAEMON:
        index.requests.clear()
        killed_in(FETCHES, victim, dependency, lambda _: path in index.requests)
    with Client() as client:
        index.behaviours.clear()
        module = dependency.replace("-", "_")
        assert output(client, f"import {module}; print({module}.x)", dependency) == "1\n"
        nothing_is_left()
        assert len(complete()) == 1, names()


@timeout(240)
def test_killed_while_resolving():
    with packages() as index:
        index.add(wheels.wheel("mx-hangs", "1.0", {"mx_hangs.py": "x = 1\n"}))
        index.behaviours["mx-hangs"] = "hang"
        killed_at_the_index(index, "mx-hangs", "/simple/mx-hangs/")


@timeout(240)
def test_killed_while_fetching():
    with packages() as index:
        killed_at_the_index(index, "mx-slow", "/files/mx_slow-1.0-py3-none-any.whl")


@timeout(120)
def test_killed_while_reading_what_the_script_needs():
    """So short that it may be over before the kill; a daemon that lives answers in any case."""
    with packages():
        for i, victim in enumerate(("unit", LAUNCHER, DAEMON)):
            with Client() as client:
                reply = start(client, f"# {i}\nprint({i})", f"mx-base!=9.{i}")
                unit = wait_for_unit(PARSES)
                kill(unit if victim == "unit" else victim)
                try:
                    result = reply.result(100)
                except ConnectionError:
                    assert victim == DAEMON
                else:
                    assert victim != DAEMON and (result.get("isError") or told(result)["stdout"] == f"{i}\n"), result
        with Client() as client:
            assert output(client, "import mx_base; print(mx_base.x)", "mx-base!=9.9") == "1\n"
            nothing_is_left()
            assert len(complete()) == 1, names()


@timeout(240)
def test_killed_while_installing():
    with packages() as index:
        index.add(wheels.wheel("mx-heavy", "1.0", {"mx_heavy/__init__.py": "", **MANY}))
        for victim in "unit", LAUNCHER, DAEMON:
            killed_in(INSTALLS, victim, "mx-heavy", lambda _: leaves_with("lib"))
        with Client() as client:
            reply = start(client, "import mx_heavy.m599 as m; print(m.x, m.__cached__ is not None)", "mx-heavy")
            assert told(reply.result(120))["stdout"] == "599 True\n"
            nothing_is_left()
            assert len(complete()) == 1, names()


@timeout(300)
def test_killed_while_compiling():
    with packages() as index:
        index.add(wheels.wheel("mx-large", "1.0", {"mx_large/__init__.py": "", **LARGE}))
        for victim in "unit", LAUNCHER, DAEMON:
            killed_in(INSTALLS, victim, "mx-large", lambda client: any(": compiling" in phase for phase in phases(client)) and
                      leaves_with("lib", "python3*", "site-packages", "mx_large", "__pycache__", "*.pyc"))
        with Client() as client:
            reply = start(client, "import mx_large.m3 as m; print(m.f7(1, 2), m.__cached__ is not None)", "mx-large")
            assert told(reply.result(200))["stdout"] == "[8, 2, {1: 2}] True\n"
            nothing_is_left()
            assert len(complete()) == 1, names()


def launcher_of(client):
    """Its main process, once it is there and connected."""
    run(client, "print(0)")
    return main_pid(LAUNCHER)


@timeout(240)
def test_killed_while_a_set_is_put_in_place():
    """The launcher stands still before it has renamed the set, or after it has and before it could say so."""
    modules = {"mx-base": "mx_base", "mx-demo==1.0": "mx_demo", "mx-modes": "mx_world", "mx-bad-sources": "mx_bad.good"}
    with packages():
        rounds = itertools.product(("enter", "exit"), (LAUNCHER, DAEMON))
        for n, ((moment, victim), (dependency, module)) in enumerate(zip(rounds, modules.items()), 1):
            with Client() as client:
                nothing_is_left()
                with held_at(launcher_of(client), "renameat2", moment) as held:
                    reply = start(client, "print(1)", dependency)
                    held.wait(90)
                    assert len(complete()) == n - 1 + (moment == "exit"), (moment, names())
                    # Whoever is traced is not gone before it is let go.
                    kill_only(victim)
                expect_end(reply, victim)
            with Client() as client:
                assert output(client, f"import {module}; print(1)", dependency) == "1\n"
                nothing_is_left()
                assert len(complete()) == n, names()


def removed_by_name(name):
    return subprocess.Popen(["mcp-exec", "env", "remove", name], env=minimal_environment(), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


@timeout(300)
def test_killed_while_a_set_is_removed():
    """In each of the two moments in which the launcher changes something: the set becomes a leaf, and the emptied leaf
    goes."""
    with packages():
        for call, moment, victim in itertools.product(("renameat2", "unlinkat"), ("enter", "exit"), (LAUNCHER, DAEMON)):
            with Client() as client:
                nothing_is_left()
                pid = launcher_of(client)
                assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
                (name,) = complete()
                with held_at(pid, call, moment) as held:
                    remover = removed_by_name(name)
                    held.wait(60)
                    kill_only(victim)
                remover.wait(60)
            with Client() as client:
                assert output(client, "print(2)") == "2\n"
                nothing_is_left()
                # Before it was a leaf nothing had happened; afterwards it goes on.
                assert complete() == ([name] if (call, moment) == ("renameat2", "enter") and complete() else []), names()
                for left in complete():
                    sh(["mcp-exec", "env", "remove", left])
                wait_until(lambda: names() == [], 30, "the set is gone")


@timeout(240)
def test_the_unit_that_empties_a_set_is_killed():
    with packages() as index:
        index.add(wheels.wheel("mx-heavy", "1.0", {"mx_heavy/__init__.py": "", **MANY}))
        with Client() as client:
            for _ in range(3):
                output(client, "import mx_heavy", "mx-heavy")
                (name,) = complete()
                remover = removed_by_name(name)
                kill(wait_for_unit(INSTALLS))
                # Another one takes its place.
                assert remover.wait(60) == 0
                assert names() == [], names()


@timeout(400)
@slow
@one_release
def test_killed_at_any_moment():
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    chance = random.Random(seed)
    with packages():
        for i in range(30):
            victim = (LAUNCHER, DAEMON)[i % 2]
            with Client() as client:
                reply = start(client, f"import mx_demo; mx_demo.main() # {i}", "mx-demo")
                time.sleep(chance.uniform(0, 1.5))
                kill(victim)
                with contextlib.suppress(ConnectionError):
                    result = reply.result(100)
                    assert result.get("isError") or told(result)["status"] in ("ok", "infra_error"), (seed, i, result)
            with Client() as client:
                assert output(client, "print(1)") == "1\n"
                nothing_is_left()
                assert len(complete()) <= 1, (seed, i, names())
                if i % 3 == 2:
                    assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n", (seed, i)
                    (name,) = complete()
                    sh(["mcp-exec", "env", "remove", name])
                    wait_until(lambda: names() == [], 30, "the set is gone")
