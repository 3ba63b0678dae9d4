# SPDX-License-Identifier: MIT
"""The launcher alone, without the daemon: what it does to units on a real service manager, and to bad peers."""

import os
import signal
import socket
import time

import seam
from births import Births
from lib import also_vm, configured, main_pid, minimal_environment, needs, run_units, sh, show, start_sockets, \
    stop_services, timeout, uid_of, user_options, user_systemctl, wait_until

LAUNCHER = "mcp-exec-launcher.service"
PROGRAM = "/usr/libexec/mcp-exec/mcp-exec-launcher"
FOREVER = "import time\nprint('here', flush=True)\ntime.sleep(600)"


def connect():
    start_sockets()
    launcher = seam.Launcher.connect()
    hello = launcher.expect(seam.HELLO)
    assert hello["verdict"] == 0, hello
    return launcher


def running(launcher, limits=seam.DEFAULT_LIMITS):
    """A unit whose program has begun and will not end. Returns it and the name of the systemd unit."""
    unit = launcher.start(limits)
    unit.ready()
    name = launcher.expect(seam.STARTED, unit.job)["unit"]
    unit.feed(FOREVER)
    assert unit.line() == b"here\n"
    return unit, name


def gone(name, user=None):
    return name not in run_units(user)


def ended(code):
    launcher = connect()
    _, _, (kind, _, fields) = seam.run(launcher, code)
    launcher.close()
    assert kind == seam.FINISHED, (kind, fields)
    return fields["result"], fields["main_code"], fields["main_status"]


@also_vm
def test_the_end_of_a_program_is_told_as_systemd_knows_it():
    kill = "import os, signal; signal.signal(signal.{0}, signal.SIG_DFL); os.kill(os.getpid(), signal.{0})"
    assert ended("pass") == ("success", 1, 0)
    assert ended("raise SystemExit(3)") == ("exit-code", 1, 3)
    assert ended("raise SystemExit(226)") == ("exit-code", 1, 226)
    assert ended("import ctypes; ctypes.string_at(0)")[1:] in ((2, 11), (3, 11))
    assert ended(kill.format("SIGTERM")) == ("success", 2, 15), "systemd calls TERM a clean signal"


def test_the_record_has_times_and_cpu():
    launcher = connect()
    _, _, (_, _, fields) = seam.run(launcher, "import time\nend = time.process_time() + 0.2\n"
                                              "while time.process_time() < end: pass")
    assert fields["start_monotonic_usec"] > 0
    assert fields["exit_monotonic_usec"] - fields["start_monotonic_usec"] > 200_000
    assert fields["cpu_nsec"] > 200_000_000 or fields["cpu_nsec"] == 2**64 - 1


@also_vm
def test_stop_kills_everything_of_a_run():
    launcher = connect()
    unit = launcher.start()
    unit.ready()
    name = launcher.expect(seam.STARTED, unit.job)["unit"]
    unit.feed("import os, signal, time\n"
              "for s in range(1, 32):\n"
              "    if s not in (9, 19): signal.signal(s, signal.SIG_IGN)\n"
              "if os.fork() == 0:\n"
              "    os.setsid()\n"
              "    if os.fork() == 0: print('here', flush=True)\n"
              "time.sleep(600)")
    unit.line()
    unit.stop()
    fields = launcher.expect(seam.FINISHED, unit.job)
    assert (fields["result"], fields["main_code"], fields["main_status"]) == ("signal", 2, 9), fields
    wait_until(lambda: gone(name))


def test_stop_right_after_start_cancels_it():
    launcher = connect()
    for _ in range(5):
        unit = launcher.start()
        unit.stop()
        _, _, (kind, _, fields) = unit.collect()
        assert kind == seam.FINISHED, kind
        assert fields["result"] != "success" or fields["main_code"] == 2 or fields["start_failed"], fields
    wait_until(lambda: not [u for u in run_units() if show(u, "ActiveState")["ActiveState"] == "failed"])


def test_the_end_of_a_connection_ends_its_runs():
    launcher = connect()
    name = running(launcher)[1]
    other = connect()
    other_name = running(other)[1]
    launcher.close()
    wait_until(lambda: gone(name), 5)
    assert not gone(other_name), "another connection's run goes on"
    other.close()
    wait_until(lambda: gone(other_name), 5)


def test_a_unit_that_waits_can_be_told_to_go():
    launcher = connect()
    unit = launcher.start()
    unit.ready()
    unit.control.close()
    _, _, (_, _, fields) = unit.collect()
    assert (fields["result"], fields["main_status"]) == ("success", 0), fields


@also_vm
def test_runtime_max_is_a_backstop():
    launcher = connect()
    unit, name = running(launcher, (2 * seam.SECOND, 256 * seam.MIB, 64, seam.SECOND))
    fields = launcher.expect(seam.FINISHED, unit.job, 15)
    assert (fields["result"], fields["main_code"], fields["main_status"]) == ("timeout", 2, 9), fields
    wait_until(lambda: gone(name))


def test_limits_are_clamped_to_the_configuration():
    with configured("[Sandbox]\nMemoryMax=100M\nTasksMax=20\nCPUQuota=50%\n[Exec]\nMaxTimeoutSec=40s\n"):
        launcher = connect()
        unit, name = running(launcher, (10**15, 10**15, 10**6, 10**9))
        properties = show(name, "MemoryMax", "TasksMax", "CPUQuotaPerSecUSec", "RuntimeMaxUSec")
        assert properties["MemoryMax"] == str(100 * seam.MIB), properties
        assert properties["TasksMax"] == "20", properties
        assert properties["CPUQuotaPerSecUSec"] == "500ms", properties
        assert properties["RuntimeMaxUSec"] == "11min 40s", properties
        unit.assign((0, 0, 0, 0))
        wait_until(lambda: show(name, "TasksMax")["TasksMax"] == "8")
        assert show(name, "MemoryMax")["MemoryMax"] == str(32 * seam.MIB)
        unit.stop()
        launcher.close()


@also_vm
def test_assign_limits_a_running_unit():
    launcher = connect()
    unit, name = running(launcher)
    unit.assign((0, 64 * seam.MIB, 16, seam.SECOND // 2))
    wait_until(lambda: show(name, "TasksMax")["TasksMax"] == "16")
    assert show(name, "MemoryMax", "CPUQuotaPerSecUSec") == {"MemoryMax": str(64 * seam.MIB),
                                                            "CPUQuotaPerSecUSec": "500ms"}
    unit.stop()
    launcher.expect(seam.FINISHED, unit.job)
    wait_until(lambda: gone(name))
    left = sh(f"find /run/systemd -name '*{name}*'").stdout
    assert left == "", f"a unit leaves nothing behind: {left}"


@also_vm
@needs("memory", "pids", "cpu")
def test_the_kernel_enforces_what_was_assigned():
    launcher = connect()
    unit, name = running(launcher)
    unit.assign((0, 64 * seam.MIB, 16, seam.SECOND // 2))
    wait_until(lambda: show(name, "TasksMax")["TasksMax"] == "16")
    group = "/sys/fs/cgroup" + show(name, "ControlGroup")["ControlGroup"]
    found = [open(f"{group}/{f}", encoding="ascii").read().split() for f in ("memory.max", "pids.max", "cpu.max")]
    assert found[:2] == [[str(64 * seam.MIB)], ["16"]], found
    assert int(found[2][0]) * 2 == int(found[2][1]), found
    launcher.close()


def test_daemon_reload_and_reexec_are_survived():
    launcher = connect()
    pid = main_pid(LAUNCHER)
    unit, name = running(launcher)
    other = launcher.start()
    other.ready()
    launcher.expect(seam.STARTED, other.job)
    sh("systemctl daemon-reload")
    sh("systemctl daemon-reexec")
    wait_until(lambda: sh("systemctl is-system-running", check=False).stdout.strip() in ("running", "degraded"), 30)
    other.feed("raise SystemExit(7)")
    fields = launcher.expect(seam.FINISHED, other.job)
    assert (fields["result"], fields["main_status"]) == ("exit-code", 7), fields
    assert not gone(name)
    unit.stop()
    assert launcher.expect(seam.FINISHED, unit.job)["result"] == "signal"
    assert main_pid(LAUNCHER) == pid, "the launcher stayed"
    assert ended("print(1)") == ("success", 1, 0)


def test_a_killed_launcher_takes_its_runs_along_and_none_runs_twice():
    ended("pass")
    with Births() as births:
        launcher = connect()
        name = running(launcher)[1]
        os.kill(main_pid(LAUNCHER), signal.SIGKILL)
        wait_until(lambda: gone(name), 5)
        assert ended("print(1)") == ("success", 1, 0), "the socket starts a new one"
        assert births.names().count(name) == 1, "the unit was started again"
    assert gone(name)


def test_a_restarted_launcher_takes_its_runs_along_and_none_runs_twice():
    ended("pass")
    with Births() as births:
        launcher = connect()
        name = running(launcher)[1]
        sh(["systemctl", "restart", LAUNCHER])
        wait_until(lambda: gone(name), 5)
        last = launcher.next(5) # the run's end may still have been told
        assert last is None or (last[0], last[2]["result"]) == (seam.FINISHED, "signal"), last
        assert last is None or launcher.next(5) is None
        assert ended("print(1)") == ("success", 1, 0)
        assert births.names().count(name) == 1, "the unit was started again"


@timeout(90)
def test_it_exits_when_idle_and_answers_each_of_many_single_connections():
    with configured("[Server]\nExitIdleSec=1s\n"):
        for i in range(12):
            if i % 4 == 3:
                wait_until(lambda: main_pid(LAUNCHER) == 0, 10, "the launcher exited")
            assert ended("print(1)") == ("success", 1, 0)
        assert show(LAUNCHER, "Result")["Result"] == "success"


def test_leftovers_are_swept_and_nothing_else():
    stop_services()
    leftover, strange = f"mcp-exec-run-{'0' * 32}.service", "mcp-exec-run-of-somebody.service"
    outside = f"mcp-exec-run-{'1' * 32}.service"
    try:
        for name, where in (leftover, "mcp-exec.slice"), (strange, "mcp-exec.slice"), (outside, "system.slice"):
            sh(["systemd-run", "--quiet", "--collect", f"--unit={name}", f"--slice={where}", "sleep", "600"])
        connect().close()
        wait_until(lambda: gone(leftover))
        assert not gone(strange) and not gone(outside)
    finally:
        for name in leftover, strange, outside: # 262 stops none when one is not there
            sh(["systemctl", "stop", name], check=False)
        wait_until(lambda: gone(strange) and gone(outside))


def test_a_stranger_is_turned_away():
    start_sockets()
    path = "/run/mcp-exec/launcher.sock"
    probe = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('%s'); " \
            "print(s.recv(10))" % path
    done = sh(["python3", "-c", probe], user="alice", check=False)
    assert "PermissionError" in done.stderr, done
    os.chmod(path, 0o666)
    try:
        done = sh(["python3", "-c", probe], user="alice", check=False)
        assert done.stdout == "b''\n" or "ConnectionResetError" in done.stderr, done
    finally:
        os.chmod(path, 0o600)


def _violations():
    a, b = socket.socketpair()
    r, w = os.pipe()
    file = os.open("/etc/hostname", os.O_RDONLY)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("")
    listening.listen()
    good = [a.fileno(), w, w]
    start = seam.start_packet(1)
    keep = [a, b, listening]
    yield "nothing", b"", []
    yield "garbage", b"\xff" * 300, []
    yield "short", start[:-1], good
    yield "long", start + b"\0", good
    yield "magic", seam.pack(seam.STOP, 1, magic=1), []
    yield "version", seam.pack(seam.STOP, 1, version=1), []
    yield "wrong direction", seam.pack(seam.REFUSED, 1, b"x", b"y"), []
    yield "job 0", seam.pack(seam.STOP, 0), []
    yield "profile", seam.start_packet(1, profile=7), good
    yield "environment name", seam.start_packet(1, environment=b"/../" * 16), good
    yield "no fds", start, []
    yield "two fds", start, good[:2]
    yield "four fds", start, good + [w]
    yield "fds with a STOP", seam.pack(seam.STOP, 1), good
    yield "a file", start, [a.fileno(), file, w]
    yield "reading end", start, [a.fileno(), r, w]
    yield "a pipe as control", start, [w, w, w]
    yield "a listening socket", start, [listening.fileno(), w, w]
    del keep


def test_every_violation_closes_the_connection_and_starts_nothing():
    start_sockets()
    before = set(run_units())
    pid = None
    for name, packet, fds in _violations():
        launcher = connect()
        pid = pid or main_pid(LAUNCHER)
        if packet:
            launcher.send(packet, fds)
        else:
            launcher.socket.shutdown(socket.SHUT_WR)
        assert launcher.next(10) is None, name
        launcher.close()
    assert main_pid(LAUNCHER) == pid, "it never died of one"
    assert set(run_units()) <= before
    assert ended("print(1)") == ("success", 1, 0)


def test_the_same_job_id_twice_is_a_violation():
    launcher = connect()
    name = running(launcher)[1]
    seam.Unit(launcher, launcher.n_jobs)
    assert launcher.next(10) is None
    wait_until(lambda: gone(name), 5)


def test_unknown_interpreters_and_environments_are_refused():
    launcher = connect()
    for job, arguments in (1, {"interpreter": 5}), (2, {"environment": b"0" * 64}):
        a, b = socket.socketpair()
        r, w = os.pipe()
        launcher.send(seam.start_packet(job, **arguments), [b.fileno(), w, w])
        assert launcher.expect(seam.REFUSED, job)["reason"]
        os.close(r)
        os.close(w)
        a.close()
    assert ended("print(1)") == ("success", 1, 0)


def test_what_is_missing_is_named_and_found_again_when_repaired():
    root = "/usr/lib/mcp-exec/root"
    os.rename(root, root + ".away")
    try:
        with configured("[Server]\nExitIdleSec=1s\n"):
            start_sockets()
            launcher = seam.Launcher.connect()
            hello = launcher.expect(seam.HELLO)
            assert hello["verdict"] == 1 and root in hello["reason"] and "Reinstall" in hello["remedy"], hello
            unit = launcher.start()
            _, _, (kind, _, fields) = unit.collect()
            assert kind == seam.REFUSED and fields["reason"] == hello["reason"], (kind, fields)
            launcher.close()
    finally:
        os.rename(root + ".away", root)
    stop_services()
    assert ended("print(1)") == ("success", 1, 0)


def test_a_missing_interpreter_is_named():
    with configured("[Sandbox]\nPython=/usr/bin/python9\n"):
        start_sockets()
        hello = seam.Launcher.connect().expect(seam.HELLO)
        assert hello["verdict"] == 1 and "/usr/bin/python9" in hello["reason"], hello
        assert "Python=" in hello["remedy"], hello


def test_a_broken_configuration_is_told_with_file_and_line():
    with configured("[Sandbox]\nMemoryMax=lots\n"):
        start_sockets()
        launcher = seam.Launcher.connect()
        hello = launcher.expect(seam.HELLO)
        assert hello["verdict"] == 1 and ".conf:2" in hello["reason"], hello
        launcher.close()
        wait_until(lambda: main_pid(LAUNCHER) == 0, 10, "the launcher exited")
    assert ended("print(1)") == ("success", 1, 0)


@needs("memory", "pids", "cpu")
def test_all_three_controllers_are_found():
    start_sockets()
    hello = seam.Launcher.connect().expect(seam.HELLO)
    assert (hello["controllers"], hello["is_relaxed"]) == (7, 0), hello


def test_a_machine_without_controllers_is_refused_unless_told_otherwise():
    with open("/sys/fs/cgroup/cgroup.controllers", encoding="ascii") as f:
        complete = {"memory", "pids", "cpu"} <= set(f.read().split())
    with configured("[Sandbox]\nRequireControllers=memory pids cpu\n"):
        start_sockets()
        hello = seam.Launcher.connect().expect(seam.HELLO)
        assert (hello["verdict"] == 0) == complete, hello
        assert complete or "memory pids cpu" in hello["reason"], hello


def test_print_unit_shows_what_a_unit_really_has():
    printed = sh([PROGRAM, "--print-unit"]).stdout
    lines = dict(line.split("=", 1) for line in printed.splitlines())
    launcher = connect()
    name = running(launcher)[1]
    simple = [n for n, v in lines.items() if v in ("yes", "no")]
    real = show(name, *simple, "RootDirectory", "Slice", "Type", "KillSignal", "UMask", "ProtectProc", "ProcSubset",
                "LimitCORE", "LimitNOFILE", "OOMPolicy", "CollectMode", "BindsTo")
    for n in set(real) - {"BindsTo"}:
        assert real[n] == lines[n], (n, real[n], lines[n])
    assert LAUNCHER in real["BindsTo"].split()
    assert len(simple) >= 10, simple
    launcher.close()


def test_started_by_hand_it_refuses():
    done = sh([PROGRAM], check=False)
    assert done.returncode == 1 and "mcp-exec-launcher.socket" in done.stderr, done
    assert sh([PROGRAM, "--connection=0"], check=False).returncode == 1
    assert sh([PROGRAM, "--user", "--connection=0"], user="alice", check=False).returncode == 1


# ---- a user's own -----------------------------------------------------------------------------------------

def spawn(user="alice"):
    launcher = seam.Launcher.spawn(PROGRAM, env=minimal_environment(user), **user_options(user))
    return launcher, launcher.expect(seam.HELLO)


@needs("systemd<257")
def test_an_old_user_manager_is_refused_with_the_remedy():
    launcher, hello = spawn()
    assert hello["verdict"] == 1 and "257" in hello["reason"], hello
    assert "mcp-exec.socket" in hello["remedy"], hello
    launcher.close()


@needs("user-manager-257")
def test_a_user_runs_without_root():
    launcher, hello = spawn()
    assert (hello["verdict"], hello["is_user"]) == (0, 1), hello
    out, err, (kind, _, fields) = seam.run(launcher, "import os\nprint(os.getuid())")
    assert (kind, fields["result"]) == (seam.FINISHED, "success"), (kind, fields, err)
    assert out.split()[0] == str(uid_of("alice")).encode(), out
    launcher.close()
    assert launcher.process.returncode == 0


@needs("user-manager-257")
def test_file_systems_mounted_below_usr_do_not_matter():
    folder = "/usr/local/share"
    sh(["mount", "-t", "tmpfs", "tmpfs", folder])
    try:
        launcher, hello = spawn()
        assert hello["verdict"] == 0, hello
        out, err, _ = seam.run(launcher, "import os\n"
                                         "root = '/usr/lib/mcp-exec/root'\n"
                                         "try: print(os.listdir(root))\n"
                                         "except PermissionError: print('hidden')\n"
                                         "print([l.split()[4] for l in open('/proc/self/mountinfo') if root in l.split()[4]])")
        launcher.close()
        assert out.splitlines()[0] == b"hidden", (out, err)
    finally:
        sh(["umount", folder])


@needs("user-manager-257")
def test_two_launchers_of_one_user_leave_each_other_alone():
    first, _ = spawn()
    unit, name = running(first)
    second, _ = spawn()
    assert not gone(name, "alice"), "the second's sweep ended the first's run"
    second_name = running(second)[1]
    second.close()
    wait_until(lambda: gone(second_name, "alice"), 5)
    assert not gone(name, "alice")
    unit.stop()
    assert first.expect(seam.FINISHED, unit.job)["result"] in ("signal", "exit-code")
    first.close()
    assert run_units("alice") == []


@needs("user-manager-257")
def test_a_killed_launcher_of_a_user_leaves_nothing():
    launcher, _ = spawn()
    unit, name = running(launcher)
    launcher.process.kill()
    launcher.process.wait()
    unit.control.close()
    wait_until(lambda: gone(name, "alice"), 10)


@needs("user-manager-257")
def test_a_variable_of_the_user_manager_does_not_reach_a_run():
    user_systemctl("alice", "set-environment", "API_TOKEN=secret-of-alice")
    try:
        launcher, _ = spawn()
        out, _, _ = seam.run(launcher, "import os\nprint(dict(os.environ))\nprint(open('/proc/self/environ').read())\n"
                                       "try: print(open('/proc/1/environ').read())\nexcept OSError: pass")
        launcher.close()
        assert b"HOME" in out and b"secret-of-alice" not in out, out
    finally:
        user_systemctl("alice", "unset-environment", "API_TOKEN")
