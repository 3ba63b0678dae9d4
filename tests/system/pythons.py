# SPDX-License-Identifier: MIT
"""An interpreter for uv to download: the one that runs this, packed as those of python-build-standalone are (a tar.gz
"install_only", with one directory "python" that has bin, lib and links like theirs; named by version, date and machine), under
another version. uv knows the hashes of the real ones, so it has to be told of this one, by a program that stands before it."""

import hashlib
import io
import json
import os
import pathlib
import platform
import sys
import sysconfig
import tarfile

# The mirror stands in the place of this.
ORIGIN = "https://github.com/astral-sh/python-build-standalone/releases/download"
DATE = "20260211"
LEFT_OUT = ("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages", "__pycache__",
            "pydoc_data", "config-", "LICENSE")


def version():
    """One that this machine has not: a later patch of this Python."""
    return "%d.%d.%d" % (*sys.version_info[:2], sys.version_info[2] + 1)


def file_name():
    return f"cpython-{version()}+{DATE}-{platform.machine()}-unknown-linux-gnu-install_only_stripped.tar.gz"


def archive():
    """Its content."""
    minor = "python3.%d" % sys.version_info[1]
    out = io.BytesIO()

    def chosen(entry):
        name = entry.name.split(f"python/lib/{minor}/")[-1]
        if name.split("/")[0].startswith(LEFT_OUT) or "__pycache__" in name or not (entry.isreg() or entry.isdir()):
            return None
        entry.uid = entry.gid = 0
        return entry

    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1, dereference=True) as tar:
        tar.add(os.path.realpath(sys.executable), f"python/bin/{minor}")
        tar.add(sysconfig.get_path("stdlib"), f"python/lib/{minor}", filter=chosen)
        for name in ("python", "python3"):
            entry = tarfile.TarInfo("python/bin/" + name)
            entry.type, entry.linkname = tarfile.SYMTYPE, minor
            tar.addfile(entry)
        # The later entry is the one that stays.
        text = pathlib.Path(platform.__file__).read_text() + f"\n\ndef python_version():\n    return {version()!r}\n"
        entry = tarfile.TarInfo(f"python/lib/{minor}/platform.py")
        entry.size = len(text.encode())
        tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def told_uv(directory, uv, content):
    """A program in the directory that is uv, but knows of this interpreter and of no other."""
    top = pathlib.Path(directory)
    major, minor, patch = map(int, version().split("."))
    (top / "downloads.json").write_text(json.dumps({f"cpython-{version()}-linux-{platform.machine()}-gnu": {
        "name": "cpython", "arch": {"family": platform.machine(), "variant": None}, "os": "linux", "libc": "gnu", "major": major,
        "minor": minor, "patch": patch, "prerelease": "", "url": f"{ORIGIN}/{DATE}/{file_name().replace('+', '%2B')}",
        "sha256": hashlib.sha256(content).hexdigest(), "variant": None, "build": DATE}}))
    program = top / "told-uv"
    program.write_text(f'#!/bin/sh\nexport UV_PYTHON_DOWNLOADS_JSON_URL="{top}/downloads.json"\nexec "{uv}" "$@"\n')
    program.chmod(0o755)
    (top / "downloads.json").chmod(0o644)
    return str(program)
