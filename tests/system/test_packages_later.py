# SPDX-License-Identifier: MIT
"""What is remembered of packages for a later session, and what comes later than the launcher."""

import contextlib
import pathlib
import pwd
import shutil

from lib import Client, StdioClient, needs, sh, timeout
from packages import UV, output, packages, refusal

HOME = pathlib.Path(pwd.getpwnam("alice").pw_dir)
CONF = HOME / ".config/mcp-exec/mcp-exec.conf"
SCRIPT = '# /// script\n# dependencies = ["mx-demo"]\n# ///\nimport mx_demo\nmx_demo.main()\n'


@contextlib.contextmanager
def desktop(url):
    """alice as on her first day, with a configuration of her own: no directory for state, not even the one above."""
    sh(f"rm -rf ~/.local/state && mkdir -p {CONF.parent} && "
       f"printf '[Packages]\\nUvPath={UV}\\nIndexUrl={url}\\n' > {CONF}", "alice")
    try:
        yield
    finally:
        sh(f"rm -rf {CONF.parent} ~/.local/state", "alice")


def session():
    return StdioClient("alice", arguments=["--no-bridge"])


def leaves():
    return [p.name for p in (HOME / ".local/state/mcp-exec/sets").iterdir() if p.name.endswith(".tmp")]


@timeout(240)
@needs("user-manager-257")
def test_next_session_of_a_user_uses_the_ready_set_while_the_index_is_down():
    with packages() as index, desktop(index.url):
        with session() as client:
            assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
        assert "Cannot write" not in client.stderr, client.stderr
        n = len(index.requests)
        index.server.shutdown()
        index.server.server_close()
        with session() as client:
            assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
        assert "Cannot write" not in client.stderr, client.stderr
        assert (len(index.requests), leaves()) == (n, []), index.requests


@timeout(240)
@needs("user-manager-257")
def test_offline_session_of_a_user_has_what_env_prepare_made():
    with packages() as index, desktop(index.url):
        file = HOME / "prepared.py"
        sh(["tee", str(file)], "alice", input=SCRIPT)
        try:
            done = sh(["mcp-exec", "env", "prepare", "--no-bridge", str(file)], "alice", timeout=200)
            assert "ready" in done.stderr and "Cannot write" not in done.stderr, done.stderr
            n = len(index.requests)
            sh(f"echo Offline=yes >> {CONF}", "alice")
            done = sh(["mcp-exec", "run", "--no-bridge", str(file)], "alice", timeout=200)
            assert done.stdout == "demo 2.0\n", done
            with session() as client:
                assert output(client, SCRIPT) == "demo 2.0\n"
                assert "Offline=yes" in refusal(client, "mx-base")
            assert len(index.requests) == n, index.requests
        finally:
            file.unlink()


@timeout(240)
def test_uv_that_is_installed_while_the_launcher_runs_is_used_without_a_restart():
    late = UV.parent / "late-uv"
    late.unlink(missing_ok=True)
    with packages(f"UvPath={late}") as index, Client() as client:
        try:
            said = refusal(client, "mx-demo")
            assert f"The program {late} (UvPath=) is not installed" in said, said
            assert "PIPX_BIN_DIR=/usr/local/bin pipx install uv" in said, said
            assert client.exec("print(1)")["stdout"] == "1\n"
            launcher = sh("systemctl show -P MainPID mcp-exec-launcher.service").stdout
            shutil.copy(UV, late)
            late.chmod(0o755)
            facts = client.call("check_environment", {})["structuredContent"]["packages"]
            assert (facts["can_be_declared"], facts["uv"]) == (True, str(late)), facts
            assert output(client, "import mx_demo; mx_demo.main()", "mx-demo") == "demo 2.0\n"
            assert sh("systemctl show -P MainPID mcp-exec-launcher.service").stdout == launcher
        finally:
            late.unlink(missing_ok=True)
