/* SPDX-License-Identifier: MIT */

/* Runs that wait for their packages, and the steps that make them. */

#include "exec-rig.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/strv.h"
#include "unit/test.h"

#define OTHER "ffffffff89abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* A preparation that the test plays. */
typedef struct Wait {
        ExecJob *job;
        int start_error;
        bool is_immediate;
        unsigned n_started, n_cancelled, n_freed;
} Wait;

static int wait_start(void *data, ExecJob *j) {
        Wait *w = data;

        w->n_started++;
        w->job = j;
        if (w->is_immediate)
                exec_job_prepared(j, 0, "", NULL);
        return w->start_error;
}

static void wait_cancel(void *data) {
        Wait *w = data;

        w->n_cancelled++;
}

static void wait_free(void *data) {
        Wait *w = data;

        w->n_freed++;
}

static const ExecPreparationOps wait_ops = { wait_start, wait_cancel, wait_free };

static int submit_waiting(Rig *rig, Run *run, Wait *w, const char *principal, uint64_t budget_usec,
                          char message[static 512]) {
        ExecRequest *q = rig_request(principal, "echo ran", NULL, USEC_PER_SEC);

        q->preparation = (ExecPreparation){ .ops = &wait_ops, .data = w, .timeout_usec = budget_usec };
        return rig_submit_request(rig, run, q, message);
}

static void submit(Rig *rig, Run *run, Wait *w) {
        char message[512];

        ASSERT_EQ_INT(submit_waiting(rig, run, w, "local", 10 * USEC_PER_SEC, message), 0);
}

static unsigned n_starts(const Rig *rig) {
        return fake_launcher_report(rig->launcher)->n_starts;
}

TEST(run_waits_for_its_packages_and_its_time_counts_from_then) {
        static const char *const warnings[] = { "numpy 1.0 was yanked.", NULL };
        Rig *rig = rig_setup(NULL);
        Wait w = {};
        Run run;

        submit(rig, &run, &w);
        ASSERT_EQ_UINT(w.n_started, 1);
        ASSERT_EQ_UINT(exec_engine_n_queued(rig->engine), 1);
        exec_job_set_phase(w.job, "downloading 3/7 numpy");
        ASSERT_EQ_STR(exec_job_phase(w.job), "downloading 3/7 numpy");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(n_starts(rig), 0);
        ASSERT_EQ_UINT(rig->n_idle, 0);

        exec_job_prepared(w.job, 0, "", (char **) warnings);
        ASSERT_EQ_STR(exec_job_phase(w.job), "");
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_OK);
        ASSERT_EQ_STR(run.out, "ran\n");
        ASSERT_EQ_STR(run.hints, "numpy 1.0 was yanked.");
        ASSERT_TRUE(run.preparation_usec >= 100 * USEC_PER_MSEC);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(w.n_freed, 1);
        ASSERT_EQ_UINT(w.n_cancelled, 0);
        ASSERT_EQ_UINT(rig->n_finished, 1);
        rig_teardown(rig);
}

TEST(what_is_there_already_makes_nobody_wait) {
        Rig *rig = rig_setup(NULL);
        Wait w = { .is_immediate = true };
        Run run;

        submit(rig, &run, &w);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_OK);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(w.n_freed, 1);
        rig_teardown(rig);
}

TEST(failure_is_told_in_its_own_words_and_nothing_ran) {
        Rig *rig = rig_setup(NULL);
        Wait w = {};
        Run run;

        submit(rig, &run, &w);
        exec_job_prepare_failed(w.job, EXEC_ERROR, "There is no package xyz.", "No package.");
        ASSERT_EQ_UINT(run.n_done, 0);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_EQ_STR(run.message, "There is no package xyz.");
        ASSERT_EQ_INT(run.exit_code, -1);
        ASSERT_TRUE(!run.did_run);
        ASSERT_EQ_UINT(n_starts(rig), 0);
        ASSERT_EQ_UINT(w.n_freed, 1);
        ASSERT_EQ_UINT(w.n_cancelled, 0);
        rig_teardown(rig);
}

TEST(preparation_that_cannot_begin_is_a_failure_of_ours) {
        Rig *rig = rig_setup(NULL);
        Wait w = { .start_error = -ENOMEM };
        Run run;

        submit(rig, &run, &w);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
        ASSERT_TRUE(!run.did_run);
        ASSERT_EQ_UINT(w.n_freed, 1);
        rig_teardown(rig);
}

TEST(cancelled_while_it_waits_for_packages) {
        Rig *rig = rig_setup(NULL);
        Wait w[2] = {};
        Run runs[2];

        submit(rig, runs, w);
        submit(rig, runs + 1, w + 1);
        rig_turn(rig, 1);
        exec_job_cancel(w[0].job);
        exec_job_stop(w[1].job);
        ASSERT_TRUE(rig_wait_done(rig, runs + 1));
        ASSERT_EQ_INT(runs[1].status, EXEC_CANCELLED);
        ASSERT_EQ_UINT(runs[0].n_done, 0);
        for (int i = 0; i < 2; i++) {
                ASSERT_EQ_UINT(w[i].n_cancelled, 1);
                ASSERT_EQ_UINT(w[i].n_freed, 1);
        }
        ASSERT_EQ_UINT(n_starts(rig), 0);
        ASSERT_EQ_UINT(rig->n_idle, 1);
        rig_teardown(rig);
}

TEST(budget_of_a_preparation_ends_it_and_says_what_it_did) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Wait w = {};
        Run run;

        ASSERT_EQ_INT(submit_waiting(rig, &run, &w, "local", 50 * USEC_PER_MSEC, message), 0);
        exec_job_set_phase(w.job, "resolving");
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_ERROR);
        ASSERT_TRUE(strstr(run.message, "(resolving)"));
        ASSERT_EQ_UINT(w.n_cancelled, 1);
        ASSERT_EQ_UINT(w.n_freed, 1);
        rig_teardown(rig);
}

TEST(who_waits_for_packages_is_counted_but_takes_no_slot) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Wait w[8] = {};
        Run runs[9];

        rig->settings->max_parallel = 1;
        rig->settings->queue_max = 3;
        rig->settings->queue_max_per_user = 2;
        ASSERT_EQ_INT(submit_waiting(rig, runs, w, "a", 10 * USEC_PER_SEC, message), 0);
        ASSERT_EQ_INT(submit_waiting(rig, runs + 1, w + 1, "a", 10 * USEC_PER_SEC, message), 0);
        ASSERT_EQ_INT(submit_waiting(rig, runs + 2, w + 2, "a", 10 * USEC_PER_SEC, message), EXEC_E_BUSY);
        ASSERT_TRUE(strstr(message, "2 of yours waiting"));
        ASSERT_EQ_INT(submit_waiting(rig, runs + 3, w + 3, "b", 10 * USEC_PER_SEC, message), 0);
        ASSERT_EQ_INT(submit_waiting(rig, runs + 4, w + 4, "c", 10 * USEC_PER_SEC, message), EXEC_E_BUSY);
        ASSERT_TRUE(strstr(message, "no more than 3 may wait"));
        /* The slot is free, so whoever needs no packages runs at once. */
        ASSERT_EQ_INT(rig_submit_as(rig, runs + 8, "a", "echo fast", NULL, USEC_PER_SEC, message), 0);
        ASSERT_TRUE(rig_wait_done(rig, runs + 8));
        ASSERT_EQ_INT(runs[8].status, EXEC_OK);
        /* What was refused is freed. */
        ASSERT_EQ_UINT(w[2].n_freed + w[4].n_freed, 2);
        ASSERT_EQ_UINT(w[2].n_started + w[4].n_started, 0);
        rig_teardown(rig);
        ASSERT_EQ_UINT(w[0].n_freed + w[1].n_freed + w[3].n_freed, 3);
}

TEST(drain_waits_for_no_packages) {
        Rig *rig = rig_setup(NULL);
        char message[512];
        Wait w = {}, late = {};
        Run run, other;

        submit(rig, &run, &w);
        exec_engine_drain(rig->engine);
        ASSERT_EQ_INT(submit_waiting(rig, &other, &late, "local", USEC_PER_SEC, message), EXEC_E_STOPPING);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_INT(run.status, EXEC_INFRA_ERROR);
        ASSERT_TRUE(strstr(run.message, "The service is stopping"));
        ASSERT_EQ_UINT(w.n_cancelled, 1);
        ASSERT_EQ_UINT(w.n_freed, 1);
        ASSERT_EQ_UINT(n_starts(rig), 0);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(rig->n_idle, 1);
        rig_teardown(rig);
}

TEST(run_with_packages_takes_no_warm_unit) {
        static const FakeScript script = { .extra_interpreters = { "/bin/sh" } };
        Rig *rig = rig_setup(&script);
        Wait w = {};
        Run run;

        rig->settings->pool_size = 1;
        rig_run(rig, &run, "true");
        rig_turn(rig, 200 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(exec_engine_n_warm(rig->engine), 1);
        ASSERT_EQ_UINT(n_starts(rig), 2);

        submit(rig, &run, &w);
        exec_job_prepared(w.job, 1, "", NULL);
        ASSERT_TRUE(rig_wait_done(rig, &run));
        ASSERT_EQ_STR(run.out, "ran\n");
        ASSERT_EQ_UINT(exec_engine_n_warm(rig->engine), 1);
        ASSERT_EQ_UINT(n_starts(rig), 3);
        rig_teardown(rig);
}

static const FakeScript shell_steps = { .python = "/bin/sh" };

static void submit_step(Rig *rig, Run *run, const char *code) {
        ExecRequest *q = rig_request("step", code, NULL, 5 * USEC_PER_SEC);
        char message[512];

        q->profile = WIRE_PROFILE_PARSE;
        q->resources = (WireLimits){ .memory_max_bytes = 77 << 20, .tasks_max = 99 };
        q->max_output_bytes = 3000;
        ASSERT_EQ_INT(rig_submit_request(rig, run, q, message), 0);
}

TEST(steps_need_no_slot_no_queue_and_no_journal_record) {
        Rig *rig = rig_setup(&shell_steps);
        const WireLimits *limits;
        Run busy, steps[3];

        rig->settings->max_parallel = 1;
        rig->settings->queue_max = 0;
        rig->settings->max_output_bytes = 1024;
        rig_submit(rig, &busy, "sleep 5");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        for (int i = 0; i < 3; i++)
                submit_step(rig, steps + i, "printf %2000d 1");
        exec_engine_drain(rig->engine);
        for (int i = 0; i < 3; i++) {
                ASSERT_TRUE(rig_wait_done(rig, steps + i));
                ASSERT_EQ_INT(steps[i].status, EXEC_OK);
                ASSERT_EQ_UINT(steps[i].out_bytes, 2000);
        }
        ASSERT_EQ_UINT(busy.n_done, 0);
        ASSERT_EQ_UINT(rig->n_finished, 0);
        limits = &fake_launcher_report(rig->launcher)->limits;
        ASSERT_EQ_UINT(limits->memory_max_bytes, 77 << 20);
        ASSERT_EQ_UINT(limits->tasks_max, 99);
        rig_teardown(rig);
}

TEST(step_is_cancelled_wherever_it_is) {
        Rig *rig = rig_setup(&shell_steps);
        Run waiting, running;

        submit_step(rig, &waiting, "true");
        exec_job_stop(waiting.job);
        submit_step(rig, &running, "sleep 5");
        rig_turn(rig, 100 * USEC_PER_MSEC);
        exec_job_stop(running.job);
        ASSERT_TRUE(rig_wait_done(rig, &waiting));
        ASSERT_TRUE(rig_wait_done(rig, &running));
        ASSERT_EQ_INT(waiting.status, EXEC_CANCELLED);
        ASSERT_EQ_INT(running.status, EXEC_CANCELLED);
        ASSERT_TRUE(rig_wait_idle(rig));
        ASSERT_EQ_UINT(rig->n_idle, 1);
        rig_teardown(rig);
}

TEST(steps_fail_with_the_launcher) {
        Rig *rig = rig_setup(NULL);
        Run step;

        rig->connect_error = -ENOENT;
        submit_step(rig, &step, "true");
        ASSERT_TRUE(rig_wait_done(rig, &step));
        ASSERT_EQ_INT(step.status, EXEC_INFRA_ERROR);
        ASSERT_TRUE(strstr(step.message, "There is no launcher."));
        rig_teardown(rig);
}

typedef struct Change {
        unsigned n_done;
        int error;
        char text[256];
} Change;

static void on_change(int error, const char *text, void *userdata) {
        Change *c = userdata;

        c->n_done++;
        c->error = error;
        (void) snprintf(c->text, sizeof(c->text), "%s", text);
}

static bool is_changed(const void *data) {
        return ((const Change *) data)->n_done > 0;
}

TEST(change_of_a_set_without_a_launcher_is_told) {
        Rig *rig = rig_setup(NULL);
        Change c = {};

        rig->connect_error = -ENOENT;
        ASSERT_EQ_INT(exec_engine_change_set(rig_engine(rig), WIRE_SET_DROP, SET, NULL, on_change, &c), 0);
        ASSERT_TRUE(rig_wait(rig, is_changed, &c));
        ASSERT_EQ_INT(c.error, ECONNRESET);
        ASSERT_TRUE(strstr(c.text, "There is no launcher."));
        rig_turn(rig, 20 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(c.n_done, 1);
        rig_teardown(rig);
}

TEST(sets_change_and_errors_come_back) {
        char directory[] = "/tmp/test-exec-sets-XXXXXX", path[256];
        FakeScript script = { .sets_directory = mkdtemp(directory) };
        Rig *rig = rig_setup(&script);
        Change commit = {}, again = {}, drop = {};

        (void) snprintf(path, sizeof(path), "%s/" SET ".tmp", directory);
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        ASSERT_EQ_INT(
                exec_engine_change_set(rig_engine(rig), WIRE_SET_COMMIT, SET, OTHER, on_change, &commit), 0);
        ASSERT_TRUE(rig_wait(rig, is_changed, &commit));
        ASSERT_EQ_INT(commit.error, 0);
        ASSERT_EQ_STR(commit.text, "");
        ASSERT_EQ_INT(rmdir(path), -1);

        ASSERT_EQ_INT(exec_engine_change_set(rig->engine, WIRE_SET_COMMIT, SET, OTHER, on_change, &again),
                      0);
        ASSERT_TRUE(rig_wait(rig, is_changed, &again));
        ASSERT_EQ_INT(again.error, ENOENT);

        ASSERT_EQ_INT(exec_engine_change_set(rig->engine, WIRE_SET_RETIRE, OTHER, NULL, on_change, &drop),
                      0);
        ASSERT_EQ_INT(exec_engine_change_set(rig->engine, WIRE_SET_DROP, OTHER, NULL, on_change, &drop), 0);
        while (drop.n_done < 2)
                rig_turn(rig, 1000);
        ASSERT_EQ_INT(drop.error, 0);
        rig_teardown(rig);
        ASSERT_EQ_INT(rmdir(directory), 0);
}

TEST(change_of_a_set_that_nobody_waits_for_any_more_is_dropped) {
        Rig *rig = rig_setup(NULL);
        Change c = {};

        ASSERT_EQ_INT(exec_engine_change_set(rig_engine(rig), WIRE_SET_RETIRE, SET, NULL, on_change, &c), 0);
        rig_teardown(rig);
        ASSERT_EQ_UINT(c.n_done, 0);
}
