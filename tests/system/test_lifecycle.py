# SPDX-License-Identifier: MIT
"""Nothing is left behind, nothing runs twice, no request is lost: whoever dies, whenever."""

import os
import pathlib
import signal
import socket
import threading
import time

from births import Births
from lib import (Client, SOCKET, also_vm, configured, failed_units, journal, journal_cursor, main_pid, record_of,
                 run_units, sh, show, slow, stop_services, timeout, wait_until)

SLEEPER = "import time; print('begun'); time.sleep(60)"


def _started_run(client, code=SLEEPER):
    run = client.start("exec", {"code": code, "timeout_s": 100}, meta={"progressToken": 1})
    wait_until(lambda: any("begun" in m["params"].get("message", "")
                           for m in client.notifications("notifications/progress")), 20, "the run has begun")
    return run


@also_vm
def test_kill_of_the_daemon_leaves_no_unit():
    c = Client()
    _started_run(c)
    os.kill(main_pid(), signal.SIGKILL)
    wait_until(lambda: not run_units(), 10, "no unit of a run is left")
    c.close()
    with Client() as again:
        assert again.exec("print(1)")["stdout"] == "1\n"


@also_vm
def test_kill_of_the_launcher_ends_the_run_as_infra_error_and_leaves_no_unit():
    with Client() as c:
        run = _started_run(c)
        before = run_units()
        os.kill(main_pid("mcp-exec-launcher.service"), signal.SIGKILL)
        r = run.result(20)["structuredContent"]
        assert (r["status"], r["exit_code"], r["stdout"]) == ("infra_error", -1, "begun\n"), r
        assert "launcher" in r["message"], r
        wait_until(lambda: not set(run_units()) & set(before), 10, "the units of before are gone")
        assert c.exec("print(1)")["stdout"] == "1\n"


@timeout(120)
def test_nothing_is_executed_twice():
    # A restart lets it end, for a graceful stop answers what is running; a kill does not.
    code = "import time; print('begun'); time.sleep(4); print('end')"
    for victim in ("mcp-exec-launcher.service", "mcp-exec.service"):
        for is_killed in (False, True):
            with Client() as c:
                c.exec("pass")
            client = Client()
            with Births() as births:
                run = _started_run(client, code)
                units = set(run_units())
                if is_killed:
                    os.kill(main_pid(victim), signal.SIGKILL)
                else:
                    sh(["systemctl", "restart", victim])
                    r = run.result(30)["structuredContent"]
                    assert (r["status"], r["stdout"]) == ("ok", "begun\nend\n"), r
                wait_until(lambda: not set(run_units()) & units, 20, "the units of before are gone")
                names = births.names()
            assert names and len(names) == len(set(names)), (victim, is_killed, names)
            client.close()


@timeout(120)
def test_upgrade_under_a_run_executes_nothing_twice():
    with Client() as c:
        c.exec("pass")
    c = Client()
    with Births() as births:
        run = _started_run(c, "import time; print('begun'); time.sleep(3); print('end')")
        units = set(run_units())
        sh("PATH=$PATH:/usr/sbin:/sbin dpkg -i /mnt/host/mcp-exec.deb", timeout=100)
        r = run.result(30)["structuredContent"]
        assert (r["status"], r["stdout"]) == ("ok", "begun\nend\n"), r
        wait_until(lambda: not set(run_units()) & units, 60, "the units of before are gone")
        names = births.names()
    assert names and len(names) == len(set(names)), names
    c.close()
    with Client() as again:
        assert again.exec("print(1)")["stdout"] == "1\n"


def test_cancel_kills_the_cgroup_and_sends_no_answer():
    code = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '60'])\nprint('begun')\ntime.sleep(60)"
    with Client() as c:
        cursor = journal_cursor()
        run = _started_run(c, code)
        c.cancel(run.ident)
        records = wait_until(lambda: journal(after=cursor, MCP_EXEC_STATUS="cancelled"), 10)
        unit = records[-1]["MCP_EXEC_UNIT"]
        wait_until(lambda: unit not in run_units(), 5)
        assert c.exec("print(1)")["stdout"] == "1\n"
        assert not run.done.is_set(), run.message


def test_cancel_of_a_waiting_call_takes_it_out_of_the_queue():
    with configured("[Exec]\nMaxParallel=1\n"), Client() as c:
        first = _started_run(c, "import time; print('begun'); time.sleep(4)")
        second = c.start("exec", {"code": "print('second')"})
        third = c.start("exec", {"code": "print('third')"})
        c.cancel(second.ident)
        assert third.result(20)["structuredContent"]["stdout"] == "third\n"
        assert first.done.is_set() and not second.done.is_set()


def test_a_client_that_vanishes_ends_its_run():
    cursor = journal_cursor()
    c = Client()
    _started_run(c)
    c.vanish()
    records = wait_until(lambda: journal(after=cursor, MCP_EXEC_STATUS="cancelled"), 10)
    wait_until(lambda: records[-1]["MCP_EXEC_UNIT"] not in run_units(), 5)


def test_half_closed_client_gets_its_process_ended():
    s = socket.socket(socket.AF_UNIX)
    s.connect(SOCKET)
    s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    s.shutdown(socket.SHUT_WR)
    s.settimeout(5)
    data = b""
    while chunk := s.recv(65536):
        data += chunk
    assert data == b'{"jsonrpc":"2.0","id":1,"result":{}}\n', data


@timeout(240)
def test_sixty_single_calls_with_exit_on_idle_between_them_are_all_answered():
    with configured("[Server]\nExitIdleSec=1s\n[Exec]\nPoolSize=0\n"):
        pids = set()
        for i in range(60):
            with Client() as c:
                assert c.exec(f"print({i})")["stdout"] == f"{i}\n"
                pids.add(main_pid())
            # Every other call comes while the daemon is about to leave, or has just left.
            if i % 2:
                wait_until(lambda: main_pid() not in pids, 10)
        assert len(pids) >= 30, pids
    assert not failed_units(), failed_units()


def test_idle_services_exit_and_leave_no_process():
    with configured("[Server]\nExitIdleSec=1s\n"):
        with Client() as c:
            c.exec("print(1)")
        wait_until(lambda: show("mcp-exec.service", "ActiveState")["ActiveState"] == "inactive", 20)
        wait_until(lambda: not run_units(), 5)
        wait_until(lambda: show("mcp-exec-launcher.service", "ActiveState")["ActiveState"] == "inactive", 20)


def _counts():
    """What must not grow: units, failed units, mounts, our fds, dynamic users."""
    pid, launcher = main_pid(), main_pid("mcp-exec-launcher.service")
    return {"failed": len(failed_units()),
            "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "fds": len(os.listdir(f"/proc/{pid}/fd")), "launcher fds": len(os.listdir(f"/proc/{launcher}/fd")),
            "uids": len(os.listdir("/run/systemd/dynamic-uid")) if os.path.isdir("/run/systemd/dynamic-uid") else 0}


@slow
@timeout(400)
def test_a_thousand_failing_runs_leave_nothing():
    with Client() as c:
        for i in range(10):
            c.exec("1/0")
        wait_until(lambda: len(run_units()) <= 1, 10)
        time.sleep(1)
        before = _counts()
        kinds = ("1/0", "import os; os.kill(os.getpid(), 9)", "import sys; sys.exit(226)", "import os; os.abort()")
        for batch in range(125):
            runs = [c.start("exec", {"code": kinds[i % 4]}) for i in range(8)]
            for run in runs:
                status = run.result(60)["structuredContent"]["status"]
                assert status in ("error", "signal"), status
        wait_until(lambda: len(run_units()) <= 1, 10)
        time.sleep(1)
        after = _counts()
    for key, value in before.items():
        assert after[key] <= value + 2, (key, before, after)
    assert not failed_units()


def test_zombies_are_not_left():
    with Client() as c:
        for _ in range(5):
            c.exec("import subprocess\nfor i in range(5): subprocess.Popen(['true'])")
        wait_until(lambda: not sh("ps -eo stat= | grep ^Z", check=False).stdout, 5)


def test_daemon_reload_and_reexec_of_systemd_are_survived():
    with Client() as c:
        run = _started_run(c, "import time; print('begun'); time.sleep(4); print('end')")
        sh(["systemctl", "daemon-reload"])
        sh(["systemctl", "daemon-reexec"])
        r = run.result(30)["structuredContent"]
        assert r["status"] == "ok" and r["stdout"] == "begun\nend\n", r
        assert c.exec("print(1)")["stdout"] == "1\n"


def test_restart_of_the_message_bus_answers_and_recovers():
    with Client() as c:
        run = _started_run(c)
        units = set(run_units())
        sh("systemctl restart dbus.service 2>/dev/null || systemctl restart dbus-broker.service")
        assert run.result(30)["structuredContent"]["status"] == "infra_error", run.message
        wait_until(lambda: not set(run_units()) & units, 15)
        deadline = time.monotonic() + 20
        while True:
            result = c.call("exec", {"code": "print(1)"})
            if not result.get("isError"):
                break
            assert time.monotonic() < deadline, result
            time.sleep(0.5)
        assert result["structuredContent"]["stdout"] == "1\n"


@timeout(120)
def test_launcher_that_is_stuck_makes_no_timeout_of_a_program_that_ended():
    with Client() as c:
        for seconds, status in ((5, "infra_error"), (60, "timeout")):
            code = f"print('begun'); import time; time.sleep({seconds})"
            run = c.start("exec", {"code": code, "timeout_s": 9}, meta={"progressToken": seconds})
            wait_until(lambda: any("begun" in m["params"].get("message", "") for m in
                                   c.notifications("notifications/progress")
                                   if m["params"]["progressToken"] == seconds), 20, "the run has begun")
            pid = main_pid("mcp-exec-launcher.service")
            os.kill(pid, signal.SIGSTOP)
            try:
                r = run.result(20)["structuredContent"]
            finally:
                os.kill(pid, signal.SIGCONT)
            assert (r["status"], r["stdout"], r["timed_out"]) == (status, "begun\n", status == "timeout"), r
            assert r["duration_ms"] <= 9500, r
        assert c.exec("print(1)")["stdout"] == "1\n"


@timeout(120)
def test_frozen_warm_unit_is_replaced():
    with configured("[Exec]\nPoolSize=1\n"), Client() as c:
        c.exec("pass")
        wait_until(lambda: len(run_units()) == 1, 20, "one unit is kept ready")
        time.sleep(1)   # it has said so
        unit, = run_units()
        sh(["systemctl", "kill", "--signal=STOP", unit])
        r = c.exec("print(1)", timeout_s=30)
        assert (r["status"], r["stdout"]) == ("ok", "1\n"), r
        wait_until(lambda: unit not in run_units(), 10, "it is gone")


def test_leftover_units_of_a_dead_launcher_are_swept():
    stop_services()
    name = "mcp-exec-run-" + "0" * 31 + "1.service"
    sh(["systemd-run", "--unit", name, "--slice", "mcp-exec.slice", "--quiet", "--collect", "sleep", "600"])
    assert name in run_units()
    with Client() as c:
        c.exec("print(1)")
        wait_until(lambda: name not in run_units(), 10, "the leftover is gone")


def test_graceful_stop_answers_what_is_running():
    with Client() as c:
        run = _started_run(c, "import time; print('begun'); time.sleep(2); print('end')")
        stopper = threading.Thread(target=lambda: sh(["systemctl", "stop", "mcp-exec.service"]))
        stopper.start()
        r = run.result(20)["structuredContent"]
        stopper.join()
        assert r["stdout"] == "begun\nend\n", r


def test_stop_of_a_unit_by_the_administrator_is_not_a_success():
    with Client() as c:
        cursor = journal_cursor()
        before = set(run_units())
        run = _started_run(c)
        sh("systemctl kill --signal=KILL 'mcp-exec-run-*.service'")
        r = run.result(20)["structuredContent"]
        assert r["status"] == "signal" and r["signal"] == "SIGKILL", r
        assert record_of(r["run_id"], cursor)["MCP_EXEC_STATUS"] == "signal", before
