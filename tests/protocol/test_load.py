# SPDX-License-Identifier: MIT
"""Two hundred connections of every kind, ten thousand calls, some clients dying in the middle of them: each call gets
its own answer once, and nothing of the daemon grows from one thousand to the next."""

import asyncio
import collections
import contextlib
import os
import pathlib
import random
import re
import socket
import threading

import harness
import load_clients as clients
import schemas
import test_cli_serve as cli_serve
import test_http_access as http_access

ROUNDS = 10
CALLS_PER_ROUND = 1000
N_LINE, N_BRIDGE, N_LEGACY, N_MODERN, N_SINGLE, N_SSE = 70, 10, 50, 40, 10, 10     # 200 connections, SSE has two each
# Of one principal at a time: more would be told that the service is busy (QueueMaxPerUser=64, QueueMax=256).
AT_ONCE = 12


class Load:
    def __init__(self, service, port, path, tokens):
        self.service, self.port, self.path, self.tokens = service, port, path, tokens
        self.random = random.Random(4)      # the same programs in the same order each time
        self.n_answers = collections.Counter()
        self.turns = {name: asyncio.Semaphore(AT_ONCE) for name in ("unix", *tokens)}

    async def open(self):
        self.scraper = clients.Http(self.port, self.tokens["dying"])
        self.clients = []
        for kind, n, make in (
                ("unix", N_LINE, lambda: clients.LineClient().connect(self.path)),
                ("unix", N_BRIDGE, lambda: clients.LineClient().start(
                    harness.MCP_EXEC, "stdio", "--socket", self.path, env=harness.environment())),
                ("legacy", N_LEGACY, lambda: clients.HttpClient(self.port, self.tokens["legacy"], False).open()),
                ("modern", N_MODERN, lambda: clients.HttpClient(self.port, self.tokens["modern"], True).open()),
                ("modern", N_SINGLE, lambda: clients.HttpClient(self.port, self.tokens["modern"], True, False).open()),
                ("sse", N_SSE, lambda: clients.SseClient(self.port, self.tokens["sse"]).open())):
            for _ in range(n):
                self.clients.append((kind, await make()))

    @staticmethod
    def n_kept():
        return N_LINE + N_BRIDGE + N_LEGACY + N_MODERN + 2 * N_SSE

    @staticmethod
    def n_kept_fds():
        """One of HTTP has three: its socket, and the pair to the library."""
        return N_LINE + N_BRIDGE + 3 * (N_LEGACY + N_MODERN + 2 * N_SSE)

    async def one(self, kind, client, nonce):
        async with self.turns[kind]:
            text = await client.run(f"echo {nonce}")
        assert text == f"{nonce}\n", (kind, nonce, text)
        self.n_answers[kind] += 1

    async def client_of_round(self, kind, client, nonces):
        # Lines and event streams take several calls at a time.
        if isinstance(client, clients.HttpClient):
            for nonce in nonces:
                await self.one(kind, client, nonce)
        else:
            await asyncio.gather(*(self.one(kind, client, nonce) for nonce in nonces))

    # ---- those who die ----

    async def die_line(self, data):
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(self.random.random() / 20)
        writer.close()

    async def die_http(self, data, resets):
        http = await clients.Http(self.port, self.tokens["dying"]).connect()
        http.writer.write(data(http))
        await asyncio.sleep(self.random.random() / 20)
        http.reset() if resets else http.close()

    async def die_sse(self):
        client = await clients.SseClient(self.port, self.tokens["dying"]).open()
        await client.send(clients.call(1, "sleep 5"))
        await client.close()

    async def die_bridge(self):
        client = await clients.LineClient().start(harness.MCP_EXEC, "stdio", "--socket", self.path,
                                                  env=harness.environment())
        await client.send(clients.call(1, "sleep 5"))
        client.process.kill()
        await client.close()

    async def dying(self):
        code, modern = "sleep 0.3", {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "exec",
                                     "Accept": "application/json"}
        line = clients.json.dumps(clients.call(1, code)).encode()
        for resets in (False, True):
            await self.die_line(line + b"\n")
            await self.die_line(line[:40])
            await self.die_line(line + b"\n" + line[:40])
            for data in (lambda h: h.encode(clients.call(1, code, clients.META), modern),
                         lambda h: h.encode(clients.call(1, code)),
                         lambda h: h.encode(clients.call(1, code))[:-20],
                         lambda h: h.encode(clients.call(1, code))[:30],
                         lambda h: b""):
                await self.die_http(data, resets)
            await self.die_sse()
            await self.die_bridge()

    async def round(self, number):
        nonces = collections.defaultdict(list)
        for i in range(CALLS_PER_ROUND):
            nonces[i % len(self.clients)].append(f"{number}-{i}-{self.random.getrandbits(64):016x}")
        await asyncio.gather(self.dying(), *(self.client_of_round(kind, client, nonces[i])
                                             for i, (kind, client) in enumerate(self.clients)))

    # ---- what is left ----

    async def gauges(self):
        status, _, body = await self.scraper.exchange(None, method="GET", path="/metrics")
        assert status == 200, (status, body)
        return {name: int(float(value)) for name, value in re.findall(r"^(mcp_exec_\w+) (\S+)$", body.decode(), re.M)}

    async def quiescent(self, n_connections, n_sessions, n_fds=None):
        """Waits until exactly these are left, and one sandbox that is ready; the connection that asks is one of them."""
        wanted = {"mcp_exec_running": 0, "mcp_exec_queued": 0, "mcp_exec_connections": n_connections + 1,
                  "mcp_exec_sessions": n_sessions, "mcp_exec_pool": 1}
        for _ in range(200):
            gauges = await self.gauges()
            if wanted.items() <= gauges.items() and self.is_warm() and n_fds in (None, self.n_fds()):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{ {k: gauges[k] for k in wanted} } instead of {wanted}, {self.n_fds()} descriptors of {n_fds}")

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.service.process.pid}/fd"))

    def is_warm(self):
        """A sandbox that is ready has given the descriptor of its directory."""
        where = pathlib.Path(f"/proc/{self.service.process.pid}/fd")
        return any(os.readlink(fd).startswith("/tmp/fake-launcher-") for fd in where.iterdir())

    def kilobytes(self):
        """Memory of its own."""
        text = pathlib.Path(f"/proc/{self.service.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Private_Dirty: *(\d+) kB", text, re.M)[1])


@contextlib.contextmanager
def _loaded():
    names = ("legacy", "modern", "sse", "dying")
    with harness.directory() as where, socket.socket(socket.AF_UNIX) as unix:
        path = str(where / "mcp.sock")
        unix.bind(path)
        unix.listen(256)
        tcp = socket.create_server(("127.0.0.1", 0), backlog=256)
        tokens = {name: http_access.add(where / "tokens", name) for name in names}
        launcher_and_service = cli_serve.serving("--token-file", str(where / "tokens"), token=None, sockets=[tcp, unix],
                                                 interpreter="/bin/sh")
        with launcher_and_service as service:
            service.notify.read_on()
            # One line for each run.
            threading.Thread(target=lambda: collections.deque(service.process.stderr, maxlen=1), daemon=True).start()
            yield service, tcp.getsockname()[1], path, tokens


async def _run(load):
    await load.open()
    n_fds, memory = None, []
    for number in range(ROUNDS):
        await load.round(number)
        await load.quiescent(load.n_kept(), N_LEGACY, n_fds)
        n_fds = n_fds or load.n_fds()
        memory.append(load.kilobytes())
    assert sum(load.n_answers.values()) == ROUNDS * CALLS_PER_ROUND, load.n_answers
    for _, client in load.clients:
        await client.close()
    await load.quiescent(0, 0, n_fds - load.n_kept_fds())
    return memory


def test_nothing_is_lost_crossed_or_left_under_load():
    n_checked = schemas.Listener.n_checked
    with _loaded() as (service, *where):
        memory = asyncio.run(_run(Load(service, *where)))
        if schemas.jsonschema:
            assert schemas.Listener.n_checked - n_checked > ROUNDS * CALLS_PER_ROUND
        # From the second thousand on: the first fills what is kept for the next, and a page is 4 kB.
        assert max(memory[4:]) - memory[3] < 256, memory


if __name__ == "__main__":
    harness.main()
