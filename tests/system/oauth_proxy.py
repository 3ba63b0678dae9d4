# SPDX-License-Identifier: MIT
"""Stands in for the OAuth proxy of a site: issues tokens at /issuer, checks them, names the user and forwards to the
proxy's socket, as mcp-exec(8) says it must. For tests only: anybody may have a token of anybody.

    oauth_proxy.py PORT     prints a line once it serves"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import socket
import sys
import time
import urllib.parse

SOCKET = "/run/mcp-exec/proxy.sock"
KEY = os.urandom(32)
PASSED_ON = ("content-type", "accept", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "host")


def sign(claims):
    text = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    return text + "." + hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()


def subject_of(header, audience):
    """The user whom a good token names, or None."""
    kind, _, token = (header or "").partition(" ")
    text, _, digest = token.partition(".")
    expected = hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
    if kind.lower() != "bearer" or not hmac.compare_digest(digest.encode(), expected.encode()):
        return None
    claims = json.loads(base64.urlsafe_b64decode(text))
    return claims["sub"] if claims["aud"] == audience and claims["exp"] > time.time() else None


class Upstream(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def base(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, status, value, **headers):
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def forward(self, user, body=b""):
        # Nothing of what the client says of itself: neither its token nor a user's name.
        headers = {k: v for k, v in self.headers.items() if k.lower() in PASSED_ON}
        if user:
            headers["X-MCP-User"] = user
        upstream = Upstream("mcp-exec", timeout=60)
        upstream.request(self.command, self.path, body, headers)
        response = upstream.getresponse()
        data = response.read()
        kept = {k.replace("-", "_"): v for k, v in response.getheaders()
                if k.lower() in ("content-type", "mcp-session-id")}
        upstream.close()
        self.answer(response.status, data, **kept)

    def do_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/.well-known/oauth-protected-resource"):
            self.forward(None)
        elif self.path == "/issuer/.well-known/oauth-authorization-server":
            self.answer_json(200, {"issuer": self.base() + "/issuer", "token_endpoint": self.base() + "/issuer/token"})
        elif self.path == "/issuer/token":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            claims = {"sub": form["user"], "aud": form["resource"], "exp": time.time() + int(form.get("seconds", 60))}
            self.answer_json(200, {"access_token": sign(claims), "token_type": "Bearer"})
        else:
            user = subject_of(self.headers.get("Authorization"), self.base() + "/mcp")
            if user:
                self.forward(user, body)
            else:
                where = self.base() + "/.well-known/oauth-protected-resource/mcp"
                self.answer_json(401, {"error": "invalid_token"},
                                 WWW_Authenticate=f'Bearer resource_metadata="{where}"')

    do_GET = do_POST = do_DELETE = do_request


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print("serving", flush=True)
    server.serve_forever()
