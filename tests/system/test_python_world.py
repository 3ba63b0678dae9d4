# SPDX-License-Identifier: MIT
"""The program sees an ordinary Python: tracebacks, modules, processes, files, packages."""

from lib import Client, configured, needs, timeout


def _out(client, code, **arguments):
    r = client.exec(code, **arguments)
    assert r["exit_code"] == 0, (r["stderr"], r["message"])
    return r["stdout"]


def test_traceback_names_main_py_with_the_callers_lines_and_no_frame_of_ours():
    with Client() as c:
        r = c.exec("def f():\n    return 1 / 0\n\nf()\n")
    lines = r["stderr"].splitlines()
    assert lines[0] == "Traceback (most recent call last):", lines
    assert [l for l in lines if 'File "' in l][0].strip().startswith('File "') and "main.py\", line 4, in <module>" in lines[1], lines
    assert "return 1 / 0" in r["stderr"] and "line 2, in f" in r["stderr"], r["stderr"]
    assert "runner" not in r["stderr"] and "mcp-exec" not in r["stderr"] and r["stderr"].count("File ") == 2, r["stderr"]
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_syntax_error_shows_the_line():
    with Client() as c:
        r = c.exec("x = 1\ny = (2\nz = 3\n")
    assert "main.py" in r["stderr"] and "SyntaxError" in r["stderr"] and "y = (2" in r["stderr"], r["stderr"]
    assert "runner" not in r["stderr"] and r["exit_code"] == 1


def test_chained_and_threaded_exceptions_have_no_frame_of_ours():
    code = ("import threading\ndef g():\n  try: {}['a']\n  except KeyError as e: raise ValueError('v') from e\n"
            "t = threading.Thread(target=g); t.start(); t.join()\ng()")
    with Client() as c:
        r = c.exec(code)
    assert r["stderr"].count("KeyError: 'a'") == 2 and r["stderr"].count("ValueError: v") == 2, r["stderr"]
    assert "runner" not in r["stderr"] and "mcp-exec" not in r["stderr"], r["stderr"]


def test_main_module_looks_like_a_script():
    code = ("import sys, inspect\ndef f(): pass\nprint(__name__, sys.argv, sys.modules['__main__'].f is f)\n"
            "print(inspect.getsource(f).strip())\nprint(__file__.endswith('main.py'), sys.path[0], sys.stdout.encoding)\n"
            "print([m for m in sys.modules if 'runner' in m or 'mcp' in m], sys.flags.isolated, sys.flags.ignore_environment)")
    with Client() as c:
        got = _out(c, code).splitlines()
    assert got[0] == "__main__ ['main.py'] True" or got[0].endswith("main.py'] True"), got
    assert got[1] == "def f(): pass" and got[2] == "True /tmp/work utf-8" and got[3].startswith("[] "), got


def test_names_of_ours_are_not_in_the_program():
    with Client() as c:
        got = _out(c, "print(sorted(n for n in globals()))")
    allowed = {"__annotations__", "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__",
               "__package__", "__spec__"}
    assert set(eval(got)) <= allowed, got


def test_standard_streams_can_be_opened_by_name():
    with Client() as c:
        r = c.exec("open('/dev/stdout', 'w').write('a\\n'); open('/dev/stderr', 'w').write('b\\n'); print(open('/dev/stdin').read())", stdin="c")
        assert r["stdout"] == "a\nc\n" and r["stderr"] == "b\n", r


def test_user_and_home():
    code = ("import getpass, os, pwd, grp\nu = pwd.getpwuid(os.getuid())\nprint(getpass.getuser(), u.pw_name, u.pw_dir, os.path.expanduser('~'))\n"
            "for k in ('HOME', 'TMPDIR', 'XDG_CACHE_HOME'):\n  os.makedirs(os.environ[k], exist_ok=True); open(os.environ[k] + '/t', 'w').close()\n"
            "print(os.environ['USER'], os.environ['LOGNAME'], grp.getgrgid(os.getgid()).gr_name)")
    with Client() as c:
        got = _out(c, code).splitlines()
    assert got == ["sandbox sandbox /tmp/home /tmp/home", "sandbox sandbox sandbox"], got


def test_processes_by_fork_and_by_spawn():
    code = ("import multiprocessing as m\nfrom concurrent.futures import ProcessPoolExecutor\ndef f(x): return x * x\n"
            "if __name__ == '__main__':\n  print(m.get_start_method())\n  for how in ('fork', 'spawn'):\n"
            "    with m.get_context(how).Pool(2) as p: print(how, p.map(f, range(4)))\n"
            "  with ProcessPoolExecutor(2) as e: print(list(e.map(f, range(4))))\n")
    with Client() as c:
        got = _out(c, code).splitlines()
    assert got == ["fork", "fork [0, 1, 4, 9]", "spawn [0, 1, 4, 9]", "[0, 1, 4, 9]"], got


def test_asyncio_threads_subprocess_sqlite_ctypes():
    code = ("import asyncio, ctypes, sqlite3, subprocess, sys, threading\n"
            "async def f(): await asyncio.sleep(0.01); p = await asyncio.create_subprocess_exec('echo', 'sub', stdout=subprocess.PIPE); return (await p.communicate())[0]\n"
            "print(asyncio.run(f()))\nprint(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True).stdout)\n"
            "c = sqlite3.connect('t.db'); c.execute('create table t(a)'); print(c.execute('select count(*) from t').fetchone())\n"
            "@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)\ndef cb(x): return x + 1\nprint(cb(41))\n")
    with Client() as c:
        assert _out(c, code).splitlines() == ["b'sub\\n'", "1", "", "(0,)", "42"]


def test_asyncio_can_watch_standard_input():
    code = ("import asyncio, sys\nasync def f():\n  r = asyncio.StreamReader()\n  await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(r), sys.stdin)\n"
            "  print(await r.read())\nasyncio.run(f())")
    with Client() as c:
        assert _out(c, code, stdin="abc") == "b'abc'\n"


def test_unicode_everywhere():
    with Client() as c:
        assert _out(c, "print('grüße 😀'); open('ü.txt', 'w').write('ü'); print(open('ü.txt').read())") == "grüße 😀\nü\n"


def test_thread_counts_follow_the_cpu_quota():
    threads = ("import os; print(*[os.environ[k + '_NUM_THREADS'] for k in "
               "('OMP', 'OPENBLAS', 'MKL', 'NUMEXPR')])")
    with Client() as c:
        assert _out(c, threads) == "1 1 1 1\n"
    with configured("[Sandbox]\nCPUQuota=250%\n"), Client() as c:
        assert _out(c, threads) == "3 3 3 3\n"


def test_exit_handlers_and_buffers_run():
    with Client() as c:
        r = c.exec("import atexit, sys\natexit.register(lambda: print('bye'))\nsys.stdout.write('no newline')")
        assert r["stdout"] == "no newlinebye\n", r


@needs("science")
@timeout(240)
def test_scientific_stack_works_and_a_plain_chart_leaves_stderr_empty():
    with Client() as c:
        r = c.exec("import numpy as np; print(np.linalg.det(np.eye(3)))", timeout_s=120)
        assert (r["stdout"], r["stderr"]) == ("1.0\n", ""), r
        r = c.exec("import pandas as pd; print(pd.DataFrame({'a': [1, 2]}).sum().to_dict())", timeout_s=120)
        assert r["stdout"] == "{'a': 3}\n", r
        r = c.exec("import matplotlib.pyplot as plt, os\nplt.plot([1, 2]); plt.title('t'); plt.savefig('p.png'); print(os.path.getsize('p.png') > 1000)", timeout_s=200)
        assert (r["stdout"], r["stderr"]) == ("True\n", ""), r
        r = c.exec("from PIL import Image; import yaml, jinja2\nImage.new('RGB', (9, 9)).save('i.png')\n"
                   "print(yaml.safe_load('a: [1]'), jinja2.Template('{{ x }}').render(x=1))", timeout_s=120)
        assert (r["stdout"], r["stderr"]) == ("{'a': [1]} 1\n", ""), r


@needs("science")
@timeout(120)
def test_matplotlib_uses_the_prepared_font_cache():
    with Client() as c:
        r = c.exec("import logging; logging.basicConfig(level=logging.INFO)\nimport matplotlib.font_manager as f\n"
                   "print(len(f.fontManager.ttflist) > 10)", timeout_s=100)
        assert (r["stdout"], r["exit_code"]) == ("True\n", 0), r
        assert "generated new fontManager" not in r["stderr"], r["stderr"]
