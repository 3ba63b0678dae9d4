#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The top level of the repository, which is fixed, and what never belongs into it anywhere."""

import os
import re

import source

TOP = {"src", "units", "tests", "man", "meson.build", "meson_options.txt", "rpm", "debian", "README.md", "LICENSE"}

PRODUCTS = re.compile(r"\.(o|a|so|pyc|orig|rej|swp|deb|rpm|log)$|~$|(^|/)(__pycache__|core)(/|$)")

BYTES_MAX = 256 * 1024


def check_names(names):
    problems = []
    for name in sorted({name.split("/")[0] for name in names}):
        if name not in TOP and not name.startswith("."):
            problems.append(f"{name}:1: does not belong on the top level")
    for name in names:
        if PRODUCTS.search(name):
            problems.append(f"{name}:1: a product, not a source")
        if not re.fullmatch(r"[\w.+@/-]+", name, re.ASCII):
            problems.append(f"{name!r}:1: a name that needs quoting")
    return problems


def check(root):
    names = source.tracked_files(root)
    problems = check_names(names)
    for name in names:
        path = os.path.join(root, name)
        if not os.path.islink(path) and os.path.getsize(path) > BYTES_MAX:
            problems.append(f"{name}:1: larger than {BYTES_MAX // 1024} KiB")
    return problems


if __name__ == "__main__":
    source.run(check)
