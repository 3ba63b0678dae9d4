# SPDX-License-Identifier: MIT
"""What an administrator's settings change for the units that prepare packages and for what they serve."""

import os
import pathlib
import pwd

import seam
from lib import configured, minimal_environment, needs, sh, stop_services, uid_of, user_options
from seam import FETCH, INSTALL
from test_sets import A, C, PROGRAM, SETS, UV, connect, refused, remove, run, sets, uv


def test_credentials_and_ca_bundle_reach_fetch_alone():
    secret, bundle = pathlib.Path("/etc/mcp-exec/index-credentials"), pathlib.Path("/etc/mcp-exec/ca.pem")
    secret.touch(0o600)
    secret.write_text("machine example.org login u password p\n")
    bundle.write_text("certificate\n")
    bundle.chmod(0o644)
    read = "import os\nd = os.environ.get('CREDENTIALS_DIRECTORY')\n" \
           "print(d and open(d + '/index-credentials').read().strip(), open('/etc/ca-bundle.pem').read().strip())"
    try:
        with uv(), configured(f"[Packages]\nIndexCredentials={secret}\nCaBundle={bundle}\n"):
            launcher = connect()
            assert run(launcher, read, profile=FETCH, environment=A) == \
                "machine example.org login u password p certificate\n"
            assert run(launcher, read, profile=INSTALL, environment=A) == "None \n"
            assert run(launcher, read) == "None \n"
            remove(launcher, A, is_set=False)
            launcher.close()
            stop_services()
            secret.chmod(0o644)
            launcher = connect()
            assert "index-credentials" in launcher.hello["sets_reason"], launcher.hello
            assert "index-credentials" in refused(launcher, profile=FETCH, environment=A)
    finally:
        secret.unlink()
        bundle.unlink()


def test_a_uv_that_others_could_replace_is_refused_and_a_missing_one_named():
    stop_services()
    hello = connect().hello
    assert hello["uv"] == "" and "uv (UvPath=) is not installed" in hello["sets_reason"], hello
    with uv():
        hello = connect().hello
        assert (hello["uv"], hello["uv_on_host"], hello["sets_reason"]) == (str(UV), str(UV), ""), hello
        assert hello["sets_directory"] == str(SETS), hello
    with uv(mode=0o775):
        hello = connect().hello
        assert hello["uv"] == "" and "could be replaced" in hello["sets_reason"], hello
    with uv():
        os.chown(UV, uid_of("alice"), 0)
        hello = connect().hello
        assert hello["uv"] == "" and "could be replaced" in hello["sets_reason"], hello


def test_another_interpreter_is_chosen_by_its_number():
    python = os.path.realpath("/usr/bin/python3")
    other = pathlib.Path("/usr/local/bin/python-of-mine")
    other.symlink_to(python)
    try:
        with configured(f"[Packages]\nExtraPythons={other} /nonexistent/python\n"):
            stop_services()
            launcher = connect()
            assert launcher.hello["n_interpreters"] == 2, launcher.hello
            assert launcher.hello["interpreter1"] == str(other), launcher.hello
            assert run(launcher, "import sys; print(sys.executable)", interpreter=1) == f"{other}\n"
            assert "interpreter 2" in refused(launcher, interpreter=2)
    finally:
        other.unlink()


def test_print_unit_shows_each_profile():
    def printed(profile):
        return sh([PROGRAM, "--print-unit", f"--profile={profile}"], user="alice").stdout.splitlines()

    fetch, install, parse = printed("fetch"), printed("install"), printed("parse")
    assert "RestrictAddressFamilies=AF_INET AF_INET6" in fetch and "PrivateNetwork=yes" not in fetch, fetch
    for lines in fetch, install:
        assert "StateDirectory=mcp-exec/sets/NAME.tmp" in lines and "User=mcp-exec-prepare" in lines, lines
        assert f"BindPaths={SETS}/NAME.tmp:/env" in lines and "DynamicUser=yes" not in lines, lines
    assert "PrivateNetwork=yes" in install and "RestrictAddressFamilies=none" in install, install
    assert set(printed("run")) - set(parse) >= {"Description=mcp-exec: sandbox of one Python program"}, parse
    assert "DynamicUser=yes" in parse and not [line for line in parse if "BindPaths=" in line], parse
    assert sh([PROGRAM, "--print-unit", "--profile=root"], user="alice", check=False).returncode == 1


@needs("user-manager-257")
def test_credentials_of_a_user_reach_fetch_alone():
    home = pathlib.Path(pwd.getpwnam("alice").pw_dir)
    conf = home / ".config/mcp-exec/mcp-exec.conf"
    sh(f"mkdir -p {conf.parent} && umask 077 && echo 'machine example.org' > {home}/netrc && "
       f"printf '[Packages]\nUvPath=/usr/bin/env\nIndexCredentials={home}/netrc\n' > {conf}", "alice")
    read = "import os\nd = os.environ.get('CREDENTIALS_DIRECTORY')\n" \
           "print(d and open(d + '/index-credentials').read().strip())"
    launcher = seam.Launcher.spawn(PROGRAM, env=minimal_environment("alice"), **user_options("alice"))
    try:
        hello = launcher.expect(seam.HELLO)
        assert (hello["verdict"], hello["sets_reason"]) == (0, ""), hello
        assert run(launcher, read, profile=FETCH, environment=C) == "machine example.org\n"
        assert run(launcher, read, profile=INSTALL, environment=C) == "None\n"
        assert run(launcher, read) == "None\n"
        remove(launcher, C, is_set=False)
    finally:
        launcher.close()
        sh(f"rm -r {conf.parent} {home}/netrc {home}/.local/state/mcp-exec", "alice")
