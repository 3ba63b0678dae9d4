# SPDX-License-Identifier: MIT
"""The program uv, which the tests of packages need: out of its wheel, by the package client of this host, once."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
import zipfile

import host

VERSION = "0.13.9"
FOLDER = host.CACHE / f"uv-{VERSION}"
IN_MACHINE = "/mnt/uv"          # where a container shows it


class Unreachable(Exception):
    """It cannot be had here."""


def _pip():
    """A pip to download with, from PATH or Debian's."""
    for python in ("python3", "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return [python, "-m", "pip"]
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "python3-pip"]):
        subprocess.run([*host.APT_GET, *command], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        raise Unreachable("there is no pip, and it could not be installed")
    return ["/usr/bin/python3", "-m", "pip"]


def program():
    """Its path; Unreachable says why there is none."""
    target = FOLDER / "uv"
    with host.Lock(FOLDER.name):
        if target.exists():
            return target
        work = host.CACHE / f".{FOLDER.name}.{os.getpid()}"
        work.mkdir(exist_ok=True)
        try:
            host.run(*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={work}",
                     f"uv=={VERSION}", log=host.CACHE / f"{FOLDER.name}.log", timeout=300, stdin=subprocess.DEVNULL)
            wheel = next(work.glob("*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                name = next(n for n in archive.namelist() if n.endswith(".data/scripts/uv"))
                (work / "uv").write_bytes(archive.read(name))
            (work / "uv").chmod(0o755)
            wheel.unlink()
            work.chmod(0o755)
            os.rename(work, FOLDER)
        except (host.Failed, OSError, StopIteration) as error:
            raise Unreachable(f"uv cannot be downloaded: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def index_settings():
    """This host's ordinary package client, as lines of our [Packages]. Unreachable when it cannot fetch anything."""
    pip = _pip()
    work = tempfile.mkdtemp(prefix="mcp-exec-index.")
    try:
        host.run(*pip, "download", "--quiet", "--no-deps", "--no-cache-dir", f"--dest={work}", "six",
                 log=host.CACHE / "index.log", timeout=120, stdin=subprocess.DEVNULL)
    except host.Failed as error:
        raise Unreachable(f"the package index cannot be reached: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    found = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", host.output_of(*pip, "config", "list"), re.M))
    proxy = found.get("proxy") or os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    settings = {"IndexUrl": found.get("index-url"), "Proxy": proxy}
    # Credentials would have to be in another file, and are not ours to copy.
    lines = [f"{key}={value}" for key, value in settings.items() if value and "@" not in value]
    # What the names of the world lead to in this host's network is its administrator's affair.
    return [*lines, "InternalHosts=*"]


@functools.cache
def shared():
    """What a container is to show of it; nothing where it cannot be had, and the tests that need it say so."""
    try:
        return [(program().parent, IN_MACHINE, False)]
    except Unreachable as reason:
        host.say(f"the tests of packages are skipped: {reason}")
        return []
