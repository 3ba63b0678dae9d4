# SPDX-License-Identifier: MIT
"""Every message that the server sends, against the schemas of the revision it was sent in."""

import contextlib
import json
import re
import signal
import socket
import threading

import harness
from harness import Server, Skip, fake_launcher
from test_cli_serve import serving
from test_http import Post
from test_line import unix_service

from schemas import LEGACY, MODERN, PREFIX, Listener, jsonschema, schema_of

META = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {},
        PREFIX + "clientInfo": {"name": "schema-test", "version": "1"}}


def schema_for(version):
    if not jsonschema:
        raise Skip("python3-jsonschema is not installed")
    return schema_of(version)


def _direct(launcher):
    return Server("stdio", "--launcher-socket", launcher)


def _check_tool_schemas(tool, result):
    """The tool's own schemas: valid themselves, plain at their root, and kept by the result."""
    for key in ("inputSchema", "outputSchema"):
        schema = tool.get(key)
        if not schema:
            continue
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", schema
        assert not set(schema) & {"$schema", "oneOf", "anyOf", "allOf", "not", "if"}, schema
    if "outputSchema" in tool:
        jsonschema.Draft202012Validator(tool["outputSchema"]).validate(result["structuredContent"])
        undeclared = set(result["structuredContent"]) - set(tool["outputSchema"]["properties"])
        assert not undeclared, undeclared


def test_every_test_notices_a_message_that_fits_no_definition():
    schema_for(MODERN)  # or skip
    listener = Listener("2025-06-18")
    listener.sent({"jsonrpc": "2.0", "id": 1, "method": "tools/call"})
    for message in ({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text"}]}},
                    {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": ""}},
                    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
                    {"jsonrpc": "2.0", "method": "notifications/unheard"}):
        listener.received(message)
        assert Listener.failures, message
        Listener.failures.clear()
    listener.received({"jsonrpc": "2.0", "id": 1, "result": {"content": []}})
    assert not Listener.failures, Listener.failures


def test_legacy_messages_fit_their_revision():
    with fake_launcher() as launcher:
        for version in LEGACY:
            schema = schema_for(version)
            with _direct(launcher) as s:
                hello = s.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                             "clientInfo": {"name": "schema-test", "version": "1"}}, 0)
                schema.result("InitializeResult", hello)
                assert hello["result"]["protocolVersion"] == version, hello
                schema.result("EmptyResult", s.ask("ping", None, 1))
                listed = s.ask("tools/list", {}, 2)
                schema.result("ListToolsResult", listed)
                ran = s.ask("tools/call", {"name": "exec", "arguments": {"code": "print(1); 1/0"}}, "3")
                schema.result("CallToolResult", ran)
                _check_tool_schemas(listed["result"]["tools"][0], ran["result"])
                assert not ran["result"].get("isError") and "resultType" not in ran["result"], ran
                assert ("structuredContent" in ran["result"]) == (version >= "2025-06-18"), ran
                refused = s.ask("tools/call", {"name": "exec", "arguments": {"code": ""}}, 4)
                schema.result("CallToolResult", refused)
                assert refused["result"]["isError"] is True, refused
                schema.error(s.ask("nope", {}, 5), -32601)
                schema.error(s.ask("tools/call", {"name": "nope"}, 6), -32602)
                schema.error(s.ask("tools/list", {"cursor": "x"}, 7), -32602)
                s.send("tools/call", {"name": "exec", "_meta": {"progressToken": 9},
                                      "arguments": {"code": "import time; print('at work'); time.sleep(1.5)"}}, 8)
                schema.result("CallToolResult", s.reply(8))
                progress = [m for m in s.messages if m.get("method") == "notifications/progress"]
                assert progress, s.messages
                for notification in progress:
                    schema.check("JSONRPCNotification", notification)
                    schema.check("ProgressNotification", notification)


def test_modern_messages_fit_their_revision():
    schema = schema_for(MODERN)
    with fake_launcher() as launcher, _direct(launcher) as s:
        found = s.ask("server/discover", {"_meta": META}, 0)
        schema.result("DiscoverResult", found)
        assert found["result"]["supportedVersions"] == [MODERN], found
        listed = s.ask("tools/list", {"_meta": META}, 1)
        schema.result("ListToolsResult", listed)
        ran = s.ask("tools/call", {"name": "exec", "arguments": {"code": "print(1)"}, "_meta": META}, "2")
        schema.result("CallToolResult", ran)
        assert ran["result"]["structuredContent"]["stdout"] == "1\n", ran
        _check_tool_schemas(listed["result"]["tools"][0], ran["result"])
        refused = s.ask("tools/call", {"name": "exec", "arguments": {"code": 5}, "_meta": META}, 3)
        schema.result("CallToolResult", refused)
        assert refused["result"]["isError"] is True and "structuredContent" not in refused["result"], refused
        for answer in (found, listed, ran, refused):
            assert answer["result"]["resultType"] == "complete", answer
            assert answer["result"]["_meta"][PREFIX + "serverInfo"]["name"] == "mcp-exec", answer
        schema.error(s.ask("ping", {"_meta": META}, 4), -32601, "MethodNotFoundError")
        schema.error(s.ask("tools/call", {"name": "nope", "_meta": META}, 5), -32602)
        schema.error(s.ask("tools/list", {"_meta": {PREFIX + "protocolVersion": MODERN}}, 6), -32602)
        schema.error(s.ask("tools/list", {"_meta": {**META, PREFIX + "protocolVersion": "2099-01-01"}}, 7), -32022,
                     "UnsupportedProtocolVersionError")


def test_modern_subscription_is_acknowledged_first_and_ends_silently_when_cancelled():
    schema = schema_for(MODERN)
    with fake_launcher() as launcher, _direct(launcher) as s:
        s.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}, "listen:0")
        harness.wait_until(lambda: s.messages)
        schema.check("SubscriptionsAcknowledgedNotification", s.messages[0])
        s.send("notifications/cancelled", {"requestId": "listen:0"})
        schema.result("DiscoverResult", s.ask("server/discover", {"_meta": META}, 1))
        assert len(s.messages) == 2, s.messages


def test_subscriptions_end_with_their_result_when_the_service_stops():
    schema = schema_for(MODERN)
    params = {"notifications": {}, "_meta": META}
    with unix_service() as s:
        c = s.connect()
        pipe = harness.Client(c.makefile("rb"), c.makefile("wb"))
        pipe.send("subscriptions/listen", params, "listen:1")
        harness.wait_until(lambda: pipe.messages)
        s.process.send_signal(signal.SIGTERM)
        harness.wait_until(pipe.ended.is_set)
        ack, result, cancelled = pipe.messages
        schema.check("SubscriptionsAcknowledgedNotification", ack)
        schema.result("SubscriptionsListenResult", result)
        assert result["id"] == "listen:1", result
        schema.check("CancelledNotification", cancelled)
        assert cancelled["params"] == {"requestId": "listen:1"}, cancelled
    with serving() as s:
        http = Post(s, {"jsonrpc": "2.0", "id": "listen:1", "method": "subscriptions/listen", "params": params},
                    MCP_Protocol_Version=MODERN, Mcp_Method="subscriptions/listen")
        with contextlib.closing(Post(s, {"jsonrpc": "2.0", "id": 1, "method": "ping"}).connection) as later:
            assert later.getresponse().status == 200      # so the one before it was read
        s.process.send_signal(signal.SIGTERM)
        ack, result = http.messages()
        schema.check("SubscriptionsAcknowledgedNotification", ack)
        schema.result("SubscriptionsListenResult", result)
        assert result["id"] == "listen:1", result


SLEEPS = "import time\nprint('at work', flush=True)\ntime.sleep({seconds})"


def _tools(listed):
    return {tool["name"]: tool for tool in listed["result"]["tools"]}


def test_answers_of_long_runs_fit_their_revision_and_their_own_schemas():
    with fake_launcher() as launcher:
        for version in [*LEGACY, MODERN]:
            schema = schema_for(version)
            with _direct(launcher) as s:
                if version == MODERN:
                    extra = {"_meta": META}
                else:
                    extra = {}
                    s.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "schema-test", "version": "1"}}, 0)

                def call(tool, ident, **arguments):
                    reply = s.ask("tools/call", {"name": tool, "arguments": arguments, **extra}, ident)
                    schema.result("CallToolResult", reply)
                    if not reply["result"].get("isError"):
                        _check_tool_schemas(tools[tool], reply["result"])
                    return reply["result"]

                tools = _tools(s.ask("tools/list", extra, 1))
                assert set(tools) >= {"exec", "get_run", "cancel_run"}, tools
                begun = call("exec", 2, code=SLEEPS.format(seconds=60), background=True)
                run_id = json.loads(begun["content"][0]["text"])["run_id"]
                call("get_run", 3, run_id=run_id, wait_s=1)
                call("get_run", 4, run_id=run_id, offset=0)
                ended = call("cancel_run", 5, run_id=run_id)
                assert json.loads(ended["content"][0]["text"])["status"] == "cancelled", ended
                call("get_run", 6, run_id=run_id)
                assert call("get_run", 7, run_id="nope")["isError"] is True


def _every_key(value):
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _every_key(inner)


def test_every_tool_is_one_that_real_clients_accept():
    with fake_launcher() as launcher:
        for version in (*LEGACY, MODERN):
            with _direct(launcher) as s:
                extra = {"_meta": META} if version == MODERN else {}
                if version != MODERN:
                    s.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "schema-test", "version": "1"}}, 0)
                tools = _tools(s.ask("tools/list", extra, 1))
            assert list(tools) == ["exec", "get_run", "cancel_run", "execute_python", "validate_script",
                                   "check_environment"], list(tools)
            for name, tool in tools.items():
                assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name), name
                assert 0 < len(tool["description"].encode()) < 2048, name
                schemas = [tool["inputSchema"]] + ([tool["outputSchema"]] if version >= "2025-06-18" else [])
                assert ("outputSchema" in tool, "title" in tool) == (version >= "2025-06-18",) * 2, name
                for schema in schemas:
                    assert schema["type"] == "object" and schema["properties"] is not None, name
                    assert not {"oneOf", "anyOf", "allOf", "not", "if"} & set(schema), name
                    assert not {"$schema", "$ref", "$id", "x-mcp-header"} & set(_every_key(schema)), name
                assert tool["inputSchema"]["additionalProperties"] is False, name
                hints = {k for k, v in tool.get("annotations", {}).items() if isinstance(v, bool)}
                assert hints == ({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
                                 if version >= "2025-03-26" else set()), (name, hints)


def test_list_of_tools_has_the_same_bytes_in_each_process():
    with fake_launcher() as launcher:
        for version in (*LEGACY, MODERN):
            lines = []
            for client in ("first", "second"):
                asked = [{"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": META}}]
                if version != MODERN:
                    asked = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}},
                        {"jsonrpc": "2.0", "method": "notifications/initialized"},
                        {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}]
                done = harness.run("stdio", "--launcher-socket", launcher,
                                   input=b"".join(json.dumps(m).encode() + b"\n" for m in asked))
                lines.append([line for line in done.stdout.splitlines() if json.loads(line)["id"] == 9])
                assert len(lines[-1]) == 1 and len(lines[-1][0]) > 5000, (version, done)
            assert lines[0] == lines[1], version


def test_tasks_fit_the_schema_of_their_extension():
    base, tasks = schema_for(MODERN), schema_for("ext-tasks")
    meta = {**META, PREFIX + "clientCapabilities": {"extensions": {PREFIX + "tasks": {}}}}

    def begin(seconds, ident):
        reply = s.ask("tools/call", {"name": "exec", "_meta": meta, "arguments": {
            "code": SLEEPS.format(seconds=seconds), "background": True}}, ident)
        base.check("JSONRPCResultResponse", reply)
        tasks.check("CreateTaskResult", reply["result"])
        return reply["result"]["taskId"]

    def ask(method, task, ident, name):
        reply = s.ask(method, {"taskId": task, "inputResponses": {}, "_meta": meta}, ident)
        base.check("JSONRPCResultResponse", reply)
        tasks.check(name, reply["result"])
        return reply["result"]

    with fake_launcher() as launcher, _direct(launcher) as s:
        base.result("DiscoverResult", s.ask("server/discover", {"_meta": META}, 0))
        short, long = begin(1, 1), begin(60, 2)
        s.send("subscriptions/listen", {"notifications": {"taskIds": [short, long]}, "_meta": meta}, 3)
        ask("tasks/get", long, 4, "GetTaskResult")
        ask("tasks/update", long, 5, "UpdateTaskResult")
        ask("tasks/cancel", long, 6, "CancelTaskResult")

        def told():
            return [m for m in s.messages if m.get("method") == "notifications/tasks"]
        harness.wait_until(lambda: len(told()) == 2)
        assert {m["params"]["status"] for m in told()} == {"completed", "cancelled"}, told()
        for message in told():
            tasks.check("TaskStatusNotification", message)
        first, = [m for m in s.messages if m.get("method", "").endswith("acknowledged")]
        base.check("SubscriptionsAcknowledgedNotification", first)
        tasks.check("TaskSubscriptionAcknowledgedNotifications", first["params"]["notifications"])
        assert s.messages.index(first) < s.messages.index(told()[0]), "told before it was acknowledged"
        done = ask("tasks/get", short, 7, "GetTaskResult")
        base.check("CallToolResult", done["result"])
        assert ask("tasks/get", long, 8, "GetTaskResult")["status"] == "cancelled"
        undeclared = s.ask("tasks/get", {"taskId": long, "_meta": META}, 9)
        base.error(undeclared, -32021, "MissingRequiredClientCapabilityError")
        base.error(s.ask("tasks/get", {"taskId": "nope", "_meta": meta}, 10), -32602)


def test_refusals_over_http_have_a_valid_body():
    # No id could be read where there is none: only the last two revisions have a word for such an error.
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "exec", "arguments": {"code": "1"}, "_meta": META}}
    modern = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "exec"}
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    cases = (("2025-11-25", 400, None, b"{nonsense", {}), ("2025-11-25", 401, None, ping, {"Authorization": "Bearer wrong"}),
             ("2025-11-25", 403, None, ping, {"Origin": "http://evil.example"}), ("2025-11-25", 405, None, b"", {"method": "GET"}),
             ("2025-11-25", 406, None, ping, {"Accept": "text/html"}), ("2025-11-25", 413, None, b" " * (17 << 20), {}),
             ("2025-11-25", 415, None, ping, {"Content_Type": "text/plain"}), ("2025-11-25", 404, None, ping, {"Mcp_Session_Id": "nope"}),
             (MODERN, 400, "HeaderMismatchError", call, modern | {"Mcp_Name": "other"}),
             (MODERN, 404, "MethodNotFoundError", call | {"method": "no/such"}, modern | {"Mcp_Method": "no/such"}),
             (MODERN, 400, "UnsupportedProtocolVersionError",
              call | {"params": call["params"] | {"_meta": META | {PREFIX + "protocolVersion": "2099-01-01"}}},
              modern | {"MCP_Protocol_Version": "2099-01-01"}))
    with serving() as s:
        for version, status, name, message, headers in cases:
            schema, post = schema_for(version), Post(s, message, **headers)
            assert post.reply() == status, (status, post.body)
            body = json.loads(post.body)
            schema.error(body, body["error"]["code"], name)
            assert body.get("id") == 7 or name is None, body


def test_streams_over_http_carry_valid_messages():
    code = "import time\nfor i in range(3): print('step', i); time.sleep(0.7)"
    for version, headers in (("2025-11-25", {}), (MODERN, {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "exec"})):
        meta = (META if headers else {}) | {"progressToken": "p"}
        schema, call = schema_for(version), {"name": "exec", "arguments": {"code": code}, "_meta": meta}
        with serving() as s:
            post = Post(s, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, **headers)
            *progress, result = post.messages()
            assert progress and post.headers["Content-Type"] == "text/event-stream", post.body
            for message in progress:
                schema.check("ProgressNotification", message)
            schema.result("CallToolResult", result)


def test_the_eras_share_one_pipe():
    modern, legacy = schema_for(MODERN), schema_for("2024-11-05")
    with fake_launcher() as launcher, _direct(launcher) as s:
        modern.result("DiscoverResult", s.ask("server/discover", {"_meta": META}, 0))
        legacy.result("InitializeResult", s.ask("initialize", {
            "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}, "i"))
        call = {"name": "exec", "arguments": {"code": "print(1)"}}
        modern.result("CallToolResult", s.ask("tools/call", {**call, "_meta": META}, 1))
        old = s.ask("tools/call", call, 2)
        legacy.result("CallToolResult", old)
        assert set(old["result"]) == {"content"}, old


@contextlib.contextmanager
def relayed(connect):
    """A socket that passes all on to a service; gives its path and the lines that the service says."""
    said = []

    def passed(source, target, take):
        with source.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                take(line)
                target.sendall(line)
            target.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, server, listener = listening.accept()[0], connect(), Listener()
                threading.Thread(target=passed, args=(client, server, listener.sent_bytes), daemon=True).start()
                threading.Thread(target=passed, args=(server, client, lambda line, hear=listener.received_bytes: (
                    said.append(json.loads(line)), hear(line))), daemon=True).start()

    with harness.directory() as where, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "s"))
        listening.listen(8)
        threading.Thread(target=serve, daemon=True).start()
        yield str(where / "s"), said
        listening.shutdown(socket.SHUT_RDWR)


def test_what_the_run_command_is_told_fits_its_revision():
    schema_for("2025-11-25")  # or skip
    with unix_service() as s, relayed(s.connect) as (path, said), harness.directory() as out:
        code = b"import time\nprint('first', flush=True)\ntime.sleep(1.5)\nprint('last')\nopen('f', 'w').write('x')"
        before = Listener.n_checked
        done = harness.run("run", "--socket", path, "--timeout", "5000", "--output-dir", str(out), "-", input=code)
        assert (done.stdout, done.returncode, (out / "f").read_text()) == (b"first\nlast\n", 0, "x"), done
        assert {m["method"] for m in said if "method" in m} == {"notifications/mcp-exec/output", "notifications/mcp-exec/file",
                                                                "notifications/mcp-exec/note"}
        assert Listener.n_checked - before == len(said), said


if __name__ == "__main__":
    harness.main()
