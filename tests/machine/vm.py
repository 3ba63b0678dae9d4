# SPDX-License-Identifier: MIT
"""A test machine as a virtual machine without KVM: Debian's user-mode Linux, an ordinary program.

It has what a container on a cgroup v1 host lacks: the memory, pids and cpu controllers, and a kernel of its
own. It boots a disk made from a run image (changes go to a copy-on-write file), finds a shared directory at
/mnt/host, runs boot.sh from there by test-machine.service, and turns itself off."""

import os
import pathlib
import subprocess
import tempfile

import host
import images
import overlay

MEMORY = "1536M"
# The seccomp mode needs kernel 6.16 or newer and is three times as fast as what 6.1 can do.
KERNELS = (("sid", ["seccomp=on"]), ("bookworm", []))
# Runs first inside: the kernel's modules lie beside it, outside of the disk, and only the network needs one.
MODULES = """
mkdir -p /lib/modules
mount -t hostfs none /lib/modules -o hostfs=/usr/lib/uml/modules 2>/dev/null ||
    mount -t hostfs none /lib/modules -o /usr/lib/uml/modules
[ -e "/lib/modules/$(uname -r)/modules.dep" ] || depmod
modprobe dummy
ip link show dummy0 >/dev/null 2>&1 || systemctl restart test-network.service
"""
SLOWNESS = 4                    # how much longer than a container a test may take


def kernel():
    """A root directory with a kernel in it, and the options it needs."""
    for suite, options in KERNELS:
        try:
            return images.image("kernel", suite), options
        except host.Failed as error:
            host.say(f"no user-mode Linux from {suite}: {error}")
    raise host.Failed("no user-mode Linux could be had")


def run_boot_script(suite, script, shared, seconds, log):
    """Boots, runs `script` (text of a shell script) inside with `shared` at /mnt/host, and waits for the
    power-off.

    What the script leaves in /mnt/host is in `shared` afterwards. Raises Failed when the time is up."""
    shared = pathlib.Path(shared)
    (shared / "boot.sh").write_text(MODULES + script)
    root, options = kernel()
    disk = images.disk(suite)
    process = None
    # The vm's memory and copy-on-write file live in the overlay's tmpfs, below /tmp of the small root.
    with overlay.Overlay(root) as tree:
        try:
            for name, source in (("exchange", shared), ("disk", disk.parent), ("proc", "/proc"),
                                 ("dev", "/dev"), ("sys", "/sys"), ("tmp", _folder(tree.work / "tmp"))):
                tree.bind(source, name)
            # Only extracted, never configured: the links of a merged /usr come with a package's script.
            for name in ("bin", "lib", "lib64"):
                if not os.path.lexists(tree.root / name):
                    (tree.root / name).symlink_to(f"usr/{name}")
            binary = next(p for p in ("usr/bin/linux.uml", "usr/bin/linux") if (tree.root / p).exists())
            argv = ["setpriv", "--pdeathsig", "KILL", "chroot", str(tree.root), f"/{binary}",
                    f"ubd0=/tmp/changes,/disk/{disk.name}", "root=/dev/ubda", "rw", f"mem={MEMORY}",
                    "con0=null,fd:1", "con=null", "ssl=null", f"umid={tree.work.name}", "mcp-exec-test",
                    "systemd.show_status=0", *options]
            with open(log, "ab") as out:
                env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
                process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=subprocess.STDOUT, env=env, start_new_session=True)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise host.Failed(f"the vm was ended after {seconds} s (log: {log})") from None
        finally:
            if process and process.poll() is None:
                host.kill(process)


def _folder(path):
    path.mkdir()
    return path


def run_command(suite, command, shared=None, prepare=False, seconds=900, log=os.devnull):
    """Runs a shell command in a fresh vm and returns (exit status, output).

    shared: a directory to show at /mnt/host; prepare: install the package in it and start the sockets
    first."""
    with tempfile.TemporaryDirectory(prefix="mcp-exec-vm-shared.") as own:
        folder = pathlib.Path(shared or own)
        (folder / "command.sh").write_text(command + "\n")
        script = "exec >/mnt/host/output 2>&1\n"
        if prepare:
            script += "sh /mnt/host/tests/prepare.sh /mnt/host/mcp-exec.deb || exit\n"
        script += "sh /mnt/host/command.sh; echo $? >/mnt/host/status; sync\n"
        run_boot_script(suite, script, folder, seconds, log)
        output = (folder / "output").read_text(errors="replace") if (folder / "output").exists() else ""
        if not (folder / "status").exists():
            raise host.Failed(f"the vm ended without a result (log: {log})\n{output}")
        return int((folder / "status").read_text()), output
