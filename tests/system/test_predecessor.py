# SPDX-License-Identifier: MIT
"""The first predecessor's settings work unchanged: its eight variables, its three transports, its header."""

import contextlib
import socket
import subprocess

from http_client import HttpClient
from lib import StdioClient, minimal_environment, needs, sh, wait_until
from test_sse import SseClient

TOKEN = "token-of-old-clients-0123456789"
PORT = 8099
VARIABLES = {"MCP_EXEC_DEFAULT_TIMEOUT_S": "2", "MCP_EXEC_MAX_TIMEOUT_S": "5", "MCP_EXEC_MAX_OUTPUT_BYTES": "100",
             "MCP_EXEC_MAX_STDIN_BYTES": "50", "MCP_EXEC_PYTHON": "python3"}


@contextlib.contextmanager
def listening(transport):
    """The program as the predecessor was started: no argument, only variables."""
    env = minimal_environment() | VARIABLES | {"MCP_EXEC_TRANSPORT": transport, "MCP_EXEC_ADDR": f"127.0.0.1:{PORT}",
                                               "MCP_EXEC_AUTH_TOKEN": TOKEN}
    process = subprocess.Popen(["/usr/bin/mcp-exec"], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        def is_up():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", PORT)) == 0
        wait_until(is_up, 10)
        yield
    finally:
        process.terminate()
        status, errors = process.wait(15), process.stderr.read()
        process.stderr.close()
    assert status == 0, errors


def _check(call):
    """call(arguments) gives the result of the tool exec."""
    def run(code, **arguments):
        return call({"code": code, **arguments})["structuredContent"]
    result = run("import os, sys; print(sys.stdin.read(), os.environ.get('MCP_EXEC_AUTH_TOKEN'))", stdin="in")
    assert (result["stdout"], result["exit_code"], result["timed_out"]) == ("in None\n", 0, False), result
    result = run("print('x' * 1000)")
    assert result["truncated"] and len(result["stdout"]) < 300, result
    result = run("import time; time.sleep(60)")
    assert result["timed_out"] and result["exit_code"] == -1, result
    result = run("import time; time.sleep(60)", timeout_s=60)      # as the largest that is allowed
    assert result["timed_out"] and result["duration_ms"] < 30000, result
    refused = call({"code": "1", "stdin": "x" * 51})
    assert refused["isError"], refused


def test_stdio_by_the_system_service():
    for more in {}, {"MCP_EXEC_TRANSPORT": "stdio"}:
        with StdioClient("root", minimal_environment() | VARIABLES | more) as client:
            assert client.exec("print(1)")["stdout"] == "1\n"


@needs("user-manager-257")
def test_stdio_in_a_process_of_its_own():
    for more in {}, {"MCP_EXEC_TRANSPORT": "stdio"}:
        with StdioClient("alice", minimal_environment("alice") | VARIABLES | more, ["--no-bridge"]) as client:
            _check(lambda arguments: client.call("exec", arguments))


def test_http_with_its_header():
    with listening("http"):
        client = HttpClient(PORT, token=TOKEN, token_header="X-MCP-AUTH")
        _check(lambda arguments: client.call("exec", arguments))
        assert HttpClient(PORT, token=TOKEN + "x", token_header="X-MCP-AUTH", handshake=False).send().status == 401


def test_sse_on_any_path_with_its_header():
    with listening("sse"):
        for path in "/", "/sse", "/mcp":
            with contextlib.closing(SseClient(PORT, TOKEN, path)) as client:
                result = client.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {},
                                                   "clientInfo": {"name": "t", "version": "1"}}, 0)
                assert result["protocolVersion"] == "2024-11-05", result
        with contextlib.closing(SseClient(PORT, TOKEN, "/")) as client:
            _check(lambda arguments: client.ask("tools/call", {"name": "exec", "arguments": arguments}, 1))


def test_token_is_needed_and_a_wrong_value_named():
    env = minimal_environment() | {"MCP_EXEC_TRANSPORT": "sse", "MCP_EXEC_ADDR": f"127.0.0.1:{PORT}"}
    done = sh(["mcp-exec"], check=False, env=env, timeout=20)
    assert done.returncode != 0 and "MCP_EXEC_AUTH_TOKEN" in done.stderr, done
