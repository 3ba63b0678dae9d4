# SPDX-License-Identifier: MIT
"""install: makes a set of the wheels that fetch brought: a prefix like that of a venv, byte-compiled, read-only later.

There is no network here, and nothing of a package runs: the interpreter is the base one, which does not know the set, and
the byte compilers are started with -I -S. Wheels are hostile: each is checked before uv unpacks it, and what lies there
afterwards is checked again, because two readers of one archive need not agree. Order and answer are in README.md beside the
source. Standard library only.
"""

import concurrent.futures
import ctypes
import errno
import hashlib
import json
import os
import queue
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile

ORDER_BYTES_MAX = 8 << 20
LOCK_BYTES_MAX = 8 << 20
LOG_BYTES_MAX = 64 << 10
MESSAGE_MAX = 1000
WORKERS_MAX = 8
PATH_BYTES_MAX = 1024
NAME_BYTES_MAX = 255
SOURCE_BYTES_MAX = 16 << 20
SOURCE_SECONDS = 60
COMPILER_MEMORY_BYTES = 2 << 30
BLOCK_BYTES = 4096

DEFAULTS = {
    "prefix": "/env", "uv": "", "python": "", "requirements": [], "lock_sha256": "", "workers": 0, "budget_s": 300,
    "max_set_bytes": 16 << 30, "max_files": 200000,
}
OWN = (".lock", ".wheels", ".tmp", "pyvenv.cfg", "mcp-exec-set.json")
INTERPRETER = re.compile(r"python(\d+(\.\d+)*)?t?(-config)?", re.IGNORECASE)


class Failed(Exception):
    """The end of it, with a word for programs and a sentence for the caller."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class DiskFull(Failed):
    def __init__(self):
        super().__init__("disk-full", "The disk for packages is full. The administrator can remove sets (mcp-exec env remove) "
                         "or raise the limits.")


def printable(text, n_max=MESSAGE_MAX):
    """One line that any reader of JSON can take."""
    text = "".join(c if c.isprintable() and not "\ud800" <= c <= "\udfff" else " " for c in str(text)[:16 * n_max])
    text = " ".join(text.split())
    return text if len(text) <= n_max else text[:n_max - 1] + "…"


def progress(text):
    os.write(2, b"@ " + printable(text, 118).encode("ascii", "replace") + b"\n")


# --- wheels --------------------------------------------------------------------------------------------------------------

class Wheel:
    """One wheel file, and whether it is one that may be unpacked."""

    def __init__(self, directory, facts):
        self.facts = facts
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
            if rest[0] in ("bin", "lib", "lib64") and len(rest) == 1 and not shown.endswith("/'"):
                self.refuse(f"{shown} in it would stand in the place of a directory")
        script = rest[0] if scheme == "scripts" and rest else rest[1] if rest[:1] == ["bin"] and rest[1:] else ""
        if INTERPRETER.fullmatch(script):
            self.refuse(f"{shown} in it would replace the interpreter")


# --- byte compilation ----------------------------------------------------------------------------------------------------

# Reads a JSON string a line, answers with a byte for each: 1 or 0.
COMPILER_PROGRAM = """
import json, os, py_compile, sys, warnings
warnings.simplefilter("ignore")
for line in sys.stdin.buffer:
    try:
        py_compile.compile(json.loads(line), doraise=True, quiet=2)
        answer = b"1"
    except BaseException:
        answer = b"0"
    os.write(1, answer)
"""


def limit_compiler():
    resource.setrlimit(resource.RLIMIT_AS, (COMPILER_MEMORY_BYTES, COMPILER_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Compiler:
    """One interpreter that compiles file after file. A file that brings it down costs itself only."""

    def __init__(self, python, environment):
        self.command = [python, "-I", "-S", "-c", COMPILER_PROGRAM]
        self.environment = environment
        self.child = None

    def close(self):
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()
            self.child = None

    def compile(self, path):
        if self.child is None:
            self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, bufsize=0, env=self.environment, cwd="/",
                                          preexec_fn=limit_compiler)
        try:
            self.child.stdin.write(json.dumps(path).encode() + b"\n")
            readable, _, _ = select.select([self.child.stdout], [], [], SOURCE_SECONDS)
            answer = os.read(self.child.stdout.fileno(), 1) if readable else b""
        except OSError:
            answer = b""
        if not answer:
            self.close()
        return answer == b"1"


# --- the work ------------------------------------------------------------------------------------------------------------

class Install:
    def __init__(self, order):
        self.order = order
        self.prefix = order["prefix"]
        self.work = self.prefix + "/.tmp"
        self.deadline = time.monotonic() + order["budget_s"]
        self.python = os.path.realpath(order["python"])
        self.version = ""
        self.packages = []
        self.sources = []
        self.n_files = self.n_bytes = 0
        self.environment = {
            "PATH": "/nonexistent", "HOME": self.work, "TMPDIR": self.work, "LANG": "C.UTF-8",
            "UV_CACHE_DIR": self.work + "/cache", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1",
            "UV_KEYRING_PROVIDER": "disabled", "UV_OFFLINE": "1", "UV_CONCURRENT_INSTALLS": "4",
            "UV_CONCURRENT_DOWNLOADS": "4", "UV_CONCURRENT_BUILDS": "1", "RAYON_NUM_THREADS": "4", "TOKIO_WORKER_THREADS": "2",
        }

    def seconds_left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failed("timeout", f"The packages could not be installed within {self.order['budget_s']:g} s. Try again, or ask "
                         "the administrator for a larger budget.")
        return left

    def read_lock(self):
        try:
            fd = os.open(self.prefix + "/.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as f:
                lock = json.loads(f.read(LOCK_BYTES_MAX))
            digest = hashlib.sha256(b"mcp-exec lock 1\n")
            for facts in lock["packages"]:
                if not (re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", facts["name"]) and
                        re.fullmatch(r"[A-Za-z0-9._+!-]{1,100}", facts["version"]) and
                        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,240}\.whl", facts["file"]) and
                        re.fullmatch(r"[0-9a-f]{64}", facts["sha256"])):
                    raise ValueError
                digest.update("\0".join(facts[key] for key in ("name", "version", "file", "sha256")).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise Failed("internal", "There is no lock that can be read.") from None
        if digest.hexdigest() != self.order["lock_sha256"]:
            raise Failed("hash-mismatch", "The lock is not the one that was made. Nothing was installed.")
        self.packages = lock["packages"]

    def check_wheels(self):
        limits = {"files": self.order["max_files"], "bytes": self.order["max_set_bytes"]}
        for facts in self.packages:
            self.seconds_left()
            wheel = Wheel(self.prefix + "/.wheels", facts)
            wheel.check_hash()
            wheel.check_content(limits)

    def ask_version(self):
        program = "import platform; print(platform.python_version())"
        try:
            done = subprocess.run([self.python, "-I", "-S", "-c", program], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=30)
            self.version = done.stdout.decode("ascii", "replace").strip()
        except (OSError, subprocess.SubprocessError):
            pass
        if not re.fullmatch(r"3\.\d{1,3}\.\d{1,3}[a-z0-9+.]{0,20}", self.version):
            raise Failed("internal", f"The interpreter {self.order['python']} does not work; the administrator has to look "
                         "after it.")

    def unpack(self):
        progress("installing")
        if not os.access(self.order["uv"], os.X_OK):
            raise Failed("no-uv", "uv is not installed, which installs packages. The administrator can install it and name it "
                         "in the setting UvPath=.")
        os.mkdir(self.work, 0o700)
        if not self.packages:
            return
        with open(self.work + "/requirements.txt", "x", encoding="ascii") as f:
            for facts in self.packages:
                f.write(f"{facts['name']}=={facts['version']} --hash=sha256:{facts['sha256']}\n")
        command = [self.order["uv"], "pip", "install", "--quiet", "--no-config", "--offline", "--no-index", "--find-links",
                   self.prefix + "/.wheels", "--require-hashes", "--no-deps", "--no-build", "--no-sources",
                   "--no-python-downloads", "--no-compile-bytecode", "--link-mode", "hardlink", "--no-progress", "--color",
                   "never", "--python", self.python, "--prefix", self.prefix, "-r", "requirements.txt"]
        with open(self.work + "/log", "w+b") as log:
            child = subprocess.Popen(command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
                                     preexec_fn=self.limit_uv)
            try:
                status = child.wait(self.seconds_left())
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                self.seconds_left()
                status = -signal.SIGKILL
            log.seek(0)
            text = log.read(LOG_BYTES_MAX).decode(errors="replace")
        if status != 0:
            raise self.explain(text, status)

    def limit_uv(self):
        # One file cannot be larger than the set; a wheel may lie about the size of what is in it.
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = self.order["max_set_bytes"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard < 0 else min(most, hard), hard))

    @staticmethod
    def explain(text, status):
        if re.search(r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b", text):
            return DiskFull()
        if re.search(r"File too large|os error 27\b", text) or status == -signal.SIGXFSZ:
            return Failed("too-large", "A file of the packages is larger than a set may be.")
        if re.search(r"[Hh]ash mismatch", text):
            return Failed("hash-mismatch", "A wheel is not the one that was fetched. Nothing was installed.")
        if status < 0:
            return Failed("internal", f"uv was ended by signal {-status}; most likely it ran into a limit.")
        lines = (re.sub(r"^\s*(error|cause|warning): *", "", line).strip() for line in text.splitlines())
        reason = printable(" ".join(line for line in lines if line), 700)
        return Failed("wheel", f"The packages cannot be installed: {reason or f'uv failed with status {status}'}")

    # --- what lies there now ---------------------------------------------------------------------------------------------

    def site_packages(self):
        minor = self.version.split(".")[1]
        return [f"{self.prefix}/{lib}/python3.{minor}/site-packages" for lib in ("lib", "lib64")]

    def inspect(self, is_final):
        """Walks through everything: nothing but files and directories, of modes of ours, within the limits."""
        self.n_files = self.n_bytes = 0
        self.sources = []
        sites = tuple(site + "/" for site in self.site_packages())
        directories = [self.prefix]
        while directories:
            self.seconds_left()
            directory = directories.pop()
            with os.scandir(directory) as entries:
                for entry in entries:
                    if directory == self.prefix and entry.name in (".tmp", ".wheels", ".lock"):
                        continue
                    self.inspect_entry(entry, sites, directories, is_final)

    def inspect_entry(self, entry, sites, directories, is_final):
        info = entry.stat(follow_symlinks=False)
        self.n_files += 1
        self.n_bytes += -(-info.st_size // BLOCK_BYTES) * BLOCK_BYTES if stat.S_ISREG(info.st_mode) else BLOCK_BYTES
        if self.n_files > self.order["max_files"] or self.n_bytes > self.order["max_set_bytes"]:
            raise Failed("too-large", f"The packages are too large once they are installed: {self.n_bytes >> 20} MiB in "
                         f"{self.n_files} files so far; {self.order['max_set_bytes'] >> 20} MiB and {self.order['max_files']} "
                         "files are allowed.")
        if stat.S_ISDIR(info.st_mode):
            if stat.S_IMODE(info.st_mode) != 0o755:
                os.chmod(entry.path, 0o755)
            directories.append(entry.path)
        elif stat.S_ISREG(info.st_mode):
            wanted = 0o755 if info.st_mode & 0o111 else 0o644
            if stat.S_IMODE(info.st_mode) != wanted:
                os.chmod(entry.path, wanted)
            if entry.name.endswith(".py") and entry.path.startswith(sites) and info.st_size <= SOURCE_BYTES_MAX:
                self.sources.append(entry.path)
        elif not (is_final and stat.S_ISLNK(info.st_mode) and entry.path.startswith(self.prefix + "/bin/") and
                  INTERPRETER.fullmatch(entry.name)):
            raise Failed("wheel", f"A package brings {printable(entry.name, 100)}, which is neither file nor directory. Nothing "
                         "was installed.")

    def compile(self):
        """Compiles the sources, tolerating those that cannot be. Returns how many these are."""
        todo = queue.SimpleQueue()
        for path in sorted(self.sources):
            todo.put(path)
        n_all = todo.qsize()
        n_done = n_failed = 0
        lock = threading.Lock()

        def work():
            nonlocal n_done, n_failed
            compiler = Compiler(self.python, self.environment)
            try:
                while True:
                    self.seconds_left()
                    try:
                        path = todo.get_nowait()
                    except queue.Empty:
                        return
                    is_compiled = compiler.compile(path)
                    with lock:
                        n_done += 1
                        n_failed += not is_compiled
                        if n_done % 200 == 0:
                            progress(f"compiling {n_done}/{n_all}")
            finally:
                compiler.close()

        progress(f"compiling 0/{n_all}")
        n_workers = self.order["workers"] or len(os.sched_getaffinity(0))
        n_workers = max(1, min(n_workers, WORKERS_MAX, n_all))
        with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
            for future in [pool.submit(work) for _ in range(n_workers)]:
                future.result()
        # A compiler that cannot write looks like one that cannot compile.
        if n_failed and os.statvfs(self.prefix).f_bavail == 0:
            raise DiskFull
        return n_failed

    # --- what makes a prefix of it ---------------------------------------------------------------------------------------

    def write(self, path, text, mode=0o644):
        fd = os.open(self.prefix + "/" + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(fd, "w", encoding="utf-8") as f:
            f.write(text)

    def finish_scripts(self):
        """bin/python3 and the first lines of the scripts. Returns the scripts' names."""
        binary = self.prefix + "/bin"
        os.makedirs(binary, 0o755, exist_ok=True)
        names = []
        with os.scandir(binary) as entries:
            for entry in entries:
                if INTERPRETER.fullmatch(entry.name):
                    raise Failed("wheel", f"A package brings {printable(entry.name, 100)} of its own. Nothing was installed.")
                if entry.is_file(follow_symlinks=False):
                    self.rewrite(entry.path)
                    if entry.stat(follow_symlinks=False).st_mode & 0o111:
                        names.append(printable(entry.name, 100))
        minor = self.version.split(".")[1]
        os.symlink(self.python, binary + "/python3")
        for name in ("python", f"python3.{minor}"):
            os.symlink("python3", binary + "/" + name)
        return sorted(names)

    def rewrite(self, path):
        """uv wrote the base interpreter into the first line; it is to be that of the set."""
        with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as f:
            first = f.readline(PATH_BYTES_MAX)
            words = first[2:].split(None, 1) if first.startswith(b"#!") else []
            # uv takes the interpreter as it was named, the one behind its links, or one beside it.
            base = {path.encode() for path in (self.python, self.order["python"])}
            is_beside = words and os.path.realpath(words[0]) == self.python.encode()
            if not words or not (words[0] in base or is_beside):
                return
            rest = b" " + words[1].strip() if len(words) > 1 and words[1].strip() else b""
            text = b"#!" + self.prefix.encode() + b"/bin/python3" + rest + b"\n" + f.read()
            f.seek(0)
            f.truncate()
            f.write(text)

    def facts(self, scripts):
        return {
            "version": 1, "python": self.order["python"], "python_version": self.version,
            "requirements": self.order["requirements"], "lock_sha256": self.order["lock_sha256"],
            "packages": [{key: facts[key] for key in ("name", "version", "file", "sha256")} for facts in self.packages],
            "size_bytes": self.n_bytes, "n_files": self.n_files, "console_scripts": scripts,
            "created_usec": time.time_ns() // 1000,
        }

    def answer(self):
        self.read_lock()
        self.ask_version()
        self.check_wheels()
        self.unpack()
        shutil.rmtree(self.prefix + "/.wheels")
        shutil.rmtree(self.work + "/cache", ignore_errors=True)
        self.inspect(is_final=False)
        n_not_compiled = self.compile()
        scripts = self.finish_scripts()
        self.write("pyvenv.cfg", f"home = {os.path.dirname(self.python)}\ninclude-system-site-packages = false\n"
                   f"version = {self.version}\n")
        # uv's lock for others of its kind, empty.
        shutil.rmtree(self.work)
        os.unlink(self.prefix + "/.lock")
        self.inspect(is_final=True)
        self.write("mcp-exec-set.json", json.dumps(self.facts(scripts), indent=1) + "\n")
        self.settle()
        return {"packages": [{"name": facts["name"], "version": facts["version"]} for facts in self.packages],
                "size_bytes": self.n_bytes, "n_files": self.n_files, "console_scripts": scripts,
                "n_not_compiled": n_not_compiled}

    def settle(self):
        """Onto the disk: the set's name is given to it next, and after a power cut it must not be half of one."""
        fd = os.open(self.prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)


def read_order(defaults):
    data = sys.stdin.buffer.read(ORDER_BYTES_MAX + 1)
    order = json.loads(data) if len(data) <= ORDER_BYTES_MAX else None
    if not isinstance(order, dict):
        sys.exit("install: the order is not understood")
    for key, empty in defaults.items():
        if order.setdefault(key, empty) is None:
            order[key] = empty
        if not isinstance(order[key], (int, float) if type(empty) is int else type(empty)):
            sys.exit(f"install: '{key}' of the order has the wrong type")
    return order


def main():
    os.umask(0o022)
    try:
        answer = Install(read_order(DEFAULTS)).answer()
    except Failed as e:
        answer = {"error": {"kind": e.kind, "message": printable(e)}}
    except OSError as e:
        failure = DiskFull() if e.errno in (errno.ENOSPC, errno.EDQUOT) else Failed(
            "internal", f"The packages cannot be installed: {e.strerror}.")
        answer = {"error": {"kind": failure.kind, "message": printable(failure)}}
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
