# SPDX-License-Identifier: MIT
"""What the test machines need to know about the machine they run on.

Nothing about a network lives in this tree: the package mirror, proxies and extra certificates are read from
the host's own configuration and handed on to the images."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("MCP_EXEC_TEST_CACHE", "/var/cache/mcp-exec-tests"))
CERTIFICATES = pathlib.Path("/usr/local/share/ca-certificates")
SUITES = {"trixie": 257, "bookworm": 252, "sid": 262}
CONTROLLERS = ("memory", "pids", "cpu")
APT_GET = ("apt-get", "-o", "DPkg::Lock::Timeout=300")     # a machine just booted may be upgrading itself
LONGEST_LINE = 300              # of a log, in a message

# Settings of the host's apt that decide whether a package can be fetched at all.
APT_SETTINGS = re.compile(
    r"^(Acquire::(?:https?::[Pp]roxy|https?::CaInfo|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]))"
    r" \"(.+)\";$", re.M)


class Failed(Exception):
    """A step failed; its text says what and where the log is."""


def say(text):
    print(f"tests: {text}", file=sys.stderr, flush=True)


def run(*argv, log=None, check=True, **kwargs):
    """Runs a command, its output in a log file (shown in part when it fails) or inherited."""
    argv = [str(a) for a in argv]
    try:
        if log is None:
            done = subprocess.run(argv, **kwargs)
        else:
            with open(log, "ab") as out:
                out.write(("+ " + " ".join(argv) + "\n").encode())
                out.flush()
                done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, **kwargs)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(argv)[:LONGEST_LINE]}: not over after {error.timeout:g} s"
                     + (f" (log: {log})" if log else "")) from None
    if check and done.returncode != 0:
        tail = ""
        if log is not None:
            lines = pathlib.Path(log).read_text(errors="replace").splitlines()[-40:]
            tail = "\n" + "\n".join(line[:LONGEST_LINE] for line in lines)
        raise Failed(f"{' '.join(argv)[:LONGEST_LINE]}: exit status {done.returncode}"
                     + (f" (log: {log}){tail}" if log else ""))
    return done


def output_of(*argv, check=True):
    return subprocess.run([str(a) for a in argv], check=check, stdout=subprocess.PIPE, text=True).stdout


class Lock:
    """An exclusive lock between processes: two users of one cache build an image once."""

    def __init__(self, name):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.path = CACHE / f".{name}.lock"

    def __enter__(self):
        self.file = open(self.path, "w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds {self.path.name[1:-5]}")
            fcntl.flock(self.file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_):
        self.file.close()


def digest(*parts):
    state = hashlib.sha256()
    for part in parts:
        state.update(part if isinstance(part, bytes) else str(part).encode())
        state.update(b"\0")
    return state.hexdigest()[:12]


def os_release():
    fields = {}
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        fields[key] = value.strip('"')
    return fields


def _deb822_sources(text):
    for stanza in re.split(r"\n\s*\n", text):
        fields = {}
        for line in stanza.splitlines():
            if line.startswith("#") or ":" not in line:
                continue
            key, _, value = line.partition(":")
            fields[key.strip().lower()] = value.split()
        if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
            for uri in fields.get("uris", []):
                for suite in fields.get("suites", []):
                    yield uri, suite


def _one_line_sources(text):
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", line)
        if found:
            yield found.groups()


def _one_mirror(uri):
    """Where that is a file of mirrors, as in images for clouds, the first of them: a machine has no such file. None where
    that cannot be said."""
    method, _, place = uri.partition(":")
    if method == "mirror+file":
        with contextlib.suppress(OSError):
            lines = pathlib.Path("/" + place.lstrip("/")).read_text(errors="replace").splitlines()
            return next((line.split()[0] for line in lines if line.strip() and not line.startswith("#")), None)
    return None if method.startswith("mirror") else uri


def mirror():
    """The mirror the host itself installs its release from; None lets mmdebstrap use its default."""
    if os_release().get("ID") != "debian":
        return None
    names = {os_release().get("VERSION_CODENAME"), "stable", "oldstable", "testing", "unstable", "sid"}
    apt = pathlib.Path("/etc/apt")
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        parse = _deb822_sources if file.suffix == ".sources" else _one_line_sources
        for uri, suite in parse(file.read_text(errors="replace")):
            if suite in names and (found := _one_mirror(uri)):
                return found
    return None


def apt_options():
    """The host's apt settings worth having in an image, as apt.conf lines."""
    dump = output_of("apt-config", "dump")
    return [f'{key} "{value}";' for key, value in APT_SETTINGS.findall(dump)]


def certificates():
    return sorted(CERTIFICATES.glob("**/*.crt")) if CERTIFICATES.is_dir() else []


def offers_controllers():
    """Whether a container could be given memory, pids and cpu: only a pure cgroup v2 host can."""
    file = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
    try:
        return set(CONTROLLERS) <= set(file.read_text().split())
    except OSError:
        return False


def wait_for(condition, seconds, step=0.1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(step)
    return None


def kill(process, grace=3.0):
    """Ends one process that we started."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def source_files():
    """The files that make up the source tree: tracked or not ignored with git, everything without it but what
    was built. A bare machine may have a checkout and no git."""
    if (TREE / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(["git", "-c", f"safe.directory={TREE}", "-C", str(TREE), "ls-files", "-z",
                                 "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE)
        if listed.returncode == 0:
            names = sorted({n for n in listed.stdout.decode().split("\0") if n})
            return [n for n in names if os.path.lexists(TREE / n)]
    names = []
    for base, folders, files in os.walk(TREE):
        folders[:] = [f for f in folders if f != ".git" and not f.startswith(("build", "__pycache__"))]
        names += [os.path.relpath(os.path.join(base, f), TREE) for f in files if not f.endswith(".deb")]
    return sorted(names)
