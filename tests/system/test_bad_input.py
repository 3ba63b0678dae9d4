# SPDX-License-Identifier: MIT
"""Garbage gets a clear error, never a crash, a hang or a partial effect."""

import errno
import json
import os
import pathlib
import socket
import struct
import time

from lib import (Client, SOCKET, configured, journal, journal_cursor, main_pid, needs, schemas, sh, show, stop_services,
                 systemd_version, text_of, timeout, vm_only, wait_until)

LAUNCHER = "/run/mcp-exec/launcher.sock"


def _raw(data, seconds=10, end=True):
    """Everything the server says to these bytes."""
    listener = schemas.Listener()
    listener.sent_bytes(data)
    s = socket.socket(socket.AF_UNIX)
    s.connect(SOCKET)
    s.settimeout(seconds)
    try:
        s.sendall(data)
        if end:
            s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    out = b""
    try:
        while chunk := s.recv(65536):
            out += chunk
    except (TimeoutError, ConnectionResetError):
        pass
    s.close()
    for line in out.split(b"\n")[:-1]:
        listener.received_bytes(line)
    return out


def _alive():
    with Client() as c:
        assert c.exec("print(1)")["stdout"] == "1\n"


def test_garbage_on_the_unix_socket():
    with Client() as c:
        c.exec("pass")
    pid = main_pid()
    cases = [b"\0" * 5000 + b"\n", os.urandom(20000) + b"\n", b"GET / HTTP/1.1\r\n\r\n", b"{" * 100000 + b"\n",
             b"[" * 100000 + b"\n", b'{"jsonrpc":"2.0","id":1,"method":"ping"', b"null\n", b"1\n", b'"x"\n', b"[]\n",
             b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', b'{"id":1,"method":"ping"}\n',
             b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n', b"\xff\xfe\n", b"\n\n\r\n"]
    for data in cases:
        for line in _raw(data).splitlines():
            message = json.loads(line)
            assert "error" in message and message["error"]["message"], (data[:40], message)
    assert main_pid() == pid, "the daemon died"
    _alive()


def test_errors_come_back_under_the_id_where_one_can_be_read():
    data = b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"exec","arguments":{"code":"\\ud800"}}}\n'
    answers = [json.loads(line) for line in _raw(data).splitlines()]
    assert [a["id"] for a in answers] == [77] and ("error" in answers[0] or answers[0]["result"]["isError"]), answers


def test_nul_in_code_or_stdin_is_carried_or_refused_but_never_cut():
    with Client() as c:
        result = c.start("exec", {"code": "import sys; print(len(sys.stdin.read()))", "stdin": "a\0b"}).wait(20)
        if "error" in result:
            assert "u0000" in result["error"]["message"] or "NUL" in result["error"]["message"], result
        elif result["result"].get("isError"):
            assert "NUL" in str(result) or "u0000" in str(result), result
        else:
            assert result["result"]["structuredContent"]["stdout"] == "3\n", result


@timeout(120)
def test_line_of_sixty_four_megabytes_is_refused_and_the_connection_goes_on():
    with Client() as c:
        c.send_raw(b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"x":"' + b"a" * (64 << 20) + b'"}}\n')
        assert c.request("ping").result(60) == {}
        errors = [m for m in c.received if "error" in m]
        assert errors and errors[0].get("id") in ("big", None), errors[0]
        rss = int([l for l in pathlib.Path(f"/proc/{main_pid()}/status").read_text().splitlines() if "VmRSS" in l][0].split()[1])
        assert rss < 100 << 10, f"{rss} KiB resident after a 64 MiB line"


def test_half_a_line_is_waited_for():
    with Client() as c:
        c.send_raw(b'{"jsonrpc":"2.0","id":"h","meth')
        time.sleep(0.3)
        c.send_raw(b'od":"ping"}\n')
        wait_until(lambda: any(m.get("id") == "h" for m in c.received), 5)


@timeout(120)
def test_slow_reader_does_not_block_another_client():
    slow = socket.socket(socket.AF_UNIX)
    slow.connect(SOCKET)
    slow.setblocking(False)
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    try:
        for _ in range(3000):
            slow.send(line)
    except BlockingIOError:
        pass
    with Client() as c:
        assert c.request("ping").result(5) == {}
        assert c.exec("print(1)")["stdout"] == "1\n"
    slow.close()


def test_launcher_socket_is_closed_to_everyone_else():
    for user in ("alice", "bob"):
        done = sh(["/usr/bin/python3", "-c", f"import socket; socket.socket(1, socket.SOCK_SEQPACKET).connect('{LAUNCHER}')"], user=user, check=False)
        assert done.returncode != 0 and "Permission" in done.stderr, done


def test_forged_seam_packets_close_the_connection_and_start_nothing():
    from lib import run_units
    with Client() as c:
        c.exec("pass")
    time.sleep(1)
    before = set(run_units())
    pid = main_pid("mcp-exec-launcher.service")
    magic = 0x4578434d
    header = lambda kind, job, version=1: struct.pack("=IHHQ", magic, version, kind, job)
    start = header(1, 5) + struct.pack("=II", 0, 0) + bytes(64) + struct.pack("=QQQQ", 10**7, 1 << 29, 128, 10**6)
    packets = [b"", b"x", os.urandom(64), header(1, 5), start, start[:-1], start + b"x", header(9, 1), header(4, 0),
               header(3, 0), header(1, 5, 2) + start[16:], bytes(len(start))]
    for packet in packets:
        for fds in ([], [0], [os.open("/dev/null", os.O_RDWR)] * 3, [os.open("/etc/passwd", os.O_RDONLY)] * 3):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(LAUNCHER)
            s.settimeout(10)
            hello = s.recv(65536)
            assert len(hello) > 100
            try:
                if fds:
                    socket.send_fds(s, [packet], fds)
                else:
                    s.send(packet)
                while s.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
            s.close()
            for fd in set(fds) - {0}:
                os.close(fd)
    assert main_pid("mcp-exec-launcher.service") == pid, "the launcher died"
    assert set(run_units()) <= before, "a forged packet started a unit"
    _alive()


def test_missing_interpreter_is_named():
    with configured("[Sandbox]\nPython=/usr/bin/no-such-python\n"), Client() as c:
        assert c.request("tools/list", {}).result()["tools"]
        text = c.refused("exec", {"code": "print(1)"})
        assert "/usr/bin/no-such-python" in text and "Python=" in text, text


@needs("systemd>=252")
def test_required_controller_that_is_missing_refuses_and_names_it():
    from lib import Skip, controllers
    if {"memory", "pids", "cpu"} <= controllers():
        raise Skip("this machine has all controllers")
    with configured("[Sandbox]\nRequireControllers=memory pids cpu\n"), Client() as c:
        text = c.refused("exec", {"code": "print(1)"})
        assert "memory" in text and "controller" in text, text
        assert c.request("ping").result(5) == {}


def test_protection_that_cannot_be_applied_refuses_every_run():
    # With no network namespaces left, PrivateNetwork= cannot be had; systemd itself would go on without.
    knob = pathlib.Path("/proc/sys/user/max_net_namespaces")
    old = knob.read_text()
    try:
        knob.write_text("0")
    except OSError:
        from lib import Skip
        raise Skip("this machine may not set user.max_net_namespaces")
    try:
        with configured("[Exec]\nPoolSize=0\n"):
            sh("rm -rf /run/mcp-exec-launcher/*")
            stop_services()
            with Client() as c:
                assert c.request("tools/list", {}).result()["tools"]
                text = c.refused("exec", {"code": "print('ran')"})
                assert "network" in text.lower(), text
    finally:
        knob.write_text(old)
        stop_services()
    _alive()


def test_path_that_is_missing_or_hides_what_a_run_has_is_named_by_its_setting():
    """The machine was blamed: it could not make the mounts of a run, or showed it the root directory."""
    for path, fault in (("/nonexistent", "cannot make the namespaces and mounts of a run"), ("/etc", "does not hold")):
        with configured(f"[Sandbox]\nBindReadOnlyPaths={path}\n"), Client() as c:
            text = c.refused("exec", {"code": "print('ran')"})
            assert fault in text and "Look first at BindReadOnlyPaths= in mcp-exec.conf" in text, text
    _alive()


def test_launcher_that_cannot_start_is_a_tool_error_with_the_remedy():
    sh(["systemctl", "stop", "mcp-exec.service", "mcp-exec-launcher.socket", "mcp-exec-launcher.service"])
    sh(["systemctl", "mask", "--runtime", "mcp-exec-launcher.socket", "mcp-exec-launcher.service"])
    try:
        sh(["systemctl", "reset-failed"], check=False)
        done = sh(["mcp-exec", "check"], check=False)
        assert done.returncode == 1 and "launcher" in done.stdout, done.stdout
    finally:
        sh(["systemctl", "unmask", "--runtime", "mcp-exec-launcher.socket", "mcp-exec-launcher.service"])
        sh(["systemctl", "start", "mcp-exec-launcher.socket", "mcp-exec.socket"])
    _alive()


@timeout(90)
def test_no_free_descriptors_in_the_daemon():
    dropin = pathlib.Path("/run/systemd/system/mcp-exec.service.d/90-fds.conf")
    dropin.parent.mkdir(parents=True, exist_ok=True)
    dropin.write_text("[Service]\nLimitNOFILE=24\n")
    sh(["systemctl", "daemon-reload"])
    stop_services()
    clients, cursor = [], journal_cursor()
    try:
        for _ in range(40):
            s = socket.socket(socket.AF_UNIX)
            s.connect(SOCKET)
            clients.append(s)
        time.sleep(1)
        assert show("mcp-exec.service", "ActiveState")["ActiveState"] == "active"
        for s in clients:
            s.close()
        clients.clear()
        wait_until(lambda: _quick_ping(), 20, "served again after the flood")
        assert [r for r in journal(cursor, _SYSTEMD_UNIT="mcp-exec.service")
                if "(raise LimitNOFILE= of the service, or lower MaxConnections=)" in r["MESSAGE"]]
    finally:
        for s in clients:
            s.close()
        dropin.unlink()
        sh(["systemctl", "daemon-reload"])
        stop_services()
    _alive()


def _quick_ping():
    try:
        return b'"result":{}' in _raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', 3)
    except OSError:
        return False


@vm_only
@timeout(120)
def test_full_disk_does_not_matter_to_a_run():
    code = "open('f', 'wb').write(b'x' * (8 << 20)); print(2)"      # what it writes is in memory
    with Client() as c:
        c.exec("pass")          # the services run
        try:
            sh("fallocate -l 100T /var/tmp/fill 2>/dev/null; dd if=/dev/zero of=/var/tmp/fill2 bs=1M 2>/dev/null; true",
               check=False, timeout=110)
            with open("/var/tmp/fill3", "wb", buffering=0) as f:
                try:
                    assert f.write(b"x" * (1 << 20)) < 1 << 20, "the disk is not full"
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
            for _ in range(2):  # the first may get a unit that was kept ready
                result = c.call("exec", {"code": code})
                # systemd itself makes directories there for each unit.
                if systemd_version() < 257 and result.get("isError"):
                    assert "a full disk below /tmp or /var/tmp" in text_of(result), result
                else:
                    assert result["structuredContent"]["stdout"] == "2\n", result
        finally:
            sh("rm -f /var/tmp/fill3 /var/tmp/fill /var/tmp/fill2")
        assert c.exec(code)["stdout"] == "2\n"
