# SPDX-License-Identifier: MIT
"""validate_script and check_environment."""

import os
import platform

import harness
from packages import machine, say_version

BLOCK = '# /// script\n# requires-python = ">=3.9"\n# dependencies = ["demo>=1", "Other_Thing"]\n# ///\n'


def _findings(s, **arguments):
    result = s.tool("validate_script", **arguments)
    assert not result.get("isError"), result
    told = result["structuredContent"]
    assert told["valid"] == result["content"][0]["text"].startswith("VALID"), result
    return told["valid"], [(f["severity"], f["kind"], f["line"]) for f in told["findings"]]


def test_a_valid_script():
    with machine() as m, m.server() as s:
        result = s.tool("validate_script", script=BLOCK + "import demo\n", dependencies=["more==2"])
        lines = result["content"][0]["text"].splitlines()
        assert lines[:6] == ["VALID", "requires-python: >=3.9", "dependencies (3):", "  - demo>=1", "  - more==2",
                             "  - other-thing"], lines
        told = result["structuredContent"]
        assert told["dependencies"] == ["demo>=1", "more==2", "other-thing"], told
        assert (told["environment"], told["findings"]) == ("missing", []), told
        assert (told["interpreter"], told["interpreter_version"]) == (harness.PYTHON, platform.python_version()), told
        assert m.set_names() == []

        assert s.text("validate_script", script="print(1)").splitlines()[:2] == ["VALID", "dependencies: none"]


def test_an_environment_is_ready_after_the_first_run():
    with machine() as m, m.server() as s:
        s.text("execute_python", script="1", dependencies=["demo"])
        told = s.tool("validate_script", script="2", dependencies=["demo"])["structuredContent"]
        assert told["environment"] == "ready", told


def test_junk_is_invalid_with_place_and_reason():
    with machine() as m, m.server() as s:
        assert _findings(s, script="x = 1\ny = (\n") == (False, [("error", "syntax", 2)])
        assert _findings(s, script="1", dependencies=["junk!!"]) == (False, [("error", "requirement", 0)])
        assert _findings(s, script="1", dependencies=["--index-url https://x.example"])[0] is False
        assert _findings(s, script="1", dependencies=["${HOME}"])[0] is False
        assert _findings(s, script="# /// script\n# dependencies = [\n# ///\n")[0] is False
        assert _findings(s, script="# /// script\n# dependencies = 'a'\n# ///\n")[0] is False
        valid, findings = _findings(s, script=BLOCK + "\n" + BLOCK)
        assert not valid and ("error", "block", 6) in findings, findings
        valid, findings = _findings(s, script="# /// script\n# dependencies = []\nprint(1)\n")
        assert [f[1] for f in findings] == ["block"], findings
        text = s.text("validate_script", script="x = (", dependencies=["junk!!"])
        assert text.startswith("INVALID: ") and "\nerrors:\n  - " in text and "\n  - line 1" in text, text
        assert m.set_names() == []


def test_nothing_of_the_script_is_run():
    with machine() as m, harness.directory() as where, m.server() as s:
        assert _findings(s, script=f"open({str(where / 'mark')!r}, 'w')\n") == (True, [])
        assert os.listdir(where) == []


def test_line_ends_and_marks_of_other_systems():
    with machine() as m, m.server() as s:
        for script in (BLOCK.replace("\n", "\r\n"), "\ufeff" + BLOCK):
            told = s.tool("validate_script", script=script + "print(1)\n")["structuredContent"]
            assert told["valid"] and told["dependencies"] == ["demo>=1", "other-thing"], told


def test_policy_and_versions_are_told_beforehand():
    with machine("AllowPackages=demo other-*", "DenyPackages=other-bad") as m, m.server() as s:
        assert _findings(s, script=BLOCK) == (True, [])
        assert _findings(s, script="1", dependencies=["other-bad"]) == (False, [("error", "policy", 0)])
        assert _findings(s, script="1", dependencies=["third"]) == (False, [("error", "policy", 0)])
        assert _findings(s, script="1", dependencies=["demo @ https://x.example/demo-1-py3-none-any.whl"])[0] is False
        valid, findings = _findings(s, script='# /// script\n# requires-python = ">=3.99"\n# ///\n')
        assert not valid and ("error", "requires-python") in [f[:2] for f in findings], findings


def test_what_an_offline_server_cannot_fetch_is_no_valid_script():
    with machine("Offline=yes") as m, m.server() as s:
        assert _findings(s, script="1") == (True, [])
        assert _findings(s, script="1", dependencies=["demo"]) == (False, [("error", "environment", 0)])
        text = s.text("validate_script", script="1", dependencies=["demo"])
        assert text.startswith("INVALID: These packages have not been prepared") and "Offline=" in text, text


def test_offline_nothing_is_said_to_be_downloaded():
    """An interpreter was said to be downloaded, beside the error that nothing can be fetched."""
    script = '# /// script\n# requires-python = ">=3.99"\n# ///\n'
    with machine("AllowPythonDownloads=yes") as m, m.server() as s:
        assert _findings(s, script=script) == (True, [("warning", "requires-python", 2)])
    with machine("AllowPythonDownloads=yes", "Offline=yes") as m, m.server() as s:
        assert _findings(s, script=script) == (False, [("error", "environment", 0)])
        text = s.text("validate_script", script=script)
        assert "one is downloaded" not in text and "Offline=" in text, text
    with machine("AllowPythonDownloads=yes", has_sets=False) as m, m.server() as s:
        assert _findings(s, script=script) == (False, [("error", "environment", 0)])


def test_script_whose_packages_need_a_uv_that_does_not_work_is_not_valid():
    """It was VALID, for the first run would make its set; that run failed."""
    def validated(s):
        text = s.text("validate_script", script="1", dependencies=["demo"])
        return text.split(":")[0].split("\n")[0], text

    with machine() as m, m.server() as s:
        (m.where / "uv").write_text("#!/bin/sh\nexit 1\n")
        for _ in range(2):
            verdict, text = validated(s)
            assert verdict == "INVALID" and "The program that is found as uv does not work, or is no uv. Install uv anew" in text, text
        assert _findings(s, script="1") == (True, [])
        say_version(m.where / "uv", "0.14.0")
        for _ in range(2):
            assert validated(s)[0] == "VALID"


def test_what_it_says_of_the_environment():
    with machine() as m, m.server() as s:
        result = s.tool("check_environment")
        names = [line.split(":")[0] for line in result["content"][0]["text"].splitlines()[:9]]
        assert names == ["Python version", "uv", "Platform", "Sandbox backend", "Sandbox status", "Default timeout",
                         "Max timeout", "Max output", "Cache warming"], names
        told = result["structuredContent"]
        assert told["sandbox"]["status"] == "active" and told["sandbox"]["protections"], told
        assert told["packages"]["can_be_declared"] is True, told
        assert (told["packages"]["uv"], told["packages"]["uv_version"]) == (str(m.where / "uv"), "0.13.9"), told
        assert told["python"] == told["interpreters"][0] == f"{platform.python_version()} ({harness.PYTHON})", told
        lines = result["content"][0]["text"].splitlines()
        assert lines[:2] == [f"Python version: {platform.python_version()} ({harness.PYTHON})",
                             f"uv: 0.13.9 ({m.where / 'uv'})"], lines
        assert told["machine"] == platform.machine(), told
        assert told["limits"]["default_timeout_s"] == 30, told


def test_versions_are_asked_for_once_until_the_program_is_another():
    def told(s):
        return s.tool("check_environment")["structuredContent"]["packages"]["uv_version"]

    with machine() as m:
        with m.server() as s:
            asked = m.where / "uv-asked"
            idents = [s.start("check_environment", {}) for _ in range(3)]
            assert {s.end("check_environment", i)["structuredContent"]["packages"]["uv_version"] for i in idents} == {"0.13.9"}
            assert (told(s), told(s), asked.read_text()) == ("0.13.9", "0.13.9", "\n")
            say_version(m.where / "new", "0.14.0rc1")
            (m.where / "new").rename(m.where / "uv")
            assert (told(s), told(s)) == ("0.14.0rc1", "0.14.0rc1")
            # One that does not work is not asked with every call either.
            say_version(m.where / "new", "")
            (m.where / "new").rename(m.where / "uv")
            assert (told(s), told(s), (m.where / "new-asked").read_text()) == ("", "", "\n\n")
        text = s.stderr
        assert "versions.py" not in text, text


def test_without_sets_everything_else_goes_on():
    with machine(has_sets=False) as m, m.server() as s:
        told = s.tool("check_environment")["structuredContent"]["packages"]
        assert told["can_be_declared"] is False and told["problem"] == "This launcher has no sets", told
        assert "This launcher has no sets" in s.error("execute_python", script="1", dependencies=["demo"])
        assert s.tool("execute_python", script="print(1)")["structuredContent"]["stdout"] == "1\n"
        assert _findings(s, script="1", dependencies=["demo"]) == (False, [("error", "environment", 0)])
        told = s.tool("validate_script", script="1", dependencies=["demo"])["structuredContent"]
        assert (told["environment"], told["dependencies"]) == ("missing", ["demo"]), told
        assert told["findings"][0]["message"] == "This launcher has no sets", told
        assert _findings(s, script="1") == (True, [])
        assert "cannot be installed" in s.tool("exec", code="import nothing_like_it")["structuredContent"]["message"]


def test_a_refused_sandbox_is_told():
    with harness.fake_launcher("refuse") as launcher, harness.Server("stdio", "--launcher-socket", launcher) as s:
        s.handshake()
        result = s.ask("tools/call", {"name": "check_environment", "arguments": {}})["result"]
        told = result["structuredContent"]["sandbox"]
        assert told["status"] == "refused" and told["protections"] == [], told
        assert "\nSandbox status: refused, nothing runs: " in result["content"][0]["text"], result
        result = s.ask("tools/call", {"name": "validate_script", "arguments": {"script": "1"}}, 2)["result"]
        assert result["isError"], result


if __name__ == "__main__":
    harness.main()
