# SPDX-License-Identifier: MIT
"""A machine whose units are broken and repaired again, and what `mcp-exec check` says of them."""

import contextlib
import json
import os
import pathlib
import socket

from lib import SOCKET, minimal_environment, schemas, sh

TOKENS = pathlib.Path("/etc/mcp-exec/tokens")
UNITS = ("mcp-exec.socket", "mcp-exec.service", "mcp-exec-launcher.socket", "mcp-exec-launcher.service")
HTTP_SOCKET = "mcp-exec-http.socket"


def systemctl(*arguments, check=True):
    return sh(["systemctl", "--quiet", *arguments], check=check)


def run(user="root", check=True):
    return sh(["mcp-exec", "run", "-"], user=user, input="print('ran')", check=check, env=minimal_environment(user))


def checked(user="root"):
    """The items of `mcp-exec check` by name, and its exit status."""
    done = sh(["mcp-exec", "check", "--json"], user=user, env=minimal_environment(user), check=False)
    assert not done.stderr, done.stderr
    return {item["name"]: item for item in json.loads(done.stdout)}, done.returncode


def check(user="root"):
    return checked(user)[0]


def check_serves(*hint):
    """The items of a check that finds nothing wrong; it ran a program by way of the service."""
    items = check()
    assert items["service"]["verdict"] == items["run"]["verdict"] == "ok", (items, *hint)
    assert items["launcher"]["verdict"] != "fail", (items, *hint)
    return items


def ping():
    """How the service answers the first message of a connection."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(SOCKET)
        s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        line = s.makefile("rb").readline()
    schemas.Listener().received_bytes(line)
    return json.loads(line)


@contextlib.contextmanager
def written(path, text, owner="root:root", mode=0o644):
    """A file with this text; afterwards as it was."""
    old = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sh(["chown", owner, str(path)])
    path.chmod(mode)
    try:
        yield path
    finally:
        if old is None:
            path.unlink()
        else:
            path.write_bytes(old)


def tokens(text):
    return written(TOKENS, text, "mcp-exec:root", 0o400)


@contextlib.contextmanager
def drop_in(unit, text):
    """A drop-in of a unit, in effect for the length of a with block."""
    try:
        with written(pathlib.Path(f"/run/systemd/system/{unit}.d/90-test.conf"), text):
            systemctl("daemon-reload")
            yield
    finally:
        systemctl("daemon-reload")


def _is_masked(unit):
    return any(os.path.islink(f"{directory}/{unit}") for directory in ("/etc/systemd/system", "/run/systemd/system"))


@contextlib.contextmanager
def machine(enable=True):
    """A machine on which the service runs, and is enabled unless that makes no difference; afterwards as it was, whatever
    was done to it."""
    was_enabled = sh(["systemctl", "is-enabled", "mcp-exec.socket"], check=False).stdout.strip() == "enabled"
    systemctl(*(("enable", "--now") if enable and not was_enabled else ("start",)), "mcp-exec.socket")
    assert run().stdout == "ran\n"
    try:
        yield
    finally:
        masked = [unit for unit in UNITS if _is_masked(unit)]
        if masked:
            systemctl("unmask", *masked, check=False)
            systemctl("unmask", "--runtime", *masked, check=False)
        systemctl("stop", HTTP_SOCKET, *UNITS, check=False)
        sh(["rm", "-rf", "/run/mcp-exec"])
        systemctl("reset-failed")
        systemctl("start", "mcp-exec.socket", "mcp-exec-launcher.socket")
        if not was_enabled and os.path.islink("/etc/systemd/system/sockets.target.wants/mcp-exec.socket"):
            systemctl("disable", "mcp-exec.socket")
