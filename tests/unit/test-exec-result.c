/* SPDX-License-Identifier: MIT */

/* The verdict as a table: every row is one of design's rules or a fact of systemd that it stands for. */

#include "exec/result.h"

#include "base/macro.h"
#include "base/strv.h"
#include "test.h"

#define EXITED 1
#define KILLED 2
#define DUMPED 3

static const Capture nothing = {};

static ResultFacts facts_of(WireFinished *m) {
        return (ResultFacts) {
                .is_sent = true,
                .timeout_usec = 30 * USEC_PER_SEC,
                .max_timeout_usec = 300 * USEC_PER_SEC,
                .output_limit_bytes = 64 * MIB,
                .hint_facts = { .tasks_max = 128, .memory_max_bytes = 512 * MIB, .tmpfs_bytes = 64 * MIB },
                .err = &nothing,
                .fate = UNIT_FATE_FINISHED,
                .finished = m,
        };
}

static void result_done(ExecResult *r) {
        free(r->message);
        strv_free(r->hints);
}

/* Of a run whose program had not been sent yet. */
static ExecResult judge_unsent(ResultFacts f) {
        ExecResult r = {};

        f.is_sent = false;
        result_judge(&f, &r);
        return r;
}

static void assert_verdict(const ExecResult *r, size_t row, ExecStatus status, int exit_code, int signal) {
        if (r->status != status || r->exit_code != exit_code || r->signal != signal)
                FAIL("row %zu: %s %d %d", row, exec_status_to_string(r->status), r->exit_code, r->signal);
}

TEST(result_follows_systemd_and_the_recorded_reason) {
        static const struct {
                WireResult result;
                int code, main_status;
                JobReason reason;
                ExecStatus status;
                int exit_code, signal;
        } rows[] = {
                { WIRE_RESULT_SUCCESS, EXITED, 0, JOB_REASON_NONE, EXEC_OK, 0, 0 },
                { WIRE_RESULT_EXIT_CODE, EXITED, 1, JOB_REASON_NONE, EXEC_ERROR, 1, 0 },
                { WIRE_RESULT_EXIT_CODE, EXITED, 226, JOB_REASON_NONE, EXEC_ERROR, 226, 0 },
                { WIRE_RESULT_EXIT_CODE, EXITED, 255, JOB_REASON_NONE, EXEC_ERROR, 255, 0 },
                { WIRE_RESULT_SIGNAL, KILLED, 11, JOB_REASON_NONE, EXEC_SIGNAL, 139, 11 },
                { WIRE_RESULT_CORE_DUMP, DUMPED, 6, JOB_REASON_NONE, EXEC_SIGNAL, 134, 6 },
                /* systemd's clean signals */
                { WIRE_RESULT_SUCCESS, KILLED, 15, JOB_REASON_NONE, EXEC_SIGNAL, 143, 15 },
                { WIRE_RESULT_SUCCESS, KILLED, 1, JOB_REASON_NONE, EXEC_SIGNAL, 129, 1 },
                { WIRE_RESULT_SUCCESS, KILLED, 2, JOB_REASON_NONE, EXEC_SIGNAL, 130, 2 },
                { WIRE_RESULT_SUCCESS, KILLED, 13, JOB_REASON_NONE, EXEC_SIGNAL, 141, 13 },
                { WIRE_RESULT_SIGNAL, KILLED, 9, JOB_REASON_NONE, EXEC_SIGNAL, 137, 9 },
                /* our own kill */
                { WIRE_RESULT_SIGNAL, KILLED, 9, JOB_REASON_TIMEOUT, EXEC_TIMEOUT, -1, 0 },
                { WIRE_RESULT_SIGNAL, KILLED, 9, JOB_REASON_CANCELLED, EXEC_CANCELLED, -1, 0 },
                { WIRE_RESULT_SIGNAL, KILLED, 9, JOB_REASON_OUTPUT_LIMIT, EXEC_OUTPUT_LIMIT, -1, 0 },
                { WIRE_RESULT_SIGNAL, KILLED, 9, JOB_REASON_FAILED, EXEC_INFRA_ERROR, -1, 0 },
                /* it ended by itself while the kill was under way */
                { WIRE_RESULT_SUCCESS, EXITED, 0, JOB_REASON_TIMEOUT, EXEC_TIMEOUT, -1, 0 },
                { WIRE_RESULT_SUCCESS, EXITED, 0, JOB_REASON_CANCELLED, EXEC_CANCELLED, -1, 0 },
                { WIRE_RESULT_GONE, 0, 0, JOB_REASON_TIMEOUT, EXEC_TIMEOUT, -1, 0 },
                /* the kernel's word outranks everything */
                { WIRE_RESULT_OOM_KILL, KILLED, 9, JOB_REASON_NONE, EXEC_OOM, 137, 9 },
                { WIRE_RESULT_OOM_KILL, KILLED, 9, JOB_REASON_TIMEOUT, EXEC_OOM, 137, 9 },
                { WIRE_RESULT_OOM_KILL, KILLED, 9, JOB_REASON_CANCELLED, EXEC_OOM, 137, 9 },
                { WIRE_RESULT_OOM_KILL, EXITED, 1, JOB_REASON_NONE, EXEC_OOM, 1, 0 },
                { WIRE_RESULT_OOM_KILL, EXITED, 0, JOB_REASON_NONE, EXEC_OOM, 0, 0 },
                /* in user mode systemd need not know how the main process ended */
                { WIRE_RESULT_OOM_KILL, 0, 0, JOB_REASON_NONE, EXEC_OOM, 137, 9 },
                { WIRE_RESULT_TIMEOUT, 0, 0, JOB_REASON_NONE, EXEC_TIMEOUT, -1, 0 },
                { WIRE_RESULT_SIGNAL, 0, 0, JOB_REASON_NONE, EXEC_INFRA_ERROR, -1, 0 },
                { WIRE_RESULT_SIGNAL, 0, 0, JOB_REASON_TIMEOUT, EXEC_TIMEOUT, -1, 0 },
                /* RuntimeMaxSec= */
                { WIRE_RESULT_TIMEOUT, KILLED, 9, JOB_REASON_NONE, EXEC_TIMEOUT, -1, 0 },
                { WIRE_RESULT_TIMEOUT, EXITED, 0, JOB_REASON_NONE, EXEC_TIMEOUT, -1, 0 },
                /* never a success without Result=success */
                { WIRE_RESULT_EXIT_CODE, EXITED, 0, JOB_REASON_NONE, EXEC_ERROR, 0, 0 },
                { WIRE_RESULT_OTHER, EXITED, 0, JOB_REASON_NONE, EXEC_ERROR, 0, 0 },
                { WIRE_RESULT_RESOURCES, EXITED, 0, JOB_REASON_NONE, EXEC_ERROR, 0, 0 },
                /* never anything certain without a known end */
                { WIRE_RESULT_GONE, 0, 0, JOB_REASON_NONE, EXEC_INFRA_ERROR, -1, 0 },
                { WIRE_RESULT_SUCCESS, 0, 0, JOB_REASON_NONE, EXEC_INFRA_ERROR, -1, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                WireFinished m = {
                        .result = rows[i].result,
                        .main_code = rows[i].code,
                        .main_status = rows[i].main_status,
                        .start_failed = i % 2, /* says nothing once the program ran: systemd issue 28304 */
                };
                ResultFacts f = facts_of(&m);
                ExecResult r = {};

                f.reason = rows[i].reason;
                result_judge(&f, &r);
                assert_verdict(&r, i, rows[i].status, rows[i].exit_code, rows[i].signal);
                ASSERT_TRUE(r.did_run);
                ASSERT_TRUE((r.message == NULL) == (r.status == EXEC_OK));
                result_done(&r);
        }
}

TEST(result_of_what_never_ran_is_never_the_programs) {
        static const WireResult results[] = { WIRE_RESULT_SUCCESS, WIRE_RESULT_EXIT_CODE, WIRE_RESULT_SIGNAL,
                                              WIRE_RESULT_OOM_KILL, WIRE_RESULT_TIMEOUT, WIRE_RESULT_GONE };

        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                for (int code = 0; code <= DUMPED; code++)
                        for (int status = 0; status < 256; status++) {
                                WireFinished m = {
                                        .result = results[i], .main_code = code, .main_status = status };
                                ExecResult r = judge_unsent(facts_of(&m));

                                ASSERT_EQ_INT(r.status, EXEC_INFRA_ERROR);
                                ASSERT_EQ_INT(r.exit_code, -1);
                                ASSERT_FALSE(r.did_run);
                                ASSERT_FALSE(r.is_unprepared);
                                ASSERT_CONTAINS(r.message, "not the program's fault");
                                result_done(&r);
                        }
}

TEST(result_in_user_mode_believes_init_only_where_it_fits) {
        static const struct {
                int main_status;
                uint16_t claim;
                ExecStatus status;
                int exit_code, signal;
        } rows[] = {
                { 139, 0x100 + 11, EXEC_SIGNAL, 139, 11 },
                { 137, 0x100 + 9, EXEC_SIGNAL, 137, 9 },
                { 137, 137, EXEC_ERROR, 137, 0 },
                { 139, 0x100 + 9, EXEC_ERROR, 139, 0 }, /* contradicts what systemd saw */
                { 3, 0x100 + 9, EXEC_ERROR, 3, 0 },
                { 3, 0, EXEC_ERROR, 3, 0 },
                { 0, 0x100 + 9, EXEC_OK, 0, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                WireFinished m = {
                        .result = rows[i].main_status == 0 ? WIRE_RESULT_SUCCESS : WIRE_RESULT_EXIT_CODE,
                        .main_code = EXITED, .main_status = rows[i].main_status,
                };
                ResultFacts f = facts_of(&m);
                ExecResult r = {};

                f.has_status = true;
                f.status = rows[i].claim;
                result_judge(&f, &r);
                assert_verdict(&r, i, rows[i].status, rows[i].exit_code, rows[i].signal);
                result_done(&r);
        }
}

TEST(result_without_the_launchers_word_keeps_our_reason) {
        static const struct {
                JobReason reason;
                UnitFate fate;
                ExecStatus status;
                bool had_ended_silently;
        } rows[] = {
                { JOB_REASON_TIMEOUT, UNIT_FATE_NONE, EXEC_TIMEOUT },
                { JOB_REASON_TIMEOUT, UNIT_FATE_NONE, EXEC_INFRA_ERROR, true },
                { JOB_REASON_CANCELLED, UNIT_FATE_NONE, EXEC_CANCELLED, true },
                { JOB_REASON_OUTPUT_LIMIT, UNIT_FATE_NONE, EXEC_OUTPUT_LIMIT },
                { JOB_REASON_CANCELLED, UNIT_FATE_NONE, EXEC_CANCELLED },
                { JOB_REASON_CANCELLED, UNIT_FATE_LOST, EXEC_CANCELLED },
                { JOB_REASON_TIMEOUT, UNIT_FATE_LOST, EXEC_TIMEOUT },
                { JOB_REASON_NONE, UNIT_FATE_LOST, EXEC_INFRA_ERROR },
                { JOB_REASON_NONE, UNIT_FATE_REFUSED, EXEC_INFRA_ERROR },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                WireFinished m = {}; /* not to be looked at */
                ResultFacts f = facts_of(&m);
                ExecResult r = {};

                f.reason = rows[i].reason;
                f.fate = rows[i].fate;
                f.had_ended_silently = rows[i].had_ended_silently;
                result_judge(&f, &r);
                if (r.status != rows[i].status)
                        FAIL("row %zu: %s", i, exec_status_to_string(r.status));
                ASSERT_EQ_INT(r.exit_code, -1);
                result_done(&r);
        }
}

TEST(result_messages_name_the_limit) {
        WireFinished m = { .result = WIRE_RESULT_SIGNAL, .main_code = KILLED, .main_status = 9 };
        ResultFacts f = facts_of(&m);
        ExecResult r = {};

        f.reason = JOB_REASON_TIMEOUT;
        result_judge(&f, &r);
        ASSERT_EQ_STR(r.message, "The program was stopped at its time limit of 30 s; what it had printed "
                                 "until then is shown. Let it do less, or ask for more time (at most 300 "
                                 "s).");
        result_done(&r);

        r = (ExecResult) {};
        f.timeout_usec = f.max_timeout_usec;
        result_judge(&f, &r);
        ASSERT_EQ_STR(r.message, "The program was stopped at its time limit of 300 s, the longest there is; "
                                 "what it had printed until then is shown. Let it do less.");
        result_done(&r);

        r = (ExecResult) {};
        f.asked_timeout_sec = 900;
        result_judge(&f, &r);
        ASSERT_CONTAINS(r.message, "300 s, the longest there is (900 s were asked for); what it");
        result_done(&r);
        f.asked_timeout_sec = 300;

        /* A fork bomb that catches what is refused to it. */
        r = (ExecResult) {};
        f.has_met_tasks_max = true;
        result_judge(&f, &r);
        ASSERT_CONTAINS(r.message, "do less. It also met its limit of 128 tasks (processes and threads).");
        result_done(&r);
        f.has_met_tasks_max = false;

        r = (ExecResult) {};
        f.reason = JOB_REASON_OUTPUT_LIMIT;
        result_judge(&f, &r);
        ASSERT_CONTAINS(r.message, "64 MiB");
        result_done(&r);

        r = (ExecResult) {};
        m.result = WIRE_RESULT_OOM_KILL;
        m.memory_peak_bytes = WIRE_UNKNOWN;
        result_judge(&f, &r);
        ASSERT_CONTAINS(r.message, "its limit of 512 MiB");
        result_done(&r);
        m.memory_peak_bytes = 511 * MIB;
        result_judge(&f, &r);
        ASSERT_CONTAINS(r.message, "its limit of 512 MiB");
        result_done(&r);
}

TEST(result_of_memory_that_others_use_names_not_the_programs_limit_as_the_cause) {
        WireFinished m = {
                .result = WIRE_RESULT_OOM_KILL, .main_code = KILLED, .main_status = 9,
                .memory_peak_bytes = 209936384, /* MemoryMax=200M of the slice */
        };
        ResultFacts f = facts_of(&m);
        ExecResult r = {};

        f.is_sent = true;
        result_judge(&f, &r);
        ASSERT_EQ_INT(r.status, EXEC_OOM);
        ASSERT_CONTAINS(r.message, "when it used 200 MiB. Its own limit is 512 MiB, so all programs ");
        ASSERT_CONTAINS(r.message, "MemoryMax= of mcp-exec.slice");
        result_done(&r);
}

TEST(result_of_a_failed_check_names_the_check_and_its_remedy) {
        WireFinished m = {};
        ResultFacts f = facts_of(&m);
        ExecResult r;

        f.fault = UNIT_FAULT_CHECK;
        f.failed_check = 4;
        r = judge_unsent(f);
        ASSERT_EQ_INT(r.status, EXEC_INFRA_ERROR);
        ASSERT_EQ_STR(r.message, "This is not the program's fault. The sandbox is not what it must be, so "
                                 "the program was not run: the Python interpreter does not run inside the "
                                 "sandbox (check 4). Administrators: Check Python= (or "
                                 "MCP_EXEC_PYTHON): it must be Python 3.11 or later, all of it under "
                                 "/usr.");
        result_done(&r);
        f.failed_check = 99;
        r = judge_unsent(f);
        ASSERT_CONTAINS(r.message, "(check 99 failed inside it)");
        result_done(&r);
}

TEST(result_of_unprepared_packages_tells_that_it_may_quote) {
        static const ExecStatus statuses[] = { EXEC_ERROR, EXEC_INFRA_ERROR };

        for (size_t i = 0; i < ELEMENTSOF(statuses); i++) {
                WireFinished m = {};
                ResultFacts f = facts_of(&m);
                ExecResult r;

                f.fate = UNIT_FATE_NONE;
                f.reason = JOB_REASON_UNPREPARED;
                f.unprepared_status = statuses[i];
                f.explanation = "The index said: teapot.";
                r = judge_unsent(f);
                assert_verdict(&r, i, statuses[i], -1, 0);
                ASSERT_EQ_STR(r.message, "The index said: teapot.");
                ASSERT_TRUE(r.is_unprepared);
                ASSERT_FALSE(r.did_run);
                result_done(&r);
        }
}

TEST(result_names_signals) {
        char name[32];

        ASSERT_EQ_STR(result_signal_name(11, name), "SIGSEGV");
        ASSERT_EQ_STR(result_signal_name(9, name), "SIGKILL");
        ASSERT_EQ_STR(result_signal_name(40, name), "signal 40");
}
