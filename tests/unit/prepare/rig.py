# SPDX-License-Identifier: MIT
"""Runs the programs that prepare packages as the daemon does, outside of units, with a directory of the test's for /env.

PREPARE names the directory of the built programs. A real uv is used where MCP_EXEC_UV or PATH has one; the others play it
(FakeUv), for no build machine need have it."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

PREPARE = os.environ["PREPARE"]
PYTHON = os.path.realpath(sys.executable)
SECONDS = 120

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "system"))


class Skip(Exception):
    """This machine cannot run the test; the reason is printed."""


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"got {actual!r}\nexpected {expected!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


def load(name):
    """The program as a module, for tests of its functions."""
    spec = importlib.util.spec_from_file_location("prepare_" + name, f"{PREPARE}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SystemExit as e:
        raise Skip(str(e)) from None
    return module


def run(name, order, environment=None):
    """(answer, lines of stderr) of a program, which must end well."""
    data = order if isinstance(order, bytes) else json.dumps(order).encode()
    done = subprocess.run([PYTHON, "-B", f"{PREPARE}/{name}.py"], input=data, capture_output=True, timeout=SECONDS,
                          env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **(environment or {})})
    if done.returncode != 0 or not done.stdout.isascii() or done.stdout.count(b"\n") != 1:
        if b"no module 'packaging'" in done.stderr:
            raise Skip("the interpreter has no module packaging")
        raise AssertionError(f"{name} ended with {done.returncode}: {done.stdout[-500:]!r} {done.stderr[-3000:].decode()}")
    return json.loads(done.stdout), done.stderr.decode().splitlines()


def real_uv():
    path = os.environ.get("MCP_EXEC_UV") or shutil.which("uv")
    if not path:
        raise Skip("no uv on this machine (MCP_EXEC_UV= names one)")
    return path


def need(program):
    if not shutil.which(program):
        raise Skip(f"no {program} on this machine")


class Prefix:
    """A directory in the place of /env; a real or a played uv. Use as a context manager."""

    def __init__(self, uv=None):
        self.top = tempfile.mkdtemp(prefix="mcp-exec-prepare-")
        self.path = self.top + "/env"
        os.mkdir(self.path)
        self.uv = uv

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for directory, names, _ in os.walk(self.top):
            for name in names:
                if not os.path.islink(os.path.join(directory, name)):
                    os.chmod(os.path.join(directory, name), 0o700)
        shutil.rmtree(self.top)

    def fetch(self, requirements, environment=None, **order):
        """(answer, lines)"""
        return run("fetch", {"prefix": self.path, "uv": self.uv, "python": PYTHON, "requirements": requirements,
                             "budget_s": 60, **order}, environment)

    def install(self, lock_sha256, **order):
        return run("install", {"prefix": self.path, "uv": self.uv, "python": PYTHON, "lock_sha256": lock_sha256,
                               **order})

    def remove(self, **order):
        return run("remove", {"prefix": self.path, **order})

    def names(self):
        return sorted(os.listdir(self.path))

    def play_uv(self, status=0, stderr="", lock=""):
        """A uv that answers "pip compile" as told, and unpacks for "pip install"."""
        self.uv = self.top + "/uv"
        pathlib.Path(self.top, "played.json").write_text(json.dumps({"status": status, "stderr": stderr, "lock": lock}))
        program = pathlib.Path(__file__).with_name("fake_uv.py").read_text()
        pathlib.Path(self.uv).write_text(f"#!{PYTHON} -BIS\n{program}")
        os.chmod(self.uv, 0o755)
        return self


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
