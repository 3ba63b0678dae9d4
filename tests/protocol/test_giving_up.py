# SPDX-License-Identifier: MIT
"""Every way in which a client gives up ends its runs at once and frees their places."""

import contextlib
import http.client
import json
import os
import socket
import time
import urllib.parse

import harness
import test_cli_serve as cli_serve
from harness import Client, Server, environment, fake_launcher
from test_http import META, Post

ATTEMPTS = 5  # of which the best counts: this machine may be busy with other things
QUICK = 0.1


def _program(mark):
    """Tells its process id in a file, then sleeps for longer than any test."""
    return (f"import os, time\nopen({str(mark)!r} + '.new', 'w').write(str(os.getpid()))\n"
            f"os.rename({str(mark)!r} + '.new', {str(mark)!r})\ntime.sleep(60)")


def _call(code, ident=1):
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call",
            "params": {"name": "exec", "arguments": {"code": code}}}


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _seconds_to_end(mark, give_up):
    harness.wait_until(mark.exists)
    pid = int(mark.read_text())
    assert _lives(pid)
    began = time.monotonic()
    give_up()
    while _lives(pid):
        assert time.monotonic() < began + 10, "it runs on"
        time.sleep(0.002)
    return time.monotonic() - began


def _best(attempt):
    """attempt(mark) gives the seconds that one run took to end."""
    with harness.directory() as where:
        times = [attempt(where / f"mark{n}") for n in range(ATTEMPTS)]
    assert min(times) < QUICK, times


def test_cancel_on_a_pipe():
    with fake_launcher() as launcher, Server("stdio", "--launcher-socket", launcher) as s:
        s.handshake()

        def attempt(mark):
            ident = mark.name
            s.send("tools/call", _call(_program(mark))["params"], ident)
            return _seconds_to_end(mark, lambda: s.send("notifications/cancelled", {"requestId": ident}))
        _best(attempt)
        assert not [m for m in s.messages if str(m.get("id")).startswith("mark")], "a cancelled call was answered"


def test_end_of_standard_input():
    with fake_launcher() as launcher:
        def attempt(mark):
            with Server("stdio", "--launcher-socket", launcher) as s:
                s.handshake()
                s.send("tools/call", _call(_program(mark))["params"], 1)
                return _seconds_to_end(mark, s.process.stdin.close)
        _best(attempt)


@contextlib.contextmanager
def _unix_server():
    with fake_launcher() as launcher, harness.directory() as where:
        with Server("serve", "--launcher-socket", launcher, "--listen", f"unix:{where}/s.sock",
                    env=environment()) as server:
            harness.wait_until((where / "s.sock").exists)
            yield str(where / "s.sock")
            server.process.terminate()


def _connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    client = Client(s.makefile("rb"), s.makefile("wb"))
    client.handshake()
    return s, client


def test_end_of_a_unix_connection():
    with _unix_server() as path:
        def attempt(mark):
            s, client = _connect(path)
            client.send("tools/call", _call(_program(mark))["params"], 1)
            return _seconds_to_end(mark, lambda: s.shutdown(socket.SHUT_RDWR))
        _best(attempt)


def test_places_are_free_afterwards():
    with _unix_server() as path, harness.directory() as where:
        n = 2 * os.cpu_count()  # as many wait as run
        s, client = _connect(path)
        for i in range(n):
            client.send("tools/call", _call(_program(where / f"mark{i}"))["params"], i)
        harness.wait_until(lambda: len(list(where.glob("mark*[0-9]"))) >= os.cpu_count())
        s.shutdown(socket.SHUT_RDWR)
        began = time.monotonic()
        other, client = _connect(path)
        assert client.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
        assert time.monotonic() - began < 5
        other.shutdown(socket.SHUT_RDWR)


def test_hangup_of_a_modern_request():
    with cli_serve.serving() as s:
        def attempt(mark):
            message = _call(_program(mark))
            message["params"]["_meta"] = META
            p = Post(s, message, MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call", Mcp_Name="exec")
            return _seconds_to_end(mark, p.hang_up)
        _best(attempt)


def test_end_of_an_sse_session():
    with cli_serve.serving() as s:
        def attempt(mark):
            where = urllib.parse.urlsplit(s.url)
            stream = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
            authorization = {"Authorization": "Bearer " + cli_serve.TOKEN}
            stream.request("GET", "/sse", headers={**authorization, "Accept": "text/event-stream"})
            # The response takes the socket over from the connection, which is closed by itself.
            raw = stream.sock
            response = stream.getresponse()
            assert response.status == 200, response.status
            line = b""
            while not line.startswith(b"data: "):
                line = response.readline()
            endpoint = line[len(b"data: "):].decode().strip()
            for message in ({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
                    _call(_program(mark))):
                with contextlib.closing(http.client.HTTPConnection(where.hostname, where.port, timeout=30)) as c:
                    c.request("POST", endpoint, json.dumps(message), {**authorization, "Content-Type": "application/json"})
                    assert c.getresponse().status == 202
            return _seconds_to_end(mark, lambda: raw.shutdown(socket.SHUT_RDWR))
        _best(attempt)


if __name__ == "__main__":
    harness.main()
