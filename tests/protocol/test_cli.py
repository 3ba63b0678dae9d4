# SPDX-License-Identifier: MIT
"""The command line: what each command takes, what it refuses, and with which exit status."""

import json
import pathlib
import re
import signal
import socket
import subprocess
import time

import harness
from harness import MCP_EXEC, environment, fake_launcher, run

COMMANDS = ["stdio", "serve", "run", "check", "env", "token", "print-unit"]


def _run_program(code, *arguments, options=(), **more):
    with fake_launcher(*options) as launcher, harness.directory() as where:
        (where / "main.py").write_text(code)
        return run("run", "--launcher-socket", launcher, *arguments, str(where / "main.py"), **more)


def test_version():
    done = run("--version")
    assert done.returncode == 0 and done.stdout.startswith(b"mcp-exec 0."), done


def test_help_of_each_command():
    for command in ([], *([name] for name in COMMANDS)):
        done = run(*command, "--help")
        assert done.returncode == 0 and done.stdout.startswith(b"Usage: mcp-exec"), (command, done)
        assert not done.stderr, done
        assert max(len(line.decode()) for line in done.stdout.splitlines()) <= 109, command


def _options_of_the_manual(text, command):
    """What the synopsis names for this command, and what has an entry of its own anywhere."""
    synopsis = text[text.index(".Sh SYNOPSIS"):text.index(".Sh DESCRIPTION")]
    forms = [form for form in re.split(r"^\.Nm\n", synopsis, flags=re.MULTILINE) if form.startswith(f".Cm {command}")]
    assert forms, command
    entries = "\n".join(line for line in text.splitlines() if line.startswith(".It Fl"))
    find = re.compile(r"(?<=Fl -)[a-z][a-z-]+").findall
    return {o for form in forms for o in find(form)}, set(find(entries)) | set(re.findall(r"(?<=, -)[a-z][a-z-]+", entries))


def test_help_and_the_manual_name_the_same_options():
    text = (pathlib.Path(__file__).parents[2] / "man" / "mcp-exec.1").read_text()
    # Of the second predecessor, without effect: not worth a place in the synopsis. It has -v and -h without long forms.
    compatible = {"sandbox-backend", "no-warm-cache"}
    for command in COMMANDS:
        helped = set(re.findall(r"(?<!\S)--([a-z][a-z-]+)", run(command, "--help").stdout.decode())) - {"help", "verbose"}
        synopsis, entries = _options_of_the_manual(text, command)
        assert helped - compatible == synopsis, (command, helped ^ synopsis)
        assert helped <= entries, (command, helped - entries)
    listed = re.findall(r"^  ([a-z][a-z-]*) ", run("--help").stdout.decode(), re.MULTILINE)
    assert listed == COMMANDS, listed


def test_unknown_command_and_option_exit_with_2_and_a_hint():
    for argv in (["nonsense"], ["--nonsense"], ["stdio", "--nonsense"], ["serve", "--nonsense"],
                 ["run", "--nonsense", "x"], ["check", "--nonsense"], ["print-unit", "--nonsense"],
                 ["stdio", "nonsense"], ["check", "nonsense"], ["run", "a.py", "nonsense"]):
        done = run(*argv)
        assert done.returncode == 2, (argv, done)
        assert b"nonsense" in done.stderr and b"--help" in done.stderr, (argv, done)
        assert not done.stdout, done


def test_run_without_a_file_is_a_usage_error():
    done = run("run")
    assert done.returncode == 2 and b"no program" in done.stderr, done


def test_run_timeout_must_be_a_number():
    for value in ("0", "-1", "1.5", "x", ""):
        done = run("run", "--timeout", value, "x.py")
        assert done.returncode == 2 and b"--timeout" in done.stderr, (value, done)


def test_transport_sse_listens_like_http():
    done = run(env=environment(MCP_EXEC_TRANSPORT="sse", MCP_EXEC_ADDR="127.0.0.1:0"))
    assert done.returncode == 1 and b"MCP_EXEC_AUTH_TOKEN" in done.stderr, done


def test_unknown_transport_is_refused():
    done = run(env=environment(MCP_EXEC_TRANSPORT="pigeon"))
    assert done.returncode == 1 and b"MCP_EXEC_TRANSPORT" in done.stderr, done


def test_http_without_token_is_refused():
    done = run(env=environment(MCP_EXEC_TRANSPORT="http", MCP_EXEC_ADDR="127.0.0.1:0"))
    assert done.returncode == 1 and b"MCP_EXEC_AUTH_TOKEN" in done.stderr and b"--no-auth" in done.stderr, done


def test_http_by_variable_without_an_address_does_not_crash():
    # Port 8080 of this machine may be taken, which is an answer too.
    done = run(env=environment(MCP_EXEC_TRANSPORT="http"))
    assert done.returncode == 1 and (b"MCP_EXEC_AUTH_TOKEN" in done.stderr or b":8080" in done.stderr), done


def test_serve_without_sockets_says_what_to_start():
    done = run("serve")
    assert done.returncode == 2 and b"mcp-exec.socket" in done.stderr, done


def test_bad_variable_is_named():
    for name, value in (("MCP_EXEC_DEFAULT_TIMEOUT_S", "soon"), ("MCP_EXEC_MAX_OUTPUT_BYTES", "-1")):
        for command in ("stdio", "--no-bridge"), ("run", "--no-bridge", "-"):
            done = run(*command, env=environment(**{name: value}))
            assert (done.returncode, name.encode() in done.stderr) == (0 if command[0] == "stdio" else 125, True), done


def test_bad_configuration_is_named_with_file_and_line():
    with harness.directory() as where:
        (where / "mcp-exec").mkdir()
        (where / "mcp-exec/mcp-exec.conf").write_text("[Exec]\nQueueMax=64\nNoSuchKey=1\n")
        done = run("stdio", "--no-bridge", env=environment(XDG_CONFIG_HOME=str(where)))
        assert b"mcp-exec.conf:3" in done.stderr and b"NoSuchKey" in done.stderr and done.stdout == b"", done
        # Nothing of it is in the journal of the system service.
        (where / "list.txt").write_text("six\n")
        for arguments, last in ((("run", "-"), "ended before it told how the program ended"),
                                (("env", "list"), "gave no answer"), (("env", "prepare", str(where / "list.txt")), "gave no answer")):
            done = run(*arguments[:1], "--no-bridge", *arguments[1:], input=b"x", env=environment(XDG_CONFIG_HOME=str(where)))
            lines = done.stderr.decode().splitlines()
            assert done.returncode != 0 and len(lines) == 2 and "mcp-exec.conf:3" in lines[0], done
            assert lines[1] == f"mcp-exec: The server that was started for this {last}", done


def test_run_gives_output_and_exit_status():
    done = _run_program("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7), done


def test_run_succeeds_silently():
    done = _run_program("pass")
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0), done


def test_run_passes_every_byte():
    done = _run_program("import os\nfor i in range(256): os.write(1 + i % 2, bytes(range(256)))")
    assert done.returncode == 0, done
    assert done.stdout == bytes(range(256)) * 128 and done.stderr == bytes(range(256)) * 128


def test_run_passes_large_output():
    done = _run_program("import sys; sys.stdout.write('0123456789abcdef' * 500000)")
    assert done.returncode == 0 and done.stdout == b"0123456789abcdef" * 500000, (done.returncode, len(done.stdout))


def test_run_to_a_slow_reader_loses_nothing():
    with fake_launcher() as launcher:
        p = subprocess.Popen([MCP_EXEC, "run", "--launcher-socket", launcher, "-"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=environment())
        p.stdin.write(b"import sys; sys.stdout.write('x' * 3000000)")
        p.stdin.close()
        time.sleep(1)
        assert len(p.stdout.read()) == 3000000 and p.wait(10) == 0
        p.stdout.close()


def test_run_status_of_a_signal():
    done = _run_program("import os; os.kill(os.getpid(), 11)")
    assert done.returncode == 139 and b"SIGSEGV" in done.stderr, done


def test_run_says_when_it_gets_less_time_than_it_asked_for():
    done = _run_program("print(1)", "--timeout", "5000")
    assert (done.returncode, done.stdout) == (0, b"1\n"), done
    assert done.stderr == (b"mcp-exec: The time limit is 300 s, the most that is allowed here (MaxTimeoutSec=), "
                           b"and not 5000 s.\n"), done
    assert _run_program("print(1)", "--timeout", "300").stderr == b""


def test_run_status_of_a_timeout():
    done = _run_program("import time; print('before', flush=True); time.sleep(60)", "--timeout", "1")
    assert done.returncode == 124 and done.stdout == b"before\n" and b"mcp-exec:" in done.stderr, done


def test_run_status_when_out_of_memory():
    done = _run_program("print(1)", options=["oom"])
    assert done.returncode == 137 and b"memory" in done.stderr, done


def test_run_status_when_the_sandbox_is_refused():
    done = _run_program("print(1)", options=["refuse"])
    assert done.returncode == 125 and done.stdout == b"" and done.stderr.startswith(b"mcp-exec:"), done


def test_run_status_without_a_launcher():
    done = run("run", "--launcher-socket", "/nonexistent/launcher.sock", "-", input=b"print(1)")
    assert done.returncode == 125 and b"/nonexistent/launcher.sock" in done.stderr, done


def test_run_passes_standard_input():
    done = _run_program("import sys; print(sys.stdin.read().upper())", input="grüße".encode())
    assert done.stdout.decode() == "GRÜSSE\n", done


def test_run_passes_a_file_as_standard_input():
    with harness.directory() as where:
        (where / "in").write_text("abc")
        done = _run_program("print(input())", "--stdin", str(where / "in"), input=b"not this")
    assert done.stdout == b"abc\n", done


def test_run_refuses_input_that_cannot_be_sent():
    for data, word in ((b"a\0b", b"zero byte"), (b"\xff", b"UTF-8"), (b"x" * (12 * 1024 * 1024 + 1), b"12 MiB")):
        done = _run_program("print(1)", input=data)
        assert done.returncode == 125 and word in done.stderr and done.stdout == b"", (word, done)


def test_run_names_the_servers_limit_of_input():
    done = _run_program("print(1)", input=b"x" * (1024 * 1024 + 1))
    assert done.returncode == 125 and b"stdin" in done.stderr and done.stdout == b"", done


def test_run_of_a_missing_file():
    done = run("run", "/nonexistent.py")
    assert done.returncode == 125 and b"/nonexistent.py" in done.stderr, done


def test_run_reads_the_program_from_standard_input():
    with fake_launcher() as launcher:
        done = run("run", "--launcher-socket", launcher, "-", input=b"print(6 * 7)")
    assert (done.stdout, done.returncode) == (b"42\n", 0), done


def test_interrupt_ends_run_and_program():
    with fake_launcher() as launcher, harness.directory() as where:
        mark = where / "alive"
        p = subprocess.Popen([MCP_EXEC, "run", "--launcher-socket", launcher, "-"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=environment())
        p.stdin.write(f"import time\nprint('up', flush=True)\ntime.sleep(2)\nopen({str(mark)!r}, 'w')".encode())
        p.stdin.close()
        assert p.stdout.readline() == b"up\n"
        p.send_signal(signal.SIGINT)
        assert p.wait(2) == 130
        p.stdout.close()
        time.sleep(2.5)
        assert not mark.exists()


def test_closed_output_ends_run():
    with fake_launcher() as launcher:
        p = subprocess.Popen([MCP_EXEC, "run", "--launcher-socket", launcher, "-"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=environment())
        p.stdin.write(b"import time\nprint('up', flush=True)\ntime.sleep(60)")
        p.stdin.close()
        assert p.stdout.readline() == b"up\n"
        p.stdout.close()
        assert p.wait(5) == 128 + signal.SIGPIPE


def test_output_that_cannot_be_written_is_told_and_ends_the_run():
    """The status was that of SIGPIPE, which nobody had sent, and nothing was said."""
    with fake_launcher() as launcher, open("/dev/full", "wb") as full:
        done = subprocess.run([MCP_EXEC, "run", "--launcher-socket", launcher, "-"], stdout=full, stderr=subprocess.PIPE,
                              input=b"import time\nprint('up', flush=True)\ntime.sleep(60)", env=environment(), timeout=20)
        assert done.returncode == 125, done
        assert done.stderr == (b"mcp-exec: Cannot write to standard output, so the program was ended: No space left on device\n"), done


def test_closed_socket_for_output_ends_run():
    with fake_launcher() as launcher:
        ours, theirs = socket.socketpair()
        with ours, theirs, subprocess.Popen([MCP_EXEC, "run", "--launcher-socket", launcher, "-"], stdin=subprocess.PIPE,
                                            stdout=theirs, env=environment()) as p:
            theirs.close()
            p.stdin.write(b"import time\nprint('up', flush=True)\ntime.sleep(60)")
            p.stdin.close()
            assert ours.recv(3) == b"up\n"
            ours.close()
            assert p.wait(10) == 128 + signal.SIGPIPE


def test_run_uses_the_system_service():
    def answer(line):
        message = json.loads(line)
        if message.get("method") == "ping":
            return harness.pong(line)
        if message.get("method") != "tools/call":
            return b""
        assert message["params"]["_meta"] == {"mcp-exec/output": True}
        assert message["params"]["arguments"] == {"code": "x", "timeout_s": 9}
        output = {"requestId": message["id"], "stream": 1, "data": "aGVsbG8="}
        result = {"content": [], "structuredContent": {"status": "error", "exit_code": 3, "hints": ["a hint"]}}
        return b"".join(json.dumps(m).encode() + b"\n" for m in (
            {"jsonrpc": "2.0", "method": "notifications/mcp-exec/output", "params": output},
            {"jsonrpc": "2.0", "id": message["id"], "result": result}))
    with harness.FakeService(answer) as service:
        done = run("run", "--socket", service.path, "--timeout", "9", "-", input=b"x")
    assert (done.stdout, done.stderr, done.returncode) == (b"hello", b"mcp-exec: a hint\n", 3), done


def test_run_survives_a_service_that_talks_nonsense():
    for nonsense in (b"no json\n", b"{}\n[]\n", None,
                     b'{"method":"notifications/mcp-exec/output","params":{"stream":1,"data":"*"}}\n',
                     b'{"method":"notifications/mcp-exec/output","params":{"stream":7,"data":"aGVsbG8="}}\n',
                     b'{"id":2,"result":{"isError":true}}\n', b'{"id":2,"error":5}\n'):
        def answer(line, nonsense=nonsense):
            return harness.pong(line) if b"ping" in line else nonsense if b"tools/call" in line else b""
        with harness.FakeService(answer) as service:
            p = subprocess.Popen([MCP_EXEC, "run", "--socket", service.path, "-"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            p.stdin.write(b"x")
            p.stdin.close()
            if nonsense == b"{}\n[]\n":  # nothing to react to: it waits, until told to stop
                time.sleep(0.5)
                assert p.poll() is None
                p.terminate()
                assert p.wait(5) == 143
            else:
                assert p.wait(5) == 125, (nonsense, p.returncode)
                assert p.stderr.read().startswith(b"mcp-exec:"), nonsense
            p.stdout.close()
            p.stderr.close()


def test_check_names_a_remedy_for_each_failure():
    done = run("check", "--socket", "/nonexistent.sock", "--launcher-socket", "/nonexistent.sock")
    lines = done.stdout.decode().splitlines()
    assert any(line.startswith("ok    ") for line in lines), lines
    assert done.returncode == (1 if any(line.startswith("FAIL") for line in lines) else 0), done
    for line, following in zip(lines, lines[1:] + [""]):
        if line.startswith(("FAIL", "warn")):
            assert following.strip().startswith("->"), (line, following)


def test_check_as_json_says_the_same():
    arguments = ("--socket", "/nonexistent.sock", "--launcher-socket", "/nonexistent.sock")
    plain, structured = run("check", *arguments), run("check", "--json", *arguments)
    items = json.loads(structured.stdout)
    assert structured.returncode == plain.returncode
    verdicts = [line.split()[0].lower() for line in plain.stdout.decode().splitlines() if not line.startswith(" ")]
    assert [i["verdict"] for i in items] == verdicts
    assert all(set(i) == {"name", "verdict", "detail", "remedy"} for i in items)


def test_what_cannot_be_printed_is_no_success():
    """A list on a full disk was empty, and the command had succeeded."""
    with open("/dev/full", "wb") as full, harness.directory() as where:
        (where / "tokens").write_text("token ci sha256:" + "0" * 64 + "\n")
        for command in (["--help"], ["--version"], ["run", "--help"], ["check"], ["token", "list", "--file", str(where / "tokens")]):
            done = subprocess.run([MCP_EXEC, *command], stdout=full, stderr=subprocess.PIPE, env=environment())
            assert done.returncode == 1, (command, done)
            assert done.stderr.decode().count("No space left on device") == 1, (command, done)


def test_check_with_a_mistake_in_the_configuration_names_it_first_and_goes_on():
    """Nothing but the mistake was told, and nothing else looked at."""
    arguments = ("check", "--json", "--socket", "/nonexistent.sock", "--launcher-socket", "/nonexistent.sock")
    good, bad = run(*arguments), run(*arguments, env={"MCP_EXEC_TRANSPORT": "pigeon"})
    names = [item["name"] for item in json.loads(good.stdout)]
    items = json.loads(bad.stdout)
    assert items[0] == {
        "name": "settings", "verdict": "fail", "remedy": "Correct this variable, or unset it.",
        "detail": "MCP_EXEC_TRANSPORT: must be stdio, http or sse (the system service does not read this variable; a server that "
                  "does runs no program)"}, items
    assert bad.returncode == 1 and "settings" not in names, (bad, names)
    # Only what needs the settings is left out.
    found = [item["name"] for item in items[1:]]
    assert {"systemd", "cgroups", "namespaces", "seccomp", "packages"} <= set(found), found
    assert found == [name for name in names if name in found], (found, names)


if __name__ == "__main__":
    harness.main()
