# SPDX-License-Identifier: MIT
"""A process that stands still in the middle of a system call: before the kernel does anything (enter), or when all is done
and the process does not know yet (exit). strace holds it; whoever kills it meanwhile kills it right there."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

from lib import wait_until

HOLD_USEC = 600 * 1000 * 1000


class Held:
    def __init__(self, pid, log, moment):
        self.pid, self.log, self.moment = pid, log, moment

    def wait(self, seconds):
        """Until it is there. strace writes the call's line when it begins, and its result when the kernel is done."""
        wait_until(lambda: (") = " if self.moment == "exit" else "(") in self.log.read_text(), seconds,
                   f"process {self.pid} makes the call", step=0.01)


@contextlib.contextmanager
def held_at(pid, call, moment):
    """The first such call from now on; leaving the block lets go of whatever lives."""
    with tempfile.TemporaryDirectory() as where:
        log = pathlib.Path(where, "log")
        tracer = subprocess.Popen(
            ["strace", "-qq", "-p", str(pid), "-o", str(log), "-e", f"trace={call}", "-e", "signal=none",
             "-e", f"inject={call}:delay_{moment}={HOLD_USEC}:when=1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: f"TracerPid:\t{tracer.pid}\n" in pathlib.Path(f"/proc/{pid}/status").read_text(), 20,
                       "strace holds the process")
            yield Held(pid, log, moment)
        finally:
            tracer.terminate()
            tracer.wait()
