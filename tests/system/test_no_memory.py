# SPDX-License-Identifier: MIT
"""The daemon without memory: refused by malloc() it says so and goes on; killed by the kernel it starts anew. Neither
leaves a run behind, and none is executed twice."""

import concurrent.futures
import contextlib
import json
import pathlib
import resource
import socket

from births import Births
from http_client import HttpClient
from lib import (Client, SOCKET, journal, journal_cursor, main_pid, needs, run_units, sh, show, stop_services, timeout,
                 vm_only, wait_until)
from test_http import TOKEN, http

NO_MEMORY = {"code": -31001, "message": "The server is out of memory; try again later."}


@contextlib.contextmanager
def _daemon_with(setting):
    dropin = pathlib.Path("/run/systemd/system/mcp-exec.service.d/90-memory.conf")
    dropin.parent.mkdir(parents=True, exist_ok=True)
    dropin.write_text(f"[Service]\n{setting}\n")
    sh(["systemctl", "daemon-reload"])
    stop_services()
    try:
        yield
    finally:
        dropin.unlink()
        sh(["systemctl", "daemon-reload"])
        stop_services()


def _call(code):
    return json.dumps({"jsonrpc": "2.0", "id": "big", "method": "tools/call",
                       "params": {"name": "exec", "arguments": {"code": code}}}).encode()


@vm_only     # prlimit(2) of another user's process
@timeout(120)
def test_daemon_that_may_not_have_more_memory_answers_every_request_and_stays():
    with http() as port:
        client = HttpClient(port, token=TOKEN)
        client.exec("print(1)")
        pid, cursor = main_pid(), journal_cursor()
        # Not LimitAS=: systemd itself needs more than we do, on its way to us.
        used = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (used, before[1]))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: client.send(body=_call("#" * 900000)), range(12)))
        refused = [a for a in answers if a.status == 503]
        assert refused and all(a.messages[0]["error"] == NO_MEMORY for a in refused), answers[0].body[:2000]
        for answer in answers:      # what ran has its answer, which is none without its output
            assert answer.status in (200, 503), answer.status
            if answer.status == 200:
                result = answer.messages[-1]["result"]
                assert result.get("isError") or result["structuredContent"]["stdout"] == "", answer.body[:2000]
        complaints = [r for r in journal(cursor, _SYSTEMD_UNIT="mcp-exec.service")
                      if str(r["MESSAGE"]).startswith("Out of memory: refused a request")]
        assert len(complaints) == 1, complaints
        resource.prlimit(pid, resource.RLIMIT_AS, before)
        assert client.exec("print(2)")["stdout"] == "2\n"
        assert main_pid() == pid and show("mcp-exec.service", "Result")["Result"] == "success"


def _promise_much():
    """Three messages of 10 MiB without their ends, more than the daemon's limit together."""
    clients = []
    for _ in range(3):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(SOCKET)
        clients.append(s)
    piece = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (1 << 20)
    with contextlib.suppress(ConnectionError):
        for _ in range(10):
            for s in clients:
                s.sendall(piece)
    return clients


@vm_only
@needs("memory")
@timeout(180)
def test_daemon_that_the_kernel_kills_starts_anew_and_leaves_no_run():
    with _daemon_with("MemoryMax=16M\nMemorySwapMax=0"), Client() as victim:
        done = victim.call("exec", {"code": "print('done')", "background": True})["structuredContent"]["run_id"]
        assert victim.call("get_run", {"run_id": done, "wait_s": 30})["structuredContent"]["status"] == "ok"
        reply = victim.start("exec", {"code": "import time; time.sleep(250)", "timeout_s": 250})
        victim.request("ping").result()     # the call before it has its unit, which may have waited for it
        units, cursor, pid = wait_until(run_units, 20), journal_cursor(), main_pid()
        with Births() as births:
            clients = _promise_much()
            try:
                answer = reply.wait(60)
            except ConnectionError:
                answer = None
            for s in clients:
                s.close()
            assert answer is None, answer
            # The administrator reads why.
            wait_until(lambda: [r for r in journal(cursor, UNIT="mcp-exec.service")
                                if "Failed with result 'oom-kill'" in r["MESSAGE"]], 20)
            wait_until(lambda: not set(units) & set(run_units()), 20)
            with Client() as c:
                assert c.exec("print(3)")["stdout"] == "3\n"
                assert c.call("get_run", {"run_id": done, "offset": 0})["structuredContent"]["stdout"] == "done\n"
            assert main_pid() != pid
            state = show("mcp-exec.service", "ActiveState", "Result", "NRestarts")
            assert state == {"ActiveState": "active", "Result": "success", "NRestarts": "1"}, state
            assert not set(births.names()) & set(units), "a run was started again"
