/* SPDX-License-Identifier: MIT */

/* Who gets a slot, who waits, who is told that the service is busy. */

#include "base/strv.h"
#include "exec/engine.h"

ExecJob* job_of_queue_item(QueueItem *item) {
        return (ExecJob*) ((char*) item - offsetof(ExecJob, queue_item));
}

static size_t engine_n_active_of(const ExecEngine *e, const char *principal) {
        size_t n = 0;

        for (const ExecJob *j = e->active.first; j; j = j->active.next)
                n += streq(j->request->principal, principal);
        return n;
}

/* How many of a line could run besides those of the principal that do. All of a line have the same limits,
 * or those of before and after a reload. */
static size_t engine_n_startable(const ExecEngine *e, const QueueLine *line) {
        unsigned parallel = job_of_queue_item(line->items.first)->request->limits.parallel;
        size_t n_active;

        if (parallel == 0)
                return line->n_items;
        n_active = engine_n_active_of(e, line->principal);
        return n_active >= parallel ? 0 : MIN_OF(line->n_items, parallel - n_active);
}

bool engine_may_start(const QueueLine *line, void *userdata) {
        return engine_n_startable(userdata, line) > 0;
}

static size_t engine_n_preparing_of(const ExecEngine *e, const char *principal) {
        size_t n = 0;

        for (const ExecJob *j = e->preparing.first; j; j = j->waiting.next)
                n += streq(j->request->principal, principal);
        return n;
}

int engine_admit(const ExecEngine *e, const ExecRequest *request, PrincipalLimits *limits,
                 char **reterr_message) {
        const char *principal = request->principal;
        size_t n_all = e->n_active, n_running, n_waiting, n_own, n_own_running, n_preparing, n_own_preparing;
        const Settings *s = e->settings;
        unsigned own_max = s->queue_max_per_user;
        bool is_held_back;
        int r;

        *limits = (PrincipalLimits) {};
        /* A step of a preparation: the run that waits for it was admitted, also if it was before a drain. */
        if (request->profile != WIRE_PROFILE_RUN)
                return 0;
        if (e->is_draining) {
                (void) str_printf(reterr_message, "The service is stopping and takes no new programs; try "
                                                  "again in some seconds.");
                return EXEC_E_BUSY;
        }

        if (e->parameters.admit) {
                r = e->parameters.admit(principal, limits, reterr_message, e->parameters.userdata);
                if (r != 0)
                        return r;
        }
        if (limits->has_queue)
                own_max = MIN_OF(own_max, limits->queue);

        /* Requests in the queue that have a free slot before them only wait for the launcher; those whose
         * principal runs as many as it may wait for itself. */
        for (const QueueLine *l = e->queue.lines.first; l; l = l->lines.next)
                n_all += engine_n_startable(e, l);
        n_own = queue_n_of(&e->queue, principal);
        n_own_running = engine_n_active_of(e, principal);
        n_own_preparing = engine_n_preparing_of(e, principal);
        /* Who waits for packages takes no slot from whoever can run now. */
        n_preparing = request->preparation.ops ? e->n_preparing : 0;
        is_held_back = limits->parallel > 0 &&
                       n_own_running + n_own + (n_preparing > 0 ? n_own_preparing : 0) >= limits->parallel;
        if (n_all + n_preparing < e->n_slots && !is_held_back)
                return 0;
        n_running = MIN_OF(n_all, (size_t) e->n_slots);
        n_waiting = e->queue.n_items - (n_running - e->n_active);
        if (is_held_back) {
                size_t n_may_run = MAX_OF(n_own_running, (size_t) limits->parallel);

                n_own = n_own_running + n_own - MIN_OF(n_own_running + n_own, n_may_run);
        } else
                n_own -= MIN_OF(n_own, n_running - e->n_active);
        n_waiting += e->n_preparing;
        n_own += n_own_preparing;

        if (n_waiting >= s->queue_max) {
                (void) str_printf(reterr_message,
                                  "The service is busy: %zu running, %zu waiting, and no "
                                  "more than %u may wait. Try again in some seconds.",
                                  n_running, n_waiting, s->queue_max);
                return EXEC_E_BUSY;
        }
        if (n_own >= own_max) {
                (void) str_printf(reterr_message,
                                  "The service is busy: %zu running, %zu of yours waiting, "
                                  "and no more than %u of one user may wait. Try again when "
                                  "some of them have ended.",
                                  is_held_back ? n_own_running : n_running, n_own, own_max);
                return EXEC_E_BUSY;
        }
        return 0;
}
