# SPDX-License-Identifier: MIT
"""The stage of scripts with real packages: tests/system/index_*.py in a machine that has the host's network, with
the installed package on a real systemd."""

import os
import shutil
import subprocess
import sys
import time

import container
import host
import results
import stages
import uv

SECONDS = 40 * 60               # of one machine, most of it for downloads and byte compilers on a busy one
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def _in_machine(suite, where, program, settings, names):
    shared = stages.exchange(suite, "index", where)
    shutil.copy(program, shared / "uv")
    (shared / "index.conf").write_text("".join(f"{line}\n" for line in settings))
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
        program, settings = uv.program(), uv.index_settings()
    except uv.Unreachable as reason:
        return [results.Result("host", "index", "skip", 0, str(reason))]
    try:
        return _in_machine(suite, where, program, settings, names)
    except (host.Failed, OSError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return [results.Result(suite, "index.machine", "fail", time.monotonic() - started, str(error))]
