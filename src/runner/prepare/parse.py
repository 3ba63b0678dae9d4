# SPDX-License-Identifier: MIT
"""parse: what a script says about its packages, read by the reference libraries, in a sandbox.

An order comes on stdin, an answer goes to stdout; README.md beside the source says what is in them. Nothing of the script
runs: its comments are read, its text is compiled and thrown away. All of it is hostile, so everything is bounded, and what
is passed on is written anew from what was understood, never copied.
"""

import os
import re
import resource
import signal
import subprocess
import sys

from block import find_block, read_toml
from common import printable, read_order, shown, write_answer
from requirement import (REQUIREMENT_BYTES_MAX, SPEC, InvalidSpecifier, InvalidVersion, Refused, SpecifierSet, Version,
                         read_requirement)

REQUIREMENTS_MAX = 200
FINDINGS_MAX = 100
INTERPRETERS_MAX = 64
READ_CPU_SECONDS = 5     # far more than anything takes that somebody wrote
SYNTAX_SECONDS = 10
SYNTAX_MEMORY_BYTES = 1 << 30
DEFAULTS = {"script": "", "dependencies": [], "lines": [], "python_version": "", "check_syntax": True,
            "read_cpu_s": READ_CPU_SECONDS, "interpreters": [], "policy": {}}

ERROR, WARNING = "error", "warning"
KNOWN_KEYS = ("dependencies", "requires-python", "tool")
TOOL_UV_KEYS = {
    "exclude-newer": r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d))?",
    "prerelease": r"disallow|allow|if-necessary|explicit|if-necessary-or-explicit",
    "resolution": r"highest|lowest|lowest-direct",
}
TOOL_UV_LISTS = ("constraint-dependencies", "override-dependencies")

# Runs in the interpreter that the script is for, because each version has its own idea of the language.
SYNTAX_PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
try:
    compile(sys.stdin.buffer.read(), "main.py", "exec", 0, True)
except SyntaxError as e:
    # A codec's error comes as one, too.
    where = (e.lineno or 0, e.offset or 0, str(e.msg))
except (ValueError, LookupError, OverflowError) as e:
    where = (0, 0, str(e))
except RecursionError:
    where = (0, 0, "the expressions are nested too deeply for Python")
except MemoryError:
    where = (0, 0, "the expressions are nested too deeply or too large for Python")
else:
    where = ()
for part in where:
    sys.stdout.buffer.write(ascii(part).encode() + b"\\n")
"""


class TooSlow(BaseException):
    """The text was made to be slow to read. No library takes it for an error of its own."""


class Findings:
    def __init__(self):
        self.entries = []
        self.n_errors = 0

    def add(self, severity, kind, line, column, message):
        self.n_errors += severity == ERROR
        if len(self.entries) < FINDINGS_MAX:
            self.entries.append({"severity": severity, "kind": kind, "line": line, "column": column,
                                 "message": printable(message)})
        elif self.n_errors and all(entry["severity"] != ERROR for entry in self.entries):
            # Never an invalid script without a reason.
            self.entries[-1] = {"severity": severity, "kind": kind, "line": line, "column": column,
                                "message": printable(message)}

    def error(self, kind, message, line=0, column=0):
        self.add(ERROR, kind, line, column, message)

    def warning(self, kind, message, line=0, column=0):
        self.add(WARNING, kind, line, column, message)


class Reader:
    """One order on its way to its answer."""

    def __init__(self, order):
        self.findings = Findings()
        self.order = order
        self.policy = {key: order.get("policy", {}).get(key) or empty
                       for key, empty in (("allow", []), ("deny", []), ("direct_urls", False), ("vcs", False),
                                          ("tool_uv", False), ("python_downloads", False))}
        self.requirements = set()
        self.requires_python = ""
        self.tool_uv = {}
        self.block = None

    def read_list(self, entries, name, place):
        """Some requirements. name(i, entry) says in a sentence where an entry stands, place(i, entry) in numbers."""
        result = []
        for i, entry in enumerate(entries[:REQUIREMENTS_MAX + 1]):
            if i == REQUIREMENTS_MAX:
                self.findings.error("limit", f"There are {len(entries)} dependencies; {REQUIREMENTS_MAX} are allowed.")
                break
            try:
                result.append(read_requirement(entry, self.policy))
            except Refused as e:
                line, column = place(i, entry) if isinstance(entry, str) else (0, 0)
                self.findings.error(e.kind, f"{name(i, entry)} {e}.", line, column)
        return result

    def read_block(self):
        metadata = read_toml(self.block, self.findings)
        if metadata is None:
            return
        block = self.block
        # Each is looked for in the whole block, and no more than these are told.
        for key in [key for key in metadata if key not in KNOWN_KEYS][:FINDINGS_MAX]:
            self.findings.warning("metadata", f"The key {shown(key)} of the block is not known and is ignored.",
                                  *block.place_of_key(key))
        dependencies = metadata.get("dependencies", [])
        if not isinstance(dependencies, list):
            self.findings.error("metadata", "'dependencies' in the block must be a list of strings.",
                                *block.place_of_key("dependencies"))
        else:
            self.requirements.update(self.read_list(dependencies, lambda i, entry: f"The dependency {shown(entry)}",
                                                    lambda i, entry: block.place(entry)))
        self.read_requires_python(metadata.get("requires-python", ""))
        tool = metadata.get("tool", {})
        if not isinstance(tool, dict):
            self.findings.error("metadata", "'tool' in the block must be a table.", *block.place_of_key("tool"))
        elif "uv" in tool:
            self.read_tool_uv(tool["uv"])

    def read_requires_python(self, text):
        where = self.block.place_of_key("requires-python")
        if not isinstance(text, str):
            self.findings.error("metadata", "'requires-python' in the block must be a string.", *where)
            return
        if len(text) > REQUIREMENT_BYTES_MAX:
            self.findings.error("limit", f"'requires-python' is longer than {REQUIREMENT_BYTES_MAX} characters.", *where)
            return
        try:
            written = ",".join(sorted(str(spec).replace(" ", "") for spec in SpecifierSet(text)))
        except (InvalidSpecifier, InvalidVersion, ValueError):
            hint = "; a version alone needs an operator, as in '>=3.12'" if re.match(r"\s*[0-9]", text) else ""
            self.findings.error("requires-python", f"'requires-python' in the block is not valid: {shown(text)}{hint}.", *where)
            return
        if written and not re.fullmatch(rf"{SPEC}(?:,{SPEC})*", written):
            self.findings.error("requires-python", f"'requires-python' in the block has characters that are not taken: "
                                f"{shown(text)}.", *where)
            return
        self.requires_python = written

    def read_tool_uv(self, table):
        where = next(((self.block.first + i + 1, 3) for i, line in enumerate(self.block.lines)
                      if re.match(r"\s*\[+\s*tool\s*\.\s*[\"']?uv\b", line)), (self.block.first, 1))
        if not self.policy["tool_uv"]:
            self.findings.error("policy", "The block has a table [tool.uv]; the administrator does not allow scripts to "
                                "configure the resolver. Remove the table.", *where)
            return
        if not isinstance(table, dict):
            self.findings.error("metadata", "'tool.uv' in the block must be a table.", *where)
            return
        for key, value in table.items():
            if key in TOOL_UV_KEYS:
                # TOML has dates of its own.
                value = value.isoformat() if hasattr(value, "isoformat") else value
                if not isinstance(value, str) or not re.fullmatch(TOOL_UV_KEYS[key], value, re.ASCII):
                    self.findings.error("metadata", f"'tool.uv.{key}' in the block has a value that is not taken.", *where)
                else:
                    self.tool_uv[key] = value
            elif key in TOOL_UV_LISTS and isinstance(value, list):
                self.tool_uv[key] = sorted(set(self.read_list(
                    value, lambda i, entry, key=key: f"The entry {shown(entry)} of 'tool.uv.{key}'",
                    lambda i, entry: self.block.place(entry))))
            else:
                self.findings.error("policy", f"'tool.uv.{printable(key, 60)}' in the block is not taken: where packages "
                                    "come from is the administrator's to say. Taken are "
                                    f"{', '.join((*TOOL_UV_KEYS, *TOOL_UV_LISTS))}.", *where)

    def read_in_time(self):
        def stop(*_):
            raise TooSlow

        signal.signal(signal.SIGVTALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, self.order["read_cpu_s"])
            self.read_script()
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except TooSlow:
            self.findings.error("limit", "What the script says about its packages takes too long to read. Make it simpler.")

    def read_script(self):
        script = self.order["script"]
        self.block = find_block(script, self.findings)
        if self.block is not None:
            self.read_block()
        entries, lines = self.order["dependencies"], self.order["lines"]
        if lines:  # of a file
            self.requirements.update(self.read_list(entries, lambda i, entry: shown(entry), lambda i, entry: (lines[i], 0)))
        else:
            self.requirements.update(self.read_list(entries, lambda i, entry: f"dependencies[{i}] {shown(entry)}",
                                                    lambda i, entry: (0, 0)))
        if len(self.requirements) > REQUIREMENTS_MAX:
            self.findings.error("limit", f"There are {len(self.requirements)} dependencies; {REQUIREMENTS_MAX} are allowed.")

    # --- interpreters --------------------------------------------------------------------------------------------------

    def versions(self):
        """[(index, path, Version)] of those that work."""
        result = []
        for entry in self.order["interpreters"][:INTERPRETERS_MAX]:
            text = entry.get("version") or ask_version(entry["path"])
            try:
                result.append((entry["index"], entry["path"], Version(text)))
            except InvalidVersion:
                continue
        return result

    def choose(self, versions):
        """Index, path and version of the interpreter for this script, or (-1, None, None) and a finding."""
        wanted = self.order["python_version"]
        if wanted and not re.fullmatch(r"\d{1,4}(\.\d{1,4}){0,2}", wanted, re.ASCII):
            self.findings.error("requires-python", f"The Python version {shown(wanted)} is not a version such as 3.12.")
            return -1, None, None
        prefix = tuple(map(int, wanted.split("."))) if wanted else ()
        specifiers = SpecifierSet(self.requires_python)
        for index, path, version in versions:
            if version.release[:len(prefix)] == prefix and specifiers.contains(version, prereleases=True):
                return index, path, version
        line, column = self.block.place_of_key("requires-python") if self.block and self.requires_python else (0, 0)
        request = ",".join(filter(None, (self.requires_python, self.exactly(prefix))))
        if versions and self.policy["python_downloads"]:
            # uv looks for one; the program itself is started by the first of those that are here.
            self.tool_uv["python"] = request
            self.findings.warning("requires-python", f"No installed interpreter fits; one is downloaded for Python {request}.",
                                  line, column)
            return versions[0]
        reasons = []
        if self.requires_python:
            reasons.append(f"the script requires Python {self.requires_python}")
        if wanted:
            reasons.append(f"this server was started with --python-version {wanted}")
        have = ", ".join(str(version) for _, _, version in versions) or "none"
        remedy = (" Start the server without that option, or install that version and name it in Python= or ExtraPythons=."
                  if wanted and not any(version.release[:len(prefix)] == prefix for _, _, version in versions) else "")
        self.findings.error("requires-python", f"No interpreter fits: {' and '.join(reasons) or 'there is none'}; "
                            f"installed: {have}.{remedy}", line, column)
        return -1, None, None

    @staticmethod
    def exactly(prefix):
        """The specifier for (3, 12) or (3, 12, 4)."""
        return "==" + ".".join(map(str, prefix)) + (".*" if len(prefix) < 3 else "") if prefix else ""

    def answer(self):
        self.read_in_time()
        versions = self.versions()
        index, path, version = self.choose(versions)
        if self.order["check_syntax"] and "python" not in self.tool_uv:
            check_syntax(self.order["script"], path or sys.executable, self.findings)
        is_valid = self.findings.n_errors == 0
        return {
            "findings": self.findings.entries,
            "requirements": sorted(self.requirements) if is_valid else [],
            "requires_python": self.requires_python,
            "interpreter": index,
            "interpreter_version": str(version) if version else "",
            "interpreters": [{"index": i, "version": str(v)} for i, _, v in versions],
            "tool_uv": self.tool_uv if is_valid else {},
        }


def limit_child():
    resource.setrlimit(resource.RLIMIT_AS, (SYNTAX_MEMORY_BYTES, SYNTAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ask_version(path):
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return sys.version.split()[0].rstrip("+")
    program = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run([path, "-I", "-S", "-c", program], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=SYNTAX_SECONDS, preexec_fn=limit_child)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("ascii", "replace").strip()[:40] if done.returncode == 0 else ""


def check_syntax(script, python, findings):
    """Whether the interpreter takes the script. Another process: some scripts bring a compiler down."""
    try:
        source = script.encode()
    except UnicodeEncodeError as e:
        findings.error("encoding", f"The script has half of a character (a lone surrogate) at position {e.start}.")
        return
    try:
        done = subprocess.run([python, "-I", "-S", "-c", SYNTAX_PROGRAM], input=source, capture_output=True,
                              timeout=SYNTAX_SECONDS, preexec_fn=limit_child)
    except subprocess.TimeoutExpired:
        findings.warning("syntax", f"Python needs more than {SYNTAX_SECONDS} s to compile the script; its syntax is not "
                         "checked.")
        return
    except (OSError, subprocess.SubprocessError):
        findings.warning("syntax", "The interpreter did not start; the script's syntax is not checked.")
        return
    if done.returncode != 0:
        findings.error("syntax", "Python's compiler fails on this script; most likely it is nested too deeply.")
        return
    parts = done.stdout.decode("ascii", "replace").splitlines()
    if len(parts) == 3:
        # ascii() of a number or of a string.
        line, column = (int(part) if part.isdecimal() else 0 for part in parts[:2])
        message = parts[2][1:-1].encode().decode("unicode_escape", "replace")
        kind = "encoding" if line == 0 and "codec" in message else "syntax"
        findings.error(kind, f"SyntaxError: {message}.", line, max(column, 0))


def main():
    write_answer(Reader(read_order(DEFAULTS)).answer())


if __name__ == "__main__":
    main()
