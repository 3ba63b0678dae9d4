#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""parse: blocks, requirements and syntax, with what is wrong in which line."""

import os
import platform
import subprocess
import sys
import tomllib

import rig
from rig import contains, equal, run

ME = {"index": 3, "path": rig.PYTHON, "version": ""}
BLOCK = "# /// script\n# dependencies = [{}]\n# ///\n"


MODULE = []


def parse(script="", **order):
    """The answer, made in this process: hundreds of interpreters would take minutes on a busy machine."""
    if not MODULE:
        MODULE.append(rig.load("parse"))
    program = MODULE[0]
    return program.Reader({**program.DEFAULTS, "script": script, "interpreters": [ME], "check_syntax": False, **order}).answer()


def syntax(script, **order):
    return findings(script, check_syntax=True, **order)


def findings(script="", **order):
    return [(f["severity"], f["kind"], f["line"], f["column"]) for f in parse(script, **order)["findings"]]


def messages(script="", **order):
    return " | ".join(f["message"] for f in parse(script, **order)["findings"])


def requirements(*entries, **order):
    answer = parse(dependencies=list(entries), **order)
    equal(answer["findings"], [])
    return answer["requirements"]


def refusal(entry, **order):
    """(kind, message) of the one reason for which a requirement is refused."""
    answer = parse(dependencies=[entry], **order)
    equal(len(answer["findings"]), 1)
    equal((answer["findings"][0]["severity"], answer["requirements"]), ("error", []))
    return answer["findings"][0]["kind"], answer["findings"][0]["message"]


def test_nothing_to_say():
    equal(run("parse", {"script": "print(1)\n", "interpreters": [ME]})[0], {
        "findings": [], "requirements": [], "requires_python": "", "interpreter": 3,
        "interpreter_version": platform.python_version(), "interpreters": [{"index": 3, "version": platform.python_version()}],
        "tool_uv": {}})


def test_a_block():
    answer = parse('#!/usr/bin/env python3\n# /// script\n# requires-python = ">= 3.8,<4"\n# dependencies = [\n'
                   '#   "Foo_Bar[B,a.c]>=2, <3 ; python_version<\'3.99\' and (os_name==\'posix\')",\n#   "zed",\n# ]\n'
                   "#\n# ///\nprint(1)\n", dependencies=["zed", "ABC"])
    equal(answer["findings"], [])
    equal(answer["requirements"], ["abc", 'foo-bar[a-c,b]<3,>=2 ; python_version < "3.99" and os_name == "posix"', "zed"])
    equal(answer["requires_python"], "<4,>=3.8")


def test_other_ends_of_lines_and_a_byte_order_mark_are_accepted():
    for ending in ("\n", "\r\n", "\r"):
        for mark in ("", "\ufeff"):
            equal(parse(mark + BLOCK.format('"a==1"').replace("\n", ending))["requirements"], ["a==1"])


def test_a_block_without_a_last_newline():
    equal(parse("# /// script\n# dependencies = ['x']\n# ///")["requirements"], ["x"])


def test_a_block_of_another_type_is_left_alone():
    equal(parse("# /// other\n# this is = not [TOML\n# /// script\n# ///\n\n" + BLOCK.format('"a"'))["requirements"], ["a"])


def test_a_block_that_another_one_swallows_is_told():
    script = "# /// other\n# x = 1\n" + BLOCK.format('"a"')
    equal((parse(script)["requirements"], findings(script)), ([], [("warning", "block", 3, 1)]))
    contains(messages(script), "Line 3 opens no block, for it is inside the one that opens in line 1. Blocks are separated")
    equal(findings("# /// other\n# script\n# ///\n"), [])


def test_two_blocks():
    equal(findings(BLOCK.format('"a"') + "\n" + BLOCK.format('"b"')), [("error", "block", 5, 1)])
    contains(messages(BLOCK.format('"a"') + "\n" + BLOCK.format('"b"')), "second 'script' block in line 5")


def test_blocks_that_are_not_separated():
    equal(findings(BLOCK.format('"a"') + BLOCK.format('"b"')), [("error", "block", 3, 1)])


def test_an_unclosed_fence():
    script = "import os\n# /// script\n# dependencies = []\nprint(1)\n"
    equal(findings(script), [("error", "block", 2, 1)])
    contains(messages(script), "Line 4 ends it")
    equal(findings("# /// script\n# dependencies = []\n"), [("error", "block", 1, 1)])
    equal(findings("# /// script\n"), [("error", "block", 1, 1)])


def test_fences_with_blanks():
    equal(findings("# /// script  \n# ///\n"), [("error", "block", 1, 13)])
    equal(findings("# /// script\n# x = 1\n# /// \nprint(1)\n"), [("error", "block", 3, 1)])
    equal(findings("# /// script\n# x = 1\n#///\nprint(1)\n"), [("error", "block", 3, 1)])
    equal(findings("\n#/// script\n# ///\n"), [("warning", "block", 2, 1)])
    equal(findings("# /// Script\n"), [("warning", "block", 1, 1)])


def test_a_line_without_blank_ends_the_block():
    equal(findings("# /// script\n#x = 1\n# ///\n"), [("error", "block", 1, 1)])


def test_toml_errors_have_lines_and_columns():
    equal(findings("x = 1\n# /// script\n# dependencies = [\n#   'a' 'b'\n# ]\n# ///\n"), [("error", "toml", 4, 9)])
    equal(findings("# /// script\n# x = \n# ///\n"), [("error", "toml", 2, 7)])
    equal(findings("# /// script\n# x = [1,\n# ///\n"), [("error", "toml", 2, 0)])
    equal(findings("# /// script\n# x = 1\n# x = 2\n# ///\n"), [("error", "toml", 3, 8)])


def test_toml_that_is_meant_to_hurt():
    for text in ("x = " + "[" * 30000, "x = " + "{a=" * 20000, "x = " + "9" * 20000):
        equal([f[:2] for f in findings("# /// script\n# " + text + "\n# ///\n")], [("error", "toml")])
    equal([f[:3] for f in findings("# /// script\n# x = '" + "y" * 70000 + "'\n# ///\n")], [("error", "block", 1)])


def takes_long_keys():
    try:
        tomllib.loads("a." * 2000 + "b=1")
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True


def test_text_that_is_meant_to_take_long():
    # Each of these took minutes, of which a unit has not one.
    equal(findings("# /// a\n" * 120000), [])
    equal(findings("# /// script\n" * 60000), [("error", "block", i, 1) for i in range(1, 101)])
    keys = "".join(f"# k{i}=1\n" for i in range(6000))
    equal(findings(f"# /// script\n{keys}# ///\n"), [("warning", "metadata", i, 3) for i in range(2, 102)])
    dotted = "# /// script\n# " + "a." * 20000 + "b=1\n# dependencies=['six']\n# ///\n"
    answer = parse(dotted, read_cpu_s=0.05)
    # Newer readers of TOML refuse such a key by themselves.
    kind = "limit" if takes_long_keys() else "toml"
    equal([(f["severity"], f["kind"]) for f in answer["findings"]], [("error", kind)])
    equal(answer["requirements"], [])


def test_keys_of_the_block():
    script = '# /// script\n# name = "x"\n# requires-python = 3\n# dependencies = "numpy"\n# tool = 1\n# ///\n'
    equal(findings(script), [("warning", "metadata", 2, 3), ("error", "metadata", 4, 3), ("error", "metadata", 3, 3),
                             ("error", "metadata", 5, 3)])
    equal(findings("# /// script\n# dependencies = ['a', 1]\n# ///\n"), [("error", "requirement", 0, 0)])
    equal(findings("# /// script\n# [tool.other]\n# x = 1\n# ///\n"), [])


def test_requires_python():
    equal(parse("# /// script\n# requires-python = '>=3.98'\n# ///\n")["interpreter"], -1)
    equal(findings("\n# /// script\n# requires-python = '>=3.98'\n# ///\n"), [("error", "requires-python", 3, 3)])
    for text in ("3.12", ">=3.12 or <3", ">=three", "=3.12"):
        equal(findings(f"# /// script\n# requires-python = '{text}'\n# ///\n"), [("error", "requires-python", 2, 3)])
    contains(messages("# /// script\n# requires-python = '3.12'\n# ///\n"), "as in '>=3.12'")


def test_the_first_interpreter_that_fits():
    interpreters = [{"index": i, "path": rig.PYTHON, "version": v} for i, v in enumerate(("3.11.9", "3.13.1", "3.12.4", "x"))]

    def chosen(requires="", version=""):
        script = f"# /// script\n# requires-python = '{requires}'\n# ///\n"
        answer = parse(script, interpreters=interpreters, python_version=version, check_syntax=False)
        return answer["interpreter"], answer["interpreter_version"]

    equal(chosen(), (0, "3.11.9"))
    equal(chosen(">=3.12"), (1, "3.13.1"))
    equal(chosen(">=3.12,<3.13"), (2, "3.12.4"))
    equal(chosen("", "3.12"), (2, "3.12.4"))
    equal(chosen("", "3.1"), (-1, ""))
    equal(chosen(">=3.13", "3.12"), (-1, ""))
    equal(chosen(">=3.12", "3"), (1, "3.13.1"))
    equal(chosen("", "three"), (-1, ""))
    equal(parse(interpreters=interpreters, check_syntax=False)["interpreters"],
          [{"index": 0, "version": "3.11.9"}, {"index": 1, "version": "3.13.1"}, {"index": 2, "version": "3.12.4"}])


def test_interpreters_that_may_be_brought():
    policy = {"python_downloads": True}
    script = "# /// script\n# requires-python = '>=3.97,<3.99'\n# ///\n"
    answer = parse(script, policy=policy)
    equal((answer["interpreter"], answer["interpreter_version"], answer["tool_uv"]),
          (3, platform.python_version(), {"python": "<3.99,>=3.97"}))
    equal([(f["severity"], f["kind"], f["line"]) for f in answer["findings"]], [("warning", "requires-python", 2)])
    equal(parse(script, policy=policy, python_version="3.98")["tool_uv"], {"python": "<3.99,>=3.97,==3.98.*"})
    equal(parse(policy=policy, python_version="3.98.1")["tool_uv"], {"python": "==3.98.1"})
    # Only where none is here, and only with one here that starts it.
    equal(parse("# /// script\n# requires-python = '>=3.8'\n# ///\n", policy=policy)["tool_uv"], {})
    equal(parse(script, policy=policy, interpreters=[])["interpreter"], -1)
    # Its syntax is not that of the one that is here.
    equal(syntax(script + "print 1\n", policy=policy), [("warning", "requires-python", 2, 3)])


def test_interpreters_that_do_not_work():
    answer = parse(interpreters=[{"index": 0, "path": "/nonexistent", "version": ""},
                                 {"index": 1, "path": "/bin/false", "version": ""}, ME])
    equal((answer["interpreter"], answer["findings"]), (3, []))
    answer = parse(interpreters=[{"index": 0, "path": "/nonexistent", "version": ""}])
    equal((answer["interpreter"], [f["kind"] for f in answer["findings"]]), (-1, ["requires-python"]))


def test_requirements_are_written_anew():
    for text, expected in {
            "numpy": "numpy", " NumPy ": "numpy", "a_B.c--d": "a-b-c-d", "x (>=1)": "x>=1", "x>=1,!=1.5, <2": "x!=1.5,<2,>=1",
            "x == 1.*": "x==1.*", "x===1.0-odd": "x===1.0-odd", "x~=1.4.2": "x~=1.4.2", "x[]": "x", "x [b , a]>1": "x[a,b]>1",
            "x==1.0+local.5": "x==1.0+local.5", "x>=2024.1rc1": "x>=2024.1rc1",
            "x;python_version>='3.8'": 'x ; python_version >= "3.8"',
            "x;(os_name=='a' or os_name=='b') and extra=='e'": 'x ; (os_name == "a" or os_name == "b") and extra == "e"',
            "x; sys_platform in 'linux darwin'": 'x ; sys_platform in "linux darwin"',
    }.items():
        equal(requirements(text), [expected])


def test_what_is_no_requirement():
    for text, kind, part in (
            ("--index-url https://evil/", "requirement", "an option"), ("-r other.txt", "requirement", "an option"),
            ("-e .", "requirement", "an option"), ("${HOME}", "requirement", "a variable"), ("a==$X", "requirement", "variable"),
            ("./here", "requirement", "a path"), ("../x", "requirement", "a path"), ("/etc/passwd", "requirement", "a path"),
            ("~/x", "requirement", "a path"), ("x.whl", "requirement", "a path"), ("dir/x", "requirement", "a path"),
            ("C:\\x", "requirement", "a path"), ("a\nb", "requirement", "newline"), ("a\r--x", "requirement", "newline"),
            ("a\0", "requirement", "control"), ("a\u2028b", "requirement", "newline"), ("", "requirement", "is empty"),
            ("a==1 --hash=sha256:00", "requirement", "option behind"), ("a # comment", "requirement", "comment"),
            ("https://x/y.whl", "policy", "is a URL; only packages of the index, by"), ("git+https://x/y", "policy", "is a URL; only"),
            ("numpy=1.2", "requirement", "'==', not '='"), ("numpy@1.2", "requirement", "not 'name@1.2'"),
            ("numpy pandas", "requirement", "entry of its own"), ("a,b", "requirement", "PEP 508"),
            ("a>=x y", "requirement", "PEP 508"), ("a;nonsense", "requirement", "PEP 508"), ("näme", "requirement", "PEP 508"),
            ("a" * 600, "limit", "longer"), ("a;(os_name", "requirement", "PEP 508"),
            ("a; os_name=='\"; --x'", "requirement", "option"), ("a; os_name=='\"x'", "requirement", "not taken"),
            ("a; os_name=='x' or os_name=='$y'", "requirement", "variable"), ("a; os_name=='é'", "requirement", "not taken"),
            ("a; os_name=='x -y'", "requirement", "option"), ("a===1;0", "requirement", ""),
            ("a @ file:///etc/passwd", "policy", "URL"), ("a @ https://x/y", "policy", "URL"),
            ("a @ git+https://x/y", "policy", "version control")):
        got = refusal(text)
        equal((text, got[0]), (text, kind))
        contains(got[1], part)


def test_urls_where_policy_allows_them():
    both = {"direct_urls": True, "vcs": True}
    equal(requirements("A [x] @ https://h/a-1.whl#sha256=00 ; os_name == 'x'", policy=both),
          ['a[x] @ https://h/a-1.whl#sha256=00 ; os_name == "x"'])
    equal(parse(dependencies=["a @ git+https://h/a@v1", "b"], policy=both)["requirements"], ["a @ git+https://h/a@v1", "b"])
    equal(refusal("a @ git+https://h/a", policy={"direct_urls": True})[0], "policy")
    equal(refusal("a @ https://h/a", policy={"vcs": True})[0], "policy")
    for url in ("http://h/a", "git+ssh://h/a", "file:///x", "https://u:p@h/x", "https://u@h/x", "hg+https://h/x", "https://h/'"):
        equal((url, refusal("a @ " + url, policy=both)[0]), (url, "requirement"))
    if "p@h" in messages(dependencies=["a @ https://u:p@h/x"], policy=both):
        raise AssertionError("a password is repeated")


def test_allowed_and_denied_packages():
    policy = {"allow": ["NumPy", "pan*"], "deny": ["pandoc"]}
    equal(requirements("numpy", "pandas", policy=policy), ["numpy", "pandas"])
    equal(refusal("pandoc", policy=policy)[0], "policy")
    equal(refusal("scipy", policy=policy)[0], "policy")
    equal(refusal("xnumpy", policy=policy)[0], "policy")


def test_places_of_requirements():
    script = "# /// script\n# dependencies = [\n#   \"good\",\n#   'b=1',\n# ]\n# ///\n"
    equal(findings(script), [("error", "requirement", 4, 6)])
    contains(messages(dependencies=["a", "b=1"]), "dependencies[1] 'b=1'")


def test_a_files_requirements_have_its_lines():
    entries = ["a", "b=1", "c", "-r d"]
    equal(findings(dependencies=entries, lines=[2, 5, 6, 9]),
          [("error", "requirement", 5, 0), ("error", "requirement", 9, 0)])
    said = messages(dependencies=entries, lines=[2, 5, 6, 9])
    equal(said.startswith("'b=1' is not a requirement: "), True)
    contains(said, " | '-r d' is an option of a package client;")


def test_a_version_that_is_not_there_is_the_options_fault():
    equal(messages(python_version="3.5"),
          "No interpreter fits: this server was started with --python-version 3.5; installed: "
          f"{platform.python_version()}. Start the server without that option, or install that version and name it in "
          "Python= or ExtraPythons=.")
    mine = ".".join(platform.python_version().split(".")[:2])
    equal(messages("# /// script\n# requires-python = '<3.5'\n# ///\n", python_version=mine),
          f"No interpreter fits: the script requires Python <3.5 and this server was started with --python-version {mine}; "
          f"installed: {platform.python_version()}.")


def test_too_many():
    equal([f[:2] for f in findings(dependencies=[f"p{i}" for i in range(201)])], [("error", "limit")])
    answer = parse(dependencies=["?"] * 150)
    equal((len(answer["findings"]), answer["requirements"]), (100, []))


def test_tool_uv():
    script = ("# /// script\n# [tool.uv]\n# exclude-newer = '2025-01-31T00:00:00Z'\n# prerelease = 'allow'\n"
              "# constraint-dependencies = ['A>1']\n# ///\n")
    equal(findings(script), [("error", "policy", 2, 3)])
    answer = parse(script, policy={"tool_uv": True})
    equal((answer["findings"], answer["tool_uv"]), ([], {
        "exclude-newer": "2025-01-31T00:00:00Z", "prerelease": "allow", "constraint-dependencies": ["a>1"]}))
    for line in ("index-url = 'https://evil'", "sources = {}", "prerelease = 'x'", "exclude-newer = 'yesterday'",
                 "constraint-dependencies = ['-r x']", "find-links = ['/']"):
        answer = parse(f"# /// script\n# [tool.uv]\n# {line}\n# ///\n", policy={"tool_uv": True})
        equal((len(answer["findings"]), answer["tool_uv"]), (1, {}))


def test_syntax():
    equal(syntax("x = 1\nprint(\n"), [("error", "syntax", 2, 6)])
    contains(messages("print 1\n", check_syntax=True), "SyntaxError: ")
    equal(syntax("return 1\n")[0][:3], ("error", "syntax", 1))
    equal(findings("print(1\n"), [])
    equal(syntax("x = '\\d'\nassert (x, 1)\n"), [])
    equal(syntax("\ufeff# coding: utf-8\nx = 1\n"), [])
    equal([f[:2] for f in syntax("# coding: nonsense\n")], [("error", "syntax")])
    equal([f[:2] for f in syntax("x = 1\0\n")], [("error", "syntax")])
    contains(messages("x = \u201c1\u201d\n", check_syntax=True), "\u201c")


def test_scripts_that_bring_a_compiler_down():
    for script in ("(" * 100000, "-" * 1000000 + "1", "x = " + "[" * 90 + "lambda: " * 5000 + "1" + "]" * 90,
                   "x" + ".x" * 300000, "f" + "()" * 300000):
        for finding in run("parse", {"script": script, "interpreters": [ME]})[0]["findings"]:
            equal((finding["severity"], finding["kind"]), ("error", "syntax"))


def test_halves_of_characters():
    equal([f[:2] for f in syntax("x = '\ud800'\n")], [("error", "encoding")])
    answer = run("parse", {"dependencies": ["a\ud800"], "interpreters": [ME]})[0]
    equal([f["kind"] for f in answer["findings"]], ["requirement"])
    contains(answer["findings"][0]["message"], "'a'")


def test_nothing_of_the_script_runs():
    probe = f"/tmp/mcp-exec-prepare-{os.getpid()}"
    script = f"# coding: utf-8\nopen({probe!r}, 'w')\n"
    equal(syntax(script), [])
    equal(os.path.exists(probe), False)


def test_orders_that_are_not_understood():
    for data in (b"", b"[]", b"{", b'{"script": 1}', b'{"dependencies": {}}', b'{"interpreters": "x"}', b"[" * 100000):
        done = subprocess.run([sys.executable, f"{rig.PREPARE}/parse.py"], input=data, capture_output=True, timeout=60)
        if b"no module 'packaging'" in done.stderr:
            raise rig.Skip("the interpreter has no module packaging")
        equal((done.returncode, done.stdout), (1, b""))


if __name__ == "__main__":
    rig.main()
