/* SPDX-License-Identifier: MIT */

#include "exec/engine.h"

#include "base/strv.h"
#include "exec/sentence.h"
#include "exec/timer.h"

/* Beyond a program's time limit, before systemd's own limit ends the unit: start, transfer of the code, and
 * systemd's timer slack. Our own timer is the deadline, systemd's is the backstop. */
#define RUNTIME_SLACK_USEC (30 * USEC_PER_SEC)

/* Units that were stopped and are not dead yet count on the connection as well. */
#define LEAVING_UNITS_MAX 32
/* Steps of preparations have units as well, and take no slots from programs that can run. */
#define STEPS_MAX 40

static_assert(SETTINGS_PARALLEL_MAX + SETTINGS_POOL_MAX + LEAVING_UNITS_MAX + STEPS_MAX <=
                      WIRE_JOBS_PER_CONNECTION_MAX,
              "every unit is a job on one connection");

static const EngineTimes engine_times = {
        .hello_usec = 45 * USEC_PER_SEC,
        .ready_usec = 10 * USEC_PER_SEC,
        .answer_usec = 400 * USEC_PER_MSEC,
        .files_usec = 2 * USEC_PER_SEC,
        .dead_usec = 30 * USEC_PER_SEC,
        .pause_usec = 50 * USEC_PER_MSEC,
};

void engine_update_soon(ExecEngine *e) {
        /* The source exists from the start, so this can only fail for reasons of the event loop's own
         * end. */
        (void) sd_event_source_set_enabled(e->update_source, SD_EVENT_ONESHOT);
}

static void engine_on_pool_change(void *userdata) {
        engine_update_soon(userdata);
}

void engine_deliver(ExecEngine *e, ExecJob *j) {
        LIST_APPEND(&e->done, done, j);
        engine_update_soon(e);
}

void engine_start_overdue(ExecEngine *e, ExecJob *j) {
        static const char text[] = "The service is stopping and could not start it any more; try again in "
                                   "some seconds.";

        if (!e->is_draining)
                return;
        /* Somebody restarts the launcher, or the machine goes down: nothing is started until we are gone,
         * and each one who waits would do so in vain. */
        (void) str_copy(&j->explanation, text);
        engine_fail_queued(e, text);
}

/* The launcher */

static void engine_set_sandbox_error(ExecEngine *e, const char *error) {
        e->sandbox.is_known = false;
        (void) str_copy(&e->sandbox.error, error);
        e->is_news = true;
        engine_fail_queued(e, error);
        engine_fail_set_changes(e, error);
        engine_update_soon(e);
}

static void engine_on_hello(const WireHello *hello, void *userdata) {
        ExecEngine *e = userdata;

        e->sandbox.is_known = true;
        e->sandbox.hello = *hello;
        free(TAKE_PTR(e->sandbox.error));
        e->is_news = true;
        engine_update_soon(e);
}

static void engine_on_lost(bool was_ready, const char *why, void *userdata) {
        ExecEngine *e = userdata;

        /* After a HELLO the launcher may only have been restarted: who waits tries the next one. */
        if (!was_ready)
                engine_set_sandbox_error(e, why);
        engine_update_soon(e);
}

bool engine_is_connected(ExecEngine *e) {
        _cleanup_free_ char *message = NULL, *why = NULL, *explanation = NULL;
        const WireHello *hello = &e->sandbox.hello;
        int r;

        switch (launcher_client_state(e->client)) {
        case LAUNCHER_DISCONNECTED:
                r = launcher_client_connect(e->client, &message);
                if (r < 0)
                        engine_set_sandbox_error(e, message ?: "The launcher cannot be reached. "
                                                               "Administrators: run mcp-exec check.");
                return false;
        case LAUNCHER_GREETING:
                return false;
        case LAUNCHER_READY:
                break;
        }

        if (hello->verdict == WIRE_VERDICT_OK)
                return true;

        (void) sentence_join(hello->reason, hello->remedy, &why);
        (void) str_printf(&explanation, "The sandbox is refused. %s", why ?: "");
        engine_fail_queued(e, explanation ?: "The sandbox is refused.");
        engine_fail_set_changes(e, explanation ?: "The sandbox is refused.");
        return false;
}

void engine_unit_parameters(const ExecEngine *e, uint64_t runtime_usec, UnitParameters *ret) {
        const Settings *s = e->settings;

        *ret = (UnitParameters) {
                .event = e->event,
                .client = e->client,
                /* The launcher clamps these to its own settings once more. A warm unit gets the same ones,
                 * so that it needs no ASSIGN when it is taken. */
                .order.limits = {
                        .runtime_max_usec = runtime_usec + RUNTIME_SLACK_USEC,
                        .memory_max_bytes = s->memory_max_bytes,
                        .tasks_max = s->tasks_max,
                        .cpu_quota_per_sec_usec = s->cpu_quota_percent * (USEC_PER_SEC / 100),
                },
                .max_output_bytes = s->max_output_bytes,
                .ready_timeout_usec = e->times.ready_usec,
                .dead_timeout_usec = e->times.dead_usec,
                .is_user = e->sandbox.hello.is_user,
        };
}

static uint64_t smaller_known(uint64_t ours, uint64_t theirs) {
        return theirs > 0 ? MIN_OF(ours, theirs) : ours;
}

HintFacts engine_hint_facts(const ExecEngine *e) {
        const WireHello *hello = &e->sandbox.hello; /* zero before the first one */
        const Settings *s = e->settings;

        return (HintFacts) {
                .packages = e->parameters.packages,
                .can_declare = *hello->sets_directory && *hello->uv && !s->packages.is_offline,
                .tasks_max = smaller_known(s->tasks_max, hello->tasks_max),
                .memory_max_bytes = smaller_known(s->memory_max_bytes, hello->memory_max_bytes),
                .tmpfs_bytes = hello->tmpfs_bytes ?: s->tmpfs_bytes,
        };
}

/* The update */

static void engine_update_done(ExecEngine *e) {
        ExecJob *j;

        while ((j = e->done.first)) {
                ExecResult result;

                LIST_REMOVE(&e->done, done, j);
                job_result(j, &result);

                if (e->parameters.on_finished && !job_is_step(j))
                        e->parameters.on_finished(j->request, &result, e->parameters.userdata);
                if (j->handlers.on_done)
                        j->handlers.on_done(j, &result, j->userdata);
                j->handlers = (ExecJobHandlers) {};

                free(result.message);
                strv_free(result.hints);

                if (j->unit && j->unit->state != UNIT_DEAD) {
                        unit_close_output(j->unit);
                        job_set_state(j, JOB_LINGERING);
                        continue;
                }
                engine_release(e, j);
                job_free(j);
        }
}

static void engine_start(ExecEngine *e, ExecJob *j) {
        j->unit = unit_free(j->unit); /* of the first try, if this is the second */
        engine_occupy(e, j);
        job_start(j);
}

static void engine_update_steps(ExecEngine *e) {
        while (e->steps_waiting.first && e->n_steps < STEPS_MAX && engine_is_connected(e)) {
                ExecJob *j = e->steps_waiting.first;

                LIST_REMOVE(&e->steps_waiting, waiting, j);
                engine_start(e, j);
        }
}

static void engine_update_queue(ExecEngine *e) {
        while (e->queue.n_items > 0 && e->n_active < e->n_slots) {
                QueueItem *item;

                if (!engine_is_connected(e))
                        return;

                item = queue_pop_if(&e->queue, engine_may_start, e);
                if (!item)
                        return;
                engine_start(e, job_of_queue_item(item));
        }
}

static void engine_update_pool(ExecEngine *e) {
        const Settings *s = e->settings;
        const WireHello *hello = &e->sandbox.hello;
        uint64_t idle_usec = s->pool_idle_usec, runtime_usec;
        UnitParameters p;
        bool may_start;

        /* The launcher's ceiling on a unit's life leaves less time to wait, or none. */
        if (hello->runtime_max_usec > 0) {
                uint64_t run_usec = s->max_timeout_usec + RUNTIME_SLACK_USEC;

                idle_usec = hello->runtime_max_usec > run_usec ?
                        MIN_OF(idle_usec, hello->runtime_max_usec - run_usec) : 0;
        }
        runtime_usec = idle_usec + s->max_timeout_usec;

        may_start = !e->is_draining && e->queue.n_items == 0 && e->n_active < e->n_slots &&
                launcher_client_state(e->client) == LAUNCHER_READY && hello->verdict == WIRE_VERDICT_OK;
        if (may_start)
                engine_unit_parameters(e, runtime_usec, &p);
        pool_update(&e->pool, may_start ? &p : NULL, idle_usec, e->n_active > 0);
}

static void engine_update_queries(ExecEngine *e) {
        EngineQuery *q;

        if (e->queries.first && !e->is_news && launcher_client_state(e->client) == LAUNCHER_DISCONNECTED)
                (void) engine_is_connected(e);
        if (!e->is_news && (launcher_client_state(e->client) != LAUNCHER_READY ||
                            launcher_client_is_looking(e->client)))
                return;

        while ((q = e->queries.first)) {
                LIST_REMOVE(&e->queries, queries, q);
                q->on_info(&e->sandbox, q->userdata);
                free(q);
        }
        e->is_news = false;
}

static void engine_update_idle(ExecEngine *e) {
        bool is_idle = e->n_active == 0 && e->queue.n_items == 0 && e->n_preparing == 0 &&
                       e->n_steps == 0 && !e->steps_waiting.first && !e->set_changes.first &&
                       !e->done.first;

        if (is_idle == e->is_idle)
                return;
        e->is_idle = is_idle;
        if (e->parameters.on_idle_changed)
                e->parameters.on_idle_changed(is_idle, e->parameters.userdata);
}

static int engine_update(sd_event_source *s, void *userdata) {
        ExecEngine *e = userdata;

        (void) s;

        engine_update_done(e);
        engine_update_set_changes(e);
        engine_update_lingering(e);
        engine_update_steps(e);
        engine_update_queue(e);
        engine_update_pool(e);
        engine_update_queries(e);
        engine_update_idle(e);
        return 0;
}

/* The outside */

int engine_new_with_times(const ExecEngineParameters *p, const EngineTimes *times, ExecEngine **ret) {
        _cleanup_(exec_engine_freep) ExecEngine *e = NULL;
        int r;

        assert(p && p->event && p->settings && p->connect);
        assert(times);
        assert(ret);

        e = calloc(1, sizeof(ExecEngine));
        if (!e)
                return -ENOMEM;

        e->parameters = *p;
        e->event = sd_event_ref(p->event);
        e->settings = p->settings;
        e->times = *times;
        e->is_idle = true;

        e->n_slots = settings_parallel(p->settings);
        pool_init(&e->pool, e->event, p->settings->pool_size, times->pause_usec, engine_on_pool_change, e);

        r = str_copy(&e->sandbox.error, "The launcher was not asked yet.");
        if (r < 0)
                return r;

        r = sd_event_add_defer(e->event, &e->update_source, engine_update, e);
        if (r < 0)
                return r;
        r = sd_event_source_set_priority(e->update_source, SD_EVENT_PRIORITY_IMPORTANT);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(e->update_source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        r = launcher_client_new(&(const LauncherClientParameters) {
                        .event = e->event,
                        .connect = p->connect,
                        .on_hello = engine_on_hello,
                        .on_lost = engine_on_lost,
                        .connect_userdata = p->userdata,
                        .userdata = e,
                        .hello_timeout_usec = e->times.hello_usec,
                }, &e->client);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(e);
        return 0;
}

int exec_engine_new(const ExecEngineParameters *p, ExecEngine **ret) {
        return engine_new_with_times(p, &engine_times, ret);
}

ExecEngine* exec_engine_free(ExecEngine *e) {
        QueueItem *item;
        EngineQuery *q;
        ExecJob *j;

        if (!e)
                return NULL;

        sd_event_source_unref(e->update_source);

        while ((item = queue_pop(&e->queue)))
                job_free(job_of_queue_item(item));
        while ((j = e->preparing.first)) {
                engine_leave_preparing(e, j);
                job_free(j);
        }
        while ((j = e->steps_waiting.first)) {
                LIST_REMOVE(&e->steps_waiting, waiting, j);
                job_free(j);
        }
        while ((j = e->done.first)) {
                LIST_REMOVE(&e->done, done, j);
                if (!j->has_slot)
                        job_free(j);
        }
        while ((j = e->active.first ?: e->steps.first)) {
                engine_release(e, j);
                job_free(j);
        }
        while ((q = e->queries.first)) {
                LIST_REMOVE(&e->queries, queries, q);
                free(q);
        }
        engine_drop_set_changes(e);
        pool_done(&e->pool);
        queue_done(&e->queue);
        launcher_client_free(e->client);
        free(e->sandbox.error);
        sd_event_unref(e->event);
        free(e);
        return NULL;
}

int exec_engine_submit(ExecEngine *e, ExecRequest *take_request, const ExecJobHandlers *handlers,
                       void *userdata, ExecJob **ret, char **reterr_message) {
        _cleanup_(job_freep) ExecJob *j = NULL;
        PrincipalLimits limits = {};
        int r;

        assert(e);
        assert(take_request && take_request->code && take_request->principal);
        assert(handlers && handlers->on_done);
        assert(reterr_message);

        r = engine_admit(e, take_request, &limits, reterr_message);
        if (r != 0)
                return r;

        r = job_new(e, handlers, userdata, &j);
        if (r < 0)
                return r;
        r = engine_line_up(e, take_request, j);
        if (r < 0)
                return r;

        take_request->limits = limits;
        if (limits.timeout_usec > 0)
                take_request->timeout_usec = MIN_OF(take_request->timeout_usec, limits.timeout_usec);
        j->request = take_request;
        j->interpreter = take_request->interpreter;
        memcpy(j->environment, take_request->environment, sizeof(j->environment));
        if (job_may_be_warm(j))
                pool_want(&e->pool);
        engine_update_soon(e);
        if (ret)
                *ret = j;
        if (take_request->preparation.ops)
                job_prepare(j);
        TAKE_PTR(j);
        return 0;
}

int exec_engine_query_sandbox(ExecEngine *e, void (*on_info)(const ExecSandboxInfo *info, void *userdata),
                              void *userdata) {
        EngineQuery *q;

        assert(e);
        assert(on_info);

        q = calloc(1, sizeof(EngineQuery));
        if (!q)
                return -ENOMEM;

        q->on_info = on_info;
        q->userdata = userdata;
        LIST_APPEND(&e->queries, queries, q);
        /* What is missing for packages may have come since the launcher said so, or gone. */
        if (e->sandbox.is_known &&
            launcher_client_state(e->client) == LAUNCHER_READY)
                launcher_client_look(e->client);
        pool_want(&e->pool);
        engine_update_soon(e);
        return 0;
}

const ExecSandboxInfo* exec_engine_sandbox(const ExecEngine *e) {
        assert(e);
        return &e->sandbox;
}

void exec_engine_drain(ExecEngine *e) {
        assert(e);

        e->is_draining = true;
        pool_stop(&e->pool);
        job_give_up_all_preparing(e);
        /* Told even if nothing changes: whoever drains waits for it. */
        e->is_idle = false;
        engine_update_soon(e);
}

size_t exec_engine_n_running(const ExecEngine *e) {
        assert(e);
        return e->n_active;
}

size_t exec_engine_n_queued(const ExecEngine *e) {
        assert(e);
        return e->queue.n_items + e->n_preparing;
}

size_t exec_engine_n_warm(const ExecEngine *e) {
        assert(e);
        return e->pool.n_units;
}
