# SPDX-License-Identifier: MIT
"""`mcp-exec stdio` for an ordinary desktop user: no root, six variables, the user's own service manager."""

import os
import signal

from lib import (Client, StdioClient, minimal_environment, needs, run_units, sh, timeout, uid_of, user_systemctl,
                 wait_until)
from seen import begun, newest_line

USER_NEEDS = needs("user-manager-257")


def _direct(user="alice", **more):
    return StdioClient(user=user, arguments=("--no-bridge",), **more)


def test_member_of_the_group_is_bridged_to_the_system_service():
    sh(["gpasswd", "-a", "alice", "mcp-exec"])
    try:
        with StdioClient("alice") as c:
            # No new login happened: the group database of now decides.
            r = c.exec("import os; print(os.getuid() >= 61184)")
            assert r["stdout"] == "True\n", (r, c.stderr)
    finally:
        sh(["gpasswd", "-d", "alice", "mcp-exec"])


def test_removed_member_is_refused_at_once():
    sh(["gpasswd", "-a", "bob", "mcp-exec"])
    with Client(user="bob") as c:
        assert c.exec("print(1)")["stdout"] == "1\n"
    sh(["gpasswd", "-d", "bob", "mcp-exec"])
    try:
        Client(user="bob").close()
    except Exception as error:
        assert "connection ended" in str(error) or "not allowed" in str(error) or "JSON-RPC" in str(error), error
    else:
        raise AssertionError("bob was let in")


def test_stranger_is_told_what_to_do():
    c = Client(user="bob", handshake=False)
    c.request("ping")
    wait_until(lambda: c.received or c.ended.is_set(), 10)
    error = [m["error"] for m in c.received if "error" in m]
    assert error and "mcp-exec" in error[0]["message"] and "bob" in error[0]["message"], c.received
    c.close()


@USER_NEEDS
def test_stdio_without_root_runs_code():
    with _direct() as c:
        r = c.exec("import os; print(os.getcwd(), os.path.expanduser('~'))")
        assert (r["status"], r["stdout"]) == ("ok", "/tmp/work /tmp/home\n"), (r, c.stderr)


@USER_NEEDS
def test_stdio_runs_code_with_even_fewer_variables():
    # Some clients give less than the six; the home directory and the manager are found by the user id.
    for env in ({}, {"PATH": "/usr/bin:/bin"}, {"HOME": "/nowhere", "PATH": "/nowhere", "XDG_RUNTIME_DIR": ""}):
        with _direct(env=env) as c:
            assert c.exec("print(1)")["stdout"] == "1\n", (env, c.stderr)


@USER_NEEDS
def test_runtime_directory_of_somebody_else_is_not_believed():
    # Found by its user id where the variable is absent, and used only if it belongs to that user.
    alice, bob = f"/run/user/{uid_of('alice')}", f"/run/user/{uid_of('bob')}"
    sh(["mount", "--bind", bob, alice])
    try:
        with _direct() as c:
            text = c.refused("exec", {"code": "print('ran')"})
            assert alice in text, text
    finally:
        sh(["umount", alice])


@USER_NEEDS
def test_stranger_falls_back_to_its_own_manager():
    with StdioClient("bob") as c:
        assert c.exec("print('mine')")["stdout"] == "mine\n", c.stderr


@USER_NEEDS
def test_user_mode_isolates_as_the_system_service_does():
    secret = "/home/alice/.ssh-like-secret"
    sh(f"echo secret > {secret}", user="alice")
    code = (f"import os, socket\nprint(os.path.exists({secret!r}), os.path.exists('/home/alice'), os.path.exists('/run/user'))\n"
            "print(*[l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l])\n"
            "try: socket.socket(socket.AF_UNIX); print('socket')\nexcept OSError: print('none')\n"
            "print({int(p) for p in os.listdir('/proc') if p.isdigit()} <= {1, os.getpid()})\n"
            "s = dict(l.split(':\\t') for l in open('/proc/self/status') if ':\\t' in l)\nprint(s['CapEff'].strip(), s['NoNewPrivs'].strip(), s['Seccomp'].strip())\n"
            "for p in ('environ', 'fd', 'mem', 'root'):\n  try: (os.listdir if p in ('fd', 'root') else lambda f: open(f, 'rb').read(1))(f'/proc/1/{p}'); print('reached', p)\n  except OSError: pass")
    with _direct() as c:
        r = c.exec(code)
    assert r["stdout"].splitlines() == ["False False False", "lo", "none", "True", "0" * 16 + " 1 2"], r


@USER_NEEDS
def test_variable_of_the_user_manager_does_not_reach_a_run():
    user_systemctl("alice", "set-environment", "API_TOKEN=sesame-7781")
    try:
        with _direct() as c:
            r = c.exec("import os, glob\nprint(os.environ.get('API_TOKEN'))\n"
                       "for f in glob.glob('/proc/[0-9]*/environ'):\n  try: print(b'sesame' in open(f, 'rb').read())\n  except OSError: pass")
            assert "sesame" not in r["stdout"] and "True" not in r["stdout"] and r["stdout"].startswith("None"), r
    finally:
        user_systemctl("alice", "unset-environment", "API_TOKEN")


@USER_NEEDS
def test_loader_variable_that_is_set_later_does_not_reach_a_run():
    with _direct() as c:
        c.exec("pass")
        user_systemctl("alice", "set-environment", "LD_PRELOAD=/nonexistent/preload.so", "LD_SHOW_AUXV=1", "LD_AUDIT=/nonexistent/audit.so")
        try:
            for _ in range(3):  # the first may have a unit that was ready before
                r = c.exec("print(1)")
                assert (r["stdout"], r["stderr"]) == ("1\n", ""), r
        finally:
            user_systemctl("alice", "unset-environment", "LD_PRELOAD", "LD_SHOW_AUXV", "LD_AUDIT")


@USER_NEEDS
def test_endings_in_user_mode():
    cases = {"import sys; sys.exit(3)": ("error", 3), "import os; os.kill(os.getpid(), 9)": ("signal", 137),
             "import os, signal; signal.signal(15, signal.SIG_DFL); os.kill(os.getpid(), 15)": ("signal", 143),
             "import os; os.abort()": ("signal", 134), "import sys; sys.exit(226)": ("error", 226), "pass": ("ok", 0),
             "import os\nif os.fork() == 0:\n  os.setsid()\n  import time; time.sleep(60)": ("ok", 0)}
    with _direct() as c:
        for code, expected in cases.items():
            r = c.exec(code)
            assert (r["status"], r["exit_code"]) == expected, (code, r)
        r = c.exec("import subprocess; subprocess.Popen(['setsid', 'sleep', '60']); import time; time.sleep(60)", timeout_s=1)
        assert r["status"] == "timeout" and r["duration_ms"] <= 1500, r


@needs("user-manager-257", "memory")
@timeout(120)
def test_out_of_memory_in_user_mode_is_told_as_that():
    """A user's manager does not wait for the main process then, and the run was called lost, to be made again."""
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'x = bytearray(900 << 20)'])\nprint('survived')"
    with _direct() as c:
        for code in ("x = bytearray(900 << 20)", child) * 2:
            r = c.exec(code, timeout_s=60)
            assert (r["status"], r["exit_code"], r["stdout"]) == ("oom", 137, "") and "512 MiB" in r["message"], r


@USER_NEEDS
def test_a_program_cannot_forge_its_own_end():
    # Whatever the program writes to descriptors it can find, the status is the one it had.
    code = ("import os, struct\nfor f in range(3, 64):\n  try: os.write(f, b'MXSTAT' + bytes(10))\n  except OSError: pass\n"
            "for p in os.listdir('/proc'):\n  if p.isdigit():\n    for f in range(64):\n"
            "      try: open(f'/proc/{p}/fd/{f}', 'wb').write(b'MXSTAT' + bytes(10)) if f > 2 else None\n      except OSError: pass\n"
            "raise SystemExit(9)")
    with _direct() as c:
        r = c.exec(code)
        assert (r["status"], r["exit_code"]) == ("error", 9), r


@USER_NEEDS
def test_end_of_stdin_ends_the_run_and_exits_with_zero():
    c = _direct()
    begun(c, "import time; print('begun', flush=True); time.sleep(60)")
    assert c.close() == 0, c.stderr
    wait_until(lambda: not run_units("alice"), 10)


@USER_NEEDS
def test_kill_of_stdio_leaves_no_unit_and_no_process():
    for victim in ("mcp-exec", "launcher"):
        c = _direct()
        begun(c, "import time; print('begun', flush=True); time.sleep(60)")
        pid = c.process.pid if victim == "mcp-exec" else int(sh("pgrep -u alice -f mcp-exec-launcher").stdout.split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not run_units("alice"), 15, f"no unit after the {victim} was killed")
        c.close()
        assert not sh("pgrep -u alice -f mcp-exec-launcher", check=False).stdout


@USER_NEEDS
def test_two_desktop_clients_do_not_stop_each_others_runs():
    with _direct() as first:
        run = begun(first, "import time\nfor i in range(1000):\n  print(i, flush=True)\n  time.sleep(0.1)")
        for n in range(2, 4):
            with _direct() as other:
                assert other.exec(f"print({n})")["stdout"] == f"{n}\n"
        # Its launcher has ended and swept by now; the first one's program counts on.
        so_far = int(newest_line(first))
        wait_until(lambda: int(newest_line(first)) > so_far + 10, 30)
        assert not run.done.is_set()
        first.cancel(run.ident)


@USER_NEEDS
def test_stdout_carries_nothing_but_messages():
    with _direct() as c:
        c.exec("print('x'); import sys; print('y', file=sys.stderr)")
        assert not c.garbage, c.garbage


@needs("systemd<257")
def test_old_user_manager_is_refused_with_the_remedy():
    with _direct() as c:
        text = c.refused("exec", {"code": "print(1)"})
        assert "257" in text and "mcp-exec.socket" in text, text


def test_user_without_a_manager_gets_the_remedy():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    with StdioClient("carol", arguments=("--no-bridge",)) as c:
        assert c.request("tools/list", {}).result()["tools"]
        text = c.refused("exec", {"code": "print(1)"})
        assert "user" in text and ("manager" in text or "log in" in text or "linger" in text), text


@timeout(90)
def test_terminate_exits_with_zero():
    for number in (signal.SIGTERM, signal.SIGINT):
        c = StdioClient("alice", arguments=("--no-bridge",))
        c.process.send_signal(number)
        assert c.process.wait(5) == 0, (number, c.stderr)
        c.close()


@needs("user-manager-257")
def test_run_command_of_a_user_gives_output_and_exit_code():
    env = minimal_environment("alice")
    done = sh(["mcp-exec", "run", "--no-bridge", "-"], user="alice", env=env, check=False,
              input="print('hello'); import sys; print('err', file=sys.stderr); sys.exit(5)")
    assert (done.stdout, done.returncode) == ("hello\n", 5) and "err\n" in done.stderr, done
