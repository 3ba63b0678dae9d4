# SPDX-License-Identifier: MIT
"""versions: which interpreters and which uv there are, asked of the programs themselves, in a sandbox.

Nothing of a caller's is in it. README.md beside the source says what order and answer are. Standard library only.
"""

import re
import resource
import subprocess

from common import read_order, write_answer

ASK_SECONDS = 10
INTERPRETERS_MAX = 64
PYTHON_PROGRAM = "import platform; print(platform.python_version())"
DEFAULTS = {"interpreters": [], "uv": ""}


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def said(*command):
    """The first line that a program prints, "" where it does not work."""
    try:
        # uv looks for a directory of its own even when it is asked for no more than this.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS,
                              preexec_fn=no_core, env={"HOME": "/tmp/home", "LANG": "C.UTF-8"})
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("ascii", "replace").splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else ""


def python_version(path):
    found = re.fullmatch(r"\d{1,3}\.\d{1,3}\.\d{1,3}[a-z0-9+.]{0,20}", said(path, "-I", "-S", "-c", PYTHON_PROGRAM))
    return found[0].rstrip("+") if found else ""


def uv_version(path):
    found = re.match(r"uv (\d{1,5}\.\d{1,5}\.\d{1,5}[a-z0-9.+-]{0,12})(\s|$)", said(path, "--version") if path else "")
    return found[1] if found else ""


def main():
    order = read_order(DEFAULTS)
    entries = [entry for entry in order["interpreters"][:INTERPRETERS_MAX] if entry.get("path")]
    told = [{"index": entry["index"], "version": python_version(entry["path"])} for entry in entries]
    write_answer({"interpreters": [each for each in told if each["version"]], "uv_version": uv_version(order["uv"])})


if __name__ == "__main__":
    main()
