#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The form of source files: licence line, lengths, comments, and functions that are not used here."""

import re

import source

FILE_LINES_MAX = 500
HEADER_LINES_MAX = 120
FUNCTION_LINES_MAX = 80
COLUMNS_MAX = 109

SPDX = "SPDX-License-Identifier: MIT"
SPDX_SUFFIXES = (".c", ".h", ".py", ".sh", ".build", ".service", ".socket", ".slice", ".in", ".1", ".5", ".8",
                 ".sysusers", ".tmpfiles")

# Function -> what to use instead.
FORBIDDEN = {
    **dict.fromkeys(("atoi", "atol", "atoll", "atof", "strtol", "strtoul", "strtoll", "strtoull", "strtoimax",
                     "strtoumax", "strtod", "strtof"), "base/parse.h"),
    **dict.fromkeys(("sprintf", "vsprintf", "strcpy", "strncpy", "stpcpy", "strcat", "strncat"),
                    "base/buffer.h, str_printf() or snprintf()"),
    **dict.fromkeys(("strtok", "strtok_r"), "strv_split()"),
    **dict.fromkeys(("basename", "dirname"), "strrchr(3)"),
    **dict.fromkeys(("system", "popen"), "a launched unit, or posix_spawn(3)"),
    **dict.fromkeys(("gets", "fgets", "getline"), "file_read()"),
    **dict.fromkeys(("alloca", "strdupa", "strndupa"), "the heap"),
    **dict.fromkeys(("mktemp", "tmpnam", "tempnam"), "memfd_new_sealed()"),
    **dict.fromkeys(("rand", "random", "srand", "drand48"), "base/random.h"),
    **dict.fromkeys(("perror",), "log_full()"),
    **dict.fromkeys(("gmtime", "localtime", "ctime", "asctime"), "the functions ending in _r"),
    **dict.fromkeys(("sleep", "usleep", "nanosleep"), "an event source"),
}
FORBIDDEN_CALL = re.compile(r"(?<![\w.>])(" + "|".join(FORBIDDEN) + r")\s*\(")

# Ending the process is main's decision.
EXIT_CALL = re.compile(r"(?<![\w.>])(exit|abort|quick_exit)\s*\(")
MAY_EXIT = re.compile(r"src/(.*/)?([\w-]*main|init)\.c$")

FUNCTION_START = re.compile(r"^[A-Za-z_][^\n;={}]*\([^;={}]*\)\s*\{[ \t]*$", re.MULTILINE)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_functions(name, text, code):
    problems = []
    for m in FUNCTION_START.finditer(code):
        end = code.find("\n}", m.end())
        first, last = line_of(code, m.start()), line_of(code, end + 1)
        if last - first + 1 > FUNCTION_LINES_MAX and not source.allows("\n".join(text.split("\n")[first - 1:last]),
                                                                       "function-length"):
            problems.append(f"{name}:{first}: a function of {last - first + 1} lines, {FUNCTION_LINES_MAX} at most")
    return problems


def check_c(name, text):
    problems = []
    code = source.bare_code(text)
    is_interface = name.startswith("src/") and name.endswith(".h")
    limit, rule = (HEADER_LINES_MAX, "header-length") if is_interface else (FILE_LINES_MAX, "file-length")
    n_lines = text.count("\n")
    if n_lines > limit and not source.allows(text, rule):
        problems.append(f"{name}:{limit + 1}: {n_lines} lines, {limit} at most")
    for m in source.TOKEN.finditer(text):
        if m.group().startswith("//"):
            problems.append(f"{name}:{line_of(text, m.start())}: // comments are for local debugging only")
    problems += check_functions(name, text, code)
    for m in re.finditer(r"(?<!\w)goto\s+\w", code):
        problems.append(f"{name}:{line_of(code, m.start())}: no goto; use cleanup attributes")
    if name.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        problems.append(f"{name}:1: #pragma once is missing")
    if name.startswith("src/"):
        for m in FORBIDDEN_CALL.finditer(code):
            problems.append(f"{name}:{line_of(code, m.start())}: {m.group(1)}() is not used here; "
                            f"use {FORBIDDEN[m.group(1)]}")
        for m in EXIT_CALL.finditer(code):
            if not MAY_EXIT.match(name):
                problems.append(f"{name}:{line_of(code, m.start())}: {m.group(1)}() outside of main")
    return problems


def check_text(name, text):
    problems = []
    lines = text.split("\n")
    is_c = name.endswith(source.C_SUFFIXES)
    if (name.endswith(SPDX_SUFFIXES) or text.startswith("#!")) and SPDX not in "\n".join(lines[:3]):
        problems.append(f"{name}:1: the line {SPDX} is missing")
    if text and not text.endswith("\n"):
        problems.append(f"{name}:{len(lines)}: no newline at the end")
    for number, line in enumerate(lines, 1):
        if is_c and len(line) > COLUMNS_MAX:
            problems.append(f"{name}:{number}: {len(line)} columns, {COLUMNS_MAX} at most")
        if (is_c or name.endswith((".py", ".build"))) and "\t" in line:
            problems.append(f"{name}:{number}: a tab")
        if line.rstrip(" \t\r") != line:
            problems.append(f"{name}:{number}: white space at the end of the line")
        # Spelled in parts, or this file would find itself.
        if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b(?!X)", line):
            problems.append(f"{name}:{number}: unfinished work belongs in an issue")
    if name.endswith(".py") and len(lines) > FILE_LINES_MAX and not source.allows(text, "file-length"):
        problems.append(f"{name}:{FILE_LINES_MAX + 1}: {len(lines)} lines, {FILE_LINES_MAX} at most")
    return problems + (check_c(name, text) if is_c else [])


def is_text_of_ours(name):
    """Corpora are bytes, not text; the licence's words are not ours."""
    return name != "LICENSE" and not name.startswith(("tests/fuzz/corpus", ".git/"))


def check(root):
    problems = []
    for name in source.tracked_files(root):
        if is_text_of_ours(name):
            problems += check_text(name, source.read(root, name))
    return problems


if __name__ == "__main__":
    source.run(check)
