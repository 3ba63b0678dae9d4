# SPDX-License-Identifier: MIT
"""Programs with a set of packages: the interpreter of the set runs them, and nothing else differs."""

import os
import pathlib
import subprocess
import sys
import sysconfig

import rig
from rig import equal

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def make_set(tmp, modules=()):
    """A prefix as install.py leaves it, in the run's directory."""
    prefix = pathlib.Path(tmp, "env")
    packages = prefix / "lib" / VERSION / "site-packages"
    packages.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin/python3").symlink_to(rig.PYTHON)
    (prefix / "pyvenv.cfg").write_text(f"home = {os.path.dirname(rig.PYTHON)}\ninclude-system-site-packages = false\n")
    for name, text in modules:
        (packages / name).write_text(text)


# Debian's interpreters may have one in the standard library.
HAS_SITECUSTOMIZE = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "sitecustomize.py"))


class SetRun(rig.Run):
    """A run whose interpreter is replaced by that of a set."""

    def __init__(self, modules=(), mode="system", breaks=None, before=None):
        def prepare(tmp):
            make_set(tmp, modules)
            if breaks:
                breaks(tmp + "/env")

        super().__init__(prepare=prepare, before=before,
                         arguments=lambda tmp: ["run", "--mode", mode, "--ns", rig.NAMESPACES, "--set", tmp + "/env", rig.PYTHON])


def run(code, modules=(), mode="system", **kwargs):
    with SetRun(modules, mode) as r:
        r.send(code, keep=True, **kwargs)
        status, out, err = r.finish()
        return status, out.replace(r.tmp, "TMP"), err.replace(r.tmp, "TMP")


def value(code, modules=(), **kwargs):
    status, out, err = run(code, modules, **kwargs)
    equal((status, err), (0, ""))
    return eval(out)  # our own program's output


def test_the_interpreter_is_the_sets_own():
    out = value("import sys, hello, sysconfig, os\n"
                "print([sys.prefix, sys.executable, sys.argv, hello.x, sysconfig.get_path('purelib'), os.getcwd(),\n"
                "       sys.path[0], __file__, __name__])\n", [("hello.py", "x = 5\n")])
    equal(out, ["TMP/env", "TMP/env/bin/python3", ["main.py"], 5, f"TMP/env/lib/{VERSION}/site-packages", "TMP/work",
                "TMP/work", "TMP/work/main.py", "__main__"])


def test_other_packages_of_the_machine_are_not_there():
    out = value("import sys\nprint(sys.path)\n")
    others = {path for path in (sysconfig.get_path("purelib"), "/usr/lib/python3/dist-packages",
                                f"/usr/local/lib/{VERSION}/dist-packages")}
    equal(others & set(out), set())


def test_children_are_of_the_set_too():
    out = value("import subprocess, sys\n"
                "print([subprocess.check_output([p, '-c', 'import hello, sys; print(hello.x, sys.prefix)'], text=True)\n"
                "       for p in (sys.executable, 'python3')])\n", [("hello.py", "x = 5\n")])
    equal(out, ["5 TMP/env\n"] * 2)


def test_exit_codes_signals_and_tracebacks_are_those_of_the_script():
    for code in ("pass", "raise SystemExit(7)", "1 / 0", "def f():\n    return 1 / 0\nf()\n", "x = (\n", "import nothing_there",
                 "import sys\nsys.exit('text')\n"):
        status, out, err = run(code)
        equal((status, out, err.replace("TMP/env/bin/", "")), rig.bare(code))
    for mode in "system", "user":
        status, _, _ = run("import os\nos.kill(os.getpid(), 9)\n", mode=mode)
        equal(status, 137 if mode == "user" else -9)


def test_signals_are_as_in_a_script():
    code = "import signal\nprint([(int(n), str(signal.getsignal(n))) for n in sorted(signal.valid_signals())])\n"
    equal(run(code), rig.bare(code))


def test_nothing_of_ours_is_left():
    code = "import sys, os\nprint(sorted(sys.modules), sorted(os.environ), sorted(globals()), sys.path_importer_cache)\n"
    with SetRun() as r:
        r.send(code)
        out = r.finish()[1]
        if "hook" in out or "PYTHONPATH" in out or r.tmp + "/home/.start" in out:
            raise AssertionError(out)
        equal("sitecustomize" in out, HAS_SITECUSTOMIZE)


def test_no_module_of_ours():
    code = "import sys\nprint(sorted(sys.modules))\n"
    more = set(value(code)) - set(eval(rig.bare(code)[1]))
    equal(more - {"_socket", "_signal", "atexit", "fcntl"}, set())


def test_stdin_and_files():
    out = value("import sys, os\nprint([sys.stdin.read(), open('data.txt').read(), os.readlink('/proc/self/fd/0')[:5],\n"
                "       sorted(os.listdir('/proc/self/fd'))[:3], sys.stdout.write_through])\n",
                stdin="in\u00fc", files=[(b"data.txt", b"content")])
    equal(out, ["in\u00fc", "content", "pipe:", ["0", "1", "2"], True])


def test_the_control_socket_is_closed_before_anything_of_the_set_is_imported():
    probe = "import os; os.seen = [os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') " \
            "if os.path.islink(f'/proc/self/fd/{n}')]"
    out = value("import os\nprint(os.seen)\n", [("early.pth", probe + "\n")])
    equal([name for name in out if name == "socket"], [])


def test_a_sitecustomize_of_the_set_is_imported():
    if HAS_SITECUSTOMIZE:  # comes before any package's, as in every environment of such an interpreter
        equal(value("import sys\nprint([sys.pth, hasattr(sys, 'seen')])\n",
                    [("sitecustomize.py", "import sys\nsys.seen = 1\n"), ("early.pth", "import sys; sys.pth = 1\n")]),
              [1, False])
        return
    modules = [("sitecustomize.py", "import sys\nsys.seen = __name__\nx = 3\n"), ("early.pth", "import sys; sys.pth = 1\n")]
    equal(value("import sys, sitecustomize\nprint([sys.seen, sys.pth, sitecustomize.x, sitecustomize.__file__])\n", modules),
          ["sitecustomize", 1, 3, f"TMP/env/lib/{VERSION}/site-packages/sitecustomize.py"])
    status, out, err = run("print('on')\n", [("sitecustomize.py", "1 / 0\n")])
    equal((status, out), (0, "on\n"))
    equal(err.splitlines()[0], "Error in sitecustomize; set PYTHONVERBOSE for traceback:")


def test_private_files_are_opened_up_at_exit():
    with SetRun() as r:
        r.send("import os\nos.close(os.open('secret', os.O_CREAT | os.O_WRONLY, 0o600))\n")
        equal(r.finish(), (0, "", ""))
        equal(oct(os.stat(r.tmp + "/work/secret").st_mode & 0o777), "0o644")


def test_processes_by_fork_and_by_spawn():
    code = ("import multiprocessing, hello\n"
            "def work(n):\n    return n * hello.x\n"
            "if __name__ == '__main__':\n"
            "    out = []\n"
            "    for method in 'fork', 'spawn':\n"
            "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
            "            out.append(pool.map(work, [1, 2]))\n"
            "    print(out, multiprocessing.get_start_method())\n")
    status, out, err = run(code, [("hello.py", "x = 5\n")])
    equal((status, out, err), (0, "[[5, 10], [5, 10]] fork\n", ""))


def test_a_set_without_an_interpreter_is_told():
    with SetRun(breaks=lambda prefix: os.unlink(prefix + "/bin/python3")) as r:
        r.send("print(1)\n")
        status, out, err = r.finish()
    equal((status, out), (104, ""))
    equal(err, "mcp-exec: the interpreter of the packages cannot be started: No such file or directory\n")


def test_stdin_of_any_size():
    code = ("import sys, os, fcntl\nd = sys.stdin.buffer.read()\n"
            "print([len(d), sum(d), os.readlink('/proc/self/fd/0').split(':')[0], fcntl.fcntl(0, fcntl.F_GETFL) & 0o4000])\n")
    for mode in "system", "user":
        for size in 0, 1, 65536, 65537, 1 << 20, (1 << 20) + 1, 5 << 20:
            out = value(code, mode=mode, stdin=b"\1" * size)
            equal(out, [size, size, "pipe" if size <= 1 << 20 else "/memfd", 0])


def test_stdin_in_a_file_cannot_be_changed():
    code = "import os\ntry:\n    os.write(0, b'x')\nexcept OSError as e:\n    print([e.errno])\n"
    equal(value(code, stdin=b"x" * (2 << 20)), [9])
    code = ("import os\ntry:\n    os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x')\nexcept OSError as e:\n"
            "    print([e.errno])\n")
    equal(value(code, stdin=b"x" * (2 << 20)), [1])


def test_an_idle_run_goes_quietly():
    for mode in "system", "user":
        with SetRun(mode=mode) as r:
            r.ready()
            r.control.close()
            equal(r.finish(), (0, "", ""))


def test_malformed_messages_end_the_run():
    fine = rig.message("print(1)")
    for mode in "system", "user":
        for sent in (fine[:20], rig.message("print(1)", files=[(b"a", b"xyz")])[:-1]):
            with SetRun(mode=mode) as r:
                r.ready()
                r.control.sendall(sent)
                r.control.close()
                equal(r.finish(), (0, "", ""))
        for sent in (rig.message("print(1)", magic=b"MXCODE1\n"), *(rig.message("print(1)", files=[(name, b"")]) for name in
                     (b"", b"..", b".", b"a/b", b"/etc/x", b"a\0b", b"main.py", b"x" * 256))):
            with SetRun(mode=mode) as r:
                r.ready()
                r.control.sendall(sent)
                equal(r.finish(), (102, "", "mcp-exec: a malformed message came from the daemon\n"))


def test_what_cannot_be_put_in_place_is_said():
    equal(run("print(1)", files=[(b"a", b""), (b"a", b"")]),
          (1, "", "mcp-exec: the program could not be put in place: File exists\n"))


def test_files_of_any_size():
    code = "import os\nprint([os.path.getsize('a'), open('\u00e4 b', 'rb').read(), oct(os.stat('a').st_mode)])\n"
    equal(value(code, files=[(b"a", b"x" * 200000), ("\u00e4 b".encode(), b"\0\xff")]), [200000, b"\0\xff", "0o100644"])


if __name__ == "__main__":
    subprocess.run([rig.PYTHON, "--version"], check=True, stdout=subprocess.DEVNULL)
    rig.main()
