/* SPDX-License-Identifier: MIT */

/* Every way in which a run can end, as the engine tells it. Units are played by the fake launcher with
 * sh. */

#include "exec-rig.h"

#include <signal.h>

#include "base/timeutil.h"
#include "unit/test.h"

#define ASSERT_RUN(run, expected_status, expected_code)                         \
        do {                                                                    \
                if ((run).status != (expected_status))                          \
                        FAIL("status is %s: %s", exec_status_to_string((run).status), (run).message); \
                ASSERT_EQ_INT((run).exit_code, expected_code);                  \
                ASSERT_EQ_UINT((run).n_done, 1);                                \
        } while (0)

static int submit(Rig *rig, Run *run, const char *code, uint64_t timeout_usec) {
        char message[512];

        return rig_submit_as(rig, run, "local", code, NULL, timeout_usec, message);
}

static Rig* rig_with(FakeBehaviour behaviour) {
        return rig_setup(&(const FakeScript) { .behaviours = { behaviour }, .n_behaviours = 1 });
}

TEST(run_prints_and_ends_ok) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "echo 4; echo warn >&2");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_STR(run.out, "4\n");
        ASSERT_EQ_STR(run.err, "warn\n");
        ASSERT_EQ_STR(run.message, "");
        ASSERT_EQ_STR(run.hints, "");
        ASSERT_EQ_UINT(run.n_started, 1);
        ASSERT_EQ_UINT(run.seen_bytes[1], 2);
        ASSERT_EQ_UINT(run.seen_bytes[2], 5);
        ASSERT_EQ_UINT(run.cpu_usec, 12345);
        ASSERT_EQ_UINT(run.memory_peak_bytes, 4 << 20);
        ASSERT_EQ_UINT(strlen(run.run_id), RANDOM_HEX_ID_CHARS);
        ASSERT_CONTAINS(run.unit, "mcp-exec-run-fake");
        ASSERT_TRUE(run.did_run);
        ASSERT_TRUE(run.duration_usec > 0);
        ASSERT_EQ_STR(rig->finished_words, "ok ");
        rig_teardown(rig);
}

TEST(run_gets_its_stdin_to_the_end) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Run run;

        ASSERT_EQ_INT(rig_submit_as(rig, &run, "local", "cat; cat", "one\ntwo\n", USEC_PER_SEC, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_STR(run.out, "one\ntwo\n");

        rig_run(rig, &run, "cat; echo end");
        ASSERT_EQ_STR(run.out, "end\n");
        rig_teardown(rig);
}

TEST(code_and_stdin_larger_than_the_socket_arrive_whole) {
        Rig *rig = rig_setup(NULL);
        static char code[900000], input[900000];
        char message[512];
        Run run;

        memset(code, '#', sizeof(code) - 1);
        memcpy(code, "wc -c; wc -c <main.py\n", 22);
        memset(input, 'x', sizeof(input) - 1);
        ASSERT_EQ_INT(rig_submit_as(rig, &run, "local", code, input, 5 * USEC_PER_SEC, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_STR(run.out, "899999\n899999\n");
        rig_teardown(rig);
}

TEST(exit_statuses_are_errors_with_their_number) {
        static const int numbers[] = { 1, 3, 117, 203, 226, 255 };
        Rig *rig = rig_setup(NULL);

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                char code[32];
                Run run;

                (void) snprintf(code, sizeof(code), "exit %d", numbers[i]);
                rig_run(rig, &run, code);
                ASSERT_RUN(run, EXEC_ERROR, numbers[i]);
                ASSERT_EQ_INT(run.signal, 0);
                ASSERT_CONTAINS(run.message, "exit status");
        }
        rig_teardown(rig);
}

TEST(signals_are_told_apart_and_never_ok) {
        static const int signals[] = { SIGSEGV, SIGKILL, SIGABRT, SIGTERM, SIGHUP, SIGINT, SIGPIPE };

        for (int is_user = 0; is_user < 2; is_user++) {
                Rig *rig = rig_setup(&(const FakeScript) { .is_user = is_user });

                for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                        char code[64], name[32];
                        Run run;

                        (void) snprintf(code, sizeof(code), "kill -%d $$; sleep 5", signals[i]);
                        rig_run(rig, &run, code);
                        ASSERT_RUN(run, EXEC_SIGNAL, 128 + signals[i]);
                        ASSERT_EQ_INT(run.signal, signals[i]);
                        ASSERT_CONTAINS(run.message, result_signal_name(signals[i], name));
                }
                rig_teardown(rig);
        }
}

TEST(exit_status_above_128_is_no_signal_in_user_mode) {
        Rig *rig = rig_setup(&(const FakeScript) { .is_user = true });
        Run run;

        rig_run(rig, &run, "exit 137");
        ASSERT_RUN(run, EXEC_ERROR, 137);
        ASSERT_EQ_INT(run.signal, 0);
        rig_run(rig, &run, "exit 0");
        ASSERT_RUN(run, EXEC_OK, 0);
        rig_teardown(rig);
}

TEST(timeout_is_answered_at_the_deadline_with_what_was_printed) {
        Rig *rig = rig_setup(NULL);
        Run run;

        ASSERT_EQ_INT(submit(rig, &run, "echo early; sleep 30", USEC_PER_SEC), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_TIMEOUT, -1);
        ASSERT_EQ_INT(run.signal, 0);
        ASSERT_EQ_STR(run.out, "early\n");
        ASSERT_CONTAINS(run.message, "1 s");
        ASSERT_TRUE(run.duration_usec >= USEC_PER_SEC);
        ASSERT_TRUE(run.done_usec - run.submitted_usec < 1500 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_stops, 1);
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_alive, 0);
        rig_teardown(rig);
}

TEST(deadline_is_not_delayed_by_a_grandchild_that_holds_the_pipe) {
        Rig *rig = rig_setup(NULL);
        Run run;

        /* The new session escapes the fake's kill, as it could not escape a cgroup: the pipe stays open. */
        ASSERT_EQ_INT(submit(rig, &run, "setsid sleep 3 & echo bye; sleep 9", USEC_PER_SEC / 2), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_TIMEOUT, -1);
        ASSERT_EQ_STR(run.out, "bye\n");
        ASSERT_TRUE(run.done_usec - run.submitted_usec < USEC_PER_SEC);
        rig_teardown(rig);
}

TEST(end_of_the_program_is_not_delayed_by_a_child_that_holds_the_pipe) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "setsid sleep 3 & echo bye");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_STR(run.out, "bye\n");
        ASSERT_TRUE(run.done_usec - run.submitted_usec < USEC_PER_SEC);
        rig_teardown(rig);
}

TEST(timeout_is_answered_without_the_launchers_word_and_keeps_the_slot) {
        Rig *rig = rig_with(FAKE_LATE_FINISHED);
        Run run;

        ASSERT_EQ_INT(submit(rig, &run, "echo x; sleep 9", USEC_PER_SEC / 2), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_TIMEOUT, -1);
        ASSERT_EQ_STR(run.out, "x\n");
        ASSERT_TRUE(run.done_usec - run.submitted_usec < USEC_PER_SEC);
        ASSERT_EQ_UINT(exec_engine_n_running(rig->engine), 1);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(run.n_done, 1);
        ASSERT_EQ_STR(rig->finished_words, "timeout ");
        rig_teardown(rig);
}

TEST(program_that_had_ended_is_no_timeout_although_nobody_told_its_end) {
        Rig *rig = rig_with(FAKE_NEVER_FINISHED);
        Run run;

        ASSERT_EQ_INT(submit(rig, &run, "echo x", USEC_PER_SEC / 2), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_INFRA_ERROR, -1);
        ASSERT_EQ_STR(run.out, "x\n");
        ASSERT_CONTAINS(run.message, "the launcher has not reported how the program ended");
        ASSERT_TRUE(run.did_run);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(end_that_is_never_reported_costs_the_connection_not_the_slot) {
        Rig *rig = rig_with(FAKE_NEVER_FINISHED);
        Run run;

        ASSERT_EQ_INT(submit(rig, &run, "sleep 9", USEC_PER_SEC / 4), 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_RUN(run, EXEC_TIMEOUT, -1);
        ASSERT_TRUE(rig_wait_idle(rig));

        rig_run(rig, &run, "echo again");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_UINT(fake_launcher_report(rig->launcher)->n_connections, 2);
        rig_teardown(rig);
}

TEST(oom_outranks_the_signal_and_names_the_smaller_limit) {
        Rig *rig = rig_with(FAKE_OOM);
        Run run;

        rig_run(rig, &run, "kill -9 $$");
        ASSERT_RUN(run, EXEC_OOM, 137);
        ASSERT_CONTAINS(run.message, "memory");
        ASSERT_CONTAINS(run.message, "256 MiB");
        rig_teardown(rig);
}

TEST(flood_is_ended_long_before_the_deadline) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig->settings->max_output_bytes = 64 * KIB;
        rig_run(rig, &run, "echo first >&2; yes");
        ASSERT_RUN(run, EXEC_OUTPUT_LIMIT, -1);
        ASSERT_TRUE(run.out_bytes > 64 * 64 * KIB);
        ASSERT_TRUE(run.out_bytes < 65 * 64 * KIB + 64 * KIB);
        ASSERT_EQ_STR(run.err, "first\n");
        ASSERT_CONTAINS(run.message, "4 MiB");
        ASSERT_TRUE(run.done_usec - run.submitted_usec < 3 * USEC_PER_SEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(much_output_below_the_flood_is_read_to_its_end) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig->settings->max_output_bytes = 64 * KIB;
        rig_run(rig, &run, "head -c 3000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero >&2; echo; "
                           "echo end");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_UINT(run.out_bytes, 3000005);
        ASSERT_EQ_UINT(run.err_bytes, 1000000);
        ASSERT_EQ_UINT(run.seen_bytes[1], 3000005);
        ASSERT_CONTAINS(run.out, "\nend\n");
        rig_teardown(rig);
}

TEST(runtime_max_of_systemd_is_a_timeout) {
        Rig *rig = rig_with(FAKE_RUNTIME_MAX);
        Run run;

        rig_run(rig, &run, "kill -9 $$");
        ASSERT_RUN(run, EXEC_TIMEOUT, -1);
        rig_teardown(rig);
}

TEST(vanished_unit_is_never_a_success) {
        Rig *rig = rig_with(FAKE_GONE);
        Run run;

        rig_run(rig, &run, "echo fine");
        ASSERT_RUN(run, EXEC_INFRA_ERROR, -1);
        ASSERT_EQ_STR(run.out, "fine\n");
        ASSERT_TRUE(run.did_run);
        ASSERT_CONTAINS(run.message, "not the program's fault");
        rig_teardown(rig);
}

TEST(unknown_accounting_stays_unknown) {
        Rig *rig = rig_with(FAKE_ACCOUNTS_NOTHING);
        Run run;

        rig_run(rig, &run, "true");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_UINT(run.cpu_usec, WIRE_UNKNOWN);
        ASSERT_EQ_UINT(run.memory_peak_bytes, WIRE_UNKNOWN);
        rig_teardown(rig);
}

TEST(hints_come_with_errors_only_and_never_change_a_status) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "echo \"RuntimeError: can't start new thread\" >&2; exit 1");
        ASSERT_RUN(run, EXEC_ERROR, 1);
        ASSERT_CONTAINS(run.hints, "64"); /* the launcher's limit is the smaller one */
        rig_run(rig, &run, "echo \"RuntimeError: can't start new thread\" >&2");
        ASSERT_RUN(run, EXEC_OK, 0);
        ASSERT_EQ_STR(run.hints, "");
        rig_run(rig, &run, "echo \"ModuleNotFoundError: No module named 'scapy'\" >&2; exit 1");
        ASSERT_RUN(run, EXEC_ERROR, 1);
        ASSERT_CONTAINS(run.message, "'scapy'");
        ASSERT_CONTAINS(run.message, "no network");
        rig_teardown(rig);
}
