# SPDX-License-Identifier: MIT
"""The files that a program leaves in its working directory: in results, and saved by `mcp-exec run --output-dir`."""

import base64
import json
import os
import subprocess
import time

import harness
from harness import Server, environment, fake_launcher, run
from test_long_runs import TASKS, _desktop
from test_schema import LEGACY, MODERN, _check_tool_schemas, schema_for

META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")
LEAVES = f"open('a.csv', 'w').write('1,2\\n'); open('b.png', 'wb').write({PNG!r}); open('c.bin', 'wb').write(b'\\0\\1')"
DIGEST = "b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2"
LISTED = [{"path": "a.csv", "bytes": 4, "mime_type": "text/csv", "text": "1,2\n"},
          {"path": "b.png", "bytes": len(PNG), "mime_type": "image/png", "image": 1},
          {"path": "c.bin", "bytes": 2, "mime_type": "application/octet-stream", "sha256": DIGEST,
           "reason": "Not shown: neither text nor a PNG, JPEG, GIF or WebP image."}]
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}


def _check(result):
    assert json.loads(result["content"][0]["text"])["files"] == LISTED, result
    assert result["content"][1:] == [IMAGE], result
    if "structuredContent" in result:
        assert result["structuredContent"]["files"] == LISTED, result
        assert "files_note" not in result["structuredContent"], result


def test_files_fit_each_revision_and_its_schemas():
    with fake_launcher() as launcher:
        for version in LEGACY:
            with Server("stdio", "--launcher-socket", launcher) as s:
                s.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                     "clientInfo": {"name": "files-test", "version": "1"}}, 0)
                tools = s.ask("tools/list", {}, 1)["result"]["tools"]
                reply = s.ask("tools/call", {"name": "exec", "arguments": {"code": LEAVES}}, 2)
                schema_for(version).result("CallToolResult", reply)
                _check(reply["result"])
                _check_tool_schemas(tools[0], reply["result"])
        with Server("stdio", "--launcher-socket", launcher) as s:
            reply = s.ask("tools/call", {"name": "exec", "arguments": {"code": LEAVES}, "_meta": META}, 1)
            schema_for(MODERN).result("CallToolResult", reply)
            _check(reply["result"])


def test_description_tells_of_files_only_where_they_are_collected():
    for setting, expected in (("", True), ("MaxFiles=0", False)):
        with _desktop(f"[Exec]\n{setting}\n") as s:
            tool = s.ask("tools/list", {}, "list")["result"]["tools"][0]
            assert ("Files left in the working directory" in tool["description"]) == expected, tool
            assert ("files" in s.exec(LEAVES)["structuredContent"]) == expected


def test_a_failed_program_and_a_killed_one_leave_theirs():
    with _desktop() as s:
        r = s.exec(LEAVES + "\nraise SystemExit(3)", "failed")["structuredContent"]
        assert r["status"] == "error" and r["files"] == LISTED, r
        r = s.exec(LEAVES + "\nimport time; time.sleep(60)", "killed", timeout_s=1)["structuredContent"]
        assert r["status"] == "timeout" and r["files"] == LISTED, r


def test_kept_results_and_tasks_have_them():
    with _desktop() as s:
        begun = s.exec("import time; time.sleep(0.5)\n" + LEAVES, background=True)["structuredContent"]
        assert "files" not in begun, begun
        for ident in ("wait", "again"):
            _check(s.ask("tools/call", {"name": "get_run", "arguments": {"run_id": begun["run_id"], "wait_s": 30}},
                         ident)["result"])
        page = s.ask("tools/call", {"name": "get_run", "arguments": {"run_id": begun["run_id"], "offset": 0}}, "page")
        assert "files" not in page["result"]["structuredContent"], page
        task = s.ask("tools/call", {"name": "exec", "_meta": TASKS,
                                    "arguments": {"code": "import time; time.sleep(3)\n" + LEAVES}}, "task")["result"]
        assert task["resultType"] == "task", task

        def state():
            return s.ask("tasks/get", {"taskId": task["taskId"], "_meta": TASKS}, os.urandom(4).hex())["result"]
        harness.wait_until(lambda: state()["status"] == "completed", 20)
        _check(state()["result"])


def test_small_memory_for_results_keeps_the_list():
    with _desktop("[Exec]\nResultMemoryMax=64K\n") as s:
        begun = s.exec("open('large', 'w').write('x' * 30000); open('small', 'w').write('y')",
                       background=True)["structuredContent"]
        s.ask("tools/call", {"name": "get_run", "arguments": {"run_id": begun["run_id"], "wait_s": 30}}, "wait")
        r = s.ask("tools/call", {"name": "get_run", "arguments": {"run_id": begun["run_id"]}}, "get")["result"]["structuredContent"]
        assert [f.get("text") for f in r["files"]] == [None, "y"], r
        assert r["files"][0]["reason"] == "Too large to be kept with the result.", r


def test_other_calls_are_answered_while_thousands_of_files_are_looked_at():
    with _desktop("[Exec]\nMaxParallel=2\n") as s:
        code = "for i in range(10000): open(f'{i:05}', 'w').close()"
        for i in range(2):
            s.send("tools/call", {"name": "exec", "arguments": {"code": code}}, f"many {i}")
        n = 0
        while not any(m.get("id") == "many 1" for m in s.messages):
            s.ask("ping", None, f"ping {n}")
            n += 1
        for i in range(2):
            r = s.reply(f"many {i}")["result"]["structuredContent"]
            assert len(r["files"]) == 32 and r["files_note"] == "9968 more of what it left is not listed.", r


def test_a_cancelled_call_frees_its_slot():
    with _desktop("[Exec]\nMaxParallel=1\n") as s:
        for i in range(5):
            s.send("tools/call", {"name": "exec", "arguments": {
                "code": "for i in range(3000): open(str(i), 'w').close()"}}, f"gone {i}")
            time.sleep(i / 20)
            s.send("notifications/cancelled", {"requestId": f"gone {i}"})
        assert s.exec(LEAVES)["structuredContent"]["files"] == LISTED


def _run(launcher, code, *arguments):
    return run("run", "--launcher-socket", launcher, *arguments, "-", input=code.encode())


def _tree(where):
    return {str(p.relative_to(where)): p.read_bytes() for p in sorted(where.rglob("*")) if not p.is_dir()}


def test_run_saves_files():
    with fake_launcher() as launcher, harness.directory() as where:
        out = where / "new"
        done = _run(launcher, LEAVES + "\nimport os; os.makedirs('d/e'); open('d/e/f', 'wb').write(bytes(range(256)) * 800)"
                    "\nopen('empty', 'w').close()", "--output-dir", str(out))
        assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0), done
        assert _tree(out) == {"a.csv": b"1,2\n", "b.png": PNG, "c.bin": b"\0\1", "empty": b"",
                              "d/e/f": bytes(range(256)) * 800}, _tree(out)


def test_run_names_files_that_it_does_not_save():
    with fake_launcher() as launcher:
        done = _run(launcher, "print('x')\nfor i in range(7): open(f'file{i}', 'w').close()")
        assert (done.stdout, done.returncode) == (b"x\n", 0), done
        assert done.stderr == (b"mcp-exec: file0, file1, file2, file3, file4 and 2 more left in the working directory "
                               b"(--output-dir saves such files)\n"), done
        done = _run(launcher, "open('evil\\x1b[2J\\nname', 'w').close()")
        assert done.stderr == b"mcp-exec: 1 files left in the working directory (--output-dir saves such files)\n", done


def test_run_overwrites_nothing_and_says_so():
    with fake_launcher() as launcher, harness.directory() as where:
        (where / "a.csv").write_text("mine")
        done = _run(launcher, LEAVES, "--output-dir", str(where))
        assert done.returncode == 125 and done.stderr == b"mcp-exec: a.csv was not saved: File exists\n", done
        assert _tree(where) == {"a.csv": b"mine", "b.png": PNG, "c.bin": b"\0\1"}, _tree(where)
        done = _run(launcher, LEAVES + "\nraise SystemExit(4)", "--output-dir", str(where))
        assert done.returncode == 4, done


def test_run_saves_nothing_hidden_into_a_directory_in_use():
    code = ("import os; os.makedirs('.git/hooks'); os.makedirs('d/.e'); "
            "[open(p, 'w').write('x') for p in ('.profile', '.git/hooks/post-checkout', 'd/.e/f', 'd/f.x')]")
    with fake_launcher() as launcher, harness.directory() as where:
        (where / "mine").write_text("mine")
        done = _run(launcher, code, "--output-dir", str(where))
        told = [f"mcp-exec: {path} was not saved: it is hidden, and the directory was not empty"
                for path in (".git/hooks/post-checkout", ".profile", "d/.e/f")]
        assert (done.returncode, sorted(done.stderr.decode().splitlines())) == (125, told), done
        assert _tree(where) == {"mine": b"mine", "d/f.x": b"x"}, _tree(where)
        done = _run(launcher, code, "--output-dir", str(where / "new"))
        assert (done.returncode, done.stderr) == (0, b""), done
        assert set(_tree(where / "new")) == {".git/hooks/post-checkout", ".profile", "d/.e/f", "d/f.x"}, _tree(where)


def test_run_says_what_could_not_be_collected():
    with fake_launcher() as launcher, harness.directory() as where:
        done = _run(launcher, "import os; os.symlink('/etc/passwd', 'link'); open('x', 'w').write('y')",
                    "--output-dir", str(where))
        assert done.stderr == b"mcp-exec: link was not saved: A symbolic link, which is not followed.\n", done
        assert done.returncode == 125 and _tree(where) == {"x": b"y"}, done


def test_run_needs_its_directory_before_the_program_runs():
    with fake_launcher() as launcher, harness.directory() as where:
        (where / "file").write_text("x")
        for path in (where / "file", where / "no" / "such"):
            done = _run(launcher, "print('ran')", "--output-dir", str(path))
            assert done.returncode == 125 and done.stdout == b"" and str(path).encode() in done.stderr, done


def _hostile(*pieces, listed=()):
    def answer(line):
        message = json.loads(line)
        if message.get("method") == "ping":
            return harness.pong(line)
        if message.get("method") != "tools/call":
            return b""
        assert message["params"]["_meta"] == {"mcp-exec/output": True, "mcp-exec/files": True}
        result = {"content": [], "structuredContent": {"status": "ok", "exit_code": 0, "files": list(listed)}}
        return b"".join(json.dumps(m).encode() + b"\n" for m in (
            *({"jsonrpc": "2.0", "method": "notifications/mcp-exec/file",
               "params": {"requestId": message["id"], **piece}} for piece in pieces),
            {"jsonrpc": "2.0", "id": message["id"], "result": result}))
    return harness.FakeService(answer)


def test_files_that_were_sent_are_there_and_come_back_only_when_they_change():
    sent = [{"name": "a.csv", "text": "1,2\n"}, {"name": "b.bin", "base64": base64.b64encode(b"\0\xff").decode()}]
    with _desktop() as s:
        code = "import os; print(sorted(os.listdir('.')), open('a.csv').read(), open('b.bin', 'rb').read())"
        result = s.exec(code, "same", files=sent)["structuredContent"]
        assert result["stdout"] == "['a.csv', 'b.bin', 'main.py'] 1,2\n b'\\x00\\xff'\n" and "files" not in result, result
        result = s.exec("open('a.csv', 'a').write('3\\n')", "changed", files=sent)["structuredContent"]
        assert result["files"] == [{"path": "a.csv", "bytes": 6, "mime_type": "text/csv", "text": "1,2\n3\n"}], result


def test_run_sends_files_of_any_content():
    with harness.directory() as where, fake_launcher() as launcher:
        (where / "a b").write_bytes(b"\0\xff")
        (where / "empty").write_bytes(b"")
        done = run("run", "--no-bridge", "--launcher-socket", launcher, "--file", str(where / "a b"),
                   "--file", str(where / "empty"), "-", input=b"print(open('a b', 'rb').read(), open('empty').read())")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"b'\\x00\\xff' \n", b""), done
        done = run("run", "--file", str(where / "none"), "-", input=b"print(1)")
        assert done.returncode == 125 and b"none: cannot open it: No such file" in done.stderr, done


def test_run_speaks_of_the_files_that_were_named():
    with harness.directory() as where, fake_launcher() as launcher:
        for name, content in (("a", b"1"), ("main.py", b"2"), ("large", b"3" * 70000), ("blank.py", b"\n")):
            (where / name).write_bytes(content)
        (where / "d").mkdir()
        (where / "d" / "a").write_bytes(b"other")
        a, other, main, large = (str(where / n) for n in ("a", "d/a", "main.py", "large"))
        limited = environment(MCP_EXEC_MAX_STDIN_BYTES="65536")
        for arguments, said in (
                (("--file", a, "--file", other, "-"), f"{other} has the name of another one"),
                (("--file", a, "--file", main, "-"), f"{main} must have the name of a file in the working directory: at "
                 "most 255 bytes, no \"/\", and not main.py, which is the program"),
                (("--file", large, "-"), "files together exceed the limit of 65536 bytes (the server's setting is "
                 "MaxStdinBytes=)"),
                (("--stdin", large, "-"), "stdin exceeds limit of 65536 bytes (it has 70000; the server's setting is "
                 "MaxStdinBytes=)"),
                ((str(where / "blank.py"),), f"{where}/blank.py must not be empty")):
            done = run("run", "--launcher-socket", launcher, *arguments, input=b"print('ran')", env=limited)
            assert (done.returncode, done.stdout) == (125, b""), done
            assert done.stderr.decode() == f"mcp-exec: {said}\n", done
        done = run("run", "--launcher-socket", launcher, "-", input=b" ")
        assert done.stderr == b"mcp-exec: the program must not be empty\n", done


def test_run_does_not_translate_what_it_did_not_send():
    for text in ("files[1] is bad", "files[99999999999999999999] is bad", "files[] is bad", "files[0", "codes are bad"):
        def answer(line, text=text):
            message = json.loads(line)
            if message.get("method") == "ping":
                return harness.pong(line)
            result = {"content": [{"type": "text", "text": text}], "isError": True}
            return (json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n"
                    if message.get("method") == "tools/call" else b"")
        with harness.directory() as where, harness.FakeService(answer) as service:
            (where / "a").write_bytes(b"1")
            done = run("run", "--socket", service.path, "--file", str(where / "a"), "-", input=b"x")
            assert (done.returncode, done.stderr.decode()) == (125, f"mcp-exec: {text}\n"), done


def test_run_does_not_wait_for_what_may_never_be_written():
    with harness.directory() as where, fake_launcher() as launcher:
        os.mkfifo(where / "fifo")
        fifo = str(where / "fifo")
        (where / "x.py").write_text("print(1)")
        program = str(where / "x.py")
        regular = "it is not a regular file"
        piped = regular + "; what it gives can be piped to standard input"
        for arguments, said in ((("--file", fifo, program), f"{fifo}: {regular}"),
                                (("--file", "/dev/zero", program), f"/dev/zero: {regular}"),
                                (("--file", str(where), program), f"{where}: it is a directory"),
                                (("--stdin", fifo, program), f"{fifo}: {piped}"),
                                (("--stdin", str(where), program), f"{where}: it is a directory"),
                                ((fifo,), f"{fifo}: {piped}"), ((str(where),), f"{where}: it is a directory")):
            done = run("run", "--launcher-socket", launcher, *arguments)
            assert (done.returncode, done.stdout) == (125, b""), done
            assert done.stderr.decode() == f"mcp-exec: {said}\n", done
        done = run("run", "--launcher-socket", launcher, "--stdin", "/dev/null", program)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n", b""), done


def test_run_reads_what_a_shell_substitutes():
    with fake_launcher() as launcher:
        command = ('exec "$0" run --launcher-socket "$1" --stdin <(sleep 0.3; echo in) '
                   '<(sleep 0.3; echo "print(input())") </dev/null')
        done = subprocess.run(["bash", "-c", command, harness.MCP_EXEC, launcher], capture_output=True, timeout=20,
                              env=environment())
        assert (done.returncode, done.stdout, done.stderr) == (0, b"in\n", b""), done


def test_run_sends_what_one_message_carries():
    with harness.directory() as where, fake_launcher() as launcher:
        (where / "large").write_bytes(b"\0" * 8 * 2**20)
        (where / "larger").write_bytes(b"\0" * 10 * 2**20)
        (where / "largest").write_bytes(b"\0" * (12 * 2**20 + 1))
        code = b"import os; print(os.path.getsize('large'))"
        env = environment(MCP_EXEC_MAX_STDIN_BYTES="16777216")
        done = run("run", "--launcher-socket", launcher, "--file", str(where / "large"), "-", input=code, env=env)
        assert (done.returncode, done.stdout, done.stderr[:200]) == (0, b"8388608\n", b""), done
        done = run("run", "--launcher-socket", launcher, "--file", str(where / "larger"), "-", input=code, env=env)
        assert done.returncode == 125 and done.stderr == (
            b"mcp-exec: The program, its input and its files are 14 MiB as one message, in which a file takes a third "
            b"more than its size; the most that can be sent is 12 MiB\n"), done
        done = run("run", "--launcher-socket", launcher, "--file", str(where / "largest"), "-", input=code, env=env)
        assert done.returncode == 125 and done.stderr.decode() == (
            f"mcp-exec: {where}/largest: it is larger than 12 MiB, the most that one message can carry\n"), done


def test_run_writes_only_below_its_directory():
    names = ("/etc/x", "../out", "a/../../out", "./x", "a//b", "a/", "", ".", "..", "a/.", "bad\nname", "\x1b[2J",
             "left\u202eright", "link/x", "file/x", "x" * 300)
    with harness.directory() as where:
        out = where / "dir"
        out.mkdir()
        (where / "elsewhere").mkdir()
        (out / "link").symlink_to(where / "elsewhere")
        (out / "file").write_text("mine")
        for name in names:
            with _hostile({"path": name, "bytes": 1, "data": "eA=="}) as service:
                done = run("run", "--socket", service.path, "--output-dir", str(out), "-", input=b"x")
            assert done.returncode == 125 and b" was not saved: " in done.stderr, (name, done)
            assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1, done
        assert _tree(where) == {"dir/file": b"mine"}, _tree(where)
        assert list((where / "elsewhere").iterdir()) == []


def test_run_survives_pieces_that_make_no_sense():
    cases = [({"path": "f"},), ({"path": 5, "bytes": 1, "data": "eA=="},), ({"path": "f", "bytes": -1, "data": ""},),
             ({"path": "f", "bytes": 1, "data": "*"},), ({"path": "f", "bytes": 1, "data": "eHg="},)]
    for pieces in cases:
        with harness.directory() as where, _hostile(*pieces) as service:
            done = run("run", "--socket", service.path, "--output-dir", str(where), "-", input=b"x")
            assert done.returncode == 125 and done.stderr.startswith(b"mcp-exec: "), (pieces, done)


def test_run_takes_pieces_in_order():
    pieces = [{"path": "f", "bytes": 3, "data": base64.b64encode(c).decode()} for c in (b"a", b"b", b"c")]
    with harness.directory() as where, _hostile(*pieces, listed=[{"path": "f", "bytes": 3}]) as service:
        done = run("run", "--socket", service.path, "--output-dir", str(where), "-", input=b"x")
        assert (done.returncode, done.stderr, _tree(where)) == (0, b"", {"f": b"abc"}), done
    with harness.directory() as where, _hostile(listed=[{"path": "f", "bytes": 3, "text": "abc"}]) as service:
        done = run("run", "--socket", service.path, "--output-dir", str(where), "-", input=b"x")
        assert done.returncode == 125 and done.stderr == b"mcp-exec: f was not saved: The server did not send it.\n", done


if __name__ == "__main__":
    harness.main()
