#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch: where it lets itself and uv be led to, and the way through a proxy. uv is played."""

import contextlib
import hashlib
import ipaddress
import os
import pathlib
import re
import socket
import tempfile
import threading
import time
import urllib.parse

import rig
import proxies
import wheels
from rig import Prefix, contains, equal

ORDER = {"proxy": "", "no_proxy": [], "internal_hosts": [], "index_url": "", "extra_index_urls": [], "python_mirror": ""}
WORD = "Pr0xy-w0rd"


def lock_of(index, url=None):
    """Of all files of an index, which are one wheel each; or of one, elsewhere."""
    text = 'lock-version = "1.0"\n'
    for file, content in index.files.items():
        text += (f'[[packages]]\nname = "{file.split("-")[0].replace("_", "-")}"\nversion = "1.0"\nwheels = [{{ url = '
                 f'"{url or index.top + "files/" + file}", size = 1, hashes = {{ sha256 = '
                 f'"{hashlib.sha256(content).hexdigest()}" }} }}]\n')
    return text


def fetch(index, lock=None, netrc=None, **order):
    """(kind of the error or "", its message)"""
    return failure_of(index, lock, netrc, **order)[:2]


def failure_of(index, lock=None, netrc=None, **order):
    """The same, and what of it is for the journal."""
    with Prefix() as p:
        environment = None
        if netrc:
            environment = {"CREDENTIALS_DIRECTORY": p.top + "/credentials"}
            os.mkdir(p.top + "/credentials")
            pathlib.Path(p.top, "credentials/index-credentials").write_text(netrc)
        p.play_uv(lock=lock or lock_of(index))
        answer, lines = p.fetch(order.pop("requirements", ["x"]), environment, **{"index_url": index.url, **order})
        called = pathlib.Path(p.top, "called.json")
        equal(WORD in str(answer) + str(lines) + (called.read_text() if called.exists() else ""), False)
        error = answer.get("error", {"kind": "", "message": ""})
        return error["kind"], error["message"], error.get("internal_hosts", [])


def served(**more):
    return wheels.Index(**more).add(wheels.wheel("mx-one"))


def host_words():
    """[(kind, word, host, port)] of the table that the test of the settings has, too."""
    text = (pathlib.Path(__file__).resolve().parents[1] / "host-words.inc").read_text()
    for kind, word, host, port in re.findall(r'^(\w+)\("(.*?)"(?:, "(.*)", (\d+))?\)$', text, re.MULTILINE):
        word = word.replace('""', "").encode().decode("unicode_escape").encode("latin-1").decode()
        yield kind, word, host, int(port or 0)


def test_hosts_mean_what_the_settings_take_them_for():
    program = rig.load("fetch")
    kinds = {kind: 0 for kind in ("DESTINATION", "NO_DESTINATION", "PLACE", "NO_PLACE")}
    for kind, word, host, port in host_words():
        kinds[kind] += 1
        if kind == "DESTINATION":
            listed = program.Destinations([word])
            equal((word, listed.matches(host, port, program.address_of(host))), (word, True))
            other = ("other.invalid", port, program.address_of("192.0.2.1")) if "." in host else (host, port, program.address_of("2001:db8::"))
            equal((word, listed.matches(*other)), (word, word in ("*", "*:443", "10.0.0.1/0")))
            equal((word, listed.matches(host, port + 1, program.address_of(host))), (word, listed.entries[0][1] == 0))
        elif kind == "NO_DESTINATION":
            try:
                program.Destinations([word])
            except program.Failed as e:
                equal((word, e.kind), (word, "internal"))
            else:
                raise AssertionError(f"{word} was taken")
        elif kind == "PLACE":
            equal((word, program.place_of(word)), (word, (host, port)))
    equal([kind for kind, n in kinds.items() if n < 8], [])


def test_an_address_of_the_settings_is_the_same_in_each_spelling():
    """uv writes an address of a URL in its own."""
    program = rig.load("fetch")
    for url, host in (("http://[0:0::1]:1/", "::1"), ("http://[::FFFF:127.0.0.1]:1/", "::ffff:7f00:1")):
        gate = program.Gate({**ORDER, "index_url": url}, {}, 5)
        equal(gate.may(*program.place_of(f"tunnel://[{host}]:1"), ipaddress.ip_address("127.0.0.1")), True)
    for proxy, machine in (("http://[::0001]:1", "::1"), ("http://Proxy.Example:1", "PROXY.example")):
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "index-credentials").write_text(f"machine {machine} login bobby password {WORD}\n")
            os.environ["CREDENTIALS_DIRECTORY"] = directory
            try:
                _, credentials = program.read_credentials()
            finally:
                del os.environ["CREDENTIALS_DIRECTORY"]
        equal(program.Gate({**ORDER, "proxy": proxy}, credentials, 5).proxy_basic, program.basic("bobby", WORD))


def test_a_name_that_a_proxy_might_read_otherwise_is_no_host():
    program = rig.load("fetch")
    with proxies.ForwardingProxy() as proxy:
        gate = program.Gate({**ORDER, "proxy": proxy.url}, {}, 5)
        for host in ("127%2e0%2e0%2e1", "a%40b", "l\xbacalhost", "127.0.0.\xb9", "a b", "a,b", "8.8.8.8%25.example"):
            equal((host, kind_of_connecting(program, gate, host, 443)), (host, "index"))
        equal(proxy.requests, [])


def request_of(gate, target, word):
    """What arrives of a request with a password."""
    with socket.create_connection(gate.listener.getsockname()) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\nauthorization: Basic {word}\r\nProxy-Authorization: "
                       f"{gate.expected.decode()}\r\n\r\n".encode())
        while client.recv(4096):
            pass


def test_passwords_go_in_clear_only_to_hosts_that_a_setting_names_so():
    program = rig.load("fetch")
    with served() as server:
        told = []
        for order in ({"index_url": server.url}, {"index_url": "https://127.0.0.1/"}, {"index_url": "http://[::1]/"}):
            gate = program.Gate({**ORDER, **order, "internal_hosts": ["*"]}, {}, 5)
            request_of(gate, f"{server.top}x", "c2VjcmV0")
            told.append(server.authorizations[-1])
        equal(told, ["Basic c2VjcmV0", "", ""])


def test_a_client_that_says_nothing_is_not_waited_for_byte_by_byte():
    """Of the connections that are not led anywhere yet, few are looked at."""
    program = rig.load("fetch")
    gate = program.Gate(ORDER, {}, 1)
    with socket.create_connection(gate.listener.getsockname()) as client:
        stop = threading.Event()

        def trickle():
            try:
                while not stop.wait(0.1):
                    client.sendall(b"x")
            except OSError:
                pass

        thread = threading.Thread(target=trickle)
        thread.start()
        client.settimeout(60)
        try:
            equal(client.recv(100), b"")
        except ConnectionResetError:
            pass
        finally:
            stop.set()
            thread.join()


def test_a_family_that_the_kernel_does_not_have_is_one_address_less():
    program = rig.load("fetch")
    with served() as index:
        gate = program.Gate({**ORDER, "index_url": "http://h.example/"}, {}, 5)
        found = [(4095, socket.SOCK_STREAM, 6, "", ("::1", index.port)), (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", index.port))]
        gate.connect_first(found, "h.example", 80).close()
        try:
            gate.connect_first(found[:1], "h.example", 80)
        except program.Refused as e:
            equal(e.failure.kind, "index")
        else:
            raise AssertionError("connected")


def test_many_hosts_are_looked_at_within_the_budget_only():
    program = rig.load("fetch")
    gate = program.Gate(ORDER, {}, 5)
    asked = []

    def seconds_left():
        asked.append(1)
        if len(asked) > 3:
            raise program.Failed("timeout", "over")
        return 1

    with names():
        try:
            gate.look_at((f"https://h{i}.example/" for i in range(100)), seconds_left)
        except program.Failed as e:
            equal((e.kind, len(asked)), ("timeout", 4))
        else:
            raise AssertionError("went on")


def test_an_index_cannot_lead_to_this_machine():
    with served() as index, served() as victim:
        (file,) = index.files
        for host in ("127.0.0.1", "localhost", "[::ffff:7f00:1]"):
            kind, message = fetch(index, lock_of(index, f"http://{host}:{victim.port}/files/{file}"))
            equal((host, kind, victim.requests), (host, "policy", []))
            contains(message, "InternalHosts=")
            contains(message, "has the address 127.0.0.1" if host == "localhost" else " is an address of this")
        index.redirects[file] = victim.top + "files/" + file
        equal((fetch(index)[0], victim.requests), ("policy", []))
        # Also not to another port of the host that the administrator named.
        index.redirects[file] = f"https://127.0.0.1:{victim.port}/files/{file}"
        equal((fetch(index)[0], victim.requests), ("policy", []))
        index.redirects[file] = victim.top + "files/" + file
        for word in ("127.0.0.0/8", f"127.0.0.1:{victim.port}"):
            equal(fetch(index, internal_hosts=[word])[0], "")
        for word in ("10.0.0.0/8", f"127.0.0.1:{index.port}", "localhost"):
            equal(fetch(index, internal_hosts=[word])[0], "policy")
        equal(len(victim.requests), 2)


def kind_of_connecting(program, gate, host, port):
    try:
        gate.lead("CONNECT", host, "", host, port)[0].close()
        return ""
    except program.Refused as e:
        return e.failure.kind


@contextlib.contextmanager
def names(**addresses):
    """{name: [addresses]} with "_" for ".", in place of what this machine's resolver says."""
    def getaddrinfo(host, port, **_):
        if host.replace(".", "_") not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses[host.replace(".", "_")]]

    real, socket.getaddrinfo = socket.getaddrinfo, getaddrinfo
    try:
        yield
    finally:
        socket.getaddrinfo = real


def message_of(program, gate, host):
    try:
        gate.lead("CONNECT", host, "", host, 443)[0].close()
        return ""
    except program.Refused as e:
        return str(e.failure)


def test_a_host_that_is_refused_is_named_with_its_address_and_its_setting():
    program = rig.load("fetch")
    with names(index_example=["10.1.1.1"], files_example=["10.1.1.2"]):
        message = message_of(program, program.Gate(ORDER, {}, 5), "index.example")
        contains(message, "index.example has the address 10.1.1.1, ")
        contains(message, "can allow it with InternalHosts=index.example in")
        gate = program.Gate({**ORDER, "internal_hosts": ["index.example"]}, {}, 5)
        contains(message_of(program, gate, "files.example"), "can allow it with InternalHosts=files.example in")


def test_an_address_that_is_refused_is_named_as_the_setting_takes_it():
    program = rig.load("fetch")
    for host in ("0x7f000001", "127.1", "::ffff:127.0.0.1"):
        message = message_of(program, program.Gate(ORDER, {}, 5), host)
        contains(message, "InternalHosts=127.0.0.1 in")
        contains(message_of(program, program.Gate({**ORDER, "internal_hosts": ["127.0.0.1"]}, {}, 5), host), "cannot be reached")


def test_all_hosts_of_the_files_are_named_at_once():
    with served() as index:
        lock = lock_of(index)
        index.add(wheels.wheel("mx-two"))
        lock = lock_of(index)
        for i, file in enumerate(index.files):
            lock = lock.replace(f"{index.top}files/{file}", f"http://127.0.0.{i + 2}:1/files/{file}")
        kind, message, hosts = failure_of(index, lock)
        equal((kind, hosts), ("policy", [{"host": f"127.0.0.{i}", "address": f"127.0.0.{i}"} for i in (2, 3)]))
        contains(message, "127.0.0.2 and 127.0.0.3 are addresses of this machine")
        # What the script's author wrote is not for the journal.
        kind, message, hosts = failure_of(index, lock, requirements=["x @ https://127.0.0.9/x.whl"], allow_urls=True)
        equal((kind, hosts), ("policy", []))
        contains(message, "127.0.0.2 and 127.0.0.3")


def test_a_network_that_needs_no_proxy_means_the_names_in_it():
    program = rig.load("fetch")
    with served() as near, proxies.ForwardingProxy() as proxy, \
            names(near_example=["127.0.0.1"], far_example=["93.184.216.34"], **{"127_0_0_1": ["127.0.0.1"]}):
        for words, host, wanted in ((["127.0.0.0/8"], "near.example", "near"), ([f"127.0.0.0/8:{near.port}"], "near.example", "near"),
                                    (["127.0.0.0/8:1"], "near.example", "proxy"), (["10.0.0.0/8"], "near.example", "proxy"),
                                    (["127.0.0.0/8"], "far.example", "proxy"), (["127.0.0.0/8"], "unknown.example", "proxy"),
                                    (["other.example"], "near.example", "proxy")):
            gate = program.Gate({**ORDER, "proxy": proxy.url, "no_proxy": words, "internal_hosts": ["*"]}, {}, 5)
            server, _, _ = gate.lead("GET", f"http://{host}:{near.port}/", "", host, near.port)
            equal((words, host, "near" if server.getpeername()[1] == near.port else "proxy"), (words, host, wanted))
            server.close()
        # It is no other way in.
        gate = program.Gate({**ORDER, "proxy": proxy.url, "no_proxy": ["127.0.0.0/8"]}, {}, 5)
        contains(message_of(program, gate, "near.example"), "InternalHosts=near.example")


def test_addresses_in_each_of_their_spellings():
    program = rig.load("fetch")
    with served() as victim:
        gate = program.Gate({**ORDER, "index_url": "http://127.0.0.1:1/"}, {}, 5)
        for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "::ffff:127.0.0.1",
                     "::ffff:7f00:1", "0.0.0.0", "::", "::1", "LOCALHOST", "::127.0.0.1",
                     # The services of clouds.
                     "169.254.169.254", "fe80::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "100.100.100.200",
                     "10.0.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255", "ff02::1", "240.0.0.1"):
            equal((host, kind_of_connecting(program, gate, host, victim.port)), (host, "policy"))
        equal((kind_of_connecting(program, gate, "127.0.0.1", 1), victim.requests), ("index", []))


def test_a_name_leads_to_the_addresses_that_were_looked_at():
    program = rig.load("fetch")
    with served() as victim:
        gate = program.Gate({**ORDER, "internal_hosts": ["127.0.0.2"]}, {}, 5)
        # Each is asked for once: what the second answer would be is of no use to anybody.
        answers = {"split.example": [["127.0.0.1", "10.1.1.1"], ["127.0.0.2"]],
                   "rebinding.example": [["127.0.0.2"], ["127.0.0.1"]]}
        asked = []

        def getaddrinfo(host, port, **_):
            asked.append(host)
            answer = answers[host].pop(0) if host in answers else []
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]

        real, socket.getaddrinfo = socket.getaddrinfo, getaddrinfo
        try:
            for host, kind in (("split.example", "policy"), ("rebinding.example", "index")):
                equal((host, kind_of_connecting(program, gate, host, victim.port), asked.count(host)), (host, kind, 1))
        finally:
            socket.getaddrinfo = real
        equal(victim.requests, [])


def test_a_client_is_told_that_its_connection_will_be_closed():
    """Or it would send its next request, say with a password, into the end of a connection that it believes open."""
    program = rig.load("fetch")
    for pieces in ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], [b"HTTP/1.", b"1 200 OK\r", b"\nContent-Length: 2\r\n\r\nok"]):
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        gate = program.Gate({**ORDER, "index_url": f"http://127.0.0.1:{port}/"}, {}, 5)
        client = socket.create_connection(gate.listener.getsockname())
        client.sendall(f"GET http://127.0.0.1:{port}/x HTTP/1.1\r\nHost: h\r\nProxy-Authorization: "
                       f"{gate.expected.decode()}\r\n\r\n".encode())
        connection = server.accept()[0]
        asked = connection.recv(4096)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
        connection.close()
        told = b""
        while data := client.recv(4096):
            told += data
        equal(told, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        contains(asked.decode(), "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n")
        client.close()
        server.close()


def test_private_networks_are_for_who_is_in_one():
    program = rig.load("fetch")
    for order, address, may in (({}, "10.1.1.1", False), ({}, "93.184.216.34", True), ({}, "2606:2800:220:1::1", True),
                                ({"index_url": "https://10.0.0.5/simple"}, "10.1.1.1", True),
                                ({"index_url": "https://10.0.0.5/simple"}, "fd00::1", True),
                                ({"index_url": "https://10.0.0.5/simple"}, "127.0.0.1", False),
                                ({"index_url": "https://10.0.0.5/simple"}, "169.254.169.254", False),
                                ({"index_url": "https://127.0.0.1/simple"}, "10.1.1.1", False),
                                ({"extra_index_urls": ["http://192.168.1.1:80/"]}, "172.16.0.1", True),
                                ({"proxy": "http://[fd00::5]:3128"}, "10.1.1.1", True),
                                ({"internal_hosts": ["10.1.0.0/16:443"]}, "10.1.1.1", True),
                                ({"internal_hosts": ["10.1.0.0/16:444"]}, "10.1.1.1", False),
                                ({"internal_hosts": ["*"]}, "169.254.169.254", True),
                                ({"internal_hosts": ["h.example"]}, "10.1.1.1", True),
                                ({"internal_hosts": [".example"]}, "10.1.1.1", True),
                                ({"internal_hosts": ["example:443"]}, "10.1.1.1", True),
                                ({"internal_hosts": ["ample"]}, "10.1.1.1", False)):
        gate = program.Gate({**ORDER, **order}, {}, 5)
        equal((order, address, gate.may("h.example", 443, ipaddress.ip_address(address))), (order, address, may))


def test_a_proxy_with_a_password():
    with tempfile.TemporaryDirectory() as directory:
        rig.need("openssl")
        authority = proxies.Authority(directory)
        for tls in None, authority.tls:
            with served(tls=tls) as index, proxies.ForwardingProxy("proxy-user", WORD) as proxy:
                order = {"proxy": proxy.url, "ca_bundle": authority.bundle}
                netrc = f"machine 127.0.0.1 login proxy-user password {WORD}\n"
                equal((fetch(index, netrc=netrc, **order)[0], len(proxy.requests), proxy.n_refused), ("", 1, 0))
                for wrong in (None, netrc.replace(WORD, "another"), netrc.replace("127.0.0.1", "localhost")):
                    kind, message = fetch(index, netrc=wrong, **order)
                    equal((tls, wrong, kind), (tls, wrong, "proxy"))
                    contains(message, "407")
                equal((len(proxy.requests), proxy.n_refused), (1, 3))
                # And what needs none.
                for word in ("127.0.0.1", "127.0.0.0/8", f"127.0.0.1:{index.port}", "*"):
                    equal((word, fetch(index, no_proxy=[word], **order)[0], len(proxy.requests)), (word, "", 1))
                for word in ("127.0.0.1:1", "10.0.0.0/8", "localhost"):
                    equal((word, fetch(index, no_proxy=[word], **order)[0]), (word, "proxy"))


def test_a_proxy_is_not_asked_for_this_machine():
    with served() as index, served() as victim, proxies.ForwardingProxy() as proxy:
        (file,) = index.files
        for host in ("127.0.0.1", "localhost", "x.localhost", "169.254.169.254", "0x7f.1"):
            kind, _ = fetch(index, lock_of(index, f"http://{host}:{victim.port}/files/{file}"), proxy=proxy.url)
            equal((host, kind, proxy.requests, victim.requests), (host, "policy", [], []))
        equal((fetch(index, proxy=proxy.url)[0], proxy.requests), ("", [f"{index.top}files/{file}"]))


def test_a_proxy_that_is_not_there():
    with served() as index:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for host in (f"127.0.0.1:{port}", "nothing.invalid:1"):
            kind, message = fetch(index, proxy=f"http://{host}")
            equal((host, kind, index.requests), (host, "proxy", []))


def test_the_gate_is_for_this_program_alone():
    gate = rig.load("fetch").Gate(ORDER, {}, 5)
    place = urllib.parse.urlsplit(gate.url)
    for header in ("", "Proxy-Authorization: Basic Z2F0ZTpnYXRl\r\n"):
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(f"CONNECT 127.0.0.1:22 HTTP/1.1\r\n{header}\r\n".encode())
            equal(connection.recv(100).split(b"\r\n")[0], b"HTTP/1.1 407 Refused")
    for word in ("", "x" * 70000, "GET / HTTP/1.1\r\n\r\n", "\r\n\r\n", "CONNECT\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(word.encode())
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(100)
            except ConnectionResetError:
                answer = b""
            equal((word[:20], answer.split(b"\r\n")[0] in (b"", b"HTTP/1.1 407 Refused")), (word[:20], True))


if __name__ == "__main__":
    rig.main()
