# SPDX-License-Identifier: MIT
"""A test machine as a virtual machine without KVM: Debian's user-mode Linux, an ordinary program.

It has what a container on a cgroup v1 host lacks: the memory, pids and cpu controllers, and a kernel of its own.
It boots a disk made from a run image (changes go to a copy-on-write file), finds a shared directory at /mnt/host,
runs boot.sh from there by test-machine.service, and turns itself off."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import host
import images

MEMORY = "1536M"
# The seccomp mode needs kernel 6.16 or newer and is three times as fast as what 6.1 can do.
KERNELS = (("sid", ["seccomp=on"]), ("bookworm", []))
SLOWNESS = 4                    # how much longer than a container a test may take


def kernel():
    """A root directory with a kernel in it, and the options it needs."""
    for suite, options in KERNELS:
        try:
            return images.image("kernel", suite), options
        except host.Failed as error:
            host.say(f"no user-mode Linux from {suite}: {error}")
    raise host.Failed("no user-mode Linux could be had")


def run_boot_script(suite, script, shared, seconds, log, cpus=1):
    """Boots, runs `script` (text of a shell script) inside with `shared` at /mnt/host, and waits for the power-off.

    What the script leaves in /mnt/host is in `shared` afterwards. Raises Failed when the time is up."""
    shared = pathlib.Path(shared)
    (shared / "boot.sh").write_text(script)
    root, options = kernel()
    disk = images.disk(suite)
    work = pathlib.Path(tempfile.mkdtemp(prefix="mcp-exec-vm."))
    chroot = work / "root"
    process = None
    try:
        # Memory and copy-on-write file of the vm live in a tmpfs, executable as the kernel's memory must be.
        host.run("mount", "-t", "tmpfs", "-o", "mode=0755,size=6G", "test-machine", work)
        for name in ("upper", "work", "root"):
            (work / name).mkdir()
        _overlay(root, work)
        for name, source in (("exchange", shared), ("disk", disk.parent), ("proc", "/proc"), ("dev", "/dev"),
                             ("sys", "/sys")):
            (chroot / name).mkdir(exist_ok=True)
            host.run("mount", "--bind", source, chroot / name)
        (chroot / "tmp").mkdir(exist_ok=True)
        (chroot / "root").mkdir(exist_ok=True)
        binary = next(p for p in ("usr/bin/linux.uml", "usr/bin/linux") if (chroot / p).exists())
        argv = ["setpriv", "--pdeathsig", "KILL", "chroot", str(chroot), f"/{binary}",
                f"ubd0=/tmp/changes,/disk/{disk.name}", "root=/dev/ubda", "rw", f"mem={MEMORY}", "con0=fd:0,fd:1",
                "con=null", "ssl=null", f"umid={work.name}", "mcp-exec-test", "systemd.show_status=0",
                "systemd.log_level=notice", *options]
        with open(log, "ab") as out:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       env={"PATH": "/usr/bin:/bin", "HOME": "/root", "TMPDIR": "/tmp"},
                                       start_new_session=True)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise host.Failed(f"the vm was ended after {seconds} s (log: {log})") from None
    finally:
        if process and process.poll() is None:
            host.kill(process)
        _leave(work)


def _overlay(root, work):
    options = f"lowerdir={root},upperdir={work}/upper,workdir={work}/work"
    done = subprocess.run(["mount", "-t", "overlay", "-o", options, "test-machine", str(work / "root")],
                          capture_output=True)
    if done.returncode != 0:
        host.run("cp", "-a", f"{root}/.", work / "root")


def _leave(work):
    for name in ("exchange", "disk", "proc", "dev", "sys"):
        subprocess.run(["umount", "-l", str(work / "root" / name)], stderr=subprocess.DEVNULL)
    subprocess.run(["umount", "-l", str(work / "root")], stderr=subprocess.DEVNULL)
    subprocess.run(["umount", "-l", str(work)], stderr=subprocess.DEVNULL)
    shutil.rmtree(work, ignore_errors=True)


def run_command(suite, command, seconds=300, log=os.devnull):
    """Runs a shell command in a fresh vm and returns (exit status, output)."""
    with tempfile.TemporaryDirectory(prefix="mcp-exec-vm-shared.") as shared:
        (pathlib.Path(shared) / "command.sh").write_text(command)
        script = "sh /mnt/host/command.sh >/mnt/host/output 2>&1; echo $? >/mnt/host/status; sync\n"
        started = time.monotonic()
        run_boot_script(suite, script, shared, seconds, log)
        status = pathlib.Path(shared) / "status"
        if not status.exists():
            raise host.Failed(f"the vm ended after {time.monotonic() - started:.0f} s without a result (log: {log})")
        return int(status.read_text()), (pathlib.Path(shared) / "output").read_text(errors="replace")
