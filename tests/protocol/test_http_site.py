# SPDX-License-Identifier: MIT
"""HTTP beside /mcp: the transport of 2024-11-05, health, metrics, OAuth metadata."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import time
import urllib.parse

import harness
import schemas
from test_cli_serve import TOKEN, serving
from test_http import Post

AUTH = {"Authorization": "Bearer " + TOKEN}


class Stream:
    """An event stream of GET /sse and its messages."""

    def __init__(self, service, headers=AUTH):
        where = urllib.parse.urlsplit(service.url)
        self.address = where.hostname, where.port
        self.headers = headers
        self.connection = http.client.HTTPConnection(*self.address, timeout=20)
        self.connection.request("GET", "/sse", headers={"Accept": "text/event-stream"} | headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.status
        kind, self.endpoint = self.event()
        assert kind == "endpoint", kind
        self.listener = schemas.Listener()

    def event(self):
        kind, data = None, []
        while True:
            line = self.response.readline().decode()
            assert line, "the stream has ended"
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif not line and data:
                if kind == "message":
                    self.listener.received(json.loads(data[0]))
                return kind, "\n".join(data)

    def send(self, message):
        self.listener.sent(message)
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=20)) as c:
            c.request("POST", self.endpoint, json.dumps(message), {"Content-Type": "application/json"} | self.headers)
            response = c.getresponse()
            harness.hear({}, b"", response, self.endpoint)
            return response.status

    def answer(self, ident):
        while True:
            kind, data = self.event()
            assert kind == "message", kind
            message = json.loads(data)
            if message.get("id") == ident and "method" not in message:
                return message

    def ask(self, method, params=None, ident=1):
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        assert self.send(message | ({"params": params} if params else {})) == 202
        return self.answer(ident)

    def close(self):
        self.response.close()
        self.connection.close()


def _exec(code):
    return {"name": "exec", "arguments": {"code": code}}


def test_old_transport_negotiates_the_newest_handshake_revision_and_runs():
    with serving() as s, contextlib.closing(Stream(s)) as stream:
        result = stream.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                           "clientInfo": {"name": "t", "version": "1"}}, "i")["result"]
        assert result["protocolVersion"] == "2025-11-25", result
        assert stream.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        result = stream.ask("tools/call", _exec("print(6 * 7)"), 7)["result"]
        assert result["structuredContent"]["stdout"] == "42\n", result


def test_progress_and_cancel_on_the_old_transport():
    with serving() as s, contextlib.closing(Stream(s)) as stream:
        params = _exec("import time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(0.5)")
        assert stream.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                            "params": params | {"_meta": {"progressToken": "p"}}}) == 202
        kind, data = stream.event()
        assert json.loads(data)["params"]["progressToken"] == "p", data
        assert stream.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}) == 202
        assert stream.ask("ping", ident=2)["result"] == {}


def test_end_of_the_stream_ends_its_runs():
    with serving() as s, harness.directory() as where:
        stream = Stream(s)
        mark = str(where / "mark")
        code = f"import time\nopen({mark!r}, 'w').close()\ntime.sleep(1.5)\nopen({mark!r}, 'w').write('went on')"
        assert stream.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _exec(code)}) == 202
        harness.wait_until((where / "mark").exists)
        stream.close()
        time.sleep(2)
        assert (where / "mark").read_text() == ""
        assert stream.send({"jsonrpc": "2.0", "id": 2, "method": "ping"}) == 404


def _get(service, path, headers={}):
    where = urllib.parse.urlsplit(service.url)
    with contextlib.closing(http.client.HTTPConnection(where.hostname, where.port, timeout=20)) as c:
        c.request("GET", path, headers=headers)
        response = c.getresponse()
        return response.status, response.headers, harness.hear(headers, b"", response, path).decode()


def test_ready_once_the_sandbox_is_verified():
    with serving() as s:
        assert _get(s, "/healthz")[::2] == (200, "ok\n")
        harness.wait_until(lambda: _get(s, "/readyz")[0] == 200)


def test_not_ready_while_it_stops():
    with serving() as s, harness.directory() as where:
        harness.wait_until(lambda: _get(s, "/readyz")[0] == 200)
        program = f"import pathlib, time\npathlib.Path({str(where / 'begun')!r}).touch()\ntime.sleep(3)"
        call = Post(s, {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                        "params": {"name": "exec", "arguments": {"code": program}}}, MCP_Protocol_Version="2025-06-18")
        harness.wait_until((where / "begun").exists)
        to = urllib.parse.urlsplit(s.url)
        with socket.create_connection((to.hostname, to.port), timeout=20) as probe:
            probe.sendall(b"GET /readyz HTTP/1.1\r\n")     # a connection that was taken before
            assert _get(s, "/readyz")[0] == 200
            s.process.send_signal(signal.SIGTERM)
            s.notify.wait_for("STOPPING=1")
            probe.sendall(b"Host: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: probe.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 503 ") and answer.endswith(b"\r\n\r\nstopping\n"), answer
        assert call.messages()[-1]["result"]["structuredContent"]["status"] == "ok"


def _value(page, name):
    found = re.findall(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert len(found) == 1, (name, page)
    return float(found[0])


def test_metrics_count_what_happened():
    with serving() as s:
        assert _get(s, "/metrics")[0] == 401
        status, headers, page = _get(s, "/metrics", AUTH)
        assert status == 200 and headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert page.endswith("\n# EOF\n"), page[-100:]
        assert _value(page, 'mcp_exec_runs_total{status="ok"}') == 0
        programs = "print('x' * 100)", "import sys; sys.exit(3)"
        s.exec(programs[0], stdin="four")
        s.exec(programs[1])
        page = _get(s, "/metrics", AUTH)[2]
        assert _value(page, 'mcp_exec_runs_total{status="ok"}') == 1
        assert _value(page, 'mcp_exec_runs_total{status="error"}') == 1
        assert _value(page, "mcp_exec_run_duration_seconds_count") == 2
        assert _value(page, 'mcp_exec_run_duration_seconds_bucket{le="+Inf"}') == 2
        assert _value(page, 'mcp_exec_run_duration_seconds_bucket{le="300.0"}') == 2
        # The canonical form of OpenMetrics, in growing order, and no bucket has more than the next one.
        for name in "run", "queue":
            buckets = re.findall(rf'^mcp_exec_{name}_duration_seconds_bucket{{le="(.*)"}} (\d+)$', page, re.MULTILINE)
            assert [le for le, _ in buckets[:-1]] == [repr(float(le)) for le, _ in buckets[:-1]], buckets
            assert buckets[-1] == ("+Inf", "2") and len(buckets) == 14, buckets
            for column in zip(*buckets):
                assert list(column) == sorted(column, key=float), buckets
        assert 0 < _value(page, "mcp_exec_run_duration_seconds_sum") < 300
        assert _value(page, "mcp_exec_queue_duration_seconds_count") == 2
        assert _value(page, 'mcp_exec_output_bytes_total{stream="stdout"}') == 101
        assert _value(page, 'mcp_exec_output_bytes_total{stream="stderr"}') == 0
        assert _value(page, 'mcp_exec_input_bytes_total{kind="code"}') == len("".join(programs))
        assert _value(page, 'mcp_exec_input_bytes_total{kind="stdin"}') == 4
        # What was used is made good.
        harness.wait_until(lambda: _value(_get(s, "/metrics", AUTH)[2], "mcp_exec_pool") == 1)
        assert _value(page, "mcp_exec_running") == 0 and _value(page, "mcp_exec_sandbox_ok") == 1
        # Every line is a comment or a sample, and no family is torn apart.
        families = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")]
        assert len(families) == len(set(families)), families
        for line in page.splitlines():
            assert line.startswith("# ") or re.fullmatch(r'mcp_exec_\w+(\{\w+="[^"]*"\})? [0-9.]+', line), line


def test_metadata_of_an_oauth_proxy_is_shown_and_reloaded():
    with harness.directory() as where:
        file = where / "metadata.json"
        with serving("--metadata-file", str(file)) as s:
            s.notify.read_on()
            assert _get(s, "/.well-known/oauth-protected-resource")[0] == 404
            assert _get(s, "/metrics")[1]["WWW-Authenticate"] == "Bearer"
            metadata = {"resource": "https://mcp.example/mcp", "authorization_servers": ["https://login.example"]}
            file.write_text(json.dumps(metadata))
            s.process.send_signal(1)
            harness.wait_until(lambda: _get(s, "/.well-known/oauth-protected-resource/mcp")[0] == 200)
            assert json.loads(_get(s, "/.well-known/oauth-protected-resource")[2]) == metadata
            assert _get(s, "/metrics")[1]["WWW-Authenticate"] == (
                'Bearer resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp"')
            file.write_text("{}")
            s.process.send_signal(1)
            time.sleep(0.3)
            assert json.loads(_get(s, "/.well-known/oauth-protected-resource")[2]) == metadata
            s.end()
            assert "authorization_servers" in s.errors, s.errors


def test_place_of_a_stream_is_free_when_its_client_left_while_others_are_silent():
    with serving() as s, contextlib.ExitStack() as stack:
        where = urllib.parse.urlsplit(s.url)
        for _ in range(3):
            c = stack.enter_context(contextlib.closing(http.client.HTTPConnection(where.hostname, where.port, timeout=20)))
            c.request("GET", "/healthz")
            assert c.getresponse().read() == b"ok\n"
        before = len(os.listdir(f"/proc/{s.process.pid}/fd"))
        stream = Stream(s)
        assert stream.ask("ping")["result"] == {}
        stream.response.close()
        stream.connection.close()
        harness.wait_until(lambda: len(os.listdir(f"/proc/{s.process.pid}/fd")) == before, 10)


def test_place_of_a_client_that_left_within_its_request_is_free_soon():
    with serving() as s:
        where = urllib.parse.urlsplit(s.url)
        assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN + \
               "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 50\r\n\r\n"
        for text in (head, head + '{"jsonrpc": "2.0"', head[:30]):
            # The end and the last data arrive as one.
            for _ in range(25):
                socket.create_connection((where.hostname, where.port)).sendall(text.encode())
        harness.wait_until(lambda: _value(_get(s, "/metrics", AUTH)[2], "mcp_exec_connections") == 1, 20)


if __name__ == "__main__":
    harness.main()
