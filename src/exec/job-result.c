/* SPDX-License-Identifier: MIT */

/* What is known of a job now, for its result. */

#include "base/strv.h"
#include "exec/engine.h"

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
                .preparation_usec = j->prepared_usec > 0 ? j->prepared_usec - j->submitted_usec : 0,
                .queued_usec = (j->started_usec ?: j->ended_usec) - (j->prepared_usec ?: j->submitted_usec),
                .duration_usec = job_duration_usec(j),
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = exec_job_stream(j, 1),
                .err = exec_job_stream(j, 2),
                .files = job_files(j),
                .presentation = j->request->presentation,
                .journal = j->journal,
        };
        memcpy(r->run_id, j->run_id, sizeof(r->run_id));

        f = (ResultFacts) {
                .reason = j->reason,
                .is_sent = u && job_is_started(j),
                .explanation = j->explanation,
                .unprepared_status = j->unprepared_status,
                .had_ended_silently = j->had_ended_silently,
                .has_met_tasks_max = j->has_met_tasks_max,
                .timeout_usec = j->request->timeout_usec,
                .asked_timeout_sec = j->request->asked_timeout_sec,
                .max_timeout_usec = smaller_limit(j->engine->settings->max_timeout_usec,
                                                  j->request->limits.timeout_usec),
                .output_limit_bytes = j->engine->settings->max_output_bytes * COLLECTOR_FLOOD_FACTOR,
                .hint_facts = engine_hint_facts(j->engine),
                .err = r->err,
        };
        if (*j->environment) /* it sees other packages than the ones that everybody has */
                f.hint_facts.packages = NULL;
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
        /* What there is no memory for is left out, as with other hints. */
        STRV_FOREACH(w, j->warnings)
                (void) strv_extend(&r->hints, *w);
}
