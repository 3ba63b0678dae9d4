# SPDX-License-Identifier: MIT
"""mcp-exec serve: its sockets, its start and its end, what it tells systemd."""

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import harness
import schemas
from harness import MCP_EXEC, PYTHON, environment, fake_launcher, run

TOKEN = "a-token-for-tests"


class Notify:
    """The receiving end of sd_notify()."""

    def __init__(self, where):
        self.path = str(where / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(15)
        self.seen = []
        self.stored = []  # descriptors that came, each with the lines it came with

    def wait_for(self, start):
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, 8)
            lines = data.decode().splitlines()
            self.seen += lines
            self.stored += [(fd, lines) for fd in fds]
            if any(line.startswith(start) for line in self.seen):
                return

    def read_on(self):
        """As systemd does, for services that say more than a socket holds."""
        def read():
            with contextlib.suppress(OSError):
                while True:
                    self.seen += self.socket.recv(65536).decode().splitlines()
        threading.Thread(target=read, daemon=True).start()


class Service:
    """mcp-exec serve on an inherited TCP socket, as systemd would start it."""

    def __init__(self, launcher, where, *arguments, token=TOKEN, sockets=None, max_fds=None, **variables):
        self.notify = Notify(where)
        self.listening = sockets or [socket.create_server(("127.0.0.1", 0))]
        self.url = f"http://127.0.0.1:{self.listening[0].getsockname()[1]}/mcp" if not sockets else None
        env = environment(NOTIFY_SOCKET=self.notify.path, LISTEN_FDS=str(len(self.listening)), **variables)
        if token:
            env["MCP_EXEC_AUTH_TOKEN"] = token
        # LISTEN_PID must be the server's own number, which only the process after the fork knows. The fds end up
        # in a row from 3 on.
        script = 'LISTEN_PID=$$ exec "$0" serve --launcher-socket "$@"'

        def place_fds():
            high = [os.dup2(s.fileno(), 200 + i) for i, s in enumerate(self.listening)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
                os.set_inheritable(3 + i, True)
            if max_fds:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max_fds, max_fds))

        self.process = subprocess.Popen(
            ["/bin/sh", "-c", script, MCP_EXEC, launcher, *arguments], env=env, stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE, preexec_fn=place_fds, pass_fds=range(3, 3 + len(self.listening)))
        self.notify.wait_for("READY=1")

    def post(self, message, token=TOKEN, timeout=20):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                   "MCP-Protocol-Version": harness.PROTOCOL}
        if token:
            headers["Authorization"] = "Bearer " + token
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        listener = schemas.Listener(harness.PROTOCOL)
        listener.sent(message)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            text = response.read().decode()
        lines = [text] if text.startswith("{") else [line[6:] for line in text.splitlines()
                                                     if line.startswith("data: {")]
        messages = [json.loads(line) for line in lines]
        for m in messages:
            listener.received(m)
        return messages[-1]

    def exec(self, code, **arguments):
        return self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": "exec", "arguments": {"code": code, **arguments}}})["result"]

    def end(self, number=signal.SIGTERM, seconds=10):
        self.process.send_signal(number)
        status = self.process.wait(seconds)
        self.errors = self.process.stderr.read().decode()
        return status


@contextlib.contextmanager
def serving(*arguments, options=(), interpreter=PYTHON, **more):
    with fake_launcher(*options, interpreter=interpreter) as launcher, harness.directory() as where:
        service = Service(launcher, where, *arguments, **more)
        try:
            yield service
        finally:
            service.process.kill()
            service.process.wait()
            service.process.stderr.close()
            for s in service.listening:
                s.close()
            service.notify.socket.close()


def test_inherited_tcp_socket_is_served():
    with serving() as s:
        assert s.exec("print(6 * 7)")["structuredContent"]["stdout"] == "42\n"
        s.notify.wait_for("STATUS=Serving")
        assert s.end() == 0
        assert "of exec for token (unknown client): ok, exit 0" in s.errors, s.errors


def test_wrong_token_is_refused():
    with serving() as s:
        for token in ("wrong", None):
            try:
                s.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=token)
            except urllib.error.HTTPError as error:
                assert error.code == 401, error
                error.close()
            else:
                raise AssertionError("let in")


def test_inherited_tcp_socket_without_token_serves_nothing():
    with serving(token=None) as s:
        try:
            s.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=None)
        except urllib.error.HTTPError as error:
            assert error.code == 503 and b"token" in error.read(), error
            error.close()
        else:
            raise AssertionError("let in")


def test_no_auth_in_so_many_words_serves_everybody():
    with serving("--no-auth", token=None) as s:
        assert s.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token=None)["result"] == {}


def test_refused_sandbox_is_answered():
    with serving(options=["refuse"]) as s:
        assert s.exec("print(1)")["isError"]


def test_terminate_answers_what_runs():
    with serving() as s, harness.directory() as where:
        mark, result = where / "up", []
        code = f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(1)\nprint('done')"
        caller = threading.Thread(target=lambda: result.append(s.exec(code)))
        caller.start()
        harness.wait_until(mark.exists)
        assert s.end() == 0
        caller.join(5)
        assert result and result[0]["structuredContent"]["stdout"] == "done\n", result
        s.notify.wait_for("STOPPING=1")


def test_second_terminate_ends_at_once():
    with serving() as s, harness.directory() as where:
        mark = where / "up"
        code = f"import time\nopen({str(mark)!r}, 'w').close()\ntime.sleep(60)"

        def call():
            with contextlib.suppress(OSError):
                s.exec(code)
        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        harness.wait_until(mark.exists)
        s.process.send_signal(signal.SIGTERM)
        s.notify.wait_for("STOPPING=1")
        status = s.end(seconds=3)
        assert status == 0, (status, s.errors)
        caller.join(5)
        assert not caller.is_alive()


def test_hangup_tells_that_nothing_changed():
    with serving() as s:
        s.process.send_signal(signal.SIGHUP)
        s.notify.wait_for("RELOADING=1")
        # One READY=1 of the start, one of the end of the reload.
        harness.wait_until(lambda: s.notify.wait_for("READY=1") or s.notify.seen.count("READY=1") == 2)
        assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
        assert s.end() == 0
        assert "unchanged" in s.errors, s.errors


def test_python_variable_that_differs_from_the_launchers_refuses_runs():
    with serving(MCP_EXEC_PYTHON="/usr/bin/some-other-python") as s:
        result = s.exec("print(1)")
        assert result["isError"] and "MCP_EXEC_PYTHON" in result["content"][0]["text"], result
        assert s.end() == 0
        assert s.errors.count("Python=/usr/bin/some-other-python") == 1, s.errors


def test_python_variable_that_agrees_is_fine():
    with serving(MCP_EXEC_PYTHON=PYTHON) as s:
        assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"


def test_python_variable_with_an_unreachable_launcher_refuses_runs():
    with harness.directory() as where:
        s = Service("/nonexistent/launcher.sock", where, MCP_EXEC_PYTHON=PYTHON)
        try:
            result = s.exec("print(1)")
            assert result["isError"] and "MCP_EXEC_PYTHON" in result["content"][0]["text"], result
        finally:
            assert s.end() == 0
            s.process.stderr.close()


def test_unix_socket_admits_root_and_refuses_strangers():
    with fake_launcher() as launcher, harness.directory() as where:
        os.chmod(where, 0o755)
        path = str(where / "s.sock")
        p = subprocess.Popen([MCP_EXEC, "serve", "--launcher-socket", launcher, "--listen", "unix:" + path],
                             stderr=subprocess.PIPE, env=environment())
        try:
            harness.wait_until(lambda: os.path.exists(path))
            assert os.stat(path).st_mode & 0o777 == 0o666
            done = run("run", "--socket", path, "-", input=b"print(1)")
            if os.getuid() == 0:
                assert (done.stdout, done.returncode) == (b"1\n", 0), done
            else:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
                    assert harness.hear_line(s)["error"]["code"] == -31000
            p.terminate()
            assert p.wait(5) == 0
            assert not os.path.exists(path), "the socket file is left behind"
        finally:
            p.kill()
            p.stderr.close()


def test_stale_socket_file_is_replaced_and_others_are_not():
    with harness.directory() as where:
        path = str(where / "s.sock")
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(path)
        p = subprocess.Popen([MCP_EXEC, "serve", "--launcher-socket", "/nonexistent", "--listen", "unix:" + path],
                             stderr=subprocess.PIPE, env=environment())
        try:
            def listens():
                with socket.socket(socket.AF_UNIX) as s:
                    return s.connect_ex(path) == 0
            harness.wait_until(listens)
            done = run("serve", "--listen", "unix:" + path)
            assert done.returncode == 1 and path.encode() in done.stderr, done
            assert listens(), "the second server broke the first"
        finally:
            p.kill()
            p.wait()
            p.stderr.close()
        (where / "file").write_text("precious")
        done = run("serve", "--listen", f"unix:{where}/file")
        assert done.returncode == 1 and (where / "file").read_text() == "precious", done


def test_bad_addresses_are_explained():
    for address in ("unix:relative", "unix:/" + "x" * 200, "nonsense", "127.0.0.1:99999", "127.0.0.1:"):
        done = run("serve", "--no-auth", "--listen", address)
        assert done.returncode == 1 and done.stderr.startswith(b"mcp-exec: "), (address, done)


def test_descriptor_that_is_no_listening_socket_is_refused():
    with harness.directory() as where, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        env = environment(LISTEN_FDS="1")
        p = subprocess.run(["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$0" serve 3>"$1"', MCP_EXEC, str(where / "f")],
                           env=env, capture_output=True, timeout=10)
        assert p.returncode == 1 and b"ListenStream=" in p.stderr, p


def test_service_manager_that_does_not_listen_delays_no_answer():
    with serving() as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        try:
            while True:
                other.sendto(b"X=1", s.notify.path)
        except BlockingIOError:
            pass
        # The status lines of these calls find the queue full.
        for _ in range(3):
            assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
            time.sleep(0.6)
        s.process.kill()


def test_exit_when_idle_and_no_call_is_lost():
    if os.getuid() != 0 or os.path.exists("/etc/mcp-exec"):
        raise harness.Skip("ExitIdleSec= is read from /etc only")
    os.mkdir("/etc/mcp-exec")
    try:
        with open("/etc/mcp-exec/mcp-exec.conf", "w") as f:
            f.write("[Server]\nExitIdleSec=1s\n")
        with serving() as s:
            assert s.exec("print(1)")["structuredContent"]["stdout"] == "1\n"
            assert s.process.wait(10) == 0
            s.notify.wait_for("STOPPING=1")
            # systemd holds the socket meanwhile, so whoever connects now waits there.
            with socket.create_connection(s.listening[0].getsockname()):
                pass
    finally:
        os.unlink("/etc/mcp-exec/mcp-exec.conf")
        os.rmdir("/etc/mcp-exec")


def test_server_without_free_descriptors_recovers():
    with serving(max_fds=32) as s:
        held = []
        for _ in range(60):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(s.listening[0].getsockname(), timeout=2))
        time.sleep(0.5)
        assert s.process.poll() is None
        for h in held:
            h.close()

        def works():
            with contextlib.suppress(OSError):
                return s.exec("print(2)")["structuredContent"]["stdout"] == "2\n"
        harness.wait_until(works, 20)
        assert s.end() == 0
        complaints = [line for line in s.errors.splitlines() if "Cannot accept connections" in line]
        assert len(complaints) == 1 and complaints[0].endswith(
            "(raise LimitNOFILE= of the service, or lower MaxConnections=): Too many open files"), s.errors


def test_floods_of_connections_leave_the_server_alive():
    with serving(MCP_EXEC_DEFAULT_TIMEOUT_S="5") as s:
        held = []
        with contextlib.suppress(OSError):
            for _ in range(600):
                held.append(socket.create_connection(s.listening[0].getsockname(), timeout=2))
        for h in held:
            h.close()

        def is_answered():
            # Until the server has seen the flood go, its limits of connections refuse one more, as they should.
            with contextlib.suppress(KeyError, OSError, http.client.HTTPException):
                return s.exec("print(2)")["structuredContent"]["stdout"] == "2\n"
            return False
        harness.wait_until(is_answered, 20)
        assert s.process.poll() is None


def _line_of_a_run_without(launcher, where):
    """What the journal says of a run where there is no launcher behind this path."""
    service = Service(launcher, where)
    try:
        assert service.exec("print(1)")["isError"] is True
        service.end()
    finally:
        service.process.kill()
        service.process.wait()
        service.process.stderr.close()
        service.listening[0].close()
        service.notify.socket.close()
    return next(line for line in service.errors.splitlines() if " of exec for " in line)


def test_the_line_of_a_run_that_could_not_start_says_why():
    with harness.directory() as where:
        line = _line_of_a_run_without(f"{where}/nobody.sock", where)
        assert line.endswith(f": infra_error, never ran, 0 ms: The launcher's socket {where}/nobody.sock is not there. "
                             'Start it as root with "systemctl reset-failed mcp-exec-launcher.socket && '
                             'systemctl restart mcp-exec-launcher.socket".'), line


def test_what_is_in_the_place_of_another_launchers_socket_is_in_no_command():
    with harness.directory() as where:
        os.mkdir(f"{where}/theirs")
        line = _line_of_a_run_without(f"{where}/theirs", where)
        assert line.endswith(f": Something else is in the place of the launcher's socket {where}/theirs."), line


if __name__ == "__main__":
    harness.main()
