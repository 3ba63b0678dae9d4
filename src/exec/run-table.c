/* SPDX-License-Identifier: MIT */

#include "exec/run-table.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/run-record.h"
#include "exec/timer.h"

struct Run {
        RunTable *table;
        char run_id[RANDOM_HEX_ID_CHARS + 1];
        char *principal;
        uint64_t created_usec; /* CLOCK_REALTIME */
        uint64_t timeout_usec, asked_timeout_sec;
        uint8_t presentation;
        ExecJob *job;            /* NULL: over */
        const ExecResult *final; /* while the watches are told of the end */
        RunRecord *record;       /* the result is kept */
        bool is_background, is_wanted;
        uint64_t looked[2];
        LIST_HEAD(RunWatch) watches;
        size_t n_watches;
        LIST_LINK(Run) runs;
};

struct RunTable {
        RunTableParameters parameters;
        sd_event_source *expiry_source;
        LIST_HEAD(Run) runs; /* kept ones in the order of their end, except restored ones */
        size_t n_kept;
        uint64_t kept_bytes;
};

/* ---- Runs ---- */

static Run* run_free(Run *r) {
        RunWatch *w;

        if (!r)
                return NULL;
        while ((w = r->watches.first))
                run_unwatch(w);
        (void) run_record_free(r->record);
        free(r->principal);
        free(r);
        return NULL;
}
DEFINE_CLEANUP(Run*, run_free);

static int run_new(RunTable *t, const char *principal, Run **ret) {
        _cleanup_(run_freep) Run *r = NULL;
        int error;

        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        r->table = t;
        r->created_usec = now_realtime_usec();
        error = str_copy(&r->principal, principal);
        if (error < 0)
                return error;
        *ret = TAKE_PTR(r);
        return 0;
}

static void run_remove(Run *r) {
        LIST_REMOVE(&r->table->runs, runs, r);
        (void) run_free(r);
}

/* ---- What is kept, and for how long ---- */

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata);

static void arm_expiry(RunTable *t) {
        uint64_t first_usec = UINT64_MAX, now_usec = now_monotonic_usec();
        int r;

        for (const Run *run = t->runs.first; run; run = run->runs.next)
                if (run->record)
                        first_usec = MIN_OF(first_usec, run->record->expires_usec);
        if (first_usec == UINT64_MAX) {
                timer_disarm(t->expiry_source);
                return;
        }
        r = timer_arm(t->parameters.event, &t->expiry_source,
                      first_usec > now_usec ? first_usec - now_usec : 0, on_expiry, t);
        if (r < 0) /* the next end or the memory's limit will do it */
                (void) log_warning_errno(r, "Cannot set the timer that drops old results");
}

static void drop(Run *r) {
        RunTable *t = r->table;
        const RunTableParameters *p = &t->parameters;
        char id[sizeof(r->run_id)];

        assert(r->record && !r->watches.first);

        memcpy(id, r->run_id, sizeof(id));
        t->n_kept--;
        t->kept_bytes -= r->record->n_bytes;
        run_remove(r);
        if (p->on_dropped)
                p->on_dropped(id, p->userdata);
}

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata) {
        RunTable *t = userdata;
        uint64_t now_usec = now_monotonic_usec();

        (void) source;
        (void) usec;
        for (Run *r = t->runs.first, *next; r; r = next) {
                next = r->runs.next;
                if (r->record && r->record->expires_usec <= now_usec)
                        drop(r);
        }
        arm_expiry(t);
        return 0;
}

/* What one user's results use up of both limits: each counts for its place as well as for its bytes. */
static uint64_t share_of(const RunTable *t, const char *principal) {
        uint64_t place_bytes = t->parameters.settings->result_memory_max_bytes / RUNS_KEPT_MAX, n = 0;

        for (const Run *r = t->runs.first; r; r = r->runs.next)
                if (r->record && streq(r->principal, principal))
                        n += r->record->n_bytes + place_bytes;
        return n;
}

/* The oldest result of whoever holds most: one user's many or large results must not drive out everybody
 * else's. */
static Run* choose_victim(const RunTable *t) {
        uint64_t most = 0;
        Run *victim = NULL;

        for (Run *r = t->runs.first; r; r = r->runs.next) {
                uint64_t n;

                if (!r->record || (victim && streq(r->principal, victim->principal)))
                        continue;
                n = share_of(t, r->principal);
                if (n > most) {
                        most = n;
                        victim = r;
                }
        }
        return victim;
}

static void make_room(RunTable *t, uint64_t n_bytes) {
        while (t->n_kept > 0 && (t->n_kept >= RUNS_KEPT_MAX ||
                                 t->kept_bytes + n_bytes > t->parameters.settings->result_memory_max_bytes))
                drop(choose_victim(t));
}

static void adopt(Run *r, RunRecord *take_record) {
        RunTable *t = r->table;

        make_room(t, take_record->n_bytes);
        r->record = take_record;
        t->n_kept++;
        t->kept_bytes += take_record->n_bytes;
        arm_expiry(t);
}

/* Puts the run at the end of the list, where the youngest results are. */
static int keep(Run *r, const ExecResult *result) {
        RunTable *t = r->table;
        const RunTableParameters *p = &t->parameters;
        const RunRecordParameters record = {
                .principal = r->principal,
                .created_usec = r->created_usec,
                .ended_usec = now_realtime_usec(),
                .expires_usec = now_monotonic_usec() + p->settings->result_keep_usec,
                .result = result,
                .max_stream_bytes = (size_t) (p->settings->result_memory_max_bytes / 4),
                .max_files_bytes = (size_t) (p->settings->result_memory_max_bytes / 4),
        };
        RunRecord *new;
        int error;

        error = run_record_new(&record, &new);
        if (error < 0)
                return error;
        LIST_REMOVE(&t->runs, runs, r);
        LIST_APPEND(&t->runs, runs, r);
        adopt(r, new);
        if (p->on_kept)
                p->on_kept(r->run_id, r->record->fd, p->userdata);
        r->record->fd = safe_close(r->record->fd);
        return 0;
}

/* ---- The engine's news ---- */

static void on_output(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata) {
        Run *r = userdata;

        (void) j;
        for (RunWatch *w = r->watches.first, *next; w; w = next) {
                next = w->watches.next;
                if (w->on_output)
                        w->on_output(w, stream, data, n_bytes);
        }
}

static void on_done(ExecJob *j, const ExecResult *result, void *userdata) {
        Run *r = userdata;
        RunWatch *w;
        int error = 0;

        (void) j;
        r->job = NULL;
        r->final = result;
        /* Before anybody is told, for what they are told is that it can be had. */
        if (r->is_background)
                error = keep(r, result);
        /* A callback may close a connection and so take other watches away, but never this run. */
        while ((w = r->watches.first)) {
                run_unwatch(w);
                w->on_end(w, result);
        }
        if (!r->is_background && r->is_wanted)
                error = keep(r, result);
        r->final = NULL;
        if (error < 0)
                (void) log_warning_errno(error, "Cannot keep the result of run %s", r->run_id);
        if (!r->record)
                run_remove(r);
}

/* ---- The outside ---- */

int run_table_new(const RunTableParameters *p, RunTable **ret) {
        RunTable *t;

        assert(p && p->event && p->settings && p->engine);
        assert(ret);

        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->parameters = *p;
        t->parameters.event = sd_event_ref(p->event);
        *ret = t;
        return 0;
}

RunTable* run_table_free(RunTable *t) {
        if (!t)
                return NULL;
        while (t->runs.first)
                run_remove(t->runs.first);
        if (t->expiry_source)
                (void) sd_event_source_disable_unref(t->expiry_source);
        sd_event_unref(t->parameters.event);
        free(t);
        return NULL;
}

int run_table_restore(RunTable *t, int take_fd) {
        _cleanup_(run_record_freep) RunRecord *record = NULL;
        Run *r;
        int error;

        assert(t);

        error = run_record_open(take_fd, &record);
        if (error < 0)
                return error;
        error = run_new(t, record->principal, &r);
        if (error < 0) {
                record->fd = -EBADF; /* still the caller's */
                return error;
        }
        memcpy(r->run_id, record->result.run_id, sizeof(r->run_id));
        r->created_usec = record->created_usec;
        r->is_background = true;
        record->fd = safe_close(record->fd);
        LIST_APPEND(&t->runs, runs, r);
        adopt(r, TAKE_PTR(record));
        return 0;
}

int run_table_submit(RunTable *t, ExecRequest *take_request, Run **ret, char **reterr_message) {
        static const ExecJobHandlers handlers = { .on_output = on_output, .on_done = on_done };
        _cleanup_(run_freep) Run *r = NULL;
        int error;

        assert(t);
        assert(take_request);
        assert(ret);

        error = run_new(t, take_request->principal, &r);
        if (error < 0)
                return error;
        r->presentation = take_request->presentation;
        error = exec_engine_submit(t->parameters.engine, take_request, &handlers, r, &r->job,
                                   reterr_message);
        if (error != 0)
                return error;
        r->timeout_usec = take_request->timeout_usec; /* of its own principal, perhaps, by now */
        r->asked_timeout_sec = take_request->asked_timeout_sec;
        memcpy(r->run_id, exec_job_run_id(r->job), sizeof(r->run_id));
        LIST_APPEND(&t->runs, runs, r);
        *ret = TAKE_PTR(r);
        return 0;
}

Run* run_table_find(RunTable *t, const char *principal, const char *id) {
        assert(t);
        assert(principal);
        assert(id);

        for (Run *r = t->runs.first; r; r = r->runs.next)
                if (r->is_background || r->record)
                        if (streq(r->run_id, id) && streq(r->principal, principal))
                                return r;
        return NULL;
}

size_t run_table_n_kept(const RunTable *t) {
        assert(t);
        return t->n_kept;
}

uint64_t run_table_kept_bytes(const RunTable *t) {
        assert(t);
        return t->kept_bytes;
}

bool run_has_room(const Run *r) {
        assert(r);
        return r->n_watches < RUN_WATCHES_MAX;
}

void run_watch(Run *r, RunWatch *w) {
        assert(r && r->job && run_has_room(r));
        assert(w && w->on_end && !w->run);

        w->run = r;
        r->n_watches++;
        LIST_APPEND(&r->watches, watches, w);
}

void run_unwatch(RunWatch *w) {
        assert(w);

        if (!w->run)
                return;
        LIST_REMOVE(&w->run->watches, watches, w);
        w->run->n_watches--;
        w->run = NULL;
}

void run_detach(Run *r) {
        assert(r);
        r->is_background = true;
}

void run_keep(Run *r) {
        assert(r);
        r->is_wanted = true;
}

void run_abandon(Run *r) {
        assert(r && r->job && !r->is_background);

        exec_job_cancel(r->job);
        run_remove(r);
}

void run_stop(Run *r) {
        assert(r);

        if (r->job)
                exec_job_stop(r->job);
}

bool run_is_over(const Run *r) {
        assert(r);
        return !r->job;
}

const char* run_id(const Run *r) {
        assert(r);
        return r->run_id;
}

ExecJob* run_job(const Run *r) {
        assert(r);
        return r->job;
}

void run_result(const Run *r, ExecResult *ret) {
        assert(r);
        assert(ret);

        if (!r->job) {
                *ret = r->record ? r->record->result : *r->final;
                return;
        }
        *ret = (ExecResult) {
                .status = EXEC_RUNNING,
                .exit_code = -1,
                .duration_usec = exec_job_elapsed_usec(r->job),
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = exec_job_stream(r->job, 1),
                .err = exec_job_stream(r->job, 2),
                .did_run = true,
                .presentation = r->presentation,
        };
        memcpy(ret->run_id, r->run_id, sizeof(ret->run_id));
}

uint64_t run_timeout_usec(const Run *r) {
        assert(r);
        return r->timeout_usec;
}

uint64_t run_asked_timeout_sec(const Run *r) {
        assert(r);
        return r->asked_timeout_sec;
}

void run_times(const Run *r, uint64_t *ret_created_usec, uint64_t *ret_updated_usec,
               uint64_t *ret_ttl_usec) {
        const Settings *s;

        assert(r);
        assert(ret_created_usec && ret_updated_usec && ret_ttl_usec);

        s = r->table->parameters.settings;
        *ret_created_usec = r->created_usec;
        if (!r->job && r->record) {
                *ret_updated_usec = MAX_OF(r->record->ended_usec, r->created_usec);
                *ret_ttl_usec = *ret_updated_usec - r->created_usec + s->result_keep_usec;
        } else {
                *ret_updated_usec = r->created_usec;
                *ret_ttl_usec = r->timeout_usec + s->result_keep_usec;
        }
}

uint64_t run_looked(const Run *r, int stream) {
        assert(r);
        assert(stream == 1 || stream == 2);
        return r->looked[stream - 1];
}

void run_note_look(Run *r) {
        assert(r);

        for (int stream = 1; r->job && stream <= 2; stream++)
                r->looked[stream - 1] = capture_end(exec_job_stream(r->job, stream));
}
