#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lint tests can fail: each rule finds its fault in a small sample, and nothing in a good one."""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import diagnostics
import form
import includes
import libraries
import same_numbers
import settings_docs
import source
import tree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "machine"))
import host

LICENCE = "/* SPDX-License-Identifier: MIT */\n"


def form_of(text, name="src/base/x.c"):
    return [problem.split(": ", 1)[1] for problem in form.check_text(name, LICENCE + text)]


class Diagnostics(unittest.TestCase):
    TABLE = '        { "a_diagnostic", "Does", NO,\n        { "another_one", "Too", NO,\n'

    def test_names(self):
        self.assertEqual(diagnostics.names(self.TABLE), ["a_diagnostic", "another_one"])

    def test_found(self):
        def count(wanted, content):
            return len(diagnostics.check(wanted, "x", content, diagnostics.names(self.TABLE)))
        self.assertEqual(count("absent", b"exec"), 0)
        self.assertEqual(count("absent", b"exec\0another_one\0"), 1)
        self.assertEqual(count("present", b"exec\0another_one\0"), 1)
        self.assertEqual(count("present", b"a_diagnostic\0another_one\0"), 0)
        self.assertEqual(len(diagnostics.check("absent", "x", b"", [])), 1)


class Includes(unittest.TestCase):
    def one(self, name, line):
        return len(includes.check_text(name, line + "\n"))

    def test_allowed(self):
        for name, line in (
                ("base/log.c", "#include <systemd/sd-journal.h>"),
                ("base/digest.c", "#include <nettle/sha2.h>"),
                ("json/read.c", "#include <cjson/cJSON.h>"),
                ("transport/http-reply.c", "#include <microhttpd.h>"),
                ("launch/bus.c", "#include <systemd/sd-bus.h>"),
                ("launch/bus.c", '#include "wire/wire.h"'),
                ("launch/selftest.c", '#include "runner/checks.h"'),
                ("server/main.c", '#include "transport/http.h"'),
                ("server/main.c", '#include "config.h"'),
                ("mcp/call.c", '/* #include "exec/exec.h" */'),
        ):
            self.assertEqual(self.one(name, line), 0, (name, line))

    def test_forbidden(self):
        for name, line in (
                ("base/log.c", '#include "wire/wire.h"'),
                ("base/fd.c", "#include <systemd/sd-journal.h>"),
                ("base/fd.c", "#include <nettle/sha2.h>"),
                ("wire/wire.c", '#include "json/json.h"'),
                ("exec/job.c", '#include "json/json.h"'),
                ("exec/job.c", "#include <systemd/sd-bus.h>"),
                ("launch/job.c", '#include "exec/exec.h"'),
                ("launch/job.c", '#include "json/json.h"'),
                ("launch/job.c", '#include "runner/init.h"'),
                ("mcp/call.c", '#include "tool/tool.h"'),
                ("mcp/call.c", '#include "exec/exec.h"'),
                ("mcp/call.c", "# include <cjson/cJSON.h>"),
                ("transport/unix.c", "#include <microhttpd.h>"),
                ("transport/http.c", '#include "tool/tool.h"'),
                ("tool/exec.c", '#include "mcp/peer.h"'),
                ("auth/http.c", '#include "transport/http.h"'),
                ("runner/init.c", '#include "base/fd.h"'),
                ("server/main.c", '#include "launch/job.h"'),
                ("server/main.c", '#include "main.h"'),
                ("server/main.c", '#include "../exec/exec.h"'),
                ("server/main.c", "#include <curl/curl.h>"),
                ("extra/new.c", "int x;"),
        ):
            self.assertEqual(self.one(name, line), 1, (name, line))

    def test_no_cycles(self):
        """A room that is below another may not include it, directly or by others."""
        for room in includes.ROOMS:
            below = set()
            todo = list(includes.ROOMS[room])
            while todo:
                lower = todo.pop()
                if lower not in below:
                    below.add(lower)
                    todo += includes.ROOMS[lower]
            self.assertNotIn(room, below)


class Form(unittest.TestCase):
    def test_good(self):
        self.assertEqual(form_of('int f(void) {\n        return g("// no comment, atoi(", \'"\'); /* goto x */\n}\n'), [])

    def test_licence(self):
        self.assertTrue(form.check_text("src/base/x.c", "int x;\n"))
        self.assertTrue(form.check_text("tests/x.py", "x = 1\n"))
        self.assertTrue(form.check_text("tests/tool", "#!/bin/sh\n"))
        self.assertEqual(form.check_text("tests/tool", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n"), [])

    def test_lengths(self):
        self.assertEqual(len(form_of("int x;\n" * 499)), 0)
        self.assertEqual(len(form_of("int x;\n" * 500)), 1)
        self.assertEqual(len(form_of("#pragma once\n" + "int x;\n" * 118, "src/base/x.h")), 0)
        self.assertEqual(len(form_of("#pragma once\n" + "int x;\n" * 119, "src/base/x.h")), 1)
        self.assertEqual(len(form_of("/* lint: allow file-length: a table */\n" + "int x;\n" * 600)), 0)
        self.assertEqual(len(form_of("/* " + "x" * 103 + " */\n")), 0)
        self.assertEqual(len(form_of("/* " + "x" * 104 + " */\n")), 1)
        self.assertEqual(len(form_of("/* " + "…" * 103 + " */\n")), 0)

    def test_function_length(self):
        for start in ("int f(void) {\n", "static char* f(const char *a,\n               int b) {\n",
                      "TEST(name) {\n"):
            n = start.count("\n") + 1
            self.assertEqual(len(form_of(start + "        x();\n" * (80 - n) + "}\n")), 0)
            self.assertEqual(len(form_of(start + "        x();\n" * (81 - n) + "}\n")), 1)
        self.assertEqual(form_of("static const int t[] = {\n" + "        1,\n" * 100 + "};\n"), [])

    def test_comments_and_white_space(self):
        self.assertEqual(len(form_of("int x; // no\n")), 1)
        self.assertEqual(len(form_of("\tint x;\n")), 1)
        self.assertEqual(len(form_of("int x; \n")), 1)
        self.assertEqual(len(form_of("int x;")), 1)
        self.assertEqual(len(form_of("/* TO" "DO: later */\n")), 1)

    def test_calls(self):
        for call in ("atoi(s)", "strtol (s, 0, 10)", "sprintf(b, s)", "strcpy(a, b)", "strtok(a, b)", "system(s)",
                     "popen(s, m)", "exit(1)", "abort()", "alloca(n)", "basename(p)", "perror(s)"):
            self.assertEqual(len(form_of(f"int f(void) {{\n        {call};\n}}\n")), 1, call)
            self.assertEqual(form_of(f"int f(void) {{\n        my_{call};\n        x->{call};\n}}\n"), [], call)
        self.assertEqual(form_of("int f(void) {\n        exit(1);\n}\n", "src/server/main.c"), [])
        self.assertEqual(len(form_of("int f(void) {\n        goto out;\n}\n")), 1)

    def test_header_guard(self):
        self.assertEqual(len(form_of("int x;\n", "src/base/x.h")), 1)


class Libraries(unittest.TestCase):
    DYNAMIC = (" 0x1 (NEEDED)  Shared library: [libsystemd.so.0]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n"
               " 0x1e (FLAGS)  BIND_NOW\n 0x6ffffffb (FLAGS_1)  Flags: NOW PIE\n")
    HEADERS = "  GNU_STACK  0x0 0x0 0x0 0x0 0x0 RW  0x10\n  GNU_RELRO  0x0\n"

    def judge(self, dynamic=DYNAMIC, headers=HEADERS, name="mcp-exec-launcher"):
        return len(libraries.check_dynamic(name, dynamic, headers))

    def test_rules(self):
        self.assertEqual(self.judge(), 0)
        self.assertEqual(self.judge(self.DYNAMIC + " (NEEDED) Shared library: [libcjson.so.1]\n"), 1)
        self.assertEqual(self.judge(self.DYNAMIC.replace("systemd", "elsewhere")), 2)
        self.assertEqual(self.judge(name="init"), 1)
        self.assertEqual(self.judge(self.DYNAMIC + " (RUNPATH) Library runpath: [/x]\n"), 1)
        self.assertEqual(self.judge(self.DYNAMIC.replace(" PIE", "")), 1)
        self.assertEqual(self.judge(self.DYNAMIC.replace("BIND_NOW", "").replace("NOW ", "")), 1)
        self.assertEqual(self.judge(headers=self.HEADERS.replace("RW ", "RWE")), 1)
        self.assertEqual(self.judge(headers=self.HEADERS.replace("GNU_RELRO", "")), 1)


class SameNumbers(unittest.TestCase):
    def test_differences(self):
        self.assertEqual(same_numbers.compare("x", [("a", ["1"]), ("b", ["1"])]), [])
        self.assertEqual(len(same_numbers.compare("x", [("a", ["1"]), ("b", ["2"])])), 1)
        self.assertEqual(len(same_numbers.compare("x", [("a", []), ("b", ["1"])])), 1)
        self.assertEqual(len(same_numbers.compare("x", [("a", ["1", "1"]), ("b", ["1"])])), 1)


class SettingsDocs(unittest.TestCase):
    def test_readers(self):
        table = settings_docs.keys_of_table('K("A", "One", KIND_BYTES, one, 1, 2 * MIB, "1M"),\n'
                                            'K("B", "Two", KIND_NAMES, two, 0, 0, ""),\n')
        self.assertEqual(table, {("A", "One"): "1M", ("B", "Two"): ""})
        manual = (".Sh [A]\n.Bl\n.It Va One=\nText.\nDefault:\n.Li 1M .\n.El\n"
                  ".Sh [B]\n.It Va Two=\nDefault: empty.\n.Sh NOTES\n.It Va Three=\n")
        self.assertEqual(settings_docs.keys_of_manual(manual), table)
        self.assertEqual(settings_docs.keys_of_file("# Text.\n[A]\n#One=1M\n\n[B]\n#Two=\n"), table)

    def test_differences(self):
        table = {("A", "One"): "1M"}
        self.assertEqual(len(settings_docs.compare("x", {("A", "One"): "1M"}, table)), 0)
        self.assertEqual(len(settings_docs.compare("x", {("A", "One"): "2M"}, table)), 1)
        self.assertEqual(len(settings_docs.compare("x", {}, table)), 1)
        self.assertEqual(len(settings_docs.compare("x", {("A", "One"): "1M", ("A", "Two"): ""}, table)), 1)


class Tree(unittest.TestCase):
    def test_names(self):
        self.assertEqual(tree.check_names(["src/base/fd.c", ".ci/run", "meson.build"]), [])
        for name in ("docs/x.md", "Makefile", "src/base/fd.o", "tests/__pycache__/x.pyc", "src/a b.c", "man/x.1~"):
            self.assertTrue(tree.check_names([name]), name)


class Source(unittest.TestCase):
    def test_bare_code_keeps_positions(self):
        text = 'a /* b\n c */ d "e // \\" f" g \'"\' h // i\nj\n'
        bare = source.bare_code(text)
        self.assertEqual(len(bare), len(text))
        self.assertEqual("".join(bare.split()), "adghj")
        self.assertEqual(bare.count("\n"), text.count("\n"))

    def test_checkout_on_a_machine_without_git_has_files(self):
        with tempfile.TemporaryDirectory() as where, mock.patch.dict("os.environ", {"PATH": "/nonexistent"}), \
                mock.patch.object(host, "TREE", pathlib.Path(where)):
            (host.TREE / ".git").mkdir()
            (host.TREE / ".git" / "config").touch()
            (host.TREE / "a.c").touch()
            self.assertEqual(host.source_files(), ["a.c"])


if __name__ == "__main__":
    unittest.main()
