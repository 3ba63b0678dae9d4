# SPDX-License-Identifier: MIT
"""Runs that outlive their call: the sync limit, background, get_run, cancel_run, tasks, and a restart in between."""

import contextlib
import json
import os
import pathlib
import socket
import time

import harness
import test_cli_serve as cli_serve
from harness import Client, Server, environment, fake_launcher
from test_http import Post

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
TASKS = {PREFIX + "protocolVersion": MODERN,
         PREFIX + "clientCapabilities": {"extensions": {PREFIX + "tasks": {}}}}
WORK = "import time\nprint('begun', flush=True)\ntime.sleep({seconds})\nprint('done')"


def _until_killed(mark):
    """A program that tells by a file that it runs, and by its content that nobody ended it."""
    return (f"import time\nprint('begun', flush=True)\nopen({str(mark)!r}, 'w').close()\ntime.sleep(3)\n"
            f"open({str(mark)!r}, 'w').write('went on')")


@contextlib.contextmanager
def _desktop(config="[Exec]\nSyncLimitSec=1500ms\n"):
    """A server on pipes with this configuration, handshake done."""
    with fake_launcher() as launcher, harness.directory() as where:
        (where / "mcp-exec").mkdir()
        (where / "mcp-exec" / "mcp-exec.conf").write_text(config)
        with Server("stdio", "--launcher-socket", launcher,
                    env=environment(XDG_CONFIG_HOME=str(where), HOME=str(where))) as s:
            s.handshake()
            yield s


class _Connection(Client):
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        super().__init__(self.socket.makefile("rb"), self.socket.makefile("wb"))
        self.handshake()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@contextlib.contextmanager
def _service(launcher, where, *stored, **variables):
    """The service on an inherited Unix socket, with results that an earlier one stored (descriptor, name)."""
    path = where / "mcp.sock"
    path.unlink(missing_ok=True)
    (where / "notify.sock").unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(8)
    names = ":".join(["mcp-exec.socket", *[name for _, name in stored]])
    s = cli_serve.Service(launcher, where, sockets=[listening, *[os.fdopen(fd, "rb") for fd, _ in stored]],
                               LISTEN_FDNAMES=names, **variables)
    s.path = path
    try:
        yield s
    finally:
        s.process.kill()
        s.process.wait()
        s.process.stderr.close()
        s.notify.socket.close()
        for fd in s.listening:
            fd.close()


def _structured(reply):
    result = reply["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]


def _call(client, tool, ident, **arguments):
    return client.ask("tools/call", {"name": tool, "arguments": arguments}, ident)


def _background(client, code, ident="begin"):
    begun = _structured(_call(client, "exec", ident, code=code, background=True))
    assert begun["status"] == "running" and begun["exit_code"] == -1, begun
    return begun["run_id"]


def _refusal(client, tool, ident, **arguments):
    result = _call(client, tool, ident, **arguments)["result"]
    assert result["isError"] is True and "structuredContent" not in result, result
    return result["content"][0]["text"]


def test_call_is_answered_at_the_sync_limit_and_the_program_runs_on():
    with _desktop() as s:
        began = time.monotonic()
        first = s.exec(WORK.format(seconds=4))["structuredContent"]
        assert time.monotonic() - began > 1.4, first
        assert first["status"] == "running" and first["stdout"] == "begun\n", first
        assert "get_run" in first["message"] and not first["timed_out"], first
        again = _structured(_call(s, "get_run", "again", run_id=first["run_id"]))
        assert again["status"] == "running" and again["stdout"] == "", again
        last = _structured(_call(s, "get_run", "last", run_id=first["run_id"], wait_s=45))
        assert last["status"] == "ok" and last["stdout"] == "begun\ndone\n", last
        assert time.monotonic() - began > 3.9, last
        assert last == _structured(_call(s, "get_run", "once more", run_id=first["run_id"]))


def test_its_own_deadline_ends_it():
    with _desktop() as s:
        first = s.exec("import time\ntime.sleep(60)", timeout_s=3)["structuredContent"]
        assert first["status"] == "running", first
        last = _structured(_call(s, "get_run", "last", run_id=first["run_id"], wait_s=20))
        assert last["status"] == "timeout" and last["timed_out"] and last["exit_code"] == -1, last


def test_progress_keeps_the_call_to_its_end():
    with _desktop() as s:
        s.send("tools/call", {"name": "exec", "_meta": {"progressToken": "p"},
                              "arguments": {"code": WORK.format(seconds=3)}}, "long")
        assert _structured(s.reply("long"))["status"] == "ok"
        messages = [m["params"]["message"] for m in s.messages if m.get("method") == "notifications/progress"]
        assert any("begun" in m for m in messages), messages
        assert "method" not in s.messages[-1], "a notification came after the result"


def test_sync_limit_of_zero_is_never():
    with _desktop("[Exec]\nSyncLimitSec=0\n") as s:
        assert s.exec(WORK.format(seconds=1))["structuredContent"]["status"] == "ok"


def test_giving_up_before_the_limit_ends_the_program():
    with _desktop("[Exec]\nSyncLimitSec=30s\n") as s, harness.directory() as where:
        s.send("tools/call", {"name": "exec", "arguments": {"code": _until_killed(where / "mark")}}, "gone")
        harness.wait_until((where / "mark").exists)
        s.send("notifications/cancelled", {"requestId": "gone"})
        time.sleep(3.5)
        assert (where / "mark").read_text() == ""


def test_giving_up_get_run_does_not():
    with _desktop() as s, harness.directory() as where:
        run_id = _background(s, _until_killed(where / "mark"))
        s.send("tools/call", {"name": "get_run", "arguments": {"run_id": run_id, "wait_s": 30}}, "look")
        harness.wait_until((where / "mark").exists)
        s.send("notifications/cancelled", {"requestId": "look"})
        harness.wait_until(lambda: (where / "mark").read_text() == "went on")
        assert _structured(_call(s, "get_run", "last", run_id=run_id, wait_s=5))["status"] == "ok"


def test_cancel_run_ends_the_program_and_frees_its_place():
    with _desktop("[Exec]\nMaxParallel=1\n") as s, harness.directory() as where:
        run_id = _background(s, _until_killed(where / "mark"))
        harness.wait_until((where / "mark").exists)
        waiting = _background(s, "print(1)", "second")
        assert "waits for its turn" in s.reply("second")["result"]["structuredContent"]["message"]
        end = _structured(_call(s, "cancel_run", "end", run_id=run_id))
        assert end["status"] == "cancelled" and end["exit_code"] == -1 and end["stdout"] == "begun\n", end
        assert _structured(_call(s, "get_run", "next", run_id=waiting, wait_s=10))["stdout"] == "1\n"
        time.sleep(3)
        assert (where / "mark").read_text() == ""
        assert _structured(_call(s, "cancel_run", "again", run_id=run_id))["status"] == "cancelled"


def test_new_output_since_the_last_look():
    with _desktop() as s:
        run_id = _background(s, "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.05)")
        seen = ""
        for n in range(200):
            now = _structured(_call(s, "get_run", n, run_id=run_id))
            if now["status"] != "running":
                break
            seen += now["stdout"]
            time.sleep(0.05)
        assert now["stdout"] == "".join(f"{i}\n" for i in range(40)), now
        assert seen and now["stdout"].startswith(seen), (seen, now)


def test_all_output_can_be_paged():
    line = "é0123456789 ✓\n"
    with _desktop() as s:
        result = s.exec(f"import sys\nfor i in range(12000): sys.stdout.write({line!r})\nsys.stderr.write('e' * 50000)")
        short = result["structuredContent"]
        assert short["truncated"] and len(short["stdout"]) <= 40000, len(short["stdout"])
        out, err, offset = "", "", 0
        for n in range(100):
            page = _structured(_call(s, "get_run", n, run_id=short["run_id"], offset=offset))
            out, err, offset = out + page["stdout"], err + page["stderr"], page.get("next_offset")
            assert page["status"] == "ok" and page["truncated"] == (offset is not None)
            if offset is None:
                break
        assert out == line * 12000 and err == "e" * 50000, (len(out), len(err))
        assert n > 3, "one page held it all"


def test_unknown_and_expired_ids_get_the_same_answer():
    with _desktop("[Exec]\nResultKeepSec=1s\n") as s:
        run_id = _background(s, "print(1)")
        assert _structured(_call(s, "get_run", "end", run_id=run_id, wait_s=10))["status"] == "ok"
        unknown = _refusal(s, "get_run", "unknown", run_id="0" * 32)
        harness.wait_until(lambda: _call(s, "get_run", str(time.monotonic()), run_id=run_id)["result"].get("isError"), 5)
        assert _refusal(s, "get_run", "expired", run_id=run_id) == unknown
        assert _refusal(s, "cancel_run", "expired too", run_id=run_id) == unknown


def test_results_stay_within_their_memory():
    with _desktop("[Exec]\nResultMemoryMax=64K\nMaxOutputBytes=64K\n") as s:
        ids = []
        for n in range(4):
            ids.append(_background(s, "print('x' * 20000)", f"begin {n}"))
            assert _structured(_call(s, "get_run", f"end {n}", run_id=ids[n], wait_s=10))["status"] == "ok"
        kept = [not _call(s, "get_run", f"look {n}", run_id=i)["result"].get("isError") for n, i in enumerate(ids)]
        assert kept in ([False, True, True, True], [False, False, True, True]), kept


def test_background_run_ends_with_the_process_of_a_desktop():
    with harness.directory() as where:
        with _desktop() as s:
            _background(s, _until_killed(where / "mark"))
            harness.wait_until((where / "mark").exists)
        time.sleep(3.5)
        assert (where / "mark").read_text() == ""


def test_background_run_outlives_its_connection():
    with fake_launcher() as launcher, harness.directory() as where, _service(launcher, where) as s:
        with _Connection(s.path) as first:
            run_id = _background(first, WORK.format(seconds=1))
        with _Connection(s.path) as second:
            assert _structured(_call(second, "get_run", 1, run_id=run_id, wait_s=10))["stdout"] == "begun\ndone\n"


def test_result_survives_a_restart_in_the_descriptor_store():
    with fake_launcher() as launcher, harness.directory() as where:
        with _service(launcher, where) as s:
            with _Connection(s.path) as client:
                run_id = _background(client, WORK.format(seconds=1))
                # What runs is waited for, and its result handed over, before the process ends.
                assert s.end() == 0
            s.notify.wait_for("FDSTORE=1")
            (fd, lines), = s.notify.stored
            assert f"FDNAME=run-{run_id}" in lines, lines
        with _service(launcher, where, (fd, f"run-{run_id}")) as s, _Connection(s.path) as client:
            last = _structured(_call(client, "get_run", 1, run_id=run_id))
            assert last["status"] == "ok" and last["stdout"] == "begun\ndone\n", last
            page = _structured(_call(client, "get_run", 2, run_id=run_id, offset=6))
            assert page["stdout"] == "done\n", page


def test_what_cannot_be_restored_is_removed_from_the_store():
    with fake_launcher() as launcher, harness.directory() as where:
        garbage = os.memfd_create("x", 0)
        os.write(garbage, b"MXRUN" + b"\0" * 4096)
        with _service(launcher, where, (garbage, "run-garbage")) as s, _Connection(s.path) as client:
            s.notify.wait_for("FDSTOREREMOVE=1")
            assert "FDNAME=run-garbage" in s.notify.seen, s.notify.seen
            assert client.exec("print(1)")["structuredContent"]["stdout"] == "1\n"


def test_service_is_not_idle_while_it_keeps_a_result():
    if os.getuid() != 0 or os.path.exists("/etc/mcp-exec"):
        raise harness.Skip("ExitIdleSec= is read from /etc only")
    os.mkdir("/etc/mcp-exec")
    try:
        pathlib.Path("/etc/mcp-exec/mcp-exec.conf").write_text(
            "[Server]\nExitIdleSec=1s\n[Exec]\nResultKeepSec=3s\n")
        with fake_launcher() as launcher, harness.directory() as where, _service(launcher, where) as s:
            with _Connection(s.path) as client:
                run_id = _background(client, "print(1)")
                _structured(_call(client, "get_run", 1, run_id=run_id, wait_s=10))
            began = time.monotonic()
            assert s.process.wait(10) == 0
            assert time.monotonic() - began > 2, "it went although it kept a result"
            s.notify.wait_for("FDSTOREREMOVE=1")
            assert f"FDNAME=run-{run_id}" in s.notify.seen, s.notify.seen
    finally:
        os.unlink("/etc/mcp-exec/mcp-exec.conf")
        os.rmdir("/etc/mcp-exec")


# ---- Tasks ----

def _task(client, method, ident, meta=TASKS, **params):
    return client.ask(method, {**params, "_meta": meta}, ident)


def test_tasks_are_the_other_face_of_the_same_table():
    with _desktop() as s:
        quick = _task(s, "tools/call", 1, name="exec", arguments={"code": "print(1)"})["result"]
        assert quick["resultType"] == "complete" and quick["structuredContent"]["stdout"] == "1\n", quick
        began = time.monotonic()
        handle = _task(s, "tools/call", 2, name="exec", arguments={"code": WORK.format(seconds=4)})["result"]
        assert handle["resultType"] == "task" and handle["status"] == "working", handle
        assert time.monotonic() - began > 1.8
        working = _task(s, "tasks/get", 3, taskId=handle["taskId"])["result"]
        assert working["resultType"] == "complete" and working["status"] == "working", working
        last = _structured(_task(s, "tools/call", 4, name="get_run",
                                 arguments={"run_id": handle["taskId"], "wait_s": 10}))
        done = _task(s, "tasks/get", 5, taskId=handle["taskId"])["result"]
        assert done["status"] == "completed" and done["result"]["structuredContent"] == last, done

        # In the layout of the tool that began it.
        handle = _task(s, "tools/call", 6, name="execute_python", arguments={"script": "print(2)", "background": True})["result"]
        _task(s, "tools/call", 7, name="get_run", arguments={"run_id": handle["taskId"], "wait_s": 10})
        done = _task(s, "tasks/get", 8, taskId=handle["taskId"])["result"]["result"]
        assert done["content"][0]["text"].startswith("--- stdout ---\n2\n\n--- exit_code: 0 ---\n"), done


def test_task_is_cancelled_and_its_subscriber_told():
    with _desktop() as s:
        handle = _task(s, "tools/call", 1, name="exec",
                       arguments={"code": "import time\ntime.sleep(60)", "background": True})["result"]
        s.send("subscriptions/listen", {"notifications": {"taskIds": [handle["taskId"], "nope"]}, "_meta": TASKS}, "sub")
        harness.wait_until(lambda: [m for m in s.messages if m.get("method", "").endswith("acknowledged")])
        assert s.messages[-1]["params"]["notifications"] == {"taskIds": [handle["taskId"]]}, s.messages[-1]
        assert _task(s, "tasks/cancel", 2, taskId=handle["taskId"])["result"]["resultType"] == "complete"

        def told():
            return [m["params"] for m in s.messages if m.get("method") == "notifications/tasks"]
        harness.wait_until(told)
        assert len(told()) == 1 and told()[0]["status"] == "cancelled", told()
        assert told()[0]["_meta"][PREFIX + "subscriptionId"] == "sub", told()


def test_tasks_are_for_requests_that_declare_them():
    with _desktop() as s:
        plain = _task(s, "tools/call", 1, META, name="exec", arguments={"code": WORK.format(seconds=3)})["result"]
        assert plain["resultType"] == "complete" and plain["structuredContent"]["status"] == "running", plain
        run_id = plain["structuredContent"]["run_id"]
        for n, method in enumerate(("tasks/get", "tasks/update", "tasks/cancel"), 10):
            error = _task(s, method, n, META, taskId=run_id)["error"]
            assert error["code"] == -32021, error
            assert error["data"] == {"requiredCapabilities": {"extensions": {PREFIX + "tasks": {}}}}, error
            assert _task(s, method, n + 10, taskId="nope", inputResponses={})["error"]["code"] == -32602
            assert _task(s, method, n + 20, inputResponses={})["error"]["code"] == -32602
        listening = _task(s, "subscriptions/listen", 40, META, notifications={"taskIds": [run_id]})["error"]
        assert listening["code"] == -32021, listening
        for n, method in enumerate(("tasks/list", "tasks/result"), 50):
            assert _task(s, method, n, taskId=run_id)["error"]["code"] == -32601
        assert s.ask("tasks/get", {"taskId": run_id}, 60)["error"]["code"] == -32601, "the handshake era has none"


def test_discover_offers_the_extension():
    with _desktop() as s:
        found = _task(s, "server/discover", 1, META)["result"]
        assert found["capabilities"]["extensions"] == {PREFIX + "tasks": {}}, json.dumps(found)


# ---- HTTP ----

def _post(service, method, header, meta=META, **params):
    return Post(service, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}},
                MCP_Protocol_Version=MODERN, Mcp_Method=method, Mcp_Name=header)


def _answer(post, status=200):
    assert post.reply() == status, post.body
    return json.loads(post.body)


def test_run_goes_on_after_its_http_exchange():
    with cli_serve.serving() as s, harness.directory() as where:
        begun = _structured(_answer(_post(s, "tools/call", "exec", name="exec", arguments={
            "code": _until_killed(where / "mark"), "background": True})))
        looking = _post(s, "tools/call", "get_run", name="get_run",
                        arguments={"run_id": begun["run_id"], "wait_s": 30})
        harness.wait_until((where / "mark").exists)
        looking.hang_up()  # which ends this request, and nothing but it
        harness.wait_until(lambda: (where / "mark").read_text() == "went on")
        last = _structured(_answer(_post(s, "tools/call", "get_run", name="get_run",
                                         arguments={"run_id": begun["run_id"], "wait_s": 5})))
        assert last["status"] == "ok", last


def test_task_methods_repeat_the_task_in_a_header():
    with cli_serve.serving() as s:
        task = _answer(_post(s, "tools/call", "exec", TASKS, name="exec", arguments={
            "code": "import time\ntime.sleep(60)", "background": True}))["result"]["taskId"]
        assert _answer(_post(s, "tasks/get", task, TASKS, taskId=task))["result"]["status"] == "working"
        assert _answer(_post(s, "tasks/get", "other", TASKS, taskId=task), 400)["error"]["code"] == -32020
        assert _answer(_post(s, "tasks/get", task, META, taskId=task), 400)["error"]["code"] == -32021
        assert _answer(_post(s, "tasks/get", "nope", TASKS, taskId="nope"))["error"]["code"] == -32602
        assert _answer(_post(s, "tasks/cancel", task, TASKS, taskId=task))["result"]["resultType"] == "complete"


if __name__ == "__main__":
    harness.main()
