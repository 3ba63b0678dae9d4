/* SPDX-License-Identifier: MIT */

/* From what a script names to a ready set, and everything that can go wrong on the way. */

#include "python-rig.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

static PythonRig* start(void) {
        PythonRig *r = python_rig_setup();

        python_rig_start(r);
        return r;
}

static void assert_ran(const Run *run) {
        if (run->status != EXEC_OK)
                FAIL("status is %s: %s", exec_status_to_string(run->status), run->message);
        ASSERT_EQ_STR(run->out, "ran\n");
        ASSERT_EQ_UINT(run->n_done, 1);
}

static void assert_clean(PythonRig *r, unsigned n_sets) {
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_UINT(python_rig_n_sets(r), n_sets);
        ASSERT_EQ_UINT(python_rig_n_leaves(r), 0);
}

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

        return strstr(exec_job_phase(run->job), "downloading 1/2 slow");
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

TEST(restart_remembers_which_set_it_was) {
        char path[256];
        PythonRig *r = start();
        Run run;

        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_TRUE(python_rig_wait_idle(r));
        python_rig_restart(r);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);

        /* Without that memory FETCH finds out, and nothing is installed again. */
        ASSERT_TRUE(python_rig_wait_idle(r));
        (void) snprintf(path, sizeof(path), "%s/sets", r->state);
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
        fake_launcher_free(r->rig->launcher);
        r->rig->launcher = fake_launcher_new(&r->script);
        python_rig_start(r);
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

static void set_limit(PythonRig *r, unsigned n_max) {
        r->rig->settings->packages.sets_max = n_max;
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

TEST(no_packages_where_the_launcher_has_no_sets) {
        PythonRig *r = python_rig_setup();
        PythonFacts facts;
        Run run;

        r->script.sets_directory = NULL;
        fake_launcher_free(r->rig->launcher);
        r->rig->launcher = fake_launcher_new(&r->script);
        python_rig_start(r);
        python_rig_run(r, &run, "alpha");
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_EQ_STR(run.message, "This launcher has no sets");
        python_facts(r->python, &facts);
        ASSERT_EQ_STR(facts.problem, "This launcher has no sets");
        /* What names none runs. */
        python_rig_run(r, &run, "");
        assert_ran(&run);
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

        (void) snprintf(path, sizeof(path), "%s/sets", r->state);
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        python_rig_run(r, &run, "alpha");
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        python_rig_teardown(r);
}

/* ---- Queries ---- */

typedef struct Answer {
        unsigned n;
        bool is_valid;
        char error[256], text[1024], environment[65];
} Answer;

static void on_report(const PythonReport *p, void *userdata) {
        Answer *a = userdata;
        size_t n;

        a->n++;
        a->is_valid = p->is_valid;
        (void) snprintf(a->error, sizeof(a->error), "%s", p->error ?: "");
        (void) snprintf(a->environment, sizeof(a->environment), "%s", p->environment);
        for (size_t i = 0; i < p->n_findings; i++) {
                n = strlen(a->text);
                (void) snprintf(a->text + n, sizeof(a->text) - n, "%s %ju:%ju; ", p->findings[i].kind,
                                (uintmax_t) p->findings[i].line, (uintmax_t) p->findings[i].column);
        }
        STRV_FOREACH(s, p->requirements) {
                n = strlen(a->text);
                (void) snprintf(a->text + n, sizeof(a->text) - n, "%s; ", *s);
        }
}

static bool is_answered(const void *data) {
        return ((const Answer *) data)->n > 0;
}

static void validate(PythonRig *r, Answer *a, const char *text) {
        *a = (Answer){};
        ASSERT_EQ_INT(python_validate(r->python,
                                      &(const PythonScript){ .text = text, .text_bytes = strlen(text) },
                                      "local", on_report, a, NULL),
                      0);
        ASSERT_EQ_UINT(a->n, 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, a));
        ASSERT_EQ_UINT(a->n, 1);
        ASSERT_EQ_STR(a->error, "");
}

TEST(validation_tells_what_it_found_and_whether_the_set_is_there) {
        static const char fine[] =
                "# /// script\n# dependencies = [\"Alpha >= 1\", \"beta\"]\n# ///\nprint(1)\n";
        PythonRig *r = start();
        Answer a;
        Run run;

        validate(r, &a, fine);
        ASSERT_TRUE(a.is_valid);
        ASSERT_EQ_STR(a.text, "alpha>=1; beta; ");
        ASSERT_EQ_STR(a.environment, "");
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 0);

        python_rig_run(r, &run, "alpha>=1 beta");
        assert_ran(&run);
        validate(r, &a, fine);
        ASSERT_EQ_UINT(strlen(a.environment), 64);

        validate(r, &a, "x = 1\nif x\n");
        ASSERT_TRUE(!a.is_valid);
        ASSERT_EQ_STR(a.text, "syntax 2:5; ");
        validate(r, &a, "# /// script\n# dependencies = [\n# ///\n");
        ASSERT_TRUE(!a.is_valid);
        ASSERT_TRUE(strstr(a.text, "toml "));
        ASSERT_TRUE(python_is_idle(r->python));
        python_rig_teardown(r);
}

TEST(validations_are_bounded_and_can_be_cancelled) {
        PythonRig *r = start();
        PythonQuery *queries[10];
        Answer answers[10] = {};
        unsigned n_busy = 0;

        for (size_t i = 0; i < ELEMENTSOF(queries); i++)
                ASSERT_EQ_INT(python_validate(r->python,
                                              &(const PythonScript){ .text = "1\n", .text_bytes = 2 },
                                              "local", on_report, answers + i, queries + i),
                              0);
        python_query_cancel(queries[0]);
        for (size_t i = 1; i < ELEMENTSOF(queries); i++) {
                ASSERT_TRUE(rig_wait(r->rig, is_answered, answers + i));
                n_busy += strstr(answers[i].error, "busy") != NULL;
        }
        ASSERT_EQ_UINT(answers[0].n, 0);
        ASSERT_EQ_UINT(n_busy, 2);
        python_rig_teardown(r);
}

static void on_prepared(const PythonOutcome *o, void *userdata) {
        Answer *a = userdata;

        a->n++;
        (void) snprintf(a->error, sizeof(a->error), "%s", o->error ?: "");
        (void) snprintf(a->environment, sizeof(a->environment), "%s", o->environment);
}

static void on_phase(const char *phase, void *userdata) {
        Answer *a = userdata;
        size_t n = strlen(a->text);

        (void) snprintf(a->text + n, sizeof(a->text) - n, "%s; ", phase);
}

static void on_removed(int error, void *userdata) {
        Answer *a = userdata;

        a->n++;
        (void) snprintf(a->error, sizeof(a->error), "%d", error);
}

static int list_set(const PythonSet *s, void *userdata) {
        Answer *a = userdata;

        a->n++;
        ASSERT_EQ_UINT(strlen(s->name), 64);
        ASSERT_EQ_UINT(s->size_bytes, 1000000);
        STRV_FOREACH(p, s->packages)
                on_phase(*p, a);
        return 0;
}

TEST(sets_are_prepared_ahead_listed_and_removed) {
        PythonRig *r = start();
        Answer a = {}, list = {}, removed = {}, again = {};
        const PythonScript script = {
                .text = "", .dependencies = (char *const[]){ (char[]){ "alpha" }, (char[]){ "beta" }, NULL }
        };

        ASSERT_EQ_INT(python_prepare(r->python, &script, on_phase, on_prepared, &a, NULL), 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, &a));
        ASSERT_EQ_STR(a.error, "");
        ASSERT_EQ_UINT(strlen(a.environment), 64);
        ASSERT_TRUE(strstr(a.text, "resolving; "));
        ASSERT_TRUE(strstr(a.text, "compiling 1/1; "));

        ASSERT_EQ_INT(python_foreach_set(r->python, list_set, &list), 0);
        ASSERT_EQ_UINT(list.n, 1);
        ASSERT_EQ_STR(list.text, "alpha 1.0; beta 1.0; ");

        ASSERT_EQ_INT(python_remove_set(r->python, a.environment, on_removed, &removed), 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, &removed));
        ASSERT_EQ_STR(removed.error, "0");
        assert_clean(r, 0);
        ASSERT_EQ_INT(python_remove_set(r->python, a.environment, on_removed, &again), 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, &again));
        ASSERT_EQ_STR(again.error, "-2");
        python_rig_teardown(r);
}

/* ---- The default ---- */

static void write_requirements(const PythonRig *r, char path[static 256], const char *text) {
        FILE *f;

        (void) snprintf(path, 256, "%.60s/requirements.txt", r->directory);
        f = fopen(path, "we");
        ASSERT_TRUE(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void run_default(PythonRig *r, Run *run) {
        ExecRequest *q = rig_request("local", "print('ran')", NULL, 10 * USEC_PER_SEC);
        char message[512];

        ASSERT_EQ_INT(python_attach_default(r->python, q), 0);
        ASSERT_EQ_INT(rig_submit_request(r->rig, run, q, message), 0);
        ASSERT_TRUE(rig_wait_done(r->rig, run));
}

TEST(default_set_is_made_ahead_and_stays) {
        _cleanup_free_ char *message = NULL;
        PythonRig *r = python_rig_setup();
        char path[256];
        Run run;

        set_limit(r, 1);
        python_rig_start(r);
        write_requirements(r, path, "# ours\n\nslowish  # a comment\nalpha==1.0\r\n");
        ASSERT_EQ_INT(python_set_default(r->python, path, &message), 0);
        run_default(r, &run); /* waits for it */
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2);
        ASSERT_TRUE(python_default_problem(r->python) == NULL);
        python_rig_run(r, &run, "other");
        assert_ran(&run);
        assert_clean(r, 1);
        run_default(r, &run);
        assert_ran(&run);
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 5); /* the removal of the other one is the fifth */
        python_rig_teardown(r);
}

TEST(default_set_that_cannot_be_had_is_told_and_not_missed) {
        _cleanup_free_ char *message = NULL;
        PythonRig *r = start();
        char path[256];
        Run run;

        write_requirements(r, path, "unknown\n");
        ASSERT_EQ_INT(python_set_default(r->python, path, &message), 0);
        for (int i = 0; i < 2; i++) {
                run_default(r, &run);
                assert_ran(&run);
                ASSERT_TRUE(strstr(run.hints, "were missing in this run. There is no package unknown."));
        }
        ASSERT_EQ_STR(python_default_problem(r->python), "There is no package unknown.");
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2); /* FETCH and the removal: not tried for each run */
        python_rig_teardown(r);
}

TEST(default_file_that_is_none_is_refused) {
        _cleanup_free_ char *message = NULL;
        PythonRig *r = start();

        ASSERT_EQ_INT(python_set_default(r->python, "/nonexistent", &message), -ENOENT);
        ASSERT_EQ_INT(python_set_default(r->python, "/proc/self/cmdline", &message), -EBADMSG);
        ASSERT_TRUE(strstr(message, "/proc/self/cmdline"));
        python_rig_teardown(r);
}
