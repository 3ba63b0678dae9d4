# SPDX-License-Identifier: MIT
"""Who may use HTTP, and what of it: named tokens, their limits, reloads, the proxy's socket."""

import concurrent.futures
import contextlib
import fcntl
import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import time
import urllib.error

import harness
from test_cli_serve import serving
from harness import run


def add(file, name, *options, **more):
    done = run("token", "add", name, "--file", str(file), *options, **more)
    assert done.returncode == 0, done
    return done.stdout.decode().strip()


@contextlib.contextmanager
def serving_tokens(*tokens, options=(), **more):
    """A service with these named tokens (lists of a name and options); gives the service, its file, the tokens."""
    with harness.directory() as where:
        file = where / "tokens"
        secrets = [add(file, *t) for t in tokens]
        with serving("--token-file", str(file), *options, token=None, **more) as s:
            yield s, file, secrets


def status(s, token, message=None):
    try:
        s.post(message or {"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=token)
        return 200
    except urllib.error.HTTPError as error:
        with error:
            assert error.headers["Content-Type"] == "application/json", error
            return error.code


def call(s, token, code, **arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "exec", "arguments": {"code": code, **arguments}}}
    return s.post(message, token=token)["result"]


def text(result):
    return result["content"][0]["text"]


def test_token_command_makes_lists_and_removes():
    with harness.directory() as where:
        file = where / "tokens"
        file.write_text("# ours\nuser alice parallel=1\n")
        token = add(file, "ci", "--parallel", "2", "--timeout", "10s", "--memory", "64M", "--rate", "30", "--queue", "0")
        other = add(file, "front", "--user-rate", "5", "--user-queue", "0", "--delegate", "--user-parallel", "1")
        assert len(token) >= 64 and token != other
        content = file.read_text()
        assert token not in content and content.startswith("# ours\nuser alice parallel=1\ntoken ci sha256:"), content
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        done = run("token", "list", "--file", str(file))
        assert done.stdout == b"ci parallel=2 queue=0 rate=30 timeout=10s memory=64M\n" \
            b"front delegate user-parallel=1 user-queue=0 user-rate=5\n", done
        assert run("token", "add", "ci", "--file", str(file)).returncode == 1
        assert run("token", "remove", "ci", "--file", str(file)).returncode == 0
        assert run("token", "remove", "ci", "--file", str(file)).returncode == 1
        assert "token ci" not in file.read_text() and "token front" in file.read_text()
        file.write_text("token last sha256:" + "0" * 64)
        assert run("token", "remove", "last", "--file", str(file)).returncode == 0 and file.read_bytes() == b""
        assert os.listdir(where) == ["tokens"]


def test_token_command_refuses_nonsense():
    with harness.directory() as where:
        file = str(where / "tokens")
        for arguments in ((), ("add",), ("add", "a/b"), ("add", "-x"), ("add", "a", "b"), ("list", "a"), ("frob", "a"),
                          ("add", "a", "--parallel", "0"), ("add", "a", "--memory", "1M"), ("add", "a" * 65)):
            done = run("token", *arguments, "--file", file)
            assert done.returncode == 2 and done.stderr, (arguments, done)
        assert not os.path.exists(file)
        assert run("token", "add", "weak", "--stdin", "--file", file, input=b"secret\n").returncode == 1
        assert run("token", "add", "own", "--stdin", "--file", file, input=b"x" * 40 + b"\n").returncode == 0
        (where / "tokens").write_text("token broken\n")
        done = run("token", "add", "a", "--file", file)
        assert done.returncode == 1 and b"tokens:1: " in done.stderr, done


def test_token_command_waits_for_nobody_who_may_only_read_the_directory():
    """Who had locked it kept root from taking a token away."""
    with harness.directory() as where:
        file = where / "tokens"
        add(file, "ci")
        fd = os.open(where, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_SH)
        assert run("token", "remove", "ci", "--file", str(file)).returncode == 0
        os.close(fd)
        assert os.listdir(where) == ["tokens"]


def test_token_commands_at_the_same_time_lose_nothing():
    with harness.directory() as where:
        file = where / "tokens"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            tokens = set(pool.map(lambda i: add(file, f"t{i}"), range(24)))
        assert len(tokens) == 24 and len(run("token", "list", "--file", str(file)).stdout.splitlines()) == 24
        assert os.listdir(where) == ["tokens"]


def test_token_command_follows_no_link_and_takes_no_pipe():
    with harness.directory() as where:
        add(where / "tokens", "ci")
        (where / "link").symlink_to(where / "tokens")
        os.mkfifo(where / "pipe")
        for name in "link", "pipe":
            done = run("token", "add", "x", "--file", str(where / name))
            assert (done.returncode, done.stdout) == (1, b"") and b"is no regular file" in done.stderr, done
        assert run("token", "list", "--file", str(where / "tokens")).stdout == b"ci\n"
        # A file that is not the service's stays its owner's.
        uid = 65534 if os.geteuid() == 0 else os.geteuid()
        os.chown(where / "tokens", uid, -1)
        add(where / "tokens", "x")
        assert ((where / "tokens").stat().st_uid, stat.S_IMODE((where / "tokens").stat().st_mode)) == (uid, 0o600)


def test_token_that_cannot_be_shown_is_not_stored():
    """It was in effect, nobody knew it, and the command had succeeded."""
    with harness.directory() as where, open("/dev/full", "wb") as full:
        command = [harness.MCP_EXEC, "token", "add", "ci", "--file", str(where / "tokens")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=harness.environment())
        assert done.returncode == 1 and b"Nothing was done" in done.stderr and b"No space left" in done.stderr, done
        assert os.listdir(where) == []


def test_token_that_cannot_be_stored_is_not_shown():
    with harness.directory() as where:
        limit = resource.RLIMIT_FSIZE
        command = [harness.MCP_EXEC, "token", "add", "ci", "--file", str(where / "tokens")]
        done = subprocess.run(command, capture_output=True, env=harness.environment(),
                              preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(limit, (1, 1))))
        assert (done.returncode, done.stdout) == (1, b"") and b"File too large" in done.stderr, done
        assert os.listdir(where) == []


def test_token_from_standard_input_is_the_whole_of_it():
    """All behind the first line was dropped without a word."""
    with harness.directory() as where:
        for text in (b"x" * 40 + b"\n" + b"y" * 40 + b"\n", b"x" * 40 + b"\0yz", b"x" * 5000, b"x" * 23, b"x" * 40 + b" y"):
            done = run("token", "add", "own", "--stdin", "--file", str(where / "tokens"), input=text)
            assert done.returncode == 1 and b"A token is one line" in done.stderr, (text, done)
        assert os.listdir(where) == []
        assert run("token", "add", "own", "--stdin", "--file", str(where / "tokens"), input=b"x" * 24 + b"\r\n").returncode == 0


def test_token_that_is_one_too_many_leaves_a_file_that_can_be_read():
    """Neither the service nor this command could read it any more."""
    with harness.directory() as where:
        file = where / "tokens"
        file.write_text("".join(f"user u{i} parallel=1\n" for i in range(4096)))
        before = file.read_text()
        done = run("token", "add", "ci", "--file", str(file))
        assert (done.returncode, done.stdout) == (1, b"") and b"tokens:4097: more than 4096 entries" in done.stderr, done
        assert file.read_text() == before


def test_token_options_that_mean_nothing_are_refused():
    with harness.directory() as where:
        file = where / "tokens"
        add(file, "ci")
        for arguments in (("remove", "ci", "--parallel", "2"), ("remove", "ci", "--stdin"), ("list", "--delegate")):
            done = run("token", *arguments, "--file", str(file))
            assert done.returncode == 2 and f'{arguments[-1] if arguments[-1] != "2" else "--parallel"} is for "add" only' \
                in done.stderr.decode(), (arguments, done)
        assert "token ci" in file.read_text()


def test_named_tokens_open_and_a_reload_tells_of_changes():
    with serving_tokens(["one"]) as (s, file, (one,)):
        assert status(s, one) == 200
        assert status(s, None) == 401 and status(s, one + "x") == 401
        two = add(file, "two")
        assert status(s, two) == 401
        s.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: status(s, two) == 200)
        assert run("token", "remove", "one", "--file", str(file)).returncode == 0
        s.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: status(s, one) == 401)
        assert status(s, two) == 200
        s.end()
        assert one not in s.errors and two not in s.errors, s.errors


def test_a_limit_out_of_range_is_told_the_range_and_an_empty_list_says_so():
    with harness.directory() as where:
        file = f"{where}/tokens"
        for option, value, told in (("--parallel", "0", b"a number, 1 to 1000000"), ("--queue", "-1", b"a number, 0 to 1000000"),
                                    ("--user-rate", "0", b"a number, 1 to 1000000"), ("--memory", "1", b"a size from 32M on"),
                                    ("--timeout", "0", b"a time from 1s on")):
            done = run("token", "add", "a", option, value, "--file", file)
            assert done.returncode == 2 and told in done.stderr, (option, done)
        done = run("token", "list", "--file", file)
        assert (done.returncode, done.stdout) == (0, b"") and b"There are no tokens in " in done.stderr, done


def test_wrong_and_missing_tokens_show_in_the_journal_with_the_address_and_do_not_fill_it():
    with serving_tokens(["one"]) as (s, _, (one,)):
        assert [status(s, None) for _ in range(3)] + [status(s, one + "x")] == [401] * 4
        s.end()
        lines = [line for line in s.errors.splitlines() if " 401 " in line]
        # How many there are depends on how long four requests take here.
        assert 1 <= len(lines) < 4 and "answered 401 to 127.0.0.1, which sent no token" in lines[0], s.errors
        assert one not in s.errors, s.errors


class _Stream:
    """A request of which the answer stays open; ended tells its text once it has ended."""

    def __init__(self, s, token, method, path, message=None, cut=0, **headers):
        self.connection = socket.create_connection(s.listening[0].getsockname())
        body = json.dumps(message).encode() if message else b""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Accept: application/json, text/event-stream",
                 "Content-Type: application/json", f"Content-Length: {len(body)}", f"Authorization: Bearer {token}",
                 *[f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]]
        self.rest = body[len(body) - cut:]
        self.text = ""
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode() + body[:len(body) - cut])

    def read_until(self, *words):
        self.connection.settimeout(15)
        while not any(word in self.text for word in words):
            piece = self.connection.recv(65536)
            assert piece, self.text
            self.text += piece.decode()

    def is_open(self):
        self.connection.settimeout(0.1)
        try:
            return self.connection.recv(65536) != b""
        except TimeoutError:
            return True

    def is_silent(self):
        self.connection.settimeout(0.3)
        try:
            return self.connection.recv(65536) and False
        except TimeoutError:
            return True


def _listen(s, token):
    prefix = "io.modelcontextprotocol/"
    listening = _Stream(s, token, "POST", "/mcp", {
        "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {"notifications": {}, "_meta": {
            prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}}},
        MCP_Protocol_Version="2026-07-28", Mcp_Method="subscriptions/listen")
    listening.read_until("acknowledged")
    return listening


def _listeners_end(change):
    with serving_tokens(["one"], ["two"]) as (s, file, (one, two)):
        s.notify.read_on()
        stream = _Stream(s, one, "GET", "/sse")
        stream.read_until("sessionId=")
        listening, others = _listen(s, one), _listen(s, two)
        half = _Stream(s, one, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, cut=5)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            mark = file.parent / "mark"
            running = pool.submit(call, s, one, f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(1.5)\nprint('done')")
            harness.wait_until(mark.exists)
            change(file)
            s.process.send_signal(signal.SIGHUP)
            stream.read_until("\r\n0\r\n\r\n")
            listening.read_until('"id":7,"result":{"resultType":"complete"')
            half.connection.sendall(half.rest)
            half.read_until("this token was removed")
            assert half.text.startswith("HTTP/1.1 401 "), half.text
            # What ran was let in, and another's is none of it.
            assert running.result(20)["structuredContent"]["stdout"] == "done\n"
        assert status(s, one) == 401 and status(s, two) == 200
        assert others.is_silent()
        for c in (stream, listening, half, others):
            c.connection.close()


def test_listeners_of_a_removed_token_end_with_the_reload():
    _listeners_end(lambda file: run("token", "remove", "one", "--file", str(file)))


def test_listeners_of_a_token_with_a_new_secret_end_with_the_reload():
    def change(file):
        run("token", "remove", "one", "--file", str(file))
        add(file, "one")
    _listeners_end(change)


def test_mistake_in_the_file_leaves_what_was_in_use():
    with serving_tokens(["one"]) as (s, file, (one,)):
        before = file.read_text()
        file.write_text(before + "tken two\n")
        s.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert status(s, one) == 200
        s.end()
        assert "tokens:3: " in s.errors, s.errors
    with harness.directory() as where:
        (where / "tokens").write_text("token x\n")
        done = run("serve", "--listen", "127.0.0.1:0", "--token-file", str(where / "tokens"),
                   "--launcher-socket", "/nonexistent")
        assert done.returncode == 1 and b"tokens:1: " in done.stderr, done


def test_limits_of_a_token_are_its_own():
    with serving_tokens(["slow", "--parallel", "1", "--queue", "0"], ["quick", "--timeout", "1s"],
                        ["rare", "--rate", "2"]) as (s, _, (slow, quick, rare)):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(call, s, slow, "import time; time.sleep(2)")
            time.sleep(0.7)
            busy = call(s, slow, "print(1)")
            assert busy["isError"] and "busy" in text(busy), busy
            assert call(s, rare, "print(1)")["structuredContent"]["stdout"] == "1\n"
            assert first.result()["structuredContent"]["status"] == "ok"
        assert call(s, quick, "import time; time.sleep(9)", timeout_s=20)["structuredContent"]["status"] == "timeout"
        assert call(s, rare, "print(1)")["structuredContent"]["stdout"] == "1\n"
        busy = call(s, rare, "print(1)")
        assert busy["isError"] and "no more than 2 programs a minute" in text(busy), busy


def request(connection, headers, body=b'{"jsonrpc":"2.0","id":1,"method":"ping"}', method="POST", path="/mcp"):
    connection.request(method, path, body, {"Content-Type": "application/json"} | headers)
    response = connection.getresponse()
    return response.status, harness.hear(headers, body, response, path).decode()


def tcp(s):
    return http.client.HTTPConnection("127.0.0.1", s.listening[0].getsockname()[1], timeout=10)


def test_only_a_delegating_token_names_users():
    with serving_tokens(["plain"], ["front", "--delegate", "--user-parallel", "1", "--user-queue", "0"]) as \
            (s, _, (plain, front)):
        for token, user, expected in ((plain, "alice", 403), (front, "alice", 200), (front, "a b", 403), (front, None, 200),
                                      ("wrong", "alice", 401)):
            headers = {"Authorization": "Bearer " + token} | ({"X-MCP-User": user} if user else {})
            assert request(tcp(s), headers)[0] == expected, (token, user)
        # Each of its users has the limits for itself.
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "exec", "arguments": {"code": "import time; time.sleep(1)"}}}).encode()

        def one(user):
            return request(tcp(s), {"Authorization": "Bearer " + front, "X-MCP-User": user}, body)[1]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            alice, again, bob = pool.map(one, ("alice", "alice", "bob"))
        assert sorted("busy" in answer for answer in (alice, again)) == [False, True], (alice, again)
        assert "busy" not in bob, bob


def test_rate_of_a_front_end_is_used_up_by_all_of_its_users_and_by_refusals_of_none():
    with serving_tokens(["front", "--delegate", "--rate", "3", "--user-rate", "2"]) as (s, _, (front,)):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "exec", "arguments": {"code": "print(1)"}}}).encode()

        def one(user):
            headers = {"Authorization": "Bearer " + front} | ({"X-MCP-User": user} if user else {})
            return request(tcp(s), headers, body)[1]
        for user, expected in (("alice", None), ("alice", None),
                               ("alice", "busy for you: no more than 2 programs a minute. "),
                               (None, None),
                               ("bob", "busy for this client: no more than 3 programs a minute of all its users. ")):
            answer = one(user)
            assert expected in answer if expected else "busy" not in answer, (user, answer)


def test_session_of_one_user_is_unknown_to_another():
    with serving_tokens(["front", "--delegate"]) as (s, _, (front,)):
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode()
        connection = tcp(s)
        connection.request("POST", "/mcp", body, {"Content-Type": "application/json", "X-MCP-User": "alice",
                                                  "Authorization": "Bearer " + front})
        response = connection.getresponse()
        response.read()
        session = response.headers["Mcp-Session-Id"]
        for user, expected in (("alice", 200), ("bob", 404)):
            headers = {"X-MCP-User": user, "Authorization": "Bearer " + front, "Mcp-Session-Id": session}
            assert request(tcp(s), headers)[0] == expected, user


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("mcp.example", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def test_proxy_tells_who_it_is():
    with harness.directory() as where:
        path = str(where / "proxy.sock")
        with serving_tokens(["one"], options=("--listen", "proxy:" + path)) as (_, _, (one,)):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            for headers, expected in (({"X-MCP-User": "alice"}, 200), ({}, 403), ({"Authorization": "Bearer " + one}, 403),
                                      ({"X-MCP-User": "alice", "Origin": "https://mcp.example"}, 200),
                                      ({"X-MCP-User": "alice", "Origin": "https://evil.example"}, 403)):
                assert request(UnixConnection(path), headers)[0] == expected, headers


def test_half_sent_heads_lock_nobody_out():
    """Whoever had no token, and this machine's address, kept all others from an answer for as long as it liked."""
    with serving_tokens(["one"]) as (s, file, (one,)), contextlib.ExitStack() as held, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        s.notify.read_on()
        stream, listening, mark = _Stream(s, one, "GET", "/sse"), _listen(s, one), file.parent / "mark"
        stream.read_until("sessionId=")
        idle = tcp(s)
        bearer = {"Authorization": "Bearer " + one}
        assert request(idle, bearer)[0] == 200
        running = pool.submit(call, s, one, f"import os, time\nopen({str(mark)!r}, 'w').close()\n"
                                            f"while not os.path.exists({str(mark) + '2'!r}): time.sleep(0.1)\nprint('done')")
        harness.wait_until(mark.exists)
        begins = (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n", b"", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Type: application/json\r\nContent-Length: 40\r\n\r\n{")
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        for begin in begins:
            for _ in range(300):
                c = held.enter_context(socket.create_connection(s.listening[0].getsockname()))
                with contextlib.suppress(OSError):
                    c.sendall(begin)
            for _ in range(5):
                assert status(s, one) == 200
                assert request(tcp(s), bearer, json.dumps(first).encode())[0] == 200
                assert call(s, one, "print(6 * 7)")["structuredContent"]["stdout"] == "42\n"
                assert request(tcp(s), {}, b"", "GET", "/healthz")[0] == 200
            # What is under way goes on, and who had shown a token and waits comes after those who had not.
            assert request(idle, bearer)[0] == 200
            assert stream.is_open() and listening.is_open()
        (file.parent / "mark2").touch()
        assert running.result(20)["structuredContent"]["stdout"] == "done\n"
        for c in (stream, listening):
            c.connection.close()


def _head(token, n_bytes):
    return (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
            f"MCP-Protocol-Version: 2025-06-18\r\nContent-Length: {n_bytes}\r\n\r\n").encode()


def test_answer_that_its_client_has_not_read_yet_is_not_lost_for_a_newcomer():
    """It lay in the kernel, and went with the connection when the client sent its next request."""
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    code = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": {"name": "exec", "arguments": {"code": "print('\\x01' * 20000)"}}}).encode()
    with serving_tokens(["one"], ["two"], ["three"]) as (s, _, (one, two, three)), contextlib.ExitStack() as held:
        s.notify.read_on()
        slow = held.enter_context(socket.socket())
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(10)
        slow.connect(s.listening[0].getsockname())
        slow.sendall(_head(one, len(code)) + code)
        slow.recv(1, socket.MSG_PEEK)
        for i in range(270):        # more than MaxConnections=
            c = held.enter_context(socket.create_connection(s.listening[0].getsockname(), timeout=10))
            with contextlib.suppress(OSError):
                c.sendall(_head((two, three)[i % 2], len(ping)) + ping)
                c.recv(65536)
                c.sendall(b"POST /mcp HTTP/1.1\r\n")
        slow.sendall(_head(one, len(ping))[:20])
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert json.loads(answer.read())["result"]["structuredContent"]["stdout_bytes"] == 20001


def test_reload_under_load_loses_nothing():
    with serving_tokens(["one"]) as (s, file, (one,)):
        s.notify.read_on()

        def ask(i):
            if i % 20 == 0:
                add(file, f"more{i}")
                s.process.send_signal(signal.SIGHUP)
            if i % 10 == 5:
                return call(s, one, f"print({i})")["structuredContent"]["stdout"] == f"{i}\n"
            return s.post({"jsonrpc": "2.0", "id": i, "method": "ping"}, token=one)["id"] == i
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert all(pool.map(ask, range(300)))


if __name__ == "__main__":
    harness.main()
