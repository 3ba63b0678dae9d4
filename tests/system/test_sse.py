# SPDX-License-Identifier: MIT
"""The transport of 2024-11-05, /sse and /messages, on the installed service."""

import contextlib
import http.client
import json
import time

from http_client import listened
from lib import configured, run_units, schemas, wait_until
from test_http import TOKEN, http as http_service


class SseClient:
    """A stream and the messages sent to its address; answers come on the stream."""

    def __init__(self, port, token=TOKEN, path="/sse"):
        self.port = port
        self.listener = schemas.Listener()
        self.headers = {"X-MCP-AUTH": token}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", path, headers={"Accept": "text/event-stream"} | self.headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, (self.response.status, self.response.read())
        kind, self.address = self._event()
        assert kind == "endpoint" and self.address.startswith("/messages?"), self.address

    def _event(self):
        kind, data = None, None
        while True:
            line = self.response.readline().decode()
            assert line, "the stream has ended"
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and data is not None:
                if kind == "message":
                    self.listener.received_bytes(data.encode())
                return kind, data

    def post(self, message, headers=None):
        self.listener.sent(message)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", self.address, json.dumps(message),
                               {"Content-Type": "application/json"} | (self.headers if headers is None else headers))
            response = connection.getresponse()
            listened({}, json.dumps(message).encode(), response.status, response.getheaders(), response.read(), self.address)
            return response.status

    def ask(self, method, params=None, ident=1):
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        assert self.post(message | ({"params": params} if params else {})) == 202
        while True:
            answer = json.loads(self._event()[1])
            if answer.get("id") == ident and "method" not in answer:
                return answer["result"]

    def close(self):
        self.response.close()
        self.connection.close()


def _exec(code, **arguments):
    return {"name": "exec", "arguments": {"code": code, **arguments}}


def test_every_handshake_revision_runs_code_over_the_old_transport():
    with http_service() as port:
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            with contextlib.closing(SseClient(port)) as c:
                result = c.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                              "clientInfo": {"name": "system-test", "version": "1"}}, "init")
                assert result["protocolVersion"] == version, result
                assert c.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
                assert "42" in json.dumps(c.ask("tools/call", _exec("print(6 * 7)"), 7)["content"])


def test_end_of_the_stream_ends_its_runs_and_its_session():
    with http_service() as port:
        c = SseClient(port)
        assert c.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": _exec("import time; time.sleep(60)", timeout_s=60)}) == 202
        with contextlib.closing(SseClient(port)) as other:
            # A warm unit, if there is one, is not the run: wait until two programs could be seen.
            running = other.ask("tools/call", _exec("print(1)"))
            assert running["structuredContent"]["status"] == "ok"
        time.sleep(1)
        before = set(run_units())
        c.close()
        wait_until(lambda: len(before - set(run_units())) > 0, 10, "the run's unit to be gone")
        assert c.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}) == 404


def test_messages_need_the_token_too():
    with http_service() as port, contextlib.closing(SseClient(port)) as c:
        assert c.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={}) == 401
        assert c.ask("ping") == {}


def test_administrator_switches_it_off():
    with configured("[Server]\nEndpoints=healthz\n"), http_service() as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/sse", headers={"X-MCP-AUTH": TOKEN})
        answer = connection.getresponse()
        assert answer.status == 404 and set(json.loads(answer.read())) == {"error", "error_description"}
