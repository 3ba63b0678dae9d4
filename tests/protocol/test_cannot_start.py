# SPDX-License-Identifier: MIT
"""A service that cannot start tells its clients so, each start those who wait, and a repair is found by the next one."""

import contextlib
import http.client
import itertools
import json
import os
import socket
import subprocess
import time

import harness
from harness import MCP_EXEC, FakeService, Server, environment


class Sockets:
    """Listening sockets, TCP and Unix, as systemd holds them, and servers that it starts for their clients."""

    def __init__(self, where, tcp, unix):
        self.path, self.port, self._fds = where / "s.sock", tcp.getsockname()[1], (tcp.fileno(), unix.fileno())
        self.processes = []

    def start(self, *arguments, command="serve", **variables):
        tcp, unix = self._fds
        script = f'LISTEN_PID=$$ exec "$0" {command} "$@" 3<&{tcp} 4<&{unix}'
        p = subprocess.Popen(["/bin/sh", "-c", script, MCP_EXEC, *arguments], close_fds=False,
                             stderr=subprocess.PIPE, env=environment(LISTEN_FDS="2", **variables))
        self.processes.append(p)
        return p

    @contextlib.contextmanager
    def clients(self):
        """One on each, who wait to be answered."""
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        with socket.socket(socket.AF_UNIX) as lines, socket.create_connection(("127.0.0.1", self.port), 10) as web:
            lines.settimeout(10)
            lines.connect(str(self.path))
            lines.sendall(body + b"\n")
            web.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
                         b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            yield lines, web

    def fail(self, *arguments, **options):
        """A start that fails: both clients are told, the process ends by itself. Returns what it said."""
        with self.clients() as (lines, web):
            process = self.start(*arguments, **options)
            expect_apology(lines, web)
            assert process.wait(20) != 0
            return process.stderr.read().decode()


@contextlib.contextmanager
def held_sockets():
    with harness.directory() as where, socket.create_server(("127.0.0.1", 0)) as tcp, \
            socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(where / "s.sock"))
        unix.listen(8)
        os.set_inheritable(tcp.fileno(), True)
        os.set_inheritable(unix.fileno(), True)
        sockets = Sockets(where, tcp, unix)
        try:
            yield sockets
        finally:
            for p in sockets.processes:
                p.kill()
                p.wait()
                p.stderr.close()


def expect_apology(lines, connection):
    error = harness.hear_line(lines)["error"]
    assert error["code"] == -31001 and "configuration" in error["message"], error
    assert error["message"].endswith("systemctl restart mcp-exec.service"), error
    response = http.client.HTTPResponse(connection)
    response.begin()
    assert response.status == 503 and json.loads(response.read())["error"] == error, response.status
    response.close()


def test_mistake_in_the_configuration_is_answered_by_each_start():
    with held_sockets() as sockets:
        for _ in range(3):
            # A variable stands for the file here: both stop the start.
            assert "MCP_EXEC_MAX_STDIN_BYTES" in sockets.fail(MCP_EXEC_MAX_STDIN_BYTES="lots")


def test_clients_that_keep_calling_do_not_keep_a_server_that_cannot_start():
    with held_sockets() as sockets:
        process = sockets.start(MCP_EXEC_MAX_STDIN_BYTES="lots")
        end = time.monotonic() + 20
        with contextlib.ExitStack() as held:
            while process.poll() is None and time.monotonic() < end:
                s = held.enter_context(socket.socket(socket.AF_UNIX))
                s.settimeout(20)
                with contextlib.suppress(BlockingIOError, TimeoutError):
                    s.connect(str(sockets.path))
                time.sleep(0.2)
        assert process.poll() == 1


def test_file_of_tokens_that_was_repaired_is_found_by_the_next_client():
    with held_sockets() as sockets, harness.directory() as where, socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(where / "launcher.sock"))
        tokens = where / "tokens"
        tokens.write_text("token\n")
        arguments = ("--launcher-socket", str(where / "launcher.sock"), "--token-file", str(tokens),
                     "--metadata-file", str(where / "none"))
        assert "tokens:1: " in sockets.fail(*arguments)
        tokens.write_text("")
        with sockets.clients() as (lines, _):
            sockets.start(*arguments)
            assert harness.hear_line(lines)["result"] == {}


def test_mistake_in_the_metadata_is_answered():
    with held_sockets() as sockets, harness.directory() as where, socket.socket(socket.AF_UNIX) as nobody:
        (where / "metadata.json").write_text('{"no": "resource"}')
        nobody.bind(str(where / "launcher.sock"))
        arguments = ("--launcher-socket", str(where / "launcher.sock"), "--token-file", str(where / "none"),
                     "--metadata-file", str(where / "metadata.json"))
        errors = sockets.fail(*arguments).splitlines()
        assert len(errors) == 1 and "metadata.json" in errors[0], errors


def test_address_that_cannot_be_served_is_answered_on_the_others():
    with held_sockets() as sockets:
        assert "nonsense" in sockets.fail("--listen", "nonsense")


def test_command_line_with_a_mistake_is_answered():
    with held_sockets() as sockets:
        assert "--no-such-option" in sockets.fail("--no-such-option")
        assert "MCP_EXEC_TRANSPORT" in sockets.fail(command="", MCP_EXEC_TRANSPORT="carrier-pigeon")


def test_stdio_beside_a_service_that_cannot_start_says_that_and_not_that_a_user_manager_is_missing():
    if os.path.exists(f"/run/user/{os.getuid()}/systemd/private"):
        raise harness.Skip("this user's own service manager takes its place")
    reply = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -31001, "message": "mcp-exec cannot start: why."}})
    with FakeService(lambda line: reply.encode() + b"\n") as service, Server("stdio", "--socket", service.path) as s:
        s.handshake()
        result = s.exec("print(1)")
        text = result["content"][0]["text"]
        assert result["isError"] is True, result
        assert text.startswith('Nothing was run: the system service answers "mcp-exec cannot start: why."'), text
        assert "manager" not in text and "gpasswd" not in text, text
        assert text.endswith("(then call again)"), text


IDS = itertools.count(1)


def ask(server, method, params=None):
    return server.ask(method, params, next(IDS))["result"]


def call(server):
    return ask(server, "tools/call", {"name": "exec", "arguments": {"code": "print(1)"}})


def expect_refusal(server, *parts):
    result = call(server)
    text = result["content"][0]["text"]
    assert result["isError"] is True and text.startswith("Nothing was run: "), result
    assert all(part in text for part in parts), (parts, text)
    return text


def expect_connected(server):
    """What a client does to show a server and its tools."""
    server.handshake()
    assert "exec" in [tool["name"] for tool in ask(server, "tools/list")["tools"]]


# A client's command line; one alone means the system service of this machine, if it has one.
WAYS = [("stdio", "--no-bridge"), ("stdio", "--socket", "/nonexistent")] + ([] if os.path.exists("/run/mcp-exec") else [()])


@contextlib.contextmanager
def mistaken_configuration():
    with harness.directory() as where:
        file = where / "mcp-exec/mcp-exec.conf.d/90.conf"
        file.parent.mkdir(parents=True)
        file.write_text("[Server]\nFoo=1\n")
        yield file, environment(XDG_CONFIG_HOME=str(where))


def test_mistake_in_a_file_leaves_stdio_connected_and_is_told_to_each_call_with_its_line():
    with mistaken_configuration() as (file, env):
        for arguments in WAYS:
            with Server(*arguments, env=env) as s:
                expect_connected(s)
                for _ in range(2):
                    expect_refusal(s, f"{file}:2: ", "Foo", "Correct it", "call again" if "--no-bridge" not in arguments
                                   else "start this MCP server anew")
            assert s.process.returncode == 0 and f"{file}:2: " in s.stderr, s.stderr


def test_mistake_in_a_variable_leaves_stdio_connected_and_is_told_to_each_call():
    for name in "MCP_EXEC_MAX_STDIN_BYTES", "MCP_EXEC_DEFAULT_TIMEOUT_S":
        for arguments in WAYS:
            with Server(*arguments, env=environment(**{name: "lots"})) as s:
                expect_connected(s)
                expect_refusal(s, f"{name}: not a whole number. ", "Correct it", "then start this MCP server anew")
            assert s.process.returncode == 0 and f"{name}: not a whole number" in s.stderr, s.stderr


def test_nothing_runs_with_a_mistake_although_a_launcher_is_there():
    with harness.fake_launcher() as launcher, mistaken_configuration() as (file, env):
        with Server("stdio", "--launcher-socket", launcher, env=env) as s:
            s.handshake()
            expect_refusal(s, f"{file}:2: ")
        with Server("stdio", "--launcher-socket", launcher) as s:
            s.handshake()
            assert call(s)["structuredContent"]["status"] == "ok"


class Repairable:
    """A service that apologises until it is repaired; then it answers each request with its method."""

    def __init__(self):
        self.is_repaired = False

    def __call__(self, line):
        message = json.loads(line)
        if not self.is_repaired:
            error = {"code": -31001, "message": "mcp-exec cannot start: why."}
            return (json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode() + b"\n",)
        if "id" not in message:
            return b""
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"of": message["method"]}}).encode() + b"\n"


def test_stdio_that_was_started_while_the_service_could_not_start_is_served_after_the_repair():
    # A mistake in the configuration stands for a user without a service manager: nothing takes the service's place.
    with mistaken_configuration() as (file, env):
        answer = Repairable()
        with FakeService(answer) as service, Server("stdio", "--socket", service.path, env=env) as s:
            expect_connected(s)
            expect_refusal(s, f"{file}:2: ", "call again")
            answer.is_repaired = True
            del service.lines[:]
            assert call(s) == {"of": "tools/call"}
            # The service hears the client's handshake, and the call once.
            methods = [json.loads(line)["method"] for line in service.lines]
            assert methods == ["ping", "initialize", "notifications/initialized", "tools/call"], methods
            assert ask(s, "tools/list") == {"of": "tools/list"}
        assert s.process.returncode == 0, s.stderr


def test_stdio_beside_a_service_that_cannot_start_looks_for_it_only_when_there_is_a_call():
    with mistaken_configuration() as (_, env):
        answer = Repairable()
        with FakeService(answer) as service, Server("stdio", "--socket", service.path, env=env) as s:
            expect_connected(s)
            answer.is_repaired = True
            ask(s, "ping")
            assert "tools" in ask(s, "tools/list") and len(service.lines) == 1, service.lines


def test_user_who_is_not_admitted_hears_after_the_repair_why_nobody_serves():
    uid = 65534 if os.geteuid() == 0 else None      # root is always admitted
    refused = json.dumps({"jsonrpc": "2.0", "id": None, "error": {
        "code": -31000, "message": 'no. The administrator can allow it with "gpasswd -a x y"; no new login is needed.'}})
    with mistaken_configuration() as (file, env), FakeService(lambda line: refused.encode() + b"\n") as service:
        for path in file.parents[2], service.where.name:
            os.chmod(path, 0o755)
        os.chmod(service.path, 0o666)
        with Server("stdio", "--socket", service.path, env=env, uid=uid) as s:
            s.handshake()
            expect_refusal(s, f"{file}:2: ")
            file.unlink()
            text = call(s)["content"][0]["text"]
            assert text == ('Nothing was run: the system service answers "no. The administrator can allow it with "gpasswd -a x y"; '
                            'no new login is needed.". Nor does this user\'s own service manager run programs: this user has '
                            "none running. To repair this: sudo gpasswd -a x y (then call again)"), text
        assert s.process.returncode == 0, s.stderr


if __name__ == "__main__":
    harness.main()
