# SPDX-License-Identifier: MIT
"""parse: what a script says about its packages, read by the reference libraries, in a sandbox.

An order comes on stdin, an answer goes to stdout; README.md beside the source says what is in them. Nothing of the script
runs: its comments are read, its text is compiled and thrown away. All of it is hostile, so everything is bounded, and what
is passed on is written anew from what was understood, never copied.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tomllib

try:
    from packaging.markers import InvalidMarker
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version
except ImportError:
    sys.exit("parse: the interpreter has no module 'packaging' (Debian: python3-packaging)")

ORDER_BYTES_MAX = 8 << 20
BLOCK_BYTES_MAX = 64 << 10
REQUIREMENTS_MAX = 200
REQUIREMENT_BYTES_MAX = 512
FINDINGS_MAX = 100
MESSAGE_MAX = 1000
INTERPRETERS_MAX = 64
SYNTAX_SECONDS = 10
SYNTAX_MEMORY_BYTES = 1 << 30

ERROR, WARNING = "error", "warning"
KNOWN_KEYS = ("dependencies", "requires-python", "tool")
TOOL_UV_KEYS = {
    "exclude-newer": r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d))?",
    "prerelease": r"disallow|allow|if-necessary|explicit|if-necessary-or-explicit",
    "resolution": r"highest|lowest|lowest-direct",
}
TOOL_UV_LISTS = ("constraint-dependencies", "override-dependencies")

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
SPEC = r"(?:===|==|!=|<=|>=|~=|<|>)[A-Za-z0-9._+!*-]+"
URL = r"(?:https|git\+https)://[A-Za-z0-9._~:/?#@!&*+,=%-]+"
MARKER = r'[A-Za-z0-9_.+*!,<>=~() "-]+'
LINE = re.compile(rf"{NAME}(?:\[{NAME}(?:,{NAME})*\])?(?:{SPEC}(?:,{SPEC})*| @ {URL})?(?: ; {MARKER})?")
# What a marker compares with. A blank before a hyphen would look like an option to readers of requirements files.
MARKER_VALUE = re.compile(r"[A-Za-z0-9_.+*!,~()-]*(?: [A-Za-z0-9_.+*!,~()][A-Za-z0-9_.+*!,~()-]*)*")

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


class Refused(Exception):
    """A requirement that is not taken; the text is the reason, kind says of which sort."""

    def __init__(self, message, kind="requirement"):
        super().__init__(message)
        self.kind = kind


def printable(text, n_max=MESSAGE_MAX):
    """One line of text that any reader of JSON can take: no control characters, no halves of characters."""
    text = "".join(c if c.isprintable() and not "\ud800" <= c <= "\udfff" else " " for c in str(text)[:4 * n_max])
    text = " ".join(text.split())
    return text if len(text) <= n_max else text[:n_max - 1] + "…"


def shown(text):
    """A part of hostile text, inside a sentence."""
    return "'" + printable(text, 80) + "'"


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


# --- the block ---------------------------------------------------------------------------------------------------------

OPENING = re.compile(r"# /// ([a-zA-Z0-9-]+)")
# What its author most likely meant for one.
NEARLY_OPENING = re.compile(r"#[ \t]*/{2,4}[ \t]*script[ \t]*", re.IGNORECASE)
NEARLY_CLOSING = re.compile(r"[ \t]*#[ \t]*/{2,4}[ \t]*")


class Block:
    """Lines first..last (from 0, without the fences) of the script."""

    def __init__(self, lines, first, last):
        self.first = first
        self.lines = [line[2:] if line.startswith("# ") else line[1:] for line in lines[first:last + 1]]

    def place(self, text):
        """Line and column, from 1, of a value in the script: where its text first stands between quotes."""
        for i, line in enumerate(self.lines):
            for quote in "\"'":
                at = line.find(quote + text + quote)
                if at >= 0:
                    return self.first + i + 1, at + 4
        return 0, 0

    def place_of_key(self, key):
        for i, line in enumerate(self.lines):
            if re.match(rf"[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", line):
                return self.first + i + 1, line.index(key) + 3
        return self.first, 1


def is_comment(line):
    return line == "#" or line.startswith("# ")


def find_end(lines, start):
    """The closing fence of a block that opens in lines[start]: the last one of the comment, as the standard says.

    Returns its index or None, and the index behind the comment."""
    end = start + 1
    closing = None
    while end < len(lines) and is_comment(lines[end]):
        if lines[end] == "# ///":
            closing = end
        end += 1
    return closing, end


def report_unclosed(lines, start, end, findings):
    for i in range(start + 1, min(end + 1, len(lines))):
        if NEARLY_CLOSING.fullmatch(lines[i]) and lines[i] != "# ///":
            findings.error("block", f"The block that opens in line {start + 1} is not closed: line {i + 1} must be "
                           "exactly '# ///', without blanks before or after it.", i + 1, 1)
            return
    reason = ""
    if end < len(lines) and lines[end].strip():
        reason = f" Line {end + 1} ends it, for it is not a comment that starts with '# '."
    findings.error("block", f"The block that opens in line {start + 1} is not closed: a line '# ///' is missing.{reason}",
                   start + 1, 1)


def find_block(script, findings):
    """The script's one block of metadata, or None."""
    # As Python divides its source. A byte order mark is no part of the first line.
    lines = re.split(r"\r\n|\n|\r", script.removeprefix("\ufeff"))
    block = None
    i = 0
    while i < len(lines):
        line = lines[i]
        opening = OPENING.fullmatch(line) if line.startswith("# ///") else None
        if opening is None:
            if line.startswith("#") and NEARLY_OPENING.fullmatch(line):
                report_nearly(line, i, findings)
            i += 1
            continue
        closing, end = find_end(lines, i)
        is_script = opening[1] == "script"
        if closing is None:
            if is_script:
                report_unclosed(lines, i, end, findings)
            i += 1
            continue
        if is_script and block is not None:
            findings.error("block", f"There is a second 'script' block in line {i + 1}; the first is in line "
                           f"{block.first}. Put everything into one.", i + 1, 1)
        elif is_script:
            block = Block(lines, i + 1, closing - 1)
        i = closing + 1
    return block


def report_nearly(line, i, findings):
    if line.rstrip() == "# /// script":
        findings.error("block", f"Line {i + 1} opens no block, for blanks follow '# /// script'. Remove them.",
                       i + 1, len(line.rstrip()) + 1)
    else:
        findings.warning("block", f"Line {i + 1} looks like the start of a block but is not: it must be exactly "
                         "'# /// script'. It is taken for a comment.", i + 1, 1)


def read_toml(block, findings):
    """The block's content as a dict, or None."""
    text = "\n".join(block.lines)
    if len(text) > BLOCK_BYTES_MAX:
        findings.error("block", f"The block has {len(text)} characters; {BLOCK_BYTES_MAX} are allowed.", block.first, 1)
        return None
    for i, line in enumerate(block.lines):
        if line == "///" or OPENING.fullmatch("# " + line):
            findings.error("block", f"Line {block.first + i + 1} is a fence inside the block that opens in line "
                           f"{block.first}. Blocks are separated by a line that is not a comment.", block.first + i + 1, 1)
            return None
    try:
        return tomllib.loads(text + "\n")
    except tomllib.TOMLDecodeError as e:
        message = str(e)
        at = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
        if at:
            line, column = int(at[2]), int(at[3])
        else:
            message = re.sub(r" \(at end of document\)$", "", message) + " at the end of the block"
            line, column = len(block.lines), 0
        # The newline behind the last line is ours.
        line = min(line, max(len(block.lines), 1))
        findings.error("toml", f"The block is not valid TOML: {at[1] if at else message}.", block.first + line,
                       column + 2 if column else 0)
    except (RecursionError, MemoryError):
        findings.error("toml", "The block's values are nested too deeply.", block.first, 1)
    except ValueError as e:
        findings.error("toml", f"The block has a value that cannot be read: {e}.", block.first, 1)
    return None


# --- requirements ------------------------------------------------------------------------------------------------------

def refuse_by_look(text):
    """What is no requirement at all but something that a package client also takes, with a reason of its own."""
    stripped = text.strip()
    if not stripped:
        raise Refused("is empty")
    if len(text.encode(errors="replace")) > REQUIREMENT_BYTES_MAX:
        raise Refused(f"is longer than {REQUIREMENT_BYTES_MAX} bytes", "limit")
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]", text):
        raise Refused("contains a newline or another control character; each entry is one package")
    if stripped.startswith("-"):
        raise Refused("is an option of a package client; only names of packages with versions are taken. Indexes are "
                      "configured by the administrator")
    if "${" in text or re.search(r"\$[A-Za-z_]", text):
        raise Refused("contains a variable; variables are not replaced here")
    if re.search(r"\s--?[a-z]", text):
        raise Refused("has an option behind it; options are not taken")
    if stripped.startswith("#") or re.search(r"\s#", text):
        raise Refused("contains a comment; write comments outside of the quotes")
    if re.match(r"[a-z+]+://|[a-z]+\+[a-z]+:|file:", stripped, re.IGNORECASE):
        raise Refused("is a URL without a name; it is written 'name @ URL', where URLs are allowed at all")
    if re.match(r"[.~/\\]|[A-Za-z]:\\", stripped) or "\\" in text or (
            "@" not in text and (re.match(r"[^\[;<>=!~]*/", stripped) or
                                 re.search(r"\.(whl|tar\.gz|tar\.bz2|tgz|zip)$", stripped))):
        raise Refused("is a path; files of the caller or the server cannot be installed, only packages of the index")


def explain_syntax(text, error):
    """What is wrong with it, and for the frequent mistakes what to write instead."""
    reason = printable(str(error).split("\n")[0], 200).rstrip(".")
    if re.match(r"^[A-Za-z0-9._\[\], -]+=[^=]", text) and not re.search(r"[<>!~=]=", text):
        return f"is not a requirement: a version is compared with '==', not '='. ({reason})"
    if re.match(r"^[A-Za-z0-9._-]+@[0-9]", text.strip()):
        return "is not a requirement: a version is written 'name==1.2', not 'name@1.2'"
    if re.match(r"^[A-Za-z0-9._-]+ +[A-Za-z0-9._-]+$", text.strip()):
        return f"is not a requirement: each package is an entry of its own, a version is written 'name==1.2'. ({reason})"
    return f"is not a requirement as PEP 508 describes them: {reason}"


def check_url(url, policy):
    is_vcs = "+" in url.split("://")[0]
    if is_vcs and not policy["vcs"]:
        raise Refused("names a version control system; only packages of the index are allowed here", "policy")
    if not is_vcs and not policy["direct_urls"]:
        raise Refused("names a URL; only packages of the index are allowed here", "policy")
    if not url.startswith("git+https://" if is_vcs else "https://"):
        raise Refused("has a URL of a kind that is not taken; https:// and git+https:// are")
    if "@" in url.split("://", 1)[1].split("/")[0]:
        raise Refused("has a user name or a password in its URL; they do not belong into a script")
    if not re.fullmatch(URL, url):
        raise Refused("has a URL with characters that are not taken")
    return url


def serialise_marker(marker):
    text = str(marker)
    # packaging writes values between double quotes and does not escape what is in them.
    parts = text.split('"')
    if len(parts) % 2 == 0 or not re.fullmatch(MARKER, text) or any(
            MARKER_VALUE.fullmatch(value) is None for value in parts[1::2]):
        raise Refused("has a marker with characters that are not taken")
    return text


def serialise(requirement, policy):
    """The one way in which we write what a requirement says."""
    name = canonicalize_name(requirement.name)
    text = name
    if requirement.extras:
        text += "[" + ",".join(sorted({canonicalize_name(extra) for extra in requirement.extras})) + "]"
    if requirement.url:
        text += " @ " + check_url(requirement.url, policy)
    else:
        text += ",".join(sorted(str(spec).replace(" ", "") for spec in requirement.specifier))
    if requirement.marker is not None:
        text += " ; " + serialise_marker(requirement.marker)
    if LINE.fullmatch(text) is None:
        raise Refused("has characters that are not taken")
    if len(text) > REQUIREMENT_BYTES_MAX:
        raise Refused(f"is longer than {REQUIREMENT_BYTES_MAX} bytes", "limit")
    # What is passed on must mean what was read.
    again = Requirement(text)
    if (canonicalize_name(again.name), again.specifier, str(again.marker), again.url or None) != (
            name, requirement.specifier, str(requirement.marker), requirement.url or None):
        raise Refused("cannot be written in one unambiguous way")
    return text


def pattern_matches(pattern, name):
    pattern = re.sub(r"[-_.]+", "-", str(pattern).strip()).lower()
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def check_names(name, policy):
    if any(pattern_matches(pattern, name) for pattern in policy["deny"]):
        raise Refused(f"is not allowed here: the administrator denies {name}", "policy")
    if policy["allow"] and not any(pattern_matches(pattern, name) for pattern in policy["allow"]):
        raise Refused(f"is not allowed here: {name} is not among the packages that the administrator allows", "policy")


def read_requirement(text, policy):
    """The requirement, written anew. Raises Refused."""
    if not isinstance(text, str):
        raise Refused("is not a string")
    refuse_by_look(text)
    try:
        requirement = Requirement(text)
        check_names(canonicalize_name(requirement.name), policy)
        return serialise(requirement, policy)
    except (InvalidRequirement, InvalidSpecifier, InvalidMarker, InvalidVersion) as e:
        raise Refused(explain_syntax(text, e)) from None
    except (RecursionError, MemoryError):
        raise Refused("is nested too deeply", "limit") from None
    except ValueError as e:
        # Numbers of thousands of digits, for one.
        raise Refused(f"cannot be read: {printable(e, 100)}") from None


class Reader:
    """One order on its way to its answer."""

    def __init__(self, order):
        self.findings = Findings()
        self.order = order
        self.policy = {key: order.get("policy", {}).get(key) or empty
                       for key, empty in (("allow", []), ("deny", []), ("direct_urls", False), ("vcs", False),
                                          ("tool_uv", False))}
        self.requirements = set()
        self.requires_python = ""
        self.tool_uv = {}
        self.block = None

    def read_list(self, entries, name, place):
        """Some requirements. name(i, entry) says in a sentence where an entry stands, place(entry) in numbers."""
        result = []
        for i, entry in enumerate(entries[:REQUIREMENTS_MAX + 1]):
            if i == REQUIREMENTS_MAX:
                self.findings.error("limit", f"There are {len(entries)} dependencies; {REQUIREMENTS_MAX} are allowed.")
                break
            try:
                result.append(read_requirement(entry, self.policy))
            except Refused as e:
                line, column = place(entry) if isinstance(entry, str) else (0, 0)
                self.findings.error(e.kind, f"{name(i, entry)} {e}.", line, column)
        return result

    def read_block(self):
        metadata = read_toml(self.block, self.findings)
        if metadata is None:
            return
        block = self.block
        for key in metadata:
            if key not in KNOWN_KEYS:
                self.findings.warning("metadata", f"The key {shown(key)} of the block is not known and is ignored.",
                                      *block.place_of_key(key))
        dependencies = metadata.get("dependencies", [])
        if not isinstance(dependencies, list):
            self.findings.error("metadata", "'dependencies' in the block must be a list of strings.",
                                *block.place_of_key("dependencies"))
        else:
            self.requirements.update(self.read_list(dependencies, lambda i, entry: f"The dependency {shown(entry)}",
                                                    block.place))
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
                    value, lambda i, entry, key=key: f"The entry {shown(entry)} of 'tool.uv.{key}'", self.block.place)))
            else:
                self.findings.error("policy", f"'tool.uv.{printable(key, 60)}' in the block is not taken: where packages "
                                    "come from is the administrator's to say. Taken are "
                                    f"{', '.join((*TOOL_UV_KEYS, *TOOL_UV_LISTS))}.", *where)

    def read_script(self):
        script = self.order["script"]
        self.block = find_block(script, self.findings)
        if self.block is not None:
            self.read_block()
        entries = self.order["dependencies"]
        self.requirements.update(self.read_list(entries, lambda i, entry: f"dependencies[{i}] {shown(entry)}",
                                                lambda entry: (0, 0)))
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
        reasons = []
        if self.requires_python:
            reasons.append(f"the script requires Python {self.requires_python}")
        if wanted:
            reasons.append(f"version {wanted} is asked for")
        have = ", ".join(str(version) for _, _, version in versions) or "none"
        line, column = self.block.place_of_key("requires-python") if self.block and self.requires_python else (0, 0)
        self.findings.error("requires-python", f"No interpreter fits: {' and '.join(reasons) or 'there is none'}; "
                            f"installed: {have}.", line, column)
        return -1, None, None

    def answer(self):
        self.read_script()
        versions = self.versions()
        index, path, version = self.choose(versions)
        if self.order["check_syntax"]:
            check_syntax(self.order["script"], path or sys.executable, self.findings)
        is_valid = self.findings.n_errors == 0
        return {
            "findings": self.findings.entries,
            "requirements": sorted(self.requirements) if is_valid else [],
            "requires_python": self.requires_python,
            "interpreter": index,
            "interpreter_version": str(version) if version else "",
            "interpreters": [{"index": i, "version": str(v)} for i, _, v in versions],
            "has_block": self.block is not None,
            "n_urls": sum(" @ " in line for line in self.requirements) if is_valid else 0,
            "tool_uv": self.tool_uv if is_valid else {},
        }


def limit_child():
    resource.setrlimit(resource.RLIMIT_AS, (SYNTAX_MEMORY_BYTES, SYNTAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ask_version(path):
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return "%d.%d.%d%s" % (*sys.version_info[:3], {"final": ""}.get(sys.version_info[3], "a0"))
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


def read_order():
    data = sys.stdin.buffer.read(ORDER_BYTES_MAX + 1)
    if len(data) > ORDER_BYTES_MAX:
        sys.exit("parse: the order is too large")
    order = json.loads(data)
    for key, empty in (("script", ""), ("dependencies", []), ("python_version", ""), ("check_syntax", True),
                       ("interpreters", []), ("policy", {})):
        if order.setdefault(key, empty) is None:
            order[key] = empty
        if not isinstance(order[key], type(empty)):
            sys.exit(f"parse: '{key}' of the order has the wrong type")
    return order


def main():
    answer = Reader(read_order()).answer()
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
