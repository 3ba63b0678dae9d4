# SPDX-License-Identifier: MIT
"""A client for the HTTP transport: one POST a message, the answer as JSON or as an event stream."""

import http.client
import json

from lib import PROTOCOL, RpcError


class Response:
    """Status, headers (lower case) and body of one HTTP answer; messages are the JSON-RPC messages in it."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def messages(self):
        if "text/event-stream" in self.headers.get("content-type", ""):
            events = self.body.decode().replace("\r\n", "\n").split("\n\n")
            data = ["\n".join(line[5:].lstrip() for line in event.split("\n") if line.startswith("data:"))
                    for event in events]
            return [json.loads(d) for d in data if d]
        return [json.loads(self.body)] if self.body.strip() else []


class HttpClient:
    """Talks to http://HOST:PORT/mcp; a token goes into Authorization or, with token_header, into that
    header."""

    def __init__(self, port, host="127.0.0.1", path="/mcp", token=None, token_header=None, handshake=True):
        self.host, self.port, self.path = host, port, path
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token is not None:
            name, value = (token_header, token) if token_header else ("Authorization", f"Bearer {token}")
            self.headers[name] = value
        self._next = 1
        self.server = None
        if handshake:
            self.server = self.initialize()

    def send(self, method="POST", body=b"", headers=None, path=None, timeout=60):
        """One exchange, nothing assumed; a header of value None is left out."""
        merged = {k: v for k, v in {**self.headers, **(headers or {})}.items() if v is not None}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path or self.path, body, merged)
            answer = connection.getresponse()
            return Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def request(self, method, params=None, timeout=60, headers=None):
        """The result of one request; RpcError or AssertionError otherwise."""
        ident, self._next = self._next, self._next + 1
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        response = self.send(body=json.dumps(message).encode(), headers=headers, timeout=timeout)
        for answer in response.messages if response.status == 200 else []:
            if answer.get("id") == ident and "method" not in answer:
                if "error" in answer:
                    raise RpcError(answer["error"])
                return answer["result"]
        raise AssertionError(f"HTTP {response.status} without an answer: {response.body[:2000]!r}")

    def initialize(self, version=PROTOCOL):
        ident = 0
        body = {"jsonrpc": "2.0", "id": ident, "method": "initialize",
                "params": {"protocolVersion": version, "capabilities": {},
                           "clientInfo": {"name": "system-test", "version": "1"}}}
        response = self.send(body=json.dumps(body).encode())
        assert response.status == 200, f"HTTP {response.status}: {response.body[:2000]!r}"
        result = next(m for m in response.messages if m.get("id") == ident)["result"]
        if "mcp-session-id" in response.headers:
            self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        self.headers["MCP-Protocol-Version"] = result["protocolVersion"]
        self.send(body=b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return result

    def call(self, tool, arguments, timeout=60):
        return self.request("tools/call", {"name": tool, "arguments": arguments}, timeout)

    def exec(self, code, timeout=60, **arguments):
        result = self.call("exec", {"code": code, **arguments}, timeout)
        assert not result.get("isError") and "structuredContent" in result, f"exec did not run: {result}"
        return result["structuredContent"]
