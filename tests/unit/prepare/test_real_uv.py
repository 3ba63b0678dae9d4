#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch and install with a real uv, from an index of our own on loopback: what the played one cannot tell, which is whether uv
still says what we listen for, and does what we count on."""

import hashlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys

import rig
import proxies
import pythons
import sources
import wheels
from rig import Prefix, contains, equal


def prefix():
    return Prefix(rig.real_uv())


def served():
    rig.real_uv()
    return wheels.catalogue(wheels.Index())


def make(p, index, *requirements, **order):
    """A set, or the answer with its error."""
    answer, _ = p.fetch(list(requirements), index_url=index.url)
    if "error" in answer:
        return answer, []
    return p.install(answer["lock_sha256"], **order)


def test_a_set_with_scripts():
    with served() as index, prefix() as p:
        answer, _ = make(p, index, "mx-demo>=2", "mx-data")
        equal(answer["packages"], [{"name": "mx-base", "version": "1.0"}, {"name": "mx-data", "version": "1.0"},
                                   {"name": "mx-demo", "version": "2.0"}])
        equal((answer["console_scripts"], answer["n_not_compiled"]), (["mx-demo", "mx-script"], 1))
        equal(p.names(), ["bin", "include", "lib", "mcp-exec-set.json", "pyvenv.cfg", "share"])
        for script, said in (("mx-demo", b"demo 2.0\n"), ("mx-script", b"script\n")):
            contains(pathlib.Path(p.path, "bin", script).read_text(), f"#!{p.path}/bin/python3\n")
            equal(subprocess.run([f"{p.path}/bin/{script}"], capture_output=True, check=True).stdout, said)
        program = "import sys, sysconfig, mx_base; print([sys.executable, sys.prefix, sysconfig.get_path('purelib'), mx_base.__file__])"
        done = subprocess.run([p.path + "/bin/python3", "-c", program], capture_output=True, check=True)
        site = f"{p.path}/lib/python3.{os.sys.version_info[1]}/site-packages"
        equal(done.stdout.decode().strip(), str([p.path + "/bin/python3", p.path, site, site + "/mx_base/__init__.py"]))


def test_nothing_at_all():
    with served() as index, prefix() as p:
        answer, _ = make(p, index)
        equal((answer["packages"], p.names()), ([], ["bin", "mcp-exec-set.json", "pyvenv.cfg"]))
        subprocess.run([p.path + "/bin/python3", "-c", "import json"], check=True)


def test_what_starts_by_itself_does_not_start_here():
    for name in wheels.hostile_at_start():
        with served() as index, prefix() as p:
            answer, lines = p.fetch([name], index_url=index.url)
            equal((name, "error" in answer), (name, False))
            answer, more = p.install(answer["lock_sha256"])
            equal((name, "error" in answer, [line for line in lines + more if "HOSTILE" in line]), (name, False, []))
            for directory, _, files in os.walk(p.path):
                for file in files:
                    mode = os.lstat(f"{directory}/{file}").st_mode
                    equal((file, stat.S_ISLNK(mode) or stat.S_IMODE(mode) in (0o644, 0o755)), (file, True))


def test_hostile_wheels():
    for name in wheels.hostile():
        with served() as index, prefix() as p:
            answer, _ = make(p, index, name, max_files=1000, max_set_bytes=32 << 20)
            equal((name, answer.get("error", {}).get("kind") in ("wheel", "too-large", "index")), (name, True))
            equal((name, [path.name for path in pathlib.Path(p.top).iterdir()]), (name, ["env"]))


def test_failures():
    for requirement, kind in (("mx-nothing", "unknown-package"), ("mx-demo>=99", "no-version"), ("mx-demo<2,>=2", "no-solution"),
                              ("mx-source-only", "no-wheel"), ("mx-other-machine", "no-wheel"), ("mx-new-python", "python"),
                              ("mx-wrong-hash", "hash-mismatch"), ("mx-needs-url", "policy"), ("mx-index-401", "unauthorized"),
                              ("mx-index-403", "unauthorized"), ("mx-index-500", "index"), ("mx-index-503", "index"),
                              ("mx-index-garbage", "index"), ("mx-index-drop", "index"), ("mx-file-401", "unauthorized"),
                              ("mx-file-403", "unauthorized"), ("mx-file-500", "index"), ("mx-file-garbage", "index")):
        with served() as index, prefix() as p:
            answer, _ = p.fetch([requirement], index_url=index.url)
            equal((requirement, answer.get("error", {}).get("kind"), p.names()), (requirement, kind, []))


LOOK = 'import os; report = os.environ.get("CREDENTIALS_DIRECTORY")'


def test_a_source_is_built_only_where_that_is_allowed():
    rig.real_uv()
    with wheels.Index().add(sources.distribution("mx-built", LOOK)) as index, prefix() as p:
        answer, _ = p.fetch(["mx-built"], index_url=index.url)
        equal((answer["error"]["kind"], p.names()), ("no-wheel", []))
        answer, lines = p.fetch(["mx-built"], index_url=index.url, allow_source_builds=True)
        equal([(each["name"], each["version"], each["file"]) for each in answer.get("packages", [answer])],
              [("mx-built", "1.0", "mx_built-1.0-py3-none-any.whl")])
        contains("\n".join(lines), "@ building mx-built")
        answer, _ = p.install(answer["lock_sha256"])
        equal(answer.get("packages", answer), [{"name": "mx-built", "version": "1.0"}])
        done = subprocess.run([p.path + "/bin/python3", "-c", "import mx_built; print(mx_built.report)"], capture_output=True)
        equal(done.stdout, b"None\n")


def test_a_build_that_fails_tells_its_last_words():
    """Only its first were told, which never are the reason."""
    # On one stream: uv hands on two as they come.
    code = "import sys\nfor i in range(10000): print('copying', i, file=sys.stderr)\nraise RuntimeError('there is no compiler')"
    with wheels.Index().add(sources.distribution("mx-fails", code)) as index, prefix() as p:
        answer, _ = p.fetch(["mx-fails"], index_url=index.url, allow_source_builds=True)
        equal((answer["error"]["kind"], p.names()), ("no-wheel", []))
        contains(answer["error"]["message"], "mx-fails could not be built from its source: …")
        contains(answer["error"]["message"], "copying 9999 Traceback")
        contains(answer["error"]["message"], "RuntimeError: there is no compiler")


def secure(p, **more):
    """(an index that speaks TLS, what an order needs for it)"""
    rig.need("openssl")
    os.mkdir(p.top + "/ca")
    authority = proxies.Authority(p.top + "/ca")
    index = wheels.Index(tls=authority.tls)
    return index, {"index_url": index.url, "ca_bundle": authority.bundle, **more}


def test_a_direct_url_where_that_is_allowed():
    with prefix() as p:
        index, order = secure(p, allow_urls=True)
        file, content = wheels.wheel("mx-direct", "1.0", {"mx_direct.py": "x = 5\n"})
        with index:
            index.files[file] = content
            index.add(wheels.demo()[2])
            url = f"mx-direct @ {index.top}files/{file}"
            digest = hashlib.sha256(content).hexdigest()
            equal(p.fetch([url], **{**order, "allow_urls": False})[0]["error"]["kind"], "policy")
            equal(index.requests, [])
            locks = []
            for requirement in (url, url + "#sha256=" + digest):
                answer, _ = p.fetch([requirement, "mx-base"], **order)
                equal([(each["name"], each["version"], each["sha256"]) for each in answer.get("packages", [answer])][1:],
                      [("mx-direct", "1.0", digest)])
                locks.append(answer["lock_sha256"])
                equal("error" in p.remove()[0], False)
            equal(locks[0], locks[1])
            answer, _ = p.fetch([url + "#sha256=" + "0" * 64], **order)
            equal((answer["error"]["kind"], p.names()), ("hash-mismatch", []))
            # A host of this machine that nobody configured.
            with wheels.Index(tls=index.tls) as other:
                other.files[file] = content
                answer, _ = p.fetch([f"mx-direct @ {other.top}files/{file}"], **order)
                equal((answer["error"]["kind"], other.requests), ("policy", []))
            answer, _ = p.fetch([url], **order)
            answer, _ = p.install(answer["lock_sha256"])
            equal(answer.get("packages", answer), [{"name": "mx-direct", "version": "1.0"}])


def test_a_repository_where_that_is_allowed():
    rig.need("git")
    with prefix() as p:
        index, order = secure(p, allow_vcs=True)
        index.repositories = p.top + "/git"
        os.mkdir(index.repositories)
        commit = sources.repository(index.repositories, "mx-vcs", LOOK)
        with index:
            url = f"mx-vcs @ git+{index.top}git/mx-vcs.git"
            equal(p.fetch([url], **{**order, "allow_vcs": False})[0]["error"]["kind"], "policy")
            equal(index.requests, [])
            for requirement in (url, url + "@main", url + "@" + commit):
                answer, lines = p.fetch([requirement], **order)
                equal([(each["name"], each["version"], each["file"]) for each in answer.get("packages", [answer])],
                      [("mx-vcs", "1.0", "mx_vcs-1.0-py3-none-any.whl")])
                contains("\n".join(lines), "@ building mx-vcs")
                lock = answer["lock_sha256"]
                if requirement != url + "@" + commit:
                    equal("error" in p.remove()[0], False)
            answer, _ = p.install(lock)
            equal(answer.get("packages", answer), [{"name": "mx-vcs", "version": "1.0"}])
            done = subprocess.run([p.path + "/bin/python3", "-c", "import mx_vcs; print(mx_vcs.report)"], capture_output=True)
            equal(done.stdout, b"None\n")
            p.remove()
            for wrong, kind in ((url + "@" + "0" * 40, "index"), (url.replace("mx-vcs.git", "other.git"), "index"),
                                (url + "@no-such-branch", "index")):
                equal((wrong, p.fetch([wrong], **order)[0]["error"]["kind"]), (wrong, kind))
            # One that has others as its parts does not lead git past the gate.
            with socket.create_server(("127.0.0.1", 0)) as listener:
                listener.setblocking(False)
                module = f"git://127.0.0.1:{listener.getsockname()[1]}/part"
                sources.repository(index.repositories, "mx-parts", LOOK, module=module)
                answer, _ = p.fetch([f"mx-parts @ git+{index.top}git/mx-parts.git"], **order)
                try:
                    listener.accept()
                    raise AssertionError("git connected to " + module)
                except BlockingIOError:
                    pass
                equal((answer.get("error", answer)["kind"], p.names()), ("index", []))


def made(p, requirement, order):
    """What the module of this package out of a repository says, in a set of it."""
    answer, _ = p.fetch([requirement], **order)
    equal((requirement, answer.get("error")), (requirement, None))
    (package,) = answer["packages"]
    equal(p.install(answer["lock_sha256"])[0].get("packages"), [{key: package[key] for key in ("name", "version")}])
    program = f"import {package['name'].replace('-', '_')} as module; print(module.report)"
    done = subprocess.run([p.path + "/bin/python3", "-c", program], capture_output=True, check=True)
    p.remove()
    return package["version"], done.stdout.decode().strip()


def test_a_version_that_comes_from_the_tags_of_a_repository_is_the_one_that_is_built():
    """Without them another was built than uv had been told of, and "there is no version of" it."""
    rig.need("git")
    look = """
import subprocess
told = subprocess.run(["git", "describe", "--tags", "--always"], capture_output=True, text=True).stdout.strip().split("-")
version = f"{told[0]}.dev{told[1]}" if told[1:] else told[0] if "." in told[0] else "0"
report = version
"""
    with prefix() as p:
        index, order = secure(p, allow_vcs=True)
        index.repositories = p.top + "/git"
        os.mkdir(index.repositories)
        commit = sources.repository(index.repositories, "mx-tagged", look, tag="3.1")
        with index:
            url = f"mx-tagged @ git+{index.top}git/mx-tagged.git"
            for reference, version in (("", "3.1.dev1"), ("@" + commit, "3.1.dev1"), ("@3.1", "3.1")):
                equal((reference, made(p, url + reference, order)), (reference, (version, version)))


def test_a_package_in_a_directory_of_its_repository():
    """The top of the repository was built instead: "does not appear to be a Python project"."""
    rig.need("git")
    with prefix() as p:
        index, order = secure(p, allow_vcs=True)
        index.repositories = p.top + "/git"
        os.mkdir(index.repositories)
        sources.repository(index.repositories, "mx-below", "report = 'from below'", folder="packages")
        with index:
            url = f"mx-below @ git+{index.top}git/mx-below.git"
            equal(made(p, url + "#subdirectory=packages", order), ("1.0", "from below"))


def test_a_repository_with_another_as_its_part_is_built_with_it():
    """The place of the part was empty, and the package was made without it."""
    rig.need("git")
    look = """
import os
report = os.listdir("part")
"""
    with prefix() as p:
        index, order = secure(p, allow_vcs=True)
        index.repositories = p.top + "/git"
        os.mkdir(index.repositories)
        part = sources.repository(index.repositories, "mx-part", folder="inside")
        with index:
            for name, module in (("mx-whole", f"{index.top}git/mx-part.git"), ("mx-other", "../mx-part.git")):
                sources.repository(index.repositories, name, look, module=module, module_commit=part)
                version, report = made(p, f"{name} @ git+{index.top}git/{name}.git", order)
                equal((module, version, "inside" in report), (module, "1.0", True))


def test_an_interpreter_from_a_mirror():
    with wheels.Index().add(wheels.demo()[0]) as index, prefix() as p:
        content = pythons.archive()
        real, p.uv = p.uv, pythons.told_uv(p.top, p.uv, content)
        index.files[pythons.file_name()] = content
        order = {"index_url": index.url, "python_mirror": index.top + "pythons", "tool_uv": {"python": "==" + pythons.version()}}
        answer, lines = p.fetch(["mx-demo"], **order)
        equal((answer.get("error"), lines[0]), (None, "@ downloading Python"))
        contains(index.requests[0], f"/pythons/{pythons.DATE}/" + pythons.file_name().replace("+", "%2B"))
        answer, _ = p.install(answer["lock_sha256"])
        minor = f"python3.{sys.version_info[1]}"
        own = f"{p.path}/python/cpython-{pythons.version()}-linux-{os.uname().machine}-gnu"
        equal(answer.get("packages", answer), [{"name": "mx-demo", "version": "1.0"}])
        facts = json.loads(pathlib.Path(p.path, "mcp-exec-set.json").read_text())
        equal((facts["python"], facts["own_python_version"]), (rig.PYTHON, pythons.version()))
        program = "import mx_demo, platform, sys; print([platform.python_version(), sys.base_prefix, sys.prefix])"
        done = subprocess.run([p.path + "/bin/python3", "-c", program], capture_output=True, check=True)
        equal(done.stdout.decode().strip(), str([pythons.version(), own, p.path]))
        equal(os.path.realpath(p.path + "/bin/python3"), f"{own}/bin/{minor}")
        p.remove()
        # What is not what uv knows it to be.
        p.uv = pythons.told_uv(p.top, real, content + b"x")
        answer, _ = p.fetch(["mx-demo"], **order)
        equal((answer["error"]["kind"], p.names()), ("hash-mismatch", []))
        contains(answer["error"]["message"], "Nothing was installed")
        # Those that uv does know are asked for by the names that they have at their origin.
        p.uv = real
        index.requests.clear()
        answer, _ = p.fetch(["mx-demo"], **{**order, "tool_uv": {"python": "==3.11.9"}})
        equal((answer["error"]["kind"], p.names()), ("index", []))
        equal(set(index.requests), {"/pythons/20240814/cpython-3.11.9%2B20240814-" + os.uname().machine +
                                    "-unknown-linux-gnu-install_only_stripped.tar.gz"})


def test_two_indexes():
    """The extra one goes before, for all versions of what it has: nobody can push a newer one under it from outside."""
    with wheels.Index() as public, wheels.Index() as own, prefix() as p:
        public.add(wheels.wheel("mx-both", "9.0")).add(wheels.wheel("mx-public")).add(wheels.wheel("mx-public", "2.0"))
        own.add(wheels.wheel("mx-both", "1.0")).add(wheels.wheel("mx-own"))
        order = {"index_url": public.url, "extra_index_urls": [own.url]}
        answer, _ = p.fetch(["mx-both", "mx-own", "mx-public"], **order)
        equal([(each["name"], each["version"]) for each in answer.get("packages", [answer])],
              [("mx-both", "1.0"), ("mx-own", "1.0"), ("mx-public", "2.0")])
        equal([path for path in public.requests if "both" in path or "own" in path], [])
        p.remove()
        equal(p.fetch(["mx-both>=2"], **order)[0]["error"]["kind"], "no-version")
        answer, _ = p.fetch(["mx-both"], index_url=own.url, extra_index_urls=[public.url])
        equal([(each["name"], each["version"]) for each in answer.get("packages", [answer])], [("mx-both", "9.0")])


def test_versions_of_a_time():
    with wheels.Index() as index, prefix() as p:
        for version, time in (("1.0", "2024-01-10T00:00:00Z"), ("2.0", "2024-06-01T12:00:00Z"), ("3.0", "2025-01-01T00:00:00Z")):
            index.add(wheels.wheel("mx-timed", version), time=time)
        for newest, script, version in (("", "", "3.0"), ("2024-12-31", "", "2.0"), ("2024-06-01T11:59:59Z", "", "1.0"),
                                        ("2024-06-01", "", "2.0"), ("2024-12-31", "2024-02-01", "1.0"),
                                        ("2024-02-01", "2026-01-01", "1.0"), ("P1W", "", "3.0")):
            answer, _ = p.fetch(["mx-timed"], index_url=index.url, exclude_newer=newest,
                                tool_uv={"exclude-newer": script} if script else {})
            equal((newest, script, [each["version"] for each in answer.get("packages", [answer])]), (newest, script, [version]))
            p.remove()
        answer, _ = p.fetch(["mx-timed"], index_url=index.url, exclude_newer="2023-01-01")
        equal(answer["error"]["kind"], "no-version")
        contains(answer["error"]["message"], "date")
        # An index that tells no time has nothing that is old enough.
        with wheels.Index().add(wheels.demo()[0]) as other:
            equal(p.fetch(["mx-demo"], index_url=other.url, exclude_newer="2024-01-01")[0]["error"]["kind"], "no-version")


def test_a_yanked_version():
    with served() as index, prefix() as p:
        answer, _ = p.fetch(["mx-yanked==1.0"], index_url=index.url)
        equal(answer["warnings"], ["mx-yanked==1.0 was withdrawn by its authors (it is broken); use another version."])


def test_an_index_that_hangs_ends_with_the_budget():
    with served() as index, prefix() as p:
        answer, _ = p.fetch(["mx-index-hang"], index_url=index.url, budget_s=4)
        equal((answer["error"]["kind"] in ("timeout", "index"), p.names()), (True, []))


def test_no_index_and_no_proxy():
    with served() as index, prefix() as p:
        url = index.url
    with prefix() as p:
        equal(p.fetch(["mx-demo"], index_url=url)[0]["error"]["kind"], "index")
        with wheels.Proxy(407) as proxy:
            equal(p.fetch(["mx-demo"], index_url=url, proxy=proxy.url)[0]["error"]["kind"], "proxy")
        equal(p.fetch(["mx-demo"], index_url="http://nothing.invalid/simple/")[0]["error"]["kind"], "dns")


def test_credentials_reach_uv_by_a_file():
    rig.real_uv()
    index = wheels.Index(user="bob", password="S3cret-w0rd")
    with index.add(wheels.demo()[0]), prefix() as p:
        equal(p.fetch(["mx-demo"], index_url=index.url)[0]["error"]["kind"], "unauthorized")
        directory = p.top + "/credentials"
        os.mkdir(directory)
        pathlib.Path(directory, "index-credentials").write_text("machine 127.0.0.1 login bob password S3cret-w0rd\n")
        answer, lines = p.fetch(["mx-demo"], {"CREDENTIALS_DIRECTORY": directory}, index_url=index.url)
        equal(("error" in answer, "S3cret" in json.dumps(answer) + "".join(lines)), (False, False))
        kept = subprocess.run(["grep", "-r", "S3cret", p.path], capture_output=True)
        equal((kept.returncode, kept.stdout), (1, b""))


def test_the_same_wheels_have_the_same_lock():
    with served() as index:
        locks = []
        for requirements in (["mx-demo"], ["mx-base", "mx-demo==2.0"], ["mx-demo==1.0"]):
            with prefix() as p:
                locks.append(p.fetch(requirements, index_url=index.url)[0]["lock_sha256"])
        equal((locks[0] == locks[1], locks[0] == locks[2]), (True, False))


if __name__ == "__main__":
    rig.main()
