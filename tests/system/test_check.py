# SPDX-License-Identifier: MIT
"""`mcp-exec check` and `mcp-exec run` in the situations that people are really in."""

import json
import os
import pathlib
import shlex
import tempfile
import time

from lib import (CONF_DROPIN, SOCKETS, Client, configured, controllers, minimal_environment, needs, sh, show, start_sockets,
                 stop_services, systemd_version, timeout, uid_of, wait_until)
from repair import check, checked, ping, tokens
from test_sets import uv


def test_check_of_root_names_what_it_saw_inside():
    items, status = checked("root")
    assert status == 0, items
    for name in ("systemd", "service", "launcher", "version", "cgroups", "namespaces", "seccomp", "run", "walls"):
        assert items[name]["verdict"] != "fail", items[name]
    assert "uid 6" in items["DynamicUser"]["detail"], items["DynamicUser"]
    assert str(systemd_version()) in items["version"]["detail"], items["version"]


def test_check_of_a_member_uses_the_service():
    sh(["gpasswd", "-a", "alice", "mcp-exec"])
    try:
        items, status = checked("alice")
    finally:
        sh(["gpasswd", "-d", "alice", "mcp-exec"])
    assert status == 0 and items["service"]["verdict"] == "ok", items
    assert "user manager" not in items and items["run"]["verdict"] == "ok", items


def _checked_with_a_mistake_of_their_own(user):
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        file = pathlib.Path(home, "mcp-exec", "mcp-exec.conf")
        file.parent.mkdir()
        file.write_text("[Exec]\nMaxParallel=many\n")
        done = sh(["mcp-exec", "check", "--json"], user=user, env=minimal_environment(user) | {"XDG_CONFIG_HOME": home}, check=False)
    items = {item["name"]: item for item in json.loads(done.stdout)}
    assert done.returncode == 1 and list(items)[0] == "settings", items
    assert items["settings"]["detail"] == f'{file}:2: MaxParallel=: "many" is not a number (no server that reads it can start)', items
    return items


def test_check_of_a_member_with_a_mistake_of_their_own_goes_on():
    sh(["gpasswd", "-a", "alice", "mcp-exec"])
    try:
        items = _checked_with_a_mistake_of_their_own("alice")
    finally:
        sh(["gpasswd", "-d", "alice", "mcp-exec"])
    assert items["service"]["verdict"] == items["run"]["verdict"] == "ok", items
    assert [name for name, row in items.items() if row["verdict"] == "fail"] == ["settings"], items


@needs("user-manager-257")
def test_check_of_a_stranger_with_a_mistake_of_their_own_names_it_once():
    items = _checked_with_a_mistake_of_their_own("bob")
    assert items["service"]["verdict"] == "warn" and items["user manager"]["verdict"] == "ok", items
    # The service knows its AllowGroups=, whatever is wrong with what this user wrote.
    assert items["service"]["remedy"] == "sudo gpasswd -a bob mcp-exec (in effect at once, without a new login)", items
    assert not {"launcher", "run", "sets"} & set(items), items
    assert [name for name, row in items.items() if row["verdict"] == "fail"] == ["settings"], items


def test_check_says_why_no_packages_can_be_prepared():
    """The launcher knew, and check said "ok sets: programs can declare packages"."""
    with uv():
        for setting, why in (("CaBundle=/nonexist.pem", "cannot be looked at: No such file"),
                             ("CaBundle=/etc/ssl/certs", "is a directory, and no regular file"),
                             ("IndexCredentials=/nonexist", "cannot be looked at: No such file"),
                             ("IndexCredentials=/etc/passwd", "can be read by others than its owner")):
            with configured(f"[Packages]\n{setting}\n"):
                row = check()["sets"]
            key, path = setting.split("=")
            assert row["verdict"] == "warn" and f"{path} ({key}=) {why}" in row["remedy"].replace("The file ", ""), row
            assert "restart mcp-exec-launcher.service" in row["remedy"] and "0644" not in row["remedy"], row


def test_check_names_the_file_of_default_packages_that_is_wrong():
    with configured("[Packages]\nDefaultRequirements=/etc/ssl\n"):
        row = check()["default set"]
    assert row["verdict"] == "warn" and row["detail"].endswith(": /etc/ssl is a directory, and no file."), row
    assert row["remedy"].startswith("Repair that, in /etc/ssl, which DefaultRequirements= names"), row
    assert "after five minutes, or at once by systemctl restart mcp-exec.service" in row["remedy"], row


def test_check_sees_that_the_directory_of_packages_was_removed():
    with uv():
        start_sockets()
        assert "sets" in check()
        try:
            sh("rm -rf /var/lib/mcp-exec")
            row = check()["sets"]
            assert row["verdict"] == "warn" and "/var/lib/mcp-exec/sets, cannot be opened" in row["remedy"], row
            assert "systemd-tmpfiles --create mcp-exec.conf" in row["remedy"], row
        finally:
            sh("systemd-tmpfiles --create mcp-exec.conf")
            stop_services()
            start_sockets()


def test_check_of_a_stranger_names_the_command():
    items, status = checked("bob")
    assert items["service"]["verdict"] == "warn" and "gpasswd -a bob mcp-exec" in items["service"]["remedy"], items
    # Only the own manager decides now: 257 can do it, an older one cannot and the remedy says what can.
    assert status == (0 if systemd_version() >= 257 else 1), items
    if systemd_version() < 257:
        assert "257" in items["launcher"]["detail"] and "mcp-exec.socket" in items["launcher"]["remedy"], items


def test_check_of_a_stranger_does_not_recommend_a_group_that_does_not_exist():
    with configured("[Server]\nAllowGroups=nosuchgroup\n"):
        items, _ = checked("bob")
    assert "no such group" in items["service"]["detail"], items["service"]
    assert "gpasswd" not in items["service"]["remedy"] and "AllowGroups=" in items["service"]["remedy"], items


@needs("user-manager-257")
def test_check_of_a_user_whose_manager_was_stopped_starts_it():
    """Its socket stays, and check said that it runs, and of the launcher that the user is to be put into a group."""
    sh(["systemctl", "stop", f"user@{uid_of('bob')}.service"])
    items, status = checked("bob")
    assert os.path.exists(f"/run/user/{uid_of('bob')}/systemd/private"), "it did not stay"
    assert status == 1 and items["user manager"]["verdict"] == "fail", items
    assert "launcher" not in items and "run" not in items, items
    text = sh("echo 'print(1)' | mcp-exec run --no-bridge -", user="bob", check=False).stderr
    assert f"systemctl restart user@{uid_of('bob')}.service" in text and "gpasswd -a bob mcp-exec" in text, text
    sh(items["user manager"]["remedy"].removeprefix("sudo "))
    items, status = checked("bob")
    assert status == 0 and items["user manager"]["verdict"] == items["run"]["verdict"] == "ok", items


def test_check_does_not_advise_to_demand_controllers_that_are_not_there():
    """Whoever did what it said had every run refused."""
    with configured("[Sandbox]\nRequireControllers=\n"):
        row = checked("root")[0]["launcher"]
    assert row["verdict"] == "warn", row
    if controllers() >= {"memory", "pids", "cpu"}:
        assert row["remedy"].startswith("Remove RequireControllers="), row
    else:
        assert "Remove" not in row["remedy"] and "this setting has to stay" in row["remedy"], row


def test_check_while_a_program_waits_for_its_turn_is_no_failure():
    """As while the packages of DefaultRequirements= are being made ready."""
    with configured("[Exec]\nSyncLimitSec=2s\nMaxParallel=1\nPoolSize=0\n"), Client() as client:
        ident = client.exec("import time; time.sleep(600)", background=True)["run_id"]
        items, status = checked("root")
        client.call("cancel_run", {"run_id": ident})
    assert items["run"]["verdict"] == "warn" and "waits for its turn" in items["run"]["detail"], items
    assert status == 0, items


def test_check_of_root_names_users_and_groups_that_do_not_exist():
    with configured("[Server]\nAllowUsers=alice 4711 allice\nAllowGroups=staff nosuchgroup\n"), \
            tokens("user bobb parallel=1\nuser bob parallel=1\ngroup staff parallel=1\n"):
        done = sh(["mcp-exec", "check", "--json"], check=False)
    rows = [row for row in json.loads(done.stdout) if row["name"] == "admission"]
    assert [row["verdict"] for row in rows] == ["warn", "warn"] and done.returncode == 0, done
    assert [row["detail"] for row in rows] == ['AllowUsers= names "allice", which is no user here',
                                               'AllowGroups= names "nosuchgroup", which is no group here'], rows
    limits = [row["detail"] for row in json.loads(done.stdout) if row["name"] == "limits"]
    assert limits == ['/etc/mcp-exec/tokens has limits of "bobb", which is no user here'], limits


def test_check_of_a_user_without_a_manager_names_linger():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    items, status = checked("carol")
    assert status == 1 and items["user manager"]["verdict"] == "fail", items
    assert "enable-linger carol" in items["user manager"]["remedy"], items
    assert "run" not in items and "launcher" not in items, items
    # There is no manager whose controllers could be missing.
    assert "controllers" not in items, items


def test_check_without_the_sockets_names_the_command():
    sh(["systemctl", "stop", *SOCKETS])
    stop_services()
    try:
        items, status = checked("root")
    finally:
        start_sockets()
    assert status == 1 and items["service"]["remedy"] == "systemctl enable --now mcp-exec.socket", items
    assert items["launcher"]["verdict"] == "fail" and items["launcher"]["remedy"], items


def test_check_tells_which_protection_the_launcher_misses():
    with configured("[Sandbox]\nPython=/usr/bin/no-such-python\n"):
        items, status = checked("root")
    assert status == 1 and items["launcher"]["verdict"] == "fail", items
    assert "no-such-python" in items["launcher"]["detail"] and items["launcher"]["remedy"], items
    assert "run" not in items or items["run"]["verdict"] == "fail", items


# ---- machines that this one is made to look like, in a mount namespace of its own --------------------------

def _check_where(mounts, user="root", path=""):
    """What the check says where these commands of a shell have been run."""
    environment = " ".join(shlex.quote(f"{k}={v}") for k, v in minimal_environment(user).items())
    become = f"setpriv --reuid={user} --regid={user} --init-groups" if user != "root" else ""
    command = f"env -i {environment} PATH={path}/usr/bin:/bin mcp-exec check --json --socket /nowhere --launcher-socket /nowhere"
    done = sh(["unshare", "--mount", "/bin/sh", "-c", f"set -e\n{mounts}\nexec {become} {command}"], check=False)
    assert done.stdout.startswith("["), done
    return {item["name"]: (item["verdict"], item["detail"], item["remedy"]) for item in json.loads(done.stdout)}


def _file(path, text):
    """Commands that make a file of the kernel read differently."""
    return f"f=$(mktemp -p /run); echo '{text}' >$f; chmod 644 $f; mount --bind $f {path}; rm $f\n"


NOT_BOOTED = "mount -t tmpfs tmpfs /run/systemd\n" + _file("/proc/1/comm", "init")


def test_without_systemd_the_remedy_fits_the_situation():
    plain = _file("/proc/sys/kernel/osrelease", "6.12.0-amd64")
    cases = ((plain, "process 1 is init, not systemd", "booted with systemd"),
             (plain + "echo podman >/run/systemd/container\n", "process 1 is init, not systemd (a container)", "--systemd=always"),
             (_file("/proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2"),
              "process 1 is init, not systemd (WSL)", "/etc/wsl.conf"))
    for mounts, detail, remedy in cases:
        found = _check_where(NOT_BOOTED + mounts)["systemd"]
        assert found[:2] == ("fail", detail) and remedy in found[2], found


def test_mixed_and_old_cgroups_name_the_kernel_option():
    hide = "mkdir /run/h; mount --bind /sys/fs/cgroup /run/h; mount -t tmpfs tmpfs /sys/fs/cgroup\n"
    clean = "umount /run/h; rmdir /run/h\n"
    hybrid = hide + "mkdir /sys/fs/cgroup/unified; mount --bind /run/h /sys/fs/cgroup/unified\n" + clean
    for mounts, word in ((hybrid, "hybrid (versions 1 and 2 mixed)"), (hide + clean, "version 1")):
        verdict, detail, remedy = _check_where(mounts)["cgroups"]
        assert verdict == "fail" and detail.startswith(word), detail
        assert "systemd.unified_cgroup_hierarchy=1" in remedy, remedy


def test_kernel_without_namespaces_or_filters_is_named():
    found = _check_where(_file("/proc/sys/user/max_net_namespaces", "0"))["namespaces"]
    assert found[:2] == ("fail", "net namespaces cannot be made") and "/etc/sysctl.d" in found[2], found
    found = _check_where(_file("/proc/sys/kernel/seccomp/actions_avail", "kill_process allow"))["seccomp"]
    assert found[0] == "fail" and "CONFIG_SECCOMP_FILTER" in found[2], found


@needs("user-manager-257")
def test_user_namespaces_that_apparmor_restricts_lead_to_the_system_service():
    mounts = ("mount -t tmpfs -o mode=755 tmpfs /proc/sys/kernel; echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns\n")
    verdict, detail, remedy = _check_where(mounts, "alice")["user manager"]
    assert verdict == "fail" and "apparmor_restrict_unprivileged_userns" in detail, detail
    assert "gpasswd -a alice mcp-exec" in remedy, remedy


def test_systemd_too_old_is_named_with_its_version():
    old = ("mount -t tmpfs -o mode=755 tmpfs /mnt; printf '#!/bin/sh\\necho \"systemd 247 (247.3-7+deb11u5)\"\\n' >/mnt/systemctl; "
           "chmod 755 /mnt/systemctl\n")
    verdict, detail, remedy = _check_where(old, path="/mnt:")["version"]
    assert (verdict, detail) == ("fail", "systemd 247.3-7+deb11u5") and "252" in remedy, (verdict, detail, remedy)


@needs("user-manager-257")
def test_run_of_a_user_shows_nothing_but_the_program():
    done = sh(["mcp-exec", "run", "-"], user="bob", env=minimal_environment("bob"), input="print('mine')", check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("mine\n", "", 0), done


def test_run_of_a_user_whom_nothing_admits_says_both_reasons():
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    done = sh(["mcp-exec", "run", "-"], user="carol", env=minimal_environment("carol"), input="print(1)", check=False)
    assert done.returncode == 125 and not done.stdout, done
    assert "/run/user/" in done.stderr and "gpasswd -a carol mcp-exec" in done.stderr, done.stderr


@timeout(90)
def test_mistake_in_the_configuration_is_answered_and_found_in_the_journal():
    with configured("[Exec]\nNoSuchKey=1\n"):
        for _ in range(3):
            error = ping()["error"]
            assert error["code"] == -31001 and "journalctl" in error["message"], error

        def logged():
            return sh(["journalctl", "--boot", "--unit=mcp-exec.service"]).stdout

        assert f"{CONF_DROPIN}:2" in logged(), logged()
        # Nobody waits any more, so systemd does not start it again and again either.
        wait_until(lambda: show("mcp-exec.service", "ActiveState")["ActiveState"] in ("inactive", "failed"), 10)
        starts = logged().count("NoSuchKey")
        time.sleep(3)
        assert logged().count("NoSuchKey") == starts


# ---- what the service may not read or reach, and root may --------------------------------------------------

def test_files_that_root_alone_may_read_are_found_before_the_service_starts_again():
    with tokens("user alice parallel=2\n") as file:
        assert "tokens" not in check()
        sh(["chown", "root:root", str(file)])
        row = check()["tokens"]
        assert row["verdict"] == "fail" and "should belong to mcp-exec:root with mode 0400" in row["detail"], row
        sh(row["remedy"])
        assert not {"tokens", "secrets"} & set(check())
    with configured("[Exec]\nMaxParallel=2\n"):
        CONF_DROPIN.chmod(0o600)
        items = check()
        assert list(items)[0] == "settings" and items["settings"]["detail"].startswith(f"{CONF_DROPIN}: "), items
        sh(items["settings"]["remedy"])
        assert CONF_DROPIN.stat().st_mode & 0o777 == 0o644 and "settings" not in check()
        # It is the directory, and a mode for files would shut it even for others.
        for directory in (CONF_DROPIN.parent, CONF_DROPIN.parents[1]):
            directory.chmod(0o700)
            try:
                row = check()["settings"]
                assert row["verdict"] == "fail" and "Permission denied" in row["detail"], row
                sh(row["remedy"])
                assert directory.stat().st_mode & 0o777 == 0o755, row
            finally:
                directory.chmod(0o755)
            assert "settings" not in check()


def test_token_that_is_added_to_a_file_of_roots_group_leaves_it_to_be_read_by_the_service():
    with tokens("") as file:
        sh(["chown", "root:root", str(file)])
        file.chmod(0o644)
        assert check()["secrets"]["detail"] == f"{file} may be read by everybody on this machine"
        assert "tokens" not in check()
        sh("mcp-exec token add ci")
        assert "tokens" not in check()


def test_directory_of_the_sockets_that_root_alone_may_enter():
    start_sockets()
    os.chmod("/run/mcp-exec", 0o700)
    try:
        row = checked("bob")[0]["service"]
        assert "this user may not open" in row["detail"] and "gpasswd" not in row["remedy"], row
        row = check()["directory"]
        assert row["verdict"] == "fail" and "mode 0700" in row["detail"], row
        sh(row["remedy"])
        assert os.stat("/run/mcp-exec").st_mode & 0o7777 == 0o755
        assert "directory" not in check()
    finally:
        os.chmod("/run/mcp-exec", 0o755)


def test_uid_without_a_name_is_put_into_no_command():
    start_sockets()
    done = sh("setpriv --reuid=4242 --regid=4242 --clear-groups env -i PATH=/usr/bin:/bin mcp-exec check --json", check=False)
    items = {item["name"]: item for item in json.loads(done.stdout)}
    assert "AllowUsers=4242 " in items["service"]["remedy"], items["service"]
    assert items["user manager"]["verdict"] == "fail" and "linger" not in items["user manager"]["remedy"], items["user manager"]
