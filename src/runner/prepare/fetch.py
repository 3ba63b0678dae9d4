# SPDX-License-Identifier: MIT
"""fetch: the wheels that a script's requirements resolve to, as files, each with the hash that the lock names.

uv resolves (and is trusted with nothing else: its cache goes with this program); the files are brought by a downloader of
our own, because uv does not hand out wheels as files. Order, answer and the reasons are in README.md beside the source.

What the index says is hostile, and so are the wheels, which nobody looks into here. Standard library only.
"""

import base64
import concurrent.futures
import errno
import hashlib
import http.client
import json
import netrc
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request

ORDER_BYTES_MAX = 8 << 20
LOCK_BYTES_MAX = 64 << 20
LOG_BYTES_MAX = 64 << 10
MESSAGE_MAX = 1000
WARNINGS_MAX = 20
CHUNK_BYTES = 1 << 18
PARALLEL = 4
ATTEMPTS = 2
NAME = "mcp-exec-script"  # of the project that stands for the script; replaced in what uv says
CREDENTIALS = "index-credentials"

DEFAULTS = {
    "prefix": "/env", "uv": "", "python": "", "requirements": [], "tool_uv": {}, "deny": [], "index_url": "",
    "extra_index_urls": [], "proxy": "", "no_proxy": "", "ca_bundle": "", "exclude_newer": "", "offline": False,
    "allow_source_builds": False, "allow_urls": False, "allow_vcs": False, "known_locks": [], "budget_s": 120,
    "max_packages": 300, "max_wheel_bytes": 2 << 30, "max_total_bytes": 8 << 30,
}

HOW_TO_DECLARE = "Check the spelling: the name to install is not always the name to import."


class Failed(Exception):
    """The end of it, with a word for programs and a sentence for the caller."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Secrets:
    """What must not appear in a message, whoever wrote it."""

    def __init__(self):
        self.words = set()

    def add(self, word):
        # A shorter one is no secret, and hiding it would make every message unreadable.
        if len(word) >= 4:
            self.words.add(word)

    def add_url(self, url):
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError:
            return
        for word in (parts.password, parts.username):
            if word:
                self.add(word)
                self.add(urllib.parse.unquote(word))

    def hide(self, text):
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, "***")
        return re.sub(r"://[^/@\s]+@", "://***@", text)


secrets = Secrets()


def printable(text, n_max=MESSAGE_MAX):
    """One line that any reader of JSON can take, without secrets."""
    text = secrets.hide(str(text)[:16 * n_max])
    text = "".join(c if c.isprintable() and not "\ud800" <= c <= "\udfff" else " " for c in text)
    text = " ".join(text.split())
    return text if len(text) <= n_max else text[:n_max - 1] + "…"


def progress(text):
    line = "@ " + printable(text, 118).encode("ascii", "replace").decode()
    os.write(2, line.encode() + b"\n")


# --- the target: what its interpreter takes ------------------------------------------------------------------------------

ABOUT_PROGRAM = """
import os, platform, sys, sysconfig
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (ValueError, OSError):
    libc = ""
print(sys.implementation.name, platform.python_version(), platform.machine(), sysconfig.get_config_var("SOABI") or "-",
      libc.replace(" ", "-") or "-", int(sys.maxsize > 2**32))
"""


class Target:
    """Which wheels an interpreter takes, best first."""

    def __init__(self, python):
        try:
            done = subprocess.run([python, "-I", "-S", "-c", ABOUT_PROGRAM], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=30)
            words = done.stdout.decode("ascii", "replace").split()
            name, self.version, machine, soabi, libc, is_64_bit = words
        except (OSError, subprocess.SubprocessError, ValueError):
            raise Failed("python", f"The interpreter {python} does not work; the administrator has to look after it."
                         ) from None
        if name != "cpython":
            raise Failed("python", f"The interpreter {python} is {name}; packages are prepared for CPython only.")
        self.minor = int(self.version.split(".")[1])
        self.is_threaded = re.match(rf"cpython-3{self.minor}t", soabi) is not None
        if machine == "x86_64" and is_64_bit == "0":
            machine = "i686"
        self.ranks = {}
        for tag in self.tags(list(self.platforms(machine, libc))):
            self.ranks.setdefault(tag, len(self.ranks))

    @staticmethod
    def platforms(machine, libc):
        glibc = re.fullmatch(r"glibc-2\.(\d+)", libc)
        if glibc:
            oldest = 5 if machine in ("x86_64", "i686") else 17
            names = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
            for minor in range(min(int(glibc[1]), 200), oldest - 1, -1):
                yield f"manylinux_2_{minor}_{machine}"
                if minor in names:
                    yield f"{names[minor]}_{machine}"
        else:
            for minor in range(9, -1, -1):
                yield f"musllinux_1_{minor}_{machine}"
        yield f"linux_{machine}"

    def tags(self, platforms):
        """As the standard orders them: the most special first."""
        me = f"cp3{self.minor}"
        abi = me + "t" if self.is_threaded else me
        stable = [] if self.is_threaded else ["abi3"]
        for each in (abi, *stable, "none"):
            yield from ((me, each, platform) for platform in platforms)
        for minor in range(self.minor - 1, 1, -1):
            for each in stable:
                yield from ((f"cp3{minor}", each, platform) for platform in platforms)
        generic = [f"py3{self.minor}", "py3", *(f"py3{minor}" for minor in range(self.minor - 1, -1, -1))]
        for each in generic:
            yield from ((each, "none", platform) for platform in platforms)
        yield me, "none", "any"
        yield from ((each, "none", "any") for each in generic)

    def rank(self, file):
        """How good a wheel's file is, smaller is better, by its name; None: not for this interpreter."""
        parts = file.removesuffix(".whl").split("-")
        pythons, abis, platforms = (part.split(".") for part in parts[-3:])
        if len(pythons) * len(abis) * len(platforms) > 1000:
            return None
        ranks = [self.ranks[tag] for python in pythons for abi in abis for platform in platforms
                 if (tag := (python, abi, platform)) in self.ranks]
        if not ranks:
            return None
        build = re.match(r"\d{1,9}", parts[2]) if len(parts) == 6 else None
        return min(ranks), -int(build[0]) if build else 0


# --- what uv says --------------------------------------------------------------------------------------------------------

def causes(text):
    """uv's own words for what went wrong, as one sentence about the script."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("warning:", "hint:", "Resolved ", "Using ")):
            continue
        lines.append(re.sub(r"^\s*(error|cause): *", "", line).strip())
    result = " ".join(line for line in lines if line)
    result = result.replace("No solution found when resolving dependencies", "").strip()
    return about_script(result)


def about_script(text):
    return re.sub(rf"`?\b{NAME}(==0)?\b`?", "the script", text)


def host_of(text):
    found = re.search(r"https?://([^/\s)`]+)", secrets.hide(text))
    return found[1].rsplit("@", 1)[-1] if found else "the index"


# Texts of uv and of the libraries below it. First match wins. {host} and {cause} are filled in.
NETWORK_RULES = (
    (r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b", "disk-full",
     "The disk for packages is full. The administrator can remove sets (mcp-exec env remove) or raise the limits."),
    (r"tunnel error|proxy|407 Proxy Authentication", "proxy",
     "The proxy refuses or does not answer ({cause}). The administrator has to check the proxy's setting."),
    (r"\b401\b|Unauthorized", "unauthorized",
     "{host} demands credentials or does not take those that are configured (401). The administrator has to check the "
     "index credentials."),
    (r"\b403\b|Forbidden", "unauthorized",
     "{host} denies access (403). The administrator has to check the index and its credentials."),
    (r"dns error|failed to lookup address|Name or service not known|name resolution", "dns",
     "The name {host} cannot be resolved. Try again later; if it stays so, the administrator has to check the index URL and "
     "DNS."),
    (r"certificate|UnknownIssuer|CertNotValid|tls|TLS handshake|invalid peer|InvalidCertificate", "tls",
     "The certificate of {host} is not trusted. The administrator may have to configure a CA bundle."),
    (r"\b(500|502|503|504)\b|Internal Server Error|Bad Gateway|Service Unavailable", "index",
     "{host} has a problem of its own ({cause}). Try again later."),
    (r"timed? ?out|operation timed out|deadline", "index",
     "{host} does not answer in time. Try again later; if it stays so, the administrator has to check the index URL."),
    (r"Connection refused|connection refused|tcp connect error|Connection reset|connection closed|unreachable|"
     r"error sending request|IncompleteMessage|connection error", "index",
     "{host} cannot be reached ({cause}). Try again later; if it stays so, the administrator has to check the index URL."),
)

SOLUTION_RULES = (
    (r"was not found in the package registry|were not found in the package registry|not found in the provided package",
     "unknown-package", "The index knows no such package. {cause} " + HOW_TO_DECLARE),
    (r"no usable wheels|has no wheels|building from source is disabled|no source distribution|"
     r"only found wheels for|has no `?.{0,20}`? ?wheels", "no-wheel",
     "There is no ready-made wheel of a package for this machine and Python, and packages are not built from source here. "
     "{cause} Use another version that has wheels, or another package."),
    (r"there (is|are) no versions? of|was filtered by `exclude-newer`|only .{1,200} (is|are) available", "no-version",
     "No version fits. {cause} Loosen the constraint or use an existing version."),
    (r"Python version|requires-python|the requested Python|current Python", "python",
     "A package does not support the script's Python version. {cause}"),
    (r"unsatisfiable|No solution found|cannot be used|incompatible", "no-solution",
     "The requirements contradict each other. {cause} Loosen one of them."),
)


def short_cause(text):
    """The last and most exact of the causes."""
    found = re.findall(r"^\s*cause: *(.*)$", text, re.MULTILINE)
    return (found[-1] if found else text.strip().splitlines()[-1] if text.strip() else "no reason given").rstrip(".")


def explain(text, status):
    """What uv wrote on stderr, as a Failed."""
    is_solution = "No solution found" in text
    for pattern, kind, sentence in SOLUTION_RULES if is_solution else NETWORK_RULES:
        if re.search(pattern, text, re.IGNORECASE if not is_solution else 0):
            hint = ""
            if kind == "no-version" and "exclude-newer" in text:
                hint = " Versions newer than the configured date are not taken."
            cause = causes(text) if is_solution else short_cause(text)
            return Failed(kind, sentence.format(host=host_of(text), cause=printable(cause, 600)) + hint)
    if re.search(r"Python|interpreter", text) and re.search(r"not found|No interpreter|Failed to (query|inspect)", text):
        return Failed("python", f"uv cannot use the interpreter: {causes(text)}")
    if re.search(r"Failed to parse|expected|invalid|Unsupported|metadata", text, re.IGNORECASE):
        return Failed("index", f"The index gave an answer that is not understood: {causes(text)}")
    return Failed("internal", f"uv failed with status {status}: {causes(text) or 'it gave no reason'}")


def warnings_of(text):
    result = []
    for line in text.splitlines():
        if line.startswith("warning: "):
            sentence = about_script(line.removeprefix("warning: "))
            yanked = re.match(r"`([^`]+)` is yanked(?: \(reason: \"?(.*?)\"?\))?", sentence)
            if yanked:
                reason = f" ({yanked[2].rstrip('.')})" if yanked[2] else ""
                sentence = f"{yanked[1]} was withdrawn by its authors{reason}; use another version."
            result.append(printable(sentence, 300))
    return result[:WARNINGS_MAX]


# --- the work ------------------------------------------------------------------------------------------------------------

def pattern_matches(pattern, name):
    pattern = re.sub(r"[-_.]+", "-", str(pattern).strip()).lower()
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def toml_list(entries):
    # A JSON string is a TOML string, but for what json.dumps leaves alone (DEL).
    return "[" + ", ".join(json.dumps(entry) for entry in entries) + "]"


class Package:
    """One package of the lock, with the file that was chosen for it."""

    def __init__(self, name, version, url, file, sha256, size):
        self.name, self.version, self.url, self.file, self.sha256, self.size = name, version, url, file, sha256, size

    def facts(self):
        return {"name": self.name, "version": self.version, "file": self.file, "sha256": self.sha256,
                "size_bytes": self.size}


class Fetch:
    def __init__(self, order):
        self.order = order
        self.prefix = order["prefix"]
        self.wheels = self.prefix + "/.wheels"
        self.work = self.prefix + "/.tmp"
        self.deadline = time.monotonic() + order["budget_s"]
        self.target = None
        self.credentials = {}
        self.environment = {}
        self.opener = None
        self.warnings = []
        self.n_bytes = 0
        self.n_started = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()

    def seconds_left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failed("timeout", f"The packages could not be fetched within {self.order['budget_s']:g} s. Try again: most "
                         "likely the index or the network is slow at the moment.")
        return left

    # --- settings --------------------------------------------------------------------------------------------------------

    def read_credentials(self):
        directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
        path = directory + "/" + CREDENTIALS
        if not directory or not os.path.exists(path):
            return None
        try:
            hosts = netrc.netrc(path).hosts
        except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
            # The error's text could quote the file.
            raise Failed("unauthorized", "The file of index credentials cannot be read; it must be in netrc's syntax. The "
                         "administrator has to correct it.") from None
        for host, (login, _, password) in hosts.items():
            secrets.add(password)
            secrets.add(login)
            # An entry for any host would be sent to whoever the index points at.
            if host != "default":
                self.credentials[host] = base64.b64encode(f"{login}:{password}".encode()).decode()
        secrets.words.update(self.credentials.values())
        return path

    def prepare(self):
        order = self.order
        if not order["uv"] or not os.access(order["uv"], os.X_OK):
            raise Failed("no-uv", "uv is not installed, which resolves packages. The administrator can install it (for "
                         "instance with 'pip install uv') and name it in the setting UvPath=.")
        if order["offline"]:
            raise Failed("offline", "These packages are not prepared yet and the server is configured to fetch none. The "
                         "administrator can prepare them (mcp-exec env prepare).")
        if os.listdir(self.prefix):
            raise Failed("internal", "The directory for the packages is not empty.")
        # Before uv sees them: for a VCS it would start git at once.
        for requirement in order["requirements"]:
            if " @ " in requirement and not order["allow_vcs" if " @ git+" in requirement else "allow_urls"]:
                raise Failed("policy", f"{printable(requirement, 150)} is a URL; only packages of the index are allowed here.")
        for url in (order["index_url"], order["proxy"], *order["extra_index_urls"]):
            secrets.add_url(url)
        path = self.read_credentials()
        if path and (order["allow_source_builds"] or order["allow_vcs"]):
            raise Failed("policy", "Source builds are allowed and index credentials are configured, but a stranger's code must "
                         "not be able to read these. The administrator has to decide for one of them.")
        os.mkdir(self.work, 0o700)
        os.mkdir(self.wheels, 0o755)
        self.make_environment(path)
        self.target = Target(order["python"])

    def make_environment(self, credentials):
        order = self.order
        seconds = str(max(3, int(min(20, order["budget_s"] / 4))))
        self.environment = {
            # Builds need programs; resolving needs none, and must not find git.
            "PATH": "/usr/local/bin:/usr/bin:/bin" if order["allow_source_builds"] or order["allow_vcs"] else "/nonexistent",
            "HOME": self.work, "TMPDIR": self.work, "LANG": "C.UTF-8",
            "UV_CACHE_DIR": self.work + "/cache", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1",
            "UV_KEYRING_PROVIDER": "disabled", "UV_SYSTEM_CERTS": "1", "GIT_TERMINAL_PROMPT": "0",
            # One more try, for a connection that was lost; a dead index must be known within the budget.
            "UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": seconds, "UV_HTTP_CONNECT_TIMEOUT": seconds,
            "UV_CONCURRENT_DOWNLOADS": "8", "UV_CONCURRENT_BUILDS": "1", "UV_CONCURRENT_INSTALLS": "2",
            "RAYON_NUM_THREADS": "2", "TOKIO_WORKER_THREADS": "2",
        }
        # Not as arguments: those can be seen by others.
        if order["index_url"]:
            self.environment["UV_DEFAULT_INDEX"] = order["index_url"]
        if order["extra_index_urls"]:
            self.environment["UV_INDEX"] = " ".join(order["extra_index_urls"])
        if credentials:
            self.environment["NETRC"] = credentials
        if order["ca_bundle"]:
            self.environment["SSL_CERT_FILE"] = order["ca_bundle"]
        newest = order["tool_uv"].get("exclude-newer", "")
        # The earlier of two dates; both are in ISO's order.
        newest = min(filter(None, (order["exclude_newer"], newest)), default="")
        if newest:
            self.environment["UV_EXCLUDE_NEWER"] = newest
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") if order["proxy"] else ():
            self.environment[name] = self.environment[name.lower()] = order["proxy"]
        if order["no_proxy"]:
            self.environment["NO_PROXY"] = self.environment["no_proxy"] = order["no_proxy"]

    # --- uv --------------------------------------------------------------------------------------------------------------

    def run(self, command, directory, environment=None):
        """Runs a program until the budget's end. Returns its status and the start of its stderr."""
        with open(self.work + "/log", "w+b") as log:
            child = subprocess.Popen(command, cwd=directory, env=environment or self.environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                                     start_new_session=True)
            try:
                status = child.wait(self.seconds_left())
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                self.seconds_left()
                status = -signal.SIGKILL
            log.seek(0)
            return status, log.read(LOG_BYTES_MAX).decode(errors="replace")

    def resolve(self):
        """The lock, as uv wrote it."""
        progress("resolving")
        order = self.order
        project = self.work + "/project"
        os.mkdir(project)
        tool = order["tool_uv"]
        # A project's table rather than a requirements file: there are no options, paths or variables in it.
        with open(project + "/pyproject.toml", "w", encoding="ascii") as f:
            f.write(f'[project]\nname = "{NAME}"\nversion = "0"\nrequires-python = ">=3"\n'
                    f'dependencies = {toml_list(order["requirements"])}\n')
        command = [order["uv"], "pip", "compile", "--no-config", "--no-sources", "--no-python-downloads", "--no-progress",
                   "--color", "never", "--python", order["python"], "--format", "pylock.toml", "-o", "pylock.toml"]
        if not order["allow_source_builds"] and not order["allow_vcs"]:
            command.append("--no-build")
        for key in ("prerelease", "resolution"):
            if key in tool:
                command += ["--" + key, tool[key]]
        for key, option in (("constraint-dependencies", "--constraints"), ("override-dependencies", "--overrides")):
            if tool.get(key):
                # As strict as a dependency is: checked by parse.py, and by the daemon again.
                with open(project + "/" + key, "w", encoding="ascii") as f:
                    f.write("\n".join(tool[key]) + "\n")
                command += [option, key]
        status, text = self.run([*command, "pyproject.toml"], project)
        if status < 0:
            raise Failed("internal", f"uv was ended by signal {-status}; most likely it ran into a limit.")
        if status != 0:
            raise explain(text, status)
        self.warnings += warnings_of(text)
        try:
            with open(project + "/pylock.toml", "rb") as f:
                data = f.read(LOCK_BYTES_MAX + 1)
            if len(data) > LOCK_BYTES_MAX:
                raise Failed("too-large", "The solution is too large.")
            return tomllib.loads(data.decode())
        except (OSError, ValueError, RecursionError):
            raise Failed("internal", "uv wrote no lock that can be read.") from None

    # --- the choice of files ---------------------------------------------------------------------------------------------

    def choose(self, lock):
        entries = lock.get("packages", [])
        if len(entries) > self.order["max_packages"]:
            raise Failed("too-large", f"These requirements need {len(entries)} packages; {self.order['max_packages']} are "
                         "allowed.")
        result = []
        for entry in entries:
            name = canonical(str(entry.get("name", "")))
            if any(pattern_matches(pattern, name) for pattern in self.order["deny"]):
                raise Failed("policy", f"The requirements need {printable(name, 80)}, which the administrator denies.")
            result.append(self.choose_file(name, entry))
        if len({package.name for package in result}) != len(result):
            raise Failed("internal", "The lock names a package twice.")
        return sorted(result, key=lambda package: package.name)

    def choose_file(self, name, entry):
        version = str(entry.get("version", ""))
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise Failed("index", "The index names a package in a way that is not understood.")
        if "archive" in entry or "vcs" in entry or "directory" in entry:
            return self.choose_direct(name, version, entry)
        if not re.fullmatch(r"[A-Za-z0-9._+!-]{1,100}", version):
            raise Failed("index", f"The index names a version of {name} in a way that is not understood.")
        ranked = []
        for wheel in entry.get("wheels", []):
            file = file_of(wheel)
            if is_wheel(file, name) and (rank := self.target.rank(file)) is not None:
                ranked.append((rank, file, wheel))
        if not ranked:
            if "sdist" in entry and self.order["allow_source_builds"]:
                return self.source(name, version, entry["sdist"])
            raise Failed("no-wheel", f"{name} {version} has no wheel for this machine and Python {self.target.version}, and "
                         "packages are not built from source here. Use another version that has wheels, or another package.")
        _, file, wheel = min(ranked, key=lambda each: each[:2])
        return Package(name, version, url_of(name, wheel), file, hash_of(name, wheel), size_of(wheel))

    def choose_direct(self, name, version, entry):
        """A package whose requirement was a URL. uv knows the version; it is in the file, too."""
        if "vcs" in entry and self.order["allow_vcs"]:
            vcs = entry["vcs"]
            return self.source_of_vcs(name, version, vcs)
        if "archive" not in entry or not self.order["allow_urls"]:
            raise Failed("policy", f"{name} comes from a URL or a directory; only packages of the index are allowed here.")
        archive = entry["archive"]
        file = file_of(archive)
        if not file.endswith(".whl"):
            if self.order["allow_source_builds"]:
                return self.source(name, version, archive)
            raise Failed("no-wheel", f"The URL of {name} is not that of a wheel, and packages are not built from source here.")
        if not is_wheel(file, name) or self.target.rank(file) is None:
            raise Failed("no-wheel", f"The URL of {name} is that of a wheel for another package, machine or Python.")
        return Package(name, version or file.split("-")[1], url_of(name, archive), file, hash_of(name, archive),
                       size_of(archive))

    # --- source builds, where the administrator allows them ----------------------------------------------------------------

    def source(self, name, version, entry):
        """Brings a source distribution and builds it. A stranger's code runs, with network, without credentials."""
        file = file_of(entry)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,200}\.(tar\.gz|zip|tar\.bz2|tgz|tar\.xz)", file):
            raise Failed("index", f"The source of {name} has a name that is not understood.")
        package = Package(name, version, url_of(name, entry), file, hash_of(name, entry), size_of(entry))
        directory = self.work + "/source-" + name
        os.mkdir(directory)
        self.download_one(package, 1, directory)
        return self.build(name, version, directory + "/" + file)

    def source_of_vcs(self, name, version, vcs):
        url, commit = str(vcs.get("url", "")), str(vcs.get("commit-id", ""))
        if vcs.get("type") != "git" or not url.startswith("https://") or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            raise Failed("policy", f"{name} comes from a version control system that is not taken; git+https:// is.")
        directory = self.work + "/source-" + name
        os.mkdir(directory)
        for command in (["git", "init", "-q", "."], ["git", "fetch", "-q", "--depth", "1", "--", url, commit],
                        ["git", "checkout", "-q", "FETCH_HEAD"]):
            try:
                status, text = self.run(command, directory)
            except FileNotFoundError:
                raise Failed("internal", "git is not installed; the administrator has to install it.") from None
            if status != 0:
                raise Failed("index", f"git could not bring {name}: {printable(text, 300)}")
        return self.build(name, version, directory)

    def build(self, name, version, source):
        progress("building " + name)
        built = self.work + "/built-" + name
        status, text = self.run([self.order["uv"], "build", "--wheel", "--no-config", "--no-sources", "--python",
                                 self.order["python"], "--no-python-downloads", "--out-dir", built, source], self.work)
        files = [file for file in os.listdir(built) if file.endswith(".whl")] if os.path.isdir(built) else []
        if status != 0 or len(files) != 1 or not is_wheel(files[0], name) or self.target.rank(files[0]) is None:
            raise Failed("no-wheel", f"{name} could not be built from its source: {printable(causes(text), 600)}")
        path = self.wheels + "/" + files[0]
        os.rename(built + "/" + files[0], path)
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Failed("no-wheel", f"{name} could not be built from its source: its wheel is no file.")
        with open(path, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        return Package(name, version or files[0].split("-")[1], "", files[0], digest, os.path.getsize(path))

    # --- downloads -------------------------------------------------------------------------------------------------------

    def make_opener(self):
        """Opens http and https and nothing else: an index may not point at a file of ours."""
        os.environ.clear()
        os.environ.update(self.environment)
        try:
            context = ssl.create_default_context(cafile=self.order["ca_bundle"] or None)
        except OSError:
            raise Failed("tls", f"The CA bundle {self.order['ca_bundle']} cannot be read; the administrator has to correct it."
                         ) from None
        self.opener = urllib.request.OpenerDirector()
        for handler in (urllib.request.ProxyHandler(), urllib.request.UnknownHandler(), urllib.request.HTTPHandler(),
                        urllib.request.HTTPSHandler(context=context), urllib.request.HTTPDefaultErrorHandler(),
                        Redirects(), urllib.request.HTTPErrorProcessor()):
            self.opener.add_handler(handler)

    def download(self, packages):
        todo = [package for package in packages if package.url]
        total = sum(package.size for package in packages)
        if total > self.order["max_total_bytes"]:
            raise Failed("too-large", f"These packages are {total >> 20} MiB to download; {self.order['max_total_bytes'] >> 20} "
                         "MiB are allowed.")
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            try:
                futures = [pool.submit(self.download_one, package, len(todo), self.wheels) for package in todo]
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            finally:
                self.stop.set()
                pool.shutdown(cancel_futures=True)

    def download_one(self, package, n_all, directory):
        with self.lock:
            self.n_started += 1
            progress(f"downloading {min(self.n_started, n_all)}/{n_all} {package.name}")
        for attempt in range(ATTEMPTS):
            try:
                return self.transfer(package, directory)
            except Failed:
                raise
            except (OSError, http.client.HTTPException, ValueError) as e:
                is_last = attempt + 1 == ATTEMPTS or self.stop.is_set()
                failure = self.explain_transfer(package, e)
                if is_last or failure.kind not in ("index", "dns") or getattr(e, "code", 500) < 500:
                    raise failure from None
                self.stop.wait(min(1, self.seconds_left()))

    def transfer(self, package, directory):
        url = urllib.parse.urlsplit(package.url)
        request = urllib.request.Request(package.url, headers={"User-Agent": "mcp-exec", "Accept-Encoding": "identity"})
        if url.hostname in self.credentials:
            # Not for the host that it may be redirected to.
            request.add_unredirected_header("Authorization", "Basic " + self.credentials[url.hostname])
        elif url.username:
            request = self.with_credentials(url)
        digest = hashlib.sha256()
        n_bytes = 0
        with self.opener.open(request, timeout=min(20, self.seconds_left())) as response:
            path = directory + "/" + package.file
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o644), "wb", buffering=0) as f:
                while data := response.read1(CHUNK_BYTES):
                    if self.stop.is_set():
                        raise Failed("internal", "stopped")
                    self.seconds_left()
                    n_bytes += len(data)
                    self.count(package, n_bytes, len(data))
                    digest.update(data)
                    view = memoryview(data)
                    while view:
                        view = view[f.write(view):]
            length = response.headers.get("Content-Length", "")
            if length.isdecimal() and int(length[:20]) > n_bytes:
                raise http.client.IncompleteRead(b"")
        if digest.hexdigest() != package.sha256:
            os.unlink(path)
            raise Failed("hash-mismatch", f"The file {package.file} from {url.hostname} is not what the index says it is: its "
                         "sha256 differs. Nothing was installed. Try again; if it stays so, the index or a cache before it "
                         "is broken or hostile.")
        package.size = n_bytes

    def count(self, package, n_bytes, n_more):
        with self.lock:
            self.n_bytes += n_more
            if n_bytes > self.order["max_wheel_bytes"]:
                raise Failed("too-large", f"The file of {package.name} is larger than the "
                             f"{self.order['max_wheel_bytes'] >> 20} MiB that are allowed.")
            if self.n_bytes > self.order["max_total_bytes"]:
                raise Failed("too-large", f"These packages are larger than the {self.order['max_total_bytes'] >> 20} MiB that "
                             "are allowed.")

    @staticmethod
    def with_credentials(url):
        """The URL of an index may carry credentials; they go into a header."""
        pair = f"{urllib.parse.unquote(url.username)}:{urllib.parse.unquote(url.password or '')}"
        host = url.hostname + (f":{url.port}" if url.port else "")
        request = urllib.request.Request(url._replace(netloc=host).geturl(), headers={"User-Agent": "mcp-exec"})
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        return request

    def explain_transfer(self, package, e):
        host = urllib.parse.urlsplit(package.url).hostname
        reason = getattr(e, "reason", e)
        code = getattr(e, "code", 0)
        if getattr(e, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return explain("No space left on device", 1)
        if code == 404 or code == 410:
            return Failed("index", f"{host} no longer has the file {package.file} ({code}). Use another version.")
        if code:
            kind = {401: "HTTP 401", 403: "HTTP 403", 407: "407 Proxy Authentication"}.get(code, f"HTTP {code}")
            return explain(f"Failed to fetch: https://{host}/\n  cause: {kind}", 2)
        if isinstance(reason, ssl.SSLError):
            return explain(f"https://{host}/\n cause: certificate or TLS: {reason}", 2)
        if isinstance(reason, socket.gaierror) and not self.order["proxy"]:
            return explain(f"https://{host}/\n cause: dns error", 2)
        if self.order["proxy"] and not isinstance(reason, TimeoutError):
            return explain(f"https://{host}/\n cause: proxy: {reason}", 2)
        if isinstance(reason, TimeoutError):
            return explain(f"https://{host}/\n cause: timed out", 2)
        return explain(f"https://{host}/\n cause: connection error: {printable(reason, 200)}", 2)

    # --- all of it -------------------------------------------------------------------------------------------------------

    def answer(self):
        self.prepare()
        # Before resolving: a source is built while the choice is made.
        self.make_opener()
        packages = self.choose(self.resolve())
        lock_sha256 = lock_digest(packages)
        is_known = lock_sha256 in self.order["known_locks"]
        if not is_known:
            self.download(packages)
            with open(self.prefix + "/.lock", "x", encoding="ascii") as f:
                json.dump({"lock_sha256": lock_sha256, "packages": [package.facts() for package in packages]}, f)
        return {"lock_sha256": lock_sha256, "is_known": is_known,
                "packages": [package.facts() for package in packages], "download_bytes": self.n_bytes,
                "warnings": self.warnings}


class Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if not newurl.startswith(("http://", "https://")):
            raise Failed("index", "The index redirects to something that is neither http nor https.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def lock_digest(packages):
    digest = hashlib.sha256(b"mcp-exec lock 1\n")
    for package in packages:
        digest.update("\0".join((package.name, package.version, package.file, package.sha256)).encode() + b"\n")
    return digest.hexdigest()


def file_of(entry):
    name = entry.get("name") or urllib.parse.urlsplit(str(entry.get("url", ""))).path.rsplit("/", 1)[-1]
    return urllib.parse.unquote(str(name))


def is_wheel(file, name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,240}\.whl", file):
        return False
    parts = file.removesuffix(".whl").split("-")
    return len(parts) in (5, 6) and canonical(parts[0]) == name


def url_of(name, entry):
    url = str(entry.get("url", ""))
    if not re.match(r"https?://[^/\s]+/", url) or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url):
        raise Failed("index", f"The index has no http or https URL for {name}.")
    return url.split("#")[0]


def hash_of(name, entry):
    value = str(entry.get("hashes", {}).get("sha256", ""))
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise Failed("index", f"The index names no sha256 for the file of {name}, so that it cannot be checked. Use an index "
                     "that does.")
    return value


def size_of(entry):
    size = entry.get("size", 0)
    return size if isinstance(size, int) and 0 <= size < 1 << 50 else 0


def read_order(defaults):
    data = sys.stdin.buffer.read(ORDER_BYTES_MAX + 1)
    order = json.loads(data) if len(data) <= ORDER_BYTES_MAX else None
    if not isinstance(order, dict):
        sys.exit("fetch: the order is not understood")
    for key, empty in defaults.items():
        if order.setdefault(key, empty) is None:
            order[key] = empty
        if not isinstance(order[key], (int, float) if type(empty) is int else type(empty)):
            sys.exit(f"fetch: '{key}' of the order has the wrong type")
    return order


def main():
    fetch = Fetch(read_order(DEFAULTS))
    try:
        answer = fetch.answer()
    except Failed as e:
        answer = {"error": {"kind": e.kind, "message": printable(e)}}
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            answer = {"error": {"kind": "disk-full", "message": str(explain("No space left on device", 1))}}
        else:
            answer = {"error": {"kind": "internal", "message": printable(f"The packages cannot be fetched: {e.strerror}.")}}
    shutil.rmtree(fetch.work, ignore_errors=True)
    if "error" in answer or answer["is_known"]:
        shutil.rmtree(fetch.wheels, ignore_errors=True)
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
    sys.stdout.flush()
    # A thread may still wait for a server that says nothing.
    os._exit(0)


if __name__ == "__main__":
    main()
