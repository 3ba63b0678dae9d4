#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch and install with a program that is found as uv and does not work."""

import pathlib

import rig
from rig import Prefix, contains, equal


def failure(answer):
    return answer[0]["error"]["kind"], answer[0]["error"]["message"]


def test_uv_that_is_there_and_does_not_work_is_told_with_what_to_do():
    """It was said to have failed with status 1 without a reason, or just "Exec format error"."""
    remedy = ": the program that is found as uv does not work, or is no uv. The administrator has to install it anew where it is, " \
             "or to name another one with UvPath= in mcp-exec.conf; mcp-exec check says which one is found."
    for program, told in (("#!/bin/sh\nexit 1\n", "failed with status 1 and gave no reason"),
                          ("#!/nonexistent/python\n", "cannot be started (No such file or directory)"),
                          ("\x7fELF of another machine", "cannot be started (Exec format error)")):
        for request in {}, {"tool_uv": {"python": "3.99"}}:
            with Prefix() as p:
                p.play_uv()
                pathlib.Path(p.uv).write_text(program)
                kind, message = failure(p.fetch(["x"], **request))
                equal((kind, message), ("no-uv", "uv, which resolves and installs packages, " + told + remedy))
    with Prefix() as p:
        p.play_uv()
        pathlib.Path(p.uv).write_text("#!/bin/sh\nkill -ILL $$\n")
        kind, message = failure(p.fetch(["x"]))
        equal(kind, "internal")
        contains(message, "uv was ended by signal 4")
        contains(message, "the administrator has to look whether uv works (mcp-exec check).")


def test_install_says_the_same_of_a_uv_that_gives_no_reason():
    error = rig.load("install").Install.explain("\n", 3)
    equal(error.kind, "no-uv")
    contains(str(error), "failed with status 3 and gave no reason: the program that is found as uv does not work, or is no uv. ")
    contains(str(error), "mcp-exec check says which one is found.")


if __name__ == "__main__":
    rig.main()
