# SPDX-License-Identifier: MIT
"""The conformance stage: npm packages into the cache, the suite against a build with diagnostic tools and against
the installed package, and real clients against that package."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import container
import host
import images
import overlay
import package
import results
import stages

HERE = host.TREE / "tests" / "protocol" / "conformance"
SECONDS = 15 * 60               # of one machine; a run takes a third of it on two idle processors
NPM_SECONDS = 600


class Unreachable(Exception):
    """The packages cannot be had here."""


def _install_npm():
    """Debian's node and npm, only to fetch with: the tests run on the Node of package-lock.json."""
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "nodejs", "npm"]):
        subprocess.run([*host.APT_GET, *command], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _answers():
    """Whether npm's registry does. Behind some firewalls npm waits for minutes."""
    try:
        return subprocess.run(["npm", "ping"], capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _pinned(lock):
    """What a lock binds. Versions of npm write the rest, such as which C library a package is for, differently."""
    return {path: (package.get("version"), package.get("integrity"))
            for path, package in json.loads(lock.read_text())["packages"].items()}


def modules(log):
    """The directory with what package-lock.json names, installed once. No script of a package is run."""
    lock = HERE / "package-lock.json"
    target = host.CACHE / f"npm-{host.digest(lock.read_bytes(), (HERE / 'package.json').read_bytes())}"
    with host.Lock(target.name):
        if target.is_dir():
            return target / "node_modules"
        if not shutil.which("npm"):
            _install_npm()
        if not shutil.which("npm"):
            raise Unreachable("there is no npm, and it could not be installed")
        host.say("installing the conformance suite and the clients from npm")
        work = host.CACHE / f".{target.name}.{os.getpid()}"
        work.mkdir(exist_ok=True)
        try:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, work / name)
            # Not "npm ci": it refuses a lock without an optional package that exists for Windows only. What is
            # installed is the lock's all the same: versions, digests, and nothing that is not in it.
            host.run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
                     "--omit-lockfile-registry-resolved", log=log, cwd=work, timeout=NPM_SECONDS,
                     stdin=subprocess.DEVNULL)
            if _pinned(work / "package-lock.json") != _pinned(lock):
                raise host.Failed("npm did not install what package-lock.json says")
            os.rename(work, target)
        except host.Failed as error:
            if not _answers():
                raise Unreachable("npm does not reach its registry") from error
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target / "node_modules"


def _diagnostic(npm, where):
    """The suite against a build that has its tools, in the oldest release, with a fake launcher."""
    log, verdicts = where / "conformance-diagnostic.log", where / "diagnostic"
    options = ["-Dconformance=true", "-Dtests=true", "--prefix=/usr", "--werror"]
    root = images.image("build", "bookworm")
    key = host.digest(host.TREE, images.recipe_key("build", "bookworm"), options)
    build = host.CACHE / "meson" / f"conformance-{key}"
    build.mkdir(parents=True, exist_ok=True)
    os.chown(build, 1000, 1000)
    verdicts.mkdir()
    with host.Lock(f"meson-{build.name}"), overlay.Overlay(root) as tree:
        source = tree.root / "src" / "mcp-exec"
        package.copy_sources(source)
        host.run("chroot", tree.root, "chown", "-R", "builder:", "/src")
        folders = [(build, "/build"), (npm, "/npm/node_modules"), (verdicts, "/verdicts")]

        def inside(*argv, **kwargs):
            return package.inside(tree, argv, log, folder="/src/mcp-exec", binds=folders, **kwargs)
        if not (build / "build.ninja").exists():
            inside("meson", "setup", *options, "/build", "/src/mcp-exec")
        inside("ninja", "-C", "/build", "-j2", "src/server/mcp-exec", "tests/fake/fake-launcher")
        inside("python3", "-B", "tests/protocol/conformance/run.py", "suite", "--build", "diagnostic",
               "--results", "/verdicts/results.jsonl", check=False, user="root", seconds=SECONDS,
               setenv=("NODE_MODULES=/npm/node_modules", "MCP_EXEC=/build/src/server/mcp-exec",
                       "FAKE_LAUNCHER=/build/tests/fake/fake-launcher"))
    return results.read("bookworm", "conformance-diagnostic", verdicts / "results.jsonl")


def _installed(npm, where, suite="trixie"):
    """The suite, then real clients, against the installed package on a real systemd."""
    shared = where / f"conformance-{suite}"
    shared.mkdir()
    shutil.copytree(HERE, shared / "conformance", ignore=shutil.ignore_patterns("__pycache__"))
    stages.add_schemas(shared)
    shutil.copy(host.TREE / "tests" / "system" / "prepare.sh", shared / "prepare.sh")
    shutil.copy(package.deb(suite), shared / "mcp-exec.deb")
    found = []
    with container.Container(suite, [(shared, "/mnt/host", True), (npm, "/mnt/npm/node_modules", False)],
                             shared / "boot.log") as guest, open(shared / "console.log", "ab") as out:
        def inside(*argv, **kwargs):
            return guest.run(*argv, check=False, stdout=out, stderr=out, stdin=subprocess.DEVNULL, **kwargs)
        if inside("sh", "/mnt/host/prepare.sh", "/mnt/host/mcp-exec.deb").returncode != 0:
            raise host.Failed(f"the package did not install and start (log: {shared}/console.log)")
        for what in ("suite", "clients"):
            inside("env", "NODE_MODULES=/mnt/npm/node_modules", "python3", "-B", "/mnt/host/conformance/run.py", what,
                   "--results", f"/mnt/host/{what}.jsonl", timeout=SECONDS)
            found += results.read(suite, f"conformance-{what}", shared / f"{what}.jsonl")
        inside("journalctl", "--no-pager", "-b", "-u", "mcp-exec*")
    return found


def everything(where):
    started = time.monotonic()
    try:
        npm = modules(where / "npm.log")
    except Unreachable as reason:
        return [results.Result("host", "conformance", "skip", 0, str(reason))]
    except (host.Failed, OSError, subprocess.SubprocessError) as error:
        return [results.Result("host", "conformance.npm", "fail", time.monotonic() - started, str(error))]
    found = []
    for name, part in (("diagnostic", _diagnostic), ("installed", _installed)):
        try:
            found += part(npm, pathlib.Path(where))
        except (host.Failed, OSError, subprocess.SubprocessError) as error:
            found.append(results.Result("host", f"conformance.{name}", "fail", 0, str(error)))
    return found
