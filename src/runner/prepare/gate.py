# SPDX-License-Identifier: MIT
"""The gate: the one way from here to the network, for uv, git and our own downloader alike.

A proxy on a port of loopback that answers to a password only its own environment has. It resolves names itself and connects
to the addresses that it looked at, so that neither a redirect nor a name that changes its address leads anywhere else: an
index may say where a file is, and must not make us ask the services of this machine or of its cloud. It also knows the
way through the administrator's proxy, whose password therefore ends here."""

import base64
import concurrent.futures
import hmac
import ipaddress
import os
import re
import selectors
import socket
import threading
import time
import urllib.parse

from common import Failed, printable, secrets, spelled
from explain import explain_uv

HEAD_BYTES_MAX = 64 << 10
SETUPS = 8
PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")))
LOOPBACK = ipaddress.ip_address("127.0.0.1")
NAT64 = ipaddress.ip_network("64:ff9b::/96")
SIX_TO_FOUR = ipaddress.ip_network("2002::/16")
NUMBER = r"0|[1-9][0-9]{0,4}"
LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
WORD_MAX = 255
# Who goes through a proxy hands on the name as it is, and what the proxy makes of it is not known here.
HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f.]*:[0-9a-f:.]*(?:%[a-z0-9._-]+)?")
PORTS = {"http": 80, "https": 443}
SHOWN_MAX = 8


def address_of(text):
    """An address for comparison, or None: without its zone, and what is only wrapped in another one as itself."""
    try:
        address = ipaddress.ip_address(text.strip("[]").split("%")[0])
    except ValueError:
        return None
    if address.version == 6:
        inner = address.ipv4_mapped or address.sixtofour
        return inner or (ipaddress.ip_address(int(address) & 0xffffffff) if address in NAT64 else address)
    return address


def literal_of(host):
    """The address that a host already is, also in the spellings that only resolvers take (127.1, 0x7f000001)."""
    address = address_of(host)
    if address is None and re.fullmatch(r"[0-9a-fA-Fx.]+", host):
        try:
            return ipaddress.ip_address(socket.inet_aton(host))
        except OSError:
            return None
    return address


def place_of(url):
    """(host, port) of a URL."""
    parts = urllib.parse.urlsplit(url)
    return spelled((parts.hostname or "").rstrip(".")), parts.port or PORTS.get(parts.scheme, 0)


def network_of(text):
    """An address or a network, or None. What is only wrapped in another one as itself, as the addresses are."""
    address, slash, bits = text.partition("/")
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
        if slash and not re.fullmatch(NUMBER, bits):
            return None
        network = ipaddress.ip_network(text, strict=False)
    except (OSError, ValueError):
        return None
    inner = address_of(str(network.network_address))
    outer_bits = 16 if network.network_address in SIX_TO_FOUR else 96
    if network.version == 6 and inner.version == 4 and network.prefixlen > outer_bits:
        return ipaddress.ip_network((inner, min(32, network.prefixlen - outer_bits)))
    return network


class Destinations:
    """An administrator's list: names (with all below them), addresses, networks; each may have a port; "*" is all."""

    def __init__(self, words):
        self.entries = [self.entry_of(word) for word in words]

    @staticmethod
    def entry_of(word):
        """As base/settings-words.c reads it. What is not understood must not silently mean nothing."""
        found = re.fullmatch(rf"(\[[^\]]*\]|[^:]*):({NUMBER})", word)
        host, port = (found[1], int(found[2])) if found else (word, 0)
        is_bracketed = host.startswith("[") and host.endswith("]")
        network = network_of(host[1:-1] if is_bracketed else host)
        is_right = len(word) <= WORD_MAX and (not found or 0 < port < 65536)
        if is_right and network is not None and is_bracketed <= (":" in host):
            return network, port
        if is_right and re.fullmatch(rf"\*|(\*?\.)?{LABEL}(\.{LABEL})*", host) and not re.search(r"(^|\.)(0[xX][^.]*|\d+)$", host):
            return host.removeprefix("*").removeprefix(".").lower(), port
        raise Failed("internal", f"{printable(word, 100)} in NoProxy= or InternalHosts= of mcp-exec.conf is not understood.")

    def has_networks(self):
        return any(not isinstance(entry, str) for entry, _ in self.entries)

    def matches(self, host, port, address):
        """address: of the host, or None."""
        for entry, wanted in self.entries:
            if wanted not in (0, port):
                continue
            if isinstance(entry, str):
                if entry == "" or host == entry or host.endswith("." + entry):
                    return True
            elif address is not None and address in entry:
                return True
        return False


class Internal(Failed):
    """Hosts that packages may not come from, with the address that each of them has."""

    def __init__(self, hosts):
        self.hosts = hosts
        shown = {printable(host, 100): address for host, address in list(hosts.items())[:SHOWN_MAX]}
        names = [host for host in shown if not literal_of(host)]
        them = "it" if len(shown) == 1 else "them"
        if len(shown) > 1:
            have = " and ".join(f"{host} ({address})" if host in names else host for host, address in shown.items())
            place = f"{have} have addresses" if names else f"{have} are addresses"
        else:
            (host, address), = shown.items()
            place = f"{host} has the address {address}, which is one" if names else f"{host} is an address"
        super().__init__("policy", f"{place} of this machine or of the network that it is in, and packages do not come from there. "
                         f"The administrator can allow {them} with InternalHosts={' '.join(names or map(str, shown.values()))} in mcp-exec.conf.")


class Refused(Exception):
    """The client gets this status instead of a connection."""

    def __init__(self, status, failure=None):
        super().__init__(status)
        self.status, self.failure = status, failure


class Gate:
    """credentials: {host: Basic …}, for the proxy. connect_s: for one connection to be made."""

    def __init__(self, order, credentials, connect_s):
        self.connect_s = connect_s
        self.proxy = place_of(order["proxy"]) if order["proxy"] else None
        self.proxy_basic = credentials.get(self.proxy[0]) if self.proxy else None
        self.no_proxy = Destinations(order["no_proxy"])
        self.internal = Destinations(order["internal_hosts"])
        urls = tuple(filter(None, (order["index_url"], *order["extra_index_urls"], order["python_mirror"])))
        self.configured = set(map(place_of, urls))
        self.plain_hosts = {place_of(url)[0] for url in urls if url.startswith("http://")}
        self.failures = {}
        self.not_direct = set()
        self.are_we_inside = None
        self.lock = threading.Lock()
        # The port is there for every user of this machine.
        password = os.urandom(16).hex()
        secrets.add(password)
        self.expected = b"Basic " + base64.b64encode(f"gate:{password}".encode())
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://gate:{password}@127.0.0.1:{self.listener.getsockname()[1]}"
        self.relay = Relay(self.listener, self.begin)

    def failure(self):
        """Why some host could not be reached in the end, or None. Refused hosts are told together: one round is enough."""
        with self.lock:
            failures = list(self.failures.values())
        refused = {host: address for each in failures if isinstance(each, Internal) for host, address in each.hosts.items()}
        return Internal(refused) if refused else next(iter(failures), None)

    # --- may it? ---------------------------------------------------------------------------------------------------------

    def is_inside(self):
        """Whether one of the administrator's own hosts is in a private network: then so may others be."""
        with self.lock:
            if self.are_we_inside is None:
                self.are_we_inside = False
                for host, port in (*self.configured, *((self.proxy,) if self.proxy else ())):
                    addresses = [address_of(each[4][0]) for each in self.look_up(host, port)]
                    self.are_we_inside |= any(address in network for address in addresses for network in PRIVATE)
            return self.are_we_inside

    def may(self, host, port, address):
        if (address.is_global and not address.is_multicast and not address.is_reserved) or (host, port) in self.configured:
            return True
        if self.internal.matches(host, port, address):
            return True
        return any(address in network for network in PRIVATE) and self.is_inside()

    def refused_of(self, places, seconds_left):
        """{host: address} of those (host, port) that would be refused."""
        result = {}
        for host, port in places:
            # An index may name many hosts, and name servers that are slow.
            seconds_left()
            literal, found = self.way(host, port)
            addresses = [literal] if literal else [address_of(each[4][0]) for each in found or ()]
            if addresses and not any(self.may(host, port, address) for address in addresses):
                result[host] = addresses[0]
        return result

    def look_at(self, urls, seconds_left):
        """Where files are that will be asked for. Raises what would be said of the first of them, of all of them."""
        refused = self.refused_of(dict.fromkeys(map(place_of, urls)), seconds_left)
        if refused:
            raise Internal(refused)

    # --- the way out -----------------------------------------------------------------------------------------------------

    @staticmethod
    def look_up(host, port):
        """The addresses of a host, as getaddrinfo() gives them; none where there are none."""
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return []

    def way(self, host, port):
        """(the address that the host already is or None, where it is to be connected to itself or None: by the proxy)"""
        literal = literal_of(host)
        if host.lower() == "localhost" or host.lower().endswith(".localhost"):
            literal = LOOPBACK
        if not self.proxy or self.no_proxy.matches(host, port, literal):
            return literal, self.look_up(host, port)
        if literal or not self.no_proxy.has_networks() or (host, port) in self.not_direct:
            return literal, None
        # A network means the names that lead into it, too, as in InternalHosts=.
        found = [each for each in self.look_up(host, port) if self.no_proxy.matches(host, port, address_of(each[4][0]))]
        if not found:
            # It may take long to learn this.
            self.not_direct.add((host, port))
        return None, found or None

    def connect(self, host, port, found):
        """To a host itself. Raises Refused."""
        if not found:
            raise Refused(502, explain_uv(f"https://{host}/\n cause: dns error", 2))
        allowed = [each for each in found if self.may(host, port, address_of(each[4][0]))]
        if not allowed:
            raise Refused(502, Internal({host: address_of(found[0][4][0])}))
        return self.connect_first(allowed, host, port)

    def connect_first(self, found, host, port):
        end = time.monotonic() + self.connect_s
        for i, (family, kind, protocol, _, place) in enumerate(found):
            connection = None
            try:
                # Of a family, too, that the kernel does not have.
                connection = socket.socket(family, kind, protocol)
                connection.settimeout(max(0.5, (end - time.monotonic()) / (len(found) - i)))
                connection.connect(place)
                return connection
            except OSError as e:
                if connection:
                    connection.close()
                last = e
        cause = "timed out" if isinstance(last, TimeoutError) else f"connection error: {last.strerror or last}"
        raise Refused(502, explain_uv(f"https://{host}:{port}/\n cause: {cause}", 2))

    def connect_proxy(self):
        host, port = self.proxy
        found = self.look_up(host, port)
        reason = f"{host}:{port} cannot be reached" if found else "its name cannot be resolved"
        try:
            if found:
                return self.connect_first(found, host, port)
        except Refused:
            pass
        raise Refused(502, explain_uv(f"cause: proxy: {reason}", 2))

    def tunnel(self, host, port):
        """Through the proxy. Returns the connection and what came behind its answer."""
        connection = self.connect_proxy()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            connection.settimeout(self.connect_s)
            connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{self.proxy_header()}\r\n".encode("latin-1"))
            head, rest = read_head(connection, self.connect_s)
        except (OSError, ValueError) as e:
            connection.close()
            raise Refused(502, explain_uv(f"cause: proxy: {getattr(e, 'strerror', None) or e}", 2)) from None
        status = head.split(b"\r\n")[0].decode("latin-1")
        if not re.match(r"HTTP/1\.[01] 2\d\d\b", status):
            connection.close()
            raise Refused(502, explain_uv(f"cause: proxy: {printable(status, 100) or 'no answer'}", 2))
        return connection, rest

    def proxy_header(self):
        return f"Proxy-Authorization: Basic {self.proxy_basic}\r\n" if self.proxy_basic else ""

    # --- one request ------------------------------------------------------------------------------------------------------

    def begin(self, client):
        """Reads what the client wants, and leads it there."""
        key = None
        try:
            head, rest = read_head(client, self.connect_s)
            method, target, headers = self.read_request(head)
            key = place_of("tunnel://" + target if method == "CONNECT" else target)
            server, to_server, to_client = self.lead(method, target, headers, *key)
            with self.lock:
                self.failures.pop(key, None)
        except Refused as e:
            if e.failure:
                with self.lock:
                    self.failures[key] = e.failure
            challenge = 'Proxy-Authenticate: Basic realm="gate"\r\n' if e.status == 407 else ""
            send_and_close(client, f"HTTP/1.1 {e.status} Refused\r\n{challenge}Content-Length: 0\r\nConnection: close\r\n\r\n")
        except (OSError, ValueError):
            client.close()
        else:
            self.relay.add(client, server, to_client, to_server + rest, method != "CONNECT")

    def read_request(self, head):
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = [line.split(":", 1) for line in lines[1:] if ":" in line]
        given = [value.strip() for name, value in headers if name.lower() == "proxy-authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), self.expected):
            raise Refused(407)
        if len(words) != 3 or not (words[0] == "CONNECT" or words[1].startswith("http://")):
            raise Refused(400)
        dropped = ["proxy-authorization", "proxy-connection", "connection", "keep-alive"]
        # An index may say where a file is, and must not make us tell a password to all who listen on the way there.
        if words[0] != "CONNECT" and place_of(words[1])[0] not in self.plain_hosts:
            dropped.append("authorization")
        # One request for each connection: what comes next may be for somebody else.
        kept = "".join(f"{name}:{value}\r\n" for name, value in headers if name.lower() not in dropped)
        return words[0], words[1], kept + "Connection: close\r\n"

    def lead(self, method, target, headers, host, port):
        """The connection, what is to be sent to it first, and what to the client."""
        if not host or not 0 < port < 65536:
            raise Refused(400)
        if not HOST.fullmatch(host.lower()):
            raise Refused(502, Failed("index", f"The index leads to {printable(host, 100)}, which no host is called."))
        literal, found = self.way(host, port)
        # Other names are the proxy's to resolve, and its administrator's to deny.
        if literal and not self.may(host, port, literal):
            raise Refused(502, Internal({host: literal}))
        opening = b"HTTP/1.1 200 Connected\r\n\r\n" if method == "CONNECT" else b""
        if found is None:
            if method == "CONNECT":
                server, rest = self.tunnel(host, port)
                return server, b"", opening + rest
            line = f"{method} {target} HTTP/1.1\r\n{headers}{self.proxy_header()}\r\n"
            return self.connect_proxy(), line.encode("latin-1"), b""
        server = self.connect(host, port, found)
        if method == "CONNECT":
            return server, b"", opening
        parts = urllib.parse.urlsplit(target)
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        return server, f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode("latin-1"), b""


def read_head(connection, seconds):
    """The head of a message, and what came behind it. All of it in time: few at once are waited for."""
    end = time.monotonic() + seconds
    data = b""
    while b"\r\n\r\n" not in data:
        connection.settimeout(max(0.001, end - time.monotonic()))
        more = connection.recv(HEAD_BYTES_MAX)
        if not more or len(data) > HEAD_BYTES_MAX:
            raise ValueError("no head")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def send_and_close(connection, text):
    try:
        connection.sendall(text.encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    connection.close()


class Pair:
    """Two connections, each of which gets what comes from the other."""

    def __init__(self, client, server, to_client, to_server, is_one_answer):
        self.ends = (client, server)
        self.waiting = [to_client, to_server]
        self.ended = [False, False]
        self.status = b"" if is_one_answer else None

    def take(self, i, data):
        """What one end said goes to the other. A server need not say that it will close the connection as it was asked
        to, and a client that believes it open would send the next request into its end."""
        if i == 1 and self.status is not None:
            self.status += data
            line, end, rest = self.status.partition(b"\r\n")
            if not end and data and len(line) < HEAD_BYTES_MAX:
                return
            data = line + end + (b"Connection: close\r\n" if end else b"") + rest
            self.status = None
        self.waiting[1 - i] = data


class Relay:
    """Carries bytes between pairs, all of them in one thread: uv opens dozens of connections, and threads are counted."""

    def __init__(self, listener, begin):
        self.listener, self.begin = listener, begin
        self.new = []
        # No socket pair: there are none in the sandbox of fetching.
        self.wake_read, self.wake_write = os.pipe()
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, None)
        self.selector.register(self.wake_read, selectors.EVENT_READ, None)
        self.setups = concurrent.futures.ThreadPoolExecutor(SETUPS)
        threading.Thread(target=self.loop, daemon=True).start()

    def add(self, *pair):
        self.new.append(Pair(*pair))
        os.write(self.wake_write, b"x")

    def loop(self):
        while True:
            for key, events in self.selector.select():
                if key.fileobj is self.listener:
                    self.accept()
                elif key.data is None:
                    os.read(self.wake_read, 4096)
                    while self.new:
                        self.start(self.new.pop())
                else:
                    self.step(*key.data, events)

    def accept(self):
        try:
            self.setups.submit(self.begin, self.listener.accept()[0])
        except OSError:
            # Too many descriptors: until some are closed.
            time.sleep(0.1)

    def start(self, pair):
        for i, end in enumerate(pair.ends):
            end.setblocking(False)
            self.selector.register(end, selectors.EVENT_READ, (pair, i))
        self.step(pair, 0, selectors.EVENT_WRITE)
        self.step(pair, 1, selectors.EVENT_WRITE)

    def step(self, pair, i, events):
        if pair.ends[0].fileno() < 0:
            return
        try:
            if events & selectors.EVENT_READ and not pair.waiting[1 - i] and not pair.ended[i]:
                data = pair.ends[i].recv(HEAD_BYTES_MAX)
                pair.take(i, data)
                if not data:
                    pair.ended[i] = True
                    pair.ends[1 - i].shutdown(socket.SHUT_WR)
            for j in (0, 1):
                if pair.waiting[j]:
                    self.send(pair, j)
            # What a server does not read any more is no reason to keep what it has said from the client.
            is_over = pair.ended[1] and not pair.waiting[0]
        except OSError:
            is_over = True
        for j in (0, 1):
            wanted = (0 if pair.ended[j] or pair.waiting[1 - j] else selectors.EVENT_READ) | \
                (selectors.EVENT_WRITE if pair.waiting[j] else 0)
            self.watch(pair, j, 0 if is_over else wanted)
        if is_over:
            for end in pair.ends:
                end.close()

    @staticmethod
    def send(pair, i):
        try:
            pair.waiting[i] = pair.waiting[i][pair.ends[i].send(pair.waiting[i]):]
        except BlockingIOError:
            pass

    def watch(self, pair, i, wanted):
        end = pair.ends[i]
        is_watched = end in self.selector.get_map()
        if wanted and is_watched:
            self.selector.modify(end, wanted, (pair, i))
        elif wanted:
            self.selector.register(end, wanted, (pair, i))
        elif is_watched:
            self.selector.unregister(end)
