#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon's side of the seam in Python, for tests of the launcher: messages, descriptors, one whole run.

As a program it runs Python code through a launcher and prints what happened:
    seam.py [--socket PATH | --user LAUNCHER] [CODE...]"""

import argparse
import array
import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import time

VERSION, MAGIC = 3, 0x4578434D
START, ASSIGN, STOP, SET, HELLO, STARTED, FINISHED, REFUSED, SET_DONE, LOOK = range(1, 11)
RUN, PARSE, FETCH, INSTALL = range(4)
COMMIT, RETIRE, DROP = range(3)
HEADER = struct.Struct("=IHHQ")
LIMITS = struct.Struct("=4Q")
BODIES = {
    START: struct.Struct("=II64s4Q"),
    ASSIGN: LIMITS,
    STOP: struct.Struct("="),
    LOOK: struct.Struct("="),
    SET: struct.Struct("=I4x64s64s"),
    HELLO: struct.Struct("=IBBBBII5Q64s" + 8 * "256s" + "256s512s256s256s512s512s"),
    STARTED: struct.Struct("=Q64s33s7x"),
    FINISHED: struct.Struct("=IB3xiiQQQQ"),
    REFUSED: struct.Struct("=512s512s"),
    SET_DONE: struct.Struct("=I4x256s"),
}
FIELDS = {
    HELLO: ("verdict", "is_user", "has_memory_peak", "controllers", "is_relaxed", "manager_version",
            "n_interpreters", "memory_max_bytes", "tasks_max", "cpu_quota_per_sec_usec", "runtime_max_usec",
            "tmpfs_bytes", "manager_version_text", "interpreter", *(f"interpreter{i}" for i in range(1, 8)),
            "sets_directory", "sets_reason", "uv", "uv_on_host", "reason", "remedy"),
    STARTED: ("monotonic_usec", "unit", "invocation_id"),
    FINISHED: ("result", "start_failed", "main_code", "main_status", "start_monotonic_usec",
               "exit_monotonic_usec", "cpu_nsec", "memory_peak_bytes"),
    REFUSED: ("reason", "remedy"),
    SET_DONE: ("error", "text"),
}
RESULTS = ("success", "exit-code", "signal", "core-dump", "timeout", "oom-kill", "resources", "protocol", "watchdog",
           "start-limit-hit", "exec-condition", "other", "gone")
SECOND, MIB = 1_000_000, 1 << 20
DEFAULT_LIMITS = (60 * SECOND, 256 * MIB, 64, SECOND)


def pack(kind, job, *body, magic=MAGIC, version=VERSION):
    return HEADER.pack(magic, version, kind, job) + BODIES[kind].pack(*body)


def start_packet(job, limits=DEFAULT_LIMITS, profile=0, interpreter=0, environment=bytes(64)):
    return pack(START, job, profile, interpreter, environment, *limits)


def unpack(packet):
    """(kind, job, {field: value}) of a message from the launcher."""
    magic, version, kind, job = HEADER.unpack_from(packet)
    assert (magic, version) == (MAGIC, VERSION), (magic, version)
    values = BODIES[kind].unpack(packet[HEADER.size:])
    values = [v.rstrip(b"\0").decode() if isinstance(v, bytes) else v for v in values]
    fields = dict(zip(FIELDS[kind], values))
    if kind == FINISHED:
        fields["result"] = RESULTS[fields["result"]]
    return kind, job, fields


class Launcher:
    """A connection. next() gives one message; None at its end."""

    def __init__(self, connection, process=None):
        self.socket, self.process, self.n_jobs = connection, process, 0

    @classmethod
    def connect(cls, path="/run/mcp-exec/launcher.sock"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(path)
        return cls(connection)

    @classmethod
    def spawn(cls, program, **kwargs):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = subprocess.Popen([program, "--user", f"--connection={theirs.fileno()}"],
                                   pass_fds=[theirs.fileno()], **kwargs)
        theirs.close()
        return cls(ours, process)

    def send(self, packet, fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([packet], ancillary)

    def next(self, seconds=60):
        self.socket.settimeout(seconds)
        try:
            packet = self.socket.recv(65536)
        except ConnectionResetError:
            return None
        return unpack(packet) if packet else None

    def expect(self, kind, job=0, seconds=60):
        message = self.next(seconds)
        assert message and message[:2] == (kind, job), f"expected kind {kind} of job {job}, got {message}"
        return message[2]

    def start(self, limits=DEFAULT_LIMITS, **kwargs):
        """kwargs: profile, interpreter, environment (hex digits)."""
        self.n_jobs += 1
        return Unit(self, self.n_jobs, limits, **kwargs)

    def change_set(self, action, environment, to=""):
        """COMMIT, RETIRE or DROP; returns the errno. No unit may be about to end meanwhile."""
        self.n_jobs += 1
        self.send(pack(SET, self.n_jobs, action, environment.encode(), to.encode()))
        return self.expect(SET_DONE, self.n_jobs)["error"]

    def close(self):
        self.socket.close()
        if self.process:
            self.process.wait(20)


class Unit:
    """One run: START was sent; then ready(), feed(), collect()."""

    def __init__(self, launcher, job, limits=DEFAULT_LIMITS, profile=RUN, interpreter=0, environment=""):
        self.launcher, self.job, self.directory = launcher, job, None
        self.control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        (self.out, out), (self.err, err) = os.pipe(), os.pipe()
        for fd in out, err:
            os.fchmod(fd, 0o222)
        launcher.send(start_packet(job, limits, profile, interpreter, environment.encode()), [far.fileno(), out, err])
        far.close()
        for fd in out, err:
            os.close(fd)

    def ready(self, seconds=30):
        self.control.settimeout(seconds)
        data, ancillary, _, _ = self.control.recvmsg(8, 64)
        if data == b"MXFAILED":
            raise AssertionError(f"the runner's check {struct.unpack('<I', self.control.recv(4))[0]} failed")
        assert data == b"MXREADY\n", data
        self.directory = array.array("i", ancillary[0][2])[0]

    def feed(self, code, stdin=b""):
        code = code.encode()
        self.control.sendall(struct.pack("<8sQQQ", b"MXCODE2\n", len(code), len(stdin), 0) + code + stdin)

    def line(self):
        """What the program prints, up to the end of a line: each write of it may come by itself."""
        data = b""
        while not data.endswith(b"\n") and (more := os.read(self.out, 100)):
            data += more
        return data

    def assign(self, limits):
        self.launcher.send(pack(ASSIGN, self.job, *limits))

    def stop(self):
        self.launcher.send(pack(STOP, self.job))

    def collect(self):
        """Both streams, read until the launcher has said the last word. Returns (out, err, last message)."""
        streams, texts, last = [self.out, self.err], {self.out: b"", self.err: b""}, None
        while last is None:
            for fd in select.select([*streams, self.launcher.socket], [], [], 60)[0]:
                if fd is self.launcher.socket:
                    message = self.launcher.next()
                    if message is None or message[0] in (FINISHED, REFUSED):
                        last = message or (None, self.job, {})
                else:
                    data = os.read(fd, 65536)
                    texts[fd] += data
                    if not data:
                        streams.remove(fd)
        for fd in streams:
            os.set_blocking(fd, False)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(fd, 65536):
                    texts[fd] += data
        self.close()
        return texts[self.out], texts[self.err], last

    def close(self):
        self.control.close()
        for fd in self.out, self.err, self.directory:
            if fd is not None:
                os.close(fd)


def run(launcher, code, stdin=b"", limits=DEFAULT_LIMITS, **kwargs):
    unit = launcher.start(limits, **kwargs)
    unit.ready()
    unit.feed(code, stdin)
    return unit.collect()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--socket", default="/run/mcp-exec/launcher.sock")
    parser.add_argument("--user", metavar="LAUNCHER", help="start this launcher and use the user's manager")
    parser.add_argument("code", nargs="*", default=["print('hello')"])
    arguments = parser.parse_args()
    launcher = Launcher.spawn(arguments.user) if arguments.user else Launcher.connect(arguments.socket)
    hello = launcher.expect(HELLO)
    print("HELLO", hello)
    for code in arguments.code:
        before = time.monotonic()
        out, err, (kind, _, fields) = run(launcher, code)
        print({FINISHED: "FINISHED", REFUSED: "REFUSED"}.get(kind), fields)
        print(f"{(time.monotonic() - before) * 1000:.1f} ms\n{out.decode()}", end="")
        print(err.decode(), file=sys.stderr, end="")
    launcher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
