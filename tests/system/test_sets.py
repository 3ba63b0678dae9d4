# SPDX-License-Identifier: MIT
"""Sets of packages at the seam: the units that make them, what they can reach, and how sets come and go."""

import contextlib
import errno
import json
import os
import pathlib
import pwd
import signal
import socket
import threading

import seam
from lib import also_vm, main_pid, minimal_environment, needs, run_units, sh, start_sockets, \
    stop_services, user_options, wait_until
from seam import COMMIT, DROP, FETCH, INSTALL, PARSE, RETIRE, RUN

LAUNCHER = "mcp-exec-launcher.service"
PROGRAM = "/usr/libexec/mcp-exec/mcp-exec-launcher"
SETS = pathlib.Path("/var/lib/mcp-exec/sets")
UV = pathlib.Path("/usr/local/bin/uv")
A, B, C = "a" * 64, "b" * 64, "c" * 64

MAKE = """
import os, sys
packages = f"/env/lib/python3.{sys.version_info[1]}/site-packages"
os.makedirs(packages)
os.makedirs("/env/bin")
os.symlink(os.path.realpath(sys.executable), "/env/bin/python3")
open("/env/pyvenv.cfg", "w").write("home = /usr/bin\\ninclude-system-site-packages = false\\n")
open(packages + "/hello.py", "w").write("x = 5\\n")
open(packages + "/early.pth", "w").write("import os; os.early = True\\n")
open(packages + "/sitecustomize.py", "w").write("import os; os.late = True\\n")
"""

EMPTY = """
import os, shutil
for entry in os.scandir("/env"):
    shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
"""

LOOK = """
import json, os, socket
def attempt(call, *arguments):
    try:
        call(*arguments)
        return 0
    except OSError as error:
        return error.errno
def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return error.errno
print(json.dumps({
    "uid": os.getuid(),
    "net": os.stat("/proc/self/ns/net").st_ino,
    "unix": attempt(socket.socket, socket.AF_UNIX),
    "inet": attempt(socket.socket, socket.AF_INET),
    "netlink": attempt(socket.socket, 16, socket.SOCK_RAW),
    "root": names("/"), "etc": names("/etc"), "env": names("/env"), "run": names("/run"),
    "var": names("/var/lib/mcp-exec"), "sets": names("/var/lib/mcp-exec/sets"),
    "write": {path: attempt(os.mkdir, path + "/probe") for path in ("/", "/env", "/usr", "/etc", "/var/lib/mcp-exec",
              "/var/lib/mcp-exec/sets", "/run", "/opt", "/tmp", "/dev/shm")},
    "setuid": attempt(os.chmod, "/tmp/probe", 0o4755),
    "credentials": os.environ.get("CREDENTIALS_DIRECTORY"),
    "path": os.environ["PATH"],
}))
"""


@contextlib.contextmanager
def uv(mode=0o755, text="#!/bin/sh\necho uv\n"):
    """A uv is installed. New launchers see it, the one that runs does not."""
    stop_services()
    UV.write_text(text)
    UV.chmod(mode)
    try:
        yield
    finally:
        stop_services()
        UV.unlink(missing_ok=True)


def connect():
    start_sockets()
    launcher = seam.Launcher.connect()
    launcher.hello = launcher.expect(seam.HELLO)
    assert launcher.hello["verdict"] == 0, launcher.hello
    return launcher


def run(launcher, code, **kwargs):
    """Output of a program that must succeed."""
    out, err, (kind, _, fields) = seam.run(launcher, code, **kwargs)
    assert kind == seam.FINISHED, (kind, fields)
    assert (fields["main_code"], fields["main_status"], err) == (1, 0, b""), (fields, err)
    return out.decode()


def look(launcher, **kwargs):
    return json.loads(run(launcher, LOOK, **kwargs))


def make(launcher, name, leaf=C):
    """A finished set with a module in it."""
    run(launcher, MAKE, profile=INSTALL, environment=leaf)
    assert launcher.change_set(COMMIT, leaf, name) == 0


def remove(launcher, name, is_set=True):
    if is_set:
        assert launcher.change_set(RETIRE, name) == 0
    run(launcher, EMPTY, profile=INSTALL, environment=name)
    assert launcher.change_set(DROP, name) == 0


def sets():
    return sorted(p.name for p in SETS.iterdir() if not p.name.startswith("."))


def refused(launcher, **kwargs):
    unit = launcher.start(**kwargs)
    _, _, (kind, _, fields) = unit.collect()
    assert kind == seam.REFUSED, (kind, fields)
    return fields["reason"]


@also_vm
def test_a_run_has_its_set_and_cannot_change_it():
    launcher = connect()
    make(launcher, A)
    try:
        assert sets() == [A]
        out = run(launcher, "import hello, json, os, sys, subprocess\n"
                            "child = subprocess.run(['python3', '-c', 'import hello; print(hello.x)'],\n"
                            "                       capture_output=True, text=True).stdout\n"
                            "print(json.dumps([hello.x, sys.prefix, sys.executable, sys.argv, sys.path[0], child,\n"
                            "                  os.early, os.late, os.environ['VIRTUAL_ENV'], os.getcwd(),\n"
                            "                  'PYTHONPATH' in os.environ, os.environ['PATH'].split(':')[0]]))",
                  environment=A)
        assert json.loads(out) == [5, "/env", "/env/bin/python3", ["main.py"], "/tmp/work", "5\n", True, True, "/env",
                                   "/tmp/work", False, "/env/bin"], out
        seen = look(launcher, environment=A)
        assert seen["write"]["/env"] == errno.EROFS, seen
        assert seen["env"] == ["bin", "lib", "pyvenv.cfg"], seen
        assert (seen["unix"], seen["inet"]) == (errno.EPERM, errno.EPERM) or \
            (seen["unix"], seen["inet"]) == (errno.EAFNOSUPPORT, errno.EAFNOSUPPORT), seen
        assert seen["uid"] != pwd.getpwnam("mcp-exec-prepare").pw_uid, seen
        err = seam.run(launcher, "1 / 0", environment=A)[1].decode()
        assert err.startswith('Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n'), err
    finally:
        remove(launcher, A)
    assert sets() == []


def test_without_a_set_there_is_an_empty_directory():
    launcher = connect()
    for profile in RUN, PARSE:
        seen = look(launcher, profile=profile)
        assert seen["env"] == [] and seen["sets"] == [], seen
        assert seen["path"] == "/usr/lib/mcp-exec/stubs:/usr/local/bin:/usr/bin:/bin", seen


@also_vm
def test_what_a_unit_of_preparation_can_reach():
    with uv():
        launcher = connect()
        make(launcher, A)
        make(launcher, B, leaf=A)
        try:
            fetch = look(launcher, profile=FETCH, environment=C)
            run(launcher, EMPTY, profile=INSTALL, environment=C)
            install = look(launcher, profile=INSTALL, environment=C)
            uid = pwd.getpwnam("mcp-exec-prepare").pw_uid
            for seen in fetch, install:
                assert seen["uid"] == uid, seen
                assert seen["sets"] == [C + ".tmp"], seen
                assert seen["env"] == [], seen
                assert {path for path, error in seen["write"].items() if error == 0} == {"/env", "/tmp", "/dev/shm"}, seen
                assert seen["unix"] in (errno.EPERM, errno.EAFNOSUPPORT), seen
                assert seen["netlink"] in (errno.EPERM, errno.EAFNOSUPPORT), seen
                assert seen["setuid"] == errno.EPERM, seen
                assert seen["credentials"] is None, seen
                assert seen["var"] == ["sets", "uv"] and "home" not in seen["root"], seen
                assert "shadow" not in seen["etc"] and "machine-id" not in seen["etc"], seen
            assert fetch["net"] == os.stat("/proc/self/ns/net").st_ino, fetch
            assert fetch["inet"] == 0, fetch
            assert install["net"] != fetch["net"], install
            assert install["inet"] in (errno.EPERM, errno.EAFNOSUPPORT), install
        finally:
            remove(launcher, C, is_set=False)
            remove(launcher, A)
            remove(launcher, B)


@contextlib.contextmanager
def name_server():
    """A server of names for the length of a with block, and it is this machine's: every name is 127.0.0.1."""
    conf = pathlib.Path("/etc/resolv.conf")
    away = conf.with_name("resolv.conf.away")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def answer():
        with contextlib.suppress(OSError):
            while query := server.recvfrom(512):
                data, peer = query
                question = data[12:data.index(b"\0", 12) + 5]
                is_a = question[-4:-2] == b"\0\1"
                record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if is_a else b""
                server.sendto(data[:2] + b"\x81\x80\0\1\0" + bytes([is_a]) + b"\0\0\0\0" + question + record, peer)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    if os.path.lexists(conf):
        conf.rename(away)
    conf.write_text("nameserver 127.0.0.1\n")
    conf.chmod(0o644)
    try:
        yield
    finally:
        conf.unlink()
        if os.path.lexists(away):
            away.rename(conf)
        server.close()


def test_fetch_resolves_names_and_reaches_an_index():
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        for _ in range(2):
            connection = server.accept()[0]
            connection.sendall(b"wheel")
            connection.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    code = "import socket\nfor name in 'localhost', 'index.example':\n" \
           f"    print(socket.create_connection((name, {server.getsockname()[1]}), 20).recv(9))"
    with uv(), name_server():
        launcher = connect()
        try:
            assert run(launcher, code, profile=FETCH, environment=C) == "b'wheel'\nb'wheel'\n"
            run(launcher, EMPTY, profile=INSTALL, environment=C)
            for kwargs in {"profile": INSTALL, "environment": C}, {}:
                assert seam.run(launcher, code, **kwargs)[0] == b"", kwargs
        finally:
            remove(launcher, C, is_set=False)
    thread.join(10)
    server.close()


@also_vm
def test_two_preparations_do_not_see_each_other():
    with uv():
        launcher = connect()
        one = launcher.start(profile=FETCH, environment=A)
        one.ready()
        launcher.expect(seam.STARTED, one.job)
        one.feed("open('/env/secret', 'w').write('x')\nprint('here', flush=True)\nimport time\ntime.sleep(600)")
        assert one.line() == b"here\n"
        other = connect()
        try:
            out = run(other, "import json, os\n"
                             "found = []\n"
                             "for pid in os.listdir('/proc'):\n"
                             "    if pid.isdigit() and int(pid) != os.getpid():\n"
                             "        for path in f'/proc/{pid}/root/env/secret', f'/proc/{pid}/cwd', "
                             "f'/proc/{pid}/environ', f'/proc/{pid}/fd/0':\n"
                             "            try:\n"
                             "                os.close(os.open(path, os.O_RDONLY))\n"
                             "                found.append(path)\n"
                             "            except OSError:\n"
                             "                pass\n"
                             "print(found)", profile=INSTALL, environment=B)
            assert out == "[]\n", out
        finally:
            one.stop()
            one.collect()
            remove(other, A, is_set=False)
            remove(other, B, is_set=False)


def test_a_leaf_has_one_unit_at_a_time_and_a_set_in_use_stays():
    launcher = connect()
    make(launcher, A)
    user = launcher.start(environment=A)
    user.ready()
    launcher.expect(seam.STARTED, user.job)
    other = connect()
    assert other.change_set(RETIRE, A) == errno.EBUSY
    run(other, "import hello", environment=A)
    user.stop()
    user.collect()
    wait_until(lambda: other.change_set(RETIRE, A) == 0)
    assert sets() == [A + ".tmp"]

    writer = launcher.start(profile=INSTALL, environment=A)
    writer.ready()
    launcher.expect(seam.STARTED, writer.job)
    assert other.change_set(DROP, A) == errno.EBUSY
    assert other.change_set(COMMIT, A, B) == errno.EBUSY
    assert "another sandbox" in refused(other, profile=INSTALL, environment=A)
    writer.stop()
    writer.collect()
    assert other.change_set(DROP, A) == errno.ENOTEMPTY
    assert other.change_set(RETIRE, A) == errno.ENOENT
    assert "does not exist" in refused(other, environment=A)
    make(other, B)
    assert other.change_set(COMMIT, A, B) == errno.EEXIST
    remove(other, A, is_set=False)
    assert other.change_set(DROP, A) == errno.ENOENT
    remove(other, B)


def test_what_is_not_ours_is_refused():
    stop_services()
    launcher = connect()
    target = pathlib.Path("/tmp/elsewhere")
    target.mkdir()
    (SETS / A).symlink_to(target)
    (SETS / B).mkdir()                     # root's, not mcp-exec-prepare's
    try:
        for name in A, B:
            assert "is not a directory that mcp-exec made" in refused(launcher, environment=name)
        (SETS / A).rename(SETS / (A + ".tmp"))
        assert "is not a directory that mcp-exec made" in refused(launcher, profile=INSTALL, environment=A)
        assert launcher.change_set(COMMIT, A, C) == errno.EPERM
        assert launcher.change_set(DROP, A) == errno.ENOTDIR
        assert list(target.iterdir()) == []
    finally:
        (SETS / (A + ".tmp")).unlink()
        (SETS / B).rmdir()
        target.rmdir()


def test_what_no_daemon_of_ours_sends_closes_the_connection():
    start_sockets()
    name, none = b"a" * 64, bytes(64)
    violations = (
        ("a set for PARSE", seam.start_packet(1, profile=seam.PARSE, environment=name), True),
        ("no leaf for FETCH", seam.start_packet(1, profile=seam.FETCH), True),
        ("no leaf for INSTALL", seam.start_packet(1, profile=seam.INSTALL), True),
        ("a set without a name", seam.pack(seam.SET, 1, seam.DROP, none, none), False),
        ("a path for a set", seam.pack(seam.SET, 1, seam.RETIRE, b"../x" * 16, none), False),
        ("half a name", seam.pack(seam.SET, 1, seam.DROP, b"a" * 63 + b"\0", none), False),
        ("ready as nothing", seam.pack(seam.SET, 1, seam.COMMIT, name, none), False),
        ("two names to remove", seam.pack(seam.SET, 1, seam.DROP, name, name), False),
        ("no such action", seam.pack(seam.SET, 1, 3, name, none), False),
        ("an answer", seam.pack(seam.SET_DONE, 1, 0, b""), False),
    )
    before = sets()
    for what, packet, with_fds in violations:
        launcher = connect()
        a, b = socket.socketpair()
        r, w = os.pipe()
        launcher.send(packet, [a.fileno(), w, w] if with_fds else [])
        assert launcher.next(10) is None, what
        launcher.close()
        for fd in r, w:
            os.close(fd)
        a.close()
        b.close()
    assert sets() == before and run_units() == []


def test_a_full_disk_is_told_and_nothing_is_lost():
    stop_services()
    sh(f"mount -t tmpfs -o size=256k,mode=755 sets {SETS}")
    try:
        launcher = connect()
        make(launcher, A)
        sh(f"head -c 1M /dev/zero > {SETS}/.filler", check=False)
        assert f"The disk with {SETS} is full" in refused(launcher, profile=INSTALL, environment=B)
        assert run(launcher, "import hello; print(hello.x)", environment=A) == "5\n"
        remove(launcher, A)
        (SETS / ".filler").unlink()
        make(launcher, B)
        remove(launcher, B)
    finally:
        stop_services()
        sh(f"umount {SETS}")


@also_vm
def test_a_killed_launcher_leaves_no_unit_and_nothing_in_the_way():
    with uv():
        launcher = connect()
        names = []
        for profile, leaf in (FETCH, A), (INSTALL, B):
            unit = launcher.start(profile=profile, environment=leaf)
            unit.ready()
            names.append(launcher.expect(seam.STARTED, unit.job)["unit"])
            unit.feed("import time\nif %r: open('/env/half', 'w').close()\nprint('here', flush=True)\ntime.sleep(600)"
                      % (leaf == A))
            assert unit.line() == b"here\n"
        os.kill(main_pid(LAUNCHER), signal.SIGKILL)
        wait_until(lambda: not set(names) & set(run_units()), 10)
        assert sets() == [A + ".tmp", B + ".tmp"]
        launcher = connect()
        assert sets() == [A + ".tmp"], "an empty leaf is swept"
        remove(launcher, A, is_set=False)
        make(launcher, B)
        remove(launcher, B)


@needs("user-manager-257")
def test_a_user_has_sets_of_their_own():
    home = pathlib.Path(pwd.getpwnam("alice").pw_dir)
    program = home / ".local/bin/uv"
    sh(f"mkdir -p {program.parent} && printf '#!/bin/sh\\necho uv of mine\\n' > {program} && chmod 755 {program}", "alice")
    launcher = seam.Launcher.spawn(PROGRAM, env=minimal_environment("alice"), **user_options("alice"))
    try:
        hello = launcher.expect(seam.HELLO)
        assert hello["verdict"] == 0, hello
        directory = home / ".local/state/mcp-exec/sets"
        inside = "/var/lib/mcp-exec/uv"
        assert (hello["sets_directory"], hello["uv"], hello["uv_on_host"]) == (str(directory), inside, str(program)), hello
        out = run(launcher, f"import subprocess, os\nprint(subprocess.check_output(['{inside}'], text=True), end='')\n"
                            "print(os.listdir('/env'))", profile=FETCH, environment=C)
        assert out == "uv of mine\n[]\n", out
        seen = look(launcher, profile=FETCH, environment=C)
        assert seen["inet"] == 0 and seen["unix"] != 0 and "home" not in seen["root"], seen
        assert {path for path, error in seen["write"].items() if error == 0} == {"/env", "/tmp", "/dev/shm"}, seen
        run(launcher, EMPTY, profile=INSTALL, environment=C)
        make(launcher, A)
        assert run(launcher, "import hello; print(hello.x)", environment=A) == "5\n"
        seen = look(launcher, environment=A)
        assert seen["write"]["/env"] == errno.EROFS, seen
        remove(launcher, A)
        assert sorted(os.listdir(directory)) == [".lock"]
    finally:
        launcher.close()
        program.unlink()
        sh(f"rm -r {directory.parent}", "alice")
