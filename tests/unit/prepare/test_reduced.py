#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon and parse must see the same block: of a script that is run parse gets only the lines that the daemon, by their
look alone, takes for ones that may say something. Made up scripts, with fences that are right and nearly right.

REDUCE names the program that does to a script what the daemon does."""

import concurrent.futures
import os
import random
import subprocess

import rig
from rig import equal

N_SCRIPTS = 2000
ME = {"index": 0, "path": rig.PYTHON, "version": "3.13.5"}
POLICY = {"allow": [], "deny": [], "direct_urls": False, "vcs": False, "tool_uv": True, "python_downloads": False}

GOOD = ["# /// script", "# dependencies = ['a>=1', 'b']", "# requires-python = '>=3.8'", "#", "# ///"]
LINES = ["# /// script"] * 6 + ["# ///"] * 8 + [
    "# /// script ", "# /// Script", "#/// script", "# ///script", "#  ///  script", "#\t/// script\t", "# //// script", "# // script",
    "# / script", "# /// scripts", "## /// script", " # /// script", "# /// other", "# /// ", "#///", "#  ///", " # ///", "# ////",
    "# dependencies = ['a>=1']", "# dependencies = ['b', 'c; os_name==\"x\"']", "# dependencies = ['a',", "#   'd==2',", "# ]",
    "# requires-python = '>=3.8'", "# requires-python = '>=3.99'", "# [tool.uv]", "# exclude-newer = '2025-01-01'", "# [tool.x]", "#",
    "# ", "#x = 1", "# a comment", "# see http://example.org/", "#!/usr/bin/env python3", "", "", "   ", "\t", "import os", "x = '# ///'",
    "    # indented", "x = 1 # /// script", "'''", "\0", "\x0c# /// script", "\u2028# /// script", "\x1c# ///"]


def made_up():
    dice = random.Random(1723)
    for _ in range(N_SCRIPTS):
        ending = dice.choice(["\n", "\n", "\n", "\r\n", "\r"])
        lines = [dice.choice(LINES) for _ in range(dice.randrange(8))]
        if dice.random() < 0.7:
            at = dice.randrange(len(lines) + 1)
            lines[at:at] = [dice.choice(["", "import os"]), *(line if dice.random() < 0.97 else dice.choice(LINES) for line in GOOD)]
        yield dice.choice(["", "", "", "\ufeff"]) + ending.join(lines) + dice.choice(["", ending, dice.choice("\n\r") * 2])


def reduced(script):
    done = subprocess.run([os.environ["REDUCE"]], input=script.encode(), capture_output=True, check=True)
    has_block, _, rest = done.stdout.partition(b"\n")
    return has_block == b"yes", rest.decode()


def seen(program, script):
    order = {**program.DEFAULTS, "script": script, "interpreters": [ME], "policy": POLICY, "check_syntax": False}
    answer = program.Reader(order).answer()
    findings = [(f["severity"], f["kind"], f["line"]) for f in answer["findings"]]
    return answer["requirements"], answer["requires_python"], answer["tool_uv"], answer["interpreter"], findings


def test_what_is_left_of_a_script_says_the_same():
    program = rig.load("parse")
    scripts = list(dict.fromkeys(made_up()))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(reduced, scripts))
    n_blocks = n_errors = 0
    for script, (has_block, rest) in zip(scripts, answers):
        whole = seen(program, script)
        equal((script, seen(program, rest)), (script, whole))
        equal((script, has_block or whole == ([], "", {}, 0, [])), (script, True))
        equal((script, rest.count("\n") <= script.count("\n") + script.count("\r")), (script, True))
        n_blocks += bool(whole[0])
        n_errors += bool(whole[4])
    print(f"# {n_blocks} of {len(scripts)} name packages, {n_errors} have findings")
    if n_blocks < 30 or n_errors < 500:
        raise AssertionError("the generator makes too little of one kind")


if __name__ == "__main__":
    rig.main()
