# SPDX-License-Identifier: MIT
"""What every lint test needs: the files of the tree, C without its comments and strings, and the verdict."""

import os
import re
import subprocess
import sys

C_SUFFIXES = (".c", ".h")


def tracked_files(root):
    """Paths relative to root: what git tracks, or in an unpacked archive everything that is no build product."""
    if os.path.exists(os.path.join(root, ".git")):
        command = ["git", "-C", root, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                   "--exclude-standard"]
        try:
            listing = subprocess.run(command, check=True, capture_output=True).stdout.decode()
        except (OSError, subprocess.CalledProcessError):
            pass
        else:
            names = sorted(set(name for name in listing.split("\0") if name))
            return [name for name in names if os.path.isfile(os.path.join(root, name))]
    found = []
    for directory, subdirectories, files in os.walk(root):
        where = os.path.relpath(directory, root)
        if where == ".":
            subdirectories[:] = [d for d in subdirectories if not re.match(r"build|obj-|\.git$|\.pc$", d)]
        subdirectories[:] = [d for d in subdirectories if d != "__pycache__"]
        found += [os.path.normpath(os.path.join(where, name)) for name in files]
    return sorted(name for name in found if not name.startswith("debian/mcp-exec/"))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m) if m.group()[0] == "/" else m.group(), text)


def bare_code(text):
    """C with comments and literals blanked out; every other character keeps its line and column."""
    return TOKEN.sub(blank, text)


def allows(text, rule):
    """An exemption is a comment that names the rule and the reason: "lint: allow RULE: because …"."""
    return re.search(r"lint: allow " + re.escape(rule) + r": \S", text) is not None


def verdict(problems):
    """Each problem is a line "FILE:LINE: what is wrong"."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problem(s)")
    return 1 if problems else 0


def run(check):
    """For a test's main program: check(root) -> problems."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} ROOT")
    sys.exit(verdict(check(sys.argv[1])))
