# SPDX-License-Identifier: MIT
"""Clients of every kind at once, some of which die in the middle of a call, on the installed service: each call gets its
own answer, and nothing of daemon and launcher grows from one part to the next."""

import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import socket
import struct
import time

from http_client import HttpClient
from lib import SOCKET, Client, StdioClient, configured, failed_units, main_pid, run_units, sh, slow, timeout, wait_until
from test_http import MODERN, TOKEN, http as http_service
from test_sse import SseClient

PARTS, CALLS_PER_PART = 3, 200
SETTINGS = "[Server]\nAllowUsers=alice\n[Exec]\nQueueMax=200\nQueueMaxPerUser=100\nPoolSize=1\n"


class Modern:
    """Stateless, a new connection for each call."""

    def __init__(self, port):
        self.http = HttpClient(port, token=TOKEN, handshake=False)
        self.http.headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "exec"}

    def exec(self, code):
        return self.http.request("tools/call", {"name": "exec", "arguments": {"code": code}, "_meta": MODERN})[
            "structuredContent"]

    def close(self):
        pass


class Sse(SseClient):
    def __init__(self, port):
        super().__init__(port)
        self.ids = itertools.count(1)
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "load", "version": "1"}}, 0)

    def exec(self, code):
        return self.ask("tools/call", {"name": "exec", "arguments": {"code": code}}, next(self.ids))["structuredContent"]


class Session(HttpClient):
    def __init__(self, port):
        super().__init__(port, token=TOKEN)

    def close(self):
        assert self.send(method="DELETE").status == 204


def _gauges(port):
    page = HttpClient(port, token=TOKEN, handshake=False).send(method="GET", path="/metrics").body.decode()
    return {name: int(float(value)) for name, value in re.findall(r"^(mcp_exec_\w+) (\S+)$", page, re.M)}


def _n_fds():
    return [len(os.listdir(f"/proc/{main_pid(unit)}/fd")) for unit in ("mcp-exec.service", "mcp-exec-launcher.service")]


def _die(port):
    """A line, half a line, a request and half a request that nobody waits for; the last two are reset."""
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": {"name": "exec", "arguments": {"code": "import time; time.sleep(1)"}}}).encode()
    for data in (call + b"\n", call[:30]):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(SOCKET)
            s.sendall(data)
    head = (f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json\r\nContent-Length: {len(call)}\r\n\r\n").encode()
    for data in (head + call, head + call[:30]):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(data)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Client())
        client.start("exec", {"code": "import time; time.sleep(60)"})
        client.vanish()


@slow
@timeout(400)
def test_nothing_is_lost_crossed_or_left_under_load():
    with configured(SETTINGS), http_service() as port, contextlib.ExitStack() as stack:
        sh(["systemctl", "start", "mcp-exec.socket"])
        clients = [stack.enter_context(contextlib.closing(make()))
                   for make, n in ((Client, 8), (StdioClient, 4), (lambda: Session(port), 6), (lambda: Modern(port), 6),
                                   (lambda: Sse(port), 4)) for _ in range(n)]

        def calls_of(number, part):
            for i in range(number, CALLS_PER_PART, len(clients)):
                nonce = f"{part}-{i}-{os.urandom(8).hex()}"
                assert clients[number].exec(f"print('{nonce}')")["stdout"] == nonce + "\n"

        def left():
            gauges = _gauges(port)
            return {name: gauges["mcp_exec_" + name] for name in ("running", "queued", "connections", "sessions")} | {
                "units": len(run_units())}
        # The connection that asks is one more; one unit is kept ready.
        rest = {"running": 0, "queued": 0, "connections": 8 + 4 + 4 + 1, "sessions": 6, "units": 1}

        fds = None
        for part in range(PARTS):
            with concurrent.futures.ThreadPoolExecutor(len(clients) + 1) as pool:
                dying = pool.submit(_die, port)
                for _ in pool.map(calls_of, range(len(clients)), itertools.repeat(part)):
                    pass
                dying.result()
            try:
                wait_until(lambda: left() == rest, 30)
            except AssertionError:
                assert left() == rest, (left(), rest)
            if not fds:
                time.sleep(3)       # the unit that is kept ready says READY, with a descriptor
                fds = _n_fds()
            wait_until(lambda: _n_fds() == fds, 10, f"as many descriptors as after the first part, {fds}")
    assert not failed_units(), failed_units()
