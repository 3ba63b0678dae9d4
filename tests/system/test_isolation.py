# SPDX-License-Identifier: MIT
"""What a run can reach: nothing of the host, nothing of another run, nothing of ours."""

import os
import pathlib

from lib import (Client, StdioClient, also_vm, configured, main_pid, needs, processes_with, run_units, sh,
                 timeout, vm_only, wait_until)
from seen import begun, journal_text, newest_line


def _lines(client, code, **arguments):
    r = client.exec(code, **arguments)
    assert r["exit_code"] == 0, r["stderr"]
    return r["stdout"].splitlines()


def _finds_nothing(client, code):
    """Runs code that prints what it could reach, and "end"."""
    found = _lines(client, code)
    assert found == ["end"], found


@also_vm
def test_only_the_loopback_interface_exists():
    assert len(os.listdir("/sys/class/net")) > 1, "the machine itself must have more than lo for this test to say anything"
    with Client() as c:
        assert _lines(c, "for l in open('/proc/self/net/dev'):\n  if ':' in l: print(l.split(':')[0].strip())") == ["lo"]


def test_no_socket_of_any_family_can_be_made():
    code = ("import socket\nfor f in ('AF_INET', 'AF_INET6', 'AF_UNIX', 'AF_NETLINK', 'AF_PACKET', 'AF_VSOCK', 'AF_ALG'):\n"
            "  try: socket.socket(getattr(socket, f), socket.SOCK_RAW if f == 'AF_PACKET' else socket.SOCK_STREAM); print(f, 'made')\n"
            "  except OSError as e: pass\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_no_unix_socket_of_the_host_is_visible():
    code = ("import os, stat\nfor d, ds, fs in os.walk('/'):\n"
            "  if d.startswith('/proc') or d.startswith('/usr'): ds[:] = []; continue\n"
            "  for f in fs:\n    try:\n      if stat.S_ISSOCK(os.lstat(os.path.join(d, f)).st_mode): print(d, f)\n    except OSError: pass\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_files_of_the_host_are_not_there():
    secret = pathlib.Path("/home/alice/secret.txt")
    secret.write_text("secret")
    secret.chmod(0o644)
    code = ("import os\nfor p in ('/etc/shadow', '/etc/machine-id', '/home/alice/secret.txt', '/root', '/home', '/var/log',"
            " '/etc/mcp-exec', '/run/systemd', '/run/dbus', '/run/mcp-exec', '/sys/kernel', '/boot', '/var/lib/dpkg',"
            " '/var/lib/mcp-exec/sets', '/env'):\n"
            "  try: os.listdir(p) if not p.endswith(('shadow', 'id', 'txt')) else open(p).read()\n"
            "  except OSError: continue\n"
            "  if os.path.isdir(p) and os.listdir(p) in ([], ['incoming']): continue  # systemd's own, empty mount point\n"
            "  print(p)\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


@needs("systemd>=258")
def test_the_name_of_the_host_is_hidden_where_systemd_can():
    code = ("import os, socket\ntry: socket.sethostname('mine')\nexcept OSError as e: print(type(e).__name__)\n"
            "print(os.uname().nodename, socket.gethostname())")
    own = os.uname().nodename
    assert own != "sandbox"
    with Client() as c, StdioClient("alice", arguments=["--no-bridge"]) as of_a_user:
        for client in c, of_a_user:
            assert _lines(client, code) == ["PermissionError", "sandbox sandbox"]
    assert os.uname().nodename == own


def test_the_token_of_the_daemon_is_not_in_the_environment():
    with Client() as c:
        names = _lines(c, "import os\nprint(*sorted(os.environ), sep='\\n')")
        allowed = {"HOME", "USER", "LOGNAME", "TMPDIR", "PATH", "LANG", "SHELL", "XDG_CACHE_HOME", "MPLBACKEND",
                   "MPLCONFIGDIR", "LC_CTYPE", "PYTHONUNBUFFERED"}
        extra = {n for n in names if n not in allowed and not n.endswith("_THREADS")}
        assert not extra, extra
        same = _lines(c, "print(*[e.split(b'=')[0].decode() for e in open('/proc/self/environ', 'rb').read().split(b'\\0') if e], sep='\\n')")
        hidden = {n for n in same if n not in allowed and not n.endswith("_THREADS")}
        # What PID 1 itself sets cannot be kept from /proc/self/environ on every version; none of it is ours.
        assert not {n for n in hidden if "TOKEN" in n or "MCP" in n or "CREDENTIALS" in n}, hidden


def test_only_three_descriptors_are_open():
    with Client() as c:
        code = "import os\nfor f in sorted(os.listdir('/proc/self/fd'), key=int):\n  try: print(f, os.readlink('/proc/self/fd/' + f).split(':')[0])\n  except OSError: pass"
        got = [line for line in _lines(c, code, stdin="x")]
        assert [g.split()[0] for g in got] == ["0", "1", "2"] and all(g.split()[1] == "pipe" for g in got), got


def test_processes_of_others_are_invisible_and_unreachable():
    pid, launcher = main_pid(), main_pid("mcp-exec-launcher.service")
    with Client() as c:
        pid, launcher = main_pid(), main_pid("mcp-exec-launcher.service")
        code = (f"import os\nprint(*[p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()])\n"
                f"for p in (1, os.getppid() or 1, {pid}, {launcher}):\n  for f in ('environ', 'fd/1', 'mem', 'root'):\n"
                f"    try: os.stat(f'/proc/{{p}}/{{f}}'); print('reached', p, f)\n    except OSError: pass\n"
                f"  try: os.kill(p, 0); print('can signal', p)\n  except OSError: pass")
        assert _lines(c, code) == [""]
        assert c.request("ping").result(5) == {}


def test_no_privilege_and_no_way_to_gain_one():
    code = ("s = dict(l.split(':\\t') for l in open('/proc/self/status') if ':\\t' in l)\n"
            "print(s['CapEff'].strip(), s['CapPrm'].strip(), s['CapBnd'].strip(), s['NoNewPrivs'].strip(), s['Seccomp'].strip())\n"
            "import os; print(os.getuid() != 0 and os.getuid() >= 61184)")
    with Client() as c:
        assert _lines(c, code) == ["0" * 16 + " " + "0" * 16 + " " + "0" * 16 + " 1 2", "True"]


def test_dangerous_calls_are_refused():
    code = ("import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\n"
            "calls = {'io_uring_setup': (425, 1, 0), 'unshare_user': (272, 0x10000000), 'add_key': (248, 0, 0, 0, 0, 0),\n"
            "  'keyctl': (250, 0, 0, 0), 'ptrace': (101, 0, 0, 0, 0), 'mount': (165, 0, 0, 0, 0, 0), 'bpf': (321, 0, 0, 0),\n"
            "  'io_setup': (206, 0, 0), 'kexec_load': (246, 0, 0, 0, 0), 'perf_event_open': (298, 0, 0, 0, 0, 0), 'setns': (308, 0, 0), 'userfaultfd': (323, 1)}\n"
            "for name, args in calls.items():\n  r = l.syscall(*args)\n  e = ctypes.get_errno()\n"
            "  if r >= 0 or e not in (1, 38): print(name, r, e)\n"
            "try: os.chmod('/tmp/work', 0o4755)\nexcept OSError: pass\nelse: print('suid', oct(os.stat('/tmp/work').st_mode))\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_resources_of_the_whole_machine_cannot_be_taken():
    # Asynchronous I/O contexts are counted per machine, huge pages by no controller that systemd knows.
    code = ("import ctypes, mmap\nl = ctypes.CDLL(None, use_errno=True)\nbox = ctypes.c_ulong()\n"
            "if l.syscall(206, 1000, ctypes.byref(box)) != -1 or ctypes.get_errno() != 1: print('aio', ctypes.get_errno())\n"
            "if l.syscall(319, b'x', 4) != -1 or ctypes.get_errno() != 1: print('memfd', ctypes.get_errno())\n"
            "try: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)\n"
            "except OSError as e:\n  if e.errno != 1: print('mmap', e.errno)\nelse: print('mmap')\n"
            "mmap.mmap(-1, 2 << 20)\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_what_others_open_cannot_be_watched():
    # /usr is the same files for the host and all runs. inotify_init1, inotify_init, F_NOTIFY, F_SETLEASE; dup still works.
    code = ("import ctypes, fcntl, os, signal\nl = ctypes.CDLL(None, use_errno=True)\n"
            "for n in (294, 253):\n  if l.syscall(n, 0) != -1 or ctypes.get_errno() != 1: print('inotify', n, ctypes.get_errno())\n"
            "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
            "for where, command, value in (('/usr/bin', fcntl.F_NOTIFY, 0x80000001), ('/tmp/work', fcntl.F_NOTIFY, 1),\n"
            "    ('/tmp/work/main.py', fcntl.F_SETLEASE, fcntl.F_RDLCK), ('/tmp/work', 1040, 0)):\n"
            "  f = os.open(where, os.O_RDONLY)\n"
            "  if l.fcntl(f, command, value) != -1 or ctypes.get_errno() != 1: print(where, command, ctypes.get_errno())\n"
            "  os.close(fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, 50))\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_cpu_time_of_other_processes_cannot_be_read():
    """A program followed by it how busy another caller's was."""
    code = ("import ctypes, os, subprocess, sys, threading, time\nl = ctypes.CDLL(None, use_errno=True)\n"
            "box = (ctypes.c_long * 8)()\np = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1)\n"
            "for pid in 1, os.getppid() or 1, p.pid:\n"
            "  for kind in 0, 1, 2:\n"
            "    for call in (228, (~pid << 3) | kind, box), (229, (~pid << 3) | kind, box), (230, (~pid << 3) | kind, 0, box, 0), \\\n"
            "        (222, (~pid << 3) | kind, 0, box):\n"
            "      if l.syscall(*call) != -1 or ctypes.get_errno() != 1: print(pid, kind, call[0], ctypes.get_errno())\n"
            "p.communicate(b'x')\n"
            "assert time.process_time() > 0 and time.thread_time() > 0 and time.clock_gettime(-6) > 0 and time.clock_gettime(-2) > 0\n"
            "assert time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident())) > 0\ntime.sleep(0.01)\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_disks_of_the_whole_machine_cannot_be_flushed():
    code = ("import ctypes, os, sqlite3\nl = ctypes.CDLL(None, use_errno=True)\nf = os.open('/usr', os.O_RDONLY)\n"
            "for call in (162, 0), (306, f):\n"
            "  if l.syscall(*call) != -1 or ctypes.get_errno() != 1: print(call, ctypes.get_errno())\n"
            "os.sync()\n"
            "with open('a', 'wb') as a: a.write(b'x'); a.flush(); os.fsync(a.fileno()); os.fdatasync(a.fileno())\n"
            "d = sqlite3.connect('b'); d.execute('create table t (a)'); d.commit()\nprint('end')")
    with Client() as c:
        _finds_nothing(c, code)


def test_writable_places_are_small_tmpfs_and_nothing_else():
    code = ("import os, tempfile\nw = []\nfor d in ('/', '/usr', '/etc', '/var', '/var/tmp', '/tmp', '/tmp/work', '/dev', '/dev/shm', '/dev/mqueue', '/run', '/proc', '/var/zz'):\n"
            "  try:\n    f = os.path.join(d, 'x'); open(f, 'w').close(); os.unlink(f); w.append(d)\n  except OSError: pass\nprint(*w)\n"
            "for d in ('/tmp', '/dev/shm'):\n  s = os.statvfs(d); print(d, s.f_blocks * s.f_frsize, s.f_files < 100000)\n"
            "print(*{l.split()[2] for l in open('/proc/self/mounts') if l.split()[1] in ('/tmp', '/dev/shm')})\n"
            "print(os.getcwd(), os.path.expanduser('~'), tempfile.gettempdir())")
    with Client() as c:
        got = _lines(c, code)
    assert got[0].split() == ["/var/tmp", "/tmp", "/tmp/work", "/dev/shm"], got
    assert got[1] == f"/tmp {64 << 20} True" and got[2] == f"/dev/shm {64 << 20} True", got
    assert got[3] == "tmpfs" and got[4] == "/tmp/work /tmp/home /tmp", got


def test_the_root_looks_like_any_other():
    with Client() as c:
        assert _lines(c, "import os\nprint(*sorted(os.listdir('/')))") == [
            "bin dev env etc lib lib64 opt proc root run sbin srv sys tmp usr var"]


def test_many_small_files_are_bounded():
    code = "try:\n  for i in range(1000000): open(f'/tmp/{i}', 'w').close()\nexcept OSError as e: print(e.errno, i < 100000)"
    with Client() as c:
        assert _lines(c, code) == ["28 True"]


def test_host_shared_memory_and_queues_are_not_shared():
    code = ("import ctypes\nl = ctypes.CDLL(None)\nprint(l.shmget(0x4d435845, 0, 0) < 0)\n"
            "import os; print(os.listdir('/dev/mqueue') if os.path.isdir('/dev/mqueue') else [], os.listdir('/dev/shm'))")
    made = sh("ipcmk -M 4096 -p 0666 >/dev/null; touch /dev/shm/host-file; true", check=False)
    assert made.returncode == 0
    with Client() as c:
        got = _lines(c, code)
    assert got[0] == "True" and got[1] == "[] []", got


@timeout(120)
def test_code_is_nowhere_outside_the_unit():
    marker = "marker_7f3a9c"
    code = f"import time\n{marker} = 'in the code'\nprint('{marker}-out', flush=True); time.sleep(100)"
    places = "/run /tmp /var/tmp /var/lib/mcp-exec /var/log /etc"

    def files():
        # Of the journal there is journal_text().
        return sh(f"grep -rsl {marker} {places} --exclude-dir=journal --exclude-dir=tests", check=False).stdout
    with Client() as c:
        run = c.start("exec", {"code": code, "stdin": marker + "-in", "timeout_s": 110}, meta={"progressToken": 1})
        wait_until(lambda: newest_line(c) == marker + "-out", 30)
        units = run_units()
        assert units
        for unit in units:
            text = sh(["systemctl", "show", unit]).stdout + sh(["systemctl", "cat", unit], check=False).stdout
            assert marker not in text, unit
        # The client's own process has it in a pipe, nobody has it where all can read it.
        assert processes_with(marker) == []
        assert files() == ""
        assert not run.done.is_set(), "the program ended too soon for this to say anything"
        c.cancel(run.ident)
        assert c.exec(code.partition("; time")[0])["stdout"] == marker + "-out\n"
    assert marker not in journal_text()
    assert files() == ""


@timeout(120)
def test_two_runs_at_once_cannot_see_each_other():
    writer = ("import time, os\nopen('/tmp/shared', 'w').write('a'); open('/dev/shm/shared', 'w').write('a')\n"
              "print(os.getuid(), flush=True); time.sleep(100)")
    reader = ("import os\nprint(os.getuid())\nprint(os.path.exists('/tmp/shared'), os.path.exists('/dev/shm/shared'))\n"
              "print([p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()])")
    with configured("[Exec]\nMaxParallel=2\n"), Client() as a, Client() as b:
        first = begun(a, writer)
        uid = newest_line(a)
        seen = b.exec(reader)["stdout"].splitlines()
        assert not first.done.is_set(), "they did not run at once"
        a.cancel(first.ident)
    assert uid.isdigit() and seen[0] != uid and seen[1:] == ["False False", "[]"], (uid, seen)


def test_clients_stdin_never_reaches_the_code():
    with Client() as c:
        run = c.start("exec", {"code": "import sys; print(repr(sys.stdin.read()))"})
        c.notify("notifications/anything", {"secret": "bytes"})
        assert run.result(20)["structuredContent"]["stdout"] == "''\n"


@also_vm
@timeout(120)
def test_pty_storm_takes_none_of_the_host():
    before = os.listdir("/dev/pts")
    code = "import os\nn = 0\nfor i in range(5000):\n  try: os.open('/dev/ptmx', os.O_RDWR); n += 1\n  except OSError: pass\nprint(n)"
    with Client() as c:
        assert _lines(c, code) == ["0"]
    assert os.listdir("/dev/pts") == before


@vm_only
def test_core_dump_with_a_piped_core_pattern_leaks_nothing():
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    catcher = pathlib.Path("/var/tmp/catch-core")
    catcher.write_text("#!/bin/sh\ncat > /var/tmp/core.$1\n")
    catcher.chmod(0o755)
    old = pattern.read_text()
    pattern.write_text("|/var/tmp/catch-core %p")
    try:
        with Client() as c:
            r = c.exec("secret = 'core-secret' * 100000\nimport os; os.abort()")
            assert (r["status"], r["signal"]) == ("signal", "SIGABRT"), r
        left = [p for p in pathlib.Path("/var/tmp").glob("core.*") if p.stat().st_size > 0]
        assert not left, left
    finally:
        pattern.write_text(old)
        catcher.unlink()
