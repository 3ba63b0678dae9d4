# SPDX-License-Identifier: MIT
"""mcp-exec stdio whose service is lost, and does not come back: a stand-in answers everything but calls."""

import itertools
import json
import os
import pathlib
import resource
import signal

import harness
from harness import FakeService, Server, pong

LOST = "ended the conversation before it answered. Whether the call was carried out is not known; send it again if that does no harm."
IDS = itertools.count(1)


def _answer(line):
    """A service that lives until it is told a notification that it does not survive."""
    return None if b"fatal" in line else pong(line) if b'"id"' in line else b""


def _ask(server, method, params=None):
    server.send(method, params, ident := next(IDS))
    return server.reply(ident, 30)["result"]     # before it is given up a lost service is waited for


def _call(server):
    return _ask(server, "tools/call", {"name": "exec", "arguments": {"code": "print(1)"}})


def _refusal(server):
    result = _call(server)
    assert result.get("isError") is True, result
    return result["content"][0]["text"]


def _handshake(server, version="2025-06-18"):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    result = _ask(server, "initialize", params)
    server.send("notifications/initialized")
    return result


def _children(server):
    return [int(pid) for pid in pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()]


def _n_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def _lose(server, service):
    """Ends the service for good."""
    server.send("notifications/fatal")
    harness.wait_until(lambda: any(b"fatal" in line for line in service.lines))
    os.unlink(service.path)


def _methods(service):
    return [json.loads(line)["method"] for line in service.lines]


def test_service_that_stays_away_is_named_to_each_call_and_all_else_is_answered():
    with FakeService(_answer) as service, Server("stdio", "--socket", service.path) as s:
        _handshake(s)
        _ask(s, "tools/list")
        _lose(s, service)
        n_lines = len(service.lines)
        assert _ask(s, "ping") == {} and not _children(s), "nobody is started to say that the bridge lives"
        for _ in range(2):
            assert "exec" in [tool["name"] for tool in _ask(s, "tools/list")["tools"]]
            text = _refusal(s)
            assert text.startswith("Nothing was run: the system service is not started: no one listens on "
                                   f"{service.path}. To repair this: "), text
            assert "(then call again" in text, text
            assert len(_children(s)) == 1 and len(service.lines) == n_lines
    assert s.process.returncode == 0
    assert s.stderr.count("No program can be run: ") == 1, s.stderr


def test_batch_while_nobody_serves_is_answered_by_an_array():
    with FakeService(_answer) as service, Server("stdio", "--socket", service.path) as s:
        _handshake(s, "2025-03-26")
        _lose(s, service)
        s.process.stdin.write(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/call",'
                              b'"params":{"name":"exec","arguments":{"code":"1"}}}]\n')
        s.process.stdin.flush()
        harness.wait_until(lambda: any(isinstance(m, list) for m in s.messages), 30)
        answers = {m["id"]: m["result"] for m in next(m for m in s.messages if isinstance(m, list))}
        assert answers["a"] == {} and answers["b"]["isError"] is True, answers


def test_call_after_the_repair_is_served_by_the_service_and_made_once():
    with FakeService(_answer) as service, Server("stdio", "--socket", service.path) as s:
        _handshake(s)
        _lose(s, service)
        assert "no one listens" in _refusal(s)
        with FakeService(_answer, service.path) as again:
            assert _call(s) == {}
            assert _methods(again) == ["ping", "initialize", "notifications/initialized", "tools/call"], again.lines
            assert _ask(s, "tools/list") == {}
            harness.wait_until(lambda: not _children(s))
    assert "The system service runs programs from now on" in s.stderr, s.stderr


def test_subscription_that_a_stand_in_had_does_not_keep_the_service_away_and_is_made_there():
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {
        "name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}
    with harness.directory() as where, Server("stdio", "--socket", str(where / "s.sock")) as s:
        s.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": meta}, "sub")
        harness.wait_until(lambda: any(m.get("method") == "notifications/subscriptions/acknowledged" for m in s.messages))
        params = {"name": "exec", "arguments": {"code": "1"}, "_meta": meta}
        assert s.ask("tools/call", params, "call")["result"]["isError"] is True
        with FakeService(_answer, str(where / "s.sock")) as again:
            s.send("tools/call", params, "again")
            assert s.reply("again")["result"] == {}
            assert _methods(again) == ["ping", "subscriptions/listen", "tools/call"], again.lines


def test_tail_of_an_overlong_line_is_not_taken_for_a_call():
    with harness.directory() as where, Server("stdio", "--socket", str(where / "s.sock")) as s:
        _handshake(s)
        s.process.stdin.write(b"x" * (17 << 20))
        s.process.stdin.flush()
        with FakeService(_answer, str(where / "s.sock")) as again:
            s.process.stdin.write(b'{"jsonrpc":"2.0","id":"tail","method":"tools/call","params":{}}\n')
            assert _ask(s, "ping") == {}
            refused = [m for m in s.messages if "error" in m]
            assert len(refused) == 1 and "tail" not in [m.get("id") for m in s.messages], s.messages
            assert _call(s) == {}
            assert b"tail" not in b"".join(again.lines), again.lines


def test_mistake_in_a_file_of_the_user_is_nothing_to_whom_the_service_serves():
    with harness.directory() as where, FakeService(_answer) as service:
        file = where / "mcp-exec/mcp-exec.conf.d/90.conf"
        file.parent.mkdir(parents=True)
        file.write_text("[Server]\nFoo=1\n")
        with Server("stdio", "--socket", service.path, env=harness.environment(XDG_CONFIG_HOME=str(where))) as s:
            _handshake(s)
            _lose(s, service)
            text = _refusal(s)
            assert "Foo" not in text and text.startswith("Nothing was run: the system service is not started"), text


def test_stand_in_that_is_killed_is_started_anew_and_nothing_that_it_was_asked_is_lost():
    with Server("stdio", "--socket", "/nonexistent.sock") as s:
        harness.wait_until(lambda: len(_children(s)) == 1)
        stopped = _children(s)[0]
        os.kill(stopped, signal.SIGSTOP)        # so that it cannot have answered
        s.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}, 0)
        s.send("notifications/initialized")
        os.kill(stopped, signal.SIGKILL)
        assert s.reply(0)["result"]["serverInfo"]["name"] == "mcp-exec"
        for _ in range(5):
            os.kill(_children(s)[0], signal.SIGKILL)
            harness.wait_until(lambda: not _children(s))
            assert "exec" in [tool["name"] for tool in _ask(s, "tools/list")["tools"]]
            assert "/nonexistent.sock" in _refusal(s)
        assert [m["id"] for m in s.messages].count(0) == 1
    assert s.process.returncode == 0, s.stderr


def test_stand_in_that_ends_whenever_it_is_started_is_not_started_for_ever():
    with Server("stdio", "--socket", "/nonexistent.sock") as s:
        _handshake(s)
        # Descriptors for its connection, too few for what it does with it.
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (_n_descriptors(s) + 1, 4096))
        os.kill(_children(s)[0], signal.SIGKILL)
        s.send("tools/list", None, 1)
        assert s.reply(1)["error"] == {"code": -31001, "message": f"The server {LOST}"}
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        assert "tools" in _ask(s, "tools/list")


def test_nothing_can_be_started_in_the_place_of_a_lost_service():
    with FakeService(_answer) as service, Server("stdio", "--socket", service.path) as s:
        _handshake(s, "2025-03-26")
        n = _n_descriptors(s)
        _lose(s, service)
        harness.wait_until(lambda: _n_descriptors(s) == n - 1)
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (n - 1, 4096))
        s.process.stdin.write(b'[{"id":2,"method":"a"},{"id":3,"method":"b"}]\n')
        s.process.stdin.flush()
        harness.wait_until(lambda: any(isinstance(m, list) for m in s.messages), 30)
        errors = [m["error"] for m in next(m for m in s.messages if isinstance(m, list))]
        assert errors == 2 * [{"code": -31001, "message": "The system service cannot be reached: the system service is not "
                                                          f"started: no one listens on {service.path}. Send the request "
                                                          "again when it can."}], errors
        s.messages.clear()
        s.process.stdin.write(b"x" * (13 << 20) + b"\n")
        s.process.stdin.flush()
        harness.wait_until(lambda: s.messages)
        assert s.messages[0]["error"] == errors[0], s.messages
        s.messages.clear()
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        assert "tools" in _ask(s, "tools/list")


if __name__ == "__main__":
    harness.main()
