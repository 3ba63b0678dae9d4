#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""init: what it refuses, what it reports, and what it is to the program as PID 1 of a user's unit."""

import os
import signal
import struct
import subprocess

import rig
from rig import equal

CHECKS = rig.checks()


def failure(run, name):
    """The run must end with the number of this check, on the socket and as its status, without a word elsewhere."""
    number = CHECKS[name]
    equal(run.control.recv(64), b"MXFAILED" + struct.pack("<I", number))
    equal(run.finish(), (100 + number, "", ""))


def test_a_failed_check_ends_the_run():
    for mode in ("system", "user"):
        for verb in ("run", "selftest"):
            for name in ("NS_NET", "SECCOMP", "ROOT"):
                with rig.Run(verb, mode, check=CHECKS[name]) as r:
                    failure(r, name)
                    equal(os.path.exists(r.tmp + "/work"), False)


def test_arguments_that_are_not_understood():
    for arguments in ([], ["run"], ["run", rig.PYTHON], ["run", "--mode", "system", "--ns", "net=1", rig.PYTHON]):
        with rig.Run(arguments=arguments) as r:
            failure(r, "ARGUMENTS")


def test_a_control_socket_is_needed():
    with rig.Run() as r:
        r.send("pass")
        r.finish()
        done = subprocess.run([rig.INIT_AT, r.tmp, r.tmp, "0", "run", "--mode", "system", "--ns", rig.NAMESPACES,
                               rig.PYTHON],
                              stdin=subprocess.DEVNULL, capture_output=True)
        equal((done.returncode, done.stdout, done.stderr), (100 + CHECKS["CONTROL"], b"", b""))


def test_a_world_that_is_not_new():
    with rig.Run(prepare=lambda tmp: os.mkdir(tmp + "/work")) as r:
        failure(r, "PREPARE")


def test_a_missing_interpreter():
    with rig.Run(python="/nonexistent/python3") as r:
        failure(r, "INTERPRETER")


def test_descriptors_of_others_are_closed():
    reader, writer = os.pipe()
    try:
        with rig.Run(pass_fds=(writer,)) as r:
            r.send("import os\nprint(sorted(os.listdir('/proc/self/fd')))\n")
            equal(r.finish()[1], "['0', '1', '2', '3']\n")
    finally:
        os.close(reader)
        os.close(writer)


def test_self_test_proves_the_interpreter_and_waits():
    for mode in ("system", "user"):
        with rig.Run("selftest", mode) as r:
            try:
                r.process.wait(1)
                raise AssertionError(f"did not wait: {r.finish()}")
            except subprocess.TimeoutExpired:
                pass
            r.control.close()
            equal(r.finish(), (0, "", ""))


def test_self_test_needs_a_working_interpreter():
    for python in ("/bin/true", "/bin/false", "/nonexistent/python3"):
        with rig.Run("selftest", python=python) as r:
            failure(r, "INTERPRETER")


def test_user_mode_reports_the_end():
    for code, word, status in (("pass", 0, 0), ("raise SystemExit(3)", 3, 3),
                               ("import os; os._exit(255)", 255, 255),
                               ("import os; os.kill(os.getpid(), 9)", 0x109, 137),
                               ("import os; os.abort()", 0x106, 134),
                               ("import os; os.kill(os.getpid(), 15)", 0x10f, 143)):
        with rig.Run(mode="user") as r:
            r.send(code, keep=True)
            equal(r.control.recv(64), b"MXSTAT\0\0" + struct.pack("<H", word))
            equal(r.finish(), (status, "", ""))


def test_user_mode_sees_the_end_although_children_are_ignored():
    with rig.Run(mode="user", before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as r:
        r.send("raise SystemExit(3)", keep=True)
        equal(r.control.recv(64), b"MXSTAT\0\0\x03\0")
        equal(r.finish()[0], 3)


def test_user_mode_program_has_its_streams_only():
    with rig.Run(mode="user") as r:
        r.send("import os\nprint(sorted(os.listdir('/proc/self/fd')), open('/dev/stdin').read())\n", "in", keep=True)
        equal(r.finish(), (0, "['0', '1', '2', '3'] in\n", ""))


def test_user_mode_program_cannot_look_into_init():
    if not os.path.exists("/usr/bin/python3"):
        raise rig.Skip("no interpreter that every user can run")
    user = 65534 if os.geteuid() == 0 else None  # root may look everywhere
    code = ("import os\np = os.getppid()\nfor name in ('environ', 'fd', 'mem'):\n"
            "    print(name, os.access(f'/proc/{p}/{name}', os.R_OK))\n")
    try:
        run = rig.Run(mode="user", user=user, python="/usr/bin/python3")
    except PermissionError:
        raise rig.Skip("the build directory is closed to other users") from None
    with run as r:
        r.send(code, keep=True)
        equal(r.finish()[1], "environ False\nfd False\nmem False\n")


def test_user_mode_ends_with_the_daemon():
    with rig.Run(mode="user") as r:
        r.send("import os, time\nprint(os.getpid())\ntime.sleep(600)\n", keep=True)
        program = int(r.read_until(b"\n"))
        r.control.close()
        equal(r.process.wait(rig.SECONDS), 0)
        os.kill(program, signal.SIGKILL)  # no process namespace here that would do it


def test_user_mode_ends_with_the_daemon_before_the_code():
    with rig.Run(mode="user") as r:
        r.ready()
        r.control.close()
        equal(r.finish()[0], 0)


if __name__ == "__main__":
    rig.main()
