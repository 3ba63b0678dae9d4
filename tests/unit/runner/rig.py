# SPDX-License-Identifier: MIT
"""Plays the daemon for one run: starts init with directories of the test's own, speaks the control protocol.

No service manager and no sandbox are needed: init-at is init with the checks decided by the test. The environment names
what is tested: INIT_AT, RUNNER (runner.py), CHECKS_H."""

import os
import pathlib
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

INIT_AT = os.environ["INIT_AT"]
RUNNER = os.environ["RUNNER"]
CHECKS_H = os.environ["CHECKS_H"]
PYTHON = os.path.realpath(sys.executable)
SECONDS = 60
NAMESPACES = "net=1,mnt=2,ipc=3,user=4,pid=5"


class Skip(Exception):
    """This machine cannot run the test; the reason is printed."""


def checks():
    """{name: number} of checks.h."""
    text = pathlib.Path(CHECKS_H).read_text()
    return {name: int(number) for number, name in re.findall(r"X\((\d+), ([A-Z_]+),", text)}


def message(code=b"", stdin=b"", files=(), magic=b"MXCODE2\n"):
    """The daemon's one message."""
    code, stdin = (part.encode() if isinstance(part, str) else part for part in (code, stdin))
    header = struct.pack("<8sQQQ", magic, len(code), len(stdin), len(files))
    return header + code + stdin + b"".join(
        struct.pack("<IQ", len(name), len(content)) + name + content for name, content in files)


class Run:
    """One run: a directory that is its /tmp, a control socket, pipes. Use as a context manager."""

    def __init__(self, verb="run", mode="system", check=0, python=PYTHON, prepare=None, arguments=None, pass_fds=(),
                 user=None, before=None):
        self.tmp = tempfile.mkdtemp(prefix="mcp-exec-runner-")
        hook = self.tmp + "/hook"
        os.mkdir(hook)
        shutil.copy(RUNNER, hook + "/sitecustomize.py")
        if prepare:
            prepare(self.tmp)
        if user is not None:
            for path in (self.tmp, hook):
                os.chown(path, user, user)
        self.control, far = socket.socketpair()
        self.control.settimeout(SECONDS)
        if arguments is None:
            arguments = [verb, "--mode", mode, "--ns", NAMESPACES, python]
        elif callable(arguments):
            arguments = arguments(self.tmp)
        self.process = subprocess.Popen([INIT_AT, self.tmp, hook, str(check), *arguments], stdin=far,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                        env={"OMP_NUM_THREADS": "2", "API_TOKEN": "secret"}, pass_fds=pass_fds,
                                        user=user, group=user, preexec_fn=before)
        far.close()
        self.directory = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self.control.close()
        if self.directory is not None:
            os.close(self.directory)
        shutil.rmtree(self.tmp, ignore_errors=True)

    def ready(self):
        text, fds, _, _ = socket.recv_fds(self.control, 12, 1)
        if text != b"MXREADY\n" or len(fds) != 1:
            raise AssertionError(f"not ready: {text!r}, {len(fds)} fds, {self.process.stderr.read()}")
        self.directory = fds[0]

    def send(self, *args, keep=False, **kwargs):
        self.ready()
        self.control.sendall(message(*args, **kwargs))
        if not keep:
            self.control.close()

    def finish(self):
        """(exit status, stdout, stderr), texts decoded."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def read_until(self, text):
        """What comes on stdout until it ends with text."""
        data = b""
        while not data.endswith(text):
            if not select.select([self.process.stdout], [], [], SECONDS)[0]:
                raise AssertionError(f"nothing after {data!r}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"ended with {data!r}: {self.process.stderr.read()}")
            data += more
        return data


def run(code, *args, **kwargs):
    """Runs a program to its end: (exit status, stdout, stderr)."""
    with Run() as r:
        r.send(code, *args, **kwargs)
        return r.finish()


def value(code, *args, **kwargs):
    """Runs a program that must succeed without a word on stderr, and evaluates the Python value it prints."""
    status, out, err = run(code, *args, **kwargs)
    equal((status, err), (0, ""))
    return eval(out)  # our own program's output


def bare(code, stdin=b""):
    """The same program by the same interpreter without us: (exit status, stdout, stderr)."""
    with tempfile.TemporaryDirectory(prefix="mcp-exec-bare-") as tmp:
        os.makedirs(tmp + "/work")
        pathlib.Path(tmp, "work/main.py").write_text(code)
        done = subprocess.run([PYTHON, "main.py"], cwd=tmp + "/work", input=stdin, capture_output=True, timeout=SECONDS,
                              env={"HOME": tmp, "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin",
                                   "PYTHONUNBUFFERED": "1", "TMPDIR": tmp})
    # Bare Python makes the script's name absolute in tracebacks.
    out, err = (text.decode(errors="replace").replace(f"{tmp}/work/", "") for text in (done.stdout, done.stderr))
    return done.returncode, out, err


def steady(text):
    """Without what differs from one process to the next: addresses, thread identifiers."""
    return re.sub(r"0x[0-9a-f]+|started \d+", "X", text)


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"got {actual!r}\nexpected {expected!r}")


def main():
    """Runs the tests of the file that calls, or those whose names contain an argument; prints TAP."""
    tests = [(name, f) for name, f in sys.modules["__main__"].__dict__.items() if name.startswith("test_")]
    if len(sys.argv) > 1:
        tests = [t for t in tests if any(word in t[0] for word in sys.argv[1:])]
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - {name[5:]}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name[5:]} # SKIP {reason}", flush=True)
        except Exception:
            failed = True
            for line in traceback.format_exc().splitlines():
                print(f"# {line[:2000]}")
            print(f"not ok {number} - {name[5:]}", flush=True)
    sys.exit(failed)
