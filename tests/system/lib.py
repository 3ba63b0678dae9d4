# SPDX-License-Identifier: MIT
"""What the system tests are written with. Runs inside a test machine, as root, with the standard library
and python3-jsonschema: every message that the server sends to a client from here is held against its revision's schema.

A test is a plain function test_<behaviour> in a file test_<subject>.py. Decorators say what it needs; a test
whose needs this machine cannot meet is left to the next one. See README.md beside this file."""

import contextlib
import functools
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys
import threading
import time

try:
    import schemas
except ImportError:     # not in a test machine's directory of tests, which has a copy, but in the tree
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "protocol"))
    import schemas

SOCKET = "/run/mcp-exec/mcp-exec.sock"
PROTOCOL = "2025-06-18"
CONF_DROPIN = pathlib.Path("/etc/mcp-exec/mcp-exec.conf.d/90-test.conf")
RUN_UNITS = "mcp-exec-run-*"
SERVICES = ("mcp-exec.service", "mcp-exec-launcher.service")
SOCKETS = ("mcp-exec.socket", "mcp-exec-launcher.socket")


class Skip(Exception):
    """Raised by a test that finds it cannot say anything here. The reason is printed, and is rarely a good
    one."""


# ---- what a test needs ------------------------------------------------------------------------------------

def _mark(**marks):
    def decorate(function):
        for name, value in marks.items():
            if isinstance(value, frozenset):
                value = value | getattr(function, name, frozenset())
            setattr(function, name, value)
        return function
    return decorate


def needs(*names):
    """Of: memory, pids, cpu (cgroup controllers), user-manager-257, science, systemd>=N, systemd<N."""
    for name in names:
        if name not in _CONDITIONS and not re.fullmatch(r"systemd(>=|<)\d+", name):
            raise ValueError(f"unknown need {name!r}")
    return _mark(needs=frozenset(names))


def timeout(seconds):
    """A test that takes longer has failed (default 60; slower machines multiply it)."""
    return _mark(timeout=seconds)


vm_only = _mark(vm_only=True)       # breaks the machine, or asks for more than a container may do
also_vm = _mark(also_vm=True)       # runs in the vm too although a container could have run it
slow = _mark(slow=True)             # left out by run.py --quick


@functools.cache
def controllers():
    try:
        return frozenset(pathlib.Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()


@functools.cache
def systemd_version():
    text = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=True).stdout
    return int(text.split()[1].split(".")[0].split("~")[0])


def _has_science():
    return subprocess.run(["/usr/bin/python3", "-c", "import numpy, pandas, matplotlib"],
                          capture_output=True).returncode == 0


def _has_user_manager():
    return systemd_version() >= 257 and os.path.exists(f"/run/user/{uid_of('alice')}/systemd/private")


_CONDITIONS = {
    "memory": lambda: "memory" in controllers(),
    "pids": lambda: "pids" in controllers(),
    "cpu": lambda: "cpu" in controllers(),
    "science": functools.cache(_has_science),
    "user-manager-257": _has_user_manager,
}
one_release = needs("systemd>=257", "systemd<258")      # of what neither systemd nor a library decides, and takes long


def unmet(names):
    """Those of the needs that this machine does not meet, sorted."""
    def is_met(name):
        found = re.fullmatch(r"systemd(>=|<)(\d+)", name)
        if found:
            return (systemd_version() >= int(found[2])) == (found[1] == ">=")
        return _CONDITIONS[name]()
    return [name for name in sorted(names) if not is_met(name)]


# ---- the machine ------------------------------------------------------------------------------------------

def uid_of(user):
    return pwd.getpwnam(user).pw_uid


def minimal_environment(user="root"):
    """Exactly what MCP clients give to the servers they start."""
    entry = pwd.getpwnam(user)
    return {"HOME": entry.pw_dir, "LOGNAME": user, "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SHELL": entry.pw_shell, "TERM": "xterm", "USER": user}


def user_options(user):
    """Keyword arguments that make subprocess start something as a user, with that user's groups."""
    if user == "root":
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "cwd": entry.pw_dir,
            "extra_groups": os.getgrouplist(user, entry.pw_gid)}


def sh(command, user="root", check=True, input=None, timeout=60, env=None):
    """Runs a command (a list, or a string for the shell); stdout and stderr are text. Raises unless it
    succeeds."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    done = subprocess.run(argv, input=input, capture_output=True, text=True, errors="replace",
                          timeout=timeout, env=minimal_environment(user) if env is None else env, **user_options(user))
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def user_systemctl(user, *arguments, check=True):
    env = minimal_environment(user) | {"XDG_RUNTIME_DIR": f"/run/user/{uid_of(user)}"}
    return sh(["systemctl", "--user", *arguments], user=user, env=env, check=check)


def show(unit, *properties, user=None):
    """Properties of a unit as a dict of strings."""
    arguments = ["show", unit, *[f"--property={p}" for p in properties]]
    done = user_systemctl(user, *arguments) if user else sh(["systemctl", *arguments])
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def run_units(user=None):
    """Names of the units of runs that systemd knows in any state, of the system's or a user's manager."""
    arguments = ["list-units", "--all", "--plain", "--no-legend", "--full", RUN_UNITS]
    done = user_systemctl(user, *arguments) if user else sh(["systemctl", *arguments])
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def failed_units():
    done = sh(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--full"])
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def wait_until(condition, seconds=10, what=None, step=0.05):
    """Waits for a condition and returns its value; a deadline that passes is a failure."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            name = what or getattr(condition, "__name__", condition)
            raise AssertionError(f"not within {seconds} s: {name}")
        time.sleep(step)


def main_pid(unit="mcp-exec.service"):
    return int(show(unit, "MainPID")["MainPID"])


def processes_with(text):
    """What holds the text among the arguments and environments of all processes. A process may end at any moment of the
    walk, so that its directory is listed and gone."""
    found = []
    for pid in os.listdir("/proc"):
        for name in ("cmdline", "environ") if pid.isdigit() else ():
            path = pathlib.Path("/proc", pid, name)
            with contextlib.suppress(OSError):
                if text.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def stop_services():
    """Ends the daemon and the launcher; their sockets go on listening and start them again."""
    sh(["systemctl", "stop", *SERVICES])
    sh(["systemctl", "reset-failed", *SERVICES], check=False)


def start_sockets():
    sh(["systemctl", "start", *SOCKETS])


@contextlib.contextmanager
def configured(text):
    """A configuration drop-in for the length of a with block; the services start anew before and after."""
    CONF_DROPIN.parent.mkdir(parents=True, exist_ok=True)
    CONF_DROPIN.write_text(text)
    try:
        stop_services()
        start_sockets()
        yield
    finally:
        CONF_DROPIN.unlink(missing_ok=True)
        stop_services()
        start_sockets()


# ---- the journal ------------------------------------------------------------------------------------------

def journal_cursor():
    """Where the journal ends now; give it to journal() to see only what came later."""
    done = sh(["journalctl", "--sync"], check=False)
    done = sh(["journalctl", "--boot", "--lines=1", "--output=json", "--no-pager"])
    lines = done.stdout.splitlines()
    return json.loads(lines[-1])["__CURSOR"] if lines else None


def journal(after=None, **fields):
    """The records of this boot that match all fields, oldest first, as dicts."""
    sh(["journalctl", "--sync"], check=False)
    argv = ["journalctl", "--boot", "--all", "--output=json", "--no-pager"]
    argv += [f"{name}={value}" for name, value in fields.items()]
    found = [json.loads(line) for line in sh(argv).stdout.splitlines() if line.startswith("{")]
    # Not --after-cursor=: together with a match, journalctl of systemd 252 leaves out the first record too.
    return [record for record in found if not after or _position(record["__CURSOR"]) > _position(after)]


def _position(cursor):
    """The monotonic time in a cursor, and the sequence number for records of the same microsecond."""
    fields = dict(part.split("=", 1) for part in cursor.split(";"))
    return int(fields["m"], 16), int(fields["i"], 16)


def record_of(run_id, after=None, seconds=10):
    """The daemon's record of one finished run."""
    return wait_until(lambda: journal(after=after, MCP_EXEC_RUN_ID=run_id), seconds, f"the record of run {run_id}")[-1]


# ---- clients ----------------------------------------------------------------------------------------------

class RpcError(Exception):
    """A JSON-RPC error that the server answered with."""

    def __init__(self, error):
        super().__init__(f"JSON-RPC error {error.get('code')}: {error.get('message')}")
        self.code, self.message, self.data = error.get("code"), error.get("message"), error.get("data")


class Reply:
    """The answer to one request, which comes when it comes."""

    def __init__(self, ident):
        self.ident = ident
        self.message = None
        self.seconds = None
        self.done = threading.Event()
        self.started = time.monotonic()

    def wait(self, seconds=30):
        """The whole message; AssertionError when none came in time."""
        if not self.done.wait(seconds):
            raise AssertionError(f"no answer to request {self.ident!r} within {seconds} s")
        if self.message is None:
            raise ConnectionError(f"the connection ended before request {self.ident!r} was answered")
        return self.message

    def result(self, seconds=30):
        message = self.wait(seconds)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]


class _Peer:
    """JSON-RPC by lines over a pair of binary files, with a thread that reads; replies come in any order."""

    def __init__(self, reader, writer, handshake):
        self._reader, self._writer = reader, writer
        self._lock = threading.Lock()
        self._next = 1
        self._waiting = {}
        self.received = []          # every message, in order
        self.garbage = []           # lines that were no JSON object: there must be none
        self.listener = schemas.Listener()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.server = None
        if handshake:
            self.server = self.initialize()

    def _read(self):
        try:
            for line in self._reader:
                self._take(line)
        except (OSError, ValueError):
            pass
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self.ended.set()
        for reply in waiting.values():
            reply.done.set()

    def _take(self, line):
        if line.endswith(b"\n"):    # else the connection ended within it
            self.listener.received_bytes(line)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self.garbage.append(line)
            return
        with self._lock:
            self.received.append(message)
            key = json.dumps(message.get("id"))
            reply = self._waiting.pop(key, None) if "method" not in message else None
        if reply:
            reply.message = message
            reply.seconds = time.monotonic() - reply.started
            reply.done.set()

    def send_raw(self, data):
        self.listener.sent_bytes(data)
        self._writer.write(data)
        self._writer.flush()

    def request(self, method, params=None, ident=None):
        """Sends a request and returns its Reply at once."""
        with self._lock:
            if ident is None:
                ident, self._next = self._next, self._next + 1
            reply = Reply(ident)
            if not self.ended.is_set():
                self._waiting[json.dumps(ident)] = reply
            else:
                reply.done.set()
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.send_raw(json.dumps(message).encode() + b"\n")
        return reply

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send_raw(json.dumps(message).encode() + b"\n")

    def initialize(self, version=PROTOCOL, name="system-test"):
        result = self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                             "clientInfo": {"name": name, "version": "1"}}).result(30)
        self.notify("notifications/initialized")
        return result

    def start(self, tool, arguments, meta=None, ident=None):
        """Calls a tool and returns its Reply at once."""
        params = {"name": tool, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params, ident)

    def call(self, tool, arguments, timeout=60):
        """Calls a tool and returns its whole result."""
        return self.start(tool, arguments).result(timeout)

    def exec(self, code, timeout=60, **arguments):
        """Runs code and returns structuredContent; a call that did not run is an AssertionError with its
        text."""
        result = self.call("exec", {"code": code, **arguments}, timeout)
        if result.get("isError") or "structuredContent" not in result:
            raise AssertionError(f"exec did not run: {text_of(result)}")
        return result["structuredContent"]

    def refused(self, tool, arguments, timeout=30):
        """Calls a tool that must answer with a tool error, and returns its text."""
        result = self.call(tool, arguments, timeout)
        assert result.get("isError") is True, f"not a tool error: {result}"
        assert "structuredContent" not in result, result
        return text_of(result)

    def cancel(self, ident, reason="the test says so"):
        self.notify("notifications/cancelled", {"requestId": ident, "reason": reason})

    def notifications(self, method=None):
        with self._lock:
            return [m for m in self.received if "method" in m and method in (None, m["method"])]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def text_of(result):
    return "\n".join(c.get("text", "") for c in result.get("content", []) if c.get("type") == "text")


class Client(_Peer):
    """A client of the system service's Unix socket, as root or as another user (in a process of that
    user)."""

    def __init__(self, path=SOCKET, user="root", handshake=True):
        # A process of its own holds the connection, for the server looks at the peer's uid and groups.
        self._process = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-c", _BRIDGE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=minimal_environment(user), **user_options(user))
        try:
            super().__init__(self._process.stdout, self._process.stdin, handshake)
        except BaseException:
            self.close()
            raise

    def close(self):
        _end(self._process)

    def vanish(self):
        """The client's process is killed, as when a laptop lid closes on it."""
        self._process.kill()
        self._process.wait()


# Copies lines both ways between its pipes and the socket; ends when either side does.
_BRIDGE = """
import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
def up():
    while (data := os.read(0, 65536)):
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while (data := s.recv(65536)):
    while data:
        data = data[os.write(1, data):]
os._exit(0)
"""


def _end(process, seconds=10):
    with contextlib.suppress(OSError, ValueError):
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class StdioClient(_Peer):
    """Starts `mcp-exec stdio` as a desktop client does: as a user, with six variables and nothing else."""

    def __init__(self, user="alice", env=None, arguments=(), handshake=True):
        self._errors = []
        self.process = subprocess.Popen(
            ["/usr/bin/mcp-exec", "stdio", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=minimal_environment(user) if env is None else env,
            **user_options(user))
        self._drain = threading.Thread(target=self._collect, daemon=True)
        self._drain.start()
        try:
            super().__init__(self.process.stdout, self.process.stdin, handshake)
        except BaseException as error:
            self.close()
            raise AssertionError(f"no session over stdio: {error}\n{self.stderr}") from error

    def _collect(self):
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def stderr(self):
        return b"".join(self._errors).decode(errors="replace")

    def close(self, seconds=10):
        """Closes the server's stdin and returns its exit status."""
        _end(self.process, seconds)
        self._drain.join(2)
        return self.process.returncode
