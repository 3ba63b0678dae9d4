# SPDX-License-Identifier: MIT
"""A test machine as a container: systemd-nspawn boots a run image, changes go to a tmpfs and vanish.

The caller must be in a mount namespace of its own (tests/run sees to that): the mounts made here then go
away with the process, however it ends."""

import contextlib
import os
import pathlib
import subprocess

import host
import images
import overlay

BOOT_SECONDS = 90
NAMESPACES = ("-m", "-u", "-i", "-n", "-p", "-C", "--")


class Cgroup:
    """A cgroup of its own for one machine. nspawn puts every machine of one caller into the same place, and two
    systemds there would take each other's units of the same name for their own, and kill them."""

    def __init__(self, name):
        root = next((line.split()[4] for line in open("/proc/self/mountinfo") if " - cgroup2 " in line), None)
        own = next((line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::")), None)
        if root is None or own is None:
            raise host.Failed("cgroup v2 is mounted nowhere on this host, so no container can be booted")
        self.parent = pathlib.Path(root + own)
        self.path = self.parent / name

    def __enter__(self):
        self.path.mkdir()
        # Possible and needed only where the host uses nothing but cgroup v2.
        with contextlib.suppress(OSError):
            (self.parent / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        return self

    def command(self, argv):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *argv]

    def __exit__(self, *_):
        # The machine is dead; its last processes may take a moment to leave.
        host.wait_for(self._remove, 10)

    def _remove(self):
        try:
            for folder, _, _ in os.walk(self.path, topdown=False):
                os.rmdir(folder)
        except OSError:
            return False
        return True


class Container:
    """Boots on entering a with block. `run` executes a command in a unit of its own inside."""

    def __init__(self, suite, shared=(), log=None, has_network=False):
        """shared: (host directory, path inside, writable) to show in the machine. has_network: that of the host."""
        self.suite, self.shared, self.has_network = suite, shared, has_network
        self.log = pathlib.Path(log) if log else None
        self.process = None

    def __enter__(self):
        root = images.image("run", self.suite)
        with contextlib.ExitStack() as stack:
            self.tree = stack.enter_context(overlay.Overlay(root))
            self.cgroup = stack.enter_context(Cgroup(self.tree.work.name))
            stack.callback(self._end)
            self._boot()
            self._stack = stack.pop_all()
        return self

    def _network(self):
        if not self.has_network:
            return ["--private-network"]
        # Without a network namespace of its own a machine has no right to make others, which its services need.
        return ["--capability=CAP_NET_ADMIN", "--bind-ro=/etc/resolv.conf"]

    def _boot(self):
        # Hybrid or v1 layouts hide what systemd needs; sid refuses to boot on them.
        env = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        # TERM, on which nspawn has the machine shut itself down: killed, it would leave the machine's PID 1 behind.
        argv = ["setpriv", "--pdeathsig", "TERM",
                "systemd-nspawn", "--quiet", "--register=no", "--keep-unit",
                f"--directory={self.tree.root}", *self._network(), "--console=pipe", "--link-journal=no",
                "--resolv-conf=off", "--timezone=off", "--hostname=test-machine"]
        for outside, inside, writable in self.shared:
            argv.append(f"--{'bind' if writable else 'bind-ro'}={outside}:{inside}")
        out = open(self.log, "ab") if self.log else subprocess.DEVNULL
        self.process = subprocess.Popen(self.cgroup.command(argv + ["--boot"]), stdin=subprocess.DEVNULL, stdout=out,
                                        stderr=subprocess.STDOUT, env=env, start_new_session=True)
        if self.log:
            out.close()
        if not host.wait_for(self._is_up, BOOT_SECONDS):
            raise host.Failed(f"the {self.suite} container did not boot (log: {self.log})")

    def _leader(self):
        """The container's PID 1, as the host numbers it: the grandchild that nspawn forked."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for child in children.split():
            try:
                name = pathlib.Path(f"/proc/{child}/comm").read_text().strip()
            except OSError:     # ended meanwhile
                continue
            if name in ("systemd", "init"):
                return child
        return None

    def _is_up(self):
        if self.process.poll() is not None:
            raise host.Failed(f"systemd-nspawn ended: {self.process.returncode} (log: {self.log})")
        try:
            leader = self._leader()
            if not leader:
                return False
            done = subprocess.run(["nsenter", "-t", leader, *NAMESPACES, "systemctl", "is-system-running"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, text=True)
        except (OSError, subprocess.TimeoutExpired):
            return False
        self.leader = leader
        return done.stdout.strip() in ("running", "degraded")

    def run(self, *argv, check=True, interactive=False, **kwargs):
        """Runs a command inside as root, in a service of its own (nothing of the host's environment)."""
        how = "--pty" if interactive else "--pipe"
        inside = ["systemd-run", "--quiet", "--collect", "--wait", how, "--service-type=exec",
                  "--setenv=HOME=/root", "--working-directory=/root", *map(str, argv)]
        # nsenter finds the machine by its PID 1; systemd-run makes the command a part of the machine.
        env = {"PATH": os.environ["PATH"], "TERM": os.environ.get("TERM", "dumb")}
        return subprocess.run(["nsenter", "-t", self.leader, *NAMESPACES, *inside], check=check, env=env,
                              **kwargs)

    def run_detached(self, *argv, output, seconds):
        """Runs a command inside to its end without a connection to the machine's manager, which the command may
        restart. output: a path inside. False when it was not over in time."""
        unit = "machine-command.service"
        self.run("systemd-run", "--quiet", "--collect", f"--unit={unit}", "--property=Type=exec",
                 f"--property=StandardOutput=append:{output}", f"--property=StandardError=append:{output}",
                 "--setenv=HOME=/root", "--working-directory=/root", *argv, stdin=subprocess.DEVNULL)

        def is_over():
            if self.process.poll() is not None:
                return True     # the whole machine is
            done = subprocess.run(["nsenter", "-t", self.leader, *NAMESPACES, "systemctl", "is-active", unit],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            return done.stdout.strip() in ("inactive", "failed", "unknown")
        return host.wait_for(is_over, seconds)

    def install(self, deb, **kwargs):
        """Installs a package from a directory shared with the machine; no network is needed."""
        return self.run("apt-get", "install", "-y", "--no-install-recommends", deb,
                        **kwargs)

    def _end(self):
        if self.process:
            # The tmpfs goes away, so there is nothing to shut down in order.
            host.kill(self.process, grace=0.2)

    def __exit__(self, *_):
        self._stack.close()
