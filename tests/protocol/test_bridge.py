# SPDX-License-Identifier: MIT
"""mcp-exec stdio as a bridge to a service that ends, stops or comes back: what becomes of each line."""

import json
import resource
import socket
import subprocess
import threading
import time

import harness
from harness import MCP_EXEC, FakeService, Server, environment, fake_launcher, pong


def _is_probe(line):
    return b"mcp-exec-probe" in line


LOST = ("The system service ended the conversation before it answered. Whether the call was carried out is not known; send it again if that does "
        "no harm.")


def test_call_that_a_dying_service_had_is_answered_and_the_next_one_goes_to_the_new_service():
    def answer(line):
        if _is_probe(line):
            return pong(line)
        message = json.loads(line)
        return None if message["id"] == "fatal" else pong(line)
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("tools/call", None, "fatal")
            assert s.reply("fatal")["error"] == {"code": -31001, "message": LOST}
            assert s.ask("ping", None, 0)["result"] == {}
            # Never twice: it may have run.
            assert [json.loads(line)["id"] for line in service.lines if not _is_probe(line)] == ["fatal", 0], service.lines
        assert s.process.returncode == 0


def test_question_that_a_dying_service_had_is_asked_again_but_not_of_everybody():
    for n_deaths in 1, 2, 3, 4:
        asked = []

        def answer(line, asked=asked, n_deaths=n_deaths):
            if _is_probe(line):
                return pong(line)
            asked.append(json.loads(line)["method"])
            return None if len(asked) <= n_deaths else pong(line)
        with FakeService(answer) as service, Server("stdio", "--socket", service.path) as s:
            s.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}, 1)
            reply = s.reply(1)
            if n_deaths < 3:
                assert reply["result"] == {} and asked == ["initialize"] * (n_deaths + 1), (reply, asked)
            else:
                assert reply["error"]["message"] == LOST and asked == ["initialize"] * 3, (reply, asked)


def test_cancellation_and_ping_reach_a_service_that_stops():
    refusal = {"content": [{"type": "text", "text": "stopping", "_meta": {"mcp-exec/stopping": True}}], "isError": True}
    heard = []

    def answer(line):
        if _is_probe(line):
            return pong(line)
        message = json.loads(line)
        heard.append(message.get("id", message["method"]))
        if message["method"] == "tools/call" and len(heard) < 4:    # the first one runs, those after it are refused
            return b"" if message["id"] == "runs" else json.dumps(
                {"jsonrpc": "2.0", "id": message["id"], "result": refusal}, separators=(",", ":")).encode() + b"\n"
        return None if message["method"] == "notifications/cancelled" else pong(line)   # which ends the only run
    with FakeService(answer) as service, Server("stdio", "--socket", service.path) as s:
        for ident in "runs", "later", "last":
            s.send("tools/call", {"name": "exec", "arguments": {"code": "1"}}, ident)
        harness.wait_until(lambda: len(heard) == 3)
        assert s.ask("ping", None, "p")["result"] == {}
        s.send("notifications/cancelled", {"requestId": "runs"})
        assert s.reply("later")["result"] == {} and s.reply("last")["result"] == {}
        assert heard == ["runs", "later", "last", "p", "notifications/cancelled", "later", "last"], heard
        assert sorted(m["id"] for m in s.messages) == ["last", "later", "p"], s.messages


def test_client_that_closed_its_end_of_a_socket_ends_the_server_although_its_input_stays_open():
    with FakeService(pong) as service, fake_launcher() as launcher:
        for arguments in ("--socket", service.path), ("--socket", "/nonexistent"), ("--launcher-socket", launcher):
            ours, theirs = socket.socketpair()
            with subprocess.Popen([MCP_EXEC, "stdio", *arguments], stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE,
                                  env=environment()) as process:
                theirs.close()
                process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
                process.stdin.flush()
                assert ours.recv(4096)
                ours.close()
                assert process.wait(10) == 0, arguments


def test_overlong_line_that_a_dying_service_had_is_dropped_to_its_end():
    heard = []

    def serve(listening, n_bytes):
        """A connection, of which so many bytes are read when its lines are over 1000 bytes long."""
        with listening.accept()[0] as connection:
            while len(line := connection.recv(1000)) < 1000:
                if not line:
                    return
                for part in line.splitlines():
                    heard.append(json.loads(part)["method"])
                    if heard[-1] != "tools/list" or heard.count("tools/list") > 1:
                        connection.sendall(pong(part).replace(b"{}", b'{"tools": []}' if heard[-1] == "tools/list" else b"{}"))
            while n_bytes > 0:
                n_bytes -= len(connection.recv(1 << 16))
    with harness.directory() as where, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "s.sock"))
        listening.listen(8)
        threading.Thread(target=lambda: [serve(listening, n) for n in (13 << 20, 0)], daemon=True).start()
        with Server("stdio", "--socket", str(where / "s.sock")) as s:
            assert s.ask("ping", None, 0)["result"] == {}
            s.send("tools/list", None, "list")
            harness.wait_until(lambda: "tools/list" in heard)
            s.process.stdin.write(b"x" * (20 << 20) + b"\n")
            assert s.ask("ping", None, 1)["result"] == {} and s.reply("list")["result"] == {"tools": []}
            assert [m.get("error", {}).get("message") for m in s.messages if "id" not in m] == [
                "A message is longer than any server takes. Send less at once."], s.messages
            assert len(s.messages) == 4, s.messages


def test_line_without_the_memory_for_it_is_refused_and_is_no_end_of_input():
    with FakeService(pong) as service, Server("stdio", "--socket", service.path) as s:
        s.ask("ping", None, 0)
        with open(f"/proc/{s.process.pid}/statm") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
        before = resource.prlimit(s.process.pid, resource.RLIMIT_AS)
        resource.prlimit(s.process.pid, resource.RLIMIT_AS, (used + (2 << 20), before[1]))
        s.process.stdin.write(b'{"id":1,"method":"tools/call","params":"' + b"x" * (9 << 20) + b'"}\n')
        assert s.ask("ping", None, 2)["result"] == {}
        assert [(m.get("id"), m.get("error", {}).get("message")) for m in s.messages] == [
            (0, None), (None, "The server is out of memory; try again later."), (2, None)], s.messages
    assert s.process.returncode == 0


def test_new_service_hears_the_handshake_that_the_client_made_with_the_old_one():
    seen = []

    def answer(line):
        message = json.loads(line)
        if not _is_probe(line):
            seen.append(message["method"])
        return (pong(line) if "id" in message else b"") if message["method"] != "notifications/fatal" else None
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            s.ask("initialize", handshake, 7)
            s.send("notifications/initialized")
            s.send("notifications/fatal")
            harness.wait_until(lambda: "notifications/fatal" in seen)
            s.ask("tools/list", None, 8)
            assert seen == ["initialize", "notifications/initialized", "notifications/fatal",
                            "initialize", "notifications/initialized", "tools/list"], seen
            assert [m["id"] for m in s.messages] == [7, 8], s.messages


def test_second_handshake_that_fails_leaves_the_first_one_to_be_made_with_a_new_service():
    seen = []

    def answer(line):
        if _is_probe(line):
            return pong(line)
        message = json.loads(line)
        seen.append((message["method"], message.get("id")))
        if message["method"] == "initialize" and not message["params"]:
            return b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}\n' % str(message["id"]).encode()
        return None if message["method"] == "fatal" else pong(line) if "id" in message else b""
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            good = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            # Nor does it matter that both are on their way at once, or that the service dies over a third one.
            s.send("initialize", good, 1)
            s.send("initialize", {}, 2)
            s.send("notifications/initialized")
            assert "result" in s.reply(1) and s.reply(2)["error"]["message"] == "no"
            s.send("fatal", None, 3)
            assert s.reply(3)["error"]["message"] == LOST
            del seen[:]
            assert s.ask("tools/list", None, 4)["result"] == {}
            assert seen == [("initialize", 1), ("notifications/initialized", None), ("tools/list", 4)], seen
            # A second one that succeeds is the one to be made from then on.
            s.ask("initialize", good, 5)
            s.send("fatal", None, 6)
            assert s.reply(6)["error"]["message"] == LOST
            del seen[:]
            assert s.ask("tools/list", None, 7)["result"] == {}
            assert seen == [("initialize", 5), ("notifications/initialized", None), ("tools/list", 7)], seen
            assert [m["id"] for m in s.messages] == list(range(1, 8)), s.messages


def _lost(ident):
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": -31001, "message": LOST}}


def test_batch_that_a_dying_service_had_is_answered_by_one_array_of_what_is_unanswered():
    def answer(line):
        if _is_probe(line):
            return pong(line)
        return None if b"fatal" in line else b""
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            cancel = [{"method": "notifications/cancelled", "params": {"requestId": ident}} for ident in (2, 4, 5)]
            lines = [[{"id": 1, "method": "a"}, {"method": "b"}, {"id": 2, "method": "c"}, {"id": "x", "method": "d"}],
                     {"id": 3, "method": "e"}, {"id": 4, "method": "f"}, [{"id": 5, "method": "g"}], [{"id": 6, "method": "h"}],
                     [{"id": 7, "method": "i"}, {"id": None, "method": "j"}], [{"method": "k"}], *cancel, {"method": "fatal"}]
            s.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            s.process.stdin.flush()
            harness.wait_until(lambda: len(s.messages) == 4)
            time.sleep(0.2)
            no_id = {k: v for k, v in _lost(0).items() if k != "id"}
            assert s.messages == [[_lost(1), _lost("x")], _lost(3), [_lost(6)], [_lost(7), no_id]], s.messages


def test_call_that_a_stopping_service_refuses_is_made_again_with_the_next_one():
    refusal = {"content": [{"type": "text", "text": "stopping", "_meta": {"mcp-exec/stopping": True}}], "isError": True}
    calls = []

    def answer(line):
        if _is_probe(line):
            return pong(line)
        calls.append(json.loads(line)["id"])
        if len(calls) > 1:
            return pong(line)
        return (json.dumps({"jsonrpc": "2.0", "id": calls[0], "result": refusal}, separators=(",", ":")).encode() + b"\n",)
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("tools/call", {"name": "exec", "arguments": {"code": "x" * 300000}}, "a")
            assert s.reply("a")["result"] == {} and s.ask("ping", None, "b")["result"] == {}
            assert calls == ["a", "a", "b"] and len(s.messages) == 2, (calls, s.messages)


def test_half_an_answer_of_a_dying_service_does_not_reach_the_client():
    def answer(line):
        if _is_probe(line):
            return pong(line)
        return pong(line)[:-5] if json.loads(line)["method"] == "half" else None
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("half", None, 1)
            s.send("fatal", None, 2)
            assert s.reply(1)["error"]["message"] == LOST and s.reply(2)["error"]["message"] == LOST


def test_requests_without_a_usable_id_are_answered_once_whatever_becomes_of_the_service():
    def answer(line):
        if _is_probe(line):
            return pong(line)
        if b"fatal" in line:
            return None
        return b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"id"}}\n' if b"answered" in line else b""
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            for ident in (None, True, 1.5, {"a": 1}, [1], "x" * 2000):
                for method in ("answered", "not"):
                    s.process.stdin.write(json.dumps({"id": ident, "method": method}).encode() + b"\n")
            s.process.stdin.flush()
            harness.wait_until(lambda: len(s.messages) == 6)
            s.send("fatal")
            harness.wait_until(lambda: len(s.messages) == 12)
            time.sleep(0.2)
            assert [(m.get("id"), m["error"]["message"]) for m in s.messages] == 6 * [(None, "id")] + 6 * [(None, LOST)], s.messages


def test_request_that_is_named_like_the_end_of_the_handshake_is_not_made_again():
    seen = []

    def answer(line):
        seen.append(line)
        return None if b"fatal" in line else pong(line)
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.ask("initialize", {}, 1)
            s.ask("notifications/initialized", None, 2)
            s.send("fatal", None, 3)
            assert s.reply(3)["error"]["message"] == LOST
            s.ask("tools/list", None, 4)
            methods = [json.loads(line)["method"] for line in seen if not _is_probe(line)]
            assert methods == ["initialize", "notifications/initialized", "fatal", "initialize", "tools/list"], methods
            assert [m["id"] for m in s.messages] == [1, 2, 3, 4], s.messages


def test_lost_call_is_answered_before_the_next_service_is_there_and_the_end_of_input_ends_the_waiting():
    probes = []

    def answer(line):
        if _is_probe(line):
            probes.append(line)
            return pong(line) if len(probes) == 1 else b""
        return None
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("fatal", None, 1)
            s.send("ping", None, 2)
            s.send("ping", None, 3)
            assert s.reply(1)["error"]["message"] == LOST
            # Nor does it outlive its client, although it cannot deliver the rest. It may try for 90 seconds.
            s.process.stdin.close()
            assert s.process.wait(20) == 0


if __name__ == "__main__":
    harness.main()
