/* SPDX-License-Identifier: MIT */

/* Everything that can go wrong around a program: the launcher, the unit, the runner, the daemon's own
 * resources. Each is an infra_error that says what failed, is counted once, and leaves nothing behind. */

#include "exec-rig.h"

#include <sys/resource.h>

#include "base/timeutil.h"
#include "unit/test.h"

/* The first unit behaves like this. */
static Rig* rig_with(FakeBehaviour behaviour) {
        return rig_setup(&(const FakeScript) { .behaviours = { behaviour }, .n_behaviours = 1 });
}

static void assert_infra(const Run *run, const char *part) {
        if (run->status != EXEC_INFRA_ERROR)
                FAIL("status is %s: %s", exec_status_to_string(run->status), run->message);
        ASSERT_EQ_INT(run->exit_code, -1);
        ASSERT_EQ_UINT(run->n_done, 1);
        ASSERT_CONTAINS(run->message, "not the program's fault");
        ASSERT_CONTAINS(run->message, part);
}

/* The next run works, and nothing is left. */
static void assert_recovers(Rig *rig) {
        Run run;

        rig_run(rig, &run, "echo alive");
        if (run.status != EXEC_OK)
                FAIL("status is %s: %s", exec_status_to_string(run.status), run.message);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_alive, 0);
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_violations, 0);
        ASSERT_EQ_UINT(rig->n_idle, rig->n_busy);
        rig_teardown(rig);
}

TEST(failures_before_the_program_are_told_apart) {
        static const struct {
                FakeBehaviour behaviour;
                const char *part;
        } cases[] = {
                { FAKE_REFUSE, "The script says so. Change the script." },
                { FAKE_START_FAILS, "namespaces" },
                { FAKE_NEVER_READY, "not ready in time" },
                { FAKE_EXIT_BEFORE_READY, "exit status 7" },
                { FAKE_CHECK_FAILS, "check 17" },
                { FAKE_CHECK_FAILS_SILENTLY, "check 17" },
                { FAKE_GARBAGE, "do not understand each other" },
                { FAKE_READY_WITHOUT_FD, "do not understand each other" },
                { FAKE_READY_WITH_FILE, "do not understand each other" },
                { FAKE_DIES_READY, "ended before the program started" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Rig *rig = rig_with(cases[i].behaviour);
                Run run;

                rig_run(rig, &run, "echo never; sleep 1; echo $$");
                assert_infra(&run, cases[i].part);
                ASSERT_FALSE(run.did_run);
                ASSERT_EQ_STR(run.out, "");
                /* There the code may be sent before the death shows. */
                if (cases[i].behaviour != FAKE_DIES_READY)
                        ASSERT_EQ_UINT(run.n_started, 0);
                assert_recovers(rig);
        }
}

TEST(ready_in_pieces_is_ready) {
        Rig *rig = rig_with(FAKE_READY_IN_PIECES);
        Run run;

        rig_run(rig, &run, "echo x");
        ASSERT_EQ_INT(run.status, EXEC_OK);
        rig_teardown(rig);
}

TEST(missing_started_is_not_needed) {
        Rig *rig = rig_with(FAKE_STARTED_NEVER);
        Run run;

        rig_run(rig, &run, "echo x");
        ASSERT_EQ_INT(run.status, EXEC_OK);
        ASSERT_EQ_STR(run.unit, "");
        assert_recovers(rig);
}

TEST(code_that_nobody_reads_ends_the_run) {
        static char large[1000000];
        const char *codes[] = { large, "echo fits into the socket" };

        memset(large, '#', sizeof(large) - 1);
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                Rig *rig = rig_with(FAKE_NEVER_READS);
                Run run;

                rig_run(rig, &run, codes[i]);
                assert_infra(&run, "not ready in time");
                ASSERT_FALSE(run.did_run);
                assert_recovers(rig);
        }
}

TEST(frozen_warm_unit_costs_a_short_wait_and_is_replaced) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_NEVER_READS }, .n_behaviours = 2 });
        Run run;

        rig->settings->pool_size = 1;
        rig_run(rig, &run, "echo 1");
        rig_turn(rig, 200 * USEC_PER_MSEC);
        rig_run(rig, &run, "echo 2");
        ASSERT_EQ_INT(run.status, EXEC_OK);
        ASSERT_EQ_STR(run.out, "2\n");
        ASSERT_EQ_STR(rig->finished_words, "ok ok ");
        rig_teardown(rig);
}

TEST(code_that_is_read_after_all_is_not_given_to_another_unit) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_READS_LATE }, .n_behaviours = 2 });
        Run run;

        rig->settings->pool_size = 1;
        rig_run(rig, &run, "echo 1");
        rig_turn(rig, 200 * USEC_PER_MSEC);
        rig_run(rig, &run, "echo 2");
        assert_infra(&run, "just when it began");
        ASSERT_TRUE(run.did_run);
        ASSERT_EQ_STR(run.out, "");
        rig_teardown(rig);
}

TEST(deadline_of_code_that_nobody_reads_is_no_timeout) {
        Rig *rig = rig_with(FAKE_NEVER_READS);
        char message[512];
        Run run;

        ASSERT_EQ_INT(rig_submit_as(rig, &run, "local", "echo x", NULL, 100 * USEC_PER_MSEC, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        assert_infra(&run, "not ready in time");
        ASSERT_FALSE(run.did_run);
        assert_recovers(rig);
}

TEST(second_finished_is_ignored) {
        Rig *rig = rig_with(FAKE_TWICE_FINISHED);
        Run run;

        rig_run(rig, &run, "exit 3");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        assert_recovers(rig);
}

TEST(refused_sandbox_refuses_every_run_with_reason_and_remedy) {
        Rig *rig = rig_setup(&(const FakeScript) { .refuses = true });
        Run run;

        for (int i = 0; i < 3; i++) {
                rig_run(rig, &run, "echo x");
                assert_infra(&run, "PrivateNetwork= is missing. Install a better systemd.");
                ASSERT_FALSE(run.did_run);
        }
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_starts, 0);
        ASSERT_TRUE(exec_engine_sandbox(rig->engine)->is_known);
        rig_teardown(rig);
}

TEST(absent_launcher_is_named_and_found_when_it_comes) {
        Rig *rig = rig_setup(NULL);
        Run run, waiting;

        rig->connect_error = -ECONNREFUSED;
        rig_submit(rig, &run, "echo x");
        rig_submit(rig, &waiting, "echo y");
        ASSERT_TRUE(rig_wait_done(rig, &run) && rig_wait_done(rig, &waiting));
        assert_infra(&run, "There is no launcher. Install one.");
        assert_infra(&waiting, "There is no launcher. Install one.");
        ASSERT_EQ_STR(exec_engine_sandbox(rig->engine)->error, "There is no launcher. Install one.");

        rig->connect_error = 0;
        assert_recovers(rig);
}

/* As when somebody restarts the launcher, which waits for the daemon's end. */
TEST(draining_engine_waits_once_for_a_manager_that_starts_nothing_more) {
        static const char text[] = "The service is stopping and could not start it any more";
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_NEVER_STARTS, FAKE_NEVER_STARTS },
                        .n_behaviours = 3 });
        Run runs[5];

        rig_engine(rig)->n_slots = 1;
        for (int i = 0; i < 5; i++)
                rig_submit(rig, runs + i, "echo ran");
        rig_turn(rig, USEC_PER_MSEC);
        exec_engine_drain(rig->engine);
        for (int i = 0; i < 5; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        ASSERT_EQ_STR(runs[0].out, "ran\n");
        for (int i = 1; i < 5; i++)
                assert_infra(runs + i, text);
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_starts, 2);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(silent_launcher_is_given_up) {
        Rig *rig = rig_setup(&(const FakeScript) { .is_silent = true });
        Run run;

        rig_run(rig, &run, "echo x");
        assert_infra(&run, "did not answer");
        ASSERT_TRUE(run.done_usec - run.submitted_usec < USEC_PER_SEC);
        rig_teardown(rig);
}

TEST(launcher_that_closes_at_once_is_not_asked_for_ever) {
        Rig *rig = rig_setup(&(const FakeScript) { .closes_at_once = true });
        Run run;

        rig_run(rig, &run, "echo x");
        assert_infra(&run, "closed the connection before it said anything");
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_connections, 1);
        rig_teardown(rig);
}

TEST(run_that_never_started_is_started_again_after_a_loss) {
        Rig *rig = rig_with(FAKE_DROPS_AT_START);
        Run run;

        rig_run(rig, &run, "echo once");
        ASSERT_EQ_INT(run.status, EXEC_OK);
        ASSERT_EQ_STR(run.out, "once\n");
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_connections, 2);
        assert_recovers(rig);
}

TEST(second_loss_in_a_row_is_told) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_DROPS_AT_START, FAKE_DROPS_AT_START }, .n_behaviours = 2 });
        Run run;

        rig_run(rig, &run, "echo once");
        assert_infra(&run, "lost its connection before the program started");
        assert_recovers(rig);
}

TEST(run_is_never_executed_twice_after_a_loss) {
        Rig *rig = rig_with(FAKE_DROPS_RUNNING);
        Run run;

        rig_run(rig, &run, "echo begun; sleep 9");
        assert_infra(&run, "how it ended is not known");
        ASSERT_TRUE(run.did_run);
        ASSERT_EQ_STR(run.out, "begun\n");
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_starts, 1);
        assert_recovers(rig);
}

TEST(loss_ends_all_runs_of_the_connection) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_DROPS_RUNNING }, .n_behaviours = 2 });
        Run one, two, three;

        rig_submit(rig, &one, "echo 1; sleep 9");
        rig_submit(rig, &two, "echo 2; sleep 9");
        rig_submit(rig, &three, "echo 3");
        ASSERT_TRUE(rig_wait_done(rig, &one) && rig_wait_done(rig, &two) && rig_wait_done(rig, &three));
        assert_infra(&one, "not known");
        assert_infra(&two, "not known");
        ASSERT_EQ_INT(three.status, EXEC_OK); /* it waited for a slot and took the next connection */
        assert_recovers(rig);
}

TEST(packet_that_is_none_ends_the_connection) {
        Rig *rig = rig_with(FAKE_GARBAGE_PACKET);
        Run run;

        rig_run(rig, &run, "echo x");
        ASSERT_EQ_INT(run.status, EXEC_OK); /* by the second try */
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_connections, 2);
        assert_recovers(rig);
}

TEST(descriptor_limit_is_named_and_survived) {
        struct rlimit old, low;
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "echo warm the connection");
        ASSERT_EQ_INT(run.status, EXEC_OK);

        ASSERT_EQ_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
        low = old;
        low.rlim_cur = rig_n_fds() + 1; /* "." and ".." are counted, too: room for no pipe */
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
        rig_run(rig, &run, "echo x");
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_infra(&run, "LimitNOFILE=");
        assert_recovers(rig);
}

TEST(thousand_runs_of_all_kinds_leave_no_descriptor) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_REFUSE, FAKE_START_FAILS, FAKE_EXIT_BEFORE_READY,
                                        FAKE_CHECK_FAILS, FAKE_GARBAGE, FAKE_READY_WITH_FILE,
                                        FAKE_DIES_READY, FAKE_OOM, FAKE_GONE, FAKE_DROPS_AT_START },
                        .n_behaviours = 11 });
        unsigned n_fds;
        Run run;

        for (int i = 0; i < 12; i++)
                rig_run(rig, &run, "echo x; exit 1");
        ASSERT_TRUE(rig_wait_idle(rig));
        n_fds = rig_n_fds();
        for (int i = 0; i < 300; i++)
                rig_run(rig, &run, i % 3 == 0 ? "kill -9 $$" : i % 3 == 1 ? "exit 1" : "echo x");
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(rig_n_fds(), n_fds);
        assert_recovers(rig);
}

TEST(engine_freed_in_the_middle_leaves_nothing_running) {
        Rig *rig = rig_setup(NULL);
        Run runs[4];
        uint64_t end;

        rig->settings->pool_size = 1;
        for (int i = 0; i < 4; i++)
                rig_submit(rig, runs + i, "echo x; sleep 9");
        rig_turn(rig, 200 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_alive, 2);

        rig->engine = exec_engine_free(rig->engine);
        for (int i = 0; i < 4; i++)
                ASSERT_EQ_UINT(runs[i].n_done, 0);
        /* The launcher's process ends with its connection and its units with it. */
        end = now_monotonic_usec() + 5 * USEC_PER_SEC;
        while (!fake_launcher_is_gone(rig->launcher) && now_monotonic_usec() < end)
                rig_turn(rig, 5 * USEC_PER_MSEC);
        ASSERT_TRUE(fake_launcher_is_gone(rig->launcher));
        rig_teardown(rig);
}
