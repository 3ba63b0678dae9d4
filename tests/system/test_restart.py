# SPDX-License-Identifier: MIT
"""Stops and restarts of the services while calls run and wait."""

from lib import Client, configured, run_units, sh, text_of, timeout, wait_until


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
