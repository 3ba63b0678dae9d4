#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch: the choice of wheels, the downloads from an index that is honest or not, and what becomes of uv's words. uv is
played; test_real_uv.py has the real one."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import signal
import stat
import sysconfig

import rig
import wheels
from rig import Prefix, contains, equal


def lock_of(index, *files, name=None, **more):
    """A lock as uv writes it, with one package for each list of files."""
    text = 'lock-version = "1.0"\n'
    for file in files:
        each = [file] if isinstance(file, str) else file
        entries = ", ".join(
            f'{{ url = "{more.get("url") or index.url.replace("simple/", "files/") + f}", size = {more.get("size", 100)}, hashes = '
            f'{{ sha256 = "{more.get("sha256") or hashlib.sha256(index.files.get(f, b"")).hexdigest()}" }} }}' for f in each)
        text += (f'[[packages]]\nname = "{name or each[0].split("-")[0].replace("_", "-")}"\nversion = "1.0"\n'
                 f'wheels = [{entries}]\n')
    return text


def failure(answer):
    return answer[0]["error"]["kind"], answer[0]["error"]["message"]


def fetch_lock(index, lock, environment=None, **order):
    """(answer, names left in the prefix) of a fetch whose uv gave this lock."""
    with Prefix() as p:
        p.play_uv(lock=lock)
        answer, _ = p.fetch(["x"], environment, **{"index_url": index.url, **order})
        return answer, p.names()


def test_wheels_are_fetched():
    with wheels.Index() as index, Prefix() as p:
        one, two = wheels.wheel("mx-one"), wheels.wheel("mx-two")
        index.add(one).add(two)
        p.play_uv(lock=lock_of(index, two[0], one[0]), stderr="warning: `mx-one==1.0` is yanked (reason: \"bad.\")\nResolved 2\n")
        answer, lines = p.fetch(["mx-two", "mx-one"], index_url=index.url)
        equal([(e["name"], e["version"], e["file"], e["sha256"], e["size_bytes"]) for e in answer["packages"]],
              [(f.split("-")[0].replace("_", "-"), "1.0", f, hashlib.sha256(c).hexdigest(), len(c)) for f, c in (one, two)])
        equal(answer["warnings"], ["mx-one==1.0 was withdrawn by its authors (bad); use another version."])
        equal((answer["is_known"], answer["download_bytes"]), (False, len(one[1]) + len(two[1])))
        equal(sorted(lines), ["@ downloading 1/2 mx-one", "@ downloading 2/2 mx-two", "@ resolving"])
        equal(p.names(), [".lock", ".wheels"])
        equal(pathlib.Path(p.path, ".wheels", one[0]).read_bytes(), one[1])
        equal(stat.S_IMODE(os.stat(f"{p.path}/.wheels/{one[0]}").st_mode), 0o644)
        lock = json.loads(pathlib.Path(p.path, ".lock").read_text())
        equal(lock, {"lock_sha256": answer["lock_sha256"], "python": "", "packages": answer["packages"]})


def test_a_known_lock_ends_it_before_downloads():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        lock = lock_of(index, *index.files)
        first, _ = fetch_lock(index, lock)
        index.requests.clear()
        answer, names = fetch_lock(index, lock, known_locks=["0" * 64, first["lock_sha256"]])
        equal((answer["is_known"], answer["lock_sha256"], index.requests, names), (True, first["lock_sha256"], [], []))


def test_what_uv_is_told():
    with Prefix() as p:
        p.play_uv(lock="packages = []\n")
        answer, _ = p.fetch(["a>=1", 'b ; os_name == "x"'], {"UV_INDEX": "http://evil", "PIP_INDEX_URL": "http://evil", "X": "y"},
                            index_url="http://index/", extra_index_urls=["http://e1/", "http://e2/"], proxy="http://proxy:1",
                            no_proxy=["local"], exclude_newer="2026-01-01",
                            tool_uv={"exclude-newer": "2025-01-01", "prerelease": "allow", "constraint-dependencies": ["c<2"]})
        equal(answer["packages"], [])
        called = json.loads(pathlib.Path(p.top, "called.json").read_text())
        arguments, environment = called["arguments"], called["environment"]
        for word in ("--no-config", "--no-build", "--no-sources", "--no-python-downloads"):
            contains(arguments, word)
        equal([word for word in arguments if "http" in word], [])
        equal(arguments[arguments.index("--prerelease") + 1], "allow")
        # The one way out, and not the administrator's proxy itself: its password is not uv's affair.
        equal({re.sub("[0-9a-f]{32}|[0-9]+$", "N", environment[key]) for key in environment if "proxy" in key.lower()},
              {"http://gate:N@127.0.0.1:N"})
        equal(sorted(key for key in environment if "proxy" in key.lower()),
              ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"])
        equal({key: environment.get(key) for key in ("PATH", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXCLUDE_NEWER", "PIP_INDEX_URL",
                                                     "X", "NETRC")},
              {"PATH": "/nonexistent", "UV_DEFAULT_INDEX": "http://index/", "UV_INDEX": "http://e1/ http://e2/",
               "UV_EXCLUDE_NEWER": "2025-01-01", "PIP_INDEX_URL": None, "X": None, "NETRC": None})
        # However many processors the machine has: so many threads fit into PrepareTasksMax=.
        equal({key: value for key, value in environment.items() if re.search("CONCURRENT|THREADS", key)},
              {"UV_CONCURRENT_DOWNLOADS": "8", "UV_CONCURRENT_BUILDS": "1", "UV_CONCURRENT_INSTALLS": "4",
               "RAYON_NUM_THREADS": "4", "TOKIO_WORKER_THREADS": "2"})


def test_a_span_before_now_is_a_bound_that_no_script_moves():
    for script, is_ours in (("2020-01-01", False), ("2999-01-01", True), ("", True)):
        with Prefix() as p:
            p.play_uv(lock="packages = []\n")
            p.fetch(["a"], index_url="http://index/", exclude_newer="P1W", tool_uv={"exclude-newer": script} if script else {})
            told = json.loads(pathlib.Path(p.top, "called.json").read_text())["environment"]["UV_EXCLUDE_NEWER"]
            if not is_ours:
                equal(told, script)
                continue
            ago = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(told.replace("Z", "+00:00"))
            equal(ago.days, 7)


def test_an_interpreter_of_its_own():
    with wheels.Index() as index, Prefix() as p:
        index.add(wheels.wheel("mx-one"))
        p.play_uv(lock=lock_of(index, *index.files))
        answer, lines = p.fetch(["mx-one"], index_url=index.url, tool_uv={"python": ">=3.12,==3.12.*"}, python="/bin/false")
        lock = json.loads(pathlib.Path(p.path, ".lock").read_text())
        minor = sysconfig.get_config_var("py_version_nodot")[1:]
        equal((lock["python"], p.names()),
              (f"python/cpython-3.{minor}.0-linux/bin/python3.{minor}", [".lock", ".wheels", "python"]))
        # uv's own files and shorter names are gone.
        equal(os.listdir(p.path + "/python"), [f"cpython-3.{minor}.0-linux"])
        equal(lines[0], "@ downloading Python")
        # The same wheels for another interpreter are another set.
        plain, _ = fetch_lock(index, lock_of(index, *index.files))
        equal(answer["lock_sha256"] == plain["lock_sha256"], False)


def test_an_interpreter_that_cannot_be_had():
    with Prefix() as p:
        p.play_uv(status=2, stderr="error: No download found for request: cpython-3.99-linux-x86_64-gnu\n")
        kind, message = failure(p.fetch(["x"], tool_uv={"python": "==3.99.*"}))
        equal((kind, p.names()), ("python", []))
        contains(message, "==3.99.*")


def test_the_earlier_of_two_dates():
    for one, other, expected in (("2026-01-31", "2026-02-01", "2026-01-31"),
                                 # A date means its end.
                                 ("2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
                                 ("2026-01-31", "2026-02-01T00:00:01Z", "2026-01-31"),
                                 ("2026-01-31T01:00:00Z", "2026-01-31T02:00:00+02:00", "2026-01-31T02:00:00+02:00"),
                                 ("", "2026-01-31", "2026-01-31"), ("2026-01-31", "", "2026-01-31"),
                                 # The end of the last day that there is.
                                 ("9999-12-31", "2026-01-31", "2026-01-31"), ("9999-12-31", "", "9999-12-31"),
                                 ("P99999W", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00")):
        with Prefix() as p:
            p.play_uv(lock="packages = []\n")
            p.fetch(["x"], exclude_newer=one, tool_uv={"exclude-newer": other} if other else {})
            called = json.loads(pathlib.Path(p.top, "called.json").read_text())
            equal((one, other, called["environment"]["UV_EXCLUDE_NEWER"]), (one, other, expected))


# --- the choice ----------------------------------------------------------------------------------------------------------

def test_the_best_wheel_for_this_interpreter():
    minor = int(sysconfig.get_config_var("py_version_nodot")[1:])
    me, machine = f"cp3{minor}", os.uname().machine
    order = [f"mx_one-1.0-{me}-{me}-manylinux_2_17_{machine}.manylinux2014_{machine}.whl", f"mx_one-1.0-{me}-{me}-linux_{machine}.whl",
             f"mx_one-1.0-{me}-abi3-manylinux_2_17_{machine}.whl", f"mx_one-1.0-cp38-abi3-manylinux2014_{machine}.whl",
             f"mx_one-1.0-py3-none-manylinux2014_{machine}.whl", "mx_one-1.0-2-py3-none-any.whl", "mx_one-1.0-py3-none-any.whl",
             "mx_one-1.0-py38-none-any.whl"]
    with wheels.Index() as index:
        for file in order:
            index.add((file, b"x"))
        while order:
            answer, _ = fetch_lock(index, lock_of(index, sorted(order)))
            equal(answer["packages"][0]["file"], order.pop(0))


def test_wheels_for_others():
    files = ["mx_one-1.0-cp27-cp27m-any.whl", "mx_one-1.0-cp311-cp311-win_amd64.whl", "mx_one-1.0-cp399-abi3-any.whl",
             "mx_one-1.0-py3-none-macosx_11_0_arm64.whl", "mx_one-1.0-cp311-cp311-manylinux_2_17_vax.whl"]
    with wheels.Index() as index:
        for file in files:
            answer, names = fetch_lock(index, lock_of(index, file))
            equal((answer["error"]["kind"], names), ("no-wheel", []))


def test_tags_agree_with_packaging():
    try:
        from packaging import tags
    except ImportError:
        raise rig.Skip("the interpreter has no module packaging") from None
    ours = list(rig.load("fetch").Target(rig.PYTHON).ranks)
    theirs = [(tag.interpreter, tag.abi, tag.platform) for tag in tags.sys_tags()]
    equal(sorted(set(theirs) - set(ours))[:3], [])
    # Where linux_MACHINE stands differs from one release of packaging to the next.
    theirs = [tag for tag in dict.fromkeys(theirs) if not tag[2].startswith("linux_")]
    equal([tag for tag in ours if tag in set(theirs)], theirs)


def test_locks_that_are_not_what_they_should_be():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        file = next(iter(index.files))
        for lock, kind in ((lock_of(index, file, url="file:///etc/passwd"), "no-wheel"),
                           (lock_of(index, file, url="file:///etc/" + file), "index"),
                           (lock_of(index, file, url="ftp://h/" + file), "index"),
                           (lock_of(index, file, sha256="zz"), "index"), (lock_of(index, file, name="mx-other"), "no-wheel"),
                           (lock_of(index, file, file), "internal"), ("this is no TOML", "internal"), ("", "internal"),
                           (lock_of(index, file, name="../x"), "index"), (lock_of(index, "mx_one-1.0-py3-none-any.whl%2fx"), "no-wheel"),
                           ('[[packages]]\nname = "x"\nversion = "1"\ndirectory = { path = "/" }\n', "policy"),
                           ('[[packages]]\nname = "x"\nversion = "1"\narchive = { url = "https://h/x-1-py3-none-any.whl" }\n', "policy"),
                           ('[[packages]]\nname = "x"\nversion = "1"\nvcs = { type = "git", url = "https://h" }\n', "policy"),
                           ('[[packages]]\nname = "x"\narchive = { url = "https://h/x.zip", subdirectory = "x" }\n', "policy"),
                           ('[[packages]]\nname = "x"\nversion = "1\\n2"\nwheels = []\n', "index")):
            answer, names = fetch_lock(index, lock)
            equal((lock, answer["error"]["kind"], names), (lock, kind, []))


def test_a_package_in_a_directory_of_an_archive_is_not_taken_for_the_whole_of_it():
    with wheels.Index() as index:
        lock = '[[packages]]\nname = "x"\narchive = { url = "%sfiles/x.zip", subdirectory = "x" }\n' % index.top
        answer, names = fetch_lock(index, lock, allow_urls=True, allow_source_builds=True)
        equal((answer["error"]["kind"], names, index.requests), ("no-wheel", [], []))
        contains(answer["error"]["message"], "x is in a directory of its archive")


def test_denied_packages_of_others():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        answer, _ = fetch_lock(index, lock_of(index, *index.files), deny=["MX_o*"])
        equal(answer["error"]["kind"], "policy")
        contains(answer["error"]["message"], "mx-one")


def test_limits():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one", "1.0", {"x": os.urandom(5000)})).add(wheels.wheel("mx-two"))
        lock = lock_of(index, *index.files)
        for limit in ({"max_packages": 1}, {"max_wheel_bytes": 4000}, {"max_total_bytes": 5000}, {"max_total_bytes": 150}):
            answer, names = fetch_lock(index, lock, **limit)
            equal((limit, answer["error"]["kind"], names), (limit, "too-large", []))


# --- downloads -----------------------------------------------------------------------------------------------------------

def test_downloads_that_fail():
    for behaviour, kind in (("401", "unauthorized"), ("403", "unauthorized"), ("404", "index"), ("500", "index"), ("503", "index"),
                            ("407", "proxy"), ("drop", "index"), ("garbage", "hash-mismatch"), ("redirect-file", "index")):
        with wheels.Index() as index:
            index.add(wheels.wheel("mx-one"))
            file = next(iter(index.files))
            index.behaviours[file] = behaviour
            answer, names = fetch_lock(index, lock_of(index, file))
            equal((behaviour, answer["error"]["kind"], names), (behaviour, kind, []))
            # What may pass by itself is tried twice.
            equal((behaviour, len(index.requests)), (behaviour, 2 if behaviour in ("500", "503", "drop") else 1))


def test_a_wrong_hash():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        answer, names = fetch_lock(index, lock_of(index, *index.files, sha256="0" * 64))
        equal((answer["error"]["kind"], names), ("hash-mismatch", []))


def test_servers_that_never_end():
    for behaviour in ("hang", "slow"):
        with wheels.Index() as index:
            index.add(wheels.wheel("mx-one"))
            file = next(iter(index.files))
            index.behaviours[file] = behaviour
            answer, names = fetch_lock(index, lock_of(index, file), budget_s=4)
            equal((behaviour, answer["error"]["kind"] in ("timeout", "index"), names), (behaviour, True, []))


def test_nobody_listens():
    with wheels.Index() as index:
        index.add(wheels.wheel("mx-one"))
        lock = lock_of(index, *index.files)
    answer, _ = fetch_lock(index, lock)
    equal(answer["error"]["kind"], "index")
    contains(answer["error"]["message"], "Connection refused")


def test_a_proxy_that_refuses():
    with wheels.Index() as index, wheels.Proxy(407) as proxy:
        index.add(wheels.wheel("mx-one"))
        answer, _ = fetch_lock(index, lock_of(index, *index.files), proxy=proxy.url)
        equal((answer["error"]["kind"], len(proxy.requests), index.requests), ("proxy", 1, []))
        answer, _ = fetch_lock(index, lock_of(index, *index.files), proxy=proxy.url, no_proxy=["127.0.0.1"])
        equal("error" in answer, False)


# --- credentials ---------------------------------------------------------------------------------------------------------

def with_credentials(text, index, lock, **order):
    with Prefix() as p:
        directory = p.top + "/credentials"
        os.mkdir(directory)
        pathlib.Path(directory, "index-credentials").write_text(text)
        p.play_uv(lock=lock, **order.pop("play", {}))
        answer, lines = p.fetch(["x"], {"CREDENTIALS_DIRECTORY": directory}, **{"index_url": index.url, **order})
        called = pathlib.Path(p.top, "called.json")
        return answer, json.dumps(answer) + "".join(lines), called.exists() and json.loads(called.read_text())


def test_credentials_of_an_index():
    index = wheels.Index(user="bob", password="S3cret-w0rd")
    with index:
        index.add(wheels.wheel("mx-one"))
        lock = lock_of(index, *index.files)
        equal(fetch_lock(index, lock)[0]["error"]["kind"], "unauthorized")
        answer, said, called = with_credentials("machine 127.0.0.1 login bob password S3cret-w0rd\n", index, lock)
        equal("error" in answer, False)
        equal(("S3cret" in said, "S3cret" in json.dumps(called), "credentials/index-credentials" in called["environment"]["NETRC"]),
              (False, False, True))
        # Not for any host, and not for another one.
        for text in ("default login bob password S3cret-w0rd\n", "machine other login bob password S3cret-w0rd\n"):
            index.authorizations.clear()
            equal(with_credentials(text, index, lock)[0]["error"]["kind"], "unauthorized")
            equal(set(index.authorizations), {""})


def test_credentials_are_never_repeated():
    stderr = ("error: Failed to fetch: https://bob:S3cret-w0rd@h/\n  cause: S3cret-w0rd S3cret%2Dw0rd is wrong\n"
              "  cause: something strange with S3cret-w0rd\n")
    with wheels.Index() as index:
        answer, said, _ = with_credentials("machine h login bobby password S3cret-w0rd\n", index, "",
                                           play={"status": 2, "stderr": stderr})
        equal((answer["error"]["kind"], "S3cret-w0rd" in said), ("index", False))
        contains(said, "***")
        answer, said, _ = with_credentials("machine h login bobby password S3cret-w0rd nonsense\n", index, "")
        equal((answer["error"]["kind"], "S3cret" in said), ("unauthorized", False))
        with Prefix() as p:
            p.play_uv(status=2, stderr="error: Failed to fetch: proxy says Pr0xy-word\n")
            answer, _ = p.fetch(["x"], proxy="http://user:Pr0xy-word@127.0.0.1:1")
            equal("Pr0xy" in json.dumps(answer), False)


def test_no_builds_where_there_are_credentials():
    with wheels.Index() as index:
        for order in ({"allow_source_builds": True}, {"allow_vcs": True}):
            answer, _, called = with_credentials("machine h login bobby password S3cret-w0rd\n", index, "", **order)
            equal((answer["error"]["kind"], called), ("policy", False))


# --- refusals before anything happens --------------------------------------------------------------------------------------

def test_refusals():
    with Prefix() as p:
        p.play_uv()
        for order, kind in (({"uv": ""}, "no-uv"), ({"uv": "/nonexistent/uv"}, "no-uv"), ({"offline": True}, "offline"),
                            ({"python": "/nonexistent"}, "python"), ({"python": "/bin/true"}, "python"),
                            ({"requirements": ["x @ https://h/x.whl"]}, "policy"),
                            ({"requirements": ["x @ git+https://h/x"], "allow_urls": True}, "policy"),
                            ({"tool_uv": {"override-dependencies": ["x @ git+https://h/x"]}}, "policy"),
                            ({"tool_uv": {"python": ">=3.12"}, "allow_source_builds": True}, "policy"),
                            ({"ca_bundle": "/nonexistent"}, "tls")):
            answer, _ = p.fetch(**{"requirements": ["x"], **order})
            equal((order, answer["error"]["kind"], p.names()), (order, kind, []))
            if kind == "no-uv":
                contains(answer["error"]["message"], "UvPath= in mcp-exec.conf; mcp-exec check says how.")
        equal(os.path.exists(p.top + "/called.json"), False)
        pathlib.Path(p.path, "something").touch()
        equal(failure(p.fetch(["x"]))[0], "internal")


def test_files_are_named_as_the_administrator_knows_them():
    """Not by the names that they have inside the unit."""
    with Prefix() as p:
        p.play_uv()
        p.play_uv(status=2, stderr=f"error: Failed to spawn {p.path}/.tmp/cache/x: {p.uv} and https://h{p.uv}/x\n")
        bundle = p.top + "/ca-bundle.pem"
        pathlib.Path(bundle).write_text("no certificate\n")
        os.mkdir(p.top + "/credentials")
        pathlib.Path(p.top, "credentials/index-credentials").write_text("no netrc\n")
        outside = {bundle: "/etc/company.pem", "index-credentials": "/root/netrc", p.uv: "/opt/uv"}
        kind, message = failure(p.fetch(["x"], ca_bundle=bundle, outside=outside))
        equal((kind, message), ("tls", "/etc/company.pem, where the CA certificates are to be (CaBundle= in mcp-exec.conf), has none in "
                                       "PEM form that can be read. The administrator has to correct it."))
        kind, message = failure(p.fetch(["x"], {"CREDENTIALS_DIRECTORY": p.top + "/credentials"}, outside=outside))
        equal((kind, message.split(",")[0]), ("unauthorized", "/root/netrc"))
        contains(message, "IndexCredentials=")
        contains(failure(p.fetch(["x"], outside=outside))[1], f"Failed to spawn a temporary file: /opt/uv and https://h{p.uv}/x")


# --- uv's words ------------------------------------------------------------------------------------------------------------

NO_SOLUTION = "error: No solution found when resolving dependencies\n  cause: "
FETCH = "error: Failed to fetch: https://bob:pw@index.example/simple/proxy-tools-401/\n  cause: error sending request\n  cause: "

WORDS = (
    (1, NO_SOLUTION + "Because python-docx-nope was not found in the package registry and mcp-exec-script depends on docx.nope, we …",
     "unknown-package", "the script depends on docx.nope"),
    (1, NO_SOLUTION + "Because nope was not found in the package registry and mcp-exec-script depends on nope, we can conclude "
     "that your requirements are unsatisfiable.", "unknown-package", "the script depends on nope"),
    (1, NO_SOLUTION + "Because cv2 was not found in the package registry and you require cv2, we can conclude ….", "unknown-package",
     "The module cv2 comes with the package opencv-python-headless."),
    (1, NO_SOLUTION + "Because sklearn has no wheels and building from source is disabled for `sklearn`, we ….", "no-wheel",
     "The module sklearn comes with the package scikit-learn."),
    (1, NO_SOLUTION + "Because there is no version of six==99 and mcp-exec-script depends on six==99, we can conclude ….",
     "no-version", "there is no version of six==99"),
    (1, NO_SOLUTION + "Because mcp-exec-script depends on numpy<2 and numpy>=2, we can conclude that your requirements are "
     "unsatisfiable.", "no-solution", "numpy<2 and numpy>=2"),
    (1, NO_SOLUTION + "Because only x==1 is available and x==1 has no usable wheels, we …\n\nhint: Wheels are required for `x` "
     "because building from source is disabled for all packages", "no-wheel", "x==1 has no usable wheels"),
    (1, NO_SOLUTION + "Because x==1 has no wheels with a matching Python ABI tag (e.g., `cp311`) and …", "no-wheel", "`cp311`"),
    (1, NO_SOLUTION + "Because the current Python version (3.11.2) does not satisfy Python>=3.99 and …", "python", "3.99"),
    (1, NO_SOLUTION + "Because x was not found in the package registry and …\n\nhint: An index URL (https://h/simple) could not be "
     "queried due to a lack of valid authentication credentials (401 Unauthorized).", "unauthorized", "credentials"),
    (1, "error: Failed to resolve dependencies for package `a==1`\n  cause: Package `b` was included as a URL dependency.", "policy",
     "at a URL"),
    (2, FETCH + "tcp connect error\n  cause: Connection refused (os error 111)", "index", "index.example cannot be reached "
     "(Connection refused (os error 111))"),
    (2, FETCH + "dns error\n  cause: failed to lookup address information", "dns", "The name index.example"),
    (2, FETCH + "tunnel error: proxy authorization required", "proxy", "proxy"),
    (2, FETCH + "HTTP status client error (401 Unauthorized) for url (https://x/)", "unauthorized", "401"),
    (2, FETCH + "HTTP status client error (403 Forbidden) for url (https://x/)", "unauthorized", "403"),
    (2, FETCH + "HTTP status server error (503 Service Unavailable) for url (https://x/)", "index", "problem of its own"),
    (2, FETCH + "operation timed out", "index", "in time"),
    (2, FETCH + "invalid peer certificate: UnknownIssuer", "tls", "CA bundle"),
    (2, FETCH + "invalid peer certificate: certificate not valid for name \"tunnel-proxy.example\"; it is only valid for x", "tls",
     "CA bundle"),
    (2, FETCH + "client error (Connect)\n  cause: tls handshake eof", "index", "cannot be reached (tls handshake eof)"),
    (1, "error: Failed to download `proxy-tools==401`\n  cause: Failed to fetch: `https://h/`\n  cause: operation timed out", "index",
     "in time"),
    (1, "error: Failed to write\n  cause: No space left on device (os error 28)", "disk-full", "full"),
    (2, "error: Received some unexpected JSON from `https://h/`\n  cause: expected value at line 1", "index", "not understood"),
    (2, "error: Failed to inspect Python interpreter from provided path\n  cause: interpreter not found", "python", "interpreter"),
    (1, "error: Failed to install cpython-3.12.8-linux-x86_64-gnu\n  cause: Hash mismatch for `cpython-3.12.8-linux-x86_64-gnu`\n\n"
     "         Expected:\n         00\n", "hash-mismatch", "sha256 differs"),
    (1, "error: Failed to download and build `x @ git+https://h/x`\n  cause: Git operation failed\n  cause: Git executable not found. "
     "Ensure that Git is installed and available.\n", "internal", "git, which brings packages from repositories, is not installed"),
    (101, "thread main panicked", "internal", "status 101"),
    (127, "uv: error while loading shared libraries: libx.so.1: cannot open shared object file", "internal",
     "libx.so.1: cannot open shared object file. Try again; if it stays so, the administrator has to look whether uv works"),
    (2, "", "no-uv", "failed with status 2 and gave no reason: the program that is found as uv does not work, or is no uv. The "
     "administrator has to install it anew where it is, or to name another one with UvPath="),
)


def test_what_uv_says_is_explained():
    # In this process: dozens of interpreters would take minutes on a busy machine.
    program = rig.load("fetch")
    for status, stderr, kind, part in WORDS:
        error = program.error_answer(program.explain_uv(stderr + "\n", status), "")["error"]
        equal((stderr, error["kind"]), (stderr, kind))
        equal("comes with the package" in error["message"], "comes with" in part)
        contains(error["message"], part)
        equal(("bob" in error["message"], "\n" in error["message"]), (False, False))
    with Prefix() as p:
        status, stderr, kind, _ = WORDS[0]
        p.play_uv(status=status, stderr=stderr + "\n")
        equal((failure(p.fetch(["x"]))[0], p.names()), (kind, []))


def test_the_reason_of_a_build_is_told_wherever_it_stands():
    program = rig.load("fetch")
    copying, end = "copying x\n" * 100, "error: Failed to build `x`\n  cause: The build backend returned an error\n"
    for text in (copying + "OSError: no gcc\n" + end, "OSError: no gcc\n" + copying + end,
                 "ValueError: another\n" + copying + "OSError: no gcc\n" + copying + end):
        told = program.last_words(text)
        equal(("OSError: no gcc" in told, "ValueError" in told, len(told) <= 600), (True, False, True))
        equal(told.endswith("copying x Failed to build `x` The build backend returned an error") or told.startswith("…"), True)
    equal(program.last_words("said nothing\n"), "said nothing")
    equal(program.last_words(""), "")


def test_an_answer_of_many_empty_lines_is_read_in_time():
    def stop(*_):
        raise AssertionError("more than 2 s of a processor")

    program = rig.load("fetch")
    old = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 2)
    try:
        error = program.explain_uv("error: Failed to fetch: `https://h/`\n" + "\n" * (64 << 10) + ".\n  cause: HTTP status 503\n", 2)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)
    equal(str(error), "h has a problem of its own (HTTP status 503). Try again later.")


def test_half_of_a_password_is_hidden_too():
    program = rig.load("fetch")
    program.secrets.add("S3cret-w0rd")
    for n_blanks in range(16 * 1000 - 11, 16 * 1000):
        equal(program.printable("x" + " " * (n_blanks - 1) + "S3cret-w0rd"), "x ***" if n_blanks == 16 * 1000 - 11 else "x")


def test_hostile_words():
    with Prefix() as p:
        p.play_uv(status=1, stderr=NO_SOLUTION + "\x1b[31m{0.__class__} \u202e\0 " + "x" * 100000 + "\n")
        _, message = failure(p.fetch(["x"]))
        equal(("\x1b" in message, "\u202e" in message, "\0" in message, len(message) <= 1000), (False,) * 3 + (True,))
        contains(message, "{0.__class__}")


if __name__ == "__main__":
    rig.main()
