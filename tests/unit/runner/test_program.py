#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program's view: it must not be able to tell this from `python3 main.py`, but for what README.md documents."""

import os
import socket
import stat
import sys

import rig
from rig import equal, run, value

# Each is run by us and by the bare interpreter; status, stdout and stderr must be the same to the byte.
SAME_AS_BARE = {
    "nothing": "pass",
    "empty": "",
    "print": "print('hello'); print('\\u00e4\\u20ac')",
    "exit_number": "import sys; sys.exit(3)",
    "exit_none": "import sys; sys.exit(None)",
    "exit_text": "import sys; sys.exit('bye')",
    "exit_large": "raise SystemExit(300)",
    "exit_negative": "raise SystemExit(-1)",
    "exit_huge": "raise SystemExit(2**80)",
    "exit_tuple": "raise SystemExit((1, 2))",
    "exit_in_thread": "import threading, sys; t = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()",
    "os_exit": "import os; print('x'); os._exit(7)",
    "syntax_error": "x = 1\nif x\n    pass\n",
    "indentation_error": "def f():\npass\n",
    "null_byte": "x = 1\0\n",
    "bad_cookie": "# -*- coding: nonsense -*-\nprint(1)\n",
    "traceback": "def f():\n    return 1 / 0\n\n\nf()\n",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('x') from e\n",
    "during_handling": "try:\n    {}['a']\nexcept KeyError:\n    undefined\n",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "recursion": "import sys\nsys.setrecursionlimit(60)\ndef f():\n    f()\nf()\n",
    "in_thread": "import threading\n\n\ndef f():\n    raise ValueError(1)\n\n\n"
                 "t = threading.Thread(target=f, name='t')\nt.start()\nt.join()\n",
    "own_hook": "import sys\nsys.excepthook = lambda t, v, tb: print('hook', t, v, tb.tb_lineno, tb.tb_next)\n1 / 0\n",
    "broken_hook": "import sys\nsys.excepthook = lambda *a: 1 / 0\nundefined\n",
    "last_exception": "import atexit, sys\natexit.register(lambda: print(sys.last_type, sys.last_value))\n1 / 0\n",
    "atexit_order": "import atexit\natexit.register(print, 1)\natexit.register(print, 2)\nprint(0)\n",
    "atexit_error": "import atexit\n\n\ndef f():\n    raise ValueError(1)\n\n\natexit.register(f)\n",
    "thread_outlives_main": "import threading, time\n"
                            "t = threading.Thread(target=lambda: (time.sleep(.05), print('t')))\n"
                            "t.start()\nprint('main')\n",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "killed": "import os, signal\nprint('x')\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "lone_surrogate_byte": "print('\\udc80')",
    "lone_surrogate": "print('\\ud800')",
    "closed_stdout": "import sys, os\nos.close(1)\nprint('x')\n",
    "print_stack": "import traceback\n\n\ndef f():\n    traceback.print_stack()\n\n\nf()\n",
    "warning": "import warnings\nwarnings.warn('w')\nwarnings.warn('w', stacklevel=9)\n",
    "system": "import os\nprint(os.system('exit 3'))\n",
    "flags": "import sys\nprint(sys.flags)\n",
    "argv": "import sys\nprint(sys.argv, sys.orig_argv[1:], __name__, __spec__, __builtins__, __doc__, __package__)",
    "main_is_main": "import __main__, sys\nprint(__main__.__dict__ is globals(), sys.modules['__main__'] is __main__)\n",
    "globals": "print(sorted(globals()))",
    "encodings": "import sys, locale\nprint([(s.encoding, s.errors, s.line_buffering, s.write_through, s.mode, s.name)"
                 " for s in (sys.stdin, sys.stdout, sys.stderr)])\n"
                 "print(locale.getpreferredencoding(), sys.getfilesystemencoding())\n",
    "signals": "import signal\nprint([signal.getsignal(s) for s in signal.valid_signals()])\n",
    "threads": "import threading, os\nprint(threading.enumerate(), len(os.listdir('/proc/self/task')))\n",
    "no_descriptors": "import os\nprint(sorted(os.listdir('/proc/self/fd')))\n",
    "input": "print(input(), input())",
    "input_ends": "print(input(), input(), input())",
    "stdin_lines": "import sys\nprint([line for line in sys.stdin])\n",
    "stdin_state": "from sys import stdin, __stdin__\n"
                   "print(stdin.seekable(), stdin.isatty(), stdin.fileno(), stdin is __stdin__)\n",
    "faulthandler": "import faulthandler\nfaulthandler.dump_traceback()\n",
    "import_beside": "import os, sys\nopen('other.py', 'w').write('x = 5')\nimport other\nprint(other.x)\n",
}


def compare(name):
    def test():
        code = SAME_AS_BARE[name]
        expected = rig.bare(code, b"one\ntwo\n")
        with rig.Run() as r:
            r.send(code, b"one\ntwo\n")
            status, out, err = r.finish()
            equal((status, rig.steady(out), rig.steady(err)), (expected[0], *map(rig.steady, expected[1:])))
    return test


for _name in SAME_AS_BARE:
    globals()[f"test_same_as_bare_{_name}"] = compare(_name)


def test_traceback_names_main_py():
    equal(run("x = 1\n1 / 0\n")[2].splitlines()[:3],
          ["Traceback (most recent call last):", '  File "main.py", line 2, in <module>', "    1 / 0"])


def test_syntax_error_names_main_py():
    equal(run("x = 1\nif x\n")[2].splitlines()[:2], ['  File "main.py", line 2', "    if x"])


def test_place_of_the_program():
    with rig.Run() as r:
        r.send("import os, sys\nprint([os.getcwd(), sys.path[0], os.path.abspath(__file__), __file__])\n")
        work = os.path.realpath(r.tmp) + "/work"
        equal(eval(r.finish()[1]), [work, work, work + "/main.py", r.tmp + "/work/main.py"])


def test_no_module_of_ours():
    code = "import sys\nprint(sorted(sys.modules))\n"
    more = set(value(code)) - set(eval(rig.bare(code)[1]))
    equal(more - {"_socket", "atexit", "fcntl"}, set())


def test_no_path_of_ours_in_the_interpreter():
    with rig.Run() as r:
        r.send("import sys\nprint([sys.path, list(sys.path_importer_cache)])\n")
        out = r.finish()[1]
        if "hook" in out:
            raise AssertionError(out)


def test_environment_is_the_documented_one():
    names = ["HOME", "LANG", "LOGNAME", "MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS", "PATH", "PYTHONUNBUFFERED",
             "TMPDIR", "USER", "XDG_CACHE_HOME"]
    equal(value("import os\nprint(sorted(os.environ))\n"), names)


def test_environment_for_children_too():
    out = value("import subprocess\nprint(repr(subprocess.check_output(['env'], text=True)))\n")
    equal(any(line.startswith(("PYTHONPATH=", "API_TOKEN=")) for line in out.splitlines()), False)


def test_child_interpreters_start_as_usual():
    equal(value("import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', 'print(1)']))\n"), b"1\n")


def test_getsource_also_after_chdir():
    code = ("import inspect, os\n\n\ndef f():\n    return 1  # here\n\n\nos.chdir('/')\n"
            "print(repr(inspect.getsource(f)))\n")
    equal(value(code), "def f():\n    return 1  # here\n")


def test_stdin_ends_at_once_when_empty():
    equal(value("import sys\nprint([sys.stdin.read(), open('/dev/stdin').read()])\n"), ["", ""])


def test_stdin_of_any_size_and_any_bytes():
    code = ("import hashlib, os, stat, sys\nd = sys.stdin.buffer.read()\n"
            "print([len(d), hashlib.sha256(d).hexdigest(), stat.S_ISFIFO(os.fstat(0).st_mode)])\n")
    import hashlib
    for n_bytes, is_pipe in ((1, True), (65536, True), (65537, True), (1 << 20, True), ((1 << 20) + 1, False)):
        data = bytes(range(256)) * (n_bytes // 256 + 1)
        data = data[:n_bytes]
        equal(value(code, data), [n_bytes, hashlib.sha256(data).hexdigest(), is_pipe])


def test_stdin_in_a_file_cannot_be_changed():
    code = ("import os\nfd = os.open('/dev/stdin', os.O_RDWR)\ntry:\n    os.write(fd, b'x')\n    print('changed')\n"
            "except PermissionError:\n    print('sealed')\n")
    equal(run(code, b"z" * (2 << 20)), (0, "sealed\n", ""))


def test_standard_streams_can_be_opened_by_name():
    equal(run("open('/dev/stdout', 'w').write(open('/dev/stdin').read())\nopen('/dev/stderr', 'w').write('e')\n", "in"),
          (0, "in", "e"))


def test_asyncio_watches_stdin():
    code = ("import asyncio, sys\n\n\nasync def main():\n    r = asyncio.StreamReader()\n"
            "    p = lambda: asyncio.StreamReaderProtocol(r)\n"
            "    await asyncio.get_running_loop().connect_read_pipe(p, sys.stdin)\n    print(await r.read())\n\n\n"
            "asyncio.run(main())\n")
    equal(value(code, "in"), b"in")


def test_half_a_line_survives_a_kill():
    with rig.Run() as r:
        r.send("import time\nprint('line')\nprint('half', end='')\ntime.sleep(600)\n")
        r.read_until(b"line\nhalf")
        r.process.kill()
        equal(r.process.wait(), -9)


def test_files_are_there():
    code = "import os\nprint([open('a.csv').read(), open('\\u00e4 b', 'rb').read(), oct(os.stat('a.csv').st_mode)])\n"
    equal(value(code, files=[(b"a.csv", b"1,2"), ("\u00e4 b".encode(), b"\0\xff")]), ["1,2", b"\0\xff", "0o100644"])


def test_multiprocessing_works():
    code = ("import concurrent.futures as cf, multiprocessing as mp\n\n\ndef f(x):\n    return x * x\n\n\n"
            "if __name__ == '__main__':\n    r = [mp.get_start_method()]\n"
            "    for m in ('fork', 'spawn'):\n        with mp.get_context(m).Pool(2) as p:\n"
            "            r.append(p.map(f, [1, 2]))\n"
            "    with cf.ProcessPoolExecutor(2) as e:\n        r.append(list(e.map(f, [3])))\n    print(r)\n")
    status, out, err = run(code)
    equal((status, err), (0, ""))
    equal(eval(out), ["fork", [1, 4], [1, 4], [9]])


def test_start_method_can_still_be_chosen():
    code = "import multiprocessing as mp\nmp.set_start_method('spawn')\nprint(mp.get_start_method())\n"
    equal(run(code), (0, "spawn\n", ""))


def test_no_finder_of_ours_once_multiprocessing_is_there():
    code = "import sys\nimport multiprocessing.context\nprint([repr(f) for f in sys.meta_path])\n"
    if "sitecustomize" in run(code)[1]:
        raise AssertionError("the finder stayed")


def modes(r):
    return {name: stat.S_IMODE(os.stat(name, dir_fd=r.directory, follow_symlinks=False).st_mode)
            for name in os.listdir(r.directory)}


PRIVATE_FILES = ("import os, sys, tempfile\nos.close(tempfile.mkstemp(dir='.', prefix='f')[0])\nos.mkdir('d', 0o700)\n"
                 "os.close(os.open('d/x', os.O_CREAT, 0o200))\nos.close(os.open('../outside', os.O_CREAT, 0o600))\n"
                 "os.symlink('../outside', 'link')\n")


def test_private_files_are_opened_up_at_a_normal_exit():
    for ending, status in (("", 0), ("sys.exit(3)", 3), ("1 / 0", 1)):
        with rig.Run() as r:
            r.send(PRIVATE_FILES + ending)
            equal(r.finish()[0], status)
            found = modes(r)
            equal([m for n, m in found.items() if n.startswith("f")], [0o644])
            equal(found["d"], 0o755)
            equal(stat.S_IMODE(os.stat("d/x", dir_fd=r.directory).st_mode), 0o644)
            equal(stat.S_IMODE(os.stat(r.tmp + "/outside").st_mode), 0o600)


def test_exit_of_a_forked_child_opens_nothing():
    code = PRIVATE_FILES + ("if os.fork() == 0:\n    sys.exit(0)\nos.wait()\n"
                            "print(oct(os.stat('d').st_mode))\nos._exit(0)\n")
    equal(run(code), (0, "0o40700\n", ""))


def test_opening_up_is_bounded():
    code = "import os\nfor i in range(3000):\n    os.close(os.open(f'f{i}', os.O_CREAT, 0o600))\n"
    with rig.Run() as r:
        r.send(code)
        equal(r.finish(), (0, "", ""))
        n = sum(mode == 0o644 for name, mode in modes(r).items() if name != "main.py")
        equal(0 < n <= 1000, True)


def test_opening_up_is_not_the_programs_affair():
    code = ("import os, shutil\nos.mkdir('d', 0o700)\nos.chdir('/')\nshutil.rmtree(os.environ['TMPDIR'] + '/work')\n"
            "os.chmod = os.scandir = None\n")
    equal(run(code), (0, "", ""))


def test_an_idle_runner_goes_quietly():
    full = rig.message("print(1)", "stdin", [(b"f", b"content")])
    for n_bytes in (0, 1, 31, 32, 36, 45, 52, len(full) - 1):
        with rig.Run() as r:
            r.ready()
            r.control.sendall(full[:n_bytes])
            r.control.shutdown(socket.SHUT_WR)
            equal(r.finish(), (0, "", ""))


def test_malformed_messages_end_the_run():
    status = 100 + rig.checks()["CONTROL"]
    for kwargs in ({"magic": b"MXCODE1\n"}, {"magic": b"MXCODE2\0"}, {"magic": bytes(8)},
                   *({"files": [(name, b"x")]}
                     for name in (b"", b".", b"..", b"a/b", b"/a", b"a\0b", b"main.py", b"n" * 256))):
        with rig.Run() as r:
            r.send("print(1)", **kwargs)
            actual = r.finish()
            equal((kwargs, *actual[:2]), (kwargs, status, ""))


def test_what_cannot_be_put_in_place_is_said():
    status, out, err = run("print(1)", files=[(b"a", b""), (b"a", b"")])
    equal((status, out, err), (1, "", "mcp-exec: the program could not be put in place: File exists\n"))


def test_numbers_are_those_of_the_table():
    sys.path.insert(0, os.path.dirname(rig.RUNNER))
    sys.dont_write_bytecode = True
    import runner
    table = rig.checks()
    equal([runner.CHECK_CONTROL, runner.CHECK_INTERPRETER], [table["CONTROL"], table["INTERPRETER"]])


if __name__ == "__main__":
    rig.main()
