# SPDX-License-Identifier: MIT
"""Runs that outlive the call that began them, on a real systemd: their units, their owners, a restart, idleness."""

import os
import signal
import time

from births import Births
from lib import Client, configured, main_pid, record_of, run_units, sh, show, timeout, wait_until

UNIT = "mcp-exec.service"


def _structured(result):
    assert not result.get("isError"), result
    return result["structuredContent"]


def _background(client, code, **arguments):
    begun = _structured(client.call("exec", {"code": code, "background": True, **arguments}))
    assert begun["status"] == "running", begun
    return begun["run_id"]


def _get(client, run_id, **arguments):
    return _structured(client.call("get_run", {"run_id": run_id, **arguments}))


def _works(seconds):
    return f"import time\nprint('begun', flush=True)\ntime.sleep({seconds})\nprint('done')"


def _stored():
    return int(show(UNIT, "NFileDescriptorStore")["NFileDescriptorStore"])


def test_call_is_answered_at_the_sync_limit_and_its_program_runs_on():
    with configured("[Exec]\nSyncLimitSec=2s\n"), Client() as c:
        first = c.exec(_works(4))
        assert first["status"] == "running" and first["stdout"] == "begun\n", first
        last = _get(c, first["run_id"], wait_s=30)
        assert last["status"] == "ok" and last["stdout"] == "begun\ndone\n", last
        assert last["duration_ms"] >= 4000, last
        assert record_of(first["run_id"])["MCP_EXEC_STATUS"] == "ok"


def test_cancel_run_kills_all_of_its_processes():
    with configured("[Exec]\nPoolSize=0\n"), Client() as c:
        run_id = _background(c, "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '60'])\n"
                                "print('begun', flush=True)\ntime.sleep(60)")
        wait_until(lambda: _get(c, run_id, offset=0)["stdout"] == "begun\n", 20)
        assert run_units()
        ended = _structured(c.call("cancel_run", {"run_id": run_id}))
        assert ended["status"] == "cancelled", ended
        wait_until(lambda: not run_units(), 10, "its unit is gone")


def test_results_are_for_their_owner_only():
    sh(["gpasswd", "-a", "bob", "mcp-exec"])
    try:
        with Client() as owner, Client(user="bob") as other:
            run_id = _background(owner, _works(1))
            running = other.refused("get_run", {"run_id": run_id})
            assert other.refused("cancel_run", {"run_id": run_id}) == running
            assert _get(owner, run_id, wait_s=20)["status"] == "ok"
            assert other.refused("get_run", {"run_id": run_id}) == running
            assert other.refused("get_run", {"run_id": "0" * 32}) == running
        with Client() as again:
            assert _get(again, run_id)["stdout"] == "begun\ndone\n"
    finally:
        sh(["gpasswd", "-d", "bob", "mcp-exec"])


@timeout(120)
def test_result_outlives_a_restart():
    with configured("[Exec]\nPoolSize=1\n"):
        with Client() as c:
            before = _background(c, "print('x' * 300000)")
            assert _get(c, before, wait_s=20)["status"] == "ok"
            during = _background(c, _works(3))
            wait_until(lambda: _get(c, during, offset=0)["stdout"], 20, "it runs")
        assert _stored() == 1, _stored()
        pid = main_pid()
        sh(["systemctl", "restart", UNIT])
        with Client() as c:
            assert main_pid() != pid
            last = _get(c, during)
            assert last["status"] == "ok" and last["stdout"] == "begun\ndone\n", last
            whole, offset = "", 0
            while offset is not None:
                page = _get(c, before, offset=offset)
                whole, offset = whole + page["stdout"], page.get("next_offset")
            assert whole == "x" * 300000 + "\n", len(whole)
        assert _stored() == 2, _stored()


@timeout(120)
def test_result_outlives_a_kill_of_the_service():
    """Its owner heard that there was no such run: systemd had let go of the result with the service."""
    with configured("[Exec]\nPoolSize=0\n"):
        with Client() as c:
            before = _background(c, "print('x' * 300000)")
            assert _get(c, before, wait_s=20)["status"] == "ok"
        for n_kills in range(1, 4):
            with Client() as c:
                during = _background(c, _works(60))
                wait_until(lambda: _get(c, during, offset=0)["stdout"], 20, "it runs")
            units, pid = run_units(), main_pid()
            assert units and _stored() == 1, (units, _stored())
            with Births() as births:
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: main_pid() not in (0, pid), 20, "systemd starts it again by itself")
                wait_until(lambda: not set(run_units()) & set(units), 20, "what ran has ended")
                with Client() as c:
                    whole, offset = "", 0
                    while offset is not None:
                        page = _get(c, before, offset=offset)
                        whole, offset = whole + page["stdout"], page.get("next_offset")
                    assert whole == "x" * 300000 + "\n", len(whole)
                    assert "There is no run with this run_id" in c.refused("get_run", {"run_id": during})
                assert not set(births.names()) & set(units), "a run was started again"
            assert show(UNIT, "NRestarts")["NRestarts"] == str(n_kills)


@timeout(120)
def test_stop_forgets_results_also_while_systemd_is_to_start_the_service_again():
    with configured(""):
        with Client() as c:
            run_id = _background(c, "print(1)")
            assert _get(c, run_id, wait_s=20)["stdout"] == "1\n"
        os.kill(main_pid(), signal.SIGKILL)
        wait_until(lambda: main_pid() == 0, 5)
        sh(["systemctl", "stop", UNIT])
        assert show(UNIT, "ActiveState")["ActiveState"] in ("inactive", "failed")
        assert _stored() == 0
        with Client() as c:
            c.refused("get_run", {"run_id": run_id})
            assert show(UNIT, "NRestarts")["NRestarts"] == "0"


@timeout(120)
def test_service_stays_while_it_keeps_a_result_and_then_goes():
    with configured("[Server]\nExitIdleSec=1s\n[Exec]\nResultKeepSec=6s\n"):
        with Client() as c:
            run_id = _background(c, "print(1)")
            assert _get(c, run_id, wait_s=20)["stdout"] == "1\n"
            ended = time.monotonic()
        pid = main_pid()
        wait_until(lambda: time.monotonic() - ended > 3.5, 5)
        assert main_pid() == pid, "it went although it kept a result"
        wait_until(lambda: main_pid() == 0, 20, "it goes")
        assert _stored() == 0
        with Client() as c:
            c.refused("get_run", {"run_id": run_id})


@timeout(120)
def test_kept_results_of_many_runs_leave_nothing_behind():
    with configured("[Exec]\nResultKeepSec=2s\n"), Client() as c:
        ids = [_background(c, "print(1)") for _ in range(8)]
        for run_id in ids:
            assert _get(c, run_id, wait_s=45)["status"] == "ok"
        pid = main_pid()
        wait_until(lambda: _stored() == 0, 15, "the store is empty again")
        maps = open(f"/proc/{pid}/maps").read()
        assert "mcp-exec-result" not in maps, maps
