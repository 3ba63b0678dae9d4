/* SPDX-License-Identifier: MIT */

/* Who gets a slot, who waits, who is told that the service is busy. */

#include "base/strv.h"
#include "exec/engine.h"

#define QUEUE_MEMORY_USERS 4 /* so many can fill the memory of the queue together, not one alone */

ExecJob* job_of_queue_item(QueueItem *item) {
        return (ExecJob*) ((char*) item - offsetof(ExecJob, queue_item));
}

static bool is_counted(const char *principal, const char *of, bool is_group) {
        return is_group ? principal_is_of(principal, of) : streq(principal, of);
}

static size_t engine_n_active_of(const ExecEngine *e, const char *of, bool is_group) {
        size_t n = 0;

        for (const ExecJob *j = e->active.first; j; j = j->active.next)
                n += is_counted(j->request->principal, of, is_group);
        return n;
}

static size_t engine_n_queued_of(const ExecEngine *e, const char *of, bool is_group) {
        size_t n = 0;

        for (const QueueLine *l = e->queue.lines.first; l; l = l->lines.next)
                if (is_counted(l->principal, of, is_group))
                        n += l->n_items;
        return n;
}

static size_t engine_n_preparing_of(const ExecEngine *e, const char *of, bool is_group) {
        size_t n = 0;

        for (const ExecJob *j = e->preparing.first; j; j = j->waiting.next)
                n += is_counted(j->request->principal, of, is_group);
        return n;
}

/* All of a line have the same limits, or those of before and after a reload. */
static const PrincipalLimits* limits_of_line(const QueueLine *line) {
        return &job_of_queue_item(line->items.first)->request->limits;
}

/* How many more of these may run. */
static size_t engine_n_left(const ExecEngine *e, const CountLimits *l, const char *of, bool is_group) {
        size_t n_active;

        if (l->parallel == 0)
                return SIZE_MAX;
        n_active = engine_n_active_of(e, of, is_group);
        return n_active >= l->parallel ? 0 : l->parallel - n_active;
}

/* How many of a line could run besides those of the principal that do, but for its group. */
static size_t engine_n_startable_alone(const ExecEngine *e, const QueueLine *line) {
        return MIN_OF(line->n_items,
                      engine_n_left(e, &limits_of_line(line)->own, line->principal, /* is_group= */ false));
}

static size_t engine_n_left_of_group(const ExecEngine *e, const QueueLine *line) {
        const PrincipalLimits *l = limits_of_line(line);

        return l->group[0] ? engine_n_left(e, &l->whole, l->group, /* is_group= */ true) : SIZE_MAX;
}

bool engine_may_start(const QueueLine *line, void *userdata) {
        return engine_n_startable_alone(userdata, line) > 0 && engine_n_left_of_group(userdata, line) > 0;
}

/* The lines of a group are counted at its first one. */
static size_t engine_n_startable_at(const ExecEngine *e, const QueueLine *line) {
        const char *group = limits_of_line(line)->group;
        size_t n = 0;

        if (group[0] == 0)
                return engine_n_startable_alone(e, line);
        for (const QueueLine *l = e->queue.lines.first; l; l = l->lines.next) {
                if (!principal_is_of(l->principal, group))
                        continue;
                if (n == 0 && l != line)
                        return 0;
                n += engine_n_startable_alone(e, l);
        }
        return MIN_OF(n, engine_n_left_of_group(e, line));
}

/* Requests in the queue that have a free slot before them only wait for the launcher; those whose principal
 * runs as many as it may wait for itself. */
static size_t engine_n_startable(const ExecEngine *e) {
        size_t n = 0;

        for (const QueueLine *l = e->queue.lines.first; l; l = l->lines.next)
                n += engine_n_startable_at(e, l);
        return n;
}

/* What one principal, or one group of them, has. */
typedef struct Share {
        size_t n_running, n_queued, n_preparing;
        bool is_held_back; /* another one would wait for these */
} Share;

static Share engine_share(const ExecEngine *e, const CountLimits *l, const char *of, bool is_group,
                          bool needs_packages) {
        Share s = {
                .n_running = engine_n_active_of(e, of, is_group),
                .n_queued = engine_n_queued_of(e, of, is_group),
                .n_preparing = engine_n_preparing_of(e, of, is_group),
        };

        s.is_held_back = l->parallel > 0 &&
                         s.n_running + s.n_queued + (needs_packages ? s.n_preparing : 0) >= l->parallel;
        return s;
}

/* How many of them wait in earnest; n_starting: of anybody, only wait for the launcher. */
static size_t share_n_waiting(const Share *s, const CountLimits *l, size_t n_starting) {
        size_t n_may_run = MAX_OF(s->n_running, (size_t) l->parallel), n = s->n_running + s->n_queued;

        if (s->is_held_back)
                n -= MIN_OF(n, n_may_run);
        else
                n = s->n_queued - MIN_OF(s->n_queued, n_starting);
        return n + s->n_preparing;
}

static uint64_t request_n_bytes(const ExecRequest *r) {
        uint64_t n = (uint64_t) r->code_bytes + r->stdin_bytes;

        for (size_t i = 0; i < r->n_files; i++)
                n += r->files[i].n_bytes;
        return n;
}

/* What those that wait hold in memory until they start; principal NULL: of everybody. */
static uint64_t engine_n_waiting_bytes(const ExecEngine *e, const char *principal) {
        uint64_t n = 0;

        for (const QueueLine *l = e->queue.lines.first; l; l = l->lines.next)
                if (!principal || streq(l->principal, principal))
                        for (QueueItem *i = l->items.first; i; i = i->items.next)
                                n += request_n_bytes(job_of_queue_item(i)->request);
        for (const ExecJob *j = e->preparing.first; j; j = j->waiting.next)
                if (!principal || streq(j->request->principal, principal))
                        n += request_n_bytes(j->request);
        return n;
}

/* Small programs may be many, large ones few. One that finds nobody waiting may wait whatever its size,
 * which has a bound of its own; so may the first of a user where all fit. Returns 0 or EXEC_E_BUSY. */
static int engine_admit_bytes(const ExecEngine *e, const ExecRequest *request, char **reterr_message) {
        uint64_t max = e->settings->queue_memory_max_bytes, n_new = request_n_bytes(request), n_all, n_own;

        n_all = engine_n_waiting_bytes(e, NULL);
        n_own = engine_n_waiting_bytes(e, request->principal);
        if (n_all > 0 && n_all + n_new > max) {
                (void) str_printf(reterr_message, "The service is busy: the programs and inputs that wait "
                                                  "take as much memory as they may (QueueMemoryMax=). Try "
                                                  "again in some seconds.");
                return EXEC_E_BUSY;
        }
        if (n_own > 0 && n_own + n_new > max / QUEUE_MEMORY_USERS) {
                (void) str_printf(reterr_message, "The service is busy: the programs and inputs of yours "
                                                  "that wait take as much memory as those of one user may "
                                                  "(a share of QueueMemoryMax=). Try again when some of "
                                                  "them have ended.");
                return EXEC_E_BUSY;
        }
        return 0;
}

/* Not at once: may it wait? Returns 0 or EXEC_E_BUSY. */
static int engine_admit_to_queue(const ExecEngine *e, const ExecRequest *request, const PrincipalLimits *l,
                                 const Share *own, const Share *whole, char **reterr_message) {
        size_t n_all = e->n_active + engine_n_startable(e);
        size_t n_running = MIN_OF(n_all, (size_t) e->n_slots), n_starting = n_running - e->n_active;
        size_t n_waiting = e->queue.n_items - n_starting + e->n_preparing;
        size_t n_own = share_n_waiting(own, &l->own, n_starting);
        const Settings *s = e->settings;
        unsigned own_max = s->queue_max_per_user;
        bool is_whole_full;

        if (l->own.has_queue)
                own_max = MIN_OF(own_max, l->own.queue);
        if (n_waiting >= s->queue_max) {
                (void) str_printf(reterr_message,
                                  "The service is busy: %zu running, %zu waiting, and no "
                                  "more than %u may wait (QueueMax=). Try again in some "
                                  "seconds.",
                                  n_running, n_waiting, s->queue_max);
                return EXEC_E_BUSY;
        }
        is_whole_full = l->group[0] && l->whole.has_queue &&
                        share_n_waiting(whole, &l->whole, n_starting) >= l->whole.queue;
        /* How much the others do is none of its business; what itself does, it is told. */
        if (is_whole_full && (!own->is_held_back || n_own < own_max)) {
                (void) str_printf(reterr_message,
                                  "The service is busy: no more than %u calls of all users of this client "
                                  "may wait. Try again in some seconds.", l->whole.queue);
                return EXEC_E_BUSY;
        }
        if (n_own >= own_max) {
                (void) str_printf(reterr_message,
                                  "The service is busy: %zu running, %zu of yours waiting, "
                                  "and no more than %u of one user may wait%s. Try again when "
                                  "some of them have ended.",
                                  own->is_held_back ? own->n_running : n_running, n_own, own_max,
                                  own_max == s->queue_max_per_user ? " (QueueMaxPerUser=)" : "");
                return EXEC_E_BUSY;
        }
        return engine_admit_bytes(e, request, reterr_message);
}

int engine_admit(const ExecEngine *e, const ExecRequest *request, PrincipalLimits *limits,
                 char **reterr_message) {
        const char *principal = request->principal;
        bool needs_packages = request->preparation.ops;
        Share own, whole = {};
        int r;

        *limits = (PrincipalLimits) {};
        /* A step of a preparation: the run that waits for it was admitted. During a drain it cleans up. */
        if (request->profile != WIRE_PROFILE_RUN)
                return 0;
        if (e->is_draining) {
                (void) str_printf(reterr_message, "The service is stopping and takes no new programs; try "
                                                  "again in some seconds.");
                return EXEC_E_STOPPING;
        }

        if (e->parameters.admit) {
                r = e->parameters.admit(principal, limits, reterr_message, e->parameters.userdata);
                if (r != 0)
                        return r;
        }

        /* Who waits for packages takes no slot from whoever can run now. */
        own = engine_share(e, &limits->own, principal, /* is_group= */ false, needs_packages);
        if (limits->group[0])
                whole = engine_share(e, &limits->whole, limits->group, /* is_group= */ true, needs_packages);
        if (e->n_active + engine_n_startable(e) + (needs_packages ? e->n_preparing : 0) < e->n_slots &&
            !own.is_held_back && !whole.is_held_back)
                return 0;
        return engine_admit_to_queue(e, request, limits, &own, &whole, reterr_message);
}
