#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""join OUTPUT PART...: one program of several files, for what runs in a unit is one file.

Each part imports from those before it by lines "from PART import NAME, ...", which are left out. A name that two parts
define is an error."""

import ast
import pathlib
import sys


def defined(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))


def main(output, *parts):
    parts = [pathlib.Path(part) for part in parts]
    modules = {part.stem for part in parts}
    owners = {}
    text = "# SPDX-License-Identifier: MIT\n# Made of " + ", ".join(part.name for part in parts) + "\n"
    for part in parts:
        source = part.read_text(encoding="utf-8")
        tree = ast.parse(source)
        lines = source.splitlines()
        for name in defined(tree):
            if owners.setdefault(name, part.name) != part.name:
                sys.exit(f"join: {part.name} and {owners[name]} both define {name}")
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                lines[node.lineno - 1:node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        text += "\n".join(line for line in lines if "SPDX-License" not in line) + "\n"
    compile(text, output, "exec")
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
