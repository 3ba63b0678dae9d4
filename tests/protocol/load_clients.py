# SPDX-License-Identifier: MIT
"""Clients for the load test, on asyncio: each takes nothing but the one answer to its own request for an answer.

Ids are counted from 1 by every client, so that an answer that went to the wrong one cannot pass for the right one: the
text that the program printed would be another client's."""

import asyncio
import json
import socket
import struct

import schemas

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
PATIENCE = 60


def request(ident, method, params=None):
    message = {"jsonrpc": "2.0", "id": ident, "method": method}
    return message if params is None else message | {"params": params}


def call(ident, code, meta=None):
    params = {"name": "exec", "arguments": {"code": code}}
    return request(ident, "tools/call", params | {"_meta": meta} if meta else params)


def hello(ident, version="2025-06-18"):
    return request(ident, "initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "load", "version": "1"}})


def text_of(message):
    """What the program printed, or the text of the tool error."""
    text = message["result"]["content"][0]["text"]
    return text if message["result"].get("isError") else json.loads(text)["stdout"]


class Crossed(AssertionError):
    """An answer that nobody asked for, or a second one."""


class Peer:
    """Requests by id over something that brings messages in any order."""

    def __init__(self, version=None):
        self.next_id, self.waiting, self.broken = 1, {}, None
        self.listener = schemas.Listener(version)

    def new_id(self):
        # Numbers and strings in turn: both come back as they were sent.
        n, self.next_id = self.next_id, self.next_id + 1
        return n if n % 2 else f"id-{n}"

    def take(self, message):
        self.listener.received(message)
        if "method" in message:
            return
        future = self.waiting.pop(json.dumps(message.get("id")), None)
        if future is None:
            self.broken = Crossed(f"{type(self).__name__}: {message}")
            return
        future.set_result(message)

    def end(self):
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the connection ended before the answer"))
        self.waiting.clear()

    async def ask(self, message):
        if self.broken:
            raise self.broken
        future = asyncio.get_running_loop().create_future()
        self.waiting[json.dumps(message["id"])] = future
        self.listener.sent(message)
        await self.send(message)
        return await asyncio.wait_for(future, PATIENCE)

    async def run(self, code):
        return text_of(await self.ask(call(self.new_id(), code)))


class LineClient(Peer):
    """The Unix socket, or a program's pipes."""

    async def open(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.task = asyncio.create_task(self._read())
        await self.ask(hello(0))
        self.writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return self

    async def connect(self, path):
        return await self.open(*await asyncio.open_unix_connection(path, limit=1 << 24))

    async def start(self, *command, env):
        self.process = await asyncio.create_subprocess_exec(
            *command, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24)
        return await self.open(self.process.stdout, self.process.stdin)

    async def _read(self):
        try:
            while line := await self.reader.readline():
                self.take(json.loads(line))
        except OSError:
            pass
        self.end()

    async def send(self, message):
        self.writer.write(json.dumps(message).encode() + b"\n")
        await self.writer.drain()

    async def close(self):
        self.writer.close()
        await self.task
        if hasattr(self, "process"):
            await self.process.wait()


class Http:
    """One connection; one exchange at a time."""

    def __init__(self, port, token):
        self.port = port
        self.headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.reader = self.writer = None

    async def connect(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def encode(self, message, headers=(), method="POST", path="/mcp"):
        body = b"" if message is None else json.dumps(message).encode()
        lines = {**self.headers, **dict(headers), "Content-Length": str(len(body))}
        return (f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode() + body

    async def head(self):
        status = int((await self.reader.readuntil(b"\r\n")).split()[1])
        headers = {}
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        return status, headers

    async def body(self, headers):
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readuntil(b"\r\n")
        return b"".join(parts)

    async def exchange(self, message, headers=(), **more):
        if not self.writer:
            await self.connect()
        self.writer.write(self.encode(message, {"Accept": "application/json, text/event-stream", **dict(headers)}, **more))
        listener = schemas.Listener(self.headers.get("MCP-Protocol-Version"))
        listener.sent(message)

        async def answer():
            status, got = await self.head()
            return status, got, b"" if status == 204 else await self.body(got)
        status, got, body = await asyncio.wait_for(answer(), PATIENCE)
        if got.get("connection") == "close":
            self.close()
        schemas.hear(listener, status, got, body, more.get("path", "/mcp"))
        return status, got, body

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    def reset(self):
        """RST instead of FIN."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.reader = self.writer = None


def messages_in(headers, body):
    if headers["content-type"] == "text/event-stream":
        return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(body)]


class HttpClient(Peer):
    """Streamable HTTP: with a session, or modern and stateless; on one connection, or on a new one for each call."""

    def __init__(self, port, token, is_modern, keeps=True):
        super().__init__()
        self.http, self.is_modern, self.keeps = Http(port, token), is_modern, keeps
        self.http.headers["MCP-Protocol-Version"] = "2026-07-28" if is_modern else "2025-06-18"

    async def open(self):
        if not self.is_modern:
            status, headers, _ = await self.http.exchange(hello(0))
            assert status == 200, status
            self.http.headers["Mcp-Session-Id"] = headers["mcp-session-id"]
            status, _, _ = await self.http.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert status == 202, status
        elif self.keeps:
            await self.http.connect()
        return self

    def modern(self):
        return {"Mcp-Method": "tools/call", "Mcp-Name": "exec"} if self.is_modern else {}

    async def run(self, code):
        ident = self.new_id()
        status, headers, body = await self.http.exchange(call(ident, code, META if self.is_modern else None), self.modern())
        assert status == 200, (status, body)
        answers = [m for m in messages_in(headers, body) if "method" not in m]
        if not self.keeps:
            self.http.close()
        if len(answers) != 1 or answers[0]["id"] != ident:
            raise Crossed(f"{ident}: {answers}")
        return text_of(answers[0])

    async def close(self):
        if not self.is_modern:
            status, _, _ = await self.http.exchange(None, method="DELETE")
            assert status == 204, status
        self.http.close()


class SseClient(Peer):
    """HTTP+SSE: a stream, and another connection for what is sent."""

    def __init__(self, port, token):
        super().__init__()
        self.stream, self.post, self.turn = Http(port, token), Http(port, token), asyncio.Lock()

    async def open(self):
        await self.stream.connect()
        self.stream.writer.write(self.stream.encode(None, {"Accept": "text/event-stream"}, "GET", "/sse"))
        status, _ = await self.stream.head()
        assert status == 200, status
        self.path = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._read())
        self.path = await self.path
        await self.ask(hello(0, "2024-11-05"))
        return self

    async def _read(self):
        text = b""
        try:
            while size := int(await self.stream.reader.readuntil(b"\r\n"), 16):
                text += (await self.stream.reader.readexactly(size + 2))[:-2]
                while b"\n\n" in text:
                    event, text = text.split(b"\n\n", 1)
                    data = b"\n".join(x[6:] for x in event.split(b"\n") if x.startswith(b"data: "))
                    if event.startswith(b"event: endpoint"):
                        self.path.set_result(data.decode())
                    elif data:
                        self.take(json.loads(data))
        except (OSError, asyncio.IncompleteReadError):
            pass
        self.end()

    async def send(self, message):
        async with self.turn:
            status, _, body = await self.post.exchange(message, path=self.path)
        assert status == 202, (status, body)

    async def close(self):
        self.stream.close()
        self.post.close()
        await self.task
