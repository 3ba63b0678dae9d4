#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""install and remove: what a wheel may not be, what a set looks like, and that nothing of a package runs. uv is played, which
is worse than the real one: it unpacks whatever it gets."""

import hashlib
import json
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys

import rig
import wheels
from rig import Prefix, contains, equal

MINOR = sys.version_info[1]
SITE = f"lib/python3.{MINOR}/site-packages"


def digest(packages, python):
    text = "".join("\0".join(e[key] for key in ("name", "version", "file", "sha256")) + "\n" for e in packages)
    return hashlib.sha256(b"mcp-exec lock 1\n" + str(python).encode() + text.encode()).hexdigest()


def put(prefix, *files, python="", **wrong):
    """What fetch leaves. Returns the lock's hash."""
    os.mkdir(prefix.path + "/.wheels")
    packages = []
    for file, content in files:
        pathlib.Path(prefix.path, ".wheels", file).write_bytes(content)
        name, version = file.split("-")[:2]
        packages.append({"name": name.replace("_", "-"), "version": version, "file": file,
                         "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content), **wrong})
    lock_sha256 = digest(packages, python)
    lock = {"lock_sha256": lock_sha256, "python": python, "packages": packages}
    pathlib.Path(prefix.path, ".lock").write_text(json.dumps(lock))
    return lock_sha256


def install(*files, **order):
    """The answer, which must be an error."""
    with Prefix() as p:
        p.play_uv()
        answer, _ = p.install(put(p, *files), **order)
        return answer["error"]["kind"], answer["error"]["message"], os.path.exists(p.top + "/called.json")


def mode(prefix, path):
    return oct(stat.S_IMODE(os.lstat(f"{prefix.path}/{path}").st_mode))


def test_a_set():
    with Prefix() as p:
        p.play_uv()
        files = wheels.wheel("mx-a", "1.0", {"mx_a.py": "x = 1\n", "mx_bad.py": "(", "data.txt": "x" * 5000}), wheels.wheel("mx-b", "2.0")
        lock_sha256 = put(p, *files)
        answer, lines = p.install(lock_sha256, requirements=["mx-a", "mx-b>1"])
        facts = json.loads(pathlib.Path(p.path, "mcp-exec-set.json").read_text())
        equal(answer, {"packages": [{"name": "mx-a", "version": "1.0"}, {"name": "mx-b", "version": "2.0"}],
                       "size_bytes": facts["size_bytes"], "n_files": facts["n_files"], "console_scripts": [], "n_not_compiled": 1})
        equal({key: facts[key] for key in ("version", "python", "requirements", "lock_sha256", "console_scripts")},
              {"version": 1, "python": rig.PYTHON, "requirements": ["mx-a", "mx-b>1"], "lock_sha256": lock_sha256,
               "console_scripts": []})
        equal([e["file"] for e in facts["packages"]], [file for file, _ in files])
        # But for the file that says so.
        equal(facts["n_files"], sum(len(d) + len(f) for _, d, f in os.walk(p.path)) - 1)
        equal(p.names(), ["bin", "lib", "mcp-exec-set.json", "pyvenv.cfg"])
        equal(sorted(os.listdir(p.path + "/bin")), ["python", "python3", f"python3.{MINOR}"])
        equal(os.readlink(p.path + "/bin/python3"), rig.PYTHON)
        equal(sorted(os.listdir(f"{p.path}/{SITE}/__pycache__")), [f"mx_a.cpython-3{MINOR}.pyc"])
        equal((mode(p, SITE), mode(p, SITE + "/mx_a.py"), mode(p, "pyvenv.cfg"), mode(p, "mcp-exec-set.json")),
              ("0o755", "0o644", "0o644", "0o644"))
        equal(lines, ["@ installing", "@ compiling 0/2"])
        done = subprocess.run([p.path + "/bin/python3", "-B", "-c", "import mx_a, sys; print(sys.prefix, mx_a.__cached__)"],
                              capture_output=True, check=True)
        equal(done.stdout.decode(), f"{p.path} {p.path}/{SITE}/__pycache__/mx_a.cpython-3{MINOR}.pyc\n")


def test_a_set_with_an_interpreter_of_its_own():
    with Prefix() as p:
        p.play_uv()
        own = f"python/cpython-3.{MINOR}.9-x/bin/python3.{MINOR}"
        os.makedirs(os.path.dirname(f"{p.path}/{own}"))
        os.makedirs(f"{p.path}/python/cpython-3.{MINOR}.9-x/lib")
        shutil.copy(rig.PYTHON, f"{p.path}/{own}")
        os.symlink(f"python3.{MINOR}", os.path.dirname(f"{p.path}/{own}") + "/python3")
        pathlib.Path(p.path, f"python/cpython-3.{MINOR}.9-x/lib/library.py").write_text("x = 1\n")
        lock_sha256 = put(p, wheels.wheel("mx-a", "1.0", {"mx_a.py": "x = 1\n"}), python=own)
        answer, _ = p.install(lock_sha256)
        equal(answer["n_not_compiled"], 0)
        equal(os.readlink(p.path + "/bin/python3"), "../" + own)
        contains(pathlib.Path(p.path, "pyvenv.cfg").read_text(), f"home = {p.path}/{os.path.dirname(own)}\n")
        equal(os.listdir(f"{p.path}/python/cpython-3.{MINOR}.9-x/lib/__pycache__"), [f"library.cpython-3{MINOR}.pyc"])
        facts = json.loads(pathlib.Path(p.path, "mcp-exec-set.json").read_text())
        equal((facts["python"], [e["name"] for e in facts["packages"]]), (rig.PYTHON, ["mx-a", "python"]))


def test_a_package_cannot_change_the_interpreter_that_compiles_it():
    top = f"python/cpython-3.{MINOR}.9-x"
    own = f"{top}/bin/python3.{MINOR}"
    hostile = "#!/bin/sh\ntouch /tmp/hostile-own-python\n"
    for path, is_seen_by_us in ((own, True), (f"{top}/lib/python3.{MINOR}/encodings/__init__.py", True), (own, False)):
        with Prefix() as p:
            p.play_uv()
            os.makedirs(os.path.dirname(f"{p.path}/{own}"))
            shutil.copy(rig.PYTHON, f"{p.path}/{own}")
            files = {f"mx_a-1.0.data/data/{path}": (hostile, 0o100755)} if is_seen_by_us else {}
            lock_sha256 = put(p, wheels.wheel("mx-a", "1.0", files), python=own)
            if not is_seen_by_us:
                # A reader of archives that finds in them what we do not.
                text = pathlib.Path(p.uv).read_text().replace(
                    "sys.stderr.write(", f"pathlib.Path({p.path + '/' + own!r}).write_text({hostile!r})\nsys.stderr.write(")
                pathlib.Path(p.uv).write_text(text)
            error = p.install(lock_sha256)[0]["error"]
            equal(error["kind"], "wheel")
            contains(error["message"], "the interpreter")
            equal(os.path.exists("/tmp/hostile-own-python"), False)


def test_interpreters_that_lead_elsewhere():
    own = f"python/cpython-3.{MINOR}.9-x/bin/python3.{MINOR}"
    with Prefix() as p:
        p.play_uv()
        os.makedirs(os.path.dirname(f"{p.path}/{own}"))
        os.symlink(rig.PYTHON, f"{p.path}/{own}")
        equal(p.install(put(p, wheels.wheel("mx-a"), python=own))[0]["error"]["kind"], "internal")
    for wrong in ("/bin/sh", "../python", "python/cpython-3.1/../../x/bin/python3.1", ["x"]):
        with Prefix() as p:
            p.play_uv()
            equal(p.install(put(p, wheels.wheel("mx-a"), python=wrong))[0]["error"]["kind"], "internal")
    for target in ("/etc/passwd", "../../../../etc/passwd"):
        with Prefix() as p:
            p.play_uv()
            os.makedirs(os.path.dirname(f"{p.path}/{own}"))
            shutil.copy(rig.PYTHON, f"{p.path}/{own}")
            os.symlink(target, os.path.dirname(f"{p.path}/{own}") + "/python3")
            equal(p.install(put(p, wheels.wheel("mx-a"), python=own))[0]["error"]["kind"], "wheel")


def test_what_uv_is_told():
    with Prefix() as p:
        p.play_uv()
        file, content = wheels.wheel("mx-a")
        p.install(put(p, (file, content)))
        called = json.loads(pathlib.Path(p.top, "called.json").read_text())
        for word in ("--offline", "--no-index", "--require-hashes", "--no-deps", "--no-build", "--no-config", "--no-compile-bytecode"):
            contains(called["arguments"], word)
        equal(called["environment"]["UV_CACHE_DIR"], p.path + "/.tmp/cache")


def test_wheels_that_are_refused():
    for name, wheel in wheels.hostile().items():
        # These two are for uv's eyes: the played one takes them.
        if name in ("mx-entry-python", "mx-entry-traversal"):
            continue
        kind, message, is_called = install(wheel, max_files=1000, max_set_bytes=32 << 20)
        equal((name, kind, is_called), (name, "too-large" if name in ("mx-many-files", "mx-bomb") else "wheel", False))
        contains(message, wheel[0])


def test_a_wheel_that_is_encrypted():
    file, content = wheels.wheel("mx-a")
    at = content.index(b"PK\x01\x02")
    content = content[:at + 8] + struct.pack("<H", 1) + content[at + 10:]
    kind, message, _ = install((file, content))
    equal(kind, "wheel")
    contains(message, "encrypted")


def test_a_lock_that_is_not_the_one():
    with Prefix() as p:
        p.play_uv()
        put(p, wheels.wheel("mx-a"))
        equal(p.install("0" * 64)[0]["error"]["kind"], "hash-mismatch")
    with Prefix() as p:
        p.play_uv()
        lock_sha256 = put(p, wheels.wheel("mx-a"))
        next(pathlib.Path(p.path, ".wheels").iterdir()).write_bytes(wheels.wheel("mx-a", files={"evil.py": ""})[1])
        equal(p.install(lock_sha256)[0]["error"]["kind"], "hash-mismatch")


def test_locks_that_lead_elsewhere():
    for wrong in ({"file": "../x.whl"}, {"name": "a b"}, {"version": "1 --index-url=x"}, {"sha256": "x"}, {"file": "x.tar.gz"}):
        with Prefix() as p:
            p.play_uv()
            lock_sha256 = put(p, wheels.wheel("mx-a"), **wrong)
            equal((wrong, p.install(lock_sha256)[0]["error"]["kind"]), (wrong, "internal"))


def test_what_lies_beside_the_lock():
    for extra in ("lib/python3/site-packages/evil.py", "bin/python3", "python/evil", ".tmp/x", ".wheels/evil-1.0-py3-none-any.whl"):
        with Prefix() as p:
            p.play_uv()
            lock_sha256 = put(p, wheels.wheel("mx-a"))
            path = pathlib.Path(p.path, extra)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            equal((extra, p.install(lock_sha256)[0]["error"]["kind"]), (extra, "internal"))
            equal(os.path.exists(p.top + "/called.json"), False)


def test_a_wheel_that_is_a_link():
    with Prefix() as p:
        p.play_uv()
        lock_sha256 = put(p, wheels.wheel("mx-a"))
        path = next(pathlib.Path(p.path, ".wheels").iterdir())
        path.rename(p.top + "/elsewhere")
        path.symlink_to(p.top + "/elsewhere")
        equal(p.install(lock_sha256)[0]["error"]["kind"], "wheel")


def test_uv_that_fails():
    for stderr, status, kind in (("No space left on device (os error 28)", 2, "disk-full"), ("Hash mismatch for x", 1, "hash-mismatch"),
                                 ("error: The wheel is invalid: bad RECORD", 2, "wheel"), ("", 2, "no-uv"),
                                 ("File too large (os error 27)", 2, "too-large")):
        with Prefix() as p:
            p.play_uv(status=status, stderr=stderr)
            equal((stderr, p.install(put(p, wheels.wheel("mx-a")))[0]["error"]["kind"]), (stderr, kind))


def test_too_large_once_installed():
    with Prefix() as p:
        p.play_uv()
        lock_sha256 = put(p, wheels.wheel("mx-a", "1.0", {f"f{i}": "x" for i in range(20)}))
        # Each small file takes a block: more than the archive says.
        answer, _ = p.install(lock_sha256, max_set_bytes=40000)
        equal(answer["error"]["kind"], "too-large")


def test_a_source_that_takes_too_long_to_compile_is_left_within_the_budget():
    program = rig.load("install")
    with Prefix() as p:
        slow = p.top + "/python3"
        pathlib.Path(slow).write_text("#!/bin/sh\nexec sleep 600\n")
        os.chmod(slow, 0o755)
        compiler = program.Compiler(slow, {"PATH": "/usr/bin:/bin"})
        equal((compiler.compile("/x.py", 0.2), compiler.child), (False, None))


def test_nothing_of_a_package_runs():
    """A played uv that obeys; the wheels want to be imported by whoever compiles them."""
    for name, wheel in wheels.hostile_at_start().items():
        with Prefix() as p:
            p.play_uv()
            lock_sha256 = put(p, wheel)
            answer, lines = p.install(lock_sha256, workers=2)
            equal((name, "error" in answer, [line for line in lines if "HOSTILE" in line]), (name, False, []))
            # Older compilers take a great many signs before a number, newer ones refuse them.
            equal(answer["n_not_compiled"] in ((5, 6) if name == "mx-bad-sources" else (0,)), True)


def test_remove():
    with Prefix() as p:
        top = pathlib.Path(p.path)
        (top / "a/b/c").mkdir(parents=True)
        (top / "a/file").touch()
        (top / "link").symlink_to("/etc")
        (top / "a/b/link").symlink_to(p.top)
        os.mkfifo(top / "a/fifo")
        (top / ".removed-1").mkdir()
        (top / "a/b").chmod(0)
        outside = pathlib.Path(p.top, "outside")
        outside.touch()
        answer, lines = p.remove()
        equal((answer, lines, p.names(), outside.exists()), ({"n_removed": 8}, ["@ removing"], [], True))


def test_remove_what_is_very_deep():
    with Prefix() as p:
        here = os.open(p.path, os.O_RDONLY)
        for _ in range(300):
            os.mkdir("d" * 200, dir_fd=here)
            deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
        os.close(here)
        equal((p.remove()[0], p.names()), ({"n_removed": 300}, []))


def test_remove_fails():
    equal(rig.run("remove", {"prefix": "/nonexistent"})[0]["error"]["kind"], "internal")
    with Prefix() as p:
        os.symlink("/etc", p.top + "/link")
        equal(rig.run("remove", {"prefix": p.top + "/link"})[0]["error"]["kind"], "internal")


if __name__ == "__main__":
    rig.main()
