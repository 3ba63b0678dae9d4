# SPDX-License-Identifier: MIT
"""A client for the HTTP transport: one POST a message, the answer as JSON or as an event stream. All that is
answered is held against the schema of its revision."""

import http.client
import json

from lib import PROTOCOL, RpcError, schemas


class Response:
    """Status, headers (lower case) and body of one HTTP answer; messages are the JSON-RPC messages in it."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def messages(self):
        if "text/event-stream" in self.headers.get("content-type", ""):
            return [json.loads(data) for _, data in schemas.Events().take(self.body) if data]
        return [json.loads(self.body)] if self.body.strip() else []


def listened(request_headers, sent, status, headers, body, path):
    """The Response of an exchange, after its messages were held against their schemas."""
    response = Response(status, {k.lower(): v for k, v in headers}, body)
    schemas.exchanged({k.lower(): v for k, v in request_headers.items()}, sent, status, response.headers, body, path)
    return response


def listened_bytes(answer):
    """The same for what came out of a bare socket; nothing where it is no HTTP."""
    head, end, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if end and first.startswith("HTTP/1."):
        listened({}, b"", int(first.split()[1]), [tuple(line.split(": ", 1)) for line in lines], body, "/mcp")


class HttpClient:
    """Talks to http://HOST:PORT/mcp; a token goes into Authorization or, with token_header, into that
    header."""

    def __init__(self, port, host="127.0.0.1", path="/mcp", token=None, token_header=None, handshake=True,
                 is_ours=True):
        """is_ours: the server is mcp-exec, and nobody between it and us says anything of its own."""
        self.is_ours = is_ours
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
            data = answer.read()
            if not self.is_ours:
                return Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, data)
            return listened(merged, body, answer.status, answer.getheaders(), data, path or self.path)
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
