#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every key of the settings' table stands in the manual and in the shipped file, with the same default, and nothing
else does; every variable stands in the manual."""

import re

import source

TABLE = "src/base/settings.c"
LOADER = "src/base/settings-load.c"
MANUAL = "man/mcp-exec.conf.5"
SHIPPED = "units/mcp-exec.conf"
MANUALS_OF_VARIABLES = ("man/mcp-exec.1", "man/mcp-exec.8", "man/mcp-exec.conf.5")


def keys_of_table(text):
    row = re.compile(r'K\("(\w+)", "(\w+)", KIND_\w+, [^"]*"([^"]*)"\)')
    return {(section, key): default for section, key, default in row.findall(source.without_comments(text))}


def keys_of_manual(text):
    keys = {}
    section = key = None
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(".Sh "):
            m = re.match(r"\.Sh \[(\w+)\]$", line)
            section = m.group(1) if m else None
            key = None
        m = re.match(r"\.It Va (\w+)=$", line)
        if m and section:
            key = (section, m.group(1))
            keys[key] = None
        if key and re.search(r"[Dd]efault: empty\.$", line):
            keys[key] = ""
        elif key and re.search(r"[Dd]efault:$", line) and number + 1 < len(lines):
            m = re.match(r"\.Li (.*?) \.$", lines[number + 1])
            keys[key] = m.group(1) if m else None
    return keys


def keys_of_file(text):
    keys = {}
    section = None
    for line in text.split("\n"):
        m = re.match(r"\[(\w+)\]$", line)
        if m:
            section = m.group(1)
        m = re.match(r"#(\w+)=(.*)$", line)
        if m:
            keys[section, m.group(1)] = m.group(2)
    return keys


def compare(name, documented, table):
    problems = []
    for section, key in sorted(table.keys() - documented.keys()):
        problems.append(f"{name}:1: [{section}] {key}= is missing")
    for section, key in sorted(documented.keys() - table.keys()):
        problems.append(f"{name}:1: [{section}] {key}= does not exist")
    for section, key in sorted(table.keys() & documented.keys()):
        if documented[section, key] != table[section, key]:
            problems.append(f"{name}:1: the default of {key}= is {table[section, key]!r}, "
                            f"not {documented[section, key]!r}")
    return problems


def check(root):
    table = keys_of_table(source.read(root, TABLE))
    if len(table) < 10:
        return [f"{TABLE}:1: the table of keys was not found"]
    problems = compare(MANUAL, keys_of_manual(source.read(root, MANUAL)), table)
    problems += compare(SHIPPED, keys_of_file(source.read(root, SHIPPED)), table)
    manuals = "\n".join(source.read(root, name) for name in MANUALS_OF_VARIABLES)
    variables = set(re.findall(r'"(MCP_EXEC_(?!SYSCONFDIR|LIBDIR)\w+)"', source.read(root, LOADER)))
    if len(variables) != 8:
        problems.append(f"{LOADER}:1: {len(variables)} variables, expected the predecessor's 8")
    problems += [f"{LOADER}:1: no manual mentions {variable}" for variable in sorted(variables)
                 if not re.search(rf"\b{variable}\b", manuals)]
    return problems


if __name__ == "__main__":
    source.run(check)
