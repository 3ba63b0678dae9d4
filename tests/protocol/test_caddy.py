# SPDX-License-Identifier: MIT
"""Users named by Caddy, as mcp-exec(8) shows it: the very text of the manual, with other addresses."""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess

import harness
from test_cli_serve import serving
from test_haproxy import MANUAL, MODERN, _call, _free_port

PASSWORD = "correct horse"


def _recipe(port, socket_path, digest):
    recipe = re.search(r"^# Caddyfile\n(.*?)^\.Ed$", MANUAL.read_text(), re.M | re.S)[1]
    recipe, n = re.subn(r"^mcp\.example ", f"http://127.0.0.1:{port} ", recipe, flags=re.M)
    recipe, m = re.subn(r"/run/mcp-exec/proxy\.sock", str(socket_path), recipe)
    recipe, k = re.subn(r"\$2a\$14\$\.\.\.", digest, recipe)
    assert (n, m, k) == (1, 1, 1), recipe
    return "{\n    admin off\n}\n" + recipe


@contextlib.contextmanager
def proxied():
    """The service and the port of a proxy in front of it."""
    if not shutil.which("caddy"):
        raise harness.Skip("needs caddy")
    with harness.directory() as where, serving("--listen", f"proxy:{where}/proxy.sock") as s:
        env = harness.environment() | {"PATH": os.environ["PATH"], "HOME": str(where)}
        digest = subprocess.run(["caddy", "hash-password", "--plaintext", PASSWORD], env=env, check=True,
                                capture_output=True, text=True).stdout.strip()
        port = _free_port()
        (where / "Caddyfile").write_text(_recipe(port, where / "proxy.sock", digest))
        command = ["caddy", "run", "--config", str(where / "Caddyfile"), "--adapter", "caddyfile"]
        with (where / "log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stderr=log, stdout=log)

        def is_up():
            with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as c:
                c.connect()
                return True
            assert process.poll() is None, (where / "log").read_text()
            return False
        try:
            harness.wait_until(is_up, 20)
            yield s, port
        finally:
            process.kill()
            process.wait()


def _post(port, message, password=PASSWORD, **headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    basic = base64.b64encode(f"alice:{password}".encode()).decode()
    c.request("POST", "/mcp", json.dumps(message),
              {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "Authorization": "Basic " + basic} | {k.replace("_", "-"): v for k, v in headers.items()})
    return c.getresponse()


def test_caddy_names_the_user_and_lets_no_client_name_another():
    with proxied() as (s, port):
        assert _post(port, _call("print(1)"), password="wrong", **MODERN).status == 401
        for more in {}, {"X_MCP_User": "bob"}:
            response = _post(port, _call("print(6 * 7)"), **MODERN, **more)
            body = harness.hear({"mcp-protocol-version": "2026-07-28"}, json.dumps(_call("")).encode(), response)
            assert response.status == 200, body
            assert json.loads(body)["result"]["structuredContent"]["stdout"] == "42\n"
        assert s.end() == 0
        assert s.errors.count("of exec for proxy:alice (") == 2 and "proxy:bob" not in s.errors, s.errors


def test_caddy_passes_events_on_before_the_program_has_ended():
    with proxied() as (_, port), harness.directory() as where:
        # It ends well only if we have seen an event of it while it ran.
        code = (f"import os, time\nprint('begun', flush=True)\nfor _ in range(200):\n"
                f"    if os.path.exists('{where}/mark'):\n        print('seen')\n        break\n    time.sleep(0.1)")
        response = _post(port, _call(code, progressToken="p"), **MODERN)
        line = b""
        while not line.startswith(b"data: "):
            line = response.readline()
        assert "notifications/progress" in line.decode(), line
        (where / "mark").touch()
        assert b'"stdout":"begun\\nseen\\n"' in response.read()


if __name__ == "__main__":
    harness.main()
