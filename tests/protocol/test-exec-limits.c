/* SPDX-License-Identifier: MIT */

/* What one principal may use, and what all users of one client may. */

#include "exec-rig.h"

#include "base/timeutil.h"
#include "unit/test.h"

static const FakeReport* report_of(const Rig *rig) {
        return fake_launcher_report(rig->launcher);
}

static void assert_status(const Run *run, ExecStatus status) {
        if (run->status != status)
                FAIL("status is %s: %s", exec_status_to_string(run->status), run->message);
        ASSERT_EQ_UINT(run->n_done, 1);
}

static int submit_as(Rig *rig, Run *run, const char *principal, const char *code, char message[static 512]) {
        return rig_submit_as(rig, run, principal, code, NULL, USEC_PER_SEC, message);
}

TEST(principal_runs_no_more_at_once_than_it_may_and_stops_nobody_else) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run own[4], other;

        rig->limits = (PrincipalLimits) { .own = { .parallel = 1, .queue = 2, .has_queue = true } };
        for (int i = 0; i < 3; i++)
                ASSERT_EQ_INT(submit_as(rig, own + i, "limited", "sleep 0.3", message), 0);
        ASSERT_EQ_INT(submit_as(rig, own + 3, "limited", "sleep 0.3", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "2 of yours waiting, and no more than 2 of one user may wait");
        /* The second slot is free, and not for those who came first. */
        ASSERT_EQ_INT(submit_as(rig, &other, "other", "echo x", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &other));
        assert_status(&other, EXEC_OK);
        ASSERT_EQ_UINT(exec_engine_n_running(rig->engine) + exec_engine_n_queued(rig->engine), 3);
        for (int i = 0; i < 3; i++) {
                ASSERT_TRUE(rig_wait_done(rig, own + i));
                assert_status(own + i, EXEC_OK);
        }
        ASSERT_TRUE(own[1].queued_usec >= 250 * USEC_PER_MSEC);
        ASSERT_TRUE(own[2].queued_usec >= 500 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(principal_that_may_not_wait_is_busy_at_once) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run first, second;

        rig->limits = (PrincipalLimits) { .own = { .parallel = 1, .has_queue = true } };
        ASSERT_EQ_INT(submit_as(rig, &first, "limited", "sleep 0.2", message), 0);
        ASSERT_EQ_INT(submit_as(rig, &second, "limited", "echo x", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "no more than 0 of one user");
        ASSERT_TRUE(rig_wait_done(rig, &first));
        assert_status(&first, EXEC_OK);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(own_limits_of_time_and_memory_are_the_smaller_ones) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run run;

        rig->limits.timeout_usec = 200 * USEC_PER_MSEC;
        rig->limits.memory_max_bytes = 64 * MIB;
        ASSERT_EQ_INT(submit_as(rig, &run, "limited", "sleep 5", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        assert_status(&run, EXEC_TIMEOUT);
        ASSERT_TRUE(run.done_usec - run.submitted_usec < 900 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(report_of(rig)->limits.memory_max_bytes, 64 * MIB);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

static bool is_settled(const void *data) {
        const Rig *rig = data;
        const Unit *u = rig->engine->pool.units.first;

        return u && unit_is_settled(u);
}

TEST(warm_unit_gets_the_smaller_memory_of_its_principal) {
        Rig *rig = rig_setup(NULL);
        const FakeReport *report = report_of(rig);
        char message[512];
        Run first, limited;

        rig->settings->pool_size = 1;
        ASSERT_EQ_INT(submit_as(rig, &first, "other", "echo x", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &first));
        ASSERT_TRUE(rig_wait(rig, is_settled, rig));
        ASSERT_EQ_UINT(report->n_starts, 2);
        ASSERT_EQ_UINT(report->n_assigns, 0);
        rig->limits.memory_max_bytes = 64 * MIB;
        ASSERT_EQ_INT(submit_as(rig, &limited, "limited", "echo x", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &limited));
        assert_status(&limited, EXEC_OK);
        ASSERT_EQ_UINT(report->n_assigns, 1);
        ASSERT_EQ_UINT(report->assigned.memory_max_bytes, 64 * MIB);
        ASSERT_EQ_UINT(report->assigned.tasks_max, rig->settings->tasks_max);
        rig_teardown(rig);
}

TEST(users_of_one_client_run_no_more_together_than_it_may_and_stop_nobody_else) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run own[4], other[2];

        rig->settings->max_parallel = 4;
        rig->limits = (PrincipalLimits) {
                .own = { .parallel = 2 },
                .whole = { .parallel = 2, .queue = 2, .has_queue = true },
                .group = "limited",
        };
        for (int i = 0; i < 4; i++)
                ASSERT_EQ_INT(submit_as(rig, own + i, i % 2 ? "limited/a" : "limited", "sleep 0.3", message),
                              0);
        ASSERT_EQ_INT(submit_as(rig, other, "limited/b", "echo x", message), EXEC_E_BUSY);
        ASSERT_EQ_STR(message, "The service is busy: no more than 2 calls of all users of this client may "
                               "wait. Try again in some seconds.");
        /* Two slots are free, and not for those who came first. A name that only begins alike is another. */
        ASSERT_EQ_INT(submit_as(rig, other, "other", "echo x", message), 0);
        ASSERT_EQ_INT(submit_as(rig, other + 1, "limitedx", "echo x", message), 0);
        for (int i = 0; i < 2; i++) {
                ASSERT_TRUE(rig_wait_done(rig, other + i));
                assert_status(other + i, EXEC_OK);
        }
        ASSERT_EQ_UINT(exec_engine_n_running(rig->engine), 2);
        ASSERT_EQ_UINT(exec_engine_n_queued(rig->engine), 2);
        for (int i = 0; i < 4; i++) {
                ASSERT_TRUE(rig_wait_done(rig, own + i));
                assert_status(own + i, EXEC_OK);
        }
        ASSERT_TRUE(own[2].queued_usec >= 250 * USEC_PER_MSEC);
        ASSERT_TRUE(own[3].queued_usec >= 250 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(each_user_of_a_client_has_its_own_smaller_limit) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[4];

        rig->settings->max_parallel = 4;
        rig->limits = (PrincipalLimits) {
                .own = { .parallel = 1, .has_queue = true },
                .whole = { .parallel = 3, .has_queue = true },
                .group = "limited",
        };
        ASSERT_EQ_INT(submit_as(rig, runs, "limited/a", "sleep 0.2", message), 0);
        ASSERT_EQ_INT(submit_as(rig, runs + 3, "limited/a", "true", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "no more than 0 of one user");
        ASSERT_EQ_INT(submit_as(rig, runs + 1, "limited/b", "sleep 0.2", message), 0);
        ASSERT_EQ_INT(submit_as(rig, runs + 2, "limited:c", "sleep 0.2", message), 0);
        ASSERT_EQ_INT(submit_as(rig, runs + 3, "limited/d", "true", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "no more than 0 calls of all users of this client");
        for (int i = 0; i < 3; i++) {
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
                assert_status(runs + i, EXEC_OK);
        }
        ASSERT_EQ_INT(submit_as(rig, runs + 3, "limited/d", "true", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, runs + 3));
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}
