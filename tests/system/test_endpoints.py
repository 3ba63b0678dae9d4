# SPDX-License-Identifier: MIT
"""Health, metrics and OAuth metadata of the installed service, and limits of its port."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import time

from http_client import HttpClient, listened
from lib import configured, controllers, one_release, sh, show, Skip, timeout, wait_until
from test_http import TOKEN, http as http_service

METADATA = pathlib.Path("/etc/mcp-exec/oauth-protected-resource.json")
AUTH = {"Authorization": "Bearer " + TOKEN}


def _get(port, path, headers=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as c:
        c.request("GET", path, headers=headers or {})
        answer = c.getresponse()
        response = listened(headers or {}, b"", answer.status, answer.getheaders(), answer.read(), path)
        return response.status, response.headers, response.body.decode()


def test_health_and_readiness_are_told_without_a_token():
    with http_service() as port:
        assert _get(port, "/healthz")[::2] == (200, "ok\n")
        wait_until(lambda: _get(port, "/readyz")[0] == 200, 30)


def test_not_ready_while_the_sandbox_is_refused():
    if "memory" in controllers():
        raise Skip("nothing to miss here: every controller is there")
    with configured("[Sandbox]\nRequireControllers=memory\n"), http_service() as port:
        for _ in range(5):
            status, _, text = _get(port, "/readyz")
            assert status == 503 and "sandbox" in text, (status, text)
            time.sleep(0.5)
        assert _get(port, "/healthz")[0] == 200


def _sample(page, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)[1])


def test_metrics_follow_what_happens_and_need_the_token():
    with http_service() as port:
        assert _get(port, "/metrics")[0] == 401
        client = HttpClient(port, token=TOKEN)
        client.exec("print(1)")
        client.exec("raise SystemExit(3)")
        client.exec("import time; time.sleep(5)", timeout_s=1)
        status, headers, page = _get(port, "/metrics", AUTH)
        assert status == 200 and headers["content-type"].startswith("application/openmetrics-text"), headers
        for kind in ("ok", "error", "timeout"):
            assert _sample(page, f'mcp_exec_runs_total{{status="{kind}"}}') == 1, page
        assert _sample(page, "mcp_exec_run_duration_seconds_count") == 3
        assert _sample(page, "mcp_exec_sandbox_ok") == 1
        assert page.endswith("# EOF\n") and TOKEN not in page


@one_release
def test_kept_results_are_told_in_metrics_and_status():
    with configured("[Exec]\nResultKeepSec=20s\n"), http_service() as port:
        def kept():
            page = _get(port, "/metrics", AUTH)[2]
            return _sample(page, "mcp_exec_results"), _sample(page, "mcp_exec_results_bytes")

        def status_text():
            return show("mcp-exec.service", "StatusText")["StatusText"]
        client = HttpClient(port, token=TOKEN)
        client.exec("print(1)")                 # its call was answered: nothing is kept
        assert kept() == (0, 0)
        assert client.exec("print('x' * 5000)", background=True)["status"] == "running"
        wait_until(lambda: kept()[0] == 1 and kept()[1] > 5000)
        wait_until(lambda: " 0 running, 0 waiting, 1 results kept, " in status_text(), what=status_text())
        wait_until(lambda: kept() == (0, 0), 40)
        wait_until(lambda: " 0 results kept, " in status_text())


def test_metadata_of_an_oauth_proxy_is_shown_where_there_is_some():
    with http_service() as port:
        assert _get(port, "/.well-known/oauth-protected-resource")[0] == 404
        assert _get(port, "/metrics")[1]["www-authenticate"] == "Bearer"
        METADATA.write_text(json.dumps({"resource": "https://mcp.example/mcp",
                                        "authorization_servers": ["https://login.example"]}))
        try:
            sh(["systemctl", "reload", "mcp-exec.service"])
            wait_until(lambda: _get(port, "/.well-known/oauth-protected-resource/mcp")[0] == 200)
            challenge = _get(port, "/metrics")[1]["www-authenticate"]
            assert challenge.endswith('"https://mcp.example/.well-known/oauth-protected-resource/mcp"'), challenge
        finally:
            METADATA.unlink()


def test_one_address_cannot_take_all_connections():
    dropin = pathlib.Path("/run/systemd/system/mcp-exec-http.socket.d/50-test.conf")
    dropin.parent.mkdir(parents=True, exist_ok=True)
    dropin.write_text("[Socket]\nListenStream=192.0.2.1:8080\n")
    sh(["systemctl", "daemon-reload"])
    try:
        with configured("[Server]\nMaxConnectionsPerAddress=4\n"), http_service() as port, contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(socket.create_connection(("192.0.2.1", port)))
            ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
            wait_until(lambda: HttpClient(port, "192.0.2.1", token=TOKEN, handshake=False).send(body=ping).status == 429)
            # Not those of this machine, and not a handshake.
            assert HttpClient(port, token=TOKEN, handshake=False).send(body=ping).status == 200
            assert HttpClient(port, "192.0.2.1", token=TOKEN, handshake=False).headers
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
            r = HttpClient(port, "192.0.2.1", token=TOKEN, handshake=False).send(body=json.dumps(first).encode())
            assert r.status == 200, (r.status, r.body)
    finally:
        dropin.unlink()
        sh(["systemctl", "daemon-reload"])


@timeout(120)
@one_release
def test_headers_that_trickle_are_cut_off():
    with http_service() as port, socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(1)
        s.sendall(b"POST /mcp HTTP/1.1\r\nX-Slow: ")
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - began < 60:
                s.sendall(b"x")
                with contextlib.suppress(socket.timeout):
                    if s.recv(100) == b"":
                        break
        assert 20 < time.monotonic() - began < 45, time.monotonic() - began
