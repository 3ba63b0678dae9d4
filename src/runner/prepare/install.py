# SPDX-License-Identifier: MIT
"""install: makes a set of the wheels that fetch brought: a prefix like that of a venv, byte-compiled, read-only later.

There is no network here, and nothing of a package runs: the interpreter is the base one, which does not know the set, and
the byte compilers are started with -I -S. Wheels are hostile: each is checked before uv unpacks it, and what lies there
afterwards is checked again, because two readers of one archive need not agree. Order and answer are in README.md beside the
source. Standard library only.
"""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import queue
import re
import resource
import shutil
import signal
import stat
import subprocess
import threading
import time

from common import BrokenUv, DiskFull, EndedUv, Failed, NoUv, error_answer, printable, progress, read_order, rename_places, run_uv
from common import uv_environment, write_answer
from compiler import Compiler
from wheel import INTERPRETER, PATH_BYTES_MAX, Wheel

LOCK_BYTES_MAX = 8 << 20
WORKERS_MAX = 8
SOURCE_BYTES_MAX = 16 << 20
BLOCK_BYTES = 4096

DEFAULTS = {
    "prefix": "/env", "outside": {}, "uv": "", "python": "", "requirements": [], "lock_sha256": "", "workers": 0, "budget_s": 300,
    "max_set_bytes": 16 << 30, "max_files": 200000,
}


class Install:
    def __init__(self, order):
        self.order = order
        self.prefix = order["prefix"]
        self.work = self.prefix + "/.tmp"
        self.deadline = time.monotonic() + order["budget_s"]
        self.python = os.path.realpath(order["python"])
        self.own_python = ""    # an interpreter that is part of the set, below the prefix
        self.version = self.base_version = ""
        self.packages = []
        self.sources = []
        self.n_files = self.n_bytes = 0
        self.environment = {**uv_environment(self.work), "UV_OFFLINE": "1"}

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
            own_python = lock.get("python", "")
            if own_python and not re.fullmatch(r"python/cpython-3\.[0-9]+[A-Za-z0-9._+-]*/bin/python3\.[0-9]+", own_python):
                raise ValueError
            digest = hashlib.sha256(b"mcp-exec lock 1\n" + own_python.encode())
            for facts in lock["packages"]:
                if not (re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", facts["name"]) and
                        re.fullmatch(r"[A-Za-z0-9._+!-]{1,100}", facts["version"]) and
                        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,240}\.whl", facts["file"]) and
                        re.fullmatch(r"[0-9a-f]{64}", facts["sha256"])):
                    raise ValueError
                digest.update("\0".join(facts[key] for key in ("name", "version", "file", "sha256")).encode() + b"\n")
        except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
            raise Failed("internal", "There is no lock that can be read.") from None
        if digest.hexdigest() != self.order["lock_sha256"]:
            raise Failed("hash-mismatch", "The lock is not the one that was made. Nothing was installed.")
        self.packages = lock["packages"]
        # Where builds are allowed, a stranger's code could write here. What is neither bound by the lock nor ours would
        # end up in the set of all who ask for the same wheels.
        if (set(os.listdir(self.prefix)) - {".lock", ".wheels", own_python.split("/")[0]} or
                set(os.listdir(self.prefix + "/.wheels")) != {facts["file"] for facts in self.packages}):
            raise Failed("internal", "There is something beside the lock and its wheels. Nothing was installed.")
        if own_python:
            self.own_python = own_python
            self.python = f"{self.prefix}/{own_python}"
            if os.path.realpath(self.python) != os.path.realpath(self.prefix) + "/" + own_python:
                raise Failed("internal", "The interpreter of the set is not where the lock says.")

    def check_wheels(self):
        limits = {"files": self.order["max_files"], "bytes": self.order["max_set_bytes"]}
        for facts in self.packages:
            self.seconds_left()
            wheel = Wheel(self.prefix + "/.wheels", facts, has_python=bool(self.own_python))
            wheel.check_hash()
            wheel.check_content(limits)

    @staticmethod
    def ask_version(python):
        program = "import platform; print(platform.python_version())"
        version = ""
        try:
            done = subprocess.run([python, "-I", "-S", "-c", program], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=30)
            version = done.stdout.decode("ascii", "replace").strip()
        except (OSError, subprocess.SubprocessError):
            pass
        if not re.fullmatch(r"3\.\d{1,3}\.\d{1,3}[a-z0-9+.]{0,20}", version):
            raise Failed("internal", f"The interpreter {python} does not work; the administrator has to look after it.")
        return version

    def unpack(self):
        progress("installing")
        if not os.access(self.order["uv"], os.X_OK):
            raise NoUv
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
        interpreter = self.look_at_python()
        status, text = run_uv(command, self.work, self.environment, self.seconds_left(), preexec_fn=self.limit_uv)
        self.seconds_left()
        if status != 0:
            raise self.explain(text, status)
        # It starts again right below. Whatever a package managed to put there must not run here.
        if self.look_at_python() != interpreter:
            raise Failed("wheel", "A package would change the interpreter of the set. Nothing was installed.")

    def look_at_python(self):
        """{path: what changes with any change} of the set's own interpreter. Nobody can set the time of a change."""
        result = {}
        directories = [self.prefix + "/python"] if self.own_python else []
        while directories:
            with os.scandir(directories.pop()) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    result[entry.path] = (info.st_ino, info.st_mode, info.st_size, info.st_ctime_ns)
                    if stat.S_ISDIR(info.st_mode):
                        directories.append(entry.path)
        return result

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
            return EndedUv(-status)
        lines = (re.sub(r"^\s*(error|cause|warning): *", "", line).strip() for line in text.splitlines())
        reason = printable(" ".join(line for line in lines if line), 700)
        if not reason:
            return BrokenUv(f"failed with status {status} and gave no reason")
        return Failed("wheel", f"The packages cannot be installed: {reason}")

    # --- what lies there now ---------------------------------------------------------------------------------------------

    def site_packages(self):
        minor = self.version.split(".")[1]
        return [f"{self.prefix}/{lib}/python3.{minor}/site-packages" for lib in ("lib", "lib64")]

    def inspect(self, is_final):
        """Walks through everything: nothing but files and directories, of modes of ours, within the limits."""
        self.n_files = self.n_bytes = 0
        self.sources = []
        sites = tuple(site + "/" for site in self.site_packages())
        if self.own_python:
            # Its library comes without compiled files, and nobody can write them later.
            sites += (f"{self.python.rsplit('/bin/', 1)[0]}/lib/",)
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
        elif stat.S_ISLNK(info.st_mode) and self.is_link_of_python(entry.path):
            pass
        elif not (is_final and stat.S_ISLNK(info.st_mode) and entry.path.startswith(self.prefix + "/bin/") and
                  INTERPRETER.fullmatch(entry.name)):
            raise Failed("wheel", f"A package brings {printable(entry.name, 100)}, which is neither file nor directory. Nothing "
                         "was installed.")

    def is_link_of_python(self, path):
        """The set's own interpreter has links, from one file of its own to another."""
        top = f"{self.prefix}/{self.own_python}".rsplit("/bin/", 1)[0] + "/"
        if not self.own_python or not path.startswith(top) or os.readlink(path).startswith("/"):
            return False
        return os.path.realpath(path).startswith(os.path.realpath(top) + "/")

    def compile(self):
        """Compiles the sources, tolerating those that cannot be. Returns how many these are."""
        pending = queue.SimpleQueue()
        for path in sorted(self.sources):
            pending.put(path)
        n_all = pending.qsize()
        n_done = n_failed = 0
        lock = threading.Lock()

        def work():
            nonlocal n_done, n_failed
            compiler = Compiler(self.python, self.environment)
            try:
                while True:
                    left = self.seconds_left()
                    try:
                        path = pending.get_nowait()
                    except queue.Empty:
                        return
                    is_compiled = compiler.compile(path, left)
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
        os.symlink("../" + self.own_python if self.own_python else self.python, binary + "/python3")
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
        packages = [{key: facts[key] for key in ("name", "version", "file", "sha256")} for facts in self.packages]
        if self.own_python:
            with open(self.python, "rb") as f:
                packages.append({"name": "python", "version": self.version, "file": self.own_python.split("/")[1],
                                 "sha256": hashlib.file_digest(f, "sha256").hexdigest()})
        return {
            # By these three and the lock the set is found: the interpreter that it was asked for with.
            "version": 1, "python": self.order["python"], "python_version": self.base_version,
            "requirements": self.order["requirements"], "lock_sha256": self.order["lock_sha256"],
            "packages": packages, "size_bytes": self.n_bytes, "n_files": self.n_files, "console_scripts": scripts,
            "created_usec": time.time_ns() // 1000,
            # What its programs run with, where that is another one.
            **({"own_python_version": self.version} if self.own_python else {}),
        }

    def answer(self):
        self.read_lock()
        self.version = self.ask_version(self.python)
        self.base_version = self.ask_version(self.order["python"]) if self.own_python else self.version
        self.check_wheels()
        self.unpack()
        shutil.rmtree(self.prefix + "/.wheels")
        shutil.rmtree(self.work + "/cache", ignore_errors=True)
        self.inspect(is_final=False)
        n_not_compiled = self.compile()
        scripts = self.finish_scripts()
        self.write("pyvenv.cfg", f"home = {os.path.dirname(self.python)}\ninclude-system-site-packages = false\n"
                   f"version = {self.version}\n")
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


def main():
    os.umask(0o022)
    order = read_order(DEFAULTS)
    rename_places(order)
    try:
        answer = Install(order).answer()
    except (Failed, OSError) as e:
        answer = error_answer(e, "The packages cannot be installed")
    write_answer(answer)


if __name__ == "__main__":
    main()
