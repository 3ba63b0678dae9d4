/* SPDX-License-Identifier: MIT */

/* The engine when memory runs out: the n-th allocation fails, for every n that a scenario has. Whatever it
 * is, a submitted run is answered exactly once or refused, nothing crashes, and the next run works. */

#include "exec-rig.h"

#include "base/strv.h"
#include "base/timeutil.h"
#include "unit/failing-allocations.h"
#include "unit/test.h"

/* The launcher's memory is another matter. */
static int connect_with_memory(void *userdata, char **reterr_message) {
        unsigned n = failing_allocation;
        int fd;

        failing_allocation = 0;
        fd = fake_launcher_connect(userdata, reterr_message);
        failing_allocation = n;
        return fd;
}

typedef struct Outcome {
        unsigned n_done;
        ExecStatus status;
} Outcome;

static void on_done(ExecJob *j, const ExecResult *result, void *userdata) {
        Outcome *o = userdata;

        (void) j;
        o->n_done++;
        o->status = result->status;
}

static ExecRequest* request_new(const char *code) {
        ExecRequest *q;

        ASSERT_EQ_INT(exec_request_new(&q), 0);
        ASSERT_EQ_INT(str_copy(&q->principal, "local"), 0);
        ASSERT_EQ_INT(str_copy(&q->code, code), 0);
        q->code_bytes = strlen(code);
        q->timeout_usec = 5 * USEC_PER_SEC;
        return q;
}

/* Returns what exec_engine_submit() did; an accepted run is waited for. */
static int try_run(Rig *rig, const char *code, unsigned failing, Outcome *o) {
        static const ExecJobHandlers handlers = { .on_done = on_done };
        ExecRequest *q = request_new(code);
        uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC;
        char *why = NULL;
        int r;

        *o = (Outcome) {};
        has_failed = false;
        failing_allocation = failing;
        r = exec_engine_submit(rig->engine, q, &handlers, o, NULL, &why);
        if (r < 0)
                exec_request_free(q);
        while (r == 0 && o->n_done == 0 && now_monotonic_usec() < end)
                if (sd_event_run(rig->event, 10 * USEC_PER_MSEC) < 0)
                        break;
        failing_allocation = 0;
        free(why);
        return r;
}

static void fail_everywhere(const char *code, ExecStatus status, size_t pool_size) {
        for (unsigned n = 1;; n++) {
                Rig *rig = rig_setup(NULL);
                bool was_last;
                Outcome o;
                int r;

                rig->settings->pool_size = (unsigned) pool_size;
                ASSERT_EQ_INT(engine_new_with_times(&(const ExecEngineParameters) {
                                                            .event = rig->event,
                                                            .settings = rig->settings,
                                                            .connect = connect_with_memory,
                                                            .userdata = rig->launcher,
                                                    }, &rig_times, &rig->engine), 0);
                r = try_run(rig, code, n, &o);
                was_last = !has_failed;
                if (r == 0) {
                        ASSERT_EQ_UINT(o.n_done, 1);
                        /* Only a sentence may be missing, or the run failed for want of memory. */
                        if (o.status != status && o.status != EXEC_INFRA_ERROR)
                                FAIL("allocation %u: %s", n, exec_status_to_string(o.status));
                } else
                        ASSERT_EQ_INT(r, -ENOMEM);
                if (was_last)
                        ASSERT_EQ_INT(o.status, status);

                ASSERT_EQ_INT(try_run(rig, "exit 3", 0, &o), 0);
                ASSERT_EQ_INT(o.status, EXEC_ERROR);
                rig_teardown(rig);
                if (was_last) {
                        ASSERT_TRUE(n > 5);
                        return;
                }
        }
}

TEST(run_that_prints_survives_each_failed_allocation) {
        fail_everywhere("echo x; echo y >&2", EXEC_OK, 0);
}

TEST(run_that_fails_survives_each_failed_allocation) {
        fail_everywhere("echo \"No module named 'x'\" >&2; exit 1", EXEC_ERROR, 0);
}

TEST(warm_units_survive_each_failed_allocation) {
        fail_everywhere("sleep 0.1", EXEC_OK, 1);
}

TEST(engine_is_made_completely_or_not_at_all) {
        for (unsigned n = 1;; n++) {
                Rig *rig = rig_setup(NULL);
                int r;

                has_failed = false;
                failing_allocation = n;
                r = engine_new_with_times(&(const ExecEngineParameters) {
                                                  .event = rig->event,
                                                  .settings = rig->settings,
                                                  .connect = connect_with_memory,
                                          }, &rig_times, &rig->engine);
                failing_allocation = 0;
                ASSERT_EQ_INT(r, has_failed ? -ENOMEM : 0);
                rig_teardown(rig);
                if (!has_failed)
                        return;
        }
}
