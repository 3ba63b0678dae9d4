# SPDX-License-Identifier: MIT
"""README's first command: the package on a real systemd, one MCP conversation, the answer on the screen."""

import pathlib
import shutil
import sys

import container
import host
import package
import results
import vm

CLIENT = pathlib.Path(__file__).resolve().parent / "demo_client.py"
SCRIPT = """
systemctl is-system-running --wait >/dev/null || true
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends /mnt/host/mcp-exec.deb \\
    >/mnt/host/install.log 2>&1 || { cat /mnt/host/install.log; exit 1; }
systemctl start mcp-exec.socket || exit 1
python3 /mnt/host/demo_client.py || {
    journalctl --no-pager -b -u 'mcp-exec*' | tail -n 40
    exit 1
}
"""


def _in_container(suite, shared):
    log = shared / "boot.log"
    with container.Container(suite, shared=[(shared, "/mnt/host", True)], log=log) as guest:
        done = guest.run("cat", "/sys/fs/cgroup/cgroup.controllers", stdout=-1, text=True)
        if not set(host.CONTROLLERS) <= set(done.stdout.split()):
            host.say("the container got no memory, pids and cpu controller, taking the vm")
            return None
        with open(shared / "output", "w") as out:
            status = guest.run("sh", "/mnt/host/demo.sh", check=False, stdout=out, stderr=out).returncode
    return status, (shared / "output").read_text(errors="replace")


def show(suite, machine):
    """Runs the demonstration and prints it; the exit status."""
    deb = package.deb(suite)
    where = results.folder()
    shared = where / "demo"
    shared.mkdir()
    shutil.copy(deb, shared / "mcp-exec.deb")
    shutil.copy(CLIENT, shared / "demo_client.py")
    (shared / "demo.sh").write_text(SCRIPT)
    if machine == "auto":
        machine = "container" if host.offers_controllers() else "vm"
    done = None
    if machine == "container":
        host.say(f"booting a {suite} container")
        done = _in_container(suite, shared)
    if done is None:
        if not host.offers_controllers():
            host.say("no memory, pids and cpu controller of cgroup v2 on this host, so not a container")
        host.say(f"booting a {suite} virtual machine")
        done = vm.run_command(suite, "sh /mnt/host/demo.sh", shared=shared, log=where / "vm.log")
    status, output = done
    sys.stdout.write(output)
    if status != 0:
        print(f"\nThe demonstration failed with status {status}; logs: {where}", file=sys.stderr)
    else:
        print("\nThat was it. README.md says how to install the package on a machine that runs systemd.")
    return status
