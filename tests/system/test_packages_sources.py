# SPDX-License-Identifier: MIT
"""What an administrator may allow beside wheels of the index: URLs, repositories, builds; from an index that speaks TLS by
a CA of its own, and through a proxy that wants a password. What a stranger's code in a build cannot reach."""

import contextlib
import hashlib
import json
import pathlib
import shutil
import tempfile

import proxies
import pythons
import sources
import wheels
from lib import Client, Skip, failed_units, needs, one_release, processes_with, run_units, sh, text_of, timeout, wait_until
from packages import (FETCHES, SETS, UV, complete, names, need_uv, nothing_is_left, output, packages, refusal, start,
                      wait_for_unit)

SECRETS = pathlib.Path("/etc/mcp-exec/index-netrc")


@contextlib.contextmanager
def secure(*settings):
    """As packages(), with TLS; and the directory of the CA."""
    with tempfile.TemporaryDirectory(dir="/etc/mcp-exec") as directory:
        authority = proxies.Authority(directory)
        pathlib.Path(directory).chmod(0o755)
        pathlib.Path(authority.bundle).chmod(0o644)
        index = wheels.catalogue(wheels.Index(tls=authority.tls))
        with packages(f"CaBundle={authority.bundle}", *settings, index=index):
            yield index, directory


@timeout(180)
@one_release
def test_a_direct_url_is_fetched_where_that_is_allowed():
    file, content = wheels.wheel("mx-direct", "1.0", {"mx_direct.py": "x = 5\n"})
    digest = hashlib.sha256(content).hexdigest()
    with secure("AllowDirectUrls=yes") as (index, _), Client() as client, wheels.Index(tls=index.tls) as other:
        index.files[file] = other.files[file] = content
        url = f"mx-direct @ {index.top}files/{file}"
        script = sources.without_network("mx_direct", "x", index)
        assert output(client, script, url) == "5\nno network\n"
        assert output(client, script, f"{url}#sha256={digest}", "mx-base") == "5\nno network\n"
        text = refusal(client, f"{url}#sha256={'0' * 64}")
        assert "sha256 differs" in text, text
        text = refusal(client, f"mx-direct @ {other.top}files/{file}")
        assert "InternalHosts=" in text and other.requests == [], (text, other.requests)
        # Where the index itself points is no different.
        index.redirects["mx_base-1.0-py3-none-any.whl"] = f"{other.top}files/{file}"
        text = refusal(client, "mx-base==1.0", "mx-data")
        assert "InternalHosts=" in text and other.requests == [], (text, other.requests)
        nothing_is_left()
        assert len(complete()) == 2, names()
    with secure("AllowDirectUrls=yes", "InternalHosts=127.0.0.0/8") as (index, _), Client() as client, \
            wheels.Index(tls=index.tls) as other:
        other.files[file] = content
        assert output(client, script, f"mx-direct @ {other.top}files/{file}") == "5\nno network\n"
        assert other.requests
    assert failed_units() == []


@timeout(120)
@one_release
def test_a_repository_needs_git():
    if shutil.which("git"):
        raise Skip("git is installed in this machine")
    with secure("AllowVcs=yes") as (index, _), Client() as client:
        text = refusal(client, f"mx-vcs @ git+{index.top}git/mx-vcs.git")
        assert "is not installed. The administrator has to install it." in text and "git" in text, text


@timeout(120)
@one_release
def test_the_password_of_a_proxy_is_in_no_configuration():
    word = "mx-proxy-word-7d1e"
    with proxies.ForwardingProxy("mx-user", word) as proxy:
        try:
            with secure(f"Proxy={proxy.url}"), Client() as client:
                text = refusal(client, "mx-demo")
                assert "407" in text and "proxy" in text and proxy.requests == [], text
            with secure(f"Proxy={proxy.url}", "NoProxy=127.0.0.0/8"), Client() as client:
                assert output(client, "import mx_base; print(mx_base.x)", "mx-base") == "1\n"
            assert proxy.requests == []
            SECRETS.touch(0o600)
            SECRETS.write_text(f"machine 127.0.0.1 login mx-user password {word}\n")
            with secure(f"Proxy={proxy.url}", f"IndexCredentials={SECRETS}") as (index, _), Client() as client:
                reply = start(client, "1", "mx-slow")
                wait_for_unit(FETCHES)
                wait_until(lambda: any(path.endswith(".whl") for path in index.requests), 60, "the download of mx-slow")
                # In no argument and no environment, though what fetches is in the middle of it.
                assert not processes_with(word)
                client.cancel(reply.ident)
                assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
            assert proxy.requests and set(proxy.requests) == {f"127.0.0.1:{index.port}"}, proxy.requests
        finally:
            SECRETS.unlink(missing_ok=True)


@timeout(240)
@one_release
def test_an_interpreter_that_is_not_installed_is_downloaded_and_named():
    script = ("import mx_demo, platform, sys\nmx_demo.main()\nprint(platform.python_version(), sys.executable, sys.prefix)\n"
              "print(sys.base_prefix.startswith('/env/python/cpython-'))")
    block = f"# /// script\n# requires-python = '=={pythons.version()}'\n# dependencies = ['mx-demo']\n# ///\n"

    def validated(client):
        return text_of(client.call("validate_script", {"script": block + script}))

    # What stands before uv has to be seen inside, and so has uv.
    with tempfile.TemporaryDirectory(dir="/usr/local/lib") as directory:
        pathlib.Path(directory).chmod(0o755)
        need_uv()
        shutil.copy(UV, directory)
        content = pythons.archive()
        program = pythons.told_uv(directory, directory + "/uv", content)
        index = wheels.catalogue(wheels.Index())
        index.files[pythons.file_name()] = content
        with packages(f"UvPath={program}", "AllowPythonDownloads=yes", f"PythonMirror={index.top}pythons", index=index), \
                Client() as client:
            assert "interpreter: /env/bin/python3 (of its own, not downloaded yet)" in validated(client), validated(client)
            own = f"demo 2.0\n{pythons.version()} /env/bin/python3 /env\nTrue\n"
            for _ in range(2):
                assert output(client, block + script) == own
            assert f"/pythons/{pythons.DATE}/{pythons.file_name().replace('+', '%2B')}" in index.requests, index.requests
            assert f"interpreter: /env/bin/python3 (Python {pythons.version()})\nenvironment: ready" in validated(client)
            listed = sh(["mcp-exec", "env", "list"]).stdout
            assert listed.count(pythons.version()) == 1 and "mx-demo" in listed, listed
            told = text_of(client.call("check_environment", {}))
            assert f"{pythons.version()} (of a set of packages)" in told, told
            assert len(complete()) == 1, names()
        with packages(f"UvPath={program}", f"PythonMirror={index.top}pythons"), Client() as client:
            assert "No interpreter fits" in refusal(client, script=block)


@timeout(180)
@one_release
def test_another_index_and_a_date_by_settings_and_by_the_script():
    script = "import mx_timed; print(mx_timed.x)"
    block = "# /// script\n# dependencies = ['mx-timed']\n# [tool.uv]\n# exclude-newer = '%s'\n# ///\n"
    with wheels.Index() as own:
        for version, time in ("1", "2024-01-10T00:00:00Z"), ("2", "2024-06-01T00:00:00Z"), ("3", "2025-01-01T00:00:00Z"):
            own.add(wheels.wheel("mx-timed", version, {"mx_timed.py": f"x = {version}\n"}), time=time)
        with packages(f"ExtraIndexUrls={own.url}", "ExcludeNewer=2024-12-31", "AllowToolUv=yes") as index, Client() as client:
            assert output(client, script, "mx-timed") == "2\n"
            assert output(client, block % "2024-02-01T00:00:00Z" + script) == "1\n"
            # The script may go back behind the administrator's date, and not beyond.
            assert output(client, block % "2026-01-01T00:00:00Z" + script) == "2\n"
            text = refusal(client, script=block % "2023-01-01T00:00:00Z")
            assert "No version fits" in text and "date" in text, text
            assert "/simple/mx-timed/" in own.requests and "/simple/mx-timed/" not in index.requests, index.requests
            assert len(complete()) == 2, names()
        # Another answer to the same question, as soon as a setting is another.
        with packages(f"ExtraIndexUrls={own.url}"), Client() as client:
            assert output(client, script, "mx-timed") == "3\n"
            assert "configure the resolver" in refusal(client, script=block % "2024-02-01T00:00:00Z")
        with packages(), Client() as client:
            assert "knows no such package" in refusal(client, "mx-timed")


# --- builds ---------------------------------------------------------------------------------------------------------------

# Each is one attempt; what comes of it is in the report.
HOSTILE = r"""
import os, socket, json, subprocess
def attempt(what):
    try:
        return repr(what())
    except BaseException as e:
        return type(e).__name__
def plant(path):
    with open(path, "w") as f:
        f.write("planted")
sets = "/var/lib/mcp-exec/sets"
seen = {
    "credentials": attempt(lambda: os.environ.get("CREDENTIALS_DIRECTORY")),
    "siblings": attempt(lambda: sorted(n[64:] for n in os.listdir(sets))),
    "sibling": attempt(lambda: os.listdir(sets + "/SIBLING")),
    "write": attempt(lambda: plant(sets + "/SIBLING/bin/planted")),
    "link": attempt(lambda: os.symlink("/etc", sets + "/planted")),
    "up": attempt(lambda: plant("/env/../planted")),
    "host": attempt(lambda: plant("/usr/lib/planted")),
    "shadow": attempt(lambda: open("/etc/shadow").read()),
    "daemon": attempt(lambda: os.listdir("/var/lib/mcp-exec/daemon")),
    "setuid": attempt(lambda: (plant("/env/.tmp/s"), os.chmod("/env/.tmp/s", 0o4755))),
    "unix": attempt(lambda: socket.socket(socket.AF_UNIX)),
    "user": attempt(lambda: os.setuid(0)),
    "mount": attempt(lambda: os.unshare(os.CLONE_NEWNS) if hasattr(os, "unshare") else 1 / 0),
    "others": attempt(lambda: sorted(p for p in os.listdir("/proc") if p.isdigit() and os.stat("/proc/" + p).st_uid != os.getuid())),
    "root": attempt(lambda: os.getuid() == 0),
}
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execv("/usr/bin/sleep", ["sleep", "76131"])
        os._exit(0)
report = json.dumps(seen)
"""
WANTED = {"credentials": "None", "sibling": "FileNotFoundError", "write": "FileNotFoundError", "link": "OSError",
          "up": "OSError", "host": "OSError", "daemon": "FileNotFoundError", "setuid": "PermissionError", "user": "PermissionError",
          "others": "[]", "root": "False"}
PLANT = """
import os
os.symlink("/etc/passwd", "/env/planted")
"""


def state_of(name):
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in (SETS / name).rglob("*"))


@timeout(240)
@needs("systemd>=257")
def test_a_stranger_that_builds_reaches_nothing_of_others():
    with packages("AllowSourceBuilds=yes") as index, Client() as client:
        assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
        (sibling,) = complete()
        before = state_of(sibling)
        index.add(sources.distribution("mx-built", HOSTILE.replace("SIBLING", sibling)))
        index.add(sources.distribution("mx-planter", PLANT))
        seen = json.loads(output(client, "import mx_built; print(mx_built.report)", "mx-built"))
        wrong = {key: (seen[key], value) for key, value in WANTED.items() if seen[key] != value}
        assert not wrong and sibling[:20] not in str(seen), (wrong, seen)
        assert seen["siblings"] in ("['.tmp']", "[]"), seen
        assert "Error" in seen["shadow"] and "Error" in seen["unix"] and "Error" in seen["mount"], seen
        wait_until(lambda: not run_units() and not processes_with("76131"), 30, "what the build left running")
        text = refusal(client, "mx-planter")
        nothing_is_left()
        assert len(complete()) == 2 and "planted" not in str(names()), (text, names())
        assert state_of(sibling) == before
        assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
    assert failed_units() == []
