#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Numbers that stand in two places, because neither can see the other, are the same."""

import re

import source

# What, then for each place: the file, and a pattern whose only match has the number.
SAME = (
    ("results that systemd stores over a restart", (
        ("units/mcp-exec.service.in", r"^FileDescriptorStoreMax=(\d+)$"),
        ("src/exec/run-table.h", r"^#define RUNS_KEPT_MAX (\d+)$"))),
)


def compare(what, found):
    """found: a list of (file, list of matches)."""
    problems = [f"{name}:1: {len(matches)} places with the number of {what}, not 1" for name, matches in found
                if len(matches) != 1]
    if not problems and len({matches[0] for _, matches in found}) != 1:
        values = ", ".join(f"{matches[0]} in {name}" for name, matches in found)
        problems.append(f"{found[0][0]}:1: {what}: {values}")
    return problems


def check(root):
    problems = []
    for what, places in SAME:
        problems += compare(what, [(name, re.findall(pattern, source.read(root, name), re.MULTILINE))
                                   for name, pattern in places])
    return problems


if __name__ == "__main__":
    source.run(check)
