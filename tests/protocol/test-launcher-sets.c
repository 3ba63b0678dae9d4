/* SPDX-License-Identifier: MIT */

/* Sets of packages and the units that make them, as the launcher has them. */

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher-rig.h"
#include "unit/test.h"

static LauncherRig rig;

static void done(void) {
        ASSERT_EQ_INT(launcher_rig_teardown(&rig), 0);
}

/* Answers a call with an error; the launcher then makes sure that there is no unit. */
static void refuse_call(sd_bus_message *m) {
        fake_pid1_error(&rig.pid1, m, SD_BUS_ERROR_FAILED, "enough");
        sd_bus_message_unref(m);
        sd_bus_message_unref(fake_pid1_call(&rig.pid1, "StopUnit"));
}

static uint32_t change_set(uint64_t job, WireSetAction action, char environment, char to) {
        WireMessage m;

        rig_send_set(&rig, job, action, environment, to);
        m = rig_expect(&rig, WIRE_SET_DONE, job);
        ASSERT_EQ_INT(m.set_done.text[0] != 0, m.set_done.error != 0);
        return m.set_done.error;
}

static void begin(uint64_t job, WireProfile profile, char environment) {
        rig_send_start_of(&rig, job, profile, 0, environment);
        fake_pid1_start(&rig.pid1);
        (void) rig_expect(&rig, WIRE_STARTED, job);
}

static void end(uint64_t job) {
        fake_pid1_end(&rig.pid1, "success", 1, 0);
        (void) rig_expect(&rig, WIRE_FINISHED, job);
}

static void refuses(uint64_t job, WireProfile profile, char environment, const char *reason) {
        WireMessage m;

        rig_send_start_of(&rig, job, profile, 0, environment);
        m = rig_expect(&rig, WIRE_REFUSED, job);
        ASSERT_CONTAINS(m.refused.reason, reason);
        ASSERT_TRUE(m.refused.remedy[0] != 0);
        ASSERT_TRUE(fake_pid1_call_within(&rig.pid1, 20) == NULL);
}

TEST(hello_tells_where_sets_are_and_what_makes_them) {
        WireHello h;

        rig = (LauncherRig) {};
        launcher_rig_setup(&rig);
        launcher_rig_selftest(&rig, 0, true);
        h = rig_expect(&rig, WIRE_HELLO, 0).hello;
        ASSERT_EQ_STR(h.sets_directory, rig.sets);
        ASSERT_EQ_STR(h.sets_reason, "");
        ASSERT_EQ_STR(h.uv, "/var/lib/mcp-exec/uv");
        ASSERT_EQ_STR(h.uv_on_host, "/usr/bin/env");
        ASSERT_EQ_UINT(h.n_interpreters, 3);
        ASSERT_EQ_STR(h.interpreters[1], "");
        ASSERT_EQ_STR(h.interpreters[2], "/usr/bin/python3.99");
        done();
}

TEST(a_set_is_prepared_used_and_removed) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        refuses(1, WIRE_PROFILE_RUN, 'a', "does not exist");
        begin(2, WIRE_PROFILE_FETCH, 'b');
        ASSERT_EQ_UINT(change_set(3, WIRE_SET_COMMIT, 'b', 'a'), EBUSY);
        refuses(4, WIRE_PROFILE_INSTALL, 'b', "another sandbox");
        end(2);
        begin(5, WIRE_PROFILE_INSTALL, 'b');
        end(5);
        ASSERT_EQ_UINT(change_set(6, WIRE_SET_COMMIT, 'b', 'a'), 0);
        begin(7, WIRE_PROFILE_RUN, 'a');
        ASSERT_EQ_UINT(change_set(8, WIRE_SET_RETIRE, 'a', 0), EBUSY);
        end(7);
        ASSERT_EQ_UINT(change_set(9, WIRE_SET_RETIRE, 'a', 0), 0);
        ASSERT_EQ_UINT(change_set(10, WIRE_SET_DROP, 'a', 0), 0);
        ASSERT_EQ_UINT(change_set(11, WIRE_SET_DROP, 'a', 0), ENOENT);
        done();
}

TEST(a_set_stays_while_its_unit_is_being_killed) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        begin(1, WIRE_PROFILE_INSTALL, 'a');
        rig_send_stop(&rig, 1);
        sd_bus_message_unref(fake_pid1_call(&rig.pid1, "KillUnit"));
        ASSERT_EQ_UINT(change_set(2, WIRE_SET_DROP, 'a', 0), EBUSY);
        fake_pid1_end(&rig.pid1, "signal", 2, 9);
        (void) rig_expect(&rig, WIRE_FINISHED, 1);
        ASSERT_EQ_UINT(change_set(3, WIRE_SET_DROP, 'a', 0), 0);
        done();
}

TEST(properties_follow_the_profile_and_limits_its_ceiling) {
        static const struct {
                WireProfile profile;
                bool has_network, has_leaf;
        } table[] = {
                { WIRE_PROFILE_RUN, false, false },
                { WIRE_PROFILE_PARSE, false, false },
                { WIRE_PROFILE_FETCH, true, true },
                { WIRE_PROFILE_INSTALL, false, true },
        };

        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                sd_bus_message *m;

                rig_send_start_of(&rig, 1 + i, table[i].profile, 0, table[i].has_leaf ? 'a' : 0);
                m = fake_pid1_call(&rig.pid1, "StartTransientUnit");
                ASSERT_EQ_INT(rig_has_property(m, "PrivateNetwork"), !table[i].has_network);
                ASSERT_EQ_INT(rig_has_property(m, "BindPaths"), table[i].has_leaf);
                ASSERT_TRUE(rig_has_property(m, "PrivatePIDs"));
                ASSERT_TRUE(rig_has_property(m, "RestrictAddressFamilies"));
                refuse_call(m);
                (void) rig_expect(&rig, WIRE_REFUSED, 1 + i);
        }
        ASSERT_EQ_UINT(change_set(9, WIRE_SET_DROP, 'a', 0), 0);
        done();
}

TEST(interpreters_are_chosen_by_a_number_that_is_configured) {
        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        for (unsigned i = 1; i < WIRE_INTERPRETERS_MAX; i++) {
                rig_send_start_of(&rig, i, WIRE_PROFILE_RUN, i, 0);
                if (i == 2) {
                        refuse_call(fake_pid1_call(&rig.pid1, "StartTransientUnit"));
                        (void) rig_expect(&rig, WIRE_REFUSED, i);
                } else
                        ASSERT_CONTAINS(rig_expect(&rig, WIRE_REFUSED, i).refused.reason, "is configured");
        }
        done();
}

TEST(preparations_are_few) {
        uint64_t job = 1;

        rig = (LauncherRig) {};
        launcher_rig_ready(&rig);
        for (; job <= 6; job++) /* twice PrepareParallel=, and two */
                begin(job, job % 2 ? WIRE_PROFILE_FETCH : WIRE_PROFILE_INSTALL, (char) ('a' + job - 1));
        refuses(job, WIRE_PROFILE_INSTALL, '7', "Too many");
        refuses(job + 1, WIRE_PROFILE_FETCH, '8', "Too many");
        begin(job + 2, WIRE_PROFILE_RUN, 0); /* they are not in the way of runs */
        end(job + 2);
        rig.seam = safe_close(rig.seam);
        for (unsigned i = 0; i < 6; i++)
                sd_bus_message_unref(fake_pid1_call(&rig.pid1, "KillUnit"));
        for (char c = 'a'; c <= 'f'; c++) {
                char path[sizeof(rig.sets) + WIRE_SET_NAME_CHARS + 8];
                int n = snprintf(path, sizeof(path), "%s/", rig.sets);

                memset(path + n, c, WIRE_SET_NAME_CHARS);
                (void) snprintf(path + n + WIRE_SET_NAME_CHARS, 8, ".tmp");
                ASSERT_EQ_INT(rmdir(path), 0);
        }
        (void) launcher_rig_teardown(&rig); /* the units that it waits for never end */
}
