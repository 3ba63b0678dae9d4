# SPDX-License-Identifier: MIT
"""Stops and restarts of the services while calls run and wait."""

import contextlib

from lib import (CONF_DROPIN, Client, StdioClient, configured, main_pid, sh, start_sockets, stop_services, text_of,
                 timeout, wait_until)
from repair import tokens


@timeout(120)
def test_stopping_service_starts_what_it_had_admitted():
    with configured("[Exec]\nMaxParallel=2\n"), Client() as c:
        calls = [c.start("exec", {"code": f"import time; time.sleep(0.5); print({i})"}) for i in range(8)]
        c.request("ping").result()      # so these were read, and six of them wait
        sh(["systemctl", "stop", "mcp-exec.service"])
        assert [r.result()["structuredContent"]["stdout"] for r in calls] == [f"{i}\n" for i in range(8)]


@timeout(120)
def test_restarted_launcher_answers_who_ran_and_who_waited():
    with configured("[Exec]\nMaxParallel=2\n"), Client() as c:
        calls = [c.start("exec", {"code": f"import time; print({i}, flush=True); time.sleep(5)"}, {"progressToken": i})
                 for i in range(8)]
        c.request("ping").result()
        wait_until(lambda: {m["params"]["progressToken"] for m in c.notifications("notifications/progress")
                            if str(m["params"]["progressToken"]) in m["params"].get("message", "")} >= {0, 1}, 20)
        sh(["systemctl", "restart", "mcp-exec-launcher.service"])
        # systemd starts nothing from then on. Who ran is answered; who waited is told once that is clear.
        texts = [text_of(r.result(60)) for r in calls]
        ran = [i for i, text in enumerate(texts) if '"status":"ok"' in text and f'"stdout":"{i}\\n"' in text]
        told = [i for i, text in enumerate(texts) if "The service is stopping and could not start it any more" in text]
        assert ran[:2] == [0, 1] and sorted(ran + told) == list(range(8)), texts


@timeout(180)
def test_desktop_client_outlives_restarts_of_the_service():
    with StdioClient("root") as c:
        served_by = set()
        for i in range(4):
            assert c.exec(f"print({i})")["stdout"] == f"{i}\n"
            served_by.add(main_pid())
            # What runs is answered by the old one, what comes meanwhile by the new one.
            running = c.start("exec", {"code": f"import time; print('run {i}', flush=True); time.sleep(2)"}, {"progressToken": i})
            wait_until(lambda i=i: any(f"run {i}" in m["params"].get("message", "")
                                       for m in c.notifications("notifications/progress")), 20)
            sh(["systemctl", "restart", "--no-block", "mcp-exec.service"])
            later = [c.start("exec", {"code": f"print({n})"}) for n in range(5)]
            assert running.result()["structuredContent"]["stdout"] == f"run {i}\n"
            results = [r.result(60) for r in later]
            assert [r.get("structuredContent", {}).get("stdout") for r in results] == [f"{n}\n" for n in range(5)], results
        assert len(served_by) == 4, served_by
        sh(["systemctl", "stop", "mcp-exec.socket", "mcp-exec.service"])
        assert "exec" in [tool["name"] for tool in c.request("tools/list").result()["tools"]]
        told = text_of(c.call("exec", {"code": "1"}))
        assert told.startswith("Nothing was run: the system service is not started: no one listens on "), told
        repair = told.partition(". To repair this: ")[2].partition(" (then call again")[0]
        assert repair.startswith("systemctl "), told
        assert c.request("ping").result() == {}
        sh(repair)
        assert c.exec("print('again')")["stdout"] == "again\n"


@timeout(120)
def test_call_of_a_desktop_client_whose_service_is_killed_is_answered_once_and_not_run_again():
    with StdioClient("root") as c:
        c.exec("1")
        running = c.start("exec", {"code": "import time; print('begun', flush=True); time.sleep(30)"}, {"progressToken": 1})
        wait_until(lambda: any("begun" in m["params"].get("message", "") for m in c.notifications("notifications/progress")), 20)
        sh(["kill", "-9", str(main_pid())])
        assert running.wait(20)["error"]["message"] == (
            "The system service ended the conversation before it answered. Whether the call was carried out is not known; send it again if that does "
            "no harm.")
        assert c.exec("print(2)")["stdout"] == "2\n"
        assert len([m for m in c.notifications("notifications/progress") if "begun" in m["params"].get("message", "")]) == 1


# ---- a client that was started while the service could not ------------------------------------------------

def _expect_served_after_the_repair(client):
    wait_until(lambda: not (result := client.call("exec", {"code": "print(6 * 7)"})).get("isError") and
               result["structuredContent"]["stdout"] == "42\n", 30)
    assert client.process.poll() is None


def _expect_refused_beside_a_mistake(client, user):
    assert "exec" in [tool["name"] for tool in client.request("tools/list").result()["tools"]]
    text = text_of(client.call("exec", {"code": "print(1)"}))
    assert text == (f"Nothing was run: {CONF_DROPIN}:2: unknown key Foo= in section [Server]. "
                    f"{'Correct it' if user == 'root' else 'root has to correct it'}, then call again"), text


USERS = "root", "alice"


@contextlib.contextmanager
def _admitted():
    """A client of each user."""
    sh(["gpasswd", "-a", "alice", "mcp-exec"])
    try:
        with contextlib.ExitStack() as stack:
            yield lambda: [(stack.enter_context(StdioClient(user)), user) for user in USERS]
    finally:
        sh(["gpasswd", "-d", "alice", "mcp-exec"])


@timeout(180)
def test_stdio_beside_a_mistake_in_the_configuration_is_connected_and_the_first_call_after_the_repair_is_served():
    with _admitted() as start_clients:
        with configured("[Server]\nFoo=1\n"):
            clients = start_clients()
            for client, user in clients:
                _expect_refused_beside_a_mistake(client, user)
        for client, _ in clients:
            assert client.exec("print(6 * 7)")["stdout"] == "42\n"


@timeout(180)
def test_stdio_that_was_served_before_there_was_a_mistake_is_told_of_it_as_a_new_one_is():
    with _admitted() as start_clients:
        clients = start_clients()
        for client, _ in clients:
            assert client.exec("print(1)")["stdout"] == "1\n"
        with configured("[Server]\nFoo=1\n"):
            for client, user in clients:
                _expect_refused_beside_a_mistake(client, user)
            CONF_DROPIN.unlink()
            for client, _ in clients:
                assert client.exec("print(6 * 7)")["stdout"] == "42\n"


@timeout(120)
def test_user_without_a_manager_is_served_once_what_was_told_is_done():
    """Who had started while the socket was not, was refused for ever, and told the same after both remedies."""
    sh("id carol >/dev/null 2>&1 || /usr/sbin/useradd -m carol")
    sh(["systemctl", "disable", "mcp-exec.socket"])
    sh(["systemctl", "stop", "mcp-exec.socket", "mcp-exec.service"])
    try:
        with StdioClient("carol") as client:
            text = text_of(client.call("exec", {"code": "print(1)"}))
            assert text.startswith("Nothing was run: the system service is not started: no one listens on "), text
            assert "Nor does this user's own service manager run programs: this user has none running. To repair this: sudo " in text, text
            remedy = text.partition("To repair this: ")[2].partition(" (then call again")[0].replace("sudo ", "")
            assert remedy == "systemctl enable --now mcp-exec.socket && gpasswd -a carol mcp-exec", text
            sh(remedy)
            assert client.exec("print(6 * 7)")["stdout"] == "42\n"
            sh(["gpasswd", "-d", "carol", "mcp-exec"])
            sh(["systemctl", "stop", "mcp-exec.service"])       # whom it let in it serves on
            text = text_of(client.call("exec", {"code": "print(1)"}))
            assert "the system service answers " in text and "gpasswd -a carol mcp-exec" in text, text
            sh(["gpasswd", "-a", "carol", "mcp-exec"])
            assert client.exec("print(6 * 7)")["stdout"] == "42\n"
    finally:
        sh(["gpasswd", "-d", "carol", "mcp-exec"], check=False)
        sh(["systemctl", "disable", "mcp-exec.socket"], check=False)
        start_sockets()


@timeout(180)
def test_stdio_of_root_that_was_started_beside_a_bad_file_of_tokens_is_served_after_the_repair():
    with contextlib.ExitStack() as stack:
        with tokens("token\n"):
            stop_services()
            client = stack.enter_context(StdioClient("root"))
            text = text_of(client.call("exec", {"code": "print(1)"}))
            assert text.startswith("Nothing was run: the system service answers ") and "(then call again)" in text, text
        _expect_served_after_the_repair(client)
