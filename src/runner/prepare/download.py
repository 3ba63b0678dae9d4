# SPDX-License-Identifier: MIT
"""The downloader: files of wheels over http and https, each against the hash that the lock names."""

import concurrent.futures
import hashlib
import http.client
import netrc
import os
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request

from common import DiskFull, Failed, basic, printable, progress, secrets, spelled
from explain import explain_uv
from gate import place_of

CHUNK_BYTES = 1 << 18
PARALLEL = 4
ATTEMPTS = 2
FILE_ERRORS_FULL = (27, 28, 122)  # EFBIG, ENOSPC, EDQUOT
CREDENTIALS = "index-credentials"


class Package:
    """One package of the lock, with the file that was chosen for it."""

    def __init__(self, name, version, url, file, sha256, size):
        self.name, self.version, self.url, self.file, self.sha256, self.size = name, version, url, file, sha256, size
        self.n_counted = 0      # of its file, in what all of them are so far

    def facts(self):
        return {"name": self.name, "version": self.version, "file": self.file, "sha256": self.sha256,
                "size_bytes": self.size}


def credentials_of_url(url):
    """{host: Basic …} of what a URL carries, which nobody should put there. uv leaves it out of its lock."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return {}
    if not parts.username or not parts.hostname:
        return {}
    secrets.add(parts.username)
    secrets.add(parts.password)
    return {spelled(parts.hostname): basic(urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))}


def read_credentials():
    """The administrator's credentials for indexes: the path of the file, or None, and {host: Basic …}."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = directory + "/" + CREDENTIALS
    if not directory or not os.path.exists(path):
        return None, {}
    try:
        hosts = netrc.netrc(path).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        # The error's text could quote the file.
        raise Failed("unauthorized", f"{path}, where the credentials for indexes are to be (IndexCredentials= in mcp-exec.conf), "
                     "cannot be read; it must be in netrc's syntax. The administrator has to correct it.") from None
    result = {}
    for host, (login, _, password) in hosts.items():
        pair = basic(login, password)
        # An entry for any host would be sent to whoever the index points at.
        if host != "default":
            result[spelled(host)] = pair
    return path, result


class Downloader:
    """Brings the files of packages. seconds_left() raises at the end of the budget."""

    def __init__(self, order, environment, credentials, gate, seconds_left):
        self.order = order
        self.credentials = credentials
        self.gate = gate
        self.seconds_left = seconds_left
        self.n_bytes = 0
        self.n_started = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()
        # urllib's ideas of what needs no proxy come from there.
        os.environ.clear()
        os.environ.update(environment)
        self.opener = self.make_opener()

    def make_opener(self):
        """Opens http and https and nothing else: an index may not point at a file of ours."""
        try:
            context = ssl.create_default_context(cafile=self.order["ca_bundle"] or None)
        except OSError:
            raise Failed("tls", f"{self.order['ca_bundle']}, where the CA certificates are to be (CaBundle= in "
                         "mcp-exec.conf), has none in PEM form that can be read. The administrator has to correct it.") from None
        # As uv: what it takes must not be refused here. Newer Pythons want extensions that CAs of companies often lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        opener = urllib.request.OpenerDirector()
        proxies = {"http": self.gate.url, "https": self.gate.url}
        for handler in (urllib.request.ProxyHandler(proxies), urllib.request.UnknownHandler(), urllib.request.HTTPHandler(),
                        urllib.request.HTTPSHandler(context=context), urllib.request.HTTPDefaultErrorHandler(),
                        Redirects(), urllib.request.HTTPErrorProcessor()):
            opener.add_handler(handler)
        return opener

    def bring(self, packages, directory):
        """The files of all of them. One that fails ends it."""
        wanted = [package for package in packages if package.url]
        total = sum(package.size for package in packages)
        if total > self.order["max_total_bytes"]:
            raise Failed("too-large", f"These packages are {total >> 20} MiB to download; {self.order['max_total_bytes'] >> 20} "
                         "MiB are allowed.")
        pool = concurrent.futures.ThreadPoolExecutor(PARALLEL)
        futures = [pool.submit(self.bring_one, package, len(wanted), directory) for package in wanted]
        try:
            for future in concurrent.futures.as_completed(futures, self.seconds_left()):
                future.result()
        except TimeoutError:
            # A server can keep each single wait short, and never come to an end.
            self.seconds_left()
            raise
        finally:
            self.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            concurrent.futures.wait(futures, 1)

    def bring_one(self, package, n_all, directory):
        with self.lock:
            self.n_started += 1
            progress(f"downloading {min(self.n_started, n_all)}/{n_all} {package.name}")
        for attempt in range(ATTEMPTS):
            try:
                return self.transfer(package, directory)
            except Failed:
                raise
            except (OSError, http.client.HTTPException, ValueError) as e:
                is_last = attempt + 1 == ATTEMPTS or self.stop.is_set()
                failure = self.explain_transfer(package, e)
                if is_last or failure.kind not in ("index", "dns") or getattr(e, "code", 500) < 500:
                    raise failure from None
                self.stop.wait(min(1, self.seconds_left()))

    def transfer(self, package, directory):
        url = urllib.parse.urlsplit(package.url)
        request = urllib.request.Request(package.url, headers={"User-Agent": "mcp-exec", "Accept-Encoding": "identity"})
        host, _ = place_of(package.url)
        if host in self.credentials:
            # Not for the host that it may be redirected to.
            request.add_unredirected_header("Authorization", "Basic " + self.credentials[host])
        digest = hashlib.sha256()
        n_bytes = 0
        self.count(package, 0)
        with self.opener.open(request, timeout=min(20, self.seconds_left())) as response:
            self.go_on()
            path = directory + "/" + package.file
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o644), "wb", buffering=0) as f:
                while data := response.read1(CHUNK_BYTES):
                    self.go_on()
                    n_bytes += len(data)
                    self.count(package, n_bytes)
                    digest.update(data)
                    view = memoryview(data)
                    while view:
                        view = view[f.write(view):]
            length = response.headers.get("Content-Length", "")
            if length.isdecimal() and int(length[:20]) > n_bytes:
                raise http.client.IncompleteRead(b"")
        if digest.hexdigest() != package.sha256:
            os.unlink(path)
            raise Failed("hash-mismatch", f"The file {package.file} from {url.hostname} is not what the index says it is: its "
                         "sha256 differs. Nothing was installed. Try again; if it stays so, the index or a cache before it "
                         "is broken or hostile.")
        package.size = n_bytes

    def go_on(self):
        """Or not."""
        if self.stop.is_set():
            raise Failed("internal", "stopped")
        self.seconds_left()

    def count(self, package, n_bytes):
        with self.lock:
            # What came of a transfer that broke off is no part of what all files are together.
            self.n_bytes += n_bytes - package.n_counted
            package.n_counted = n_bytes
            if n_bytes > self.order["max_wheel_bytes"]:
                raise Failed("too-large", f"The file of {package.name} is larger than the "
                             f"{self.order['max_wheel_bytes'] >> 20} MiB that are allowed.")
            if self.n_bytes > self.order["max_total_bytes"]:
                raise Failed("too-large", f"These packages are larger than the {self.order['max_total_bytes'] >> 20} MiB that "
                             "are allowed.")

    def explain_transfer(self, package, e):
        host = urllib.parse.urlsplit(package.url).hostname
        reason = getattr(e, "reason", e)
        code = getattr(e, "code", 0)
        if getattr(e, "errno", None) in FILE_ERRORS_FULL:
            return DiskFull()
        # Where a certificate was seen, nothing of the way there was wrong.
        if isinstance(reason, ssl.SSLCertVerificationError):
            return explain_uv(f"https://{host}/\n cause: certificate: {reason}", 2)
        if (failure := self.gate.failure()) and (code == 502 or isinstance(reason, OSError)):
            return failure
        if code == 404 or code == 410:
            return Failed("index", f"{host} no longer has the file {package.file} ({code}). Use another version.")
        if code:
            kind = {401: "HTTP 401", 403: "HTTP 403", 407: "407 Proxy Authentication"}.get(code, f"HTTP {code}")
            return explain_uv(f"Failed to fetch: https://{host}/\n  cause: {kind}", 2)
        if isinstance(reason, TimeoutError):
            return explain_uv(f"https://{host}/\n cause: timed out", 2)
        return explain_uv(f"https://{host}/\n cause: connection error: {printable(reason, 200)}", 2)


class Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if not newurl.startswith(("http://", "https://")):
            raise Failed("index", "The index redirects to something that is neither http nor https.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req, fp, code, msg, headers):
        # What comes with a redirect would be read to its end, which a server need not send.
        fp.close()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
