# SPDX-License-Identifier: MIT
"""What the protocol tests in Python are written with: the real programs, a fake launcher, TAP as output.

A test file holds functions test_<behaviour>() and ends with harness.main(). The environment names the programs:
MCP_EXEC, FAKE_LAUNCHER."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import schemas

MCP_EXEC = os.environ.get("MCP_EXEC", "mcp-exec")
FAKE_LAUNCHER = os.environ.get("FAKE_LAUNCHER", "fake-launcher")
PYTHON = os.path.realpath(sys.executable)
PROTOCOL = "2025-06-18"


class Skip(Exception):
    """This machine cannot run the test; the reason is printed."""


def environment(**more):
    """Exactly what MCP clients give to the servers they start. HOME holds no configuration."""
    return {"HOME": "/nonexistent", "LOGNAME": "someone", "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SHELL": "/bin/sh", "TERM": "xterm", "USER": "someone"} | more


@contextlib.contextmanager
def directory():
    with tempfile.TemporaryDirectory(prefix="mcp-exec-") as path:
        yield pathlib.Path(path)


@contextlib.contextmanager
def fake_launcher(*options, interpreter=PYTHON):
    """A fake launcher; gives the path of its socket."""
    with directory() as where:
        path = where / "launcher.sock"
        process = subprocess.Popen([FAKE_LAUNCHER, str(path), interpreter, *options], stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"ready\n"
            yield str(path)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def run(*arguments, input=b"", env=None, timeout=20):
    """mcp-exec with these arguments to its end; stdout and stderr are bytes."""
    return subprocess.run([MCP_EXEC, *arguments], input=input, capture_output=True, timeout=timeout,
                          env=environment() if env is None else env)


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {condition}"
        time.sleep(0.01)


class Client:
    """JSON-RPC by lines over pipes of a process, or over a socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.messages = []
        self.listener = schemas.Listener()
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            for line in self.reader:
                message = json.loads(line)
                self.listener.received(message)
                self.messages.append(message)
        self.ended.set()

    def send(self, method, params=None, ident=None):
        message = {"jsonrpc": "2.0", "method": method}
        if ident is not None:
            message["id"] = ident
        if params is not None:
            message["params"] = params
        self.listener.sent(message)
        self.writer.write(json.dumps(message).encode() + b"\n")
        self.writer.flush()

    def reply(self, ident, seconds=15):
        def found():
            return [m for m in self.messages if m.get("id") == ident and "method" not in m]
        wait_until(lambda: found() or self.ended.is_set(), seconds)
        assert found(), f"no reply to {ident}"
        return found()[0]

    def ask(self, method, params=None, ident=1):
        self.send(method, params, ident)
        return self.reply(ident)

    def handshake(self):
        result = self.ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {},
                                         "clientInfo": {"name": "protocol-test", "version": "1"}}, "init")
        self.send("notifications/initialized")
        return result["result"]

    def exec(self, code, ident="exec", **arguments):
        return self.ask("tools/call", {"name": "exec", "arguments": {"code": code, **arguments}}, ident)["result"]


def hear(headers, sent, response, path="/mcp"):
    """The body of an answer over HTTP, after its messages were held against their schemas."""
    body = response.read()
    schemas.exchanged({k.lower(): v for k, v in headers.items()}, sent, response.status,
                      {k.lower(): v for k, v in response.headers.items()}, body, path)
    return body


def hear_line(connection):
    """The next message on a socket."""
    line = connection.makefile("rb").readline()
    schemas.Listener().received_bytes(line)
    return json.loads(line)


class Server(Client):
    """A server on pipes: mcp-exec with these arguments."""

    def __init__(self, *arguments, env=None, uid=None):
        self.process = subprocess.Popen([MCP_EXEC, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment() if env is None else env, user=uid,
                                        group=uid, extra_groups=None if uid is None else [])
        super().__init__(self.process.stdout, self.process.stdin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        finally:
            self.process.kill()
            self.stderr = self.process.stderr.read().decode()
            self.process.stderr.close()

    def signal_and_wait(self, number, seconds=5):
        self.process.send_signal(number)
        return self.process.wait(seconds)


class FakeService:
    """The system service as a bridge meets it. answer(line) gives the bytes to send for a line, a tuple of
    them to close afterwards, or None to close."""

    def __init__(self, answer, path=None):
        self.where = tempfile.TemporaryDirectory(prefix="mcp-exec-")
        self.path = path or self.where.name + "/service.sock"
        self.answer = answer
        self.lines, self.ended = [], threading.Event()
        schemas.Listener.n_paused += 1  # what it says is made up
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listening.accept()[0]
                with connection, connection.makefile("rb") as lines:
                    for line in lines:
                        self.lines.append(line)
                        reply = self.answer(line)
                        if reply is None:
                            break
                        connection.sendall(reply[0] if isinstance(reply, tuple) else reply)
                        if isinstance(reply, tuple):
                            break
                    else:
                        self.ended.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.where.cleanup()
        schemas.Listener.n_paused -= 1


def pong(line):
    """The answer to the bridge's first question."""
    message = json.loads(line)
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode() + b"\n"


def main():
    """Runs the tests of the file that calls, or those whose names contain an argument."""
    tests = [(name, value) for name, value in sys.modules["__main__"].__dict__.items() if name.startswith("test_")]
    if len(sys.argv) > 1:
        tests = [t for t in tests if any(word in t[0] for word in sys.argv[1:])]
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, (name, function) in enumerate(tests, 1):
        schemas.Listener.failures.clear()
        try:
            function()
            assert not schemas.Listener.failures, schemas.Listener.failures
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except BaseException:
            failed = True
            # To stderr: a TAP reader keeps comments to itself, and the log would say only that it failed.
            for line in traceback.format_exc().splitlines():
                print(f"# {line[:2000]}", file=sys.stderr, flush=True)
            print(f"not ok {number} - {name}", flush=True)
    sys.exit(failed)
