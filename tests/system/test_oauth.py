# SPDX-License-Identifier: MIT
"""The recipe of mcp-exec(8) for a site with an OAuth proxy, from the first refusal to a program's result."""

import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import urllib.parse

from http_client import HttpClient
from lib import minimal_environment, record_of, sh, user_options, wait_until

PORT = 8095
BASE = f"http://127.0.0.1:{PORT}"
METADATA = pathlib.Path("/etc/mcp-exec/oauth-protected-resource.json")
DROP_IN = pathlib.Path("/etc/systemd/system/mcp-exec-proxy.socket.d/50-group.conf")
PROXY = pathlib.Path(__file__).with_name("oauth_proxy.py")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@contextlib.contextmanager
def site():
    """The service behind an OAuth proxy that runs as alice, whose group owns the socket."""
    sh(["systemctl", "stop", "mcp-exec.service"])
    METADATA.write_text(json.dumps({"resource": BASE + "/mcp", "authorization_servers": [BASE + "/issuer"]}))
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    DROP_IN.write_text("[Socket]\nSocketGroup=alice\n")
    process = None
    try:
        sh(["systemctl", "daemon-reload"])
        sh(["systemctl", "start", "mcp-exec-proxy.socket"])
        options = user_options("alice")
        process = subprocess.Popen(["/usr/bin/python3", "-I", "-c", PROXY.read_text(), str(PORT)],
                                   env=minimal_environment("alice"), stdout=subprocess.PIPE, **options)
        assert process.stdout.readline() == b"serving\n"
        yield
    finally:
        if process:
            process.kill()
            process.wait()
            process.stdout.close()
        METADATA.unlink()
        DROP_IN.unlink()
        DROP_IN.parent.rmdir()
        sh(["systemctl", "stop", "mcp-exec-proxy.socket", "mcp-exec.service"])
        sh(["systemctl", "daemon-reload"])
        sh(["systemctl", "start", "mcp-exec.socket"])


def fetch(url, form=None):
    """Status, headers and JSON body."""
    parts = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=30)) as c:
        body = urllib.parse.urlencode(form) if form else None
        c.request("POST" if form else "GET", parts.path, body,
                  {"Content-Type": "application/x-www-form-urlencoded"} if form else {})
        response = c.getresponse()
        return response.status, response.headers, json.loads(response.read())


def log_in(user, resource=None, **more):
    """What a client does that knows nothing but the server's address; returns its token."""
    refusal = HttpClient(PORT, handshake=False, is_ours=False).send(body=PING)
    assert refusal.status == 401, refusal.status
    where = re.fullmatch(r'Bearer resource_metadata="([^"]+)"', refusal.headers["www-authenticate"])[1]
    status, headers, metadata = fetch(where)
    assert (status, headers["Content-Type"], metadata["resource"]) == (200, "application/json", BASE + "/mcp"), metadata
    issuer = metadata["authorization_servers"][0]
    endpoint = fetch(issuer + "/.well-known/oauth-authorization-server")[2]["token_endpoint"]
    return fetch(endpoint, {"user": user, "resource": resource or metadata["resource"]} | more)[2]["access_token"]


def test_client_finds_the_login_and_runs_as_its_user():
    with site():
        client = HttpClient(PORT, token=log_in("alice@example.org"))
        result = client.exec("print(6 * 7)")
        assert result["stdout"] == "42\n", result
        assert record_of(result["run_id"])["MCP_EXEC_PRINCIPAL"] == "proxy:alice@example.org"


def test_token_of_another_resource_an_old_one_and_none_are_refused():
    with site():
        for token in log_in("alice", resource="https://elsewhere.example/mcp"), log_in("alice", seconds="-1"), "x.y":
            refusal = HttpClient(PORT, token=token, handshake=False, is_ours=False).send(body=PING)
            assert refusal.status == 401 and "resource_metadata=" in refusal.headers["www-authenticate"], refusal.body


def test_users_of_the_proxy_see_nothing_of_each_other():
    with site():
        alice, bob = (HttpClient(PORT, token=log_in(user)) for user in ("alice", "bob"))
        run_id = alice.exec("print('hers')", background=True)["run_id"]
        wait_until(lambda: alice.call("get_run", {"run_id": run_id})["structuredContent"]["status"] == "ok")
        foreign, unknown = (bob.call("get_run", {"run_id": i}) for i in (run_id, "0" * 32))
        assert foreign["isError"] and foreign == unknown, foreign
        # Nor by what it says of itself, nor with her session.
        bob.headers["X-MCP-User"] = "alice"
        assert bob.call("get_run", {"run_id": run_id}) == unknown
        bob.headers["Mcp-Session-Id"] = alice.headers["Mcp-Session-Id"]
        assert bob.send(body=PING).status == 404
        assert alice.call("get_run", {"run_id": run_id})["structuredContent"]["stdout"] == "hers\n"
