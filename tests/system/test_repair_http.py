# SPDX-License-Identifier: MIT
"""The sockets for HTTP, which an administrator switches on or not: `mcp-exec check` says that one of them does not
listen, and the remedy that it names makes it listen."""

import contextlib
import os
import re
import socket

from lib import sh, show, timeout
from repair import HTTP_SOCKET, check, check_serves, drop_in, machine, run, systemctl


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
    assert check_serves(command)[item]["verdict"] == "ok", command


def test_http_socket_whose_port_is_taken():
    with machine():
        assert not {"http", "proxy"} & set(check())  # of what nobody switched on nothing is said
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


def _stopped():
    assert check()["http"]["detail"] == f"{HTTP_SOCKET} listens on 127.0.0.1:8080"
    # The service has its port still.
    systemctl("stop", HTTP_SOCKET)
    _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is enabled, but was stopped"))
    systemctl("stop", "mcp-exec.socket", "mcp-exec.service", HTTP_SOCKET)
    systemctl("start", "mcp-exec.socket")
    _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is enabled, but was stopped"))


def _masked():
    systemctl("mask", HTTP_SOCKET)
    assert _tell("http", HTTP_SOCKET, "listens, but is masked").startswith(f"systemctl unmask {HTTP_SOCKET}")
    systemctl("stop", HTTP_SOCKET)
    _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET, "is masked", verdict="warn"))


def _masked_service():
    """One cause, one remedy."""
    systemctl("stop", "mcp-exec.service", HTTP_SOCKET)
    systemctl("mask", "mcp-exec.service")
    items = check()
    assert items["service"]["verdict"] == "fail" and "systemctl" not in items["http"]["remedy"], items
    sh(items["service"]["remedy"])
    _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET))


def _masked_service_that_serves():
    systemctl("mask", "mcp-exec.service")
    systemctl("stop", HTTP_SOCKET)
    remedy = _tell("http", HTTP_SOCKET, "is enabled, but was stopped")
    sh(re.match(r'First "(systemctl unmask mcp-exec.service && .*)", then "mcp-exec check"', remedy)[1])
    _listens_again("http", HTTP_SOCKET, _tell("http", HTTP_SOCKET))


@timeout(90)
def test_http_socket_that_does_not_listen_is_named_and_listens_again():
    with _machine_with(HTTP_SOCKET):
        for case in (_stopped, _masked, _masked_service, _masked_service_that_serves):
            systemctl("reset-failed")
            try:
                case()
            except Exception as error:
                error.add_note(f"in {case.__name__}")
                raise


def test_something_of_others_in_the_place_of_a_socket_is_left_to_them():
    """The blank in the name ended it, and what is before it is a directory of somebody, which was to be removed."""
    place = "/srv/our data/mcp.sock"
    with machine(), drop_in(HTTP_SOCKET, f"[Socket]\nListenStream=\nListenStream={place}\n"):
        os.makedirs("/srv/our", exist_ok=True)
        os.makedirs(place)
        try:
            systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
            assert systemctl("start", HTTP_SOCKET, "mcp-exec.socket", check=False).returncode
            remedy = _tell("http", HTTP_SOCKET, f"something else is in the place of {place}")
            assert not re.search(r"\b(rm|mv)\b", remedy) and "Move it away, or name another address" in remedy, remedy
            os.rmdir(place)
            sh(re.search(r'; then "(.*)"', remedy)[1])
            assert check_serves(remedy)["http"]["detail"] == f"{HTTP_SOCKET} listens on {place}"
        finally:
            systemctl("stop", HTTP_SOCKET, check=False)
            sh(["rm", "-rf", "/srv/our", "/srv/our data"])


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
