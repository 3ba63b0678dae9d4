# SPDX-License-Identifier: MIT
"""Verdicts from all machines and tiers, brought together and counted."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import time

import host

KEPT = 8                        # results of earlier runs that are kept,
KEPT_SECONDS = 6 * 3600         # and all younger ones, for they may still be written
RAN = ("pass", "fail")


@dataclasses.dataclass
class Result:
    place: str                  # trixie, bookworm, sid: the release; or a tier of the build
    test: str
    verdict: str                # pass, fail, skip, unmet
    seconds: float = 0
    message: str = ""


def folder():
    """A new directory for the logs and verdicts of this run."""
    base = host.CACHE / "runs"
    base.mkdir(parents=True, exist_ok=True)
    old = sorted(p for p in base.iterdir() if p.is_dir())
    for path in old[:-KEPT]:
        with contextlib.suppress(OSError):  # another run may remove it at the same time
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    new = base / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    new.mkdir()
    return new


def read(place, machine, path):
    """The verdicts that a machine streamed; a stream without its end is a failure of the machine."""
    found, ended = [], False
    if pathlib.Path(path).exists():
        for line in pathlib.Path(path).read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("end"):
                ended = True
            else:
                found.append(Result(place, **entry))
    if not ended:
        last = found[-1].test if found else "no test"
        message = f"the machine ended early, after {last}"
        found.append(Result(place, f"{machine}.machine", "fail", 0, message))
    return found


def united(results):
    """One verdict for each place and test that ran; what ran nowhere is one skip."""
    ran = [r for r in results if r.verdict in RAN]
    ran_somewhere = {r.test for r in ran}
    skipped = {}
    for result in results:
        if result.verdict not in RAN and result.test not in ran_somewhere:
            # The test's own reason says more than what the machine lacks.
            if result.test not in skipped or result.verdict == "skip":
                skipped[result.test] = dataclasses.replace(result, verdict="skip", place="everywhere")
    return ran + list(skipped.values())


def unmet(results):
    """Names of the tests that a machine could not run, or that had nothing to say there."""
    ran = {r.test for r in results if r.verdict in RAN}
    return sorted({r.test for r in results if r.verdict not in RAN} - ran)


def report(results, where):
    """Prints failures and skips with their reasons and the one line that counts; the exit status."""
    counts = {"pass": 0, "fail": 0, "skip": 0}
    for result in results:
        counts[result.verdict] += 1
    for result in results:
        if result.verdict == "fail":
            text = "\n    ".join(result.message.splitlines()[-25:])
            print(f"\nFAILED {result.place}: {result.test}\n    {text}")
    for result in results:
        if result.verdict == "skip":
            print(f"SKIPPED {result.place}: {result.test}: {' '.join(result.message.split())[:300]}")
    if counts["fail"]:
        print(f"\nLogs and journals: {where}")
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped", flush=True)
    return 1 if counts["fail"] or not counts["pass"] else 0
