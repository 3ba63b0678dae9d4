#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch: downloads from servers that do not keep to anything. uv is played."""

import contextlib
import itertools
import socket
import tempfile
import threading

import rig
import proxies
import wheels
from rig import contains, equal
from test_fetch import fetch_lock, lock_of


@contextlib.contextmanager
def endless(head, more):
    """The port of a server that answers with these bytes, and goes on with those, or ends there if there are none."""
    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection):
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(head)
            while more and not stop.wait(0.05):
                connection.sendall(more)

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_that_never_comes_to_the_end_of_a_head_is_left_in_time():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        (file,) = index.files
        for head, more in ((b"HTTP/1.1 200 OK\r\nX: ", b"x"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")):
            with endless(head, more) as port:
                answer, names = fetch_lock(index, lock_of(index, file, url=f"http://127.0.0.1:{port}/{file}"), budget_s=3,
                                           internal_hosts=["127.0.0.1"])
                equal((answer["error"]["kind"], names), ("timeout", []))


def test_what_comes_with_a_redirect_is_not_read():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        (file,) = index.files
        for status in (301, 302, 303, 307, 308):
            head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {index.top}files/{file}\r\n\r\n"
            with endless(head.encode(), b"x" * 1000) as port:
                answer, names = fetch_lock(index, lock_of(index, file, url=f"http://127.0.0.1:{port}/{file}"), budget_s=30,
                                           internal_hosts=["127.0.0.1"])
                equal((status, answer.get("error"), names), (status, None, [".lock", ".wheels"]))


def test_a_handshake_that_breaks_off_says_nothing_of_a_certificate():
    """It was said that the certificate is not trusted, of servers that had shown none."""
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        (file,) = index.files
        for said in (b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"):
            with endless(said, b"") as port:
                answer, names = fetch_lock(index, lock_of(index, file, url=f"https://127.0.0.1:{port}/{file}"),
                                           internal_hosts=["127.0.0.1"])
                equal((answer["error"]["kind"], names), ("index", []))
                contains(answer["error"]["message"], "127.0.0.1 cannot be reached (")


@contextlib.contextmanager
def breaking_off_once(content):
    """The port of a server whose first transfer ends before its end."""
    def serve():
        with contextlib.suppress(OSError):
            for n in itertools.count():
                with listener.accept()[0] as connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
                    connection.sendall(content if n else content[:-1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_transfer_that_broke_off_does_not_count_twice():
    """The second one was "larger than the MiB that are allowed"."""
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        ((file, content),) = index.files.items()
        with breaking_off_once(content) as port:
            answer, names = fetch_lock(index, lock_of(index, file, url=f"http://127.0.0.1:{port}/{file}"),
                                       internal_hosts=["127.0.0.1"], max_total_bytes=len(content) + 1)
            equal((answer.get("error"), names), (None, [".lock", ".wheels"]))
            equal(answer["download_bytes"], len(content))


def test_a_certificate_that_is_not_trusted():
    rig.need("openssl")
    with tempfile.TemporaryDirectory() as directory:
        with wheels.Index(tls=proxies.Authority(directory).tls) as index:
            index.add(wheels.wheel("mx-one"))
            answer, names = fetch_lock(index, lock_of(index, *index.files))
            equal((answer["error"]["kind"], names, index.requests), ("tls", [], []))
            contains(answer["error"]["message"], "The certificate of 127.0.0.1 is not trusted.")


def test_urls_that_are_none():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        (file,) = index.files
        for url in ("https://h:99999", "https://h:x", "https://[::1", "https://[h]", "https://:80", "https://"):
            answer, names = fetch_lock(index, lock_of(index, file, url=f"{url}/{file}"))
            equal((url, answer["error"]["kind"], names), (url, "index", []))


if __name__ == "__main__":
    rig.main()
