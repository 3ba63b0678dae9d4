# SPDX-License-Identifier: MIT
"""Whatever an administrator did to the units: the remedy that is named makes the service serve again, as it stands and at
the first try. Each case makes the situation, takes the remedy from the text of `mcp-exec check`, and runs it."""

import json
import os
import re
import signal

from http_client import HttpClient
from lib import (CONF_DROPIN, SOCKET, Client, configured, journal, journal_cursor, main_pid, sh, show, systemd_version,
                 timeout, wait_until)
from repair import (HTTP_SOCKET, TOKENS, UNITS, check, check_serves, checked, drop_in, machine, ping, run, systemctl,
                    tokens, written)

SOCKET_UNITS = ("mcp-exec.socket", HTTP_SOCKET, "mcp-exec-proxy.socket")
DIRECTORY = "/run/mcp-exec"
LAUNCHER_SOCKET = f"{DIRECTORY}/launcher.sock"


ALL = " ".join(UNITS)
# What was done, by which commands; the item of the check that tells the remedy; the remedy.
CASES = (
    ("the launcher's socket was stopped, which needs no remedy",
     ["systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service"], None, None),
    ("the socket was stopped while the service runs",
     ["systemctl stop mcp-exec.socket"], "service",
     "systemctl stop mcp-exec.service && systemctl restart mcp-exec.socket"),
    ("the socket was stopped and disabled while the service runs",
     ["systemctl disable --now mcp-exec.socket"], "service",
     "systemctl stop mcp-exec.service && systemctl enable --now mcp-exec.socket"),
    ("everything was stopped and disabled",
     ["systemctl disable mcp-exec.socket", f"systemctl stop {ALL}"], "service",
     "systemctl enable --now mcp-exec.socket"),
    ("the socket was masked",
     ["systemctl mask mcp-exec.socket", "systemctl stop mcp-exec.service", f"rm -f {SOCKET}"], "service",
     "systemctl unmask mcp-exec.socket && systemctl restart mcp-exec.socket"),
    ("the socket was masked until the next boot",
     ["systemctl stop mcp-exec.socket mcp-exec.service", "systemctl mask --runtime mcp-exec.socket"], "service",
     "systemctl unmask --runtime mcp-exec.socket && systemctl restart mcp-exec.socket"),
    ("the service was masked, so that the client that found it so made the socket fail",
     ["systemctl stop mcp-exec.service", "systemctl mask mcp-exec.service"], "service",
     "systemctl unmask mcp-exec.service && systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket"),
    ("the launcher's socket was masked",
     ["systemctl stop mcp-exec-launcher.socket", "systemctl mask mcp-exec-launcher.socket"], "launcher",
     "systemctl unmask mcp-exec-launcher.socket && systemctl restart mcp-exec-launcher.socket"),
    ("the launcher was masked",
     ["systemctl stop mcp-exec-launcher.service", "systemctl mask mcp-exec-launcher.service"], "launcher",
     "systemctl unmask mcp-exec-launcher.service && systemctl reset-failed mcp-exec-launcher.socket && "
     "systemctl restart mcp-exec-launcher.socket"),
    ("everything was masked",
     [f"systemctl stop {ALL}", f"systemctl mask {ALL}"], "service",
     f"systemctl unmask {ALL} && systemctl restart mcp-exec-launcher.socket mcp-exec.socket"),
    ("the socket's file was lost",
     [f"rm {SOCKET}"], "service",
     "systemctl stop mcp-exec.service && systemctl restart mcp-exec.socket"),
    ("the launcher's socket file was lost",
     [f"rm {LAUNCHER_SOCKET}"], "launcher",
     "systemctl restart mcp-exec-launcher.socket"),
    ("the directory of the sockets was lost",
     [f"rm -r {DIRECTORY}"], "service",
     "systemctl stop mcp-exec.service && systemctl restart mcp-exec-launcher.socket mcp-exec.socket"),
    ("a file is in the place of the directory of the sockets",
     [f"systemctl stop {ALL}", f"rm -r {DIRECTORY}", f"touch {DIRECTORY}", "systemctl start mcp-exec.socket"], "service",
     f"mv -T {DIRECTORY} {DIRECTORY}.old && systemctl reset-failed mcp-exec.socket mcp-exec-launcher.socket && "
     "systemctl restart mcp-exec-launcher.socket mcp-exec.socket"),
    ("a directory is in the place of the launcher's socket",
     ["systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service", f"mkdir -p {LAUNCHER_SOCKET}/theirs"], "launcher",
     f"mv -T {LAUNCHER_SOCKET} {LAUNCHER_SOCKET}.old && systemctl reset-failed mcp-exec-launcher.socket && "
     "systemctl restart mcp-exec-launcher.socket"),
    ("a directory is in the place of the socket",
     ["systemctl stop mcp-exec.socket mcp-exec.service", f"mkdir {SOCKET}", "systemctl start mcp-exec.socket"], "service",
     f"mv -T {SOCKET} {SOCKET}.old && systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket"),
)


def _in_turn(cases):
    """Each case breaks a machine that serves, and the remedy of its item makes it serve again."""
    for what, commands, item, expected in cases:
        try:
            systemctl("reset-failed")  # so that no start limit is met because of the case before
            for command in commands:
                sh(command, check=False)
            if not item:
                check_serves()
                continue
            items = check()
            assert items[item]["verdict"] == "fail", items
            remedy = items[item]["remedy"]
            assert remedy == expected, items
            sh(remedy)
            check_serves(remedy)
        except Exception as error:
            error.add_note(f"where {what}")
            raise


@timeout(150)
def test_whatever_was_done_to_the_units_the_remedy_undoes_it():
    with machine():
        _in_turn(CASES)
        # What was in the way was moved, and nothing in it is lost.
        assert os.path.isdir(f"{LAUNCHER_SOCKET}.old/theirs") and os.path.isdir(f"{SOCKET}.old")
        assert os.path.isfile(f"{DIRECTORY}.old")
        os.unlink(f"{DIRECTORY}.old")


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


def test_launcher_service_that_was_masked_until_the_next_boot_and_found_so_by_a_client():
    with machine(enable=False):
        systemctl("stop", "mcp-exec-launcher.service", check=False)
        systemctl("mask", "--runtime", "mcp-exec-launcher.service")
        first = run(check=False)
        assert first.returncode == 125 and "mcp-exec check" in first.stderr, first
        wait_until(lambda: not os.path.exists(LAUNCHER_SOCKET), 10)
        said = run(check=False).stderr
        remedy = re.search(r'Start it as root with "(.*)"', said)
        assert remedy, said
        sh(remedy[1])
        assert run().stdout == "ran\n"


def test_launcher_service_that_was_masked_while_it_ran():
    """What was kept ready ran on; then check named the journal alone."""
    with machine(enable=False):
        systemctl("mask", "mcp-exec-launcher.service")
        for _ in range(20):
            if run(check=False).returncode != 0:
                break
        row = check()["run"]
        assert row["verdict"] == "fail" and "systemctl unmask mcp-exec-launcher.service" in row["remedy"], row
        sh(row["remedy"])
        check_serves()


def test_a_client_of_a_service_without_its_launcher_does_not_keep_systemd_busy():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with machine(enable=False):
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


def test_drop_in_with_a_mistake_is_named_and_after_its_repair_what_is_left_to_do():
    with machine():
        systemctl("stop", "mcp-exec.service")
        with drop_in("mcp-exec.service", "[Service]\nExecStart=\n"):
            assert run(check=False).returncode == 125
            remedy = check()["service"]["remedy"]
            assert remedy.startswith("Correct mcp-exec.service: ") and '"mcp-exec check" again' in remedy, remedy
            assert "restart" not in remedy, remedy  # that is for the check which comes next to say
        remedy = check()["service"]["remedy"]
        assert remedy == "systemctl reset-failed mcp-exec.socket && systemctl restart mcp-exec.socket", remedy
        sh(remedy)
        check_serves(remedy)


def test_start_limit_that_was_hit():
    with machine(), drop_in("mcp-exec.service", "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n"):
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


def _has_hit_the_limit():
    return show("mcp-exec.socket", "Result")["Result"] == "trigger-limit-hit"


def test_service_that_cannot_be_executed_is_given_up_and_the_remedy_says_so():
    """Otherwise PID 1 would try for ever. Here after five times, since how often it can try in a minute is not ours."""
    with machine(enable=False):
        for unit in (*SOCKET_UNITS, "mcp-exec-launcher.socket"):
            assert show(unit, "TriggerLimitBurst", "TriggerLimitIntervalUSec") == \
                {"TriggerLimitBurst": "80", "TriggerLimitIntervalUSec": "20s"}, unit
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        with drop_in("mcp-exec.socket", "[Socket]\nTriggerLimitIntervalSec=1h\nTriggerLimitBurst=5\n"), \
                drop_in("mcp-exec.service", "[Service]\nExecStart=\nExecStart=/nonexistent/mcp-exec serve\n"):
            systemctl("start", "mcp-exec.socket")
            said = run(check=False)
            assert said.returncode == 125 and "no service manager" not in said.stderr, said
            wait_until(_has_hit_the_limit, 50)
            remedy = check()["service"]["remedy"]
            assert remedy.startswith("Find out why mcp-exec.service cannot be started"), remedy
        sh(re.search(r'then "(systemctl .*)"', remedy)[1])
        check_serves(remedy)


def test_service_that_was_killed_again_and_again_is_not_one_that_cannot_be_started():
    with machine(enable=False):
        # With the units as they are it is started again by systemd, at most once a second, and keeps its sockets.
        with drop_in("mcp-exec.socket", "[Socket]\nTriggerLimitIntervalSec=1h\nTriggerLimitBurst=3\n"), \
                drop_in("mcp-exec.service", "[Service]\nRestart=no\n"):
            while not _has_hit_the_limit():
                os.kill(main_pid("mcp-exec.service"), signal.SIGKILL)
                wait_until(lambda: show("mcp-exec.service", "ActiveState")["ActiveState"] == "failed", 10)
                run(check=False)
            remedy = check()["service"]["remedy"]
            assert remedy.startswith("mcp-exec.service was started and ended many times in a short time "
                                     "(systemd says: signal)"), remedy
        sh(re.search(r': "(systemctl .*)"', remedy)[1])
        check_serves(remedy)


def test_service_that_ends_again_and_again_before_it_serves_keeps_its_socket_and_the_remedy_names_its_journal():
    with machine(enable=False):
        systemctl("stop", "mcp-exec.service")
        with drop_in("mcp-exec.service", "[Service]\nExecStart=\nExecStart=/bin/sh -c 'kill -SEGV $$$$'\n"):
            wait_until(lambda: "ends before it serves" in (check()["service"]["remedy"] or ""), 50)
            remedy = check()["service"]["remedy"]
            assert remedy == ("Find out why mcp-exec.service, which systemd starts again each time, ends before it serves "
                              f"(systemd says: {show('mcp-exec.service', 'Result')['Result']}; "
                              '"journalctl -u mcp-exec.service").'), remedy
            assert show("mcp-exec.socket", "ActiveState")["ActiveState"] == "active"
        check_serves(remedy)


# ---- one cause, one remedy -----------------------------------------------------------------------------------

def _commands(items):
    """Every command for the units that is named anywhere."""
    texts = [text for item in items.values() for text in (item["detail"], item["remedy"] or "") if item["verdict"] == "fail"]
    assert not [text for text in texts if "journalctl" in text], texts
    return {text for text in texts if "systemctl" in text}


@timeout(90)
def test_launcher_and_service_that_are_both_away_have_one_command():
    with machine():
        for commands in (("systemctl stop mcp-exec.socket", f"rm {LAUNCHER_SOCKET}"),
                         ("systemctl stop mcp-exec.socket mcp-exec.service mcp-exec-launcher.service",
                          "systemctl mask mcp-exec-launcher.service"),
                         ("systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service", f"mkdir {LAUNCHER_SOCKET}"),
                         ("systemctl stop mcp-exec-launcher.socket mcp-exec-launcher.service",
                          "systemctl mask mcp-exec-launcher.socket")):
            systemctl("reset-failed")
            for command in commands:
                sh(command)
            check()  # may change how the units are
            named = _commands(check())
            assert len(named) == 1, (commands, named)
            sh(named.pop())
            check_serves(commands)


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


@timeout(120)
def test_service_that_cannot_start_says_one_cause_and_serves_the_first_client_after_the_repair():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with machine(enable=False), tokens("token\n"):
        systemctl("stop", "mcp-exec.service")
        for user in ("root", "carol"):
            _says_one_thing(user, "systemctl restart mcp-exec.service")
        items = check()
        assert items["tokens"]["verdict"] == "fail" and items["tokens"]["detail"].startswith(f"{TOKENS}:1: "), items
        assert items["service"]["remedy"] == "First what is named for the tokens.", items
        # A client that calls all the time is no obstacle.
        for _ in range(3):
            assert run(check=False).returncode == 125
        TOKENS.write_text("")
        assert run().stdout == "ran\n"
        assert check().get("tokens") is None


def test_service_that_cannot_start_is_no_obstacle_to_the_command_that_it_names():
    with machine(enable=False), tokens("token\n"):
        systemctl("stop", "mcp-exec.service")
        command = re.search(r"without one: (systemctl .*)$", ping()["error"]["message"])
        TOKENS.write_text("")
        sh(command[1])
        assert show("mcp-exec.service", "ActiveState")["ActiveState"] == "active"
        assert run().stdout == "ran\n"


# ---- reload --------------------------------------------------------------------------------------------------

def _status():
    return show("mcp-exec.service", "StatusText")["StatusText"]


def test_reload_with_a_mistake_shows_in_the_status_and_in_check_until_a_good_one():
    with machine(enable=False), tokens(""), Client() as held:
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


def test_check_with_a_mistake_in_the_configuration_says_what_the_service_does_and_goes_on():
    """The mistake's line was the only one, although the service went on serving."""
    with machine(enable=False), Client() as held:
        with written(CONF_DROPIN, "[Exec]\nNoSuchKey=1\n"):
            systemctl("reload", "mcp-exec.service")
            wait_until(lambda: f"stays: {CONF_DROPIN}:2" in _status(), 10, "the status")
            items = check()
            assert list(items)[0] == "settings" and items["settings"]["detail"] == (
                f"{CONF_DROPIN}:2: unknown key NoSuchKey= in section [Exec] (the service goes on with what it read before; "
                "once it ends, it cannot start again)"), items
            assert [name for name, row in items.items() if row["verdict"] == "fail"] == ["settings"], items
            for name in ("service", "launcher", "version", "cgroups", "run", "walls", "packages", "sets"):
                assert name in items, (name, items)
            assert "reload" not in items, items
        sh(re.search(r'"(systemctl .*)"', items["settings"]["remedy"])[1])
        assert held.exec("print(2)")["stdout"] == "2\n"


def test_check_with_a_mistake_that_keeps_the_service_from_starting_names_one_cause():
    with machine(enable=False):
        with configured("[Server]\nFoo=1\n"):
            items, status = checked()
            assert status == 1 and list(items)[0] == "settings", items
            assert items["settings"]["detail"] == (
                f"{CONF_DROPIN}:2: unknown key Foo= in section [Server] (the service cannot start)"), items
            assert items["settings"]["remedy"] == "Correct it; the next client then starts the service.", items
            assert items["service"]["remedy"] == "First what is named for the settings.", items
            # Those would read the same mistake, and the machine has no other.
            assert not {"launcher", "run", "sets"} & set(items) and "cgroups" in items, items
            # The launcher, which had not come to ask for it, was believed that it is none.
            assert str(systemd_version()) in items["version"]["detail"], items["version"]
            assert [name for name, row in items.items() if row["verdict"] == "fail"] == ["settings", "service"], items
            row = checked("bob")[0]["settings"]
            assert row["verdict"] == "fail" and row["detail"].startswith(f"{CONF_DROPIN}:2: "), row
        check_serves()


def test_check_with_a_mistake_in_a_variable_blames_no_service():
    with machine(enable=False):
        done = sh(["env", "MCP_EXEC_MAX_TIMEOUT_S=soon", "mcp-exec", "check", "--json"], check=False)
        items = {item["name"]: item for item in json.loads(done.stdout)}
        assert done.returncode == 1 and items["settings"]["detail"].startswith("MCP_EXEC_MAX_TIMEOUT_S: "), items
        assert "the system service does not read this variable" in items["settings"]["detail"], items
        assert items["settings"]["remedy"] == "Correct this variable, or unset it.", items
        assert items["service"]["verdict"] == items["run"]["verdict"] == "ok", items
        assert [name for name, row in items.items() if row["verdict"] == "fail"] == ["settings"], items


def test_check_tells_that_http_listens_without_a_token():
    with machine(enable=False), tokens(""):
        systemctl("stop", "mcp-exec.service", "mcp-exec.socket")
        systemctl("start", HTTP_SOCKET, "mcp-exec.socket")
        items = check()
        assert items["tokens"]["verdict"] == "warn" and "there is no token" in items["tokens"]["detail"], items
        token = sh(["mcp-exec", "token", "add", "ci"]).stdout.split()[-1]
        sh("systemctl try-reload-or-restart mcp-exec.service")
        assert "tokens" not in check()
        assert HttpClient(8080, token=token).exec("print(3)")["stdout"] == "3\n"


def test_restart_of_the_launcher_calls_the_sandbox_that_was_kept_ready_no_run_left_behind():
    with machine(enable=False):
        os.kill(main_pid("mcp-exec-launcher.service"), signal.SIGKILL)
        wait_until(lambda: show("mcp-exec-launcher.service", "ActiveState")["ActiveState"] == "failed", 10)
        cursor = journal_cursor()
        assert run().stdout == "ran\n"
        said = [r["MESSAGE"] for r in journal(after=cursor, _SYSTEMD_UNIT="mcp-exec-launcher.service")]
        ended = [text for text in said if "Ended" in text]
        assert all(re.fullmatch(r"Ended (1 sandbox|[2-9] sandboxes) of an earlier launcher: runs, or kept ready for one", text)
                   for text in ended), said
