# SPDX-License-Identifier: MIT
"""The two that receive a program, runner.py and (with a set of packages) init: the same message must make the same world."""

import array
import fcntl
import os
import resource
import select
import signal
import socket
import termios

import rig
from rig import equal
from test_set import SetRun

WAYS = (rig.Run, SetRun)
LOST = "mcp-exec: the program could not be put in place: "


def unread(control):
    """Bytes that the other end has not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(control, termios.TIOCOUTQ, count)
    return count[0]


def both(code, before=None, **message):
    """What each of them makes of it."""
    result = []
    for way in WAYS:
        with way(before=before) as r:
            r.send(code, keep=True, **message)
            status, out, err = r.finish()
            result.append((status, out.replace(r.tmp, "TMP"), err.replace(r.tmp, "TMP")))
    return result


WORLD = """
import ctypes, fcntl, io, os, resource, signal, stat, sys
fds = {}
for fd in range(64):
    try:
        fds[fd] = (stat.S_IFMT(os.fstat(fd).st_mode), fcntl.fcntl(fd, fcntl.F_GETFL) & ~0o100000, fcntl.fcntl(fd, fcntl.F_GETFD))
    except OSError:
        pass
status = [line for line in open('/proc/self/status') if line.split(':')[0] in (
    'Umask', 'Threads', 'SigPnd', 'ShdPnd', 'SigBlk', 'SigIgn', 'SigCgt', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb',
    'NoNewPrivs', 'Seccomp', 'Groups')]
stream = lambda s: (type(s).__name__, type(s.buffer).__name__, s.name, s.mode, s.encoding, s.errors, s.line_buffering,
                    s.write_through, s.buffer.name, getattr(s.buffer, 'raw', s.buffer).closefd, s.newlines)
environment = dict(os.environ)
environment.pop('VIRTUAL_ENV', None)
environment['PATH'] = environment['PATH'].removeprefix(os.environ.get('VIRTUAL_ENV', '\\0') + '/bin:')
print([fds, status, os.getcwd(), sys.argv, sys.orig_argv[1:], environment, sorted(os.listdir('.')),
       [resource.getrlimit(i) for i in range(16)], open('/proc/self/oom_score_adj').read(), os.nice(0),
       os.getpgrp() - os.getppid(), os.getsid(0) - os.getppid(),
       os.sched_getscheduler(0), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), stream(sys.stdin), stream(sys.stdout), stream(sys.stderr),
       sys.stdin is sys.__stdin__, __file__, sys.path[0], tuple(sys.flags),
       os.path.exists('/proc/self/fd/0') and open('/dev/stdin', 'rb').read()[-3:], sys.stdin.read()[-3:]])
"""


def test_the_world_of_a_program_is_the_same_with_a_set():
    for stdin in (b"", b"in\n", b"x\n" * 40000, b"x\n" * 600000):
        plain, with_set = both(WORLD, stdin=stdin, files=[(b"a", b"1"), (b"n" * 255, b"")])
        equal((plain[0], plain[2]), (0, ""))
        for one, other in zip(eval(plain[1]), eval(with_set[1])):
            equal(other, one)
        equal(with_set, plain)


def test_a_message_in_single_bytes_and_between_signals():
    full = rig.message("print(open('a').read(), open('b').read(), input())", "word", [(b"a", b"1"), (b"b", b"2" * 70000)])
    for way in WAYS:
        with way() as r:
            r.ready()
            for i in range(140):
                r.control.sendall(full[i:i + 1])
                if i % 20 == 0:
                    r.process.send_signal(signal.SIGSTOP)
                    r.process.send_signal(signal.SIGCONT)
            r.control.sendall(full[140:])
            equal(r.finish(), (0, f"1 {'2' * 70000} word\n", ""))


def test_a_message_is_read_to_its_end_although_it_finds_no_room():
    """Or the daemon, which cannot get rid of it, would say that the sandbox ended before the program began."""
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    big = b"x" * 3000000
    for before, reason, message in (
            (None, "File exists", {"files": [(b"a", b""), (b"a", b"1"), (b"b", big), (b"c", big)]}),
            (small_files, "File too large", {"files": [(b"a", big), (b"b", big)]}),
            (small_files, "File too large", {"stdin": big, "files": [(b"b", big)]}),
            (small_files, "File too large", {"code": b"#" * 200000, "stdin": b"1" * 200000, "files": [(b"b", big)]})):
        for way in WAYS:
            with way(before=before) as r:
                r.send(**{"code": "print(1)", **message}, keep=True)
                equal(r.finish(), (1, "", LOST + reason + "\n"))
                equal((unread(r.control), r.control.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), (0, 0))


def test_what_is_said_of_a_malformed_message_is_the_same():
    for message in ({"magic": b"MXCODE1\n"}, {"files": [(b"a/b", b"")]}, {"files": [(b"..", b"x")]}, {"files": [(b"x" * 256, b"")]},
                    {"files": [(b"a\0", b"")]}, {"files": [(b"", b"")]}, {"files": [(b"main.py", b"")]}):
        plain, with_set = both("print(1)", **message)
        equal((message, with_set), (message, plain))
        equal(plain, (100 + rig.checks()["CONTROL"], "", "mcp-exec: a malformed message came from the daemon\n"))


def test_names_that_are_only_unusual():
    names = [b"-", b"...", b"..a", b"a\n", b"\xff\xfe", b"main.pyc", b"MAIN.PY", b" ", b"\\", b"n" * 255, "\u00e4".encode()]
    plain, with_set = both("import os\nprint(sorted(os.listdir(b'.')))\n", files=[(name, b"x") for name in names])
    equal(plain, (0, f"{sorted([*names, b'main.py'])}\n", ""))
    equal(with_set, plain)


def test_a_daemon_that_ends_without_having_read_ready():
    for way in WAYS:
        for sent in (b"", rig.message("print(1)")[:20], rig.message("print(1)", files=[(b"a", b"12")])[:-1]):
            with way() as r:
                equal(len(select.select([r.control], [], [], rig.SECONDS)[0]), 1)
                r.control.sendall(sent)
                r.control.close()
                equal(r.finish(), (0, "", ""))


def test_a_program_cannot_be_heard_by_the_daemon():
    code = ("import os, socket\nfor fd in range(64):\n    try:\n        socket.socket(fileno=os.dup(fd)).send(b'MXREADY\\n')\n"
            "        print(fd)\n    except OSError:\n        pass\n")
    for way in WAYS:
        with way() as r:
            r.send(code, keep=True)
            equal(r.finish(), (0, "", ""))
            equal(r.control.recv(100), b"")


def test_a_set_that_is_not_what_it_was():
    def replace(text, mode):
        def change(prefix):
            os.unlink(prefix + "/bin/python3")
            with open(prefix + "/bin/python3", "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(prefix + "/bin/python3", mode)
        return change

    def make_directory(prefix):
        os.unlink(prefix + "/bin/python3")
        os.mkdir(prefix + "/bin/python3")

    def make_loop(prefix):
        os.unlink(prefix + "/bin/python3")
        os.symlink("python3", prefix + "/bin/python3")

    start = "mcp-exec: the interpreter of the packages cannot be started: "
    for breaks, reason in ((replace("no program", 0o755), "Exec format error"), (replace("", 0o644), "Permission denied"),
                           (replace("#!/nonexistent/python3\n", 0o755), "No such file or directory"),
                           (make_directory, "Permission denied"), (make_loop, "Too many levels of symbolic links")):
        with SetRun(breaks=breaks) as r:
            r.send("print(1)\n", keep=True)
            equal(r.finish(), (100 + rig.checks()["INTERPRETER"], "", start + reason + "\n"))
    # One that is not the set's: it finds no packages, and must not go on without.
    with SetRun(breaks=lambda prefix: os.unlink(prefix + "/pyvenv.cfg")) as r:
        r.send("print(1)\n", keep=True)
        status, out, err = r.finish()
        equal((status, out), (100 + rig.checks()["INTERPRETER"], ""))
        equal(err.startswith("mcp-exec: the runner does not work in this interpreter: "), True)


if __name__ == "__main__":
    rig.main()
