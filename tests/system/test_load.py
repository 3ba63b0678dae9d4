# SPDX-License-Identifier: MIT
"""Clients of every kind at once, some of which die in the middle of a call, on the installed service: each call gets its
own answer, and nothing of daemon and launcher grows from one part to the next.

MCP_EXEC_TEST_CALLS says how many calls, 600 if nothing does. From 2,000 on there are ten parts and 220 clients, and
memory must not grow either; the figures of each part are printed:

    tests/run shell --suite trixie --deb -- env MCP_EXEC_TEST_CALLS=10000 \\
        python3 /mnt/host/tests/run.py --results /mnt/host/results test_load
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import re
import socket
import struct
import threading
import time

from http_client import HttpClient
from lib import (SOCKET, Client, StdioClient, _Peer, configured, failed_units, main_pid, run_units, schemas, sh, slow,
                 timeout, wait_until)
from test_http import MODERN, TOKEN, http as http_service
from test_sse import SseClient

N_CALLS = int(os.environ.get("MCP_EXEC_TEST_CALLS", 600))
IS_LARGE = N_CALLS >= 2000
PARTS = 10 if IS_LARGE else 3
CALLS_PER_PART = N_CALLS // PARTS
# Unix socket, stdio, HTTP with a session, HTTP without one, HTTP+SSE.
N_CLIENTS = (80, 20, 30, 30, 60) if IS_LARGE else (8, 4, 6, 6, 4)
# Calls at a time. With more of them than a slow machine runs in SyncLimitSec= some would be answered before their end.
AT_ONCE = 40
GROWTH_KB = 256             # that is no growth: what the allocator keeps differs a little
SETTINGS = ("[Server]\nAllowUsers=alice\nMaxConnections=512\n"
            "[Exec]\nQueueMax=200\nQueueMaxPerUser=100\nPoolSize=1\n")


class LineClient(_Peer):
    """Root's on the Unix socket, in this process: cheap enough for many."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(SOCKET)
        super().__init__(self._socket.makefile("rb"), self._socket.makefile("wb"), handshake=True)

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()


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


def _processes():
    return [pathlib.Path(f"/proc/{main_pid(unit)}") for unit in ("mcp-exec.service", "mcp-exec-launcher.service")]


def _n_fds():
    return [len(os.listdir(process / "fd")) for process in _processes()]


def _kilobytes():
    """Memory of their own."""
    return [int(re.search(r"^Private_Dirty: *(\d+) kB", (process / "smaps_rollup").read_text(), re.M)[1])
            for process in _processes()]


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
@timeout(max(400, N_CALLS // 2))
def test_nothing_is_lost_crossed_or_left_under_load():
    with configured(SETTINGS), http_service() as port, contextlib.ExitStack() as stack:
        sh(["systemctl", "start", "mcp-exec.socket"])
        kinds = (LineClient, StdioClient, lambda: Session(port), lambda: Modern(port), lambda: Sse(port))
        clients = [stack.enter_context(contextlib.closing(make()))
                   for make, n in zip(kinds, N_CLIENTS) for _ in range(n)]
        turns = threading.Semaphore(AT_ONCE)

        def calls_of(number, part):
            for i in range(number, CALLS_PER_PART, len(clients)):
                nonce = f"{part}-{i}-{os.urandom(8).hex()}"
                with turns:
                    assert clients[number].exec(f"print('{nonce}')")["stdout"] == nonce + "\n"

        def left():
            gauges = _gauges(port)
            return {name: gauges["mcp_exec_" + name] for name in ("running", "queued", "connections", "sessions")} | {
                "units": len(run_units())}
        n_lines, n_stdio, n_sessions, _, n_streams = N_CLIENTS
        # The connection that asks is one more; one unit is kept ready.
        rest = {"running": 0, "queued": 0, "connections": n_lines + n_stdio + n_streams + 1, "sessions": n_sessions,
                "units": 1}

        fds, memory = None, []
        for part in range(PARTS):
            began = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(len(clients) + 1) as pool:
                dying = pool.submit(_die, port)
                for _ in pool.map(calls_of, range(len(clients)), itertools.repeat(part)):
                    pass
                dying.result()
            seconds = time.monotonic() - began
            try:
                wait_until(lambda: left() == rest, 30)
            except AssertionError:
                assert left() == rest, (left(), rest)
            if not fds:
                time.sleep(3)       # the unit that is kept ready says READY, with a descriptor
                fds = _n_fds()
            wait_until(lambda: _n_fds() == fds, 10, f"as many descriptors as after the first part, {fds}")
            memory.append(_kilobytes())
            print(f"part {part + 1}: {CALLS_PER_PART} answers in {seconds:.0f} s, {left()}, descriptors {_n_fds()}, "
                  f"kB {memory[-1]}, {schemas.Listener.n_checked} messages checked", flush=True)
        if IS_LARGE:                # the first parts fill what is kept for the next
            for own in zip(*memory):
                assert max(own[4:]) - own[3] < GROWTH_KB, memory
    assert not failed_units(), failed_units()
    wait_until(lambda: not run_units(), 30, "no unit of a run")
