# SPDX-License-Identifier: MIT
"""Sees every unit of a run come to life. The journal cannot tell: PID 1 says nothing of these units unless
something is wrong with them (LogLevelMax=). The kernel tells of each control group that is made."""

import ctypes
import os
import struct
import time

from lib import show

SLICE = "mcp-exec.slice"
IN_CREATE, IN_DELETE = 0x100, 0x200
# Ends are watched only because the kernel makes one event of two that follow each other and are the same.
WATCHED = IN_CREATE | IN_DELETE
HEAD = struct.Struct("iIII")


class Births:
    """A with block; names() are those of the units that were started in it, once for each start."""

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        group = show(SLICE, "ControlGroup")["ControlGroup"]
        assert group, f"{SLICE} has no control group yet: run something first"
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, f"/sys/fs/cgroup{group}".encode(), WATCHED) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch the control group of {SLICE}")
        self._names = []
        return self

    def __exit__(self, *_):
        os.close(self._fd)

    def names(self, settle=1):
        """Waits until nothing has been started for a while."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < settle:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                time.sleep(0.05)
                continue
            quiet_since = time.monotonic()
            while data:
                _, mask, _, length = HEAD.unpack_from(data)
                name = data[HEAD.size:HEAD.size + length].rstrip(b"\0").decode()
                data = data[HEAD.size + length:]
                # The watch ends with the slice itself, and is lost when the queue is too short.
                assert mask & WATCHED, f"the watch was lost (event {mask:#x})"
                if mask & IN_CREATE and name.startswith("mcp-exec-run-"):
                    self._names.append(name)
        return list(self._names)
