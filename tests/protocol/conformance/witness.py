# SPDX-License-Identifier: MIT
"""Stands between a client and mcp-exec, passes every byte on as it is, and holds each message of the server against
the published schema of its revision. Knows HTTP on a port of its own, and a program's pipes:

    witness.py stdio FOLDER CLIENT COMMAND [ARGUMENT...]

What it finds goes to FOLDER/CLIENT, one line a message: "ok", or what does not fit and the message's shape. Nothing of
a message's content is kept."""

import collections
import contextlib
import fcntl
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import schemas  # noqa: E402  (found by the line above)

PIECE = 1 << 16


class Findings:
    """Of all clients, in a folder that several processes write to."""

    def __init__(self, folder):
        if not schemas.jsonschema:
            raise SystemExit("witness: python3-jsonschema is not installed")
        self.folder = pathlib.Path(folder)
        self.writing = open(self.folder / ".writing", "a")
        fcntl.flock(self.writing, fcntl.LOCK_SH)

    def add(self, client, problem):
        with open(self.folder / client, "a") as out:
            out.write("ok\n" if problem is None else " ".join(f"wrong: {problem!r}".split())[:3000] + "\n")

    def wait_for_others(self, seconds=20):
        """Until every process of a client has ended, for it may still be reading."""
        fcntl.flock(self.writing, fcntl.LOCK_UN)
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self.writing, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            assert time.monotonic() < end, f"a client's server has not ended within {seconds} s"
            time.sleep(0.1)

    def of(self, client):
        """How many messages a client was sent, and what is wrong with them: nothing heard is wrong as well."""
        path = self.folder / client
        lines = path.read_text().splitlines() if path.exists() else []
        wrong = [line for line in lines if line != "ok"]
        if not lines:
            wrong = ["no message was heard"]
        return len(lines), "\n".join([f"{len(wrong)} of {len(lines)} messages"] + wrong[:8]) if wrong else ""


class Listener(schemas.Listener):
    def __init__(self, findings, client, version=None):
        super().__init__(version)
        self.findings, self.client = findings, client

    def told(self, problem):
        self.findings.add(self.client, problem)


class Work:
    """Calls in their order in a thread of its own: what passes by never waits for a schema."""

    def __init__(self):
        self.queue = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while call := self.queue.get():
            call[0](*call[1:])

    def put(self, function, *arguments):
        self.queue.put((function, *arguments))

    def end(self):
        self.queue.put(None)
        self.thread.join()


# ---- HTTP -------------------------------------------------------------------------------------------------

class Half:
    """One direction of a connection, in pieces. Tells its owner of each head, which says whether a body may follow,
    of each part of a body, and of its end."""

    def __init__(self, on_head, on_part, on_end):
        self.on_head, self.on_part, self.on_end = on_head, on_part, on_end
        self.data, self.step = b"", self._head

    def take(self, data):
        self.data += data
        while self.step():
            pass

    def _line(self):
        line, end, rest = self.data.partition(b"\r\n")
        if not end:
            return None
        self.data = rest
        return line

    def _head(self):
        head, end, rest = self.data.partition(b"\r\n\r\n")
        if not end:
            return False
        self.data = rest
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        has_body = self.on_head(first, headers)
        length = int(headers.get("content-length", 0))
        if has_body and headers.get("transfer-encoding", "").lower() == "chunked":
            self.step = self._size
        elif has_body and length:
            self.left, self.step, self.is_chunk = length, self._body, False
        elif has_body and headers.get("content-length") is None and first.startswith("HTTP/"):
            self.step = self._until_closed
        else:
            self.on_end()
        return True

    def _size(self):
        line = self._line()
        if line is None:
            return False
        self.left = int(line.partition(b";")[0], 16)
        self.is_chunk, self.step = True, self._body if self.left else self._trailer
        return True

    def _trailer(self):
        line = self._line()
        if line == b"":
            self.step = self._head
            self.on_end()
        return line is not None

    def _chunk_end(self):
        if self._line() is None:
            return False
        self.step = self._size
        return True

    def _body(self):
        part, self.data = self.data[:self.left], self.data[self.left:]
        self.left -= len(part)
        if part:
            self.on_part(part)
        if self.left:
            return False
        self.step = self._chunk_end if self.is_chunk else self._head
        if not self.is_chunk:
            self.on_end()
        return True

    def _until_closed(self):
        part, self.data = self.data, b""
        if part:
            self.on_part(part)
        return False


class Exchange:
    """A request, and what is known of its answer so far."""

    def __init__(self, first, headers, listener):
        self.method, self.path = (first.split(" ") + ["", ""])[:2]
        self.listener, self.body = listener, b""
        self.listener.version = schemas.spoken(headers.get("mcp-protocol-version")) or self.listener.version


class Conversation:
    """What passes over one connection. Streams of HTTP+SSE are known by the address that they name."""

    def __init__(self, proxy):
        self.proxy, self.exchanges, self.sending, self.current = proxy, collections.deque(), None, None
        self.up = Half(self._request, self._request_part, self._request_end)
        self.down = Half(self._answer, self._answer_part, self._answer_end)

    def take(self, half, data):
        try:
            half.take(data)
        except ValueError as error:     # no HTTP: the server's is a fault, the client's its own affair
            if half is self.down:
                self.proxy.findings.add(self.proxy.client, f"no HTTP: {type(error).__name__}")
            half.step = lambda: False   # what follows has no meaning any more

    def _request(self, first, headers):
        self.sending = Exchange(first, headers, self.proxy.listener())
        self.exchanges.append(self.sending)
        return True

    def _request_part(self, part):
        self.sending.body += part

    def _request_end(self):
        self.sending.listener.sent_bytes(self.sending.body)
        stream = self.proxy.streams.get(self.sending.path)
        if stream:
            stream.sent_bytes(self.sending.body)

    def _answer(self, first, headers):
        self.status, self.headers, self.heard = int(first.split(" ")[1]), headers, b""
        if self.status < 200:
            return False
        self.current = self.exchanges.popleft() if self.exchanges else Exchange("", {}, self.proxy.listener())
        self.events = schemas.Events() if headers.get("content-type", "").startswith("text/event-stream") else None
        if "content-encoding" in headers:
            self.proxy.findings.add(self.proxy.client, "an encoded body, which nobody can read")
        return self.status not in (204, 304) and self.current.method != "HEAD"

    def _answer_part(self, part):
        if self.events is None:
            self.heard += part
            return
        for kind, data in self.events.take(part):
            if kind == "endpoint":
                self.proxy.streams[data.decode()] = self.current.listener
            elif data:
                self.current.listener.received_bytes(data)

    def _answer_end(self):
        if self.status >= 200 and self.events is None:
            schemas.hear(self.current.listener, self.status, self.headers, self.heard, self.current.path)


class HttpProxy:
    """A port of its own for one client; a with block gives its address."""

    def __init__(self, findings, client, url, work):
        self.findings, self.client, self.work, self.streams = findings, client, work, {}
        self.target = url.removeprefix("http://").split(":")
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def listener(self):
        return Listener(self.findings, self.client)

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self.url

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listening.accept()[0]
                try:
                    server = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                conversation = Conversation(self)
                for one in client, server:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ended = threading.Barrier(2, lambda both=(client, server): [one.close() for one in both])
                for source, target, half in ((client, server, conversation.up), (server, client, conversation.down)):
                    threading.Thread(target=self._pass, args=(conversation, source, target, half, ended),
                                     daemon=True).start()

    def _pass(self, conversation, source, target, half, ended):
        try:
            while data := source.recv(PIECE):
                self.work.put(conversation.take, half, data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:     # one side is gone, so the other has to notice
            for one in source, target:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        ended.wait()


# ---- Pipes ------------------------------------------------------------------------------------------------

class Lines:
    """Whole lines of a direction."""

    def __init__(self, heard):
        self.heard, self.rest = heard, b""

    def take(self, data):
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self.heard(line)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def over_pipes(findings, client, command):
    """The server as the client's child would be: its end, its status and the signals to it are passed on, too."""
    work, listener = Work(), Listener(findings, client)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: server.send_signal(received))

    def up():
        lines = Lines(listener.sent_bytes)
        with contextlib.suppress(OSError):
            while data := os.read(0, PIECE):
                work.put(lines.take, data)
                write_all(server.stdin.fileno(), data)
        server.stdin.close()
    threading.Thread(target=up, daemon=True).start()

    lines = Lines(listener.received_bytes)
    with contextlib.suppress(OSError):
        while data := os.read(server.stdout.fileno(), PIECE):
            work.put(lines.take, data)
            write_all(1, data)
    server.stdout.close()
    with contextlib.suppress(OSError):
        os.close(1)
    status = server.wait()
    work.end()
    return status if status >= 0 else 128 - status


def main():
    if sys.argv[1:2] != ["stdio"] or len(sys.argv) < 5:
        raise SystemExit(__doc__)
    folder, client, *command = sys.argv[2:]
    status = over_pipes(Findings(folder), client, command)
    sys.stderr.flush()
    os._exit(status)    # a thread may still wait for the client's next byte


if __name__ == "__main__":
    main()
