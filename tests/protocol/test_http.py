# SPDX-License-Identifier: MIT
"""HTTP against the real daemon: programs behind requests, streams, hang-ups, sessions, floods."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import resource
import socket
import time
import urllib.parse

import harness
import schemas
from test_cli_serve import TOKEN, serving

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def _call(code, ident=1, meta=None, **arguments):
    params = {"name": "exec", "arguments": {"code": code, **arguments}}
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}


def messages_of(headers, body):
    """What an answer of the endpoint says, whatever its form; nothing where it has no body of JSON."""
    kind = headers.get("Content-Type") or ""
    if kind == "text/event-stream":
        return [json.loads(data) for name, data in schemas.Events().take(body.encode()) if name == "message"]
    return [json.loads(body)] if kind.startswith("application/json") and body else []


class Post:
    """One POST on a connection of its own, sent at once; reply() waits for the answer."""

    def __init__(self, service, message, method="POST", **headers):
        where = urllib.parse.urlsplit(service.url)
        self.connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
        headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream"} | {k.replace("_", "-"): v for k, v in headers.items()}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.listener = schemas.Listener(schemas.spoken(headers.get("MCP-Protocol-Version")))
        if not isinstance(message, bytes):
            self.listener.sent(message)
        self.connection.request(method, "/mcp", body, headers)

    def reply(self):
        with contextlib.closing(self.connection):
            response = self.connection.getresponse()
            self.headers, self.body = response.headers, response.read().decode()
        for message in messages_of(self.headers, self.body):
            self.listener.received(message)
        return response.status

    def messages(self):
        self.reply()
        return messages_of(self.headers, self.body)

    def hang_up(self):
        # A file object that reads would keep the socket open.
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def _modern(service, message, **headers):
    return Post(service, message, MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call", Mcp_Name="exec", **headers)


def _handshake(service):
    p = Post(service, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    assert p.reply() == 200, p.body
    return p.headers["Mcp-Session-Id"]


def test_stateless_call_is_answered():
    with serving() as s:
        p = _modern(s, _call("print(6 * 7)", meta=META))
        assert p.reply() == 200, p.body
        assert json.loads(p.body)["result"]["structuredContent"]["stdout"] == "42\n"


def test_headers_of_sessions_and_of_resumption_mean_nothing_to_a_stateless_call():
    with serving() as s:
        p = _modern(s, _call("print(6 * 7)", meta=META), Mcp_Session_Id="nonsense", Last_Event_ID="3")
        assert p.reply() == 200, p.body
        assert json.loads(p.body)["result"]["structuredContent"]["stdout"] == "42\n"
        assert "Mcp-Session-Id" not in p.headers, p.headers
        ended = _handshake(s)
        assert Post(s, b"", method="DELETE", Mcp_Session_Id=ended).reply() == 204
        assert _modern(s, _call("print(1)", meta=META), Mcp_Session_Id=ended).reply() == 200
        p = _modern(s, _call("import time; time.sleep(1.5)", meta=META | {"progressToken": 1}), Last_Event_ID="3")
        assert p.messages()[-1]["id"] == 1
        assert not [line for line in p.body.splitlines() if line.startswith(("id:", "retry:"))], p.body


def test_progress_flows_on_the_stream_of_its_request():
    with serving() as s:
        code = "import time\nfor i in range(3):\n    print('step', i, flush=True)\n    time.sleep(1)"
        p = _modern(s, _call(code, meta=META | {"progressToken": "p"}))
        *progress, result = p.messages()
        assert p.headers["Content-Type"] == "text/event-stream"
        assert progress and all(m["params"]["progressToken"] == "p" for m in progress), progress
        values = [m["params"]["progress"] for m in progress]
        assert values == sorted(set(values)), values
        assert result["id"] == 1 and result["result"]["structuredContent"]["stdout"] == "step 0\nstep 1\nstep 2\n"


def test_silent_stream_is_kept_alive():
    with serving() as s:
        p = _modern(s, _call("import time; time.sleep(21); print('late')", meta=META))
        message, = p.messages()
        assert message["result"]["structuredContent"]["stdout"] == "late\n", message
        # A proxy between closes what is silent for a minute; a comment is no message.
        assert ": keepalive\n\n" in p.body.split("event: message")[0], p.body


def _runs_until_killed(mark):
    """A program that leaves a mark when it starts and another when it was allowed to go on."""
    return f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(1.5)\nopen({str(mark)!r}, 'w').write('went on')"


def test_hangup_ends_a_modern_run():
    for accept in ("application/json", "application/json, text/event-stream"):
        with serving() as s, harness.directory() as where:
            p = _modern(s, _call(_runs_until_killed(where / "mark"), meta=META), Accept=accept)
            harness.wait_until((where / "mark").exists)
            p.hang_up()
            time.sleep(2)
            assert (where / "mark").read_text() == ""


def test_hangup_lets_a_run_of_the_handshake_era_go_on():
    with serving() as s, harness.directory() as where:
        session = _handshake(s)
        p = Post(s, _call(_runs_until_killed(where / "mark")), Mcp_Session_Id=session)
        harness.wait_until((where / "mark").exists)
        p.hang_up()
        harness.wait_until(lambda: (where / "mark").read_text() == "went on")


def test_cancel_within_the_session_ends_the_run():
    with serving() as s, harness.directory() as where:
        session = _handshake(s)
        p = Post(s, _call(_runs_until_killed(where / "mark"), ident=7), Mcp_Session_Id=session)
        harness.wait_until((where / "mark").exists)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert Post(s, cancel, Mcp_Session_Id=_handshake(s)).reply() == 202  # somebody else's 7
        assert Post(s, cancel, Mcp_Session_Id=session).reply() == 202
        assert p.reply() == 202 and p.body == ""
        time.sleep(2)
        assert (where / "mark").read_text() == ""


def test_deleted_session_is_unknown_and_its_runs_end():
    with serving() as s, harness.directory() as where:
        session = _handshake(s)
        p = Post(s, _call(_runs_until_killed(where / "mark")), Mcp_Session_Id=session)
        harness.wait_until((where / "mark").exists)
        assert Post(s, b"", method="DELETE", Mcp_Session_Id=session).reply() == 204
        assert p.reply() == 404
        assert Post(s, {"jsonrpc": "2.0", "id": 5, "method": "ping"}, Mcp_Session_Id=session).reply() == 404
        time.sleep(2)
        assert (where / "mark").read_text() == ""


def test_many_clients_at_once_are_all_answered_with_their_own():
    with serving() as s, concurrent.futures.ThreadPoolExecutor(40) as pool:
        def one(i):
            if i % 4:
                return s.post({"jsonrpc": "2.0", "id": i, "method": "ping"})["id"] == i
            return s.exec(f"print({i})")["structuredContent"]["stdout"] == f"{i}\n"
        assert all(pool.map(one, range(40)))


def test_reader_that_stops_does_not_delay_others():
    with serving() as s:
        big = "print('x' * 39000); import sys; print('y' * 39000, file=sys.stderr)"
        where = urllib.parse.urlsplit(s.url)
        stopped = []
        for _ in range(8):
            c = socket.create_connection((where.hostname, where.port))
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = json.dumps(_call(big)).encode()
            c.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() +
                      b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            stopped.append(c)
        began = time.monotonic()
        for i in range(20):
            assert s.post({"jsonrpc": "2.0", "id": i, "method": "ping"})["result"] == {}
        assert time.monotonic() - began < 10
        for c in stopped:
            c.close()


def test_lack_of_descriptors_is_survived():
    with serving() as s:
        assert s.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})["result"] == {}
        where = urllib.parse.urlsplit(s.url)
        pid = s.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, before[1]))
        crowd = [socket.create_connection((where.hostname, where.port), timeout=30) for _ in range(20)]
        time.sleep(0.3)
        began = _cpu_seconds(pid)
        time.sleep(1)
        assert _cpu_seconds(pid) - began < 0.3, "spins"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for c in crowd:  # who waited is served
            c.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for c in crowd:
            with c:
                assert c.recv(100).startswith(b"HTTP/1.1 401 ")
        assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
        assert s.end() == 0


def _lack_of_memory(room, n_clients=4):
    with serving() as s, concurrent.futures.ThreadPoolExecutor(n_clients) as pool:
        assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
        pid = s.process.pid
        with open(f"/proc/{pid}/statm") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (used + room, before[1]))

        def big(i):
            # Fits into no buffer that is left, several at once still less.
            p = Post(s, _call("#" * 900000, ident=i))
            return p.reply(), p.body
        refused = 0
        for status, body in pool.map(big, range(3 * n_clients)):
            # Never a crash, never a connection that only ends, never a success without its output.
            refused += status == 503
            if status == 503:
                assert json.loads(body)["error"] == {
                    "code": -31001, "message": "The server is out of memory; try again later."}, body
            else:
                assert status == 200 and ('"isError":true' in body or '"stdout":""' in body), (status, body[:300])
        assert s.process.poll() is None
        resource.prlimit(pid, resource.RLIMIT_AS, before)
        assert s.exec("print(2)")["structuredContent"]["stdout"] == "2\n"
        assert s.end() == 0
        return refused


def test_lack_of_memory_is_answered_and_survived():
    _lack_of_memory(1 << 20)


def test_lack_of_any_memory_is_answered_and_survived():
    assert _lack_of_memory(0) > 0


def test_lack_of_memory_for_the_event_loop_is_survived_too():
    # Each connection is something more for it to watch.
    for _ in range(3):
        assert _lack_of_memory(0, n_clients=40) > 0


def _cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_clients_that_come_and_go_are_served_while_systemd_does_not_listen():
    with serving() as s:  # nobody reads the notification socket after READY=1
        for i in range(300):
            assert s.post({"jsonrpc": "2.0", "id": i, "method": "ping"}, timeout=10)["id"] == i
        assert len(os.listdir(f"/proc/{s.process.pid}/fd")) < 20


def test_terminate_closes_idle_connections_and_exits():
    with serving() as s:
        where = urllib.parse.urlsplit(s.url)
        idle = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
        idle.request("GET", "/")
        idle.getresponse().read()
        assert s.end(seconds=5) == 0
        idle.close()


if __name__ == "__main__":
    harness.main()
