# SPDX-License-Identifier: MIT
"""What stands between real clients and the server in the conformance stage: it changes nothing, and misses nothing."""

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import threading
import types
import urllib.parse

import harness
import schemas
from test_cli_serve import serving
from test_http import Post, _call, _modern, META
from test_http_site import Stream

WITNESS = pathlib.Path(__file__).with_name("conformance") / "witness.py"
SECRET = "what a program printed"
WRONG = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "words": SECRET}]}}
RIGHT = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": SECRET}]}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "exec"}}


def _witness():
    if not schemas.jsonschema:
        raise harness.Skip("python3-jsonschema is not installed")
    sys.path.insert(0, str(WITNESS.parent))
    import witness
    return witness


@contextlib.contextmanager
def _proxy(url):
    """What a client needs of a service, and after the block what was found of it: (number of messages, problems)."""
    witness, found = _witness(), []
    with harness.directory() as folder:
        findings, work = witness.Findings(folder), witness.Work()
        with witness.HttpProxy(findings, "client", url, work) as passed:
            yield types.SimpleNamespace(url=passed + "/mcp"), found
        work.end()
        found += findings.of("client")


def _http(message, kind="application/json"):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@contextlib.contextmanager
def _server_that_says(*pieces):
    """Takes one request and answers with these bytes, each in a packet of its own; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve():
            with listening.accept()[0] as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asked = b""
                while not asked.endswith(b"}"):     # of the body, which may come after the head
                    asked += s.recv(1 << 16)
                for piece in pieces:
                    s.sendall(piece)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def _found(*pieces):
    """What is found of a server that says this."""
    with _server_that_says(*pieces) as url, _proxy(url) as (service, found):
        where = urllib.parse.urlsplit(service.url)
        with contextlib.closing(http.client.HTTPConnection(where.hostname, where.port, timeout=30)) as client:
            client.request("POST", "/mcp", json.dumps(CALL), {"Content-Type": "application/json"})
            client.getresponse().read()
    return found


def test_message_that_fits_no_schema_is_found_and_its_content_is_not_told():
    event = b"event: message\r\ndata: " + json.dumps(WRONG).encode() + b"\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (b": keepalive\n\n", event[:30], event[30:])) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    in_pieces = [bytes([b]) for b in head + chunks]
    for pieces in ([_http(WRONG)], [_http(json.dumps(WRONG)[:-1].encode())], [_http([WRONG])], [head + chunks], in_pieces,
                   [b"HTTP/1.1 100 Continue\r\n\r\n" + _http(WRONG)]):
        n, problems = _found(*pieces)
        assert n == 1 and problems.startswith("1 of 1 messages\n"), (pieces[0][:300], n, problems)
        assert SECRET not in problems and "words" in problems or "no message" in problems, problems


def test_silence_is_found_and_a_good_message_is_not():
    assert _found(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n") == [0, "1 of 0 messages\nno message was heard"]
    assert _found(_http(RIGHT)) == [1, ""]


def test_client_notices_nothing_of_it():
    with serving() as s, _proxy(s.url.removesuffix("/mcp")) as (service, found):
        p = _modern(service, _call("print('α' * 30000)", meta=META))
        assert p.reply() == 200, p.body
        assert json.loads(p.body)["result"]["structuredContent"]["stdout_bytes"] == 60001
        p = _modern(service, _call("import time\nfor i in range(3): print(i); time.sleep(0.7)", meta=META | {"progressToken": 1}))
        assert len(p.messages()) > 1 and p.headers["Content-Type"] == "text/event-stream", p.body
        assert Post(service, b"", method="GET").reply() == 405
        with contextlib.closing(Stream(service)) as stream:
            assert stream.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
    n, problems = found
    assert n >= 5 and not problems, found


def test_hangup_gets_through_it():
    with serving() as s, harness.directory() as where, _proxy(s.url.removesuffix("/mcp")) as (service, _):
        mark = where / "mark"
        p = _modern(service, _call(f"import time; open({str(mark)!r}, 'w').close(); time.sleep(100)", meta=META))
        harness.wait_until(mark.exists)
        p.hang_up()
        harness.wait_until(lambda: b": cancelled" in s.process.stderr.readline(), 20)


def test_pipes_pass_through_it_with_end_and_status():
    witness = _witness()
    program = f"import sys\nfor line in sys.stdin: print({json.dumps(WRONG)!r}, flush=True)\nsys.exit(7)"
    with harness.directory() as folder:
        done = subprocess.run([sys.executable, "-B", WITNESS, "stdio", folder, "client", sys.executable, "-c", program],
                              input=json.dumps(CALL).encode() + b"\nnonsense\n", capture_output=True, timeout=30)
        assert (done.returncode, done.stderr) == (7, b""), done
        assert done.stdout == (json.dumps(WRONG) + "\n").encode() * 2, done.stdout
        n, problems = witness.Findings(folder).of("client")
        assert n == 2 and "2 of 2 messages" in problems and SECRET not in problems, problems


if __name__ == "__main__":
    harness.main()
