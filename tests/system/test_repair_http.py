# SPDX-License-Identifier: MIT
"""The sockets for HTTP, which an administrator switches on or not: `mcp-exec check` says that one of them does not
listen, and the remedy that it names makes it listen."""

import contextlib
import os
import re
import socket

from lib import sh, show
from repair import HTTP_SOCKET, check, machine, run, systemctl


@contextlib.contextmanager
def _machine_with(unit):
    """The socket is enabled and up, beside the other."""
    with machine():
        try:
            systemctl("stop", "mcp-exec.socket", "mcp-exec.service")
            systemctl("enable", unit)
            systemctl("start", unit, "mcp-exec.socket")
            assert run().stdout == "ran\n"
            yield
        finally:
            systemctl("unmask", unit, check=False)
            systemctl("stop", "mcp-exec.service", unit, check=False)
            systemctl("disable", unit, check=False)


def _tell(item, unit, *parts, verdict="fail"):
    """What check says of the socket that does not listen; the remedy."""
    items = check()
    assert items[item]["verdict"] == verdict and items[item]["detail"].startswith(unit), items
    assert items["service"]["verdict"] == "ok", items
    for part in parts:
        assert part in items[item]["detail"], (part, items[item])
    return items[item]["remedy"]


def _listens_again(item, unit, command):
    sh(command)
    assert show(unit, "ActiveState")["ActiveState"] == "active", command
    assert run().stdout == "ran\n", command
    assert check()[item]["verdict"] == "ok", command


def test_check_says_nothing_of_sockets_that_nobody_switched_on():
    with machine():
        assert not {"http", "proxy"} & set(check())


def test_http_socket_whose_port_is_taken():
    with machine():
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 8080))
            other.listen()
            assert systemctl("start", "mcp-exec.socket", HTTP_SOCKET, check=False).returncode
            remedy = _tell("http", HTTP_SOCKET, "has failed, for another program uses 127.0.0.1:8080")
            command = re.search(r'then "(.*)"', remedy)[1]
            assert command == (f"systemctl reset-failed {HTTP_SOCKET} && systemctl stop mcp-exec.socket mcp-exec.service && "
                               f"systemctl restart mcp-exec.socket {HTTP_SOCKET}")
            # Too early: the other socket is there all the same.
            assert sh(command, check=False).returncode and run().stdout == "ran\n"
        _listens_again("http", HTTP_SOCKET, command)


def test_http_socket_that_is_enabled_and_was_stopped():
    with _machine_with(HTTP_SOCKET):
        assert check()["http"]["detail"] == f"{HTTP_SOCKET} listens on 127.0.0.1:8080"
        # The service has its port still.
        systemctl("stop", HTTP_SOCKET)
        _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is enabled, but was stopped"))
        systemctl("stop", "mcp-exec.socket", "mcp-exec.service", HTTP_SOCKET)
        systemctl("start", "mcp-exec.socket")
        _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is enabled, but was stopped"))


def test_http_socket_that_was_masked():
    with _machine_with(HTTP_SOCKET):
        systemctl("mask", HTTP_SOCKET)
        assert _tell("http", HTTP_SOCKET, "listens, but is masked").startswith(f"systemctl unmask {HTTP_SOCKET}")
        systemctl("stop", HTTP_SOCKET)
        _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is masked", verdict="warn"))


def test_proxy_socket_with_something_else_in_its_place():
    unit, path = "mcp-exec-proxy.socket", "/run/mcp-exec/proxy.sock"
    with _machine_with(unit):
        assert check()["proxy"]["verdict"] == "ok"
        os.unlink(path)
        _listens_again("proxy", unit, _tell("proxy", unit, "its file is gone"))
        systemctl("stop", unit, "mcp-exec.service", "mcp-exec.socket")
        os.mkdir(path)
        systemctl("start", unit, "mcp-exec.socket", check=False)
        remedy = _tell("proxy", unit, f"something else is in the place of {path}")
        assert remedy.startswith(f"mv -T {path} {path}.old && "), remedy
        _listens_again("proxy", unit, remedy)


def test_service_that_was_masked_under_a_socket_for_http_has_one_remedy():
    with _machine_with(HTTP_SOCKET):
        systemctl("stop", "mcp-exec.service", HTTP_SOCKET)
        systemctl("mask", "mcp-exec.service")
        items = check()
        assert items["service"]["verdict"] == "fail" and "systemctl" not in items["http"]["remedy"], items
        sh(items["service"]["remedy"])
        _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET))


def test_service_that_was_masked_while_it_serves_is_named_by_the_socket_that_waits_for_it():
    with _machine_with(HTTP_SOCKET):
        systemctl("mask", "mcp-exec.service")
        systemctl("stop", HTTP_SOCKET)
        remedy = _tell("http", HTTP_SOCKET, "is enabled, but was stopped")
        sh(re.match(r'First "(systemctl unmask mcp-exec.service && .*)", then "mcp-exec check"', remedy)[1])
        _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET))
