# SPDX-License-Identifier: MIT
"""Slots, the queue, busy, and what the journal says of it all."""

import hashlib
import re

from lib import (Client, StdioClient, configured, journal, journal_cursor, record_of, sh, show, text_of, timeout,
                 wait_until)
from seen import journal_text


def test_beyond_the_queue_the_answer_is_busy():
    with configured("[Exec]\nMaxParallel=1\nQueueMax=2\nQueueMaxPerUser=2\n"), Client() as c:
        runs = [c.start("exec", {"code": "import time; time.sleep(1)"}) for _ in range(6)]
        results = [r.result(30) for r in runs]
    busy = [text_of(r) for r in results if r.get("isError")]
    assert len(busy) == 3 and all("busy" in t for t in busy), busy
    assert sum(r.get("structuredContent", {}).get("status") == "ok" for r in results) == 3, results


@timeout(120)
def test_queue_is_fair_between_users():
    sh(["gpasswd", "-a", "bob", "mcp-exec"])
    try:
        with configured("[Exec]\nMaxParallel=1\nPoolSize=0\n"), Client() as greedy, Client(user="bob") as modest:
            many = [greedy.start("exec", {"code": "import time; time.sleep(0.5)"}) for _ in range(8)]
            one = modest.start("exec", {"code": "print(1)"})
            assert one.result(60)["structuredContent"]["stdout"] == "1\n"
            assert sum(r.done.is_set() for r in many) <= 4, "one user's queue made another wait for all of it"
            for r in many:
                r.result(60)
    finally:
        sh(["gpasswd", "-d", "bob", "mcp-exec"])


def test_one_record_per_run_with_metadata_and_never_content():
    code = "import sys; print('content-' + 'of-output', sys.stdin.read()); sys.exit(4)"
    cursor = journal_cursor()
    with Client() as c:
        r = c.start("exec", {"code": code, "stdin": "content-of-stdin"},
                    meta={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}).result(30)["structuredContent"]
    record = record_of(r["run_id"], cursor)
    expected = {"MCP_EXEC_TOOL": "exec", "MCP_EXEC_PRINCIPAL": "uid:0", "MCP_EXEC_CLIENT": "system-test",
                "MCP_EXEC_CLIENT_VERSION": "1", "MCP_EXEC_STATUS": "error", "MCP_EXEC_EXIT_CODE": "4",
                "MCP_EXEC_CODE_SHA256": hashlib.sha256(code.encode()).hexdigest(),
                "MCP_EXEC_TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "MCP_EXEC_STDOUT_BYTES": str(r["stdout_bytes"]), "MCP_EXEC_STDERR_BYTES": "0",
                "MCP_EXEC_CODE_BYTES": str(len(code)), "MCP_EXEC_STDIN_BYTES": "16", "_SYSTEMD_UNIT": "mcp-exec.service"}
    for key, value in expected.items():
        assert record.get(key) == value, (key, record.get(key), value)
    assert re.fullmatch(r"mcp-exec-run-[0-9a-f]{32}\.service", record["MCP_EXEC_UNIT"]), record
    assert int(record["MCP_EXEC_DURATION_USEC"]) > 0 and int(record["MCP_EXEC_QUEUED_USEC"]) >= 0
    for field, key, scale in (("MCP_EXEC_CPU_USEC", "cpu_ms", 1000), ("MCP_EXEC_MEMORY_PEAK", "memory_peak_bytes", 1)):
        # What the machine does not account is missing in both.
        assert (field in record) == (key in r["usage"]), (record, r)
        assert field not in record or int(record[field]) // scale == r["usage"][key], (record, r)
    assert len(journal(after=cursor, MCP_EXEC_RUN_ID=r["run_id"])) == 1
    assert "content-of" not in journal_text()


def test_hostile_client_name_cannot_forge_a_record():
    cursor = journal_cursor()
    with Client(handshake=False) as c:
        c.initialize(name="evil\nMCP_EXEC_STATUS=ok\x1b[2J\u202e\u2028" + "x" * 5000)
        r = c.exec("1/0")
    record = record_of(r["run_id"], cursor)
    assert record["MCP_EXEC_STATUS"] == "error" and "\n" not in record["MCP_EXEC_CLIENT"], record
    assert len(record["MCP_EXEC_CLIENT"]) <= 256 and not {"\x1b", "\u202e", "\u2028"} & set(record["MESSAGE"]), record


def test_status_of_the_services_reads_well():
    with Client() as c:
        c.exec("print(1)")
        text = sh(["systemctl", "status", "mcp-exec.service", "mcp-exec-launcher.service"], check=False).stdout
        assert "Status:" in text and "active (running)" in text, text
        assert show("mcp-exec.service", "User")["User"] == "mcp-exec"
        run = c.start("exec", {"code": "import time; time.sleep(3)"})
        tree = wait_until(lambda: "mcp-exec-run-" in (t := sh(["systemd-cgls", "--no-pager", "-l"], check=False).stdout) and t, 10)
        assert "mcp-exec.slice" in tree, tree
        # A sandbox that waits for its program must not pass for a run: who counts runs looks at the daemon's status.
        units = sh("systemctl list-units --plain --no-legend 'mcp-exec-run-*'").stdout.splitlines()
        assert units and all(u.endswith("mcp-exec: sandbox of one Python program") for u in units), units
        wait_until(lambda: "1 running, 0 waiting" in show("mcp-exec.service", "StatusText")["StatusText"], 5)
        run.result(20)


def test_services_run_without_privilege():
    with Client() as c:
        c.exec("print(1)")
        import pathlib
        from lib import main_pid
        for unit, uid in (("mcp-exec.service", None), ("mcp-exec-launcher.service", "0")):
            status = dict(l.split(":\t", 1) for l in pathlib.Path(f"/proc/{main_pid(unit)}/status").read_text().splitlines() if ":\t" in l)
            assert status["CapEff"] == status["CapPrm"] == status["CapBnd"] == "0" * 16, (unit, status)
            assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", unit
            assert uid is None or status["Uid"].split()[0] == uid
        daemon = pathlib.Path(f"/proc/{main_pid()}/status").read_text()
        assert "\nUid:\t0\t" not in daemon


def test_all_transports_give_the_same_answer():
    from http_client import HttpClient
    keys = ("stdout", "stderr", "exit_code", "truncated", "timed_out", "status")
    code = "import sys; print('same'); print('err', file=sys.stderr); sys.exit(3)"
    token = "token-of-this-test-1234567890"
    import pathlib
    path = pathlib.Path("/etc/mcp-exec/auth-token")
    path.write_text(token + "\n")
    path.chmod(0o600)
    try:
        sh(["systemctl", "stop", "mcp-exec.service"])
        sh(["systemctl", "start", "mcp-exec-http.socket"])
        got = []
        with Client() as c:
            got.append(c.exec(code))
        with StdioClient("root") as c:
            got.append(c.exec(code))
        got.append(HttpClient(8080, token=token).exec(code))
        got.append(HttpClient(8080, token=token, token_header="X-MCP-AUTH").exec(code))
        views = [tuple(r[k] for k in keys) for r in got]
        assert len(set(views)) == 1, views
    finally:
        path.unlink()
        sh(["systemctl", "stop", "mcp-exec-http.socket", "mcp-exec.service"])
        sh(["systemctl", "start", "mcp-exec.socket"])
