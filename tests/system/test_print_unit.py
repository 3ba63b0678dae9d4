# SPDX-License-Identifier: MIT
"""`mcp-exec print-unit`: what a unit would get, on a version of systemd that need not be this one."""

from lib import sh


def test_needs_no_rights_and_no_manager():
    for version, has in (252, False), (257, True):
        text = sh(["mcp-exec", "print-unit", f"--manager-version={version}"], user="alice").stdout
        assert "RootDirectory=/usr/lib/mcp-exec/root" in text
        assert ("BindLogSockets=no" in text) == has, text
    assert "DynamicUser=yes" in sh(["mcp-exec", "print-unit"], user="alice").stdout


def test_shows_none_that_would_be_refused():
    for arguments, why in ((["--manager-version=100"], "systemd 100 is too old"),
                           (["--user", "--manager-version=252"], "that needs 257")):
        done = sh(["mcp-exec", "print-unit", *arguments], user="alice", check=False)
        assert (done.returncode, done.stdout) == (1, "") and done.stderr.count("\n") == 1 and why in done.stderr, done
    for arguments in ["--manager-version=0"], ["--manager-version=new"], ["--profile=fast"]:
        done = sh(["mcp-exec", "print-unit", *arguments], check=False)
        assert (done.returncode, done.stdout) == (2, ""), done
