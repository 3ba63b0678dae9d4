# SPDX-License-Identifier: MIT
"""`mcp-exec check` and `mcp-exec run` in the situations that people are really in."""

import json
import pathlib
import socket
import time

from lib import (CONF_DROPIN, SOCKET, SOCKETS, configured, minimal_environment, needs, sh, start_sockets,
                 stop_services, systemd_version, timeout)


def _check(user):
    """The items by name, and the exit status."""
    done = sh(["mcp-exec", "check", "--json"], user=user, env=minimal_environment(user), check=False)
    assert not done.stderr, done.stderr
    return {item["name"]: item for item in json.loads(done.stdout)}, done.returncode


def test_check_of_root_names_what_it_saw_inside():
    items, status = _check("root")
    assert status == 0, items
    for name in ("systemd", "service", "launcher", "version", "cgroups", "namespaces", "seccomp", "run", "walls"):
        assert items[name]["verdict"] != "fail", items[name]
    assert "uid 6" in items["DynamicUser"]["detail"], items["DynamicUser"]
    assert str(systemd_version()) in items["version"]["detail"], items["version"]


def test_check_of_a_member_uses_the_service():
    sh(["gpasswd", "-a", "alice", "mcp-exec"])
    try:
        items, status = _check("alice")
    finally:
        sh(["gpasswd", "-d", "alice", "mcp-exec"])
    assert status == 0 and items["service"]["verdict"] == "ok", items
    assert "user manager" not in items and items["run"]["verdict"] == "ok", items


def test_check_of_a_stranger_names_adduser():
    items, status = _check("bob")
    assert items["service"]["verdict"] == "warn" and "adduser bob mcp-exec" in items["service"]["remedy"], items
    # Only the own manager decides now: 257 can do it, an older one cannot and the remedy says what can.
    assert status == (0 if systemd_version() >= 257 else 1), items
    if systemd_version() < 257:
        assert "257" in items["launcher"]["detail"] and "mcp-exec.socket" in items["launcher"]["remedy"], items


def test_check_of_a_stranger_does_not_recommend_a_group_that_does_not_exist():
    with configured("[Server]\nAllowGroups=nosuchgroup\n"):
        items, _ = _check("bob")
    assert "no such group" in items["service"]["detail"], items["service"]
    assert "adduser" not in items["service"]["remedy"] and "AllowGroups=" in items["service"]["remedy"], items


def test_check_of_a_user_without_a_manager_names_linger():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    items, status = _check("carol")
    assert status == 1 and items["user manager"]["verdict"] == "fail", items
    assert "enable-linger carol" in items["user manager"]["remedy"], items
    assert "run" not in items and "launcher" not in items, items
    # There is no manager whose controllers could be missing.
    assert "controllers" not in items, items


def test_check_without_the_sockets_names_the_command():
    sh(["systemctl", "stop", *SOCKETS])
    stop_services()
    try:
        items, status = _check("root")
    finally:
        start_sockets()
    assert status == 1 and items["service"]["remedy"] == "systemctl enable --now mcp-exec.socket", items
    assert items["launcher"]["verdict"] == "fail" and items["launcher"]["remedy"], items


def test_check_tells_which_protection_the_launcher_misses():
    CONF_DROPIN.parent.mkdir(parents=True, exist_ok=True)
    CONF_DROPIN.write_text("[Sandbox]\nPython=/usr/bin/no-such-python\n")
    try:
        stop_services()
        start_sockets()
        items, status = _check("root")
    finally:
        CONF_DROPIN.unlink()
        stop_services()
        start_sockets()
    assert status == 1 and items["launcher"]["verdict"] == "fail", items
    assert "no-such-python" in items["launcher"]["detail"] and items["launcher"]["remedy"], items
    assert "run" not in items or items["run"]["verdict"] == "fail", items


@needs("user-manager-257")
def test_run_of_a_user_shows_nothing_but_the_program():
    done = sh(["mcp-exec", "run", "-"], user="bob", env=minimal_environment("bob"), input="print('mine')", check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("mine\n", "", 0), done


def test_run_of_a_user_whom_nothing_admits_says_both_reasons():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    done = sh(["mcp-exec", "run", "-"], user="carol", env=minimal_environment("carol"), input="print(1)", check=False)
    assert done.returncode == 125 and not done.stdout, done
    assert "/run/user/" in done.stderr and "adduser carol mcp-exec" in done.stderr, done.stderr


@timeout(90)
def test_mistake_in_the_configuration_is_answered_and_found_in_the_journal():
    CONF_DROPIN.parent.mkdir(parents=True, exist_ok=True)
    CONF_DROPIN.write_text("[Exec]\nNoSuchKey=1\n")
    try:
        stop_services()
        start_sockets()
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(20)
                s.connect(SOCKET)
                s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
                error = json.loads(s.makefile().readline())["error"]
                assert error["code"] == -31001 and "journalctl" in error["message"], error
        logged = sh(["journalctl", "--boot", "--unit=mcp-exec.service", "--lines=20"]).stdout
        assert f"{CONF_DROPIN}:2" in logged and "NoSuchKey" in logged, logged
        # Nobody waits any more, so systemd does not start it again and again either.
        time.sleep(6)
        starts = sh(["journalctl", "--boot", "--unit=mcp-exec.service"]).stdout.count("NoSuchKey")
        time.sleep(3)
        assert sh(["journalctl", "--boot", "--unit=mcp-exec.service"]).stdout.count("NoSuchKey") == starts
    finally:
        pathlib.Path(CONF_DROPIN).unlink()
        stop_services()
        start_sockets()
