# SPDX-License-Identifier: MIT
"""mcp-exec stdio: in this process with a launcher, and as a bridge to the system service."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import harness
from harness import MCP_EXEC, FakeService, Server, environment, fake_launcher, pong, run


def _direct(launcher, **more):
    return Server("stdio", "--launcher-socket", launcher, **more)


def test_handshake_and_call():
    with fake_launcher() as launcher, _direct(launcher) as s:
        assert s.handshake()["serverInfo"]["name"] == "mcp-exec"
        result = s.exec("print(6 * 7)")
        assert result["structuredContent"]["stdout"] == "42\n" and not result.get("isError"), result


def test_stdio_is_the_default():
    with Server(env=environment(MCP_EXEC_DEFAULT_TIMEOUT_S="7")) as s:
        s.handshake()
        tools = s.ask("tools/list", {})["result"]["tools"]
        assert "7" in json.dumps(tools), tools


def test_end_of_input_ends_the_run_and_exits_with_0():
    with fake_launcher() as launcher, harness.directory() as where:
        mark = where / "alive"
        with _direct(launcher) as s:
            s.handshake()
            code = (f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(3)\n"
                    f"open({str(mark)!r}, 'w').write('!')")
            s.send("tools/call", {"name": "exec", "arguments": {"code": code}}, 1)
            harness.wait_until(mark.exists)
            s.process.stdin.close()
            assert s.process.wait(10) == 0
        time.sleep(3)
        assert mark.read_text() == ""


def test_signals_exit_with_0():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with fake_launcher() as launcher, _direct(launcher) as s:
            s.handshake()
            s.send("tools/call", {"name": "exec", "arguments": {"code": "import time; time.sleep(60)"}}, 1)
            assert s.signal_and_wait(number, 2) == 0, number


def test_calls_overlap_and_ping_is_answered_meanwhile():
    with fake_launcher() as launcher, harness.directory() as where, _direct(launcher) as s:
        s.handshake()
        go = where / "go"
        code = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('gone')"
        s.send("tools/call", {"name": "exec", "arguments": {"code": code}}, "slow")
        assert s.ask("ping", None, "p") == {"jsonrpc": "2.0", "id": "p", "result": {}}
        # The first one ends only because this second one runs beside it.
        s.exec(f"open({str(go)!r}, 'w')", "fast")
        assert s.reply("slow")["result"]["structuredContent"]["stdout"] == "gone\n"


def test_without_a_launcher_everything_but_the_call_is_answered():
    with _direct("/nonexistent/launcher.sock") as s:
        s.handshake()
        assert s.ask("tools/list", {}, "l")["result"]["tools"]
        result = s.exec("print(1)")
        assert result["isError"] and "structuredContent" not in result, result
        assert "/nonexistent/launcher.sock" in result["content"][0]["text"], result


def test_refused_sandbox_is_a_tool_error():
    with fake_launcher("refuse") as launcher, _direct(launcher) as s:
        s.handshake()
        assert s.exec("print(1)")["isError"]


def test_standard_output_carries_only_messages():
    with fake_launcher() as launcher:
        p = subprocess.run([MCP_EXEC, "stdio", "--verbose", "--launcher-socket", launcher], timeout=20,
                           input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', capture_output=True, env=environment())
    assert p.returncode == 0, p
    assert [json.loads(line)["id"] for line in p.stdout.splitlines()] == [1], p


def test_record_of_a_run_only_when_asked_for():
    for verbose in ([], ["--verbose"]):
        with fake_launcher() as launcher:
            with Server("stdio", "--launcher-socket", launcher, *verbose) as s:
                s.handshake()
                s.exec("print('a secret of the program')  # in code")
        assert ("of exec for local (protocol-test 1): ok, exit 0" in s.stderr) == bool(verbose), s.stderr
        assert "secret" not in s.stderr and "in code" not in s.stderr


def test_hostile_client_name_cannot_forge_a_line():
    with fake_launcher() as launcher:
        with Server("stdio", "--launcher-socket", launcher, "--verbose") as s:
            s.ask("initialize", {"protocolVersion": harness.PROTOCOL, "capabilities": {}, "clientInfo": {
                "name": "x\nmcp-exec: forged \u001b[31m\u0085" + "y" * 500, "version": "1\r2"}}, "init")
            s.exec("pass")
    assert "\n" + "mcp-exec: forged" not in s.stderr and "\x1b" not in s.stderr and "\x85" not in s.stderr, s.stderr
    assert len([line for line in s.stderr.splitlines() if "of exec for local" in line]) == 1, s.stderr


def test_clients_standard_input_never_reaches_the_code():
    with fake_launcher() as launcher, _direct(launcher) as s:
        s.handshake()
        s.send("tools/call", {"name": "exec", "arguments": {
            "code": "import sys, time; time.sleep(0.3); print(repr(sys.stdin.read()))"}}, 1)
        s.send("ping", None, 2)
        assert s.reply(1)["result"]["structuredContent"]["stdout"] == "''\n"
        assert s.reply(2)["result"] == {}


def test_input_from_a_regular_file():
    with harness.directory() as where:
        (where / "in").write_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        with open(where / "in", "rb") as source, open(where / "out", "wb") as target:
            done = subprocess.run([MCP_EXEC, "stdio", "--no-bridge"], stdin=source, stdout=target, timeout=10,
                                  stderr=subprocess.PIPE, env=environment())
        assert done.returncode == 0, done
        assert json.loads((where / "out").read_bytes()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_closed_standard_descriptors_do_no_harm():
    p = subprocess.run(["sh", "-c", 'exec "$0" stdio --no-bridge <&- >&- 2>&-', MCP_EXEC], env=environment(),
                       timeout=10)
    assert p.returncode == 0, p


def test_missing_launcher_program_is_a_tool_error():
    if pathlib.Path("/usr/libexec/mcp-exec/mcp-exec-launcher").exists():
        raise harness.Skip("the package is installed here")
    with Server("stdio", "--no-bridge") as s:
        s.handshake()
        result = s.exec("print(1)")
        assert result["isError"] and "mcp-exec-launcher" in result["content"][0]["text"], result


# ---- Bridge ----

def test_bridge_copies_both_ways():
    def answer(line):
        return pong(line) if b"mcp-exec-probe" in line else b'{"echo":' + line.strip() + b"}\n"
    with FakeService(answer) as service:
        done = run("stdio", "--socket", service.path, input=b'{"a":1}\n{"b":2}\n')
        assert done.returncode == 0, done
        assert done.stdout == b'{"echo":{"a":1}}\n{"echo":{"b":2}}\n', done
        assert service.ended.wait(5), "the service never saw the end"


def test_bridge_carries_megabytes_both_ways():
    line = b'{"x":"' + b"y" * 3000000 + b'"}\n'
    with FakeService(lambda got: pong(got) if b"mcp-exec-probe" in got else got) as service:
        s = Server("stdio", "--socket", service.path)
        # More than all buffers hold: it must take what comes back while it is still sending.
        s.process.stdin.write(line * 3)
        s.process.stdin.flush()
        harness.wait_until(lambda: len(s.messages) == 3)
        s.process.stdin.close()
        assert s.process.wait(5) == 0
        assert all(len(m["x"]) == 3000000 for m in s.messages)
        s.process.stderr.close()


def test_bridge_does_not_block_on_a_client_that_does_not_read():
    with FakeService(lambda got: pong(got) if b"mcp-exec-probe" in got else got * 2000) as service:
        p = subprocess.Popen([MCP_EXEC, "stdio", "--socket", service.path], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        p.stdin.write(b'{"z":"' + b"z" * 1000 + b'"}\n')
        p.stdin.flush()
        time.sleep(0.5)
        p.terminate()
        assert p.wait(2) == 0
        p.stdin.close()
        p.stdout.close()


def test_bridge_leaves_the_flags_of_its_descriptors():
    with FakeService(pong) as service:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            p = subprocess.Popen([MCP_EXEC, "stdio", "--socket", service.path], stdin=theirs, stdout=theirs,
                                 stderr=subprocess.DEVNULL, env=environment())
            harness.wait_until(lambda: service.lines)
            time.sleep(0.2)
            assert os.get_blocking(theirs.fileno())
            p.terminate()
            assert p.wait(2) == 0


def test_bridge_exits_with_0_on_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with FakeService(pong) as service:
            s = Server("stdio", "--socket", service.path)
            harness.wait_until(lambda: service.lines)
            time.sleep(0.2)
            assert s.signal_and_wait(number, 2) == 0, number
            s.process.stderr.close()


def _is_probe(line):
    return b"mcp-exec-probe" in line


LOST = ("The system service ended before it answered. Whether the call was carried out is not known; send it again if that does "
        "no harm.")


def test_call_that_a_dying_service_had_is_answered_and_the_next_one_goes_to_the_new_service():
    def answer(line):
        if _is_probe(line):
            return pong(line)
        message = json.loads(line)
        return None if message["id"] == "fatal" else pong(line)
    with FakeService(answer) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("ping", None, "fatal")
            assert s.reply("fatal")["error"] == {"code": -31001, "message": LOST}
            assert s.ask("ping", None, 0)["result"] == {}
            # Never twice: it may have run.
            assert [json.loads(line)["id"] for line in service.lines if not _is_probe(line)] == ["fatal", 0], service.lines
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


def test_bridge_ends_although_the_service_does_not():
    with FakeService(lambda line: pong(line) if b"mcp-exec-probe" in line else time.sleep(6) or b"") as service:
        with Server("stdio", "--socket", service.path) as s:
            s.send("ping", None, 1)
            time.sleep(0.3)
            s.process.stdin.close()
            assert s.process.wait(4) == 0


def test_refused_user_falls_back_and_says_why():
    refusal = b'{"jsonrpc":"2.0","error":{"code":-31000,"message":"bob is not in the group mcp-exec"}}\n'
    with FakeService(lambda line: refusal) as service:
        with Server("stdio", "--socket", service.path) as s:
            s.handshake()
        assert "bob is not in the group mcp-exec" in s.stderr, s.stderr


def test_absent_service_is_said():
    with Server("stdio", "--socket", "/nonexistent.sock") as s:
        s.handshake()
    assert "/nonexistent.sock" in s.stderr, s.stderr


def test_service_that_closes_or_babbles_is_not_used():
    for reply in (None, b"hello\n", b"[]\n", b'{"id":1,"error":{"code":-31001,"message":"too many connections"}}\n'):
        with FakeService(lambda line, reply=reply: reply) as service:
            with Server("stdio", "--socket", service.path) as s:
                s.handshake()
        assert "the system service" in s.stderr, (reply, s.stderr)


def test_silent_service_is_given_up_after_five_seconds():
    with FakeService(lambda line: b"") as service:
        began = time.monotonic()
        with Server("stdio", "--socket", service.path) as s:
            s.handshake()
            assert time.monotonic() - began > 4.5
        assert "did not answer" in s.stderr, s.stderr


def test_variables_without_effect_are_named():
    with FakeService(pong) as service:
        with Server("stdio", "--socket", service.path, env=environment(MCP_EXEC_MAX_TIMEOUT_S="900")) as s:
            harness.wait_until(lambda: service.lines)
        assert "MCP_EXEC_MAX_TIMEOUT_S" in s.stderr, s.stderr


if __name__ == "__main__":
    harness.main()
