# SPDX-License-Identifier: MIT
"""fetch: the wheels that a script's requirements resolve to, as files, each with the hash that the lock names.

uv resolves (and is trusted with nothing else: its cache goes with this program); the files are brought by a downloader of
our own, because uv does not hand out wheels as files. Order, answer and the reasons are in README.md beside the source.

What the index says is hostile, and so are the wheels, which nobody looks into here. Standard library only.
"""


import datetime
import hashlib
import json
import os
import re
import shutil
import stat
import time
import tomllib
import urllib.parse

from common import EndedUv, Failed, NoGit, NoUv, canonical, end_of, error_answer, pattern_matches, printable, progress, read_order
from common import rename_places, run_child, run_uv, uv_environment, write_answer
from download import Downloader, Package, credentials_of_url, read_credentials
from explain import NAME, explain_uv, last_words, warnings_of
from gate import Gate, place_of
from target import Target, is_wheel

RESOLVED_BYTES_MAX = 64 << 20

DEFAULTS = {
    "prefix": "/env", "outside": {}, "uv": "", "python": "", "requirements": [], "tool_uv": {}, "deny": [], "index_url": "",
    "extra_index_urls": [], "proxy": "", "no_proxy": [], "internal_hosts": [], "ca_bundle": "", "python_mirror": "",
    "exclude_newer": "", "offline": False, "allow_source_builds": False, "allow_urls": False, "allow_vcs": False, "known_locks": [], "budget_s": 120,
    "max_packages": 300, "max_wheel_bytes": 2 << 30, "max_total_bytes": 8 << 30,
}


def toml_list(entries):
    # A JSON string is a TOML string, but for what json.dumps leaves alone (DEL).
    return "[" + ", ".join(json.dumps(entry) for entry in entries) + "]"


def moment(text):
    """Of a span such as P7D the time to which it leads back; a date stays as it is."""
    found = re.fullmatch(r"P(\d{1,5})([DW])", text)
    if not found:
        return text
    span = datetime.timedelta(days=int(found[1]) * (7 if found[2] == "W" else 1))
    return (datetime.datetime.now(datetime.timezone.utc) - span).isoformat(timespec="seconds").replace("+00:00", "Z")


def instant(text):
    """Of a date or time, for comparison. A date means its end, as it does to uv."""
    try:
        time_of = datetime.datetime.fromisoformat(text)
        if len(text) == len("2026-01-31"):
            time_of = time_of.replace(hour=23, minute=59, second=59, microsecond=999999)
    except ValueError:
        raise Failed("internal", f"The date {printable(text, 40)} is not understood.") from None
    return time_of if time_of.tzinfo else time_of.replace(tzinfo=datetime.timezone.utc)


class Fetch:
    def __init__(self, order):
        self.order = order
        self.prefix = order["prefix"]
        self.wheels = self.prefix + "/.wheels"
        self.work = self.prefix + "/.tmp"
        self.deadline = time.monotonic() + order["budget_s"]
        self.target = None
        self.own_python = ""    # below the prefix; "": that of the order
        self.environment = {}
        self.gate = self.downloader = None
        self.warnings = []

    def python(self):
        return f"{self.prefix}/{self.own_python}" if self.own_python else self.order["python"]

    def seconds_left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failed("timeout", f"The packages could not be fetched within {self.order['budget_s']:g} s. Try again: most "
                         "likely the index or the network is slow at the moment.")
        return left

    def has_urls(self):
        return any(" @ " in entry for entry in self.entries())

    def entries(self):
        """All that was asked for, in whichever list."""
        lists = (value for value in self.order["tool_uv"].values() if isinstance(value, list))
        return [str(entry) for entries in (self.order["requirements"], *lists) for entry in entries]

    # --- settings --------------------------------------------------------------------------------------------------------

    def prepare(self):
        order = self.order
        if not order["uv"] or not os.access(order["uv"], os.X_OK):
            raise NoUv
        if order["offline"]:
            raise Failed("offline", "These packages are not prepared yet and the server is configured to fetch none. The "
                         "administrator can prepare them (mcp-exec env prepare).")
        if os.listdir(self.prefix):
            raise Failed("internal", "The directory for the packages is not empty.")
        # Before uv sees them: for a VCS it would start git at once.
        for requirement in self.entries():
            if " @ " in requirement and not order["allow_vcs" if " @ git+" in requirement else "allow_urls"]:
                raise Failed("policy", f"{printable(requirement, 150)} is a URL; only packages of the index are allowed here.")
        path, credentials = read_credentials()
        for url in (order["index_url"], *order["extra_index_urls"], order["proxy"]):
            credentials = {**credentials_of_url(url), **credentials}
        if (path or credentials) and (order["allow_source_builds"] or order["allow_vcs"]):
            raise Failed("policy", "Source builds are allowed (AllowSourceBuilds=, AllowVcs=) and index credentials are configured "
                         "(IndexCredentials=), but a stranger's code must not be able to read these. The administrator has to "
                         "decide for one of them.")
        if "python" in order["tool_uv"] and (order["allow_source_builds"] or order["allow_vcs"]):
            # The lock binds each wheel by its hash, but not the interpreter's files: a build could change them, and
            # with them the set of whoever asks for the same.
            raise Failed("policy", "No installed interpreter fits, and none is downloaded where source builds are allowed.")
        os.mkdir(self.work, 0o700)
        os.mkdir(self.wheels, 0o755)
        seconds = max(3, int(min(20, order["budget_s"] / 4)))
        # Before uv loses patience: what the gate says is more exact.
        self.gate = Gate(order, credentials, 0.8 * seconds)
        self.environment = self.make_environment(path, str(seconds))
        self.downloader = Downloader(order, self.environment, credentials, self.gate, self.seconds_left)
        if "python" in order["tool_uv"]:
            self.own_python = self.bring_python()
        self.target = Target(self.python())

    def make_environment(self, credentials, seconds):
        order = self.order
        environment = uv_environment(self.work)
        # One more try, for a connection that was lost; a dead index must be known within the budget.
        environment.update({"UV_SYSTEM_CERTS": "1", "UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": seconds,
                            "UV_HTTP_CONNECT_TIMEOUT": seconds, "GIT_TERMINAL_PROMPT": "0"})
        # What a repository has as its parts may be anywhere; https goes through the gate. uv copies with "file".
        for i, (protocol, allow) in enumerate((("", "never"), ("https.", "always"), ("file.", "user"))):
            environment |= {f"GIT_CONFIG_KEY_{i}": f"protocol.{protocol}allow", f"GIT_CONFIG_VALUE_{i}": allow,
                            "GIT_CONFIG_COUNT": str(i + 1)}
        # Builds need programs; resolving needs none, and must not find git.
        if order["allow_source_builds"] or order["allow_vcs"]:
            environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
        # Not as arguments: those can be seen by others.
        if order["index_url"]:
            environment["UV_DEFAULT_INDEX"] = order["index_url"]
        if order["extra_index_urls"]:
            environment["UV_INDEX"] = " ".join(order["extra_index_urls"])
        if credentials:
            environment["NETRC"] = credentials
        if order["ca_bundle"]:
            environment["SSL_CERT_FILE"] = environment["GIT_SSL_CAINFO"] = order["ca_bundle"]
        newest = min(filter(None, (moment(order["exclude_newer"]), order["tool_uv"].get("exclude-newer", ""))),
                     key=instant, default="")
        if newest:
            environment["UV_EXCLUDE_NEWER"] = newest
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment[name] = environment[name.lower()] = self.gate.url
        return environment

    # --- uv --------------------------------------------------------------------------------------------------------------

    def run(self, command, directory, run=run_uv, environment=None):
        """Runs a program until the budget's end."""
        status, text = run(command, directory, environment or self.environment, self.seconds_left())
        self.seconds_left()
        return status, text

    def explain(self, text, status):
        """Why uv failed: the gate knows best what the network did."""
        if status < 0:
            return EndedUv(-status)
        failure = explain_uv(text, status)
        is_network = failure.kind in ("index", "dns", "proxy", "internal", "no-uv")
        return is_network and self.gate.failure() or failure

    def bring_python(self):
        """An interpreter of uv's own, into the set. Returns its path in there. uv knows the hashes of all that it brings."""
        progress("downloading Python")
        top = self.prefix + "/python"
        environment = {**self.environment, "UV_PYTHON_DOWNLOADS": "manual"}
        if self.order["python_mirror"]:
            environment["UV_PYTHON_INSTALL_MIRROR"] = self.order["python_mirror"]
        request = self.order["tool_uv"]["python"]
        status, text = self.run([self.order["uv"], "python", "install", "--no-config", "--no-bin", "--no-progress", "--color",
                                 "never", "--install-dir", top, request], self.work, environment=environment)
        if status != 0:
            failure = self.explain(text, status)
            if failure.kind in ("internal", "python") and "No download found" in text:
                failure = Failed("python", f"There is no Python {request} to be downloaded. Ask for another version.")
            raise failure
        found = []
        for entry in os.scandir(top):
            if entry.is_dir(follow_symlinks=False) and re.fullmatch(r"cpython-3\.[0-9]+[A-Za-z0-9._+-]*", entry.name):
                minor = entry.name.split(".")[1]
                found.append(f"python/{entry.name}/bin/python3.{minor}")
            elif entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                # Shorter names for it, and uv's lock.
                os.unlink(entry.path)
        if len(found) != 1 or not os.path.isfile(f"{self.prefix}/{found[0]}"):
            raise Failed("internal", "uv brought no interpreter that can be found.")
        return found[0]

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
                   "--color", "never", "--python", self.python(), "--format", "pylock.toml", "-o", "pylock.toml"]
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
        if status != 0:
            raise self.explain(text, status)
        self.warnings += warnings_of(text)
        try:
            with open(project + "/pylock.toml", "rb") as f:
                data = f.read(RESOLVED_BYTES_MAX + 1)
            if len(data) > RESOLVED_BYTES_MAX:
                raise Failed("too-large", "The solution is too large.")
            return tomllib.loads(data.decode())
        except (OSError, ValueError, RecursionError):
            raise Failed("internal", "The program that stands for uv wrote no lock that can be read. The administrator has "
                         "to check that it is uv (UvPath= in mcp-exec.conf), and no old one.") from None

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
            if archive.get("subdirectory"):
                raise Failed("no-wheel", f"{name} is in a directory of its archive, and only a whole archive is built here. "
                             "Use a wheel, or a git+https:// URL where the administrator allows these.")
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
        self.downloader.bring_one(package, 1, directory)
        return self.build(name, version, directory + "/" + file)

    def source_of_vcs(self, name, version, vcs):
        url, commit = str(vcs.get("url", "")), str(vcs.get("commit-id", ""))
        if vcs.get("type") != "git" or not url.startswith("https://") or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            raise Failed("policy", f"{name} comes from a version control system that is not taken; git+https:// is.")
        part = str(vcs.get("subdirectory", ""))
        if any(word in ("", ".", "..") for word in part.split("/")) and part:
            raise Failed("index", f"The directory of its repository that {name} is in has a name that is not understood.")
        directory = self.work + "/source-" + name
        os.mkdir(directory)
        # With its history and tags: many packages make their version of these, and it must be the one that uv was told.
        # The name is for what belongs to it and says where it is from there on.
        for command in (["init", "-q", "."], ["remote", "add", "origin", url], ["fetch", "-q", "--tags", "origin", commit],
                        ["checkout", "-q", commit]):
            self.git(command, directory, name)
        # Other repositories that are parts of it. uv has had them, too, when it asked the package for its version.
        if os.path.lexists(directory + "/.gitmodules"):
            self.git(["submodule", "-q", "update", "--init", "--recursive"], directory, name)
        return self.build(name, version, f"{directory}/{part}" if part else directory)

    def git(self, command, directory, name):
        try:
            status, text = self.run(["git", *command], directory, run_child)
        except FileNotFoundError:
            raise NoGit from None
        if status != 0:
            raise self.gate.failure() or Failed("index", f"git could not bring {name}: {end_of(text, 300)}")

    def build(self, name, version, source):
        progress("building " + name)
        built = self.work + "/built-" + name
        status, text = self.run([self.order["uv"], "build", "--wheel", "--no-config", "--no-sources", "--python",
                                 self.python(), "--no-python-downloads", "--out-dir", built, source], self.work)
        files = [file for file in os.listdir(built) if file.endswith(".whl")] if os.path.isdir(built) else []
        if status != 0 or len(files) != 1 or not is_wheel(files[0], name) or self.target.rank(files[0]) is None:
            raise Failed("no-wheel", f"{name} could not be built from its source: {last_words(text)}")
        path = self.wheels + "/" + files[0]
        os.rename(built + "/" + files[0], path)
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Failed("no-wheel", f"{name} could not be built from its source: its wheel is no file.")
        with open(path, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        return Package(name, version or files[0].split("-")[1], "", files[0], digest, os.path.getsize(path))

    def answer(self):
        self.prepare()
        packages = self.choose(self.resolve())
        lock_sha256 = lock_digest(packages, self.own_python)
        is_known = lock_sha256 in self.order["known_locks"]
        if not is_known:
            self.gate.look_at((package.url for package in packages if package.url), self.seconds_left)
            self.downloader.bring(packages, self.wheels)
            with open(self.prefix + "/.lock", "x", encoding="ascii") as f:
                json.dump({"lock_sha256": lock_sha256, "python": self.own_python,
                           "packages": [package.facts() for package in packages]}, f)
        return {"lock_sha256": lock_sha256, "is_known": is_known,
                "packages": [package.facts() for package in packages], "download_bytes": self.downloader.n_bytes,
                "warnings": self.warnings}


def lock_digest(packages, own_python):
    digest = hashlib.sha256(b"mcp-exec lock 1\n" + own_python.encode())
    for package in packages:
        digest.update("\0".join((package.name, package.version, package.file, package.sha256)).encode() + b"\n")
    return digest.hexdigest()


def file_of(entry):
    name = entry.get("name") or re.split("[?#]", str(entry.get("url", "")))[0].rsplit("/", 1)[-1]
    return urllib.parse.unquote(str(name))


def url_of(name, entry):
    url = str(entry.get("url", ""))
    try:
        is_right = all(place_of(url))
    except ValueError:
        is_right = False
    if not is_right or not re.match(r"https?://[^/\s]+/", url) or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url):
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


def main():
    order = read_order(DEFAULTS)
    rename_places(order)
    fetch = Fetch(order)
    try:
        answer = fetch.answer()
    except (Failed, OSError) as e:
        answer = error_answer(e, "The packages cannot be fetched")
        if fetch.has_urls():
            # Whoever wrote the script may have chosen them.
            answer["error"].pop("internal_hosts", None)
    shutil.rmtree(fetch.work, ignore_errors=True)
    if "error" in answer or answer["is_known"]:
        shutil.rmtree(fetch.wheels, ignore_errors=True)
        shutil.rmtree(fetch.prefix + "/python", ignore_errors=True)
    write_answer(answer)
    # A thread may still wait for a server that says nothing.
    os._exit(0)


if __name__ == "__main__":
    main()
