# SPDX-License-Identifier: MIT
"""Runs the system tests inside a test machine, each in a process of its own, and streams their verdicts.

Writes RESULTS/results.jsonl, one object a line: test, verdict (pass, fail, skip, unmet), seconds, message. A
test is `unmet` when this machine lacks what it needs; the host then runs it elsewhere. A test in which the server
sends a message that fits no schema of its revision has failed. Usage inside a machine:
    python3 run.py --results DIR [--where container|vm] [--factor N] [--quick] [--also-vm] [--names FILE]
    [NAME...]
A NAME matches a test when it is a part of FILE.FUNCTION."""

import argparse
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import lib  # noqa: E402  (only found beside this file)

DEFAULT_TIMEOUT = 60
SKIPPED = 77


def discover(scripts):
    """Every test as (name, function), files in alphabetical order and tests in the order written."""
    found = []
    for file in sorted(HERE.glob(scripts)):
        try:
            module = importlib.import_module(file.stem)
        except Exception:
            found.append((f"{file.stem}.import", traceback.format_exc()))
            continue
        for name, function in vars(module).items():
            if name.startswith("test_") and callable(function) and function.__module__ == module.__name__:
                found.append((f"{file.stem}.{name}", function))
    return found


def why_not_here(function, where):
    if getattr(function, "vm_only", False) and where != "vm":
        return "only in the vm"
    missing = lib.unmet(getattr(function, "needs", ()))
    return f"needs {', '.join(missing)}" if missing else None


def run_one(name, results):
    """In the child: the test itself. The exit status is the verdict, stderr the message."""
    module, _, function = name.partition(".")
    try:
        getattr(importlib.import_module(module), function)()
        assert not lib.schemas.Listener.failures, lib.schemas.Listener.failures
    except lib.Skip as reason:
        print(reason, file=sys.stderr)
        return SKIPPED
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        with open(results / "messages", "a") as out:
            print(name, lib.schemas.Listener.n_checked, file=out)
    return 0


def messages_checked(results, must_be_some):
    """How many messages of the server all tests held against their schemas, and what is wrong with that."""
    path = results / "messages"
    n = sum(int(line.split()[1]) for line in path.read_text().splitlines()) if path.exists() else 0
    if not lib.schemas.jsonschema:
        return n, "python3-jsonschema is not installed: no message of the server was checked"
    return n, "no test heard the server say anything" if must_be_some and not n else ""


def save_journal(results, name, since):
    with open(results / f"journal-{name}.txt", "wb") as out:
        subprocess.run(["journalctl", "--boot", "--lines=400", "--no-pager", "--all",
                        "--output=short-precise", f"--since=@{int(since)}"], stdout=out, stderr=subprocess.STDOUT, timeout=60)


def supervise(name, limit, results):
    """One test with its deadline; returns (verdict, seconds, message)."""
    log = results / "log" / f"{name}.txt"
    log.parent.mkdir(exist_ok=True)
    since = time.time()
    started = time.monotonic()
    with open(log, "wb") as out:
        argv = [sys.executable, str(HERE / "run.py"), "--one", name, "--results", str(results)]
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
    # Whatever the test left behind in its session goes, whether it ended or not.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    seconds = time.monotonic() - started
    message = log.read_text(errors="replace")[-6000:]
    if status == 0:
        return "pass", seconds, ""
    if status == SKIPPED:
        return "skip", seconds, message.strip()
    if status is None:
        message += f"\nkilled: no end within {limit} s"
    try:
        save_journal(results, name, since)
    except (OSError, subprocess.SubprocessError):
        pass
    return "fail", seconds, message.strip()


def wanted(name, arguments, names):
    if names is not None:
        return name in names
    return not arguments.name or any(part in name for part in arguments.name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--where", choices=("container", "vm", "host"), default="container")
    parser.add_argument("--factor", type=float, default=1, help="multiplies each test's timeout")
    parser.add_argument("--quick", action="store_true", help="leaves out the tests marked slow")
    parser.add_argument("--names", type=pathlib.Path, help="a file with the exact names of the tests to run")
    parser.add_argument("--also-vm", action="store_true", help="with --names: those marked also_vm too")
    parser.add_argument("--scripts", default="test_*.py", help="which files hold the tests")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("name", nargs="*")
    arguments = parser.parse_args()
    if arguments.one:
        return run_one(arguments.one, arguments.results)
    names = set(arguments.names.read_text().split()) if arguments.names else None
    tests = []
    for name, function in discover(arguments.scripts):
        if wanted(name, arguments, names) or (arguments.also_vm and getattr(function, "also_vm", False)):
            tests.append((name, function))
    if arguments.list:
        print("\n".join(name for name, _ in tests))
        return 0

    results = arguments.results
    results.mkdir(parents=True, exist_ok=True)
    failed = 0
    with open(results / "results.jsonl", "a", buffering=1) as stream:
        for name, function in tests:
            if isinstance(function, str):       # the file could not be imported
                verdict, seconds, message = "fail", 0, function
            elif arguments.quick and getattr(function, "slow", False):
                verdict, seconds, message = "skip", 0, "slow, and --quick was given"
            elif (reason := why_not_here(function, arguments.where)) is not None:
                verdict, seconds, message = "unmet", 0, reason
            else:
                limit = getattr(function, "timeout", DEFAULT_TIMEOUT) * arguments.factor
                verdict, seconds, message = supervise(name, limit, results)
            failed += verdict == "fail"
            stream.write(json.dumps({"test": name, "verdict": verdict, "seconds": round(seconds, 2),
                                     "message": message}) + "\n")
            # The name and verdict also on the console, so that a person can watch.
            last = message.splitlines()[-1] if message else ""
            print(f"{verdict:5} {seconds:7.2f} s  {name}  {last}"[:200], flush=True)
        n, problem = messages_checked(results, arguments.scripts == "test_*.py" and not arguments.name and names is None)
        failed += problem != ""
        stream.write(json.dumps({"test": f"messages.{arguments.where}", "verdict": "fail" if problem else "pass",
                                 "seconds": 0, "message": problem}) + "\n")
        print(f"{n} messages of the server fit their schemas. {problem}", flush=True)
        stream.write(json.dumps({"end": True}) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
