# SPDX-License-Identifier: MIT
"""HTTP on /mcp as the administrator switches it on: socket, token, both eras."""

import contextlib
import gzip
import json
import os
import pathlib
import re
import socket
import time

from http_client import HttpClient, listened_bytes
from lib import Client, journal, journal_cursor, main_pid, processes_with, sh, timeout, wait_until, run_units
from seen import journal_text

TOKEN = "token-of-this-test-1234567890"
TOKEN_FILE = pathlib.Path("/etc/mcp-exec/auth-token")
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@contextlib.contextmanager
def http(token=TOKEN):
    sh(["systemctl", "stop", "mcp-exec.service"])
    if token:
        TOKEN_FILE.write_text(token + "\n")
        TOKEN_FILE.chmod(0o600)
    sh(["systemctl", "start", "mcp-exec-http.socket"])
    try:
        yield 8080
    finally:
        TOKEN_FILE.unlink(missing_ok=True)
        sh(["systemctl", "stop", "mcp-exec-http.socket", "mcp-exec.service"])
        sh(["systemctl", "start", "mcp-exec.socket"])


def _post(client, message, headers=None, **more):
    return client.send(body=json.dumps(message).encode(), headers=headers, **more)


def _modern(method, params=None, ident=1):
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if params and "name" in params:
        headers["Mcp-Name"] = params["name"]
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": {**(params or {}), "_meta": MODERN}}, headers


def test_nothing_listens_on_tcp_until_the_administrator_says_so():
    s = socket.socket()
    assert s.connect_ex(("127.0.0.1", 8080)) != 0


def test_the_man_pages_recipe_works_while_the_service_runs():
    page = gzip.decompress(pathlib.Path("/usr/share/man/man8/mcp-exec.8.gz").read_bytes()).decode()
    recipe = re.search(r"^\.Ss Tokens?\n\.Bd [^\n]*\n(.*?)\n\.Ed\n", page, re.M | re.S)[1]
    assert "mcp-exec-http.socket" in recipe, recipe
    with Client() as client:
        client.exec("print(1)")             # the service runs, as on any machine that is in use
    try:
        shown = sh("set -e; " + recipe).stdout
        # The recipe either prints the token that it made, or puts one into the file.
        token = TOKEN_FILE.read_text().strip() if TOKEN_FILE.exists() else shown.split()[0]
        r = _post(HttpClient(8080, token=token, handshake=False), {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert r.status == 200, (r.status, r.body)
    finally:
        TOKEN_FILE.unlink(missing_ok=True)
        TOKEN_FILE.with_name("tokens").unlink(missing_ok=True)
        sh(["systemctl", "disable", "mcp-exec-http.socket"])
        sh(["systemctl", "stop", "mcp-exec-http.socket", "mcp-exec.service"])
        sh(["systemctl", "start", "mcp-exec.socket"])


def test_without_a_token_every_request_is_refused_with_the_reason():
    with http(token=None) as port:
        r = HttpClient(port, handshake=False).send(body=b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert r.status == 503 and "token" in r.body.decode(), (r.status, r.body)


def test_wrong_and_missing_tokens_are_401_and_right_ones_pass():
    with http() as port:
        ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
        for token in (None, "wrong", TOKEN + "x", TOKEN[:-1], ""):
            r = _post(HttpClient(port, token=token, handshake=False), ping)
            assert r.status == 401 and r.headers["www-authenticate"].startswith("Bearer"), (token, r.status)
            assert json.loads(r.body)["error"], r.body
        for header in (None, "X-MCP-AUTH"):
            r = _post(HttpClient(port, token=TOKEN, token_header=header, handshake=False), ping)
            assert r.status == 200 and r.messages == [{"jsonrpc": "2.0", "id": 5, "result": {}}], (header, r.status, r.body)


def test_token_is_in_no_argument_environment_or_log():
    with http() as port:
        HttpClient(port, token=TOKEN).exec("print(1)")
        assert processes_with(TOKEN) == []
        assert TOKEN not in journal_text()
        r = HttpClient(port, token=TOKEN).exec("import os; print([k for k, v in os.environ.items() if 'token' in v])")
        assert r["stdout"] == "[]\n", r


def test_handshake_era_runs_code():
    with http() as port:
        c = HttpClient(port, token=TOKEN)
        assert c.server["protocolVersion"] == "2025-06-18"
        assert c.exec("print(1)")["stdout"] == "1\n"


def test_modern_era_runs_code_without_a_session():
    with http() as port:
        c = HttpClient(port, token=TOKEN, handshake=False)
        message, headers = _modern("server/discover")
        r = _post(c, message, headers)
        assert r.status == 200 and "mcp-session-id" not in r.headers and r.messages[0]["result"]["supportedVersions"], r.body
        message, headers = _modern("tools/call", {"name": "exec", "arguments": {"code": "print(2)"}})
        r = _post(c, message, headers)
        assert r.messages[-1]["result"]["structuredContent"]["stdout"] == "2\n", r.body
        message, headers = _modern("no/such")
        r = _post(c, message, headers)
        assert r.status == 404 and r.messages[0]["error"]["code"] == -32601 and r.messages[0]["id"] == 1, r.body


def test_foreign_origin_and_host_are_refused():
    with http() as port:
        c = HttpClient(port, token=TOKEN, handshake=False)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert _post(c, ping, {"Origin": "http://evil.example.com"}).status == 403
        assert _post(c, ping, {"Host": "evil.example.com"}).status == 403
        assert _post(c, ping, {"Origin": f"http://localhost:{port}"}).status == 200


def test_http_errors_have_a_json_body():
    with http() as port:
        c = HttpClient(port, token=TOKEN, handshake=False)
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        cases = [(dict(body=ping, headers={"Content-Type": "text/plain"}), 415), (dict(body=b"{nonsense"), 400),
                 (dict(body=ping, path="/other"), 404), (dict(method="GET"), 405), (dict(method="PUT", body=ping), 405),
                 (dict(body=ping, headers={"Accept": "text/html"}), 406),
                 (dict(body=b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), 202)]
        for arguments, status in cases:
            r = c.send(**arguments)
            assert r.status == status, (arguments, r.status, r.body)
            assert status == 202 or json.loads(r.body)["error"], r.body
        assert "POST" in c.send(method="GET").headers["allow"]
        r = c.send(body=b" " * (17 << 20))
        assert r.status == 413 and json.loads(r.body)["error"], r.status


def test_garbage_on_the_port_is_refused_and_survived():
    with http() as port:
        c = HttpClient(port, token=TOKEN)
        pid = main_pid()
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        cases = (b"\0" * 5000, os.urandom(20000) + b"\r\n\r\n", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"\x16\x03\x01\x02\x00\x01",
                 b"GET / HTTP/9.9\r\n\r\n", b"POST /mcp HTTP/1.1\r\n" + b"a: b\r\n" * 20000 + b"\r\n",
                 (head + "Content-Length: -1\r\n\r\n").encode(),
                 (head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").encode(),
                 (head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").encode())
        for data in cases:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                with contextlib.suppress(OSError):
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                answer = b""
                with contextlib.suppress(ConnectionError):
                    while chunk := s.recv(65536):
                        answer += chunk
            listened_bytes(answer)
            # Nothing at all, or a refusal: no garbage is ever a success.
            assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), (data[:60], answer[:200])
        with socket.create_connection(("127.0.0.1", port)) as s:    # half a body, and away
            s.sendall((head + "Content-Length: 5\r\n\r\n{").encode())
        assert main_pid() == pid, "the daemon died"
        assert c.exec("print(1)")["stdout"] == "1\n"


def test_modern_disconnect_cancels_and_legacy_does_not():
    with http() as port:
        for era, status in (("modern", "cancelled"), ("legacy", "ok")):
            cursor = journal_cursor()
            c = HttpClient(port, token=TOKEN, handshake=era == "legacy")
            arguments = {"name": "exec", "arguments": {"code": "import time; time.sleep(4)"}}
            if era == "modern":
                message, headers = _modern("tools/call", arguments)
            else:
                message, headers = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": arguments}, {}
            body = json.dumps(message).encode()
            s = socket.create_connection(("127.0.0.1", port))
            lines = "".join(f"{k}: {v}\r\n" for k, v in {**c.headers, **headers, "Host": f"localhost:{port}", "Content-Length": len(body)}.items())
            s.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
            wait_until(lambda: run_units(), 10)
            time.sleep(1.5)
            s.close()
            record = wait_until(lambda: journal(after=cursor, MCP_EXEC_TOOL="exec"), 15)[-1]
            assert record["MCP_EXEC_STATUS"] == status, (era, record["MCP_EXEC_STATUS"])


@timeout(120)
def test_fifty_parallel_calls_are_not_crossed():
    from concurrent.futures import ThreadPoolExecutor
    with http() as port:
        c = HttpClient(port, token=TOKEN)
        with ThreadPoolExecutor(16) as pool:
            got = list(pool.map(lambda i: c.exec(f"print({i})", timeout=100)["stdout"], range(50)))
    assert got == [f"{i}\n" for i in range(50)], got


def test_tcp_without_a_token_is_refused_at_the_start():
    from lib import minimal_environment
    done = sh(["mcp-exec", "serve", "--listen", "127.0.0.1:8098"], check=False, env=minimal_environment(), timeout=20)
    assert done.returncode != 0 and "--no-auth" in done.stderr, done


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
START = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
GOOD = START + b"Content-Length: 40\r\n\r\n" + PING
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
MALFORMED = {
    b"garbage\r\n\r\n": 400,
    b"POST /mcp HTTP/3.0\r\n\r\n": 505,
    START + b"Content-Length: 40\r\nContent-Length: 40\r\n\r\n" + PING: 400,
    START + b"Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n28\r\n" + PING + b"\r\n0\r\n\r\n": 400,
    START + b"X: " + b"x" * 40000 + b"\r\n\r\n": 431,
    CHUNKED + b"zz\r\n": 400,
    CHUNKED + b"28\r\n" + PING + b"xx": 400,
    CHUNKED + b"ffffffffffff\r\n": 413,
    CHUNKED + b"28\r\n" + PING + b"\r\n0\r\nno trailer\r\n\r\n": 400,
    CHUNKED + b"28\r\n" + PING + b"\r\n0\r\nA: " + b"x" * 5000 + b"\r\n\r\n": 431,
}


def _answers(port, data):
    """Every reply up to the end of the connection: (status, body)."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(data)
        received = b"".join(iter(lambda: s.recv(65536), b""))
    answers = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)^content-length: *(\d+)", head, re.M)[1])
        assert re.search(rb"(?i)^content-type: application/json", head, re.M), head
        answers.append((int(head.split()[1]), json.loads(rest[:length])))
        received = rest[length:]
    return answers


@timeout(120)
def test_malformed_request_is_answered_in_json_wherever_it_stands_in_its_connection():
    with http() as port:
        for data, status in MALFORMED.items():
            for n_before in (0, 2):
                answers = _answers(port, GOOD * n_before + data + GOOD)
                assert [a[0] for a in answers] == [200] * n_before + [status], (data[:200], n_before, answers)
                assert all(body["result"] == {} for _, body in answers[:-1]), answers
                error = answers[-1][1]["error"]
                assert error["code"] == -31000 and error["message"], answers
