# SPDX-License-Identifier: MIT
"""A proxy that does its work, with or without a password, and certificates for servers of a test's own."""

import base64
import http.server
import pathlib
import select
import socket
import subprocess
import urllib.parse

import wheels

EXTENSIONS = """[server]
subjectAltName=IP:127.0.0.1,DNS:localhost
basicConstraints=critical,CA:false
"""


class Authority:
    """A CA, and a certificate of it for 127.0.0.1, as files in a directory: bundle, and tls for wheels.Index."""

    def __init__(self, directory):
        top = pathlib.Path(directory)
        self.bundle, self.tls = str(top / "ca.pem"), (str(top / "server.pem"), str(top / "server.key"))
        (top / "extensions").write_text(EXTENSIONS)
        for command in (
                f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mx-ca -keyout {top}/ca.key -out {top}/ca.pem",
                f"req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout {top}/server.key -out {top}/server.csr",
                f"x509 -req -in {top}/server.csr -CA {top}/ca.pem -CAkey {top}/ca.key -CAcreateserial -days 2 "
                f"-extfile {top}/extensions -extensions server -out {top}/server.pem"):
            subprocess.run(["openssl", *command.split()], check=True, capture_output=True)


class ForwardingProxy(wheels.Served):
    """Forwards GET and CONNECT. requests: what it was asked for, by those it let in; n_refused: of the others."""

    def __init__(self, user=None, password=None):
        outer = self
        self.requests, self.n_refused = [], 0
        self.expected = user and "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def forward(self):
                if outer.expected and self.headers.get("Proxy-Authorization") != outer.expected:
                    outer.n_refused += 1
                    self.send_response(407)
                    self.send_header("Proxy-Authenticate", 'Basic realm="test"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                outer.requests.append(self.path)
                url = urllib.parse.urlsplit(self.path if "://" in self.path else "//" + self.path)
                with socket.create_connection((url.hostname, url.port or 80)) as server:
                    if self.command == "CONNECT":
                        self.send_response(200)
                        self.end_headers()
                    else:
                        headers = "".join(f"{key}: {value}\r\n" for key, value in self.headers.items()
                                          if not key.lower().startswith("proxy-"))
                        server.sendall(f"{self.command} {url.path} HTTP/1.1\r\n{headers}\r\n".encode())
                    self.carry(server)

            def carry(self, server):
                self.close_connection = True
                ends = {server: self.connection, self.connection: server}
                while True:
                    for end in select.select(list(ends), [], [])[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)

            do_GET = do_HEAD = do_POST = do_CONNECT = forward

        self.server = wheels.Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
