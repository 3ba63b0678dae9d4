# SPDX-License-Identifier: MIT
"""Named tokens, limits of tokens, users and groups, front ends that name their users; as the administrator does it."""

import concurrent.futures
import contextlib
import grp
import http.client
import json
import os
import pathlib
import pwd
import socket
import stat
import subprocess

from http_client import HttpClient, listened
from lib import (PROTOCOL, Client, configured, journal, journal_cursor, main_pid, minimal_environment,
                 processes_with, record_of, run_units, sh, show, text_of, timeout, user_options, wait_until)
from repair import check, written
from seen import journal_text

FILE = pathlib.Path("/etc/mcp-exec/tokens")
PROXY = "/run/mcp-exec/proxy.sock"
SLEEP = "import time; time.sleep(3)"


@contextlib.contextmanager
def serving(socket_unit="mcp-exec-http.socket"):
    sh(["systemctl", "stop", "mcp-exec.service"])
    sh(["systemctl", "start", socket_unit])
    try:
        yield 8080
    finally:
        FILE.unlink(missing_ok=True)
        sh(["systemctl", "stop", socket_unit, "mcp-exec.service"])
        sh(["systemctl", "start", "mcp-exec.socket"])


def add(name, *options):
    return sh(["mcp-exec", "token", "add", name, *options]).stdout.strip()


def status(token, **headers):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    return HttpClient(8080, token=token, handshake=False).send(body=body, headers=headers).status


def _protection():
    info = FILE.stat()
    return stat.S_IMODE(info.st_mode), pwd.getpwuid(info.st_uid).pw_name, grp.getgrgid(info.st_gid).gr_name


def test_token_is_taken_at_once_and_refused_once_removed():
    with serving():
        ci = add("ci")
        assert _protection() == (0o400, "mcp-exec", "root")
        client = HttpClient(8080, token=ci)
        result = client.exec("print(1)")
        assert record_of(result["run_id"])["MCP_EXEC_PRINCIPAL"] == "token:ci"
        pid = main_pid()
        late = add("late")              # the service runs, and learns of it
        assert _protection() == (0o400, "mcp-exec", "root")
        wait_until(lambda: status(late) == 200)
        sh(["mcp-exec", "token", "remove", "ci"])
        wait_until(lambda: status(ci) == 401)
        assert status(late) == 200
        assert sh(["mcp-exec", "token", "list"]).stdout == "late\n"
        assert main_pid() == pid, "the service was started anew"


def test_digests_of_tokens_are_not_to_be_read_by_members_of_the_group():
    with serving():
        add("ci")
        sh(["gpasswd", "-a", "alice", "mcp-exec"])
        try:
            assert "Permission denied" in sh(["cat", str(FILE)], user="alice", check=False).stderr
            sh(["chown", "root:mcp-exec", str(FILE)])       # as somebody might who read that the group is the service's
            FILE.chmod(0o640)
            assert "token ci sha256:" in sh(["cat", str(FILE)], user="alice").stdout
            row = check()["secrets"]
            assert row["verdict"] == "warn" and row["detail"] == f"{FILE} may be read by the group mcp-exec", row
            sh(row["remedy"])
            assert "Permission denied" in sh(["cat", str(FILE)], user="alice", check=False).stderr
            assert "secrets" not in check()
            add("late")
            assert "Permission denied" in sh(["cat", str(FILE)], user="alice", check=False).stderr
        finally:
            sh(["gpasswd", "-d", "alice", "mcp-exec"])


def test_file_of_another_owner_stays_readable_for_the_service():
    """A removed token went on to work, and the service could not start again."""
    with serving():
        ci, other = add("ci"), add("other")
        for owner, mode in ("alice:mcp-exec", 0o640), ("alice:root", 0o644):
            sh(["chown", owner, str(FILE)])
            FILE.chmod(mode)
            late = add("late")
            assert _protection() == (0o400, "mcp-exec", "root")
            wait_until(lambda: status(late) == 200)
            sh(["mcp-exec", "token", "remove", "late"])
            wait_until(lambda: status(late) == 401)
        sh(["mcp-exec", "token", "remove", "ci"])
        wait_until(lambda: status(ci) == 401)
        assert status(other) == 200


def test_a_single_token_that_everybody_may_read_is_told():
    file = pathlib.Path("/etc/mcp-exec/auth-token")
    with written(file, "token-of-this-test-1234567890\n", mode=0o644):
        row = check()["secrets"]
        assert row["verdict"] == "warn" and row["detail"] == f"{file} may be read by everybody on this machine", row
        sh(row["remedy"])
        assert "secrets" not in check()
        sh(["chown", "alice:root", str(file)])
        row = check()["secrets"]
        assert row["detail"] == f"{file} may be read by the user alice", row
        sh(row["remedy"])
        assert "secrets" not in check()


def test_token_command_of_a_caller_that_ignores_its_children_warns_of_nothing():
    """The service had been reloaded, and the command said that it could not be."""
    with serving():
        done = sh("trap '' CHLD; exec mcp-exec token add ci")
        assert not done.stderr, done
        wait_until(lambda: status(done.stdout.strip()) == 200)


def test_token_is_in_no_argument_environment_log_or_file():
    with serving():
        ci = add("ci")
        HttpClient(8080, token=ci).exec("print(1)")
        assert processes_with(ci) == []
        assert sh(f"grep -r -l {ci} /etc/mcp-exec /var/lib/mcp-exec /run/mcp-exec", check=False).stdout == ""
        assert ci not in journal_text()


def test_only_the_administrator_makes_tokens():
    done = sh(["mcp-exec", "token", "add", "mine"], user="alice", check=False)
    assert done.returncode == 1 and "sudo" in done.stderr and done.stdout == "", done
    assert sh(["mcp-exec", "token", "list"], user="alice", check=False).stdout == ""
    assert not FILE.exists()


def test_memory_and_time_of_a_token_reach_its_units():
    with serving(), concurrent.futures.ThreadPoolExecutor(1) as pool:
        small = add("small", "--memory", "64M", "--timeout", "4s")
        client = HttpClient(8080, token=small)
        running = pool.submit(client.exec, "import time; time.sleep(60)", timeout_s=60)

        def units_memory():
            return [show(u, "MemoryMax")["MemoryMax"] for u in run_units()]
        wait_until(lambda: str(64 << 20) in units_memory())
        assert running.result()["status"] == "timeout"


@timeout(120)
def test_limits_of_users_and_groups_on_the_unix_socket():
    group = grp.getgrgid(pwd.getpwnam("bob").pw_gid).gr_name
    try:
        FILE.write_text(f"user alice parallel=1 queue=0\ngroup {group} rate=2\n")
        with configured("[Server]\nAllowUsers=alice bob\n"), \
                Client(user="alice") as alice, Client(user="bob") as bob, Client() as root:
            first = alice.start("exec", {"code": SLEEP})
            wait_until(run_units)
            assert "busy" in alice.refused("exec", {"code": "print(1)"})
            for client in (bob, bob, root):
                assert client.exec("print(1)")["stdout"] == "1\n"
            assert "no more than 2 programs a minute" in bob.refused("exec", {"code": "print(1)"})
            assert first.result()["structuredContent"]["status"] == "ok"
            FILE.write_text("")
            sh(["systemctl", "reload", "mcp-exec.service"])
            wait_until(lambda: not bob.call("exec", {"code": "print(1)"}).get("isError"))
    finally:
        FILE.unlink(missing_ok=True)


def test_delegating_token_names_its_users():
    with serving():
        front, plain = add("front", "--delegate"), add("plain")
        assert status(plain, X_MCP_User="alice") == 403
        client = HttpClient(8080, token=front, handshake=False)
        client.headers["X-MCP-User"] = "alice@example.org"
        client.initialize()
        result = client.exec("print(1)")
        assert record_of(result["run_id"])["MCP_EXEC_PRINCIPAL"] == "token:front/alice@example.org"


def test_users_whom_a_front_end_invents_gain_it_nothing():
    with serving(), concurrent.futures.ThreadPoolExecutor(6) as pool:
        front = add("front", "--delegate", "--parallel", "2", "--queue", "1")

        def one(user):
            client = HttpClient(8080, token=front, handshake=False)
            client.headers |= {"X-MCP-User": user, "MCP-Protocol-Version": PROTOCOL}
            return client.call("exec", {"code": SLEEP, "timeout_s": 20})
        results = list(pool.map(one, (f"user{i}" for i in range(6))))
        refused = [text_of(r) for r in results if r.get("isError")]
        assert len(refused) == 3 and all("no more than 1 calls of all users" in text for text in refused), refused
        assert [r["structuredContent"]["status"] for r in results if not r.get("isError")] == ["ok"] * 3


def test_mistake_in_the_file_is_told_with_its_line_and_changes_nothing():
    with serving():
        ci = add("ci")
        assert status(ci) == 200
        cursor = journal_cursor()
        FILE.write_text(FILE.read_text() + "token broken\n")
        sh(["systemctl", "reload", "mcp-exec.service"])
        wait_until(lambda: any(str(FILE) + ":3: " in r["MESSAGE"] for r in journal(after=cursor, _SYSTEMD_UNIT="mcp-exec.service")))
        assert status(ci) == 200


class ProxyConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(PROXY)


def _over_proxy(headers, message):
    connection = ProxyConnection("mcp.example", timeout=30)
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": PROTOCOL} | headers
    connection.request("POST", "/mcp", json.dumps(message), headers)
    answer = connection.getresponse()
    response = listened(headers, json.dumps(message).encode(), answer.status, answer.getheaders(), answer.read(), "/mcp")
    connection.close()
    return response.status, json.loads(response.body)


def test_proxy_is_believed_the_user_and_nobody_else_opens_its_socket():
    with serving("mcp-exec-proxy.socket"):
        assert stat.S_IMODE(os.stat(PROXY).st_mode) == 0o660
        tries = "import socket; socket.socket(socket.AF_UNIX).connect('%s')" % PROXY
        done = subprocess.run(["/usr/bin/python3", "-c", tries], env=minimal_environment("alice"), capture_output=True,
                              text=True, **user_options("alice"))
        assert done.returncode != 0 and "Permission denied" in done.stderr, done
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "exec", "arguments": {"code": "print(1)"}}}
        assert _over_proxy({}, call)[0] == 403
        code, answer = _over_proxy({"X-MCP-User": "alice"}, call)
        assert code == 200, answer
        assert record_of(answer["result"]["structuredContent"]["run_id"])["MCP_EXEC_PRINCIPAL"] == "proxy:alice"


CLIENTS = 8


def _load(token, n, disturb, refusals=()):
    """n calls from eight clients while disturb(i) is called now and then. Each connection is taken and each call
    answered once: with its own output, or with one of the refusals, which a client that asks again does not see for
    ever. Returns how often it was refused."""
    def one(i):
        if i % 20 == 10:
            disturb(i)
        client = HttpClient(8080, token=token, handshake=False)
        for n_refused in range(10):
            if ask(client, i):
                return n_refused
        raise AssertionError(f"{i} was refused ten times")

    def ask(client, i):
        client.headers["MCP-Protocol-Version"] = PROTOCOL
        message = {"jsonrpc": "2.0", "id": i, "method": "tools/call",
                   "params": {"name": "exec", "arguments": {"code": f"print({i})"}}}
        response = client.send(body=json.dumps(message).encode())
        [answer] = response.messages
        assert answer["id"] == i, answer
        if response.status == 503:
            assert answer["error"]["message"] in refusals, answer
            return False
        if answer["result"].get("isError"):
            assert text_of(answer["result"]) in refusals, answer
            return False
        assert answer["result"]["structuredContent"]["stdout"] == f"{i}\n", answer
        return True
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(one, range(n)))


@timeout(180)
def test_reload_under_load_loses_no_request():
    with serving():
        ci = add("ci")

        def disturb(i):
            add(f"more{i}")
            sh(["systemctl", "reload", "mcp-exec.service"], check=False)
        _load(ci, 80, disturb)


# To a connection that was taken before the stop, when its request came after it.
STOPPING = ("The server is shutting down; try again in a moment.",
            "The service is stopping and takes no new programs; try again in some seconds.")


@timeout(180)
def test_restart_under_load_answers_what_runs_and_refuses_nobody():
    with serving():
        ci = add("ci")
        served_by = set()

        def disturb(_):
            served_by.add(main_pid())
            sh(["systemctl", "restart", "mcp-exec.service"])
        n_refused = _load(ci, 60, disturb, STOPPING)
        assert len(served_by) == 3, served_by
        # Who waits in the socket is none of them: a client has one connection, and only those that were taken.
        assert n_refused <= 3 * (CLIENTS - 1), n_refused
