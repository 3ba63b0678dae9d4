# SPDX-License-Identifier: MIT
"""The package: what installing, upgrading, removing and purging leave on a machine."""

import pathlib

from lib import Client, Skip, minimal_environment, sh, show, timeout

DEB = pathlib.Path("/mnt/host/mcp-exec.deb")


def _deb():
    if not DEB.exists():
        raise Skip("the package's file is not on this machine")
    return str(DEB)


def _dpkg(*arguments):
    sh(["/usr/bin/dpkg", *arguments], timeout=100, env=minimal_environment() | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def _install():
    _dpkg("-i", _deb())


def _paths():
    """What is left of us; homes of users are theirs, with what their own servers remember."""
    return [p for p in sh("find / -xdev \\( -path /proc -o -path /sys -o -path /mnt -o -path /run/log -o -path /var/log "
                          "-o -path /var/lib/dpkg -o -path /home \\) -prune -o -name '*mcp-exec*' -print",
                          check=False).stdout.splitlines()]


@timeout(240)
def test_remove_and_purge_leave_nothing_and_install_starts_nothing():
    with Client() as c:
        c.exec("print(1)")
    _dpkg("--remove", "mcp-exec")
    assert pathlib.Path("/etc/mcp-exec/mcp-exec.conf").exists(), "remove keeps the configuration"
    assert not sh("pgrep -f mcp-exec-launche[r]", check=False).stdout
    _dpkg("--purge", "mcp-exec")
    left = [p for p in _paths() if not p.startswith(("/etc/mcp-exec/mcp-exec.conf.d", "/tests", "/var/cache/apt"))]
    left = [p for p in left if p not in ("/etc/mcp-exec",) and not p.endswith("50-test-machine.conf")]
    assert not left, left
    pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d").mkdir(parents=True, exist_ok=True)
    _install()
    try:
        for unit in ("mcp-exec.socket", "mcp-exec-http.socket", "mcp-exec.service", "mcp-exec-launcher.service"):
            assert show(unit, "ActiveState")["ActiveState"] == "inactive", unit
            assert show(unit, "UnitFileState")["UnitFileState"] in ("disabled", "static", "indirect"), unit
    finally:
        sh(["systemctl", "start", "mcp-exec.socket"])
    with Client() as c:
        assert c.exec("print(1)")["stdout"] == "1\n"


def test_upgrade_keeps_serving():
    with Client() as c:
        c.exec("print(1)")
    _install()
    assert show("mcp-exec.socket", "ActiveState")["ActiveState"] == "active"
    with Client() as c:
        assert c.exec("print(2)")["stdout"] == "2\n"


def test_man_pages_and_documentation_are_there():
    for page in ("mcp-exec.1", "mcp-exec.conf.5", "mcp-exec-launcher.8"):
        section = page[-1]
        assert list(pathlib.Path(f"/usr/share/man/man{section}").glob(page + "*")), page


def test_units_verify():
    for unit in ("mcp-exec.socket", "mcp-exec.service", "mcp-exec-launcher.socket", "mcp-exec-launcher.service", "mcp-exec-http.socket"):
        done = sh(["systemd-analyze", "verify", "--man=no", f"/usr/lib/systemd/system/{unit}"], check=False)
        path = f"/usr/lib/systemd/system/{unit}"
        if not pathlib.Path(path).exists():
            done = sh(["systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{unit}"], check=False)
        lines = [l for l in (done.stdout + done.stderr).splitlines() if "mcp-exec" in l and "man" not in l.lower()
                 and "Can't show" not in l]  # the manual pages: the images have no man(1)
        assert not lines, lines
