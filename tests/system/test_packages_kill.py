# SPDX-License-Identifier: MIT
"""Killed in the middle of a preparation: the daemon, the launcher, the unit itself. Again, it works, and nothing is
left."""

import contextlib
import os
import signal

import wheels
from lib import Client, main_pid, show, timeout, wait_until
from packages import (FETCHES, INSTALLS, PARSES, SETS, complete, names, nothing_is_left, output, packages, start, told,
                      wait_for_unit)

DAEMON, LAUNCHER = "mcp-exec.service", "mcp-exec-launcher.service"
# An installation that takes its time: many files to write and to compile.
MANY = {f"mx_heavy/m{i}.py": f"x = {i}\n" + "def f(a, b):\n    return [a + b for _ in range(3)]\n" * 40 for i in range(1000)}


def kill(unit):
    pid = main_pid(unit)
    if not pid:
        return                  # it was over before
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: show(unit, "MainPID")["MainPID"] != str(pid), 20, f"{unit} is gone")


def has_begun(what, index):
    """Its program works: before that, a unit that dies is replaced by another, and nobody notices."""
    if what == FETCHES:
        return "/files/mx_slow-1.0-py3-none-any.whl" in index.requests
    return any((SETS / name / "lib").is_dir() for name in names())


def killed_in(what, victim, dependency, index):
    """One preparation in which something is killed; whoever waits is told, or sees the connection end."""
    with Client() as client:
        nothing_is_left()
        index.requests.clear()
        reply = start(client, "print(1)", dependency)
        unit = wait_for_unit(what)
        wait_until(lambda: has_begun(what, index), 60, f"its program {what}", step=0.01)
        kill(unit if victim == "unit" else victim)
        try:
            result = reply.result(100)
        except ConnectionError:
            assert victim == DAEMON
        else:
            assert victim != DAEMON and result.get("isError") is True, (victim, result)


@timeout(240)
def test_killed_while_fetching():
    with packages() as index:
        for victim in "unit", LAUNCHER, DAEMON:
            killed_in(FETCHES, victim, "mx-slow", index)
        with Client() as client:
            del index.behaviours["mx_slow-1.0-py3-none-any.whl"]
            assert output(client, "import mx_slow; print(mx_slow.x)", "mx-slow") == "1\n"
            nothing_is_left()
            assert len(complete()) == 1, names()


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
            killed_in(INSTALLS, victim, "mx-heavy", index)
        with Client() as client:
            reply = start(client, "import mx_heavy.m599 as m; print(m.x, m.__cached__ is not None)", "mx-heavy")
            assert told(reply.result(120))["stdout"] == "599 True\n"
            nothing_is_left()
            assert len(complete()) == 1, names()
