# SPDX-License-Identifier: MIT
"""What can be seen of a run while it runs, and what all of the journal says."""

from lib import sh, wait_until


def newest_line(client, token=1):
    """What the program of the call with this progress token is told to have printed last; "" before."""
    told = [m["params"]["message"].partition(": ")[2] for m in client.notifications("notifications/progress")
            if m["params"]["progressToken"] == token]
    return told[-1] if told else ""


def begun(client, code):
    """A run of exec, with progress token 1, that has printed something. Nothing guesses how long that takes."""
    run = client.start("exec", {"code": code, "timeout_s": 110}, meta={"progressToken": 1})
    wait_until(lambda: newest_line(client), 30, "the run has begun")
    return run


def journal_text():
    """All fields of all records of this boot. It has the daemon's, so what is not in it is not in the journal."""
    sh(["journalctl", "--sync"], check=False)
    text = sh(["journalctl", "--boot", "--all", "--output=export", "--no-pager"]).stdout
    assert "_SYSTEMD_UNIT=mcp-exec.service" in text
    return text
