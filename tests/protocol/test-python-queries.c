/* SPDX-License-Identifier: MIT */

/* What is asked of the room that prepares packages beside runs: validation, sets made ahead, the default. */

#include "python-asserts.h"

#include <stdio.h>

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

TEST(a_set_that_a_dying_launcher_retired_is_removed_to_the_end) {
        PythonRig *r = python_rig_setup();
        Answer a = {}, removed = {}, list = {};
        const PythonScript script = { .text = "",
                                      .dependencies = (char *const[]){ (char[]){ "alpha" }, NULL } };

        r->script.drops_after_retire = true;
        python_rig_start_as_scripted(r);
        ASSERT_EQ_INT(python_prepare(r->python, &script, on_phase, on_prepared, &a, NULL), 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, &a));
        ASSERT_EQ_STR(a.error, "");

        ASSERT_EQ_INT(python_remove_set(r->python, a.environment, on_removed, &removed), 0);
        ASSERT_TRUE(rig_wait(r->rig, is_answered, &removed));
        ASSERT_EQ_STR(removed.error, "0");
        assert_clean(r, 0);
        ASSERT_EQ_INT(python_foreach_set(r->python, list_set, &list), 0);
        ASSERT_EQ_UINT(list.n, 0);
        python_rig_teardown(r);
}

/* ---- One answer makes another client leave ---- */

typedef struct Rival {
        PythonQuery *query;
        struct Rival *other;
        const char *deadly_phase; /* NULL: the end */
        unsigned n_reports;
} Rival;

static void rival_win(Rival *v) {
        python_query_cancel(v->other->query);
        v->other->query = NULL;
}

static void rival_on_report(const PythonReport *report, void *userdata) {
        Rival *v = userdata;

        ASSERT_TRUE(!report->error && report->is_valid);
        v->n_reports++;
        rival_win(v);
}

static void rival_on_phase(const char *phase, void *userdata) {
        Rival *v = userdata;

        if (v->deadly_phase && v->other->query && streq(phase, v->deadly_phase))
                rival_win(v);
}

static void rival_on_done(const PythonOutcome *o, void *userdata) {
        Rival *v = userdata;

        ASSERT_TRUE(!o->error);
        v->n_reports++;
        if (!v->deadly_phase)
                rival_win(v);
}

static bool rival_has_won(const void *data) {
        const Rival *v = data;

        return v[0].n_reports + v[1].n_reports > 0;
}

TEST(whoever_is_answered_may_cancel_who_waits_for_the_same_answer) {
        PythonRig *r = start();
        Rival v[2] = { { .other = v + 1 }, { .other = v } };

        for (size_t i = 0; i < ELEMENTSOF(v); i++)
                ASSERT_EQ_INT(python_validate(r->python,
                                              &(const PythonScript){ .text = "1\n", .text_bytes = 2 },
                                              "local", rival_on_report, v + i, &v[i].query),
                              0);
        ASSERT_TRUE(rig_wait(r->rig, rival_has_won, v));
        ASSERT_EQ_UINT(v[0].n_reports, 1);
        ASSERT_EQ_UINT(v[1].n_reports, 0);
        ASSERT_TRUE(python_is_idle(r->python));
        python_rig_teardown(r);
}

TEST(whoever_is_told_of_a_set_may_cancel_who_waits_for_the_same_set) {
        static const char *const phases[] = { "resolving", "compiling 1/1", NULL };

        for (size_t i = 0; i < ELEMENTSOF(phases); i++) {
                PythonRig *r = start();
                Rival v[2] = { { .other = v + 1, .deadly_phase = phases[i] },
                               { .other = v, .deadly_phase = phases[i] } };
                const PythonScript script = { .text = "",
                                              .dependencies = (char *const[]){ (char[]){ "alpha" }, NULL } };

                for (size_t k = 0; k < ELEMENTSOF(v); k++)
                        ASSERT_EQ_INT(python_prepare(r->python, &script, rival_on_phase, rival_on_done,
                                                     v + k, &v[k].query),
                                      0);
                ASSERT_TRUE(rig_wait(r->rig, rival_has_won, v));
                ASSERT_EQ_UINT(v[0].n_reports, 1);
                ASSERT_EQ_UINT(v[1].n_reports, 0);
                assert_clean(r, 1);
                python_rig_teardown(r);
        }
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

static const char* default_problem(const PythonRig *r) {
        PythonFacts facts;

        python_facts(r->python, &facts);
        return facts.default_problem;
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
        ASSERT_TRUE(default_problem(r) == NULL);
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
        ASSERT_EQ_STR(default_problem(r), "There is no package unknown.");
        ASSERT_TRUE(python_rig_wait_idle(r));
        ASSERT_EQ_UINT(python_rig_n_prepared(r), 2); /* FETCH and the removal: not tried for each run */
        python_rig_teardown(r);
}

TEST(default_file_that_is_none_is_refused) {
        _cleanup_free_ char *message = NULL, *of_none = NULL;
        PythonRig *r = start();

        ASSERT_EQ_INT(python_set_default(r->python, "/nonexistent", &of_none), -ENOENT);
        ASSERT_EQ_INT(python_set_default(r->python, "/proc/self/cmdline", &message), -EBADMSG);
        ASSERT_TRUE(strstr(message, "/proc/self/cmdline"));
        python_rig_teardown(r);
}
