# SPDX-License-Identifier: MIT
"""Byte compilers: interpreters that know nothing of the set whose files they compile."""

import json
import os
import select
import subprocess

from common import DiskFull

SOURCE_SECONDS = 60
COMPILER_MEMORY_BYTES = 2 << 30

# Reads a JSON string a line, answers with a byte for each: compiled, not compiled, disk full.
COMPILER_PROGRAM = """
import json, os, py_compile, resource, sys, warnings
warnings.simplefilter("ignore")
for limit, most in ((resource.RLIMIT_AS, int(sys.argv[1])), (resource.RLIMIT_CORE, 0)):
    hard = resource.getrlimit(limit)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (most, most))
for line in sys.stdin.buffer:
    try:
        # With quiet=2 it raises nothing and says nothing.
        answer = b"1" if py_compile.compile(json.loads(line), quiet=2) else b"0"
    except OSError as e:
        answer = b"2" if e.errno in (28, 122) else b"0"
    except BaseException:
        answer = b"0"
    os.write(1, answer)
"""


class Compiler:
    """One interpreter that compiles file after file. A file that brings it down costs itself only."""

    def __init__(self, python, environment):
        self.command = [python, "-I", "-S", "-c", COMPILER_PROGRAM, str(COMPILER_MEMORY_BYTES)]
        self.environment = environment
        self.child = None

    def close(self):
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()
            self.child = None

    def compile(self, path, seconds):
        if self.child is None:
            self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, bufsize=0, env=self.environment, cwd="/")
        try:
            self.child.stdin.write(json.dumps(path).encode() + b"\n")
            readable, _, _ = select.select([self.child.stdout], [], [], min(SOURCE_SECONDS, seconds))
            answer = os.read(self.child.stdout.fileno(), 1) if readable else b""
        except OSError:
            answer = b""
        if answer == b"2":
            raise DiskFull
        if not answer:
            self.close()
        return answer == b"1"
