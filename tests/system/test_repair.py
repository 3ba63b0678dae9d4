# SPDX-License-Identifier: MIT
"""Whatever an administrator did to the units: the remedy that is named makes the service serve again, as it stands and at
the first try. Each case makes the situation, takes the remedy from the text of `mcp-exec check`, and runs it."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket

from http_client import HttpClient
from lib import SOCKET, Client, journal, journal_cursor, main_pid, schemas, sh, show, timeout, wait_until
from repair import DROPIN, HTTP_SOCKET, UNITS, check, machine, run, systemctl

SOCKET_UNITS = ("mcp-exec.socket", HTTP_SOCKET, "mcp-exec-proxy.socket")
LAUNCHER_SOCKET = "/run/mcp-exec/launcher.sock"
TOKENS = pathlib.Path("/etc/mcp-exec/tokens")


def _heals(*commands, item="service"):
    """The commands break it, the remedy of the item repairs it."""
    with machine():
        for command in commands:
            sh(command, check=False)
        items = check()
        assert items[item]["verdict"] == "fail", items
        remedy = items[item]["remedy"]
        sh(remedy)
        assert run().stdout == "ran\n", remedy
        items = check()
        assert items["service"]["verdict"] == "ok" and items["launcher"]["verdict"] != "fail", (remedy, items)
    return remedy


def test_socket_that_was_stopped_while_the_service_runs():
    assert _heals("systemctl stop mcp-exec.socket") == \
        "systemctl stop mcp-exec.service && systemctl restart mcp-exec.socket"


def test_socket_that_was_stopped_and_disabled_while_the_service_runs():
    assert _heals("systemctl disable --now mcp-exec.socket") == \
        "systemctl stop mcp-exec.service && systemctl enable --now mcp-exec.socket"


def test_everything_that_was_stopped_and_disabled():
    assert _heals("systemctl disable mcp-exec.socket", f"systemctl stop {' '.join(UNITS)}") == \
        "systemctl enable --now mcp-exec.socket"


def test_socket_that_was_stopped_while_http_is_served():
    # A client of the other socket would start the service again, so that is stopped for the time.
    with machine():
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        systemctl("start", HTTP_SOCKET)
        systemctl("start", "mcp-exec.service")
        remedy = check()["service"]["remedy"]
        assert remedy == (f"systemctl stop {HTTP_SOCKET} mcp-exec.service && systemctl restart mcp-exec.socket {HTTP_SOCKET}")
        sh(remedy)
        assert run().stdout == "ran\n"
        assert show(HTTP_SOCKET, "ActiveState")["ActiveState"] == "active"


def test_socket_that_was_masked():
    assert _heals("systemctl mask mcp-exec.socket", "systemctl stop mcp-exec.service", f"rm -f {SOCKET}") == \
        "systemctl unmask mcp-exec.socket && systemctl restart mcp-exec.socket"


def test_socket_that_was_masked_until_the_next_boot():
    assert _heals("systemctl stop mcp-exec.socket mcp-exec.service", "systemctl mask --runtime mcp-exec.socket") == \
        "systemctl unmask --runtime mcp-exec.socket && systemctl restart mcp-exec.socket"


def test_service_that_was_masked():
    # The client that found it so made the socket fail.
    assert _heals("systemctl stop mcp-exec.service", "systemctl mask mcp-exec.service") == \
        ("systemctl unmask mcp-exec.service && systemctl reset-failed mcp-exec.socket && "
         "systemctl restart mcp-exec.socket")


def test_launcher_socket_that_was_masked():
    assert _heals("systemctl stop mcp-exec-launcher.socket", "systemctl mask mcp-exec-launcher.socket", item="launcher") == \
        "systemctl unmask mcp-exec-launcher.socket && systemctl restart mcp-exec-launcher.socket"


def test_launcher_service_that_was_masked():
    assert _heals("systemctl stop mcp-exec-launcher.service", "systemctl mask mcp-exec-launcher.service", item="launcher") == \
        ("systemctl unmask mcp-exec-launcher.service && systemctl reset-failed mcp-exec-launcher.socket && "
         "systemctl restart mcp-exec-launcher.socket")


def test_launcher_service_that_was_masked_and_found_so_by_a_client():
    with machine():
        systemctl("stop", "mcp-exec-launcher.service", check=False)
        systemctl("mask", "mcp-exec-launcher.service")
        first = run(check=False)
        assert first.returncode == 125 and "mcp-exec check" in first.stderr, first
        wait_until(lambda: not os.path.exists(LAUNCHER_SOCKET), 10)
        said = run(check=False).stderr
        remedy = re.search(r'Start it as root with "(.*)"', said)
        assert remedy, said
        sh(remedy[1])
        assert run().stdout == "ran\n"


def test_everything_that_was_masked():
    units = " ".join(UNITS)
    assert _heals(f"systemctl stop {units}", f"systemctl mask {units}") == \
        (f"systemctl unmask {units} && systemctl restart mcp-exec-launcher.socket mcp-exec.socket")


def test_socket_file_that_was_lost():
    assert _heals(f"rm {SOCKET}") == "systemctl stop mcp-exec.service && systemctl restart mcp-exec.socket"


def test_directory_of_the_sockets_that_was_lost():
    assert _heals("rm -r /run/mcp-exec") == \
        "systemctl stop mcp-exec.service && systemctl restart mcp-exec-launcher.socket mcp-exec.socket"


def test_launcher_socket_file_that_was_lost():
    assert _heals(f"rm {LAUNCHER_SOCKET}", item="launcher") == "systemctl restart mcp-exec-launcher.socket"


def test_directory_in_the_place_of_the_launcher_socket():
    assert _heals("systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service", f"mkdir {LAUNCHER_SOCKET}",
                  item="launcher") == \
        (f"mv -T {LAUNCHER_SOCKET} {LAUNCHER_SOCKET}.old && systemctl reset-failed mcp-exec-launcher.socket && "
         "systemctl restart mcp-exec-launcher.socket")


def test_directory_in_the_place_of_the_socket():
    assert _heals("systemctl stop mcp-exec.socket mcp-exec.service", f"mkdir {SOCKET}", "systemctl start mcp-exec.socket") == \
        (f"mv -T {SOCKET} {SOCKET}.old && systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket")


def test_a_client_of_a_service_without_its_launcher_does_not_keep_systemd_busy():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with machine():
        systemctl("stop", "mcp-exec-launcher.socket", "mcp-exec-launcher.service", "mcp-exec.service")
        os.mkdir(LAUNCHER_SOCKET)
        cursor = journal_cursor()
        said = run(check=False)
        assert said.returncode == 125 and f"mv -T {LAUNCHER_SOCKET} " in said.stderr, said
        assert run("carol", check=False).returncode == 125
        starts = [r for r in journal(after=cursor, _PID="1", UNIT="mcp-exec.service") if r["MESSAGE"].startswith("Starting")]
        assert len(starts) == 1, starts
        assert show("mcp-exec.socket", "ActiveState")["ActiveState"] == "active"
        sh(re.search(r'Start it as root with "(.*)"', said.stderr)[1])
        assert run().stdout == "ran\n"


def test_launcher_socket_that_was_stopped_needs_no_remedy():
    with machine():
        systemctl("stop", "mcp-exec-launcher.socket", "mcp-exec-launcher.service")
        assert run().stdout == "ran\n"


def _drop_in(text):
    DROPIN.parent.mkdir(parents=True, exist_ok=True)
    DROPIN.write_text(text)
    systemctl("daemon-reload")


def test_start_limit_that_was_hit():
    with machine():
        _drop_in("[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n")
        for _ in range(4):
            systemctl("stop", "mcp-exec.service")
            run(check=False)
        assert show("mcp-exec.service", "Result")["Result"] == "start-limit-hit"
        remedy = check()["service"]["remedy"]
        assert remedy == ("systemctl reset-failed mcp-exec.socket mcp-exec.service && "
                          "systemctl restart mcp-exec.socket"), remedy
        sh(remedy)
        assert run().stdout == "ran\n"


def test_start_limit_of_the_socket_that_was_hit():
    with machine():
        systemctl("stop", "mcp-exec.service")
        for _ in range(8):
            systemctl("restart", "mcp-exec.socket", check=False)
        assert show("mcp-exec.socket", "Result")["Result"] == "start-limit-hit"
        remedy = check()["service"]["remedy"]
        assert remedy == "systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket", remedy
        sh(remedy)
        assert run().stdout == "ran\n"


def test_service_that_cannot_be_executed_is_given_up_and_the_remedy_says_so():
    """Otherwise PID 1 would try for ever. Here after five times, since how often it can try in a minute is not ours."""
    with machine():
        for unit in (*SOCKET_UNITS, "mcp-exec-launcher.socket"):
            assert show(unit, "TriggerLimitBurst", "TriggerLimitIntervalUSec") == \
                {"TriggerLimitBurst": "80", "TriggerLimitIntervalUSec": "20s"}, unit
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        limit = pathlib.Path("/run/systemd/system/mcp-exec.socket.d/90-test.conf")
        limit.parent.mkdir(parents=True, exist_ok=True)
        limit.write_text("[Socket]\nTriggerLimitIntervalSec=5\nTriggerLimitBurst=5\n")
        try:
            _drop_in("[Service]\nExecStart=\nExecStart=/nonexistent/mcp-exec serve\n")
            systemctl("start", "mcp-exec.socket")
            said = run(check=False)
            assert said.returncode == 125 and "no service manager" not in said.stderr, said
            wait_until(lambda: show("mcp-exec.socket", "Result")["Result"] == "trigger-limit-hit", 50)
            remedy = check()["service"]["remedy"]
            assert remedy.startswith("Find out why mcp-exec.service cannot be started"), remedy
            DROPIN.unlink()
            command = re.search(r'then "(systemctl .*)"', remedy)[1]
            # The limit counts on for as long as its interval, which is shorter than finding the cause takes.
            wait_until(lambda: sh(command) and run(check=False).stdout == "ran\n", 40, "served", step=1)
        finally:
            limit.unlink()


# ---- one cause, one remedy -----------------------------------------------------------------------------------

def _commands(items):
    """Every command for the units that is named anywhere."""
    texts = [text for item in items.values() for text in (item["detail"], item["remedy"] or "") if item["verdict"] == "fail"]
    assert not [text for text in texts if "journalctl" in text], texts
    return {text for text in texts if "systemctl" in text}


def test_launcher_and_service_that_are_both_away_have_one_command():
    for commands in (("systemctl stop mcp-exec.socket", f"rm {LAUNCHER_SOCKET}"),
                     ("systemctl stop mcp-exec.socket mcp-exec.service mcp-exec-launcher.service",
                      "systemctl mask mcp-exec-launcher.service"),
                     ("systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service", f"mkdir {LAUNCHER_SOCKET}"),
                     ("systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service",
                      "systemctl mask mcp-exec-launcher.socket")):
        with machine():
            for command in commands:
                sh(command)
            for _ in range(2):  # the first may change how the units are
                items = check()
            named = _commands(items)
            assert len(named) == 1, items
            sh(named.pop())
            assert run().stdout == "ran\n", commands


def _says_one_thing(user, remedy):
    said = run(user, check=False)
    assert said.returncode == 125 and not said.stdout, said
    assert remedy in said.stderr and len(said.stderr.splitlines()) == 1, said.stderr
    assert "service manager" not in said.stderr and "gpasswd" not in said.stderr, said.stderr


def test_run_without_a_service_says_one_cause_and_one_remedy():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with machine():
        systemctl("stop", "mcp-exec.socket", "mcp-exec.service")
        _says_one_thing("root", "To repair this: systemctl restart mcp-exec.socket")
        # It is enabled, so it is to be repaired for everybody.
        _says_one_thing("carol", "To repair this: sudo systemctl restart mcp-exec.socket")
        systemctl("mask", "mcp-exec.service")
        _says_one_thing("root", "To repair this: systemctl unmask mcp-exec.service && systemctl restart mcp-exec.socket")


@contextlib.contextmanager
def _tokens(text):
    old = TOKENS.read_bytes() if TOKENS.exists() else None
    TOKENS.write_text(text)
    sh(["chown", "root:mcp-exec", str(TOKENS)])
    TOKENS.chmod(0o640)
    try:
        yield
    finally:
        if old is None:
            TOKENS.unlink()
        else:
            TOKENS.write_bytes(old)


@timeout(120)
def test_service_that_cannot_start_says_one_cause_and_serves_the_first_client_after_the_repair():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with machine(), _tokens("token\n"):
        systemctl("stop", "mcp-exec.service")
        for user in ("root", "carol"):
            _says_one_thing(user, "systemctl restart mcp-exec.service")
        items = check()
        assert items["tokens"]["verdict"] == "fail" and items["tokens"]["detail"].startswith(f"{TOKENS}:1: "), items
        # A client that calls all the time is no obstacle.
        for _ in range(3):
            assert run(check=False).returncode == 125
        TOKENS.write_text("")
        assert run().stdout == "ran\n"
        assert check().get("tokens") is None


def test_service_that_cannot_start_is_no_obstacle_to_the_command_that_it_names():
    with machine(), _tokens("token\n"):
        systemctl("stop", "mcp-exec.service")
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(SOCKET)
            s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            line = s.makefile("rb").readline()
        schemas.Listener().received_bytes(line)
        command = re.search(r"without one: (systemctl .*)$", json.loads(line)["error"]["message"])
        TOKENS.write_text("")
        sh(command[1])
        assert show("mcp-exec.service", "ActiveState")["ActiveState"] == "active"
        assert run().stdout == "ran\n"


# ---- reload --------------------------------------------------------------------------------------------------

def _status():
    return show("mcp-exec.service", "StatusText")["StatusText"]


def test_reload_with_a_mistake_shows_in_the_status_and_in_check_until_a_good_one():
    with machine(), _tokens(""), Client() as held:
        assert held.exec("print(1)")["stdout"] == "1\n"
        TOKENS.write_text("user alice parallel=2\ntoken\n")
        systemctl("reload", "mcp-exec.service")
        wait_until(lambda: f"what was in use before stays: {TOKENS}:2" in _status(), 10, "the status")
        items = check()
        assert items["service"]["verdict"] == "ok" and items["tokens"]["verdict"] == "fail", items
        assert items["tokens"]["detail"].startswith(f"{TOKENS}:2: ") and "goes on" in items["tokens"]["detail"], items

        # Corrected, and not read yet: what was in use still stays.
        TOKENS.write_text("")
        items = check()
        assert items["reload"]["verdict"] == "warn" and items["reload"]["detail"].endswith(f"stays: {TOKENS}:2"), items
        sh(re.search(r'"(systemctl .*)"', items["reload"]["remedy"])[1])
        wait_until(lambda: "stays" not in _status(), 10, "a good status")
        items = check()
        assert "reload" not in items and "tokens" not in items, items
        assert held.exec("print(2)")["stdout"] == "2\n"


def test_check_with_a_mistake_in_the_configuration_says_what_the_service_does():
    dropin = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/91-test.conf")
    dropin.parent.mkdir(parents=True, exist_ok=True)
    with machine(), Client() as held:
        dropin.write_text("[Exec]\nNoSuchKey=1\n")
        try:
            systemctl("reload", "mcp-exec.service")
            wait_until(lambda: f"stays: {dropin}:2" in _status(), 10, "the status")
            items = check()
            assert list(items) == ["settings"] and items["settings"]["detail"].startswith(f"{dropin}:2: "), items
            assert "goes on" in items["settings"]["detail"], items
        finally:
            dropin.unlink()
        sh(re.search(r'"(systemctl .*)"', items["settings"]["remedy"])[1])
        assert held.exec("print(2)")["stdout"] == "2\n"


def test_check_tells_that_http_listens_without_a_token():
    with machine(), _tokens(""):
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        systemctl("start", HTTP_SOCKET, "mcp-exec.socket")
        items = check()
        assert items["tokens"]["verdict"] == "warn" and "there is no token" in items["tokens"]["detail"], items
        token = sh(["mcp-exec", "token", "add", "ci"]).stdout.split()[-1]
        sh("systemctl try-reload-or-restart mcp-exec.service")
        assert "tokens" not in check()
        assert HttpClient(8080, token=token).exec("print(3)")["stdout"] == "3\n"


def test_restart_of_the_launcher_calls_the_sandbox_that_was_kept_ready_no_run_left_behind():
    with machine():
        os.kill(main_pid("mcp-exec-launcher.service"), signal.SIGKILL)
        wait_until(lambda: show("mcp-exec-launcher.service", "ActiveState")["ActiveState"] == "failed", 10)
        cursor = journal_cursor()
        assert run().stdout == "ran\n"
        said = [r["MESSAGE"] for r in journal(after=cursor, _SYSTEMD_UNIT="mcp-exec-launcher.service")]
        ended = [text for text in said if "Ended" in text]
        assert all(re.fullmatch(r"Ended (1 sandbox|[2-9] sandboxes) of an earlier launcher: runs, or kept ready for one", text)
                   for text in ended), said
