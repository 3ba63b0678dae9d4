# SPDX-License-Identifier: MIT
"""The exec tool as its users know it: arguments, limits, output, exit codes."""

import json
import re

from lib import Client, configured, needs, one_release, text_of, timeout

KEYS = {"stdout", "stderr", "exit_code", "duration_ms", "truncated", "timed_out", "status", "run_id",
        "stdout_bytes", "stderr_bytes", "usage", "hints", "message", "signal"}


def test_result_of_a_print():
    with Client() as c:
        r = c.exec("print(2 + 2)")
        assert r["stdout"] == "4\n" and r["stderr"] == "" and r["exit_code"] == 0, r
        assert r["status"] == "ok" and r["timed_out"] is False and r["truncated"] is False, r
        assert r["duration_ms"] > 0 and r["stdout_bytes"] == 2 and r["stderr_bytes"] == 0, r
        assert len(r["run_id"]) == 32, r
        assert set(r) <= KEYS | {"files"}, set(r) - KEYS


def test_text_block_carries_the_same_information_as_structured_content():
    with Client() as c:
        result = c.call("exec", {"code": "print('x\\ny')"})
        assert json.loads(text_of(result)) == result["structuredContent"], result


def test_exit_codes_are_those_of_python():
    cases = {"import sys; sys.exit(3)": 3, "import sys; sys.exit()": 0, "import sys; sys.exit('bye')": 1,
             "import sys; sys.exit(300)": 44, "1/0": 1, "def broken(:": 1, "import os; os._exit(7)": 7,
             "raise SystemExit(None)": 0, "raise KeyError('k')": 1}
    with Client() as c:
        got = {code: c.exec(code)["exit_code"] for code in cases}
    assert got == cases, got


def test_exit_with_text_prints_it_to_stderr():
    with Client() as c:
        r = c.exec("import sys; sys.exit('bye')")
    assert (r["stderr"], r["exit_code"], r["status"]) == ("bye\n", 1, "error"), r


def test_stdin_reaches_the_code_and_ends():
    with Client() as c:
        r = c.exec("import sys; print(sys.stdin.read().upper(), end='')", stdin="grüße\n")
        assert r["stdout"] == "GRÜSSE\n", r
        assert c.exec("import sys; print(repr(sys.stdin.read()))")["stdout"] == "''\n"
        big = "x" * (1024 * 1024)
        assert c.exec("import sys; print(len(sys.stdin.read()))", stdin=big)["stdout"] == "1048576\n"
        r = c.exec("import sys; print(len(open('/dev/stdin').read()))", stdin="abc")
        assert r["stdout"] == "3\n", r


def test_unread_stdin_is_fine():
    with Client() as c:
        assert c.exec("print(1)", stdin="x" * 1000000)["stdout"] == "1\n"


def test_empty_code_is_refused():
    with Client() as c:
        for code in ("", "   ", "\n\t\n"):
            assert c.refused("exec", {"code": code}) == "code must not be empty"


def test_stdin_over_the_limit_is_refused_with_the_limit():
    with Client() as c:
        text = c.refused("exec", {"code": "print(1)", "stdin": "x" * 1048577})
        assert "stdin" in text and "1048576" in text, text


def test_bad_arguments_are_tool_errors_that_name_the_argument():
    cases = [({}, "code"), ({"code": 5}, "code"), ({"code": "1", "timeout_s": "5"}, "timeout_s"),
             ({"code": "1", "timeout_s": 1.5}, "timeout_s"), ({"code": "1", "stdin": 3}, "stdin"),
             ({"code": "1", "timout": 3}, "timout"), ({"code": None}, "code")]
    with Client() as c:
        for arguments, name in cases:
            text = c.refused("exec", arguments)
            assert name in text, (arguments, text)


def test_code_over_the_limit_is_refused():
    with Client() as c:
        text = c.refused("exec", {"code": "#" * (1024 * 1024 + 1)})
        assert "code" in text and "1048576" in text, text


@timeout(90)
@one_release
def test_timeout_is_clamped_and_zero_means_the_default():
    with configured("[Exec]\nDefaultTimeoutSec=2\nMaxTimeoutSec=3\n"), Client() as c:
        sleeper = "import time; time.sleep(20)"
        for given, expected in ((0, 2), (None, 2), (900, 3), (-5, 1), (1, 1)):
            arguments = {} if given is None else {"timeout_s": given}
            r = c.exec(sleeper, **arguments)
            assert r["status"] == "timeout" and r["timed_out"] is True and r["exit_code"] == -1, r
            assert expected * 1000 <= r["duration_ms"] <= expected * 1000 + 500, (given, r["duration_ms"])
            assert f"its time limit of {expected} s" in r["message"], r["message"]
            assert ("the longest there is (900 s were asked for)" in r["message"]) == (given == 900), r["message"]


def test_unknown_tool_is_invalid_params():
    from lib import RpcError
    with Client() as c:
        try:
            c.call("nope", {})
        except RpcError as error:
            assert error.code == -32602, error
        else:
            raise AssertionError("unknown tool was accepted")


def test_output_over_the_capture_keeps_head_and_tail_and_says_how_much_is_missing():
    with Client() as c:
        r = c.exec("for i in range(400000): print(i)")
        assert r["truncated"] is True and r["status"] == "ok", r["status"]
        assert r["stdout"].startswith("0\n1\n2\n") and r["stdout"].endswith("399998\n399999\n"), r["stdout"][-50:]
        assert len(r["stdout"]) <= 40000, len(r["stdout"])
        whole = "".join(f"{i}\n" for i in range(400000))
        head, missing, tail = re.fullmatch(r"(.*)\n\[… (\d+) bytes left out …\]\n(.*)", r["stdout"], re.DOTALL).groups()
        assert whole.startswith(head) and whole.endswith(tail) and min(len(head), len(tail)) > 15000, (len(head), len(tail))
        assert r["stdout_bytes"] == len(whole) == len(head) + int(missing) + len(tail), (r["stdout_bytes"], missing)


def test_output_under_the_limit_is_complete():
    with Client() as c:
        r = c.exec("print('x' * 30000)")
        assert r["stdout"] == "x" * 30000 + "\n" and r["truncated"] is False


def test_a_flood_on_stderr_does_not_starve_stdout():
    with Client() as c:
        r = c.exec("import sys\nsys.stderr.write('e' * 2000000)\nsys.stderr.flush()\nprint('still here')")
        assert r["stdout"] == "still here\n", r["stdout"][:100]
        assert r["truncated"] is True and r["stderr_bytes"] == 2000000


def test_reply_stays_below_one_megabyte_whatever_the_bytes():
    with Client() as c:
        for filler in (r"b'\x01'", r"b'\xff'", "'😀'.encode()", r"b'\x00'", r"b'\"'", r"b'\\'"):
            code = f"import os\nfor fd in (1, 2):\n  os.write(fd, {filler} * 50000)"
            reply = c.start("exec", {"code": code}).wait(60)
            size = len(json.dumps(reply, separators=(",", ":"), ensure_ascii=False).encode())
            assert "result" in reply and size < 1000000, (filler, size)


def test_any_bytes_give_a_valid_reply():
    with Client() as c:
        r = c.exec(r"import os; os.write(1, b'ok\xff\xfebad\x00nul\x1b[31mred\xed\xa0\x80')")
        assert r["stdout"] == "ok\ufffdbad\x00nul\x1b[31mred\ufffd", repr(r["stdout"])


def test_explicit_output_limit_bounds_capture_and_reply():
    from lib import sh, stop_services
    dropin = "/run/systemd/system/mcp-exec.service.d/90-test.conf"
    sh(f"mkdir -p {dropin.rsplit('/', 1)[0]} && "
       f"printf '[Service]\\nEnvironment=MCP_EXEC_MAX_OUTPUT_BYTES=1024\\n' > {dropin} && systemctl daemon-reload")
    try:
        stop_services()
        with Client() as c:
            r = c.exec("print('x' * 100000)")
            assert r["truncated"] is True and len(r["stdout"].encode()) <= 1200, len(r["stdout"])
    finally:
        sh(f"rm -f {dropin} && systemctl daemon-reload")
        stop_services()


def test_a_flood_is_ended_before_the_deadline():
    with Client() as c:
        r = c.exec("import os\nb = b'x' * 65536\nwhile True: os.write(1, b)", timeout_s=30)
        assert r["status"] == "output_limit", r["status"]
        assert r["duration_ms"] < 25000 and r["stdout"].startswith("xxx"), r["duration_ms"]
        assert r["message"], r


def test_partial_output_is_returned_on_timeout():
    with Client() as c:
        r = c.exec("print('early'); import time; time.sleep(30)", timeout_s=1)
        assert r["stdout"] == "early\n" and r["timed_out"] is True and r["status"] == "timeout", r


def test_next_run_starts_clean():
    with Client() as c:
        c.exec("open('f','w').write('x'); open('/tmp/g','w').write('x'); open('/dev/shm/h','w').write('x')")
        r = c.exec("import os; print([os.path.exists(p) for p in ('f', '/tmp/g', '/var/tmp/g', '/dev/shm/h')])")
        assert r["stdout"] == "[False, False, False, False]\n", r


@needs("science")
def test_tools_list_tells_a_model_what_it_needs():
    with Client() as c:
        tools = {t["name"]: t for t in c.request("tools/list", {}).result()["tools"]}
        tool = tools["exec"]
        text = tool["description"]
        for word in ("Python", "PyYAML", "Jinja2", "numpy", "pandas", "matplotlib", "network", "timeout"):
            assert word.lower() in text.lower(), (word, text)
        assert len(text) < 2048
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["inputSchema"]["required"] == ["code"]
        for key in ("stdout", "stderr", "exit_code", "duration_ms", "truncated", "timed_out"):
            assert key in tool["outputSchema"]["required"], key
        assert tool["annotations"]["readOnlyHint"] is True and tool["annotations"]["destructiveHint"] is False


def test_ids_come_back_exactly_as_sent():
    with Client() as c:
        for raw in (b'0', b'"a"', b'9223372036854775807', b'-7', b'"\\u00e9"', b'"9"'):
            c.send_raw(b'{"jsonrpc":"2.0","id":' + raw + b',"method":"ping"}\n')
        from lib import wait_until
        wait_until(lambda: len([m for m in c.received if m.get("result") == {}]) == 6, 10)
        ids = [m["id"] for m in c.received if m.get("result") == {}]
        assert ids == [0, "a", 9223372036854775807, -7, "é", "9"], ids


def test_ping_is_answered_while_code_runs():
    with Client() as c:
        run = c.start("exec", {"code": "import time; time.sleep(3)"})
        assert c.request("ping").result(1) == {}
        assert not run.done.is_set()
        assert run.result(20)["structuredContent"]["status"] == "ok"


def test_stateless_call_of_the_modern_revision():
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    with Client(handshake=False) as c:
        found = c.request("server/discover", {"_meta": meta}).result()
        assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete", found
        tools = c.request("tools/list", {"_meta": meta}).result()
        assert tools["ttlMs"] >= 0 and tools["cacheScope"] in ("public", "private"), tools
        r = c.request("tools/call", {"name": "exec", "arguments": {"code": "print(1)"}, "_meta": meta}).result()
        assert r["resultType"] == "complete" and r["structuredContent"]["stdout"] == "1\n", r


def test_progress_with_the_newest_line():
    with Client() as c:
        code = "import time\nfor i in range(4): print('step', i); time.sleep(0.8)"
        r = c.start("exec", {"code": code}, meta={"progressToken": "p"}).result(30)
        assert r["structuredContent"]["status"] == "ok"
        seen = [m["params"] for m in c.notifications("notifications/progress")]
        assert seen and all(p["progressToken"] == "p" for p in seen), seen
        values = [p["progress"] for p in seen]
        assert values == sorted(set(values)), values
        assert any("step" in p["message"] for p in seen), seen
        assert c.received[-1].get("result"), "something came after the answer"


def test_two_hundred_kilobytes_of_code_run():
    with Client() as c:
        r = c.exec("x = 0\n" + "x += 1\n" * 28000 + "print(x)")
        assert r["stdout"] == "28000\n", r
