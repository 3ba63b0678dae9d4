# SPDX-License-Identifier: MIT
"""What can go wrong on the way to a script's packages: each its own words, and nothing is left of it."""

import os
import pathlib
import shutil

import wheels
from lib import Client, configured, failed_units, journal, journal_cursor, one_release, processes_with, sh, text_of, timeout
from packages import (FETCHES, SETS, UV, complete, names, nothing_is_left, output, packages, refusal, run,
                      start, told, wait_for_unit)


def test_without_uv_the_remedy_is_told_and_everything_else_works():
    with configured("[Packages]\nUvPath=/nonexistent/uv\n"), Client() as client:
        text = refusal(client, "mx-demo")
        assert "Install uv" in text and "UvPath=" in text, text
        assert output(client, "print(1)") == "1\n"
        text = text_of(client.call("validate_script", {"script": "import json", "dependencies": ["mx-demo"]}))
        assert text.startswith("INVALID: ") and "Install uv" in text and "UvPath=" in text, text
        assert text_of(client.call("validate_script", {"script": "import json"})).startswith("VALID")
        assert "UvPath=" in text_of(client.call("check_environment", {}))
        assert names() == []
    assert failed_units() == []


@timeout(180)
def test_uv_that_is_found_and_does_not_work_is_told_with_what_to_do_until_it_is_repaired():
    """A script was VALID, and its run was told that uv had failed with status 1 and given no reason."""
    broken = pathlib.Path("/usr/local/lib/mx-broken-uv")
    with packages(f"UvPath={broken}") as index, Client() as client:
        index.add(wheels.wheel("mx-demo"))
        try:
            broken.write_text("#!/bin/sh\nexit 1\n")
            broken.chmod(0o755)
            text = refusal(client, "mx-demo")
            assert "uv, which resolves and installs packages, failed with status 1 and gave no reason: the program that is found as " \
                   "uv does not work, or is no uv. The administrator has to install it anew where it is, or to name another one " \
                   "with UvPath=" in text, text
            text = text_of(client.call("validate_script", {"script": "import mx_demo", "dependencies": ["mx-demo"]}))
            assert text.startswith("INVALID: The program that is found as uv does not work, or is no uv. Install uv anew"), text
            shutil.copy(UV, f"{broken}.new")
            os.rename(f"{broken}.new", broken)
            text = text_of(client.call("validate_script", {"script": "import mx_demo", "dependencies": ["mx-demo"]}))
            assert text.startswith("VALID"), text
            assert output(client, "import mx_demo; print(1)", "mx-demo") == "1\n"
        finally:
            broken.unlink()


# What a script names, and words of the answer.
REFUSED = {
    "mx-nonexistent": ("knows no such package", "mx-nonexistent", "Check the spelling"),
    "mx-demo>=3": ("No version fits", "mx-demo"),
    "mx-source-only": ("no ready-made wheel", "not built from source"),
    "mx-other-machine": ("no ready-made wheel",),
    "mx-new-python": ("does not support the script's Python version",),
    "mx-wrong-hash": ("mx_wrong_hash-1.0", "sha256 differs", "Nothing was installed"),
    "mx-needs-url": ("URL",),
    "mx-file-url": ("mx-file-url",),
    "mx-index-401": ("credentials", "administrator"),
    "mx-index-403": ("credentials", "administrator"),
    "mx-index-500": ("500", "again later"),
    "mx-index-503": ("503", "again later"),
    "mx-file-503": ("503",),
    "mx-demo @ https://127.0.0.1:1/mx_demo-1.0-py3-none-any.whl": ("URL",),
    "mx-demo @ git+https://127.0.0.1:1/mx-demo": ("git",),
    "--index-url http://127.0.0.1:1/": ("--index-url",),
    "./mx-demo": ("./mx-demo",),
    "${HOME}": ("${HOME}",),
    "mx-demo\nmx-base": ("newline", ),
}


@timeout(240)
@one_release
def test_each_failure_has_its_own_words():
    with packages("PrepareParallel=4") as index, Client() as client:
        output(client, "1", "mx-base")
        before, cursor = complete(), journal_cursor()
        wrong, todo = [], list(REFUSED)
        while todo:
            some, todo = todo[:12], todo[12:]       # no more than one user may have waiting
            replies = {each: start(client, "open('/tmp/ran', 'w')", each) for each in some}
            for each, reply in replies.items():
                result = reply.result(200)
                text = result["content"][0]["text"]
                if result.get("isError") is not True or not all(word in text for word in REFUSED[each]):
                    wrong.append((each, text))
        assert not wrong, "\n".join(map(str, wrong))
        # These words are of uv and of the index, so they are for who asked; the journal has our own.
        records = [each for each in journal(after=cursor) if "MCP_EXEC_RUN_ID" in each]
        assert "infra_error" in {each["MCP_EXEC_STATUS"] for each in records}, records
        assert all("MCP_EXEC_REASON" in each and each["MESSAGE"].endswith(": " + each["MCP_EXEC_REASON"]) for each in
                   records if each["MCP_EXEC_STATUS"] != "ok"), records
        assert not [each for each in records if "mx-" in each["MESSAGE"] or "127.0.0" in each["MESSAGE"]], records
        text = refusal(client, "mx-demo==1.0", "mx-demo==2.0")
        assert "The requirements contradict each other." in text and "mx-demo==1.0" in text, text
        nothing_is_left()
        assert complete() == before, names()
        # A set that is ready and the server are none the worse for it.
        assert output(client, "import mx_base; print(mx_base.x)", "mx-base") == "1\n"
        result = run(client, "print(1)", "mx-yanked==1.0")
        assert result["stdout"] == "1\n" and any("withdrawn" in hint and "broken" in hint for hint in result["hints"]), result
        assert index.requests
    assert failed_units() == []


@timeout(120)
@one_release
def test_an_index_that_is_down_a_proxy_that_refuses_and_a_policy():
    with packages("PrepareTimeoutSec=30s", index_url="http://127.0.0.1:9/simple/"), Client() as client:
        text = refusal(client, "mx-demo")
        assert "cannot be reached" in text and "127.0.0.1:9" in text, text
    with wheels.Proxy() as proxy, packages(f"Proxy={proxy.url}", index_url="https://packages.invalid/simple/"), \
            Client() as client:
        text = refusal(client, "mx-demo")
        assert "The proxy refuses or does not answer" in text, text
        assert proxy.requests, text
    with packages("AllowPackages=mx-demo", "DenyPackages=mx-base"), Client() as client:
        text = refusal(client, "mx-data")
        assert "mx-data" in text and "allow" in text, text
        # Also when it is another package that wants it.
        text = refusal(client, "mx-demo==2.0")
        assert "mx-base" in text, text
        assert output(client, "import mx_demo; mx_demo.main()", "mx-demo==1.0") == "demo 1.0\n"


@timeout(120)
@one_release
def test_an_index_that_hangs_ends_with_the_time_for_it():
    with packages("PrepareTimeoutSec=10s"), Client() as client:
        for reply in [start(client, "1", each) for each in ("mx-index-hang", "mx-slow")]:
            result = reply.result(60)
            text = result["content"][0]["text"]
            assert result.get("isError") is True and ("within 10 s" in text or "does not answer in time" in text), result
        nothing_is_left()
        assert names() == []


@timeout(120)
def test_credentials_reach_the_index_and_nobody_else():
    word = "mx-secret-word-5f2c"
    netrc = pathlib.Path("/etc/mcp-exec/index-netrc")
    netrc.write_text(f"machine 127.0.0.1 login mx-user password {word}\n")
    netrc.chmod(0o600)
    cursor = journal_cursor()
    marker = "mx-script-word-91ab"
    index = wheels.catalogue(wheels.Index(user="mx-user", password=word))
    try:
        with packages(f"IndexCredentials={netrc}", index=index), Client() as client:
            script = (f"# {marker}\nimport os, mx_demo\nmx_demo.main()\n"
                      "print(os.environ.get('CREDENTIALS_DIRECTORY'), os.path.exists('/run/credentials'))")
            reply = start(client, script, "mx-slow")
            unit = wait_for_unit(FETCHES)
            text = sh(["systemctl", "show", unit]).stdout
            assert word not in text and marker not in text, text
            assert not processes_with(word) and not processes_with(marker)
            client.cancel(reply.ident)
            out = output(client, script, "mx-demo").splitlines()
            assert out[0] == "demo 2.0" and out[1].startswith("None "), out
            assert any(each.startswith("Basic ") for each in index.authorizations), index.authorizations
            nothing_is_left()
            for path in SETS.rglob("*"):
                if path.is_file():
                    assert word.encode() not in path.read_bytes(), path
        records = journal(after=cursor)
        assert records
        for record in records:
            assert word not in str(record) and marker not in str(record), record
        with packages(index=wheels.catalogue(wheels.Index(user="mx-user", password=word))), Client() as client:
            assert "demands credentials" in refusal(client, "mx-demo")
    finally:
        netrc.unlink()


@timeout(120)
def test_a_full_disk_is_an_error_and_not_a_corruption():
    with packages() as index, Client() as client:
        index.add(wheels.wheel("mx-big", "1.0", {"mx_big.bin": os.urandom(6 << 20)}))
        sh(["systemctl", "stop", "mcp-exec.service", "mcp-exec-launcher.service"])
        sh(["mount", "-t", "tmpfs", "-o", "size=5m,mode=0755", "tmpfs", str(SETS)])
        try:
            with Client() as other:
                assert output(other, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
                text = refusal(other, "mx-big")
                assert "disk" in text and "full" in text, text
                nothing_is_left()
                assert output(other, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
                assert len(complete()) == 1, names()
        finally:
            sh(["systemctl", "stop", "mcp-exec.service", "mcp-exec-launcher.service"])
            sh(["umount", str(SETS)])


@timeout(240)
def test_hostile_wheels_are_refused_or_do_no_harm():
    """Each is tried alone below tests/unit/prepare; here many at once, and what they leave on a real system."""
    def digest(name):
        return sh(f"cd {SETS}/{name} && find . -printf '%p %m %U %G %s %T@ %l\\n' | sort && "
                  "find . -type f -print0 | sort -z | xargs -0 sha256sum").stdout

    # But for those that are too large only where less is allowed.
    refused = sorted(wheels.hostile().keys() - {"mx-many-files", "mx-bomb"})
    started = {"mx-pth": ("pth",), "mx-sitecustomize": ("sitecustomize",), "mx-compileall": (), "mx-encodings": ()}
    with packages("PrepareParallel=4") as index, Client() as client:
        output(client, "1", "mx-demo")
        (name,) = complete()
        before = digest(name)
        replies = {each: start(client, "import sys; print(len(sys.argv))", each) for each in started}
        todo, wrong = list(refused), []
        while todo:
            some, todo = todo[:12], todo[12:]       # no more than one user may have waiting
            tried = {each: start(client, "print('ran')", each) for each in some}
            for each, reply in tried.items():
                result = reply.result(200)
                # Whoever finds it, its name is told.
                if result.get("isError") is not True or each not in text_of(result).replace("_", "-"):
                    wrong.append((each, result))
        assert not wrong, "\n".join(map(str, wrong))
        for each, words in started.items():
            result = told(replies[each].result(200))
            # They run in the run's own sandbox, with the run's own rights, and only there.
            assert "uid=0" not in result["stderr"], (each, result)
            for word in words:
                assert f"HOSTILE {word} " in result["stderr"], (each, result)
        nothing_is_left()
        assert len(complete()) == 1 + len(started), names()
        assert digest(name) == before
        odd = sh(f"find {SETS}/*/ \\( -perm /7000 -o -type p -o -type s -o -type b -o -type c -o -perm /022 ! -type l "
                 "-o ! -user mcp-exec-prepare \\)").stdout
        assert odd == "", odd
        links = sh(f"find {SETS}/*/ -type l -printf '%P %l\\n'").stdout.split("\n")
        assert {line.split(" ", 1)[0] for line in links if line} <= {"bin/python", "bin/python3"} | {
            f"bin/python3.{n}" for n in range(11, 16)}, links
        assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
        assert index.requests
    assert failed_units() == []
