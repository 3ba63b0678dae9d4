# SPDX-License-Identifier: MIT
"""What the programs that prepare packages have in common: orders, answers, and what may be said in them."""

import base64
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys

ORDER_BYTES_MAX = 8 << 20
LOG_BYTES_MAX = 64 << 10
MESSAGE_MAX = 1000


class Failed(Exception):
    """The end of it, with a word for programs and a sentence for the caller."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class DiskFull(Failed):
    def __init__(self):
        super().__init__("disk-full", "The disk with the sets of packages (below /var/lib/mcp-exec/sets, or ~/.local/state/mcp-exec "
                         "in user mode) is full. The administrator can make room on it, or remove sets (mcp-exec env remove).")


class NoUv(Failed):
    def __init__(self):
        super().__init__("no-uv", "uv, which resolves and installs packages, is not there. The administrator has to install it, or "
                         "to correct UvPath= in mcp-exec.conf; mcp-exec check says how.")


class BrokenUv(Failed):
    def __init__(self, how):
        super().__init__("no-uv", f"uv, which resolves and installs packages, {how}: the program that is found as uv does not work, "
                         "or is no uv. The administrator has to install it anew where it is, or to name another one with UvPath= "
                         "in mcp-exec.conf; mcp-exec check says which one is found.")


class EndedUv(Failed):
    def __init__(self, number):
        super().__init__("internal", f"uv was ended by signal {number}; most likely it ran into a limit. Try again; if it stays so, the "
                         "administrator has to look whether uv works (mcp-exec check).")


class NoGit(Failed):
    def __init__(self):
        super().__init__("internal", "git, which brings packages from repositories, is not installed. The administrator has to "
                         "install it.")


class Secrets:
    """What must not appear in a message, whoever wrote it: passwords, and paths that are here only."""

    def __init__(self):
        self.words = set()
        self.places = {}

    def add(self, word):
        # A shorter one is no secret, and hiding it would make every message unreadable.
        if word and len(word) >= 4:
            self.words.add(word)

    def hide(self, text):
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, "***")
        for inside in sorted(self.places, key=len, reverse=True):
            # Alone, or the beginning of a path; no part of a URL.
            text = re.sub(rf"(?<![\w./:-]){re.escape(inside)}(?![\w-])(/[\w./@+-]*)?", lambda _: self.places[inside], text)
        return re.sub(r"://[^/@\s]+@", "://***@", text)


secrets = Secrets()


def basic(login, password):
    result = base64.b64encode(f"{login}:{password}".encode()).decode()
    for word in (login, password, result):
        secrets.add(word)
    return result


def printable(text, n_max=MESSAGE_MAX):
    """One line that any reader of JSON can take: no control characters, no halves of characters, no secrets."""
    text = str(text)
    is_cut = len(text) > 16 * n_max
    text = secrets.hide(text[:16 * n_max])
    if is_cut:
        # There may be the beginning of a secret, which is not known as one.
        text = text[:max(0, len(text) - max(map(len, secrets.words), default=0))]
    text = "".join(c if c.isprintable() and not "\ud800" <= c <= "\udfff" else " " for c in text)
    text = " ".join(text.split())
    return text if len(text) <= n_max else text[:n_max - 1] + "…"


def end_of(text, n_max):
    """printable(), of the end: a compiler says last why it gives up."""
    text = printable(text, 2 * LOG_BYTES_MAX)
    return text if len(text) <= n_max else "…" + text[1 - n_max:]


def shown(text, n_max=80):
    """A part of hostile text, inside a sentence."""
    return "'" + printable(text, n_max) + "'"


def progress(text):
    os.write(2, b"@ " + printable(text, 118).encode("ascii", "replace") + b"\n")


def spelled(host):
    """A host in the one spelling in which they are compared: uv writes addresses its own way."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def canonical(name):
    """A package's name as all of its spellings are written."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pattern_matches(pattern, name):
    """Whether an administrator's pattern means this canonical name."""
    return re.fullmatch(".*".join(map(re.escape, canonical(str(pattern).strip()).split("*"))), name) is not None


def read_order(defaults):
    """The order, with what was left out."""
    data = sys.stdin.buffer.read(ORDER_BYTES_MAX + 1)
    order = json.loads(data) if len(data) <= ORDER_BYTES_MAX else None
    if not isinstance(order, dict):
        sys.exit("the order is not understood")
    for key, empty in defaults.items():
        if order.setdefault(key, empty) is None:
            order[key] = empty
        if not isinstance(order[key], (int, float) if type(empty) is int else type(empty)):
            sys.exit(f"'{key}' of the order has the wrong type")
    return order


def rename_places(order):
    """Messages name files as people know them."""
    prefix = order["prefix"]
    secrets.places |= {prefix + "/.tmp": "a temporary file", prefix: "the set"}
    for inside, outside in order["outside"].items():
        # A name alone is that of a credential.
        inside = inside if "/" in inside else os.environ.get("CREDENTIALS_DIRECTORY", "") + "/" + inside
        secrets.places[inside] = str(outside)


def write_answer(answer):
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def error_answer(error, what):
    """The answer for a Failed or an OSError."""
    if isinstance(error, OSError):
        # ENOSPC, EDQUOT
        error = DiskFull() if error.errno in (28, 122) else Failed("internal", f"{what}: {error.strerror or error}.")
    answer = {"kind": error.kind, "message": printable(error)}
    if hosts := getattr(error, "hosts", None):
        answer["internal_hosts"] = [{"host": host, "address": str(address)} for host, address in hosts.items()]
    return {"error": answer}


def run_child(command, directory, environment, seconds, **more):
    """Runs a program for so long. Returns its status, negative for a signal, and its stderr; of much the start and the end."""
    with open(environment["TMPDIR"] + "/log", "w+b") as log:
        child = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, **more)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = -signal.SIGKILL
        n_bytes = log.seek(0, os.SEEK_END)
        log.seek(0)
        said = log.read(LOG_BYTES_MAX if n_bytes <= LOG_BYTES_MAX else LOG_BYTES_MAX // 2)
        if n_bytes > LOG_BYTES_MAX:
            log.seek(n_bytes - LOG_BYTES_MAX // 2)
            # From a line's beginning, for half of a secret would not be known as one.
            said += b"\n" + log.read(LOG_BYTES_MAX // 2).partition(b"\n")[2]
        return status, said.decode(errors="replace")


def run_uv(command, *arguments, **more):
    """run_child() for uv."""
    try:
        return run_child(command, *arguments, **more)
    except OSError as e:
        # Not of the log: a script without its interpreter, a program for another machine.
        if e.filename != command[0]:
            raise
        raise BrokenUv(f"cannot be started ({e.strerror})") from None


def uv_environment(work):
    """What uv gets of the world: nothing that configures it, and everything it writes below work."""
    return {
        "PATH": "/nonexistent", "HOME": work, "TMPDIR": work, "LANG": "C.UTF-8", "UV_CACHE_DIR": work + "/cache",
        "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "UV_KEYRING_PROVIDER": "disabled",
        "UV_CONCURRENT_DOWNLOADS": "8", "UV_CONCURRENT_BUILDS": "1", "UV_CONCURRENT_INSTALLS": "4",
        "RAYON_NUM_THREADS": "4", "TOKIO_WORKER_THREADS": "2",
    }
