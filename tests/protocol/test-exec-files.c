/* SPDX-License-Identifier: MIT */

/* Files of a run, through the engine: sent to it, and collected when its unit is dead. */

#include "exec-rig.h"

#include "base/timeutil.h"
#include "unit/test.h"

static Rig* rig_with(FakeBehaviour behaviour) {
        return rig_setup(&(const FakeScript) { .behaviours = { behaviour }, .n_behaviours = 1 });
}

static void run_for(Rig *rig, Run *run, const char *code, uint64_t timeout_usec) {
        char message[512];

        ASSERT_EQ_INT(rig_submit_as(rig, run, "local", code, NULL, timeout_usec, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, run));
        ASSERT_EQ_UINT(run->n_done, 1);
}

TEST(files_come_with_the_result) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig_run(rig, &run, "printf one > a; mkdir d; printf two > d/b; ln -s /etc/passwd link; exit 3");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_EQ_STR(run.files, "a=one link!5 d/b=two ");
        ASSERT_EQ_UINT(run.n_more_files, 0);
        ASSERT_EQ_UINT(run.file_gaps, 0);
        static_assert(EXEC_FILE_LINK == 5, "as the test says");
        rig_teardown(rig);
}

TEST(warm_units_and_a_users_manager_are_no_different) {
        for (int is_user = 0; is_user <= 1; is_user++) {
                Rig *rig = rig_setup(&(const FakeScript) { .is_user = is_user });
                Run run;

                rig->settings->pool_size = 1;
                for (int i = 0; i < 3; i++) {
                        rig_run(rig, &run, "printf 1 > a");
                        ASSERT_EQ_INT(run.status, EXEC_OK);
                        ASSERT_EQ_STR(run.files, "a=1 ");
                }
                rig_teardown(rig);
        }
}

TEST(nothing_is_collected_where_it_is_not_wanted) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig->settings->max_files = 0;
        rig_run(rig, &run, "printf 1 > a");
        ASSERT_FALSE(run.has_files);
        rig_teardown(rig);
}

TEST(nothing_is_collected_of_what_never_ran) {
        static const FakeBehaviour behaviours[] = { FAKE_REFUSE, FAKE_START_FAILS, FAKE_CHECK_FAILS,
                                                    FAKE_NEVER_READY };

        for (size_t i = 0; i < ELEMENTSOF(behaviours); i++) {
                Rig *rig = rig_with(behaviours[i]);
                Run run;

                rig_run(rig, &run, "printf 1 > a");
                ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
                ASSERT_FALSE(run.has_files);
                rig_teardown(rig);
        }
}

TEST(a_program_at_its_deadline_leaves_its_files) {
        Rig *rig = rig_setup(NULL);
        Run run;

        run_for(rig, &run, "printf 1 > a; while :; do :; done", USEC_PER_SEC);
        ASSERT_EQ_INT(run.status, EXEC_TIMEOUT);
        ASSERT_EQ_STR(run.files, "a=1 ");
        rig_teardown(rig);
}

/* As many as it can make until then: thousands on any machine. */
TEST(the_deadline_holds_with_thousands_of_files) {
        Rig *rig = rig_setup(NULL);
        Run run;

        run_for(rig, &run, "i=0; while :; do : > $i; i=$((i+1)); done", 2 * USEC_PER_SEC);
        ASSERT_EQ_INT(run.status, EXEC_TIMEOUT);
        ASSERT_TRUE(run.has_files && run.n_more_files > 0);
        ASSERT_TRUE(run.done_usec - run.started_usec <= 2500 * USEC_PER_MSEC);
        rig_teardown(rig);
}

/* FINISHED comes 700 ms after the death, the answer 400 ms after the kill: the files could still change. */
TEST(files_of_a_unit_that_may_be_alive_are_not_touched) {
        Rig *rig = rig_with(FAKE_LATE_FINISHED);
        Run run;

        run_for(rig, &run, "printf 1 > a; while :; do :; done", USEC_PER_SEC);
        ASSERT_EQ_INT(run.status, EXEC_TIMEOUT);
        ASSERT_TRUE(run.has_files);
        ASSERT_EQ_STR(run.files, "");
        ASSERT_EQ_UINT(run.file_gaps, EXEC_FILES_GAP_ALIVE);
        ASSERT_TRUE(rig_wait_idle(rig));
        rig_teardown(rig);
}

TEST(files_of_a_lost_unit_are_not_touched) {
        Rig *rig = rig_with(FAKE_DROPS_RUNNING);
        Run run;

        rig_run(rig, &run, "printf 1 > a; sleep 5");
        ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
        ASSERT_EQ_STR(run.files, "");
        ASSERT_EQ_UINT(run.file_gaps, EXEC_FILES_GAP_ALIVE);
        rig_teardown(rig);
}

TEST(a_cancelled_run_leaves_nothing_open) {
        Rig *rig = rig_setup(NULL);
        unsigned n_fds;
        Run run;

        rig_run(rig, &run, ":");
        ASSERT_TRUE(rig_wait_idle(rig));
        n_fds = rig_n_fds();
        for (uint64_t delay_msec = 0; delay_msec <= 200; delay_msec += 10) {
                rig_submit(rig, &run, "i=0; while [ $i -lt 1000 ]; do : > $i; i=$((i+1)); done");
                rig_turn(rig, delay_msec * USEC_PER_MSEC);
                if (run.n_done == 0)
                        exec_job_cancel(run.job);
                ASSERT_TRUE(rig_wait_idle(rig));
                ASSERT_EQ_UINT(rig_n_fds(), n_fds);
        }
        rig_teardown(rig);
}

TEST(an_engine_may_end_while_it_collects) {
        for (uint64_t delay_msec = 0; delay_msec <= 100; delay_msec += 10) {
                Rig *rig = rig_setup(NULL);
                Run run;

                rig_submit(rig, &run, "i=0; while [ $i -lt 1000 ]; do : > $i; i=$((i+1)); done");
                rig_turn(rig, delay_msec * USEC_PER_MSEC);
                rig_teardown(rig);
        }
}

TEST(programs_find_their_files) {
        Rig *rig = rig_setup(NULL);
        Run run;

        rig->input_name = "table 1.csv";
        rig->input_text = "1,2\n3,4\n";
        rig_run(rig, &run, "cat 'table 1.csv'; ls");
        ASSERT_EQ_STR(run.out, "1,2\n3,4\nmain.py\ntable 1.csv\n");
        ASSERT_EQ_STR(run.files, "");
        rig_run(rig, &run, "printf '1,2\\n3,5\\n' > 'table 1.csv'");
        ASSERT_EQ_STR(run.files, "table 1.csv=1,2\n3,5\n ");
        rig_teardown(rig);
}
