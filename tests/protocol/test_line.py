# SPDX-License-Identifier: MIT
"""Newline framing against the real programs, over pipes and over the Unix socket."""

import contextlib
import json
import os
import socket
import subprocess
import time

import harness
from harness import Client, Server, fake_launcher
from test_cli_serve import serving

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


@contextlib.contextmanager
def unix_service(*arguments, **more):
    """mcp-exec serve on a Unix socket; gives a function that connects."""
    if os.getuid() != 0:
        raise harness.Skip("without configuration only root may use the Unix socket")
    with harness.directory() as where:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(where / "s"))
        listening.listen(64)

        def connect():
            c = socket.socket(socket.AF_UNIX)
            c.connect(str(where / "s"))  # blocking: waits while the backlog is full
            c.settimeout(20)
            return c

        with serving(*arguments, sockets=[listening], **more) as service:
            service.connect = connect
            yield service


def _client(connection):
    return Client(connection.makefile("rb"), connection.makefile("wb"))


def _read_line(connection):
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(65536)
        if not piece:
            break
        line += piece
    return line


def test_call_over_the_unix_socket():
    with unix_service() as s, s.connect() as c:
        client = _client(c)
        client.handshake()
        assert client.exec("print(6 * 7)")["structuredContent"]["stdout"] == "42\n"


def test_half_lines_and_garbage():
    with unix_service() as s, s.connect() as c:
        c.sendall(PING[:10])
        time.sleep(0.1)
        c.sendall(PING[10:])
        assert _read_line(c) == PONG
        c.sendall(b"\x00\xff{{{\r\n\r\n")
        assert json.loads(_read_line(c))["error"]["code"] == -32700
        c.sendall(PING)
        assert _read_line(c) == PONG


def test_line_of_64_mib_is_refused_and_the_daemon_stays_small():
    with unix_service() as s, s.connect() as c:
        c.sendall(b'{"jsonrpc":"2.0","method":"ping","params":{"x":"')
        for _ in range(64):
            c.sendall(b"a" * (1 << 20))
        c.sendall(b'"},"id":5}\n')
        error = json.loads(_read_line(c))
        assert error["id"] == 5 and error["error"]["code"] == -32600, error
        c.sendall(PING)
        assert _read_line(c) == PONG
        with open(f"/proc/{s.process.pid}/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
        assert peak < 64 * 1024, f"{peak} KiB"


def test_slow_reader_does_not_delay_another():
    with unix_service() as s, s.connect() as slow, s.connect() as other:
        slow.setblocking(False)
        n, rest, blocked = 0, b"", None
        end = time.monotonic() + 10
        while time.monotonic() < end:  # until neither side can write: it is not read from any more
            try:
                rest = rest or PING * 1000
                n_sent = slow.send(rest)
                n, rest, blocked = n + n_sent, rest[n_sent:], None
            except BlockingIOError:
                blocked = blocked or time.monotonic()
                if time.monotonic() - blocked > 0.5:
                    break
                time.sleep(0.01)
        began = time.monotonic()
        for _ in range(50):
            other.sendall(PING)
            assert _read_line(other) == PONG
        assert time.monotonic() - began < 5
        slow.setblocking(True)
        slow.settimeout(20)
        slow.shutdown(socket.SHUT_WR)
        replies = 0
        while piece := slow.recv(1 << 20):
            replies += piece.count(b"\n")
        # The one that was cut off by the full socket is answered too, with an error or a result.
        assert replies == -(-n // len(PING)), (replies, n)


def test_end_of_the_connection_ends_its_runs():
    with unix_service() as s, harness.directory() as where:
        mark = where / "mark"
        code = f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(1.5)\nopen({str(mark)!r}, 'w').write('!')"
        c = s.connect()
        client = _client(c)
        client.handshake()
        client.send("tools/call", {"name": "exec", "arguments": {"code": code}}, 1)
        harness.wait_until(mark.exists)
        c.shutdown(socket.SHUT_WR)
        client.ended.wait(1)
        assert client.ended.is_set() and not [m for m in client.messages if m.get("id") == 1]
        time.sleep(2)
        assert mark.read_text() == ""
        c.close()


def test_hundred_connections_with_overlapping_requests():
    with unix_service() as s:
        connections = [s.connect() for _ in range(100)]
        for c in connections:
            c.sendall(PING * 20)
        for c in connections:
            got = b""
            while len(got) < 20 * len(PONG):
                got += c.recv(65536)
            assert got == PONG * 20
            c.close()


def test_replies_on_stdout_are_whole_lines_while_calls_overlap():
    with fake_launcher() as launcher, Server("stdio", "--launcher-socket", launcher) as s:
        s.handshake()
        for i in range(10):
            s.send("tools/call", {"name": "exec", "arguments": {"code": f"print('{i % 10}' * 30000)"}}, i)
            s.send("ping", None, f"ping-{i}")
        for i in range(10):
            assert s.reply(f"ping-{i}")["result"] == {}
            assert s.reply(i)["result"]["structuredContent"]["stdout"] == f"{i % 10}" * 30000 + "\n"


def test_file_as_input_is_answered_whole():
    with harness.directory() as where:
        (where / "input").write_bytes(PING * 3)
        with open(where / "input", "rb") as source, open(where / "output", "wb") as sink:
            process = subprocess.run([harness.MCP_EXEC, "stdio", "--no-bridge"], stdin=source, stdout=sink,
                                     stderr=subprocess.DEVNULL, env=harness.environment(), timeout=20)
        assert process.returncode == 0
        assert (where / "output").read_bytes() == PONG * 3


if __name__ == "__main__":
    harness.main()
