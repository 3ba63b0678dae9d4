# SPDX-License-Identifier: MIT
"""Installation, upgrade, removal and purge of the package. Starts in a machine that does not have it; the
tests run in the order written, each from where the one before left the machine."""

import pathlib
import pwd
import re
import socket
import subprocess
import time

from lib import (SERVICES, SOCKET, SOCKETS, Client, controllers, failed_units, run_units, sh, show, text_of, timeout,
                 wait_until)

DEB = "/mnt/host/mcp-exec.deb"
NEWER = "/tmp/mcp-exec-newer.deb"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends"
OUR_UNITS = (*SERVICES, *SOCKETS, "mcp-exec-http.socket")
# Found by name, and allowed to stay: the package manager's records, logs, this machine's own files, other
# mounts.
NOT_OURS = ("/mnt/", "/proc/", "/sys/", "/var/lib/dpkg/", "/var/log/", "/var/cache/apt/", "/var/lib/apt/",
            "/tmp/mcp-exec-newer", "/var/lib/systemd/deb-systemd-helper-")


def installed_version():
    return sh("dpkg-query -W -f '${Version}' mcp-exec").stdout


def loaded_units():
    return sh("systemctl list-units --all --plain --no-legend --full 'mcp-exec*'").stdout.strip()


def active(unit):
    return show(unit, "ActiveState")["ActiveState"]


@timeout(120)
def test_install_enables_and_starts_nothing():
    said = sh(f"{APT} install {DEB}", timeout=100).stdout
    assert "mcp-exec: nothing listens yet. Next: systemctl enable --now mcp-exec.socket" in said, said
    for unit in OUR_UNITS:
        assert active(unit) == "inactive", (unit, active(unit))
        state = sh(["systemctl", "is-enabled", unit], check=False).stdout.strip()
        assert state in ("disabled", "static", "indirect"), (unit, state)
    assert not pathlib.Path(SOCKET).exists()
    assert failed_units() == []


def test_presets_enable_nothing():
    sh(["systemctl", "preset", *OUR_UNITS, "mcp-exec-proxy.socket"])
    for unit in OUR_UNITS:
        state = sh(["systemctl", "is-enabled", unit], check=False).stdout.strip()
        assert state in ("disabled", "static", "indirect"), (unit, state)


def test_install_leaves_one_directory_that_the_service_user_owns():
    user = pwd.getpwnam("mcp-exec")
    found = sh(["find", "/", "-xdev", "(", "-user", str(user.pw_uid), "-o", "-group", str(user.pw_gid), ")",
                "-not", "-path", "/mnt/*"]).stdout.split()
    assert found == ["/var/lib/mcp-exec/daemon"], found


def test_installed_files_match_the_package():
    assert sh("dpkg --verify mcp-exec").stdout == ""


def test_socket_serves_after_start():
    if not {"memory", "pids", "cpu"} <= controllers():
        pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/50-test-machine.conf").write_text(
            "[Sandbox]\nRequireControllers=\n")
    sh("systemctl start mcp-exec.socket")
    with Client() as client:
        assert client.exec("print(6 * 7)")["stdout"] == "42\n"


def make_newer():
    """The same package under a higher version."""
    sh(f"rm -rf /tmp/newer && dpkg-deb -R {DEB} /tmp/newer && "
       f"sed -i 's/^Version: .*/&+newer/' /tmp/newer/DEBIAN/control && dpkg-deb -b /tmp/newer {NEWER} && "
       "rm -rf /tmp/newer", timeout=100)


@timeout(180)
def test_upgrade_answers_the_call_under_way_and_goes_on_serving():
    make_newer()
    marker = "print('begun', flush=True); import time; time.sleep(6); print('done')"
    with Client() as client:
        reply = client.start("exec", {"code": marker, "timeout_s": 30})
        wait_until(lambda: run_units(), 10, "the run's unit")
        time.sleep(1)           # well into the sleep, so that the upgrade happens in the middle of it
        started = time.monotonic()
        upgrade = subprocess.Popen(["/bin/sh", "-c", f"{APT} install {NEWER}"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        result = reply.result(60)["structuredContent"]
        output, _ = upgrade.communicate(timeout=100)
        assert upgrade.returncode == 0, output
        assert result["status"] == "ok" and result["stdout"] == "begun\ndone\n", result
        assert time.monotonic() - started < 90
    assert installed_version().endswith("+newer")
    assert active("mcp-exec.socket") == "active"
    with Client() as client:
        assert client.exec("print('after')")["stdout"] == "after\n"
    assert failed_units() == []


@timeout(180)
def test_no_client_is_refused_while_the_package_is_configured_again():
    # As dpkg does when it upgrades: the maintainer script with the version that was there before.
    done = subprocess.Popen(["/var/lib/dpkg/info/mcp-exec.postinst", "configure", installed_version()],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DPKG_MAINTSCRIPT_PACKAGE": "mcp-exec",
                                 "DPKG_MAINTSCRIPT_NAME": "postinst", "DEBIAN_FRONTEND": "noninteractive"})
    served = 0
    while done.poll() is None or served < 3:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(SOCKET)           # never refused
        try:
            with Client() as client:
                result = client.call("exec", {"code": "print(1)"})
            if result.get("isError"):       # answered all the same: systemd was busy for long, or it stops
                assert re.search("not ready in time|The service is stopping", text_of(result)), result
            else:
                assert result["structuredContent"]["stdout"] == "1\n"
                served += 1
        except ConnectionError:
            # Accepted by the daemon in the moment it was told to go; the next one serves.
            assert done.poll() is None or served == 0
    assert done.wait(60) == 0


@timeout(120)
def test_remove_ends_what_runs_and_keeps_the_configuration():
    pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/60-own.conf").write_text("[Exec]\nMaxParallel=2\n")
    with Client() as client:
        client.exec("print(1)")
        sh(f"{APT} remove mcp-exec", timeout=100)
    assert run_units() == []
    for unit in OUR_UNITS:
        assert active(unit) == "inactive", unit
    assert not pathlib.Path(SOCKET).exists()
    assert not pathlib.Path("/usr/bin/mcp-exec").exists()
    assert pathlib.Path("/etc/mcp-exec/mcp-exec.conf").exists()
    assert failed_units() == []


@timeout(120)
def test_installing_again_serves_with_the_kept_configuration():
    sh(f"{APT} install {DEB}", timeout=100)
    assert active("mcp-exec.socket") == "inactive"
    sh("systemctl start mcp-exec.socket")
    with Client() as client:
        assert client.exec("print(2)")["stdout"] == "2\n"


@timeout(120)
def test_purge_leaves_nothing():
    sh("rm -f /etc/mcp-exec/mcp-exec.conf.d/*.conf")
    pathlib.Path("/etc/mcp-exec/auth-token").write_text("a secret that must not outlive the package\n")
    sh(f"{APT} purge mcp-exec", timeout=100)
    found = sh("find / -xdev -iname '*mcp-exec*'; find /run -iname '*mcp-exec*'").stdout.split()
    left = [path for path in found if not path.startswith(NOT_OURS)]
    assert left == [], left
    assert run_units() == []
    # systemd remembers the names of dead units until its own collector comes by; none may be more than a name.
    known = [line for line in loaded_units().splitlines() if "inactive dead" not in line]
    assert known == [], known
    assert failed_units() == []
