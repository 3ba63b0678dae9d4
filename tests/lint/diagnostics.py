#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tools of the conformance suite are in a program or not. Usage: diagnostics.py absent|present PROGRAM

Their names are read from the source, so that a new one is looked for, too."""

import pathlib
import re
import sys

import source

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src" / "tool" / "diagnostic.c"


def names(text):
    """The tools of the table. Short names may be part of other words and prove nothing."""
    found = re.findall(r'^        \{ "([a-z0-9_]+)"', text, re.M)
    return [name for name in found if len(name) > 8]


def check(wanted, program, content, tools):
    found = [tool for tool in tools if tool.encode() in content]
    if not tools:
        return [f"{TABLE.name}:0: no table of tools"]
    if wanted == "absent":
        return [f"{program}:0: contains the diagnostic tool {tool}" for tool in found]
    return [f"{program}:0: lacks the diagnostic tool {tool}" for tool in tools if tool not in found]


def main():
    wanted, program = sys.argv[1:]
    return source.verdict(check(wanted, program, pathlib.Path(program).read_bytes(), names(TABLE.read_text())))


if __name__ == "__main__":
    sys.exit(main())
