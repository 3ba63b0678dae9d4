# SPDX-License-Identifier: MIT
"""HTTP sessions of the handshake era and the end of the process that gave them out."""

import contextlib
import os
import pathlib
import pwd

from http_client import HttpClient
from lib import configured, journal, journal_cursor, main_pid, sh, wait_until
from test_http import TOKEN, http

STATE = pathlib.Path("/var/lib/mcp-exec/daemon")
WARNING = "Cannot keep the key of HTTP sessions"


def _status(client):
    return client.send(body=b'{"jsonrpc":"2.0","id":1,"method":"ping"}').status


def _restart():
    sh("systemctl restart mcp-exec.service")


def _warnings(after):
    return [r for r in journal(after=after, _SYSTEMD_UNIT="mcp-exec.service") if WARNING in r["MESSAGE"]]


def test_deleted_session_is_404_after_a_restart_and_others_live_on():
    with http() as port:
        ended, live = HttpClient(port, token=TOKEN), HttpClient(port, token=TOKEN)
        assert (_status(ended), _status(live)) == (200, 200)
        assert ended.send("DELETE").status == 204
        for _ in range(3):
            assert (_status(ended), _status(live)) == (404, 200)
            _restart()
        assert live.exec("print(1)")["stdout"] == "1\n"
        assert _warnings(None) == []


def test_session_and_its_end_outlive_the_exit_on_idle():
    with configured("[Server]\nExitIdleSec=1s\n"), http() as port:
        ended, live = HttpClient(port, token=TOKEN), HttpClient(port, token=TOKEN)
        first = main_pid()
        assert ended.send("DELETE").status == 204
        wait_until(lambda: main_pid() == 0, 20, "the exit on idle")
        assert (_status(live), _status(ended)) == (200, 404)
        assert main_pid() not in (0, first)


def test_only_the_service_reads_the_key():
    with http() as port:
        HttpClient(port, token=TOKEN)
        parent, directory, key = STATE.parent.stat(), STATE.stat(), (STATE / "session-key").stat()
        uid = pwd.getpwnam("mcp-exec").pw_uid
        assert (parent.st_uid, parent.st_mode & 0o7777) == (0, 0o755)
        assert (directory.st_uid, directory.st_mode & 0o7777) == (uid, 0o700)
        assert (key.st_uid, key.st_mode & 0o7777, key.st_size) == (uid, 0o600, 32)


def test_a_key_that_is_lost_ends_sessions():
    with http() as port:
        client = HttpClient(port, token=TOKEN)
        sh("systemctl stop mcp-exec.service")
        (STATE / "session-key").unlink()
        assert _status(client) == 404


@contextlib.contextmanager
def _full_disk():
    """Nothing can be made in the state directory. The little that is free is used up by root."""
    sh("systemctl stop mcp-exec.service")
    uid = pwd.getpwnam("mcp-exec")
    sh(["mount", "-t", "tmpfs", "-o", f"size=4k,mode=0700,uid={uid.pw_uid},gid={uid.pw_gid}", "tmpfs", str(STATE)])
    try:
        with contextlib.suppress(OSError), (STATE / "filler").open("wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        yield
    finally:
        sh("systemctl stop mcp-exec.service")
        sh(["umount", str(STATE)])


def test_full_disk_keeps_neither_service_nor_sessions_from_going_on():
    with http() as port, _full_disk():
        cursor = journal_cursor()
        live, ended = HttpClient(port, token=TOKEN), HttpClient(port, token=TOKEN)
        assert live.exec("print(2)")["stdout"] == "2\n"
        assert ended.send("DELETE").status == 204
        assert _status(ended) == 404
        assert len(_warnings(cursor)) == 1          # once, not for each session
        _restart()
        assert _status(live) == 200
        os.unlink(STATE / "filler")                 # there is room again: a real key, so sessions begin anew
        _restart()
        assert _status(live) == 404
        assert _status(HttpClient(port, token=TOKEN)) == 200
        assert (STATE / "session-key").stat().st_size == 32


def test_disk_that_fills_up_later_ends_all_sessions_rather_than_forget_an_end():
    with http() as port, _full_disk():
        os.unlink(STATE / "filler")
        live, ended = HttpClient(port, token=TOKEN), HttpClient(port, token=TOKEN)
        (STATE / "ended-sessions").unlink()         # its page, which was empty, and all others are used up
        with contextlib.suppress(OSError), (STATE / "filler").open("wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        assert ended.send("DELETE").status == 204
        assert (_status(ended), _status(live)) == (404, 200)
        assert not (STATE / "session-key").exists()
        _restart()
        assert (_status(ended), _status(live)) == (404, 404)


def test_missing_state_directory_is_told_and_survived():
    sh("systemctl stop mcp-exec.service")
    STATE.rename(STATE.with_name("elsewhere"))
    try:
        with http() as port:
            cursor = journal_cursor()
            client = HttpClient(port, token=TOKEN)
            assert client.exec("print(3)")["stdout"] == "3\n"
            assert len(_warnings(cursor)) == 1
            _restart()
            assert _status(client) == 200
    finally:
        sh("systemctl stop mcp-exec.service")
        STATE.with_name("elsewhere").rename(STATE)
