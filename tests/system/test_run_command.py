# SPDX-License-Identifier: MIT
"""`mcp-exec run` and `mcp-exec check`: a person's way in."""

import pathlib
import subprocess
import time

from lib import minimal_environment, sh


def _run(code, *arguments, input=None, check=False):
    path = pathlib.Path("/tmp/run-test.py")
    path.write_text(code)
    return sh(["mcp-exec", "run", *arguments, str(path)], check=check, input=input if input is not None else "")


def test_exit_code_and_both_streams_are_the_programs():
    done = _run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (done.stdout, done.returncode) == ("out\n", 7) and done.stderr == "err\n", done


def test_signal_timeout_and_exit_statuses():
    assert _run("import os; os.kill(os.getpid(), 11)").returncode == 139
    assert _run("import time; time.sleep(60)", "--timeout", "1").returncode == 124
    assert _run("import sys; sys.exit(226)").returncode == 226


def test_stdin_is_passed_on():
    assert _run("import sys; print(sys.stdin.read().upper())", input="abc").stdout == "ABC\n"


def test_program_from_standard_input():
    done = sh(["mcp-exec", "run", "-"], input="print(6 * 7)")
    assert done.stdout == "42\n", done


def test_output_is_live():
    path = pathlib.Path("/tmp/run-live.py")
    path.write_text("import time; print('first'); time.sleep(4); print('second')")
    p = subprocess.Popen(["mcp-exec", "run", str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         env=minimal_environment())
    began = time.monotonic()
    # Unbuffered: the text and its newline are two writes of the program.
    assert p.stdout.readline() == b"first\n"
    first = time.monotonic() - began
    assert p.stdout.read() == b"second\n" and p.wait() == 0
    assert time.monotonic() - began - first > 2, first


def test_any_byte_goes_through_unchanged():
    path = pathlib.Path("/tmp/run-bytes.py")
    path.write_text("import os; os.write(1, bytes(range(256)) * 1000)")
    done = subprocess.run(["mcp-exec", "run", str(path)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=minimal_environment())
    assert done.stdout == bytes(range(256)) * 1000, (len(done.stdout), done.stderr)


def test_missing_module_and_missing_network_are_told_after_the_traceback():
    done = _run("import no_such_module")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("mcp-exec: ") and "not installed here" in last, done
    done = _run("import urllib.request; urllib.request.urlopen('http://192.0.2.7/')")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("mcp-exec: There is no network"), done
    # The exit status alone is nothing to say.
    assert _run("raise SystemExit(3)").stderr == ""


def test_missing_file_and_unknown_option_are_explained():
    done = sh(["mcp-exec", "run", "/nowhere.py"], check=False)
    assert done.returncode not in (0, 139) and "/nowhere.py" in done.stderr, done
    for argv in (["mcp-exec", "nonsense"], ["mcp-exec", "run", "--nonsense", "x"], ["mcp-exec", "serve", "--nonsense"]):
        done = sh(argv, check=False)
        assert done.returncode == 2 and "nonsense" in done.stderr and "--help" in done.stderr, (argv, done)


def test_help_and_version():
    assert sh(["mcp-exec", "--version"]).stdout.startswith("mcp-exec ")
    for command in ([], ["stdio"], ["serve"], ["run"], ["check"], ["print-unit"]):
        assert "Usage" in sh(["mcp-exec", *command, "--help"]).stdout or command == [], command


def test_check_passes_on_a_serving_machine():
    done = sh(["mcp-exec", "check"], check=False)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout
    for word in ("systemd", "cgroup", "seccomp", "launcher", "Python"):
        assert word.lower() in done.stdout.lower(), (word, done.stdout)


def test_check_names_the_remedy_when_the_socket_is_down():
    sh(["systemctl", "stop", "mcp-exec.socket", "mcp-exec-launcher.socket", "mcp-exec.service", "mcp-exec-launcher.service"])
    try:
        done = sh(["mcp-exec", "check"], check=False)
        assert done.returncode == 1 and "systemctl" in done.stdout and "mcp-exec.socket" in done.stdout, done.stdout
    finally:
        sh(["systemctl", "start", "mcp-exec-launcher.socket", "mcp-exec.socket"])


def test_print_unit_shows_every_protection():
    done = sh(["mcp-exec", "print-unit"])
    text = done.stdout
    assert done.stderr == "", done  # nor what else is to be said of this machine: it may have no uv
    for line in ("DynamicUser=", "PrivateNetwork=", "RootDirectory=", "NoNewPrivileges=", "CapabilityBoundingSet=",
                 "SystemCallFilter=", "MemoryMax=", "TasksMax=", "RuntimeMaxUSec=", "RestrictNamespaces=",
                 "RestrictAddressFamilies=", "PrivateIPC=", "ProtectProc=", "TemporaryFileSystem=", "LimitCORE="):
        assert line in text, (line, text)


def test_configuration_errors_are_named_with_file_and_line():
    conf = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/91-bad.conf")
    cases = {"[Exec]\nNoSuchKey=1\n": "NoSuchKey", "[Exec]\nDefaultTimeoutSec=soon\n": "DefaultTimeoutSec",
             "[Nope]\nA=1\n": "Nope", "[Exec]\nDefaultTimeoutSec=400\nMaxTimeoutSec=300\n": "DefaultTimeoutSec"}
    try:
        for text, word in cases.items():
            conf.write_text(text)
            done = sh(["mcp-exec", "stdio", "--no-bridge"], check=False, input="")
            assert not done.stdout and word in done.stderr, (text, done)
            assert "91-bad.conf:" in done.stderr, done.stderr
    finally:
        conf.unlink()


def test_bad_variables_are_named():
    for name, value in (("MCP_EXEC_MAX_OUTPUT_BYTES", "-1"), ("MCP_EXEC_DEFAULT_TIMEOUT_S", "x"),
                        ("MCP_EXEC_TRANSPORT", "pigeon"), ("MCP_EXEC_MAX_STDIN_BYTES", "1.5")):
        done = sh(["mcp-exec"], check=False, input="", env=minimal_environment() | {name: value})
        # Only that one is not known to be a client's, who is told in its calls or served by the system service.
        assert (done.returncode != 0) == (name == "MCP_EXEC_TRANSPORT") and name in done.stderr, (name, done)
