# SPDX-License-Identifier: MIT
"""Scripts with packages, from the call to the answer: a real uv and real units, and an index on loopback."""

import json
import os
import pathlib
import pwd

from births import Births
from lib import (Client, StdioClient, also_vm, failed_units, journal, journal_cursor, minimal_environment, needs, one_release, sh,
                 text_of, timeout, wait_until)
from packages import (FETCHES, UV, Preparations, complete, names, nothing_is_left, output, packages, refusal,
                      run, start, told, units_that)

BLOCK = '# /// script\n# dependencies = ["mx-demo"]\n# ///\n'

LOOK = """
import json, os, socket, subprocess, sys
import mx_demo, mx_base
def attempt(call, *arguments):
    try:
        call(*arguments)
        return "done"
    except OSError as error:
        return type(error).__name__
def said(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip(), done.returncode
def said_no(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return done.stdout + done.stderr.splitlines()[0].split(": ")[-1], done.returncode
print(json.dumps({
    "executable": [sys.executable, sys.prefix, sys.argv],
    "network": [attempt(socket.create_connection, ("127.0.0.1", PORT), 5), os.stat("/proc/self/ns/net").st_ino],
    "write": [attempt(open, path, "w") for path in ("/env/x", mx_demo.__file__, "/env/mcp-exec-set.json")],
    "unlink": attempt(os.unlink, mx_demo.__file__),
    "compiled": os.path.exists(mx_demo.__cached__),
    "script": said("mx-demo"),
    "child": said(sys.executable, "-c", "import mx_base; print(mx_base.x)"),
    "python3": said("python3", "-c", "import sys; print(sys.prefix)"),
    "installers": {" ".join(command[:2]): said_no(*command) for command in (
        ("pip", "install", "six"), ("pip3", "install", "six"), ("uv", "pip", "install", "six"), ("uv", "run", "main.py"),
        ("uvx", "ruff"), ("python3", "-m", "pip", "install", "six"))},
    "sets": attempt(os.listdir, "/var/lib/mcp-exec/sets"),
}))
"""


def look(client, port):
    return json.loads(output(client, LOOK.replace("PORT", str(port)), "mx-demo"))


def expected(seen):
    assert seen["executable"] == ["/env/bin/python3", "/env", ["main.py"]], seen
    assert seen["network"][0] in ("PermissionError", "OSError"), seen
    assert seen["network"][1] != os.stat("/proc/self/ns/net").st_ino, seen
    assert seen["write"] == ["OSError", "OSError", "OSError"] and seen["unlink"] == "OSError", seen
    assert seen["compiled"] is True, seen
    assert seen["script"] == ["demo 2.0", 0] and seen["child"] == ["1", 0] and seen["python3"] == ["/env", 0], seen
    stub = ["Packages cannot be installed from inside a run, for there is no network in this sandbox.", 1]
    assert seen["installers"] == {**dict.fromkeys(("pip install", "pip3 install", "uv pip", "uv run", "uvx ruff"), stub),
                                  "python3 -m": ["No module named pip", 1]}, seen


@timeout(180)
@also_vm        # the limits of tasks and memory that uv lives with are only there
def test_a_script_has_its_packages_and_no_network():
    with packages() as index, Client() as client:
        cursor = journal_cursor()
        seen = look(client, index.port)
        expected(seen)
        record = wait_until(lambda: journal(after=cursor, MCP_EXEC_TOOL="execute_python"), 20)[0]
        assert int(record["MCP_EXEC_PREPARATION_USEC"]) > 0, record
        n = len(index.requests)
        assert n > 0 and len(complete()) == 1, (index.requests, names())
        # The second time nothing is asked again and nothing but the run itself is started.
        with Births() as births:
            expected(look(client, index.port))
            assert len(births.names()) == 1, births.names()
        assert len(index.requests) == n, index.requests
        # exec takes the block; two spellings of the same are the same.
        assert output(client, BLOCK + "import mx_demo; mx_demo.main()", tool="exec") == "demo 2.0\n"
        assert output(client, "import mx_demo; mx_demo.main()", "MX_demo >= 0, < 9") == "demo 2.0\n"
        assert len(complete()) == 1, names()
        assert output(client, "import mx_demo; mx_demo.main()", "mx-demo==1.0") == "demo 1.0\n"
        assert len(complete()) == 2, names()
        result = run(client, "import mx_base", "mx-demo==1.0")
        assert result["status"] == "error" and "mx_base" in result["message"], result
        assert "dependencies" in result["message"], result
        nothing_is_left()
    assert failed_units() == []


@timeout(180)
def test_multiprocessing_of_a_set():
    script = ("import multiprocessing, mx_demo\n"
              "def f(x):\n    import mx_base\n    return mx_base.x + x\n"
              "if __name__ == '__main__':\n"
              "    for method in 'fork', 'spawn':\n"
              "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
              "            print(pool.map(f, [1, 2]))\n")
    with packages(), Client() as client:
        assert output(client, script, "mx-demo") == "[2, 3]\n[2, 3]\n"


@timeout(180)
def test_ten_calls_for_one_set_prepare_it_once():
    with packages() as index, Client() as client:
        preparations = Preparations()
        script = "import mx_demo; mx_demo.main()"
        replies = [start(client, f"{script}\nprint({i})", "mx-demo") for i in range(10)]
        for i, reply in enumerate(replies):
            assert told(reply.result(120))["stdout"] == f"demo 2.0\n{i}\n"
        assert (preparations.count(), len(complete())) == (1, 1), names()
        assert index.requests.count("/simple/mx-demo/") == 1, index.requests


@timeout(180)
def test_background_progress_and_the_time_of_the_script():
    with packages() as index, Client() as client:
        result = run(client, "print(1)", "mx-slow", background=True)
        assert result["status"] == "running", result
        wait_until(lambda: "(downloading 1/1 mx-slow)" in client.call("get_run", {"run_id": result["run_id"]})[
            "structuredContent"]["message"], 60, "get_run tells the phase")
        reply = start(client, "print(2)", "mx-slow", timeout_seconds=1)
        wait_until(lambda: [m for m in client.notifications("notifications/progress")
                            if m["params"].get("message", "").endswith(": downloading 1/1 mx-slow")], 30, "progress tells it too")
        ended = client.call("cancel_run", {"run_id": result["run_id"]})["structuredContent"]
        assert ended["status"] == "cancelled", ended
        # Whoever else waits goes on waiting, and the script's second starts when its packages are there.
        assert len(units_that(FETCHES)) == 1 and not reply.done.is_set(), reply.message
        client.cancel(reply.ident)
        nothing_is_left()
        del index.behaviours["mx_slow-1.0-py3-none-any.whl"]
        assert output(client, "print(3)", "mx-slow", timeout_seconds=1) == "3\n"


@timeout(120)
def test_validate_and_check_environment_tell_of_packages():
    with packages("DenyPackages=evil-*"), Client() as client:
        text = text_of(client.call("validate_script", {"script": BLOCK + "print(1)"}))
        assert text.startswith("VALID") and "mx-demo" in text, text
        for script, reason in (("# /// script\n# dependencies = [\n# ///\n", "TOML"), ("def (", "line 1"),
                               ('# /// script\n# dependencies = ["evil-x"]\n# ///\n', "evil-x"),
                               ('# /// script\n# dependencies = ["--index-url http://x"]\n# ///\n', "--index-url"),
                               ('# /// script\n# dependencies = ["a"]\n', "is not closed")):
            text = text_of(client.call("validate_script", {"script": script}))
            assert text.startswith("INVALID"), (script, text)
            assert reason in text, (script, text)
        text = text_of(client.call("check_environment", {}))
        # The versions that the programs themselves tell.
        version = sh(["/usr/bin/python3", "-c", "import platform; print(platform.python_version())"]).stdout.strip()
        uv = sh([str(UV), "--version"]).stdout.split()[1]
        assert text.startswith(f"Python version: {version} (/usr/bin/python3)\nuv: {uv} ({UV})\n"), text
        with Births() as births:
            assert text_of(client.call("check_environment", {})) == text
            assert births.names() == [], births.names()
        assert names() == [], names()


@timeout(180)
def test_a_default_environment():
    requirements = pathlib.Path("/etc/mcp-exec/requirements-test.txt")
    requirements.write_text("# ours\nmx-demo==1.0\n")
    try:
        with packages(f"DefaultRequirements={requirements}"), Client() as client:
            assert output(client, "import mx_demo; mx_demo.main()", tool="exec", timeout_s=60) == "demo 1.0\n"
            assert output(client, "import sys; print(sys.prefix)") == "/env\n"
            assert "mx-demo 1.0" in text_of(client.call("check_environment", {}))
            assert output(client, BLOCK + "import mx_demo; mx_demo.main()", tool="exec") == "demo 2.0\n"
    finally:
        requirements.unlink()


@timeout(180)
def test_env_prepares_lists_and_removes():
    script = pathlib.Path("/tmp/env.py")
    script.write_text(BLOCK + "open('/tmp/ran', 'w')\n")
    listed = pathlib.Path("/tmp/env.txt")
    listed.write_text("mx-base # small\n")
    try:
        with packages() as index:
            sh(["mcp-exec", "env", "prepare", str(script), str(listed)], timeout=120)
            sets = json.loads(sh(["mcp-exec", "env", "list", "--json"]).stdout)
            assert sorted(s["packages"] for s in sets) == [["mx-base 1.0"], ["mx-base 1.0", "mx-demo 2.0"]], sets
            n = len(index.requests)
            with Client() as client:
                assert output(client, BLOCK + "import mx_demo; mx_demo.main()") == "demo 2.0\n"
            assert len(index.requests) == n
            others = sh(["mcp-exec", "env", "list"], user="alice", check=False)
            assert not [s for s in sets if s["name"][:12] in others.stdout], others.stdout
            assert sh(["mcp-exec", "env", "remove", "f" * 64], check=False).returncode == 1
            for each in sets:
                sh(["mcp-exec", "env", "remove", each["name"][:12]])
            wait_until(lambda: names() == [], 30, "the sets are removed")
    finally:
        script.unlink()
        listed.unlink()


@timeout(180)
def test_offline_uses_what_is_there():
    with packages() as index, Client() as client:
        output(client, "1", "mx-demo")
        n = len(index.requests)
        dropin = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/95-offline.conf")
        dropin.write_text("[Packages]\nOffline=yes\n")
        try:
            sh(["systemctl", "restart", "mcp-exec.service"])
            with Client() as other:
                assert output(other, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
                text = refusal(other, "mx-base")
                assert "have not been prepared" in text and "Offline=yes" in text, text
                text = text_of(other.call("validate_script", {"script": "1", "dependencies": ["mx-demo"]}))
                assert text.startswith("VALID") and "environment: ready" in text, text
                text = text_of(other.call("validate_script", {"script": "1", "dependencies": ["mx-base"]}))
                assert text.startswith("INVALID: These packages have not been prepared"), text
        finally:
            dropin.unlink()
        assert len(index.requests) == n, index.requests


@timeout(180)
def test_a_set_is_evicted_only_when_nobody_uses_it():
    with packages("SetsMax=2"), Client() as client:
        user = run(client, "import importlib, time, mx_demo\nwhile True:\n    importlib.reload(mx_demo).main()\n"
                           "    time.sleep(0.5)\n", "mx-demo==1.0", background=True, timeout_seconds=120)
        (first,) = wait_until(complete, 60, "the first set")
        for other in "mx-base", "mx-data", "mx-modes":
            output(client, "1", other)
            assert first in names(), names()
        wait_until(lambda: len(names()) <= 2, 30, "no more sets than there may be")
        assert first in names(), names()
        # Had a file been missing, the program would have ended by itself.
        ended = client.call("cancel_run", {"run_id": user["run_id"]})["structuredContent"]
        assert (ended["status"], ended["stderr"]) == ("cancelled", ""), ended
        assert ended["stdout"].startswith("demo 1.0\n"), ended
        nothing_is_left()


@timeout(180)
@one_release
def test_eviction_under_load_fails_nobody():
    modules = {"mx-demo==1.0": "mx_demo", "mx-base": "mx_base", "mx-modes": "mx_world", "mx-bad-sources": "mx_bad.good"}
    with packages("SetsMax=1", "PrepareParallel=4"), Client() as client:
        for _ in range(2):
            replies = [start(client, f"import time\ntime.sleep(0.3)\nimport {module}\nprint('fine')", each)
                       for each, module in modules.items() for _ in range(3)]
            for reply in replies:
                result = told(reply.result(120))
                assert (result["status"], result["stdout"], result["stderr"]) == ("ok", "fine\n", ""), result
        wait_until(lambda: len(names()) <= 1, 30, "no more sets than there may be")
        nothing_is_left()


@timeout(240)
@needs("user-manager-257")
def test_a_users_own_manager():
    conf = pathlib.Path(pwd.getpwnam("alice").pw_dir, ".config/mcp-exec/mcp-exec.conf")
    with packages() as index:
        sh(f"mkdir -p {conf.parent} && printf '[Packages]\\nIndexUrl=%s\\n' {index.url} > {conf}", "alice")
        try:
            env = minimal_environment("alice")
            with StdioClient("alice", env=env, arguments=["--no-bridge", "--uv-path", str(UV)]) as client:
                expected(look(client, index.port))
                n = len(index.requests)
                assert output(client, BLOCK + "import mx_demo; mx_demo.main()", tool="exec") == "demo 2.0\n"
                assert len(index.requests) == n and n > 0, index.requests
                assert "knows no such package" in refusal(client, "mx-nonexistent")
            assert names() == [], names()
        finally:
            sh(f"rm -rf {conf.parent} ~/.local/state/mcp-exec", "alice")
