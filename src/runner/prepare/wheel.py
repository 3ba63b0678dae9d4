# SPDX-License-Identifier: MIT
"""A wheel, and whether it is one that may be unpacked."""

import hashlib
import os
import re
import stat
import zipfile

from common import Failed, printable

PATH_BYTES_MAX = 1024
NAME_BYTES_MAX = 255
OWN = (".lock", ".wheels", ".tmp", "pyvenv.cfg", "mcp-exec-set.json")
INTERPRETER = re.compile(r"python(\d+(\.\d+)*)?t?(-config)?", re.IGNORECASE)


class Wheel:
    """One wheel file, and whether it is one that may be unpacked."""

    def __init__(self, directory, facts, has_python):
        self.facts = facts
        self.has_python = has_python    # the set has an interpreter of its own, in python/
        self.file = facts["file"]
        self.path = directory + "/" + self.file

    def refuse(self, reason):
        raise Failed("wheel", f"The wheel {printable(self.file, 150)} is refused: {reason}. Nothing was installed.")

    def check_hash(self):
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            self.refuse("it is not there")
        with open(fd, "rb") as f:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                self.refuse("it is no file")
            if hashlib.file_digest(f, "sha256").hexdigest() != self.facts["sha256"]:
                raise Failed("hash-mismatch", f"The wheel {self.file} is not the one that was fetched. Nothing was installed.")

    def check_content(self, limits):
        """Looks at the directory of the archive. limits has what all wheels together may use, and is used up."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, RecursionError) as e:
            self.refuse(f"it is no archive that can be read ({printable(e, 100)})")
        limits["files"] -= len(entries)
        limits["bytes"] -= sum(entry.file_size for entry in entries)
        if limits["files"] < 0 or limits["bytes"] < 0:
            raise Failed("too-large", f"The packages are too large or have too many files once they are unpacked (at "
                         f"{self.file}).")
        seen = {}
        for entry in entries:
            self.check_entry(entry, seen)

    def check_entry(self, entry, seen):
        # orig_filename: zipfile cuts a name at its NUL and turns the other separators around.
        name = entry.orig_filename
        shown = "'" + printable(name, 120) + "'"
        parts = name.rstrip("/").split("/")
        if not re.fullmatch(r"[^\x00-\x1f\x7f\\]+", name) or any("\ud800" <= c <= "\udfff" for c in name):
            self.refuse(f"the name {shown} in it has characters that names of files must not have")
        if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
            self.refuse(f"the name {shown} in it leads out of the set")
        if len(name.encode()) > PATH_BYTES_MAX or any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
            self.refuse(f"the name {shown} in it is too long")
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            self.refuse(f"{shown} in it is a link or a special file")
        if mode & (stat.S_ISUID | stat.S_ISGID):
            self.refuse(f"{shown} in it has the setuid or setgid bit")
        if entry.flag_bits & 1:
            self.refuse(f"{shown} in it is encrypted")
        is_directory = name.endswith("/")
        key = "/".join(parts)
        # Which of two it is would depend on who unpacks.
        if seen.setdefault(key, is_directory) != is_directory or (key in seen and not is_directory and
                                                                  seen.get("\0" + key)):
            self.refuse(f"{shown} is in it twice")
        seen["\0" + key] = True
        for i in range(1, len(parts)):
            if seen.setdefault("/".join(parts[:i]), True) is not True:
                self.refuse(f"{shown} in it is below a file")
        self.check_scheme(parts, shown)

    def check_scheme(self, parts, shown):
        """X.data/SCHEME/…: what goes to other places than site-packages."""
        if not parts[0].endswith(".data") or len(parts) < 2:
            return
        scheme, rest = parts[1], parts[2:]
        if scheme not in ("purelib", "platlib", "scripts", "headers", "data"):
            self.refuse(f"{shown} in it is for a place that does not exist")
        if scheme == "data" and rest:
            if rest[0] in OWN or rest[0].startswith(".removed-"):
                self.refuse(f"{shown} in it would replace a file of the set itself")
            if self.has_python and rest[0] == "python":
                self.refuse(f"{shown} in it would replace the interpreter")
            if rest[0] in ("bin", "lib", "lib64") and len(rest) == 1 and not shown.endswith("/'"):
                self.refuse(f"{shown} in it would stand in the place of a directory")
        script = rest[0] if scheme == "scripts" and rest else rest[1] if rest[:1] == ["bin"] and rest[1:] else ""
        if INTERPRETER.fullmatch(script):
            self.refuse(f"{shown} in it would replace the interpreter")
