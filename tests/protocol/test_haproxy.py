# SPDX-License-Identifier: MIT
"""TLS by HAProxy, as mcp-exec(8) shows it: the very text of the manual, with other addresses."""

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import time

import harness
from test_cli_serve import TOKEN, serving

MANUAL = pathlib.Path(__file__).parents[2] / "man/mcp-exec.8"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def _recipe(port, certificate, server_port):
    text = MANUAL.read_text()
    recipe = re.search(r"^# haproxy\.cfg\n(.*?)^\.Ed$", text, re.M | re.S)[1]
    recipe, n = re.subn(r"bind :443 ssl crt \S+", f"bind 127.0.0.1:{port} ssl crt {certificate}", recipe)
    recipe, m = re.subn(r"127\.0\.0\.1:8080", f"127.0.0.1:{server_port}", recipe)
    assert (n, m) == (1, 1), recipe
    return recipe


@contextlib.contextmanager
def proxied():
    """The port of a proxy in front of a service, and a function that connects to it."""
    if not shutil.which("haproxy") or not shutil.which("openssl"):
        raise harness.Skip("needs haproxy and openssl")
    with serving() as s, harness.directory() as where:
        key, certificate, both = where / "key.pem", where / "crt.pem", where / "both.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        port = _free_port()
        (where / "haproxy.cfg").write_text(_recipe(port, both, s.listening[0].getsockname()[1]))
        process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(where / "haproxy.cfg")], stderr=subprocess.PIPE)
        context = ssl.create_default_context(cafile=certificate)

        def connect():
            return http.client.HTTPSConnection("localhost", port, context=context, timeout=30)

        def is_up():
            with contextlib.suppress(OSError), contextlib.closing(connect()) as c:
                c.connect()
                return True
            assert process.poll() is None, process.stderr.read()
            return False
        try:
            harness.wait_until(is_up)
            yield connect
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def _post(connection, message, **headers):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "Authorization": "Bearer " + TOKEN} | {k.replace("_", "-"): v for k, v in headers.items()}
    connection.request("POST", "/mcp", json.dumps(message), headers)
    return connection


def _call(code, **meta):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "exec", "arguments": {"code": code}, "_meta": META | meta}}


MODERN = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "exec"}


def test_call_through_tls():
    with proxied() as connect, contextlib.closing(connect()) as c:
        response = _post(c, _call("print(6 * 7)"), **MODERN).getresponse()
        assert response.status == 200, response.read()
        assert json.loads(response.read())["result"]["structuredContent"]["stdout"] == "42\n"


def test_events_are_not_collected():
    with proxied() as connect, contextlib.closing(connect()) as c, harness.directory() as where:
        go = where / "go"
        code = f"import os, time\nprint(0, flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint(1)"
        response = _post(c, _call(code, progressToken="p"), **MODERN).getresponse()
        line = b""
        while not line.startswith(b"data: "):
            line = response.readline()
        assert "notifications/progress" in line.decode(), line
        go.touch()      # only now does the program end
        assert b'"stdout":"0\\n1\\n"' in response.read()


def test_hangup_reaches_the_run():
    with proxied() as connect, harness.directory() as where:
        mark = str(where / "mark")
        code = f"import time\nopen({mark!r}, 'w').close()\ntime.sleep(5)\nopen({mark!r}, 'w').write('went on')"
        c = _post(connect(), _call(code), **MODERN)
        harness.wait_until((where / "mark").exists)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
        time.sleep(6)
        assert (where / "mark").read_text() == ""


if __name__ == "__main__":
    harness.main()
