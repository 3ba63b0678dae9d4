# SPDX-License-Identifier: MIT
"""A test machine as a container: systemd-nspawn boots a run image, changes go to a tmpfs and vanish.

The caller must be in a mount namespace of its own (tests/run sees to that): the mounts made here then go away with
the process, however it ends."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import host
import images

BOOT_SECONDS = 90


class Container:
    """Boots on entering a with block. `run` executes a command in a unit of its own inside."""

    def __init__(self, suite, shared=(), log=None):
        """shared: (host directory, path inside, writable) to show in the machine."""
        self.suite, self.shared = suite, shared
        self.log = pathlib.Path(log) if log else None
        self.process = None

    def __enter__(self):
        root = images.image("run", self.suite)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="mcp-exec-container."))
        try:
            host.run("mount", "-t", "tmpfs", "-o", "mode=0755", "test-machine", self.work)
            for name in ("upper", "work", "root"):
                (self.work / name).mkdir()
            self._mount(root)
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _mount(self, root):
        options = f"lowerdir={root},upperdir={self.work}/upper,workdir={self.work}/work"
        done = subprocess.run(["mount", "-t", "overlay", "-o", options, "test-machine", str(self.work / "root")],
                              capture_output=True)
        if done.returncode != 0:
            host.say("no overlay file system here, copying the image")
            host.run("cp", "-a", f"{root}/.", self.work / "root")

    def _boot(self):
        # Hybrid or v1 layouts hide what systemd needs; sid refuses to boot on them.
        env = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        argv = ["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet", "--register=no", "--keep-unit",
                f"--directory={self.work}/root", "--private-network", "--console=pipe", "--link-journal=no",
                "--resolv-conf=off", "--timezone=off", "--hostname=test-machine"]
        for outside, inside, writable in self.shared:
            argv.append(f"--{'bind' if writable else 'bind-ro'}={outside}:{inside}")
        out = open(self.log, "ab") if self.log else subprocess.DEVNULL
        self.process = subprocess.Popen(argv + ["--boot"], stdin=subprocess.DEVNULL, stdout=out,
                                        stderr=subprocess.STDOUT, env=env, start_new_session=True)
        if self.log:
            out.close()
        if not host.wait_for(self._is_up, BOOT_SECONDS):
            raise host.Failed(f"the {self.suite} container did not boot (log: {self.log})")

    def _leader(self):
        """The container's PID 1, as the host numbers it: the grandchild that nspawn forked."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            name = pathlib.Path(f"/proc/{child}/comm").read_text().strip()
            if name in ("systemd", "init"):
                return child
        return None

    def _is_up(self):
        if self.process.poll() is not None:
            raise host.Failed(f"systemd-nspawn ended with status {self.process.returncode} (log: {self.log})")
        try:
            leader = self._leader()
            if not leader:
                return False
            done = subprocess.run(["nsenter", "-t", leader, "-m", "-u", "-i", "-n", "-p", "-C", "--", "systemctl",
                                   "is-system-running"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  timeout=20, text=True)
        except (OSError, subprocess.TimeoutExpired):
            return False
        self.leader = leader
        return done.stdout.strip() in ("running", "degraded")

    def run(self, *argv, check=True, interactive=False, **kwargs):
        """Runs a command inside as root, in a service of its own (nothing of the host's environment)."""
        how = "--pty" if interactive else "--pipe"
        inside = ["systemd-run", "--quiet", "--collect", "--wait", how, "--service-type=exec", "--setenv=HOME=/root",
                  "--working-directory=/root", *map(str, argv)]
        # nsenter finds the machine by its PID 1; systemd-run makes the command a part of the machine.
        return subprocess.run(["nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p", "-C", "--", *inside],
                              check=check, env={"PATH": os.environ["PATH"], "TERM": os.environ.get("TERM", "dumb")},
                              **kwargs)

    def install(self, deb, **kwargs):
        """Installs a package from a directory shared with the machine; no network is needed."""
        return self.run("apt-get", "install", "-y", "--no-install-recommends", "--no-download", deb, **kwargs)

    def __exit__(self, *_):
        if self.process:
            # The tmpfs goes away, so there is nothing to shut down in order.
            host.kill(self.process, grace=0.2)
        subprocess.run(["umount", "-l", str(self.work / "root")], stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "-l", str(self.work)], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.work, ignore_errors=True)
