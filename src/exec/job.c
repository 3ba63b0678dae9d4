/* SPDX-License-Identifier: MIT */

#include "exec/job.h"

#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/cgroup.h"
#include "exec/engine.h"
#include "exec/size-text.h"
#include "exec/timer.h"

static const uint16_t allowed_next[_JOB_STATE_MAX] _unused_ = { /* by assert() */
        [JOB_QUEUED] = 1 << JOB_PREPARING | 1 << JOB_STARTING | 1 << JOB_DONE,
        [JOB_PREPARING] = 1 << JOB_QUEUED | 1 << JOB_DONE,
        [JOB_STARTING] = 1 << JOB_QUEUED | 1 << JOB_SENDING | 1 << JOB_ENDING | 1 << JOB_DONE,
        [JOB_SENDING] = 1 << JOB_QUEUED | 1 << JOB_RUNNING | 1 << JOB_ENDING | 1 << JOB_DONE,
        [JOB_RUNNING] = 1 << JOB_QUEUED | 1 << JOB_ENDING | 1 << JOB_COLLECTING | 1 << JOB_DONE,
        [JOB_ENDING] = 1 << JOB_COLLECTING | 1 << JOB_DONE,
        [JOB_COLLECTING] = 1 << JOB_DONE,
        [JOB_DONE] = 1 << JOB_LINGERING,
        [JOB_LINGERING] = 0,
};

static int job_on_timer(sd_event_source *s, uint64_t usec, void *userdata);

static int job_arm(ExecJob *j, uint64_t delay_usec) {
        return timer_arm(j->engine->event, &j->timer_source, delay_usec, job_on_timer, j);
}

void job_set_state(ExecJob *j, JobState state) {
        const EngineTimes *times = &j->engine->times;
        int r = 0;

        assert(allowed_next[j->state] & (1 << state));

        j->state = state;
        timer_disarm(j->timer_source);

        if (state == JOB_PREPARING)
                r = job_arm(j, j->request->preparation.timeout_usec);
        else if (state == JOB_RUNNING) {
                j->answer_by_usec = now_monotonic_usec() + j->request->timeout_usec + times->answer_usec;
                r = job_arm(j, j->request->timeout_usec);
        } else if (state == JOB_ENDING) {
                j->answer_by_usec = now_monotonic_usec() + times->answer_usec;
                r = job_arm(j, times->answer_usec);
        } else if (state == JOB_COLLECTING) {
                j->ended_usec = now_monotonic_usec();
                r = job_arm(j, j->ended_usec >= j->answer_by_usec ? 0 :
                            MIN_OF(times->files_usec, j->answer_by_usec - j->ended_usec));
        } else if (state == JOB_DONE) {
                j->ended_usec = j->ended_usec ?: now_monotonic_usec();
                engine_deliver(j->engine, j);
        }

        /* No timer, no deadline: do now what it would have led to. */
        if (r < 0)
                (void) job_on_timer(NULL, 0, j);
}

/* Kills the run. The reason is noted first: what systemd reports afterwards is our own SIGKILL. */
static void job_end(ExecJob *j, JobReason reason) {
        if (j->state != JOB_STARTING && j->state != JOB_SENDING && j->state != JOB_RUNNING)
                return;

        j->reason = reason;
        j->had_ended_silently = j->unit->out.is_over && j->unit->err.is_over;
        job_set_state(j, JOB_ENDING);
        /* After the state, for it may find the connection broken and the unit dead at once. */
        unit_stop(j->unit);
}

/* Its packages took too long. */
static void job_give_up_preparing(ExecJob *j) {
        SizeText limit = size_text_usec(j->request->preparation.timeout_usec);
        static const char late[] = "Its packages were not ready in time.";
        const char *phase = exec_job_phase(j);
        _cleanup_free_ char *message = NULL;

        (void) str_printf(&message,
                          "Its packages were not ready within the time limit of %s for that%s%s%s, so it "
                          "was not run. Name fewer or smaller packages; administrators: see whether the "
                          "package index is slow, or raise PrepareTimeoutSec=.",
                          limit.text, *phase ? " (" : "", phase, *phase ? ")" : "");
        j->request->preparation.ops->cancel(j->request->preparation.data);
        exec_job_prepare_failed(j, EXEC_ERROR, message ?: late, late);
}

bool job_is_started(const ExecJob *j) {
        return j->sent_usec > 0 && j->unit->fault != UNIT_FAULT_CODE;
}

static void job_end_collecting(ExecJob *j) {
        file_walk_stop(j->walk);
        job_set_state(j, JOB_DONE);
}

void job_give_up_all_preparing(ExecEngine *e) {
        static const char stopping[] = "The service is stopping and did not wait for the packages. Run it "
                                       "again in some seconds.";
        ExecJob *j;

        assert(e);

        while ((j = e->preparing.first)) {
                j->request->preparation.ops->cancel(j->request->preparation.data);
                exec_job_prepare_failed(j, EXEC_INFRA_ERROR, stopping, stopping);
        }
}

static int job_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        ExecJob *j = userdata;

        (void) s;
        (void) usec;

        if (j->state == JOB_PREPARING)
                job_give_up_preparing(j);
        else if (j->state == JOB_RUNNING) {
                /* The counter goes with the control group. */
                j->has_met_tasks_max = cgroup_has_met_tasks_max(j->engine->sandbox.hello.is_user,
                                                                j->unit->name);
                job_end(j, JOB_REASON_TIMEOUT);
        } else if (j->state == JOB_COLLECTING)
                job_end_collecting(j);
        else if (j->state == JOB_ENDING)
                job_set_state(j, JOB_DONE);
        return 0;
}

static void job_on_collected(void *userdata) {
        job_set_state(userdata, JOB_DONE);
}

/* The unit is dead: nobody can change any more what it left in its working directory, which is there as long
 * as its descriptor. */
static int job_collect(ExecJob *j) {
        const Unit *u = j->unit;
        FileWalkParameters p = {
                .event = j->engine->event,
                .directory_fd = u->word.directory_fd,
                .settings = j->engine->settings,
                .request = j->request,
                .on_done = job_on_collected,
                .userdata = j,
        };
        int r;

        if (p.settings->max_files == 0 || !j->handlers.on_done || u->fate != UNIT_FATE_FINISHED ||
            u->word.directory_fd < 0 || !job_is_started(j))
                return 0;
        r = file_walk_new(&p, &j->walk);
        if (r < 0)
                return r;
        job_set_state(j, JOB_COLLECTING);
        return 1;
}

static void job_send(ExecJob *j) {
        job_set_state(j, JOB_SENDING);
        if (unit_send_code(j->unit, j->request) < 0)
                job_fail(j, "The daemon is out of memory.");
}

static void job_on_ready(Unit *u, void *userdata) {
        ExecJob *j = userdata;

        (void) u;
        if (j->state == JOB_STARTING)
                job_send(j);
}

static void job_on_sent(Unit *u, void *userdata) {
        ExecJob *j = userdata;

        j->sent_usec = u->sent_usec;
        if (j->state != JOB_SENDING) /* killed meanwhile */
                return;

        job_set_state(j, JOB_RUNNING);
        if (j->handlers.on_started && !j->is_announced)
                j->handlers.on_started(j, j->userdata);
        j->is_announced = true;
}

static void job_on_output(Unit *u, int stream, const void *data, size_t n_bytes, void *userdata) {
        ExecJob *j = userdata;

        (void) u;
        if (j->handlers.on_output && j->state != JOB_LINGERING)
                j->handlers.on_output(j, stream, data, n_bytes, j->userdata);
}

static void job_on_flood(Unit *u, void *userdata) {
        (void) u;
        job_end(userdata, JOB_REASON_OUTPUT_LIMIT);
}

/* A program whose code never arrived completely has not run, so it may be given to another unit: a warm one
 * can have died while it waited, and a launcher can have been restarted. Once, and never if it may have
 * run. */
static bool job_may_retry(const ExecJob *j) {
        return !job_is_started(j) && !j->is_retry && j->reason != JOB_REASON_CANCELLED &&
                j->unit->fault != UNIT_FAULT_CHECK &&
                (j->is_warm || j->unit->fate == UNIT_FATE_LOST);
}

static void job_on_fault(Unit *u, void *userdata) {
        ExecJob *j = userdata;

        /* A warm unit that is just dying, or frozen, takes no code. Its end leads to the second try. */
        if (u->fault == UNIT_FAULT_CODE && (j->state == JOB_SENDING || j->state == JOB_RUNNING) &&
            job_may_retry(j))
                unit_stop(u);
        else {
                if (u->fault == UNIT_FAULT_NOT_READY && !u->name[0])
                        engine_start_overdue(j->engine, j);
                job_end(j, JOB_REASON_FAILED);
        }
}

static void job_on_dead(Unit *u, void *userdata) {
        ExecJob *j = userdata;

        (void) u;
        if (j->state == JOB_LINGERING) {
                engine_update_soon(j->engine);
                return;
        }
        if (j->state == JOB_DONE) /* the delivery will see it */
                return;

        if (j->state != JOB_ENDING && job_may_retry(j)) {
                j->is_retry = true;
                engine_requeue(j->engine, j);
                return;
        }
        if (j->state == JOB_RUNNING && u->is_stopped) {
                /* It read its code after all, between our look and the kill: never a second time. */
                j->reason = JOB_REASON_FAILED;
                (void) str_copy(&j->explanation, "Its sandbox stood still and was ended just when it began. "
                                                 "Run it again.");
        }
        if (job_collect(j) <= 0)
                job_set_state(j, JOB_DONE);
}

static const UnitHandlers job_unit_handlers = {
        .on_ready = job_on_ready,
        .on_sent = job_on_sent,
        .on_output = job_on_output,
        .on_flood = job_on_flood,
        .on_fault = job_on_fault,
        .on_dead = job_on_dead,
};

int job_new(ExecEngine *e, const ExecJobHandlers *handlers, void *userdata, ExecJob **ret) {
        _cleanup_(job_freep) ExecJob *j = NULL;
        int r;

        assert(e);
        assert(handlers && handlers->on_done);
        assert(ret);

        j = calloc(1, sizeof(ExecJob));
        if (!j)
                return -ENOMEM;

        j->engine = e;
        j->handlers = *handlers;
        j->userdata = userdata;
        j->submitted_usec = now_monotonic_usec();

        r = random_hex_id(j->run_id);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(j);
        return 0;
}

ExecJob* job_free(ExecJob *j) {
        if (!j)
                return NULL;

        assert(!j->queue_item.line);
        sd_event_source_unref(j->timer_source);
        file_walk_free(j->walk);
        unit_free(j->unit);
        exec_request_free(j->request);
        free(j->explanation);
        free(j->journal);
        free(j->phase);
        strv_free(j->warnings);
        free(j);
        return NULL;
}

bool job_is_step(const ExecJob *j) {
        return j->request->profile != WIRE_PROFILE_RUN;
}

bool job_may_be_warm(const ExecJob *j) {
        return !j->is_retry && !job_is_step(j) && !*j->environment && j->interpreter == 0;
}

static void job_unit_parameters(const ExecJob *j, UnitParameters *p) {
        const ExecRequest *q = j->request;
        const WireLimits *own = &q->resources;
        WireLimits *limits = &p->order.limits;

        engine_unit_parameters(j->engine, q->timeout_usec, p);
        limits->memory_max_bytes = smaller_limit(own->memory_max_bytes ?: limits->memory_max_bytes,
                                                 q->limits.memory_max_bytes);
        limits->tasks_max = own->tasks_max ?: limits->tasks_max;
        limits->cpu_quota_per_sec_usec = own->cpu_quota_per_sec_usec ?: limits->cpu_quota_per_sec_usec;
        p->max_output_bytes = q->max_output_bytes ?: p->max_output_bytes;
        p->order.profile = q->profile;
        p->order.interpreter = j->interpreter;
        p->order.environment = j->environment;
}

void job_start(ExecJob *j) {
        bool has_own_limits;
        UnitParameters p;
        int r;

        assert(j);
        assert(j->state == JOB_QUEUED);
        assert(!j->unit);

        has_own_limits = j->request->limits.memory_max_bytes > 0;

        j->started_usec = now_monotonic_usec();
        j->sent_usec = 0;
        job_unit_parameters(j, &p);
        j->unit = job_may_be_warm(j) ? pool_take(&j->engine->pool, has_own_limits) : NULL;
        j->is_warm = j->unit;

        if (j->unit) {
                unit_set_handlers(j->unit, &job_unit_handlers, j);
                /* A warm unit has what everybody may have. The launcher hears of less before the runner does
                 * of the code; until PID 1 has set it, some milliseconds, everybody's limit holds. */
                if (has_own_limits)
                        unit_assign(j->unit, &p.order.limits);
        } else {
                r = unit_new(&p, &job_unit_handlers, j, &j->unit);
                if (r < 0) {
                        job_fail(j, r == -EMFILE || r == -ENFILE ?
                                 "The daemon has no free file descriptors. Run it again later; "
                                 "administrators: raise LimitNOFILE= of mcp-exec.service or lower "
                                 "MaxParallel=." :
                                 r == -ENOMEM ? "The daemon is out of memory. Run it again later." :
                                 "The daemon could not hand it to the launcher. Run it again later.");
                        return;
                }
        }

        job_set_state(j, JOB_STARTING);
        if (j->unit->state == UNIT_READY)
                job_send(j);
}

void job_prepare(ExecJob *j) {
        static const char no_memory[] = "The daemon is out of memory. Run it again later.";
        const ExecPreparation *p = &j->request->preparation;

        job_set_state(j, JOB_PREPARING);
        if (j->state == JOB_PREPARING && p->ops->start(p->data, j) < 0)
                exec_job_prepare_failed(j, EXEC_INFRA_ERROR, no_memory, no_memory);
}

/* Out of JOB_PREPARING, for whatever comes next. */
static void job_end_preparing(ExecJob *j) {
        j->prepared_usec = now_monotonic_usec();
        free(TAKE_PTR(j->phase));
        engine_leave_preparing(j->engine, j);
}

void exec_job_prepared(ExecJob *j, unsigned interpreter, const char *environment, char *const *warnings) {
        int r = 0;

        assert(j);
        assert(environment && strlen(environment) < sizeof(j->environment));

        if (j->state != JOB_PREPARING)
                return;

        job_end_preparing(j);
        j->interpreter = interpreter;
        memcpy(j->environment, environment, strlen(environment) + 1);
        STRV_FOREACH(w, warnings)
                r = r < 0 ? r : strv_extend(&j->warnings, *w);
        if (r >= 0)
                r = queue_push(&j->engine->queue, j->request->principal, &j->queue_item);
        if (r < 0) {
                job_fail(j, "The daemon is out of memory. Run it again later.");
                return;
        }
        job_set_state(j, JOB_QUEUED);
        engine_update_soon(j->engine);
}

void exec_job_prepare_failed(ExecJob *j, ExecStatus status, const char *message, const char *journal) {
        assert(j);
        assert(status == EXEC_ERROR || status == EXEC_INFRA_ERROR);
        assert(message);
        assert(journal);

        if (j->state != JOB_PREPARING)
                return;

        job_end_preparing(j);
        j->reason = JOB_REASON_UNPREPARED;
        j->unprepared_status = status;
        (void) str_copy(&j->explanation, message);
        (void) str_copy(&j->journal, journal);
        job_set_state(j, JOB_DONE);
}

void exec_job_set_phase(ExecJob *j, const char *phase) {
        assert(j);
        assert(phase);

        if (j->state == JOB_PREPARING)
                (void) str_copy(&j->phase, phase);
}

const char* exec_job_phase(const ExecJob *j) {
        assert(j);
        return j->phase ?: "";
}

void job_fail(ExecJob *j, const char *explanation) {
        assert(j);
        assert(explanation);

        if (j->state >= JOB_ENDING)
                return;

        j->reason = JOB_REASON_FAILED;
        (void) str_copy(&j->explanation, explanation);
        job_set_state(j, JOB_DONE);
        if (j->unit)
                unit_stop(j->unit);
}

void exec_job_stop(ExecJob *j) {
        assert(j);

        if (j->state == JOB_QUEUED) {
                engine_leave_queue(j->engine, j);
                j->reason = JOB_REASON_CANCELLED;
                job_set_state(j, JOB_DONE);
        } else if (j->state == JOB_PREPARING) {
                j->request->preparation.ops->cancel(j->request->preparation.data);
                job_end_preparing(j);
                j->reason = JOB_REASON_CANCELLED;
                job_set_state(j, JOB_DONE);
        } else
                job_end(j, JOB_REASON_CANCELLED);
}

void exec_job_cancel(ExecJob *j) {
        assert(j);

        j->handlers = (ExecJobHandlers) {};
        j->userdata = NULL;
        if (j->state == JOB_COLLECTING)
                job_end_collecting(j);
        else
                exec_job_stop(j);
}

const char* exec_job_run_id(const ExecJob *j) {
        assert(j);
        return j->run_id;
}

uint64_t exec_job_elapsed_usec(const ExecJob *j) {
        assert(j);
        return j->sent_usec > 0 ? now_monotonic_usec() - j->sent_usec : 0;
}

const Capture* exec_job_stream(const ExecJob *j, int stream) {
        static const Capture nothing = {};

        assert(j);
        assert(stream == 1 || stream == 2);

        if (!j->unit)
                return &nothing;
        return stream == 1 ? &j->unit->out.capture : &j->unit->err.capture;
}
