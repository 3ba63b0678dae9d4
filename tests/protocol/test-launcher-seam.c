/* SPDX-License-Identifier: MIT */

/* Connection, self-test and verdict of the launcher, with a service manager that the test plays. */

#include <fcntl.h>
#include <sys/socket.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launcher-rig.h"
#include "runner/checks.h"
#include "unit/test.h"

static LauncherRig rig;

static WireHello hello(void) {
        return rig_expect(&rig, WIRE_HELLO, 0).hello;
}

static void setup(void) {
        rig = (LauncherRig) {};
        launcher_rig_setup(&rig);
}

static void done(void) {
        ASSERT_EQ_INT(launcher_rig_teardown(&rig), 0);
}

TEST(hello_comes_after_the_self_test_and_tells_the_ceilings) {
        WireHello h;

        setup();
        ASSERT_TRUE(rig_is_silent(&rig));
        launcher_rig_selftest(&rig, 0, true);
        h = hello();
        ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_OK);
        ASSERT_EQ_INT(h.is_user, 1);
        ASSERT_EQ_INT(h.has_memory_peak, 1);
        ASSERT_EQ_INT(h.controllers, 7);
        ASSERT_EQ_INT(h.is_relaxed, 0);
        ASSERT_EQ_INT(h.manager_version, 257);
        ASSERT_EQ_STR(h.manager_version_text, "257.13-1");
        ASSERT_EQ_UINT(h.memory_max_bytes, 512 * MIB);
        ASSERT_EQ_UINT(h.tasks_max, 128);
        ASSERT_EQ_UINT(h.tmpfs_bytes, 64 * MIB);
        ASSERT_EQ_STR(h.interpreters[0], "/usr/bin/python3");
        done();
}

TEST(each_failed_check_is_told_in_its_own_words) {
        static const struct {
                int status;
                const char *reason;
        } table[] = {
                { RUNNER_EXIT_CHECK + RUNNER_CHECK_NS_NET, "shares the host's network namespace" },
                { RUNNER_EXIT_CHECK + RUNNER_CHECK_ROOT, "sees the host's root directory" },
                { RUNNER_EXIT_CHECK + RUNNER_CHECK_SECCOMP, "no system call filter" },
                { 203, "cannot be executed" },
                { 226, "namespaces and mounts" },
                { 228, "system call filter" },
                { 1, "ended unexpectedly" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                WireHello h;

                setup();
                launcher_rig_selftest(&rig, table[i].status, true);
                h = hello();
                ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_REFUSED);
                ASSERT_CONTAINS(h.reason, table[i].reason);
                ASSERT_TRUE(h.remedy[0] != '\0');
                done();
        }
}

TEST(limits_that_do_not_hold_are_named) {
        WireHello h;

        setup();
        launcher_rig_selftest(&rig, 0, false);
        h = hello();
        ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_REFUSED);
        ASSERT_EQ_INT(h.controllers, CONTROLLER_PIDS);
        ASSERT_CONTAINS(h.reason, "memory cpu");
        ASSERT_CONTAINS(h.remedy, "RequireControllers=");
        done();
}

TEST(a_refused_verdict_refuses_every_start) {
        WireMessage m;
        WireHello h;

        setup();
        launcher_rig_selftest(&rig, RUNNER_EXIT_CHECK + RUNNER_CHECK_ROOT, true);
        h = hello();
        rig_send_start(&rig, 3);
        m = rig_expect(&rig, WIRE_REFUSED, 3);
        ASSERT_EQ_STR(m.refused.reason, h.reason);
        ASSERT_EQ_STR(m.refused.remedy, h.remedy);
        ASSERT_TRUE(fake_pid1_call_within(&rig.pid1, 100) == NULL);
        done();
}

static void refuse_property(const char *name) {
        _cleanup_free_ char *text = NULL;
        sd_bus_message *m = fake_pid1_call(&rig.pid1, "StartTransientUnit");

        ASSERT_EQ_INT(str_printf(&text, "Cannot set property %s, or unknown property.", name), 0);
        fake_pid1_error(&rig.pid1, m, SD_BUS_ERROR_PROPERTY_READ_ONLY, text);
        sd_bus_message_unref(m);
        m = fake_pid1_call(&rig.pid1, "StopUnit");
        sd_bus_message_unref(m);
}

TEST(an_unknown_optional_property_is_dropped_and_an_unknown_protection_refused) {
        sd_bus_message *m;
        WireHello h;

        setup();
        refuse_property("BindLogSockets");
        launcher_rig_selftest(&rig, 0, true);
        ASSERT_EQ_INT(hello().verdict, WIRE_VERDICT_OK);
        rig_send_start(&rig, 1);
        m = fake_pid1_call(&rig.pid1, "StartTransientUnit");
        ASSERT_FALSE(rig_has_property(m, "BindLogSockets"));
        ASSERT_TRUE(rig_has_property(m, "PrivatePIDs"));
        fake_pid1_error(&rig.pid1, m, SD_BUS_ERROR_FAILED, "enough");
        sd_bus_message_unref(m);
        (void) rig_expect(&rig, WIRE_REFUSED, 1);
        done();

        setup();
        refuse_property("PrivatePIDs");
        h = hello();
        ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_REFUSED);
        ASSERT_CONTAINS(h.reason, "PrivatePIDs=");
        done();
}

TEST(a_manager_that_refuses_the_same_optional_property_for_ever_is_refused) {
        setup();
        refuse_property("BindLogSockets");
        refuse_property("BindLogSockets");
        ASSERT_EQ_INT(hello().verdict, WIRE_VERDICT_REFUSED);
        done();
}

TEST(managers_that_cannot_do_it_are_refused_by_name) {
        static const struct {
                const char *version, *features, *reason;
        } table[] = {
                { "251.4-1", "+SECCOMP", "251.4-1" },
                { "256.7", "+SECCOMP", "257" },
                { "257.13-1", "+PAM -SECCOMP", "system call filter" },
                { "262-1", "", "system call filter" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                WireHello h;

                rig = (LauncherRig){ .pid1 = { .version = table[i].version,
                                               .features = table[i].features } };
                launcher_rig_setup(&rig);
                h = hello();
                ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_REFUSED);
                ASSERT_CONTAINS(h.reason, table[i].reason);
                ASSERT_TRUE(h.remedy[0] != '\0');
                ASSERT_TRUE(fake_pid1_call_within(&rig.pid1, 50) == NULL);
                done();
        }
}

TEST(a_good_verdict_is_remembered_and_a_bad_one_is_not) {
        WireHello h;

        setup();
        launcher_rig_selftest(&rig, RUNNER_EXIT_CHECK + RUNNER_CHECK_ROOT, true);
        ASSERT_EQ_INT(hello().verdict, WIRE_VERDICT_REFUSED);
        launcher_rig_restart(&rig);
        refuse_property("MemoryPressureWatch");
        launcher_rig_selftest(&rig, 0, true);
        ASSERT_EQ_INT(hello().verdict, WIRE_VERDICT_OK);

        launcher_rig_restart(&rig);
        h = hello(); /* without any call to the manager */
        ASSERT_EQ_INT(h.verdict, WIRE_VERDICT_OK);
        ASSERT_EQ_INT(h.controllers, 7);
        rig_send_start(&rig, 1);
        {
                sd_bus_message *m = fake_pid1_call(&rig.pid1, "StartTransientUnit");

                ASSERT_FALSE(rig_has_property(m, "MemoryPressureWatch"));
                fake_pid1_error(&rig.pid1, m, SD_BUS_ERROR_FAILED, "enough");
                sd_bus_message_unref(m);
        }
        (void) rig_expect(&rig, WIRE_REFUSED, 1);

        rig.pid1.version = "258-1"; /* another manager, another verdict */
        launcher_rig_restart(&rig);
        ASSERT_TRUE(rig_is_silent(&rig));
        launcher_rig_selftest(&rig, 0, true);
        (void) hello();
        done();
}

TEST(a_verdict_that_somebody_else_could_write_is_not_believed) {
        _cleanup_free_ char *directory = NULL, *file = NULL, *moved = NULL;

        setup();
        launcher_rig_selftest(&rig, 0, true);
        (void) hello();
        ASSERT_EQ_INT(str_printf(&directory, "%s/mcp-exec", rig.runtime), 0);
        ASSERT_EQ_INT(str_printf(&file, "%s/verdict", directory), 0);
        ASSERT_EQ_INT(str_printf(&moved, "%s/moved", rig.runtime), 0);

        ASSERT_EQ_INT(chmod(directory, 0777), 0);
        launcher_rig_restart(&rig);
        launcher_rig_selftest(&rig, 0, true);
        (void) hello();
        ASSERT_EQ_INT(chmod(directory, 0700), 0);

        ASSERT_EQ_INT(rename(file, moved), 0);
        ASSERT_EQ_INT(symlink(moved, file), 0);
        launcher_rig_restart(&rig);
        launcher_rig_selftest(&rig, 0, true);
        (void) hello();
        ASSERT_EQ_INT(unlink(moved), 0);
        done();
}

TEST(a_cut_or_changed_verdict_is_not_believed) {
        _cleanup_free_ char *file = NULL;
        struct stat st;

        setup();
        launcher_rig_selftest(&rig, 0, true);
        (void) hello();
        ASSERT_EQ_INT(str_printf(&file, "%s/mcp-exec/verdict", rig.runtime), 0);
        ASSERT_EQ_INT(stat(file, &st), 0);
        ASSERT_EQ_INT(truncate(file, st.st_size - 1), 0);
        launcher_rig_restart(&rig);
        launcher_rig_selftest(&rig, 0, true);
        ASSERT_EQ_INT(hello().verdict, WIRE_VERDICT_OK);
        done();
}

TEST(a_violation_closes_the_connection_and_kills_its_runs) {
        sd_bus_message *m;

        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        rig_send_start(&rig, 1);
        fake_pid1_start(&rig.pid1);
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        ASSERT_EQ_INT(send(rig.seam, "garbage", 7, MSG_NOSIGNAL), 7);
        ASSERT_TRUE(rig_is_closed(&rig));
        m = fake_pid1_call(&rig.pid1, "KillUnit");
        sd_bus_message_unref(m);
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        ASSERT_EQ_INT(launcher_rig_wait(&rig), 0); /* a user's launcher lives as long as its connection */
        done();
}

TEST(a_job_id_used_twice_is_a_violation) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        rig_send_start(&rig, 1);
        fake_pid1_start(&rig.pid1);
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        rig_send_start(&rig, 1);
        ASSERT_TRUE(rig_is_closed(&rig));
        sd_bus_message_unref(fake_pid1_call(&rig.pid1, "KillUnit"));
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        done();
}

TEST(the_end_of_the_connection_kills_every_run) {
        char unit[2][128];

        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        for (unsigned i = 0; i < 2; i++) {
                rig_send_start(&rig, 1 + i);
                fake_pid1_start(&rig.pid1);
                (void) rig_expect(&rig, WIRE_STARTED, 1 + i);
                memcpy(unit[i], rig.pid1.unit, sizeof(unit[i]));
        }
        rig.seam = safe_close(rig.seam);
        for (unsigned i = 0; i < 2; i++)
                sd_bus_message_unref(fake_pid1_call(&rig.pid1, "KillUnit"));
        for (unsigned i = 0; i < 2; i++) {
                memcpy(rig.pid1.unit, unit[i], sizeof(unit[i]));
                fake_pid1_end(&rig.pid1, "signal", 2, 9);
        }
        ASSERT_EQ_INT(launcher_rig_wait(&rig), 0);
        done();
}

TEST(the_launcher_goes_when_the_manager_does) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        rig_send_start(&rig, 1);
        fake_pid1_start(&rig.pid1);
        (void) rig_expect(&rig, WIRE_STARTED, 1);
        fake_pid1_done(&rig.pid1);
        ASSERT_TRUE(rig_is_closed(&rig));
        {
                int status, pid = waitpid(rig.launcher, &status, 0);

                ASSERT_EQ_INT(pid, rig.launcher);
                ASSERT_TRUE(WIFEXITED(status));
                ASSERT_EQ_INT(WEXITSTATUS(status), 1);
                rig.launcher = 0;
        }
        (void) launcher_rig_teardown(&rig);
}

TEST(one_connection_may_have_so_many_runs_and_no_more) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        for (uint64_t i = 1; i <= WIRE_JOBS_PER_CONNECTION_MAX; i++) {
                rig_send_start(&rig, i);
                fake_pid1_start(&rig.pid1);
                (void) rig_expect(&rig, WIRE_STARTED, i);
        }
        rig_send_start(&rig, 1000);
        ASSERT_CONTAINS(rig_expect(&rig, WIRE_REFUSED, 1000).refused.reason, "as many sandboxes");
        (void) kill(rig.launcher, SIGKILL); /* none of them will ever end */
        (void) launcher_rig_teardown(&rig);
}
