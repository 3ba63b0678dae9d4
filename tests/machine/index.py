# SPDX-License-Identifier: MIT
"""The stage of scripts with real packages: uv from the package index into the cache, then tests/system/index_*.py in a
machine that has the host's network, with the installed package on a real systemd."""

import os
import shutil
import subprocess
import sys
import time
import zipfile

import container
import host
import results
import stages

UV = "0.13.9"
SECONDS = 40 * 60               # of one machine, most of it for downloads and byte compilers on a busy one
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class Unreachable(Exception):
    """The packages cannot be had here."""


def _pip():
    """A pip to download with, from PATH or Debian's."""
    for python in ("python3", "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return [python, "-m", "pip"]
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "python3-pip"]):
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        raise Unreachable("there is no pip, and it could not be installed")
    return ["/usr/bin/python3", "-m", "pip"]


def uv(log):
    """The program uv of this version, taken out of its wheel, once."""
    target = host.CACHE / f"uv-{UV}"
    with host.Lock(target.name):
        if target.is_dir():
            return target / "uv"
        work = host.CACHE / f".{target.name}.{os.getpid()}"
        work.mkdir()
        try:
            host.run(*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={work}", f"uv=={UV}",
                     log=log, timeout=300, stdin=subprocess.DEVNULL)
            wheel = next(work.glob("*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                name = next(n for n in archive.namelist() if n.endswith(".data/scripts/uv"))
                (work / "uv").write_bytes(archive.read(name))
            (work / "uv").chmod(0o755)
            wheel.unlink()
            os.rename(work, target)
        except (host.Failed, subprocess.TimeoutExpired) as error:
            raise Unreachable(f"uv cannot be downloaded: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target / "uv"


def _in_machine(suite, where, program, names):
    shared = stages.exchange(suite, "index", where)
    shutil.copy(program, shared / "uv")
    if os.path.exists(CERTIFICATES):
        shutil.copy(CERTIFICATES, shared / "ca.pem")    # also those of this host's own network
    log = shared / "console.log"
    with container.Container(suite, [(shared, "/mnt/host", True)], shared / "boot.log", has_network=True) as guest:
        with open(log, "wb") as out:
            if guest.run("sh", "/mnt/host/tests/prepare.sh", "/mnt/host/mcp-exec.deb", check=False, stdout=out,
                         stderr=out).returncode != 0:
                raise host.Failed(f"the package did not install and start:\n{log.read_text()[-4000:]}")
        if not guest.run_detached("python3", "/mnt/host/tests/run.py", "--results", "/mnt/host/results", "--where",
                                  "container", "--scripts", "index_*.py", *names, output="/mnt/host/console.log",
                                  seconds=SECONDS):
            raise host.Failed(f"the tests took more than {SECONDS} s")
    return results.read(suite, "index", shared / "results" / "results.jsonl")


def everything(where, suite="trixie", names=()):
    started = time.monotonic()
    try:
        program = uv(where / "uv.log")
    except Unreachable as reason:
        return [results.Result("host", "index", "skip", 0, str(reason))]
    try:
        return _in_machine(suite, where, program, names)
    except (host.Failed, OSError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return [results.Result(suite, "index.machine", "fail", time.monotonic() - started, str(error))]
