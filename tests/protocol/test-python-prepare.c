/* SPDX-License-Identifier: MIT */

/* From what a script names to a ready set, and everything that can go wrong on the way. */

#include "python-asserts.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(set_is_made_once_and_used_again) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha==1.0 beta");
        assert_ran(&run);
        ASSERT_TRUE(run.preparation_usec > 0);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        python_rig_run(r, &run, "beta alpha==1.0");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        assert_clean(r, 1);
        python_rig_teardown(r);
}

TEST(many_who_need_one_set_prepare_it_once) {
        PythonRig *r = start();
        Run runs[10];

        r->rig->settings->max_parallel = 10;
        for (size_t i = 0; i < ELEMENTSOF(runs); i++)
                python_rig_submit(r, runs + i, "slowish alpha");
        for (size_t i = 0; i < ELEMENTSOF(runs); i++) {
                ASSERT_TRUE(rig_wait_done(r->rig, runs + i));
                assert_ran(runs + i);
        }
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        assert_clean(r, 1);
        python_rig_teardown(r);
}

TEST(each_failure_has_its_own_words_and_leaves_nothing) {
        static const struct {
                const char *requirements;
                ExecStatus status;
                const char *words;
        } cases[] = {
                { "unknown", EXEC_ERROR, "There is no package unknown." },
                { "half-made", EXEC_ERROR, "is not what the index says" },
                { "no-room", EXEC_INFRA_ERROR, "The disk is full." },
                { "bad-wheel", EXEC_ERROR, "has a link that leaves it" },
                { "dies", EXEC_INFRA_ERROR, "failed: Traceback: boom" },
                { "silent", EXEC_INFRA_ERROR, "no answer that could be understood" },
                { "garbage", EXEC_INFRA_ERROR, "no answer that could be understood" },
                { "endless", EXEC_INFRA_ERROR, "The program that prepares packages failed" },
                { "bad-lock", EXEC_INFRA_ERROR, "not to be trusted" },
                { "bad-message", EXEC_INFRA_ERROR, "no answer that could be understood" },
                { "no-facts", EXEC_INFRA_ERROR, "prepared but cannot be used" },
                { "liar", EXEC_INFRA_ERROR, "prepared but cannot be used" },
                { "a b ; c", EXEC_ERROR, "its packages cannot be had as it names them." },
        };
        PythonRig *r = start();

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Run run;

                python_rig_run(r, &run, cases[i].requirements);
                if (run.status != cases[i].status || run.did_run || !strstr(run.message, cases[i].words))
                        FAIL("%s: %s: %s", cases[i].requirements, exec_status_to_string(run.status),
                             run.message);
                assert_clean(r, 0);
        }
        python_rig_teardown(r);
}

TEST(failure_is_not_remembered) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "unknown");
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 1);
        ASSERT_TRUE(python_rig_wait_idle(r));
        python_rig_run(r, &run, "unknown");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4); /* each time its leaf is removed as well */
        python_rig_teardown(r);
}

static bool is_fetching(const void *data) {
        const Run *run = data;

        /* When it is over the job is gone, and the test fails by what follows. */
        return run->n_done > 0 || strstr(exec_job_phase(run->job), "downloading 1/2 slow");
}

TEST(who_leaves_does_not_end_it_for_others_and_the_last_one_does) {
        PythonRig *r = start();
        Run first, second;

        python_rig_submit(r, &first, "slow");
        python_rig_submit(r, &second, "slow");
        ASSERT_TRUE(rig_wait(r->rig, is_fetching, &second));
        exec_job_cancel(first.job);
        rig_turn(r->rig, 100 * USEC_PER_MSEC);
        ASSERT_EQ_STR(exec_job_phase(second.job), "downloading 1/2 slow");
        ASSERT_TRUE(!python_is_idle(r->python));
        exec_job_stop(second.job);
        ASSERT_TRUE(rig_wait_done(r->rig, &second));
        ASSERT_EQ_INT(second.status, EXEC_CANCELLED);
        assert_clean(r, 0);
        python_rig_teardown(r);
}

static bool waits_for_others(const void *data) {
        const Run *run = data;

        return run->n_done > 0 || streq(exec_job_phase(run->job), "waiting for other preparations");
}

TEST(a_principal_with_many_preparations_does_not_keep_another_one_waiting) {
        static const char *const slow[] = { "slow a", "slow b", "slow c", "slow d" };
        PythonRig *r = python_rig_setup();
        Run runs[ELEMENTSOF(slow)], other;

        r->rig->settings->packages.prepare_parallel = 1;
        python_rig_start(r);
        for (size_t i = 0; i < ELEMENTSOF(slow); i++) {
                python_rig_submit_as(r, runs + i, "greedy", slow[i]);
                ASSERT_TRUE(rig_wait(r->rig, i == 0 ? is_fetching : waits_for_others, runs + i));
        }
        python_rig_submit_as(r, &other, "modest", "alpha");
        ASSERT_TRUE(rig_wait(r->rig, waits_for_others, &other));
        /* Two of the greedy one's end, and three would take a minute each. */
        exec_job_cancel(runs[0].job);
        ASSERT_TRUE(rig_wait(r->rig, is_fetching, runs + 1));
        exec_job_cancel(runs[1].job);
        ASSERT_TRUE(rig_wait_done(r->rig, &other));
        assert_ran(&other);
        exec_job_cancel(runs[2].job);
        exec_job_cancel(runs[3].job);
        ASSERT_TRUE(python_rig_wait_idle(r));
        python_rig_teardown(r);
}

TEST(budget_ends_it) {
        PythonRig *r = python_rig_setup();
        Run run;

        r->rig->settings->packages.prepare_timeout_usec = 0;
        python_rig_start(r);
        /* Ten seconds at least are given to FETCH, thirty to who waits; the test does not take that long. */
        python_rig_submit(r, &run, "slow");
        ASSERT_TRUE(rig_wait(r->rig, is_fetching, &run));
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->limits.runtime_max_usec,
                       (10 + 10 + 30) * USEC_PER_SEC);
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->limits.memory_max_bytes,
                       r->rig->settings->packages.prepare_memory_max_bytes);
        exec_job_cancel(run.job);
        ASSERT_TRUE(python_rig_wait_idle(r));
        python_rig_teardown(r);
}

TEST(warnings_are_hints_of_each_run) {
        PythonRig *r = start();
        Run run;

        for (int i = 0; i < 2; i++) {
                python_rig_run(r, &run, "yanked");
                assert_ran(&run);
                ASSERT_EQ_STR(run.hints, "yanked 1.0 was withdrawn by its authors.");
        }
        python_rig_teardown(r);
}

TEST(another_way_to_the_same_lock_is_the_same_set) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        python_rig_run(r, &run, "alpha alias1");
        assert_ran(&run);
        assert_clean(r, 1);
        /* FETCH and INSTALL, then FETCH and the removal of its leaf. */
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4);
        python_rig_run(r, &run, "alpha alias1");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4);
        python_rig_teardown(r);
}

TEST(warnings_are_told_after_a_restart_as_well) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "yanked");
        assert_ran(&run);
        ASSERT_TRUE(python_rig_wait_idle(r));
        python_rig_restart(r);
        python_rig_run(r, &run, "yanked");
        assert_ran(&run);
        ASSERT_EQ_STR(run.hints, "yanked 1.0 was withdrawn by its authors.");
        assert_clean(r, 1);
        python_rig_teardown(r);
}

TEST(settings_decide_what_is_remembered) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_INT(str_copy(&r->rig->settings->packages.index_url, "http://127.0.0.1:1/simple/"), 0);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        assert_clean(r, 1);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4); /* FETCH, and the removal of its leaf */
        ASSERT_EQ_INT(strv_extend(&r->rig->settings->packages.deny_packages, "alpha"), 0);
        python_rig_run(r, &run, "alpha");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_TRUE(!run.did_run);
        python_rig_teardown(r);
}

TEST(interpreter_that_is_not_here_is_brought_where_that_is_allowed) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "python=3.97");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_TRUE(!run.did_run && strstr(run.message, "No interpreter fits"));
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 0);
        ASSERT_TRUE(python_rig_wait_idle(r));
        r->rig->settings->packages.allow_python_downloads = true;
        for (int i = 0; i < 2; i++) {
                python_rig_run(r, &run, "python=3.97");
                assert_ran(&run);
                ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        }
        assert_clean(r, 1);
        python_rig_run(r, &run, "python=3.98 alpha");
        assert_ran(&run);
        assert_clean(r, 2);
        python_rig_teardown(r);
}

TEST(restart_remembers_which_set_it_was) {
        unsigned n_starts;
        char path[256];
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_TRUE(python_rig_wait_idle(r));
        n_starts = fake_launcher_report(r->rig->launcher)->n_starts;
        python_rig_restart(r);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        /* Not even PARSE was asked. */
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->n_starts, n_starts + 1);

        /* Without that memory FETCH finds out, and nothing is installed again. */
        ASSERT_TRUE(python_rig_wait_idle(r));
        (void) snprintf(path, sizeof(path), "%s/known-sets", r->state);
        r->python = python_free(r->python);
        ASSERT_EQ_INT(unlink(path), 0);
        r->rig->engine = exec_engine_free(r->rig->engine);
        python_rig_start(r);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        assert_clean(r, 1);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4);
        python_rig_teardown(r);
}

TEST(server_that_dies_while_it_prepares_begins_anew_and_sweeps) {
        static const char *const requirements[] = { "slow", "slow-install" };

        for (size_t i = 0; i < ELEMENTSOF(requirements); i++) {
                PythonRig *r = start();
                unsigned n_prepared = (unsigned) i + 1;
                uint64_t end;
                Run run;

                python_rig_submit(r, &run, requirements[i]);
                end = 500;
                while (python_rig_n_prepared(r) < n_prepared && end-- > 0)
                        rig_turn(r->rig, 10 * USEC_PER_MSEC);
                rig_turn(r->rig, 200 * USEC_PER_MSEC);
                ASSERT_EQ_UINT(python_rig_n_leaves(r), 1);
                python_rig_restart(r);
                ASSERT_EQ_UINT(run.n_done, 0);

                python_rig_run(r, &run, "alpha");
                assert_ran(&run);
                assert_clean(r, 1);
                python_rig_teardown(r);
        }
}

TEST(launcher_that_ends_while_packages_are_fetched) {
        PythonRig *r = python_rig_setup();
        Run run;

        /* PARSE is the first START. */
        r->script.behaviours[1] = FAKE_DROPS_RUNNING;
        r->script.n_behaviours = 2;
        python_rig_start_as_scripted(r);
        python_rig_run(r, &run, "slow");
        ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
        ASSERT_TRUE(!run.did_run);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        assert_clean(r, 1);
        python_rig_teardown(r);
}

TEST(without_a_launcher_who_waits_is_told) {
        PythonRig *r = python_rig_setup();
        Run run;

        r->rig->connect_error = -ENOENT;
        python_rig_start(r);
        python_rig_run(r, &run, "alpha");
        ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
        ASSERT_EQ_STR(run.message, "There is no launcher. Install one.");
        python_rig_teardown(r);
}

TEST(sets_beyond_the_limit_go_longest_unused_first) {
        PythonRig *r = python_rig_setup();
        Run run;

        set_limit(r, 2);
        python_rig_start(r);
        python_rig_run(r, &run, "one");
        python_rig_run(r, &run, "two");
        python_rig_run(r, &run, "one");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 4);
        python_rig_run(r, &run, "three");
        assert_ran(&run);
        assert_clean(r, 2);
        python_rig_run(r, &run, "one"); /* still there */
        assert_ran(&run);
        assert_clean(r, 2);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 7); /* one of them removed "two" */
        python_rig_run(r, &run, "two");
        assert_ran(&run);
        assert_clean(r, 2);
        python_rig_teardown(r);
}

TEST(set_in_use_stays_however_full_it_is) {
        PythonRig *r = python_rig_setup();
        ExecRequest *q;
        Run busy, run;
        char message[512];

        set_limit(r, 1);
        python_rig_start(r);
        q = rig_request("local",
                        "import time; time.sleep(1); import os; print(os.path.exists('/env/bin/python3'))",
                        NULL, 10 * USEC_PER_SEC);
        ASSERT_EQ_INT(python_attach(r->python, q,
                                    &(const PythonScript){
                                            .text = q->code,
                                            .text_bytes = q->code_bytes,
                                            .dependencies = (char *const[]){ (char[]){ "one" }, NULL },
                                    }),
                      0);
        ASSERT_EQ_INT(rig_submit_request(r->rig, &busy, q, message), 0);
        while (busy.n_started == 0)
                rig_turn(r->rig, 10 * USEC_PER_MSEC);
        python_rig_run(r, &run, "two");
        assert_ran(&run);
        ASSERT_TRUE(rig_wait_done(r->rig, &busy));
        ASSERT_EQ_STR(busy.out, "True\n");
        assert_clean(r, 1);
        python_rig_teardown(r);
}

/* Who names packages is told why there are none, and so is who asks. */
static void assert_no_packages(PythonRig *r, const char *why) {
        PythonFacts facts;
        Run run;

        python_rig_run(r, &run, "alpha");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_EQ_STR(run.message, why);
        python_facts(r->python, &facts);
        ASSERT_EQ_STR(facts.problem, why);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 0);
}

TEST(no_packages_where_the_launcher_has_no_sets) {
        PythonRig *r = python_rig_setup();
        Run run;

        r->script.sets_directory = NULL;
        python_rig_start_as_scripted(r);
        assert_no_packages(r, "This launcher has no sets");
        /* What names none runs. */
        python_rig_run(r, &run, "");
        assert_ran(&run);
        python_rig_teardown(r);
}

TEST(a_wrong_setting_of_the_launcher_is_told_although_uv_is_there) {
        static const char why[] = "/nonexist.pem (CaBundle=) cannot be looked at. Correct the setting.";
        PythonRig *r = python_rig_setup();

        r->script.sets_reason = why;
        python_rig_start_as_scripted(r);
        assert_no_packages(r, why);
        python_rig_teardown(r);
}

TEST(uv_that_is_installed_while_the_launcher_runs_is_used) {
        PythonRig *r = python_rig_setup();
        Run run;

        r->script.uv = NULL;
        r->script.late_uv = "/usr/bin/uv";
        python_rig_start_as_scripted(r);
        python_rig_run(r, &run, ""); /* says HELLO; uv is not there */
        assert_ran(&run);
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->n_looks, 0);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        /* Once there is nothing missing, nobody asks. */
        python_rig_run(r, &run, "beta");
        assert_ran(&run);
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->n_looks, 1);
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->n_connections, 1);
        ASSERT_EQ_UINT(fake_launcher_report(r->rig->launcher)->n_violations, 0);
        python_rig_teardown(r);
}

TEST(offline_uses_what_is_there) {
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha");
        r->rig->settings->packages.is_offline = true;
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        python_rig_run(r, &run, "beta");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_TRUE(strstr(run.message, "Offline=yes"));
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        python_rig_teardown(r);
}

TEST(memory_that_cannot_be_written_costs_nothing_else) {
        char path[256];
        PythonRig *r = start();
        Run run;

        (void) snprintf(path, sizeof(path), "%s/known-sets", r->state);
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        python_rig_teardown(r);
}
