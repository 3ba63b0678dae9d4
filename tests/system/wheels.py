#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wheels made on the spot, honest and hostile, and an index that serves them on loopback, honest or not.

    with Index() as index:
        index.add(wheel("demo", "1.0", {"demo.py": "x = 1"}))
        ... index.url ...

As a program, for machines: `wheels.py serve PORT` serves demo() and hostile() until it is killed.
Standard library only."""

import base64
import contextlib
import hashlib
import html
import http.server
import io
import json
import re
import ssl
import stat
import sys
import tarfile
import threading
import urllib.parse
import warnings
import zipfile

import sources

LINK = stat.S_IFLNK | 0o777
FIFO = stat.S_IFIFO | 0o644
SETUID = stat.S_IFREG | 0o4755


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def wheel(name, version="1.0", files=(), tag="py3-none-any", requires=(), scripts=(), requires_python="", metadata=None,
          raw=()):
    """(file's name, content). files: {path: text, bytes, or (bytes, mode)}; scripts: console scripts, {name: "module:function"};
    raw: more entries as pairs, which are not in RECORD and may repeat a path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = stem + ".dist-info"
    entries = dict(files)
    if metadata is None:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Python: {requires_python}"] if requires_python else []
        metadata = "\n".join(lines + [f"Requires-Dist: {each}" for each in requires]) + "\n"
    entries[info + "/METADATA"] = metadata
    entries[info + "/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        entries[info + "/entry_points.txt"] = "[console_scripts]\n" + "".join(
            f"{key} = {value}\n" for key, value in dict(scripts).items())
    record = ""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in [*entries.items(), *raw]:
            data, mode = content if isinstance(content, tuple) else (content, stat.S_IFREG | 0o644)
            data = data.encode() if isinstance(data, str) else data
            # The date is fixed: the same wheel has the same hash.
            entry = zipfile.ZipInfo("x", (2020, 1, 1, 0, 0, 0))
            entry.filename = entry.orig_filename = path
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with warnings.catch_warnings():
                # Of the same name twice, which is meant.
                warnings.simplefilter("ignore")
                archive.writestr(entry, data)
            if path in entries:
                record += record_line(path, data)
        entry = zipfile.ZipInfo(info + "/RECORD", (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (stat.S_IFREG | 0o644) << 16
        archive.writestr(entry, record + info + "/RECORD,,\n")
    return f"{stem}-{tag}.whl", out.getvalue()


def sdist(name, version="1.0", setup="import os; os.abort()"):
    """(file's name, content) of a source distribution, whose setup.py must not run."""
    stem = f"{name}-{version}"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in (("setup.py", setup),
                           ("PKG-INFO", f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n")):
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stem + ".tar.gz", out.getvalue()


def demo():
    """Wheels that are what they should be."""
    return [
        wheel("mx-demo", "1.0", {"mx_demo.py": "def main():\n    print('demo 1.0')\n"}, scripts={"mx-demo": "mx_demo:main"}),
        wheel("mx-demo", "2.0", {"mx_demo.py": "def main():\n    print('demo 2.0')\n"}, scripts={"mx-demo": "mx_demo:main"},
              requires=["mx-base>=1"]),
        wheel("mx-base", "1.0", {"mx_base/__init__.py": "x = 1\n", "mx_base/bad.py": "this is no python\n"}),
    ]


def marker(name):
    """A line of Python that leaves a trace where whoever runs it may write, and says so on stderr."""
    return (f"import os, sys; sys.stderr.write('HOSTILE {name} uid=%d pid=%d\\n' % (os.getuid(), os.getpid())); "
            f"open('/tmp/hostile-{name}', 'w').close()\n")


def hostile_at_start():
    """Wheels that run something when an interpreter of the set starts. They are installed; where they run matters."""
    return {
        "mx-pth": wheel("mx-pth", "1.0", {"mx_pth.py": "", "mx_pth.pth": marker("pth")}),
        "mx-sitecustomize": wheel("mx-sitecustomize", "1.0", {"sitecustomize.py": marker("sitecustomize"),
                                                              "usercustomize.py": marker("usercustomize")}),
        "mx-compileall": wheel("mx-compileall", "1.0", {
            name + ".py": marker(name) for name in ("compileall", "py_compile", "json", "warnings", "os", "site")}),
        "mx-encodings": wheel("mx-encodings", "1.0", {"encodings/__init__.py": marker("encodings"),
                                                      "encodings/utf_8.py": marker("encodings")}),
        "mx-bad-sources": wheel("mx-bad-sources", "1.0", {
            "mx_bad/__init__.py": "", "mx_bad/syntax.py": "def (", "mx_bad/deep.py": "(" * 5000 + ")" * 5000,
            "mx_bad/minus.py": "-" * 200000 + "1", "mx_bad/nul.py": "x = 1\0", "mx_bad/latin.py": b"# caf\xe9\n",
            "mx_bad/cookie.py": "# coding: mx-unknown\n", "mx_bad/good.py": "x = 42\n"}),
        "mx-data": wheel("mx-data", "1.0", {"mx_data-1.0.data/data/share/mx/file.txt": "data\n",
                                            "mx_data-1.0.data/scripts/mx-script": ("#!python\nprint('script')\n", 0o100755),
                                            "mx_data-1.0.data/headers/mx.h": "\n"}),
        "mx-modes": wheel("mx-modes", "1.0", {"mx_modes.py": ("x = 1\n", stat.S_IFREG | 0o200),
                                              "mx_world.py": ("x = 1\n", stat.S_IFREG | 0o777)}),
    }


def hostile():
    """Wheels that must be refused, or must do no harm, {name: (file, content)}."""
    def data(name, path, content="x\n"):
        return wheel(name, "1.0", {f"{name.replace('-', '_')}-1.0.data/{path}": content})

    return {
        "mx-traversal": wheel("mx-traversal", raw=[("../../../../tmp/hostile-traversal", "x")]),
        "mx-absolute": wheel("mx-absolute", raw=[("/tmp/hostile-absolute", "x")]),
        "mx-inner-traversal": wheel("mx-inner-traversal", raw=[("mx/../../../../../x.py", "x")]),
        "mx-backslash": wheel("mx-backslash", raw=[("mx\\..\\..\\x.py", "x")]),
        "mx-newline": wheel("mx-newline", raw=[("mx\nx.py", "x")]),
        "mx-link": wheel("mx-link", raw=[("mx_link", ("/etc/passwd", LINK))]),
        "mx-link-and-file": wheel("mx-link-and-file", raw=[("mx", ("/tmp", LINK)), ("mx/hostile-through-link", "x")]),
        "mx-link-inside": wheel("mx-link-inside", "1.0", {"mx.txt": "x"}, raw=[("mx_inside", ("mx.txt", LINK))]),
        "mx-fifo": wheel("mx-fifo", raw=[("mx_fifo", ("", FIFO))]),
        "mx-setuid": wheel("mx-setuid", raw=[("mx_setuid", ("#!/bin/sh\nid\n", SETUID))]),
        "mx-twice": wheel("mx-twice", "1.0", {"mx_twice.py": "x = 1\n"}, raw=[("mx_twice.py", "x = 2\n")]),
        "mx-below-file": wheel("mx-below-file", "1.0", {"mx_below": "x"}, raw=[("mx_below/x.py", "x")]),
        "mx-long-name": wheel("mx-long-name", raw=[("mx/" + "y" * 300 + ".py", "x")]),
        "mx-scheme": data("mx-scheme", "stdlib/os.py"),
        "mx-data-traversal": data("mx-data-traversal", "data/../../../x"),
        "mx-data-config": data("mx-data-config", "data/pyvenv.cfg", "home = /tmp\n"),
        "mx-data-set": data("mx-data-set", "data/mcp-exec-set.json", "{}"),
        "mx-data-bin": data("mx-data-bin", "data/bin", "x"),
        "mx-data-python": data("mx-data-python", "data/bin/python3", "#!/bin/sh\n"),
        "mx-scripts-python": data("mx-scripts-python", "scripts/python3", "#!/bin/sh\n"),
        "mx-entry-python": wheel("mx-entry-python", "1.0", {"mx_entry.py": ""}, scripts={"python3": "mx_entry:main"}),
        "mx-entry-traversal": wheel("mx-entry-traversal", "1.0", {"mx_entry2.py": ""},
                                    scripts={"../../../../tmp/hostile-entry": "mx_entry2:main"}),
        "mx-not-zip": ("mx_not_zip-1.0-py3-none-any.whl", b"this is no archive"),
        "mx-many-files": wheel("mx-many-files", "1.0", {f"mx_many/{i}": "" for i in range(3000)}),
        "mx-bomb": wheel("mx-bomb", "1.0", {"mx_bomb.txt": b"\0" * (64 << 20)}),
    }


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients go when they like."""


class Served:
    """Who has a server, which works for the time of a with statement."""

    server = None

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Index(Served):
    """A package index (PEP 503, on demand with PEP 658's metadata) and a file server on a port of loopback.

    behaviours: {project or file: what it does instead}, of "401", "403", "500", "503", "404", "garbage", "hang", "slow",
    "drop", "redirect-file". redirects: {file: URL}. tls: (certificate, key), files."""

    def __init__(self, port=0, user=None, password=None, tls=None):
        self.files = {}             # file -> content
        self.projects = {}          # project -> {file: attributes of its link}
        self.behaviours = {}
        self.redirects = {}
        self.repositories = None    # a directory of them, below /git/
        self.times = {}             # file -> when it was uploaded; then the index speaks JSON (PEP 700)
        self.requests = []          # paths, as they came
        self.authorizations = []
        self.user, self.password = user, password
        self.tls = tls
        self.stopping = threading.Event()
        self.server = Server(("127.0.0.1", port), self.handler())
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            # Not while others wait to be accepted.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.top = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/"
        self.url = self.top + "simple/"

    def __exit__(self, *_):
        self.stopping.set()
        super().__exit__()

    def add(self, file_and_content, sha256=None, yanked=None, requires_python=None, url=None, has_metadata=False,
            time=None):
        """sha256: what the index claims, "" for nothing; yanked: the reason; url: where it says that the file is;
        has_metadata: metadata apart (PEP 658), so that nobody reads the file before it is downloaded; time: of upload."""
        file, content = file_and_content
        project = re.sub(r"[-_.]+", "-", re.split(r"-\d", file)[0]).lower()
        digest = hashlib.sha256(content).hexdigest() if sha256 is None else sha256
        attributes = {"href": (url or f"../../files/{file}") + (f"#sha256={digest}" if digest else "")}
        if yanked is not None:
            attributes["data-yanked"] = yanked
        if requires_python:
            attributes["data-requires-python"] = requires_python
        if has_metadata:
            attributes["data-core-metadata"] = "true"
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
                self.files[file + ".metadata"] = archive.read(name)
        self.files[file] = content
        if time:
            self.times[file] = time
        self.projects.setdefault(project, {})[file] = attributes
        return self

    def page(self, project):
        links = "".join("<a " + " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items()) +
                        f">{file}</a>\n" for file, attributes in self.projects[project].items())
        return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()

    def json_page(self, project):
        files = []
        for file, attributes in self.projects[project].items():
            href, _, digest = attributes["href"].partition("#sha256=")
            files.append({"filename": file, "url": href, "hashes": {"sha256": digest}, "size": len(self.files[file]),
                          "upload-time": self.times.get(file)})
        return json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files}).encode()

    def answer(self, path):
        """(status, type, content) of a path."""
        parts = urllib.parse.unquote(path).strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2 and parts[1] in self.projects:
            if self.times:
                return 200, "application/vnd.pypi.simple.v1+json", self.json_page(parts[1])
            return 200, "text/html", self.page(parts[1])
        if (parts[0], len(parts)) in (("files", 2), ("pythons", 3)) and parts[-1] in self.files:
            return 200, "application/octet-stream", self.files[parts[-1]]
        return 404, "text/plain", b"not found\n"

    def is_admitted(self, authorization):
        if self.user is None:
            return True
        return authorization == "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def handler(index):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                self.do_GET()

            def reply_of_git(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.headers.get("Transfer-Encoding") == "chunked":
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                path = self.path.removeprefix("/git")
                status, headers, content = sources.answer_of_git(index.repositories, self.command, path, self.headers, body)
                self.reply(status, headers.pop("Content-Type", "text/plain"), content, headers.items())

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                index.requests.append(self.path)
                index.authorizations.append(self.headers.get("Authorization", ""))
                if index.repositories and self.path.startswith("/git/"):
                    return self.reply_of_git()
                last = urllib.parse.unquote(self.path).strip("/").rsplit("/", 1)[-1]
                behaviour = index.behaviours.get(last, index.behaviours.get("*"))
                if not index.is_admitted(self.headers.get("Authorization", "")):
                    behaviour = "401"
                if behaviour and not behaviour.isdecimal():
                    return getattr(self, "do_" + behaviour.replace("-", "_"))()
                if last in index.redirects:
                    return self.reply(302, "text/plain", b"", [("Location", index.redirects[last])])
                status, kind, content = index.answer(self.path)
                if behaviour:
                    status, kind, content = int(behaviour), "text/plain", b"no\n"
                self.reply(status, kind, content)

            def reply(self, status, kind, content, headers=()):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                if status == 401:
                    self.send_header("WWW-Authenticate", 'Basic realm="test"')
                for key, value in headers:
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def do_garbage(self):
                self.reply(200, "application/vnd.pypi.simple.v1+json", b"{ this is not JSON")

            def do_hang(self):
                index.stopping.wait(600)
                self.close_connection = True

            def do_slow(self):
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not index.stopping.wait(0.2):
                        self.wfile.write(b"x")
                self.close_connection = True

            def do_drop(self):
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                self.wfile.write(b"x")
                self.close_connection = True

            def do_redirect_file(self):
                self.reply(302, "text/plain", b"", [("Location", "file:///etc/passwd")])

        return Handler


class Proxy(Served):
    """A proxy that refuses everything with one status."""

    def __init__(self, status=403, port=0):
        outer = self
        self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def refuse(self):
                outer.requests.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_HEAD = do_CONNECT = refuse

        self.server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def catalogue(index):
    """Everything that a system test may want, on one index. Also projects that misbehave."""
    for each in (*demo(), *hostile_at_start().values(), *hostile().values()):
        index.add(each)
    index.add(wheel("mx-yanked", "1.0", {"mx_yanked.py": ""}), yanked="it is broken")
    index.add(wheel("mx-wrong-hash", "1.0", {"mx_wrong.py": ""}), sha256="0" * 64)
    index.add(wheel("mx-no-hash", "1.0", {"mx_no_hash.py": ""}), sha256="")
    index.add(wheel("mx-other-machine", "1.0", {"mx_other.py": ""}, tag="cp311-cp311-win_amd64"))
    index.add(wheel("mx-new-python", "1.0", {"mx_new.py": ""}, requires_python=">=3.99"), requires_python=">=3.99")
    index.add(wheel("mx-needs-url", "1.0", {"mx_url.py": ""}, requires=["evil @ git+https://127.0.0.1:1/evil"]))
    index.add(sdist("mx-source-only"))
    index.add(wheel("mx-slow", "1.0", {"mx_slow.py": "x = 1\n"}), has_metadata=True)
    index.behaviours["mx_slow-1.0-py3-none-any.whl"] = "slow"
    index.add(wheel("mx-file-url", "1.0", {"mx_file.py": ""}), url="file:///etc/passwd")
    for status in ("401", "403", "500", "503", "garbage", "hang", "slow", "drop"):
        index.add(wheel(f"mx-index-{status}", "1.0", {}))
        index.behaviours[f"mx-index-{status}"] = status
        file, content = wheel(f"mx-file-{status}", "1.0", {})
        index.add((file, content))
        index.behaviours[file] = status
    return index


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "serve":
        sys.exit(__doc__)
    with catalogue(Index(int(sys.argv[2]))) as served:
        print(served.url, flush=True)
        threading.Event().wait()
