#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fetch and install with a real uv, from an index of our own on loopback: what the played one cannot tell, which is whether uv
still says what we listen for, and does what we count on."""

import io
import json
import os
import pathlib
import stat
import subprocess
import tarfile

import rig
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


# A source distribution that brings its own way of building: no other package is needed for it.
BACKEND = """
import os, sys
sys.path.insert(0, WHEELS)
import wheels
def build_wheel(directory, config_settings=None, metadata_directory=None):
    seen = repr(os.environ.get("CREDENTIALS_DIRECTORY"))
    file, content = wheels.wheel("mx-built", "1.0", {"mx_built.py": "seen = " + seen})
    with open(directory + "/" + file, "wb") as f:
        f.write(content)
    return file
def build_sdist(directory, config_settings=None):
    raise NotImplementedError
"""


def source_distribution():
    files = {"PKG-INFO": "Metadata-Version: 2.1\nName: mx-built\nVersion: 1.0\n",
             "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
                               '[project]\nname = "mx-built"\nversion = "1.0"\n',
             "backend.py": BACKEND.replace("WHEELS", repr(os.path.dirname(wheels.__file__)))}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo("mx_built-1.0/" + path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return "mx_built-1.0.tar.gz", out.getvalue()


def test_a_source_is_built_only_where_that_is_allowed():
    rig.real_uv()
    with wheels.Index().add(source_distribution()) as index, prefix() as p:
        answer, _ = p.fetch(["mx-built"], index_url=index.url)
        equal((answer["error"]["kind"], p.names()), ("no-wheel", []))
        answer, lines = p.fetch(["mx-built"], index_url=index.url, allow_source_builds=True)
        equal([(each["name"], each["version"], each["file"]) for each in answer.get("packages", [answer])],
              [("mx-built", "1.0", "mx_built-1.0-py3-none-any.whl")])
        contains("\n".join(lines), "@ building mx-built")
        answer, _ = p.install(answer["lock_sha256"])
        equal(answer.get("packages", answer), [{"name": "mx-built", "version": "1.0"}])
        done = subprocess.run([p.path + "/bin/python3", "-c", "import mx_built; print(mx_built.seen)"], capture_output=True)
        equal(done.stdout, b"None\n")


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
