# SPDX-License-Identifier: MIT
"""One MCP conversation with the system service, printed. Runs inside a test machine."""

import json
import socket
import subprocess
import sys

PROTECTIONS = ("launcher", "controllers", "namespaces", "seccomp", "DynamicUser", "walls")
SOCKET = "/run/mcp-exec/mcp-exec.sock"
PROGRAM = """\
import os, platform
print("Hello from Python", platform.python_version(), "as uid", os.getuid())
with open("/proc/self/net/dev") as devices:
    print("network interfaces:", [line.split(":")[0].strip() for line in devices][2:])
print("files in /etc:", sorted(os.listdir("/etc")))
print("the sum of the first hundred squares is", sum(n * n for n in range(101)))
"""


def main():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(SOCKET)
        lines = connection.makefile("rb")

        def send(message):
            connection.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        def answer(ident):
            for line in lines:
                message = json.loads(line)
                if message.get("id") == ident and "method" not in message:
                    return message
            raise SystemExit("the server closed the connection without an answer")

        send({"id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": {"name": "demo", "version": "1"}}})
        server = answer(1)["result"]["serverInfo"]
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/call", "params": {"name": "exec", "arguments": {"code": PROGRAM}}})
        reply = answer(2)

    manager = systemctl("--version").splitlines()[0]
    print(f"\n{manager}, mcp-exec.socket {systemctl('is-active', 'mcp-exec.socket')}, "
          f"{server['name']} {server['version']} answers.\n")
    print("The program:\n" + "".join(f"    {line}\n" for line in PROGRAM.splitlines()))
    print("The MCP answer:\n" + json.dumps(reply, indent=2, ensure_ascii=False))
    result = reply.get("result", {})
    ran = not result.get("isError") and result.get("structuredContent", {}).get("status") == "ok"
    return 0 if show_protections() and ran else 1


def show_protections():
    """What `mcp-exec check` says of them. Returns whether none is relaxed."""
    done = subprocess.run(["mcp-exec", "check", "--json"], capture_output=True, text=True)
    rows = [row for row in json.loads(done.stdout) if row["name"] in PROTECTIONS]
    are_whole = len(rows) == len(PROTECTIONS) and all(row["verdict"] == "ok" for row in rows)
    print("\nNo protection is relaxed (mcp-exec check):" if are_whole else "\nNot every protection holds (mcp-exec check):")
    print("".join(f"    {row['verdict']:4}  {row['name']:11}  {row['detail']}\n" for row in rows), end="")
    return are_whole


def systemctl(*arguments):
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
