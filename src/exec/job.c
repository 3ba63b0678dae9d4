/* SPDX-License-Identifier: MIT */

#include "exec/job.h"

#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/engine.h"
#include "exec/timer.h"

static const uint16_t allowed_next[_JOB_STATE_MAX] _unused_ = { /* by assert() */
        [JOB_QUEUED] = 1 << JOB_STARTING | 1 << JOB_DONE,
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

        if (state == JOB_RUNNING) {
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

/* Its code was sent, and there is no sign that nobody read it. */
static bool job_is_started(const ExecJob *j) {
        return j->sent_usec > 0 && j->unit->fault != UNIT_FAULT_CODE;
}

static void job_end_collecting(ExecJob *j) {
        file_walk_stop(j->walk);
        job_set_state(j, JOB_DONE);
}

static int job_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        ExecJob *j = userdata;

        (void) s;
        (void) usec;

        if (j->state == JOB_RUNNING)
                job_end(j, JOB_REASON_TIMEOUT);
        else if (j->state == JOB_COLLECTING)
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
        free(j);
        return NULL;
}

/* own: a principal's, 0 where it has none. */
static uint64_t smaller_limit(uint64_t common, uint64_t own) {
        return own > 0 ? MIN_OF(common, own) : common;
}

void job_start(ExecJob *j) {
        UnitParameters p;
        int r;

        assert(j);
        assert(j->state == JOB_QUEUED);
        assert(!j->unit);

        j->started_usec = now_monotonic_usec();
        j->sent_usec = 0;
        /* A warm unit has the memory that everybody may have. */
        j->unit = j->is_retry || j->request->limits.memory_max_bytes > 0 ? NULL :
                                                                            pool_take(&j->engine->pool);
        j->is_warm = j->unit;

        if (j->unit)
                unit_set_handlers(j->unit, &job_unit_handlers, j);
        else {
                engine_unit_parameters(j->engine, j->request->timeout_usec, &p);
                p.limits.memory_max_bytes = smaller_limit(p.limits.memory_max_bytes,
                                                          j->request->limits.memory_max_bytes);
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

static uint64_t job_duration_usec(const ExecJob *j) {
        const Unit *u = j->unit;
        uint64_t end = j->ended_usec;

        if (!u || !job_is_started(j))
                return 0;
        if (u->fate == UNIT_FATE_FINISHED && u->finished.exit_monotonic_usec > 0)
                end = u->finished.exit_monotonic_usec;
        return end > j->sent_usec ? end - j->sent_usec : 0;
}

/* NULL: not asked for, or nothing ran. */
static const ExecFiles* job_files(const ExecJob *j) {
        static const ExecFiles failed = { .gaps = EXEC_FILES_GAP_FAILED },
                               alive = { .gaps = EXEC_FILES_GAP_ALIVE };

        if (j->engine->settings->max_files == 0 || !j->unit || !job_is_started(j))
                return NULL;
        if (j->walk)
                return file_walk_result(j->walk);
        return j->unit->fate == UNIT_FATE_FINISHED ? &failed : &alive;
}

void job_result(const ExecJob *j, ExecResult *r) {
        const Unit *u;
        ResultFacts f;

        assert(j);
        assert(r);

        u = j->unit;
        *r = (ExecResult) {
                .queued_usec = (j->started_usec ?: j->ended_usec) - j->submitted_usec,
                .duration_usec = job_duration_usec(j),
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = exec_job_stream(j, 1),
                .err = exec_job_stream(j, 2),
                .files = job_files(j),
        };
        memcpy(r->run_id, j->run_id, sizeof(r->run_id));

        f = (ResultFacts) {
                .reason = j->reason,
                .is_sent = u && job_is_started(j),
                .explanation = j->explanation,
                .had_ended_silently = j->had_ended_silently,
                .timeout_usec = j->request->timeout_usec,
                .max_timeout_usec = smaller_limit(j->engine->settings->max_timeout_usec,
                                                  j->request->limits.timeout_usec),
                .output_limit_bytes = j->engine->settings->max_output_bytes * COLLECTOR_FLOOD_FACTOR,
                .hint_facts = engine_hint_facts(j->engine),
                .err = r->err,
        };
        f.hint_facts.memory_max_bytes = smaller_limit(f.hint_facts.memory_max_bytes,
                                                      j->request->limits.memory_max_bytes);
        if (u) {
                f.fate = u->fate;
                f.fault = u->fault;
                f.failed_check = u->failed_check;
                f.refusal = u->refusal;
                f.finished = &u->finished;
                f.has_status = u->has_status;
                f.status = u->status;
                memcpy(r->unit, u->name, sizeof(r->unit));
                if (u->fate == UNIT_FATE_FINISHED) {
                        if (u->finished.cpu_nsec != WIRE_UNKNOWN)
                                r->cpu_usec = u->finished.cpu_nsec / NSEC_PER_USEC;
                        r->memory_peak_bytes = u->finished.memory_peak_bytes;
                }
        }

        result_judge(&f, r);
}

void exec_job_stop(ExecJob *j) {
        assert(j);

        if (j->state == JOB_QUEUED) {
                queue_remove(&j->engine->queue, &j->queue_item);
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
