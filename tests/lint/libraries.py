#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The libraries that each program links, and how. Usage: libraries.py READELF NAME=PROGRAM…"""

import re
import subprocess
import sys

import source

# The dynamic loader and its like come with libc.
LIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

# Program -> the libraries it must link, all of them and nothing else beside libc.
EXPECTED = {
    # The only process that PID 1 obeys: small enough to audit, so it must stay so.
    "mcp-exec-launcher": {"libsystemd"},
    # Shares a unit with hostile code for a moment.
    "init": set(),
    "mcp-exec": {"libsystemd", "libcjson", "libmicrohttpd", "libnettle"},
}


def check_dynamic(name, dynamic, headers):
    """dynamic and headers: what readelf says for -d and -lW."""
    problems = []
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic))
    libraries = {re.sub(r"\.so(\.\d+)*$", "", library) for library in needed - LIBC}
    for library in sorted(libraries - EXPECTED[name]):
        problems.append(f"{name}:0: links {library}")
    for library in sorted(EXPECTED[name] - libraries):
        problems.append(f"{name}:0: does not link {library}; correct EXPECTED if that is intended")
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        problems.append(f"{name}:0: has a search path for libraries")
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS.*\bNOW\b", dynamic):
        problems.append(f"{name}:0: is not linked with -z now")
    if "GNU_RELRO" not in headers:
        problems.append(f"{name}:0: is not linked with -z relro")
    if not re.search(r"GNU_STACK.*\bRW \s", headers):
        problems.append(f"{name}:0: has an executable stack")
    if not re.search(r"FLAGS_1.*\bPIE\b", dynamic):
        problems.append(f"{name}:0: is not position independent")
    return problems


def main():
    readelf, *programs = sys.argv[1:]
    problems = []
    for program in programs:
        name, path = program.split("=", 1)
        dynamic, headers = (subprocess.run([readelf, option, path], check=True, capture_output=True, text=True).stdout
                            for option in ("-dW", "-lW"))
        problems += check_dynamic(name, dynamic, headers)
    return source.verdict(problems if programs else ["libraries.py:0: no program given"])


if __name__ == "__main__":
    sys.exit(main())
