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
