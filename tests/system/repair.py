# SPDX-License-Identifier: MIT
"""A machine whose units are broken and repaired again, and what `mcp-exec check` says of them."""

import contextlib
import json
import pathlib

from lib import minimal_environment, sh

UNITS = ("mcp-exec.socket", "mcp-exec.service", "mcp-exec-launcher.socket", "mcp-exec-launcher.service")
HTTP_SOCKET = "mcp-exec-http.socket"
DROPIN = pathlib.Path("/run/systemd/system/mcp-exec.service.d/90-test.conf")


def systemctl(*arguments, check=True):
    return sh(["systemctl", "--quiet", *arguments], check=check)


def run(user="root", check=True):
    return sh(["mcp-exec", "run", "-"], user=user, input="print('ran')", check=check, env=minimal_environment(user))


def check():
    done = sh(["mcp-exec", "check", "--json"], check=False)
    assert not done.stderr, done.stderr
    return {item["name"]: item for item in json.loads(done.stdout)}


@contextlib.contextmanager
def machine():
    """A machine on which the service is enabled and runs; afterwards as it was, whatever was done to it."""
    enabled = sh(["systemctl", "is-enabled", "mcp-exec.socket"], check=False).stdout.strip()
    systemctl("enable", "--now", "mcp-exec.socket")
    assert run().stdout == "ran\n"
    try:
        yield
    finally:
        DROPIN.unlink(missing_ok=True)
        systemctl("unmask", *UNITS, check=False)
        systemctl("unmask", "--runtime", *UNITS, check=False)
        systemctl("stop", HTTP_SOCKET, *UNITS, check=False)
        sh(["rm", "-rf", "/run/mcp-exec"])
        systemctl("daemon-reload")
        systemctl("reset-failed")
        systemctl("start", "mcp-exec.socket", "mcp-exec-launcher.socket")
        if enabled != "enabled":
            systemctl("disable", "mcp-exec.socket")
