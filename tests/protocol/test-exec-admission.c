/* SPDX-License-Identifier: MIT */

/* Who may run when: slots, the queue, "busy", the pool of warm units, cancellation, stopping. */

#include "exec-rig.h"

#include "base/timeutil.h"
#include "unit/test.h"

static const FakeReport* report_of(const Rig *rig) {
        return fake_launcher_report(rig->launcher);
}

static bool is_one_alive(const void *data) {
        return report_of(data)->n_alive == 1;
}

static bool is_none_alive(const void *data) {
        return report_of(data)->n_alive == 0;
}

/* A warm unit has said READY, and the launcher its name. */
static bool is_warm(const void *data) {
        const Rig *rig = data;

        return rig->engine->pool.units.first && rig->engine->pool.units.first->state == UNIT_READY &&
                rig->engine->pool.units.first->name[0];
}

static void assert_status(const Run *run, ExecStatus status) {
        if (run->status != status)
                FAIL("status is %s: %s", exec_status_to_string(run->status), run->message);
        ASSERT_EQ_UINT(run->n_done, 1);
}

static int submit_as(Rig *rig, Run *run, const char *principal, const char *code, char message[static 512]) {
        return rig_submit_as(rig, run, principal, code, NULL, USEC_PER_SEC, message);
}

TEST(runs_overlap_where_slots_allow_and_wait_where_not) {
        Rig *rig = rig_setup(NULL);
        Run runs[4];

        for (int i = 0; i < 4; i++)
                rig_submit(rig, runs + i, "sleep 0.3");
        ASSERT_EQ_UINT(exec_engine_n_queued(rig->engine), 4);
        rig_turn(rig, 150 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(exec_engine_n_running(rig->engine), 2);
        ASSERT_EQ_UINT(exec_engine_n_queued(rig->engine), 2);
        for (int i = 0; i < 4; i++) {
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
                assert_status(runs + i, EXEC_OK);
        }
        ASSERT_TRUE(runs[3].queued_usec >= 250 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(rig->n_busy, 1);
        ASSERT_EQ_UINT(rig->n_idle, 1);
        rig_teardown(rig);
}

TEST(principals_take_turns) {
        static const char *const principals[] = { "a", "a", "a", "a", "b", "c" };
        static const int expected[] = { 0, 4, 5, 1, 2, 3 };
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[6];

        rig->settings->max_parallel = 1;
        for (int i = 0; i < 6; i++)
                ASSERT_EQ_INT(submit_as(rig, runs + i, principals[i], "true", message), 0);
        for (int i = 0; i < 6; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        for (int i = 1; i < 6; i++)
                ASSERT_TRUE(runs[expected[i - 1]].done_usec < runs[expected[i]].done_usec);
        rig_teardown(rig);
}

TEST(full_queue_is_busy_and_says_so) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[4], more;

        rig->settings->max_parallel = 1;
        rig->settings->queue_max = 3;
        for (int i = 0; i < 4; i++)
                ASSERT_EQ_INT(submit_as(rig, runs + i, i < 2 ? "a" : "b", "sleep 0.1", message), 0);
        rig_turn(rig, 50 * USEC_PER_MSEC);
        ASSERT_EQ_INT(submit_as(rig, &more, "c", "true", message), EXEC_E_BUSY);
        ASSERT_EQ_STR(message, "The service is busy: 1 running, 3 waiting, and no more than 3 may wait "
                               "(QueueMax=). Try again in some seconds.");
        for (int i = 0; i < 4; i++) {
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
                assert_status(runs + i, EXEC_OK);
        }
        ASSERT_EQ_INT(submit_as(rig, &more, "c", "true", message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &more));
        rig_teardown(rig);
}

TEST(requests_before_the_launcher_is_there_count_like_those_after) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[3], more;

        rig->settings->max_parallel = 1;
        rig->settings->queue_max = rig->settings->queue_max_per_user = 2;
        for (int i = 0; i < 3; i++)
                ASSERT_EQ_INT(submit_as(rig, runs + i, "a", "true", message), 0);
        ASSERT_EQ_INT(submit_as(rig, &more, "a", "true", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "1 running, 2 waiting");
        for (int i = 0; i < 3; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        rig_teardown(rig);
}

TEST(one_principal_cannot_fill_the_queue) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[3], more;

        rig->settings->max_parallel = 1;
        rig->settings->queue_max_per_user = 1;
        ASSERT_EQ_INT(submit_as(rig, runs, "a", "sleep 0.1", message), 0);
        rig_turn(rig, 50 * USEC_PER_MSEC);
        ASSERT_EQ_INT(submit_as(rig, runs + 1, "a", "true", message), 0);
        ASSERT_EQ_INT(submit_as(rig, &more, "a", "true", message), EXEC_E_BUSY);
        ASSERT_CONTAINS(message, "1 of yours waiting");
        ASSERT_EQ_INT(submit_as(rig, runs + 2, "b", "true", message), 0);
        for (int i = 0; i < 3; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        rig_teardown(rig);
}

TEST(fifty_calls_of_one_client_are_not_told_that_the_service_is_busy) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run runs[50];

        rig->settings->max_parallel = 2;
        for (int i = 0; i < 50; i++)
                ASSERT_EQ_INT(rig_submit_as(rig, runs + i, "a", "true", NULL, 10 * USEC_PER_SEC, message),
                              0);
        for (int i = 0; i < 50; i++) {
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
                assert_status(runs + i, EXEC_OK);
        }
        rig_teardown(rig);
}

TEST(what_waits_has_a_bound_in_bytes_for_one_user_and_for_all) {
        static const char program[] = "true #0123456789012345678901234"; /* 31 characters */
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run first, runs[8], more;

        rig->settings->max_parallel = 1;
        rig->settings->queue_memory_max_bytes = 8 * strlen(program);
        rig_submit(rig, &first, "sleep 0.3");
        rig_turn(rig, 50 * USEC_PER_MSEC);
        for (int i = 0; i < 8; i++) {
                const char user[] = { (char) ('a' + i / 2), 0 };

                ASSERT_EQ_INT(submit_as(rig, runs + i, user, program, message), 0);
                if (i != 1)
                        continue;
                ASSERT_EQ_INT(submit_as(rig, &more, "a", "true", message), EXEC_E_BUSY);
                ASSERT_EQ_STR(message, "The service is busy: the programs and inputs of yours that wait "
                                       "take as much memory as those of one user may (a share of "
                                       "QueueMemoryMax=). Try again when some of them have ended.");
        }
        ASSERT_EQ_INT(submit_as(rig, &more, "e", "true", message), EXEC_E_BUSY);
        ASSERT_EQ_STR(message, "The service is busy: the programs and inputs that wait take as much memory "
                               "as they may (QueueMemoryMax=). Try again in some seconds.");
        ASSERT_TRUE(rig_wait_done(rig, &first));
        for (int i = 0; i < 8; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        ASSERT_EQ_INT(submit_as(rig, &more, "e", program, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &more));
        rig_teardown(rig);
}

TEST(a_program_larger_than_the_queues_memory_may_wait_alone) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run first, runs[2];

        rig->settings->max_parallel = 1;
        rig->settings->queue_memory_max_bytes = 2;
        rig_submit(rig, &first, "sleep 0.3");
        rig_turn(rig, 50 * USEC_PER_MSEC);
        ASSERT_EQ_INT(submit_as(rig, runs, "a", "true", message), 0);
        ASSERT_EQ_INT(submit_as(rig, runs + 1, "b", "true", message), EXEC_E_BUSY);
        ASSERT_TRUE(rig_wait_done(rig, &first));
        ASSERT_TRUE(rig_wait_done(rig, runs));
        assert_status(runs, EXEC_OK);
        rig_teardown(rig);
}

TEST(cancel_in_the_queue_starts_nothing) {
        Rig *rig = rig_setup(NULL);
        Run first, second;

        rig->settings->max_parallel = 1;
        rig_submit(rig, &first, "sleep 0.1");
        rig_submit(rig, &second, "true");
        rig_turn(rig, 30 * USEC_PER_MSEC);
        exec_job_cancel(second.job);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(second.n_done, 0);
        assert_status(&first, EXEC_OK);
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 1);
        ASSERT_EQ_STR(rig->finished_words, "cancelled ok ");
        rig_teardown(rig);
}

TEST(cancel_at_once_and_while_starting_and_while_running) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_NEVER_READY }, .n_behaviours = 1 });
        Run run;

        rig_submit(rig, &run, "true");
        exec_job_cancel(run.job); /* before anything happened */
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 0);

        rig_submit(rig, &run, "true");
        ASSERT_TRUE(rig_wait(rig, is_one_alive, rig));
        exec_job_cancel(run.job);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(run.n_done, 0);

        rig_submit(rig, &run, "echo x; sleep 9");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(run.n_started, 1);
        ASSERT_EQ_UINT(run.seen_bytes[1], 2);
        exec_job_cancel(run.job);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(run.n_done, 0);
        ASSERT_EQ_UINT(report_of(rig)->n_alive, 0);
        ASSERT_EQ_UINT(report_of(rig)->n_stops, 2);
        ASSERT_EQ_STR(rig->finished_words, "cancelled cancelled cancelled ");
        rig_teardown(rig);
}

static void cancel_on_output(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata) {
        (void) stream;
        (void) data;
        (void) n_bytes;
        ++*(unsigned*) userdata;
        exec_job_cancel(j);
}

static void never_done(ExecJob *j, const ExecResult *result, void *userdata) {
        (void) j;
        (void) result;
        *(unsigned*) userdata += 1000;
}

TEST(cancel_from_within_a_handler_is_the_last_thing_heard) {
        static const ExecJobHandlers handlers = { .on_output = cancel_on_output, .on_done = never_done };
        Rig *rig = rig_setup(NULL);
        _cleanup_free_ char *why = NULL;
        ExecRequest *q;
        unsigned n = 0;

        ASSERT_EQ_INT(exec_request_new(&q), 0);
        q->principal = strdup("local");
        q->code = strdup("yes");
        q->code_bytes = 3;
        q->timeout_usec = 5 * USEC_PER_SEC;
        ASSERT_EQ_INT(exec_engine_submit(rig_engine(rig), q, &handlers, &n, NULL, &why), 0);
        rig_turn(rig, 50 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(n, 1);
        ASSERT_EQ_STR(rig->finished_words, "cancelled ");
        rig_teardown(rig);
}

TEST(drain_refuses_the_new_and_ends_with_the_old) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run run, late;

        rig->settings->pool_size = 1;
        rig_submit(rig, &run, "sleep 0.2; echo done");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        exec_engine_drain(rig->engine);
        ASSERT_EQ_INT(submit_as(rig, &late, "local", "true", message), EXEC_E_STOPPING);
        ASSERT_CONTAINS(message, "stopping");
        ASSERT_EQ_UINT(rig->n_idle, 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        assert_status(&run, EXEC_OK);
        ASSERT_EQ_STR(run.out, "done\n");
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(rig->n_idle, 1);
        ASSERT_TRUE(rig_wait(rig, is_none_alive, rig)); /* the warm one, too */
        rig_teardown(rig);
}

TEST(drain_of_an_idle_engine_tells_at_once) {
        Rig *rig = rig_setup(NULL);

        exec_engine_drain(rig_engine(rig));
        rig_turn(rig, USEC_PER_MSEC);
        ASSERT_EQ_UINT(rig->n_idle, 1);
        rig_teardown(rig);
}

static void count_info(const ExecSandboxInfo *info, void *userdata) {
        *(unsigned*) userdata += info->is_known ? 1 : 100;
}

static bool is_counted(const void *data) {
        return *(const unsigned*) data > 0;
}

TEST(query_tells_what_the_launcher_said_once) {
        Rig *rig = rig_setup(NULL);
        unsigned n = 0;

        ASSERT_FALSE(exec_engine_sandbox(rig_engine(rig))->is_known);
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig->engine, count_info, &n), 0);
        ASSERT_EQ_UINT(n, 0);
        ASSERT_TRUE(rig_wait(rig, is_counted, &n));
        ASSERT_EQ_UINT(n, 1);
        ASSERT_EQ_UINT(exec_engine_sandbox(rig->engine)->hello.manager_version, 257);

        n = 0;
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig->engine, count_info, &n), 0);
        ASSERT_TRUE(rig_wait(rig, is_counted, &n));
        rig_turn(rig, 5 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(n, 1);
        ASSERT_EQ_UINT(report_of(rig)->n_connections, 1);
        ASSERT_EQ_UINT(rig->n_busy, 0); /* asking is not running */
        rig_teardown(rig);
}

TEST(query_tells_an_error_and_asks_again_the_next_time) {
        Rig *rig = rig_setup(NULL);
        unsigned n = 0;

        rig->connect_error = -ENOENT;
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig_engine(rig), count_info, &n), 0);
        ASSERT_TRUE(rig_wait(rig, is_counted, &n));
        ASSERT_EQ_UINT(n, 100);
        ASSERT_EQ_STR(exec_engine_sandbox(rig->engine)->error, "There is no launcher. Install one.");

        n = 0;
        rig->connect_error = 0;
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig->engine, count_info, &n), 0);
        ASSERT_TRUE(rig_wait(rig, is_counted, &n));
        ASSERT_EQ_UINT(n, 1);
        ASSERT_TRUE(exec_engine_sandbox(rig->engine)->error == NULL);
        rig_teardown(rig);
}

TEST(warm_unit_is_used_once_and_replaced) {
        Rig *rig = rig_setup(NULL);
        unsigned n = 0;
        char unit[64];
        Run run;

        rig->settings->pool_size = 1;
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig_engine(rig), count_info, &n), 0);
        ASSERT_TRUE(rig_wait(rig, is_warm, rig));
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 1);
        ASSERT_EQ_UINT(report_of(rig)->limits.runtime_max_usec,
                       rig->settings->pool_idle_usec + rig->settings->max_timeout_usec + 30 * USEC_PER_SEC);
        (void) snprintf(unit, sizeof(unit), "%s", rig->engine->pool.units.first->name);

        rig_run(rig, &run, "echo warm");
        assert_status(&run, EXEC_OK);
        ASSERT_EQ_STR(run.unit, unit);
        ASSERT_TRUE(rig_wait(rig, is_warm, rig));
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 2);
        ASSERT_EQ_UINT(report_of(rig)->n_stops, 0);
        rig_teardown(rig);
}

TEST(warm_units_are_stopped_when_nobody_comes_and_not_replaced) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig->settings->pool_size = 2;
        rig->settings->pool_idle_usec = 200 * USEC_PER_MSEC;
        rig_run(rig, &run, "true");
        ASSERT_TRUE(rig_wait(rig, is_warm, rig));
        ASSERT_TRUE(rig_wait(rig, is_none_alive, rig));
        rig_turn(rig, 100 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 3);
        ASSERT_EQ_UINT(report_of(rig)->n_stops, 2);

        rig_run(rig, &run, "true");
        assert_status(&run, EXEC_OK);
        ASSERT_TRUE(rig_wait(rig, is_warm, rig));
        rig_teardown(rig);
}

TEST(warm_unit_that_died_is_made_good_by_another_one) {
        /* The second unit says READY and dies. Whether the next run gets it before or after that is heard,
         * it must work, and run once. */
        for (uint64_t i = 0; i < 12; i++) {
                Rig *rig = rig_setup(&(const FakeScript) {
                                .behaviours = { FAKE_RUN, FAKE_DIES_READY }, .n_behaviours = 2 });
                Run run;

                rig->settings->pool_size = 1;
                rig_run(rig, &run, "echo 1");
                rig_turn(rig, i * USEC_PER_MSEC);
                rig_run(rig, &run, "echo 2");
                assert_status(&run, EXEC_OK);
                ASSERT_EQ_STR(run.out, "2\n");
                ASSERT_EQ_STR(rig->finished_words, "ok ok ");
                rig_teardown(rig);
        }
}

TEST(warm_unit_that_cannot_start_is_not_tried_for_ever) {
        Rig *rig = rig_setup(&(const FakeScript) {
                        .behaviours = { FAKE_RUN, FAKE_NEVER_READY, FAKE_RUN, FAKE_REFUSE, FAKE_RUN,
                                        FAKE_CHECK_FAILS },
                        .n_behaviours = 6 });
        Run run;

        rig->settings->pool_size = 1;
        for (unsigned i = 0; i < 3; i++) {
                rig_run(rig, &run, "sleep 0.1; echo x");
                assert_status(&run, EXEC_OK);
                rig_turn(rig, 500 * USEC_PER_MSEC);
                ASSERT_EQ_UINT(report_of(rig)->n_starts, 2 * i + 2);
        }
        ASSERT_EQ_UINT(report_of(rig)->n_alive, 0);
        rig_teardown(rig);
}

TEST(runs_go_before_warm_units) {
        Rig *rig = rig_setup(NULL);
        Run runs[3];

        rig->settings->pool_size = 1;
        for (int i = 0; i < 3; i++)
                rig_submit(rig, runs + i, "sleep 0.2");
        rig_turn(rig, 150 * USEC_PER_MSEC);
        /* Both slots are taken and one waits: no warm unit now. */
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 2);
        for (int i = 0; i < 3; i++)
                ASSERT_TRUE(rig_wait_done(rig, runs + i));
        ASSERT_TRUE(rig_wait(rig, is_warm, rig));
        rig_teardown(rig);
}

TEST(refused_sandbox_has_no_warm_units) {
        Rig *rig = rig_setup(&(const FakeScript) { .refuses = true });
        unsigned n = 0;

        rig->settings->pool_size = 2;
        ASSERT_EQ_INT(exec_engine_query_sandbox(rig_engine(rig), count_info, &n), 0);
        ASSERT_TRUE(rig_wait(rig, is_counted, &n));
        rig_turn(rig, 100 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(report_of(rig)->n_starts, 0);
        rig_teardown(rig);
}

TEST(limits_of_a_cold_unit_are_those_of_the_settings) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "true"); /* asked for 10 s */
        ASSERT_EQ_UINT(report_of(rig)->limits.runtime_max_usec, 40 * USEC_PER_SEC);
        ASSERT_EQ_UINT(report_of(rig)->limits.memory_max_bytes, rig->settings->memory_max_bytes);
        ASSERT_EQ_UINT(report_of(rig)->limits.tasks_max, rig->settings->tasks_max);
        ASSERT_EQ_UINT(report_of(rig)->limits.cpu_quota_per_sec_usec,
                       rig->settings->cpu_quota_percent * UINT64_C(10000));
        rig_teardown(rig);
}

TEST(floods_do_not_keep_others_waiting) {
        Rig *rig = rig_setup(NULL);
        Run floods[3], run;

        rig->settings->max_parallel = 4;
        rig->settings->max_output_bytes = 64 * MIB; /* the flood goes on for 4 GiB */
        for (int i = 0; i < 3; i++)
                rig_submit(rig, floods + i, "yes");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        rig_run(rig, &run, "echo through");
        assert_status(&run, EXEC_OK);
        ASSERT_TRUE(run.done_usec - run.submitted_usec < USEC_PER_SEC);
        for (int i = 0; i < 3; i++)
                exec_job_cancel(floods[i].job);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}
