/* SPDX-License-Identifier: MIT */

/* The life of one unit, with a service manager that says things in the order of each case. */

#include <signal.h>

#include "base/fd.h"
#include "launcher-rig.h"
#include "unit/test.h"

#define NO_SUCH_UNIT "org.freedesktop.systemd1.NoSuchUnit"

static LauncherRig rig;

static void ready(void) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
}

/* Nothing is left undone: the launcher goes well when its client does. */
static void done(void) {
        ASSERT_EQ_INT(launcher_rig_teardown(&rig), 0);
}

static void started(uint64_t job) {
        rig_send_start(&rig, job);
        fake_pid1_start(&rig.pid1);
        (void) rig_expect(&rig, WIRE_STARTED, job);
}

/* The next call must be this one about the newest unit. */
static void expect_unit_call(const char *member) {
        sd_bus_message *m = fake_pid1_call(&rig.pid1, member);
        const char *unit;

        ASSERT_TRUE(sd_bus_message_read(m, "s", &unit) > 0);
        ASSERT_EQ_STR(unit, rig.pid1.unit);
        sd_bus_message_unref(m);
}

static void expect_kill(void) {
        sd_bus_message *m = fake_pid1_call(&rig.pid1, "KillUnit");
        const char *unit, *whom;
        int32_t number;

        ASSERT_TRUE(sd_bus_message_read(m, "ssi", &unit, &whom, &number) > 0);
        ASSERT_EQ_STR(unit, rig.pid1.unit);
        ASSERT_EQ_STR(whom, "all");
        ASSERT_EQ_INT(number, SIGKILL);
        sd_bus_message_unref(m);
}

static void expect_no_call(void) {
        sd_bus_message *m = fake_pid1_call_within(&rig.pid1, 100);

        if (m)
                FAIL("unexpected call of %s", sd_bus_message_get_member(m));
}

TEST(a_run_from_start_to_its_record) {
        WireMessage m;

        ready();
        rig_send_start(&rig, 7);
        fake_pid1_start(&rig.pid1);
        m = rig_expect(&rig, WIRE_STARTED, 7);
        ASSERT_EQ_STR(m.started.unit, rig.pid1.unit);
        ASSERT_EQ_STR(m.started.invocation_id, "ab000000000000000000000000000001");
        ASSERT_TRUE(m.started.monotonic_usec > 0);
        fake_pid1_end(&rig.pid1, "signal", 2, 11);
        m = rig_expect(&rig, WIRE_FINISHED, 7);
        ASSERT_EQ_INT(m.finished.result, WIRE_RESULT_SIGNAL);
        ASSERT_EQ_INT(m.finished.start_failed, 0);
        ASSERT_EQ_INT(m.finished.main_code, 2);
        ASSERT_EQ_INT(m.finished.main_status, 11);
        ASSERT_EQ_UINT(m.finished.start_monotonic_usec, 1000);
        ASSERT_EQ_UINT(m.finished.exit_monotonic_usec, 2000);
        ASSERT_EQ_UINT(m.finished.cpu_nsec, 3000);
        ASSERT_EQ_UINT(m.finished.memory_peak_bytes, 4000);
        expect_no_call();
        ASSERT_EQ_UINT(rig.pid1.n_unref, 2); /* the self-test's and this one's */
        done();
}

TEST(the_first_inactive_of_a_new_unit_is_not_its_end) {
        ready();
        rig_send_start(&rig, 1);
        fake_pid1_begin(&rig.pid1);
        fake_pid1_changed(&rig.pid1, "inactive", 0);
        ASSERT_TRUE(rig_is_silent(&rig));
        fake_pid1_changed(&rig.pid1, "active", 1);
        fake_pid1_job_removed(&rig.pid1, "done");
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_SUCCESS);
        done();
}

/* Restarting our service makes PID 1 queue a start of each run that waits for us: waiting for it too,
 * neither ended. */
TEST(a_restart_of_the_launcher_does_not_wait_for_its_own_runs) {
        ready();
        started(1);
        fake_pid1_changed(&rig.pid1, "inactive", 5);
        fake_pid1_record(&rig.pid1, "success", 1, 0);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

/* It is queued while the unit is being started: PID 1 makes one job of the two, whose end it tells when the
 * unit is gone. */
TEST(a_start_that_a_restart_swallowed_is_none_the_less_told) {
        ready();
        rig_send_start(&rig, 1);
        fake_pid1_begin(&rig.pid1);
        fake_pid1_changed(&rig.pid1, "active", 1);
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        fake_pid1_changed(&rig.pid1, "inactive", 1);
        fake_pid1_record(&rig.pid1, "success", 1, 0);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.start_failed, 0);
        done();
}

TEST(a_start_that_fails_says_so) {
        WireMessage m;

        ready();
        rig_send_start(&rig, 1);
        fake_pid1_begin(&rig.pid1);
        fake_pid1_changed(&rig.pid1, "failed", 1);
        ASSERT_TRUE(rig_is_silent(&rig));
        fake_pid1_job_removed(&rig.pid1, "failed");
        fake_pid1_end(&rig.pid1, "exit-code", 1, 226);
        m = rig_expect(&rig, WIRE_FINISHED, 1);
        ASSERT_EQ_INT(m.finished.start_failed, 1);
        ASSERT_EQ_INT(m.finished.main_status, 226);
        done();
}

TEST(a_start_that_fails_before_any_process_is_not_gone) {
        WireMessage m;

        ready();
        rig_send_start(&rig, 1);
        fake_pid1_begin(&rig.pid1);
        fake_pid1_job_removed(&rig.pid1, "failed");
        fake_pid1_end(&rig.pid1, "resources", 0, 0);
        m = rig_expect(&rig, WIRE_FINISHED, 1);
        ASSERT_EQ_INT(m.finished.start_failed, 1);
        ASSERT_EQ_INT(m.finished.result, WIRE_RESULT_RESOURCES);
        done();
}

TEST(a_stub_that_claims_success_is_gone) {
        ready();
        started(1);
        fake_pid1_end(&rig.pid1, "success", 0, 0);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_GONE);
        done();
}

static void fail_call(const char *method, const char *error) {
        sd_bus_message *m = fake_pid1_call(&rig.pid1, method);

        fake_pid1_error(&rig.pid1, m, error, "no");
        sd_bus_message_unref(m);
}

TEST(a_record_that_cannot_be_had_is_gone) {
        ready();
        started(1);
        fake_pid1_changed(&rig.pid1, "inactive", 0);
        fail_call("GetAll", SD_BUS_ERROR_UNKNOWN_OBJECT);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_GONE);
        done();
}

TEST(a_record_without_result_is_gone) {
        sd_bus_message *m;

        ready();
        started(1);
        fake_pid1_changed(&rig.pid1, "inactive", 0);
        m = fake_pid1_call(&rig.pid1, "GetAll");
        fake_pid1_reply(&rig.pid1, m, "a{sv}", 1, "ExecMainCode", "i", 1);
        sd_bus_message_unref(m);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_GONE);
        done();
}

TEST(a_question_that_a_reexecution_swallowed_is_asked_again) {
        ready();
        started(1);
        fake_pid1_changed(&rig.pid1, "inactive", 0);
        fail_call("GetAll", SD_BUS_ERROR_NO_REPLY);
        ASSERT_TRUE(rig_is_silent(&rig));
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_SUCCESS);
        done();
}

TEST(a_unit_that_vanishes_is_gone) {
        ready();
        started(1);
        fake_pid1_unit_removed(&rig.pid1);
        fail_call("GetUnit", NO_SUCH_UNIT);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_GONE);
        done();
}

static void answer_query(const char *state) {
        sd_bus_message *m;

        m = fake_pid1_call(&rig.pid1, "GetUnit");
        fake_pid1_reply(&rig.pid1, m, "o", "/unit");
        sd_bus_message_unref(m);
        m = fake_pid1_call(&rig.pid1, "GetAll");
        fake_pid1_reply(&rig.pid1, m, "a{sv}", 2, "ActiveState", "s", state, "Job", "(uo)", 0, "/");
        sd_bus_message_unref(m);
}

TEST(a_reload_that_says_removed_of_a_living_unit_changes_nothing) {
        ready();
        started(1);
        fake_pid1_unit_removed(&rig.pid1);
        answer_query("active");
        ASSERT_TRUE(rig_is_silent(&rig));
        fake_pid1_end(&rig.pid1, "exit-code", 1, 3);
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.main_status, 3);
        done();
}

TEST(an_end_that_was_missed_is_found_by_asking) {
        ready();
        started(1);
        fake_pid1_unit_removed(&rig.pid1);
        answer_query("failed");
        fake_pid1_record(&rig.pid1, "oom-kill", 0, 0); /* a user's manager need not know the exit */
        ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 1).finished.result, WIRE_RESULT_OOM_KILL);
        done();
}

TEST(stop_kills_a_running_unit) {
        ready();
        started(1);
        rig_send_stop(&rig, 1);
        expect_kill();
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

TEST(stop_cancels_a_start_that_has_not_happened) {
        WireMessage m;

        ready();
        rig_send_start(&rig, 1);
        fake_pid1_begin(&rig.pid1);
        rig_send_stop(&rig, 1);
        expect_unit_call("StopUnit");
        fake_pid1_job_removed(&rig.pid1, "canceled");
        fake_pid1_end(&rig.pid1, "success", 0, 0);
        m = rig_expect(&rig, WIRE_FINISHED, 1);
        ASSERT_EQ_INT(m.finished.start_failed, 1);
        done();
}

TEST(stop_before_the_managers_answer_waits_for_it) {
        sd_bus_message *m;
        const char *unit;

        ready();
        rig_send_start(&rig, 1);
        m = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        ASSERT_TRUE(sd_bus_message_read(m, "s", &unit) > 0);
        snprintf(rig.pid1.unit, sizeof(rig.pid1.unit), "%s", unit);
        rig_send_stop(&rig, 1);
        expect_no_call();
        fake_pid1_reply(&rig.pid1, m, "o", "/job/1");
        sd_bus_message_unref(m);
        expect_unit_call("StopUnit");
        fake_pid1_job_removed(&rig.pid1, "done");
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        expect_kill(); /* it was too late to cancel */
        fake_pid1_changed(&rig.pid1, "active", 0);
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

TEST(a_stopped_unit_is_not_waited_for_when_a_restart_is_queued) {
        ready();
        started(1);
        rig_send_stop(&rig, 1);
        expect_kill();
        fake_pid1_changed(&rig.pid1, "failed", 9); /* BindsTo= and a restart of our service */
        fake_pid1_record(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

TEST(stop_of_what_is_not_there_is_ignored) {
        ready();
        rig_send_stop(&rig, 99);
        rig_send_assign(&rig, 99);
        expect_no_call();
        ASSERT_TRUE(rig_is_silent(&rig));
        done();
}

TEST(assign_sets_the_limits_until_the_units_end) {
        sd_bus_message *m;
        const char *unit, *name;
        uint64_t value;
        int is_runtime;

        ready();
        started(1);
        rig_send_assign(&rig, 1);
        m = fake_pid1_call(&rig.pid1, "SetUnitProperties");
        ASSERT_TRUE(sd_bus_message_read(m, "sb", &unit, &is_runtime) > 0);
        ASSERT_EQ_STR(unit, rig.pid1.unit);
        ASSERT_EQ_INT(is_runtime, 1);
        ASSERT_TRUE(sd_bus_message_enter_container(m, 'a', "(sv)") > 0);
        ASSERT_TRUE(sd_bus_message_read(m, "(sv)", &name, "t", &value) > 0);
        ASSERT_EQ_STR(name, "MemoryMax");
        ASSERT_EQ_UINT(value, 33 * MIB);
        fake_pid1_reply(&rig.pid1, m, "");
        sd_bus_message_unref(m);
        expect_no_call();
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

/* Calls to the service manager would pile up in the launcher's memory, and the unit's kill behind them. */
TEST(a_flood_of_assigns_or_stops_makes_no_flood_of_calls) {
        sd_bus_message *m;

        ready();
        started(1);
        for (unsigned i = 0; i < 3; i++)
                rig_send_stop(&rig, 1);
        expect_kill();
        expect_no_call();
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);

        started(2);
        rig_send_assign(&rig, 2);
        rig_send_assign(&rig, 2);
        m = fake_pid1_call(&rig.pid1, "SetUnitProperties");
        sd_bus_message_unref(m);
        ASSERT_TRUE(rig_is_closed(&rig));
        expect_kill();
        expect_no_call();
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        ASSERT_EQ_INT(launcher_rig_wait(&rig), 0);
        done();
}

TEST(a_unit_that_cannot_be_limited_is_killed) {
        ready();
        started(1);
        rig_send_assign(&rig, 1);
        fail_call("SetUnitProperties", SD_BUS_ERROR_INVALID_ARGS);
        expect_kill();
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}

static WireMessage refused_with(uint64_t job, const char *name, const char *message) {
        sd_bus_message *m;
        const char *unit;

        rig_send_start(&rig, job);
        m = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        ASSERT_TRUE(sd_bus_message_read(m, "s", &unit) > 0);
        snprintf(rig.pid1.unit, sizeof(rig.pid1.unit), "%s", unit);
        fake_pid1_error(&rig.pid1, m, name, message);
        sd_bus_message_unref(m);
        expect_unit_call("StopUnit");
        return rig_expect(&rig, WIRE_REFUSED, job);
}

TEST(a_start_while_the_launcher_is_being_stopped_says_so) {
        WireMessage w;

        ready();
        w = refused_with(1, "org.freedesktop.systemd1.TransactionIsDestructive", "a stop job is queued");
        ASSERT_EQ_STR(w.refused.reason, "The service is stopping");
        ASSERT_EQ_STR(w.refused.remedy, "Run it again");
        done();
}

TEST(a_refused_start_is_refused_and_made_sure_of) {
        WireMessage w;

        ready();
        w = refused_with(1, SD_BUS_ERROR_ACCESS_DENIED, "SELinux policy denies access");
        ASSERT_CONTAINS(w.refused.reason, "AccessDenied");
        ASSERT_CONTAINS(w.refused.remedy, "journalctl");
        started(2); /* and the next one may be better */
        /* The self-test's and this one's: a late unit, dead, would be kept for our reference. */
        ASSERT_EQ_UINT(rig.pid1.n_unref, 2);
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        (void) rig_expect(&rig, WIRE_FINISHED, 2);
        done();
}

TEST(many_jobs_are_told_apart) {
        char unit[3][128];

        ready();
        for (unsigned i = 0; i < 3; i++) {
                started(10 + i);
                memcpy(unit[i], rig.pid1.unit, sizeof(unit[i]));
        }
        ASSERT_TRUE(strcmp(unit[0], unit[1]) != 0 && strcmp(unit[1], unit[2]) != 0);
        for (unsigned i = 3; i-- > 0;) {
                memcpy(rig.pid1.unit, unit[i], sizeof(unit[i]));
                fake_pid1_end(&rig.pid1, "exit-code", 1, (int) i);
                ASSERT_EQ_INT(rig_expect(&rig, WIRE_FINISHED, 10 + i).finished.main_status, i);
        }
        done();
}

/* dbus-daemon refuses the 129th call that waits for its answer; those runs failed. */
TEST(a_burst_of_starts_does_not_ask_for_more_than_the_bus_allows) {
        enum { AT_ONCE = 64, N = 100 };
        sd_bus_message *calls[N];
        const char *unit;

        ready();
        for (unsigned i = 0; i < N; i++)
                rig_send_start(&rig, 1 + i);
        for (unsigned i = 0; i < AT_ONCE; i++)
                calls[i] = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        expect_no_call();
        /* Each answer, also a bad one, lets one more go, the oldest first. */
        for (unsigned i = 0; i < N; i++) {
                ASSERT_TRUE(sd_bus_message_read(calls[i], "s", &unit) > 0);
                (void) snprintf(rig.pid1.unit, sizeof(rig.pid1.unit), "%s", unit);
                fake_pid1_error(&rig.pid1, calls[i], SD_BUS_ERROR_ACCESS_DENIED, "no");
                sd_bus_message_unref(calls[i]);
                expect_unit_call("StopUnit");
                (void) rig_expect(&rig, WIRE_REFUSED, 1 + i);
                if (AT_ONCE + i < N)
                        calls[AT_ONCE + i] = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        }
        expect_no_call();
        done();
}

TEST(what_waits_for_its_turn_is_never_started_for_a_client_that_is_gone) {
        enum { AT_ONCE = 64 };
        sd_bus_message *calls[AT_ONCE];

        ready();
        for (unsigned i = 0; i < AT_ONCE + 10; i++)
                rig_send_start(&rig, 1 + i);
        for (unsigned i = 0; i < AT_ONCE; i++)
                calls[i] = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        expect_no_call();
        rig.seam = safe_close(rig.seam);
        expect_no_call();
        for (unsigned i = 0; i < AT_ONCE; i++) {
                fake_pid1_error(&rig.pid1, calls[i], SD_BUS_ERROR_ACCESS_DENIED, "no");
                sd_bus_message_unref(calls[i]);
                sd_bus_message_unref(fake_pid1_call(&rig.pid1, "StopUnit"));
        }
        expect_no_call();
        ASSERT_EQ_INT(launcher_rig_wait(&rig), 0);
        done();
}

TEST(signals_about_other_units_are_ignored) {
        char unit[128];

        ready();
        started(1);
        memcpy(unit, rig.pid1.unit, sizeof(unit));
        snprintf(rig.pid1.unit, sizeof(rig.pid1.unit), "cron.service");
        fake_pid1_changed(&rig.pid1, "failed", 0);
        fake_pid1_job_removed(&rig.pid1, "failed");
        fake_pid1_unit_removed(&rig.pid1);
        expect_no_call();
        ASSERT_TRUE(rig_is_silent(&rig));
        memcpy(rig.pid1.unit, unit, sizeof(unit));
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        done();
}
