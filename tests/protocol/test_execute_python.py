# SPDX-License-Identifier: MIT
"""execute_python, and exec for programs that name packages: from the call to the answer."""

import json
import os
import pathlib
import platform
import pty
import re
import subprocess

import harness
from packages import machine, say_version, sections

BLOCK = '# /// script\n# dependencies = ["demo"]\n# ///\n'
WHERE = "import sys; print(sys.executable)"
STUB = str(pathlib.Path(__file__).resolve().parents[2] / "src/runner/prepare/stubs/stub")


def test_the_predecessors_schema_and_text():
    with machine() as m, m.server() as s:
        schema = s.tools["execute_python"]["inputSchema"]
        assert schema["required"] == ["script"], schema
        assert {name: p["type"] for name, p in schema["properties"].items()} == {
            "script": "string", "dependencies": "array", "timeout_seconds": "integer", "files": "array",
            "background": "boolean"}, schema
        text = s.text("execute_python", script="import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)")
        assert re.fullmatch(r"--- stdout ---\nout\n\n--- stderr ---\nerr\n\n--- exit_code: 3 ---\n"
                            r"--- duration_ms: \d+ ---\n--- status: error ---\n--- message ---\n.*", text, re.DOTALL), text
        text = s.text("execute_python", script="while True: pass", timeout_seconds=1)
        assert re.match(r"--- exit_code: -1 ---\n--- duration_ms: \d+ ---\n--- timed_out: true ---\n", text), text


def test_a_script_without_packages_prepares_nothing():
    with machine() as m, m.server() as s:
        for arguments in ({}, {"dependencies": []}, {"dependencies": None}):
            assert sections(s.text("execute_python", script=WHERE, **arguments))["stdout"] == f"{harness.PYTHON}\n\n"
        assert m.set_names() == []


def test_a_list_makes_a_set_and_the_next_script_finds_it():
    with machine() as m, m.server() as s:
        found = sections(s.text("execute_python", script=WHERE, dependencies=["demo>=1"]))
        assert (found["stdout"], found["status"]) == ("/env/bin/python3\n\n", "ok"), found
        made = m.set_names()
        assert len(made) == 1 and re.fullmatch("[0-9a-f]{64}", made[0]), made
        assert sections(s.text("execute_python", script="1", dependencies=["Demo >= 1"]))["status"] == "ok"
        assert m.set_names() == made
        assert "1 set is ready" in s.text("check_environment")


def test_exec_and_execute_python_take_a_block_and_line_1_stays_line_1():
    with machine() as m, m.server() as s:
        result = s.tool("exec", code=BLOCK + WHERE + "\n1 / 0")["structuredContent"]
        assert result["stdout"] == "/env/bin/python3\n" and 'main.py", line 5, in' in result["stderr"], result
        found = sections(s.text("execute_python", script=BLOCK + WHERE, dependencies=["other"]))
        assert found["stdout"] == "/env/bin/python3\n\n", found
        assert len(m.set_names()) == 2  # block and list are one list


def test_an_undeclared_module_is_answered_with_how_to_declare_it():
    with machine() as m, m.server() as s:
        found = sections(s.text("execute_python", script="import sklearn_not"))
        assert found["status"] == "error", found
        assert '"# dependencies = ["sklearn_not"]"' in found["message"], found
        assert "execute_python" in found["message"], found
        # A set has other packages than everybody has, so those are not told.
        found = sections(s.text("execute_python", script=BLOCK + "import nothing_like_it"))
        assert "Installed:" not in found["message"], found


def test_pip_and_uv_inside_say_the_same_as_a_module_that_is_missing():
    done = subprocess.run(["/bin/sh", STUB, "install", "six"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ""), done
    said = " ".join(done.stderr.split())
    missing = "raise ModuleNotFoundError(\"No module named 'uv'\")"
    with machine() as m, m.server() as s:
        message = s.tool("execute_python", script=missing)["structuredContent"]["message"]
        sentence = re.search(r"Programs declare the packages they need: .*? than its module\)\.", message)
        assert sentence and sentence[0] in said, (message, said)
    for options in {"has_sets": False}, {}:
        with machine(*([] if options else ["Offline=yes"]), **options) as m, m.server() as s:
            message = s.tool("execute_python", script=missing)["structuredContent"]["message"]
            assert "Programs declare" not in message and "cannot be installed" in message, message
            reason = re.search("for there is no network in this sandbox", message)
            assert reason and reason[0] in said, (message, said)
            # What the words of pip and uv refer to is said there.
            assert s.error("execute_python", script="1", dependencies=["demo"])
            assert "Installed: " in s.text("check_environment")


def test_what_cannot_be_had_is_an_error_with_its_reason_and_nothing_is_left():
    with machine() as m, m.server() as s:
        assert s.error("execute_python", script="1", dependencies=["unknown"]) == "There is no package unknown."
        assert s.error("exec", code="# /// script\n# dependencies = ['no-room']\n# ///\n") == "The disk is full."
        assert "not what the index says" in s.error("execute_python", script="1", dependencies=["half-made"])
        assert "junk" in s.error("execute_python", script="1", dependencies=["junk!!"])
        harness.wait_until(lambda: m.set_names() == [])


def test_a_warning_is_a_hint_of_the_result():
    with machine() as m, m.server() as s:
        result = s.tool("execute_python", script="print(1)", dependencies=["yanked"])
        assert result["structuredContent"]["hints"] == ["yanked 1.0 was withdrawn by its authors."], result
        assert sections(result["content"][0]["text"])["hints"] == "yanked 1.0 was withdrawn by its authors.\n", result


def test_what_only_looks_like_a_block_is_told_to_who_runs_it():
    with machine() as m, m.server() as s:
        for code, hint in (("#/// script\n# dependencies = ['demo']\n# ///\n", "Line 1 looks like the start of a block but is not: it must "
                            "be exactly '# /// script'. It is taken for a comment."),
                           ("# /// other\n# x\n" + BLOCK, "Line 3 opens no block, for it is inside the one that opens in line 1. Blocks "
                            "are separated by a line that is not a comment.")):
            for _ in range(2):  # also when nobody reads it again
                result = s.tool("exec", code=code + "print(1)")["structuredContent"]
                assert (result["stdout"], result["hints"]) == ("1\n", [hint]), result
        assert s.error("exec", code="# /// script \n# ///\nprint(1)").endswith(
            "\nLine 1 opens no block, for blanks follow '# /// script'. Remove them.")
        assert m.set_names() == []


def test_progress_tells_the_phase_and_a_cancel_ends_the_preparation():
    with machine() as m, m.server() as s:
        ident = s.start("execute_python", {"script": "1", "dependencies": ["slow"]}, progressToken=1)
        harness.wait_until(lambda: any("downloading 1/2 slow" in p for p in s.progress()))
        assert re.fullmatch(r"preparing for \d+ s: downloading 1/2 slow", s.progress()[-1]), s.progress()
        s.send("notifications/cancelled", {"requestId": ident})
        harness.wait_until(lambda: m.set_names() == [])
        assert sections(s.text("execute_python", script="print(2)"))["stdout"] == "2\n\n"


def test_the_sync_limit_counts_for_preparation_too():
    with machine("[Exec]", "SyncLimitSec=300ms") as m, m.server() as s:
        found = sections(s.text("execute_python", script="1", dependencies=["slow"]))
        assert found["status"] == "running", found
        harness.wait_until(lambda: "(downloading 1/2 slow)" in s.tool(
            "get_run", run_id=found["run_id"])["structuredContent"]["message"])
        ended = s.tool("cancel_run", run_id=found["run_id"])["structuredContent"]
        assert ended["status"] == "cancelled", ended
        harness.wait_until(lambda: m.set_names() == [])


def test_background_and_get_run():
    with machine() as m, m.server() as s:
        found = sections(s.text("execute_python", script=WHERE, dependencies=["slowish"], background=True))
        assert found["status"] == "running", found
        result = s.tool("get_run", run_id=found["run_id"], wait_s=40)
        ended = result["structuredContent"]
        assert (ended["status"], ended["stdout"]) == ("ok", "/env/bin/python3\n"), ended
        # The text is that of the tool which began the run.
        for text in result["content"][0]["text"], s.text("get_run", run_id=found["run_id"], offset=0):
            found = sections(text)
            assert (found["stdout"], found["exit_code"], found["status"]) == ("/env/bin/python3\n\n", "0", "ok"), text
        text = s.text("exec", code="print(1)", background=True)
        assert json.loads(s.text("get_run", run_id=json.loads(text)["run_id"], wait_s=40))["stdout"] == "1\n"


def test_the_scripts_time_is_not_that_of_its_preparation():
    with machine() as m, m.server() as s:
        found = sections(s.text("execute_python", script="print(1)", timeout_seconds=1,
                                dependencies=["slowish", "slowish2"]))
        assert found["status"] == "ok" and "timed_out" not in found, found


def test_many_calls_for_one_set_make_one_set():
    with machine() as m, m.server() as s:
        idents = [s.start("execute_python", {"script": "print(1)", "dependencies": ["slowish"]}) for _ in range(10)]
        for ident in idents:
            assert sections(s.end("execute_python", ident)["content"][0]["text"])["status"] == "ok"
        assert len(m.set_names()) == 1


def test_policy_and_offline():
    with machine("DenyPackages=evil-*", "Offline=yes") as m, m.server() as s:
        assert "evil-thing" in s.error("execute_python", script="1", dependencies=["evil-thing"])
        assert "offline" in s.error("execute_python", script="1", dependencies=["demo"]).lower()
        tool = s.tools["execute_python"]
        assert "fetches nothing" in tool["description"] and tool["annotations"]["openWorldHint"] is False, tool
        # Nothing can be declared, so no message says so.
        assert "dependencies" not in sections(s.text("execute_python", script="import nothing_like_it"))["message"]


def test_the_journal_says_which_policy_refused():
    """And which host it was about, for the administrator alone can allow it."""
    with machine() as m, m.server() as s:
        for name in ("denied", "internal"):
            s.error("execute_python", script="1", dependencies=[name])
    said = s.stderr
    assert "Preparing a set of packages failed (policy): Packages would come from index.example (10.0.0.1), ::1: this machine, or " \
           "its network, and not allowed by InternalHosts=.\n" in said, said
    assert "(policy): Its packages are not allowed here by [Packages] of mcp-exec.conf (AllowPackages=, DenyPackages= and its other settings)." in said, said
    assert "denied" not in said and "The administrator can allow it" not in said, said


def test_what_an_interrupted_preparation_left_goes_with_the_first_run():
    """Whatever it is: nobody has to name a package for that."""
    with machine() as m:
        leaf = m.sets / ("a" * 64 + ".tmp")
        (leaf / ".wheels").mkdir(parents=True)
        (leaf / ".wheels" / "half").write_text("x")
        with m.server() as s:
            assert s.tool("exec", code="print(1)")["structuredContent"]["stdout"] == "1\n"
            harness.wait_until(lambda: m.set_names() == [])


def test_default_requirements_are_the_environment_of_programs_that_name_none():
    with harness.directory() as where:
        (where / "list.txt").write_text("# ours\n demo==1.0  # pinned\n\nother\n")
        with machine(f"DefaultRequirements={where / 'list.txt'}") as m, m.server() as s:
            assert "demo 1.0" in s.text("check_environment")
            assert s.tool("exec", code=WHERE)["structuredContent"]["stdout"] == "/env/bin/python3\n"
            assert sections(s.text("execute_python", script=WHERE))["stdout"] == "/env/bin/python3\n\n"
            assert len(m.set_names()) == 1
        with machine(f"DefaultRequirements={where / 'none.txt'}") as m:
            with m.server() as s:
                assert s.tool("exec", code="print(1)")["structuredContent"]["stdout"] == "1\n"
            assert "DefaultRequirements=" in s.stderr, s.stderr


def test_missing_default_packages_are_not_told_as_importable():
    """What is told is what a run really gets, from the first question on, and why it is not more."""
    with harness.directory() as where:
        (where / "bad.txt").write_text("unknown\n")
        for name, why in (("none.txt", f"{where / 'none.txt'} cannot be read."), ("bad.txt", "unknown")):
            with machine(f"DefaultRequirements={where / name}") as m, m.server() as s:
                if name == "bad.txt":
                    told = s.text("check_environment")
                    assert "Default packages: being prepared, programs wait for them\n" in told or why in told, told
                result = s.tool("exec", code=WHERE)["structuredContent"]
                assert result["stdout"] == f"{harness.PYTHON}\n", result
                assert "were missing in this run." in result["hints"][0] and why in result["hints"][0], result
                answer = s.tool("check_environment")
                text, told = answer["content"][0]["text"], answer["structuredContent"]["packages"]
                assert why in told["default_problem"] and told["default_ready"] is False, told
                assert f"missing, so programs run with what is installed: {told['default_problem']} Administrators" in text, text
                assert "unknown" not in told["installed"], told
                tools = {tool["name"]: tool for tool in s.ask("tools/list", {}, "again")["result"]["tools"]}
                assert "missing at the moment; check_environment says why" in tools["exec"]["description"], tools["exec"]
            with machine() as m, m.server() as plain:
                assert plain.tool("check_environment")["structuredContent"]["packages"]["installed"] == told["installed"]


def test_default_packages_are_told_with_the_versions_that_are_there():
    with harness.directory() as where:
        (where / "list.txt").write_text("demo\n")
        with machine(f"DefaultRequirements={where / 'list.txt'}") as m, m.server() as s:
            assert s.tool("exec", code=WHERE)["structuredContent"]["stdout"] == "/env/bin/python3\n"
            answer = s.tool("check_environment")
            told = answer["structuredContent"]["packages"]
            assert told["installed"] == ["demo 1.0"] and told["default_ready"] is True, told
            assert "\nDefault packages: ready\n" in answer["content"][0]["text"], answer
            tools = {tool["name"]: tool for tool in s.ask("tools/list", {}, "again")["result"]["tools"]}
            assert "Importable: the standard library, demo 1.0." in tools["exec"]["description"], tools["exec"]


def test_why_the_file_of_default_packages_cannot_be_read():
    with harness.directory() as where:
        (where / "list.txt").mkdir()
        with machine(f"DefaultRequirements={where / 'list.txt'}") as m, m.server() as s:
            problem = s.tool("check_environment")["structuredContent"]["packages"]["default_problem"]
            assert problem == f"{where / 'list.txt'} is a directory, and no file.", problem


def test_a_program_that_is_no_uv_is_told():
    with machine() as m, m.server() as s:
        (m.where / "uv").write_text("#!/bin/sh\nexit 1\n")
        told = s.tool("check_environment")["structuredContent"]["packages"]
        assert told["can_be_declared"] is False and "does not work, or is no uv" in told["problem"], told
        say_version(m.where / "uv", "0.14.0")
        told = s.tool("check_environment")["structuredContent"]["packages"]
        assert told["can_be_declared"] is True and told["uv_version"] == "0.14.0", told


def test_the_predecessors_options():
    with machine() as m:
        with m.server("--max-timeout", "77", "--default-timeout", "7", "--max-output-bytes", "2048", "--no-warm-cache",
                      "--sandbox-backend", "docker", "--uv-path", "uv") as s:
            text = s.text("check_environment")
            assert "Default timeout: 7s\nMax timeout: 77s\nMax output: 2048 bytes\n" in text, text
            assert "7, otherwise clamped to 1 to 77" in s.tools["execute_python"]["inputSchema"]["properties"][
                "timeout_seconds"]["description"]
            result = s.tool("execute_python", script="print('x' * 5000)")["structuredContent"]
            assert result["truncated"] and len(result["stdout"]) <= 2100, result
        assert "--sandbox-backend docker: sandboxes are made by systemd" in s.stderr, s.stderr
        with m.server("--sandbox-backend", "native") as s:
            assert "\nSandbox backend: native (systemd" in s.text("check_environment")
        assert "--sandbox-backend" not in s.stderr, s.stderr


def test_options_that_are_refused():
    for arguments, words in ((["--sandbox-backend", "none"], "nothing is ever run without a sandbox"),
                             (["--sandbox-backend", "chroot"], "--sandbox-backend is native"),
                             (["--python-version", "three"], "--python-version is a version such as 3.13"),
                             (["--max-timeout", "x"], "--max-timeout is a whole number"),
                             (["--max-output-bytes", "x"], "--max-output-bytes is a whole number")):
        done = harness.run("stdio", "--no-bridge", *arguments)
        assert (done.returncode, done.stdout) == (2, b"") and words in done.stderr.decode(), done
    done = harness.run("stdio", "--no-bridge", "--max-timeout", "5", "--default-timeout", "6")
    assert done.returncode == 1 and "more than MaxTimeoutSec=" in done.stderr.decode(), done
    for option, value in (("--max-timeout", "0s"), ("--default-timeout", "0s"), ("--max-output-bytes", "0")):
        done = harness.run("stdio", "--no-bridge", option, "0")
        assert done.returncode == 1 and f"{option}: {value} is out of range" in done.stderr.decode(), done
    # The same range as the setting's.
    done = harness.run("stdio", "--no-bridge", "--max-output-bytes", "1")
    assert (done.returncode, done.stdout) == (0, b""), done


def test_a_python_version_is_that_of_every_program():
    version = "{0.major}.{0.minor}".format(__import__("sys").version_info)
    with machine() as m:
        with m.server("--python-version", version) as s:
            assert s.text("check_environment").startswith(f"Python version: {platform.python_version()} ({harness.PYTHON})\n")
            assert sections(s.text("execute_python", script="print(1)"))["stdout"] == "1\n\n"
        with m.server("--python-version", "3.5") as s:
            why = ("No interpreter fits: this server was started with --python-version 3.5; installed: "
                   f"{platform.python_version()}. Start the server without that option, or install that version and name "
                   "it in Python= or ExtraPythons=.")
            for tool, name in (("execute_python", "script"), ("exec", "code")):
                assert s.error(tool, **{name: "print(1)"}) == "The script was not run.\n" + why
            assert s.text("validate_script", script="print(1)") == "INVALID: " + why
            answer = s.tool("check_environment")
            assert answer["content"][0]["text"].startswith(
                "Python version: 3.5: not installed, so no program runs; --python-version asks for it. Start the server without "
                "that option, or install it and name it in Python= or ExtraPythons= of mcp-exec.conf\n"), answer
            assert answer["structuredContent"]["python_problem"].startswith("not installed, so no program runs; "), answer


def _env(path, *arguments):
    return harness.run("env", "--socket", path, *arguments, timeout=60)


def test_env_prepares_lists_and_removes():
    if os.geteuid() != 0:
        raise harness.Skip("only root sees and removes sets")
    with machine() as m, m.serve() as service:
        (m.where / "list.txt").write_text("demo>=1 # a comment\n\n# another\n")
        (m.where / "script.py").write_text(BLOCK.replace("demo", "other") + "raise SystemExit('it was run')\n")
        done = _env(service, "prepare", str(m.where / "list.txt"), str(m.where / "script.py"))
        assert done.returncode == 0 and b"it was run" not in done.stderr, done
        assert len(m.set_names()) == 2

        done = _env(service, "list")
        lines = done.stdout.decode().splitlines()
        assert done.returncode == 0 and lines[0].split() == ["NAME", "PYTHON", "SIZE", "LAST", "USE", "RUNS", "ASKED",
                                                             "FOR"], done
        assert sorted(line.split()[0] for line in lines[1:]) == [name[:16] for name in m.set_names()], done
        assert sorted(line.split()[-1] for line in lines[1:]) == ["demo>=1", "other"], done

        name = m.set_names()[0]
        done = _env(service, "remove", name[:8])
        assert done.returncode == 0, done
        assert name not in m.set_names()
        done = _env(service, "remove", name)
        assert done.returncode == 1 and b"there is no such set" in done.stderr, done

        (m.where / "bad.txt").write_text("unknown\n")
        done = _env(service, "prepare", str(m.where / "bad.txt"), str(m.where / "absent.txt"))
        assert done.returncode == 1 and b"bad.txt: There is no package unknown." in done.stderr, done
        assert b"absent.txt" in done.stderr, done
        (m.where / "bad.txt").write_text("unsolvable\n")
        done = _env(service, "prepare", str(m.where / "bad.txt"))
        assert b"bad.txt: Thus the list's requirements have no solution, and the list not either." in done.stderr, done
        (m.where / "bad.py").write_text('# /// script\n# dependencies = ["b=1"]\n# ///\n')
        done = _env(service, "prepare", str(m.where / "bad.py"))
        assert done.returncode == 1 and (b"bad.py: Nothing was prepared, for its packages cannot be had as it names them.\n"
                                         in done.stderr) and b"bad.py: Line 2: The dependency 'b=1'" in done.stderr, done
        os.mkfifo(m.where / "fifo")
        done = _env(service, "prepare", str(m.where / "fifo"))
        assert done.returncode == 1 and done.stderr.endswith(b"fifo is no text file of packages\n"), done
        (m.where / "empty.txt").write_text("# nothing\n")
        done = _env(service, "prepare", str(m.where / "empty.txt"))
        assert done.returncode == 1 and b"names no packages" in done.stderr, done


def test_a_list_that_is_at_fault_is_told_by_its_lines():
    with harness.directory() as where:
        bad = where / "bad.txt"
        bad.write_text("# ours\n\n  demo==1.0  # pinned\nother=2\n\n-r more.txt\n")
        first = "Line 4 of the list: 'other=2' is not a requirement: a version is compared with '==', not '='."
        second = "Line 6 of the list: '-r more.txt' is an option of a package client;"
        with machine(f"DefaultRequirements={bad}") as m:
            with m.server() as s:
                hint = s.tool("exec", code="print(1)")["structuredContent"]["hints"][0]
                assert hint.startswith("The packages that this server offers to all programs were missing in this run. "
                                       + first) and " " + second in hint, hint
                problem = s.tool("check_environment")["structuredContent"]["packages"]["default_problem"]
                assert problem.startswith(first), problem
            assert f"The packages of DefaultRequirements= cannot be had: {first}" in s.stderr, s.stderr
        if os.geteuid() != 0:
            return  # the service admits root only
        with machine() as m, m.serve() as service:
            done = _env(service, "prepare", str(bad))
            lines = done.stderr.decode().splitlines()
            assert done.returncode == 1 and len(lines) == 2, done
            assert f"{bad}: {first}" in lines[0] and f"{bad}: {second}" in lines[1], done
            assert "dependencies[" not in done.stderr.decode() and "was not run" not in done.stderr.decode(), done


def test_a_preparation_is_recorded_as_one():
    with harness.directory() as where, machine() as m:
        (where / "list.txt").write_text("demo\n")
        with m.server("--verbose") as s:
            result = s.ask("tools/call", {"name": "mcp-exec.prepare", "arguments": {
                "script": "# nothing", "requirements": ["demo"], "lines": [1]}}, "prepare")["result"]
            assert result["structuredContent"]["status"] == "ok", result
            for arguments, said in (({"requirements": ["demo"], "lines": [1, 2]}, "lines must have an element for each of "
                                     "requirements"), ({"requirements": ["demo"], "lines": [0]}, "lines must be numbers from 1 on")):
                result = s.ask("tools/call", {"name": "mcp-exec.prepare", "arguments": {"script": "#", **arguments}}, said)
                assert result["result"]["isError"] and result["result"]["content"][0]["text"] == said, result
            assert "mcp-exec.prepare" not in s.tools
        assert len(re.findall(r"Run [0-9a-f]+ of mcp-exec\.prepare for ", s.stderr)) == 1, s.stderr


def test_run_tells_a_person_what_it_waits_for():
    if os.geteuid() != 0:
        raise harness.Skip("the service admits root only")
    with machine() as m, m.serve() as service:
        (m.where / "script.py").write_text('# /// script\n# dependencies = ["slow"]\n# ///\n')
        ours, theirs = pty.openpty()
        command = [harness.MCP_EXEC, "run", "--socket", service, str(m.where / "script.py")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                                   env=harness.environment())
        os.close(theirs)
        seen = b""
        while b"slow\r\n" not in seen:
            seen += os.read(ours, 4096)
        assert re.search(rb"mcp-exec: preparing for \d+ s: downloading 1/2 slow\r\n", seen), seen
        process.terminate()
        assert process.communicate(timeout=20)[0] == b""
        os.close(ours)


def test_env_says_what_is_wrong_with_its_command_line():
    for arguments, words in (((), b"say list, prepare or remove"), (("list", "x"), b"unexpected argument"),
                             (("prepare",), b"needs a file"), (("remove", "abc"), b"is not the name of a set"),
                             (("remove", "../../x"), b"is not the name of a set"), (("bake",), b"unknown command"),
                             (("--json", "remove", "abcd"), b"--json belongs to list")):
        done = harness.run("env", *arguments)
        assert done.returncode == 2 and words in done.stderr, done




if __name__ == "__main__":
    harness.main()
