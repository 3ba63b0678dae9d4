/* SPDX-License-Identifier: MIT */

/* Removal: what is in a leaf belongs to the user who prepares, so a unit of that user empties it, and the
 * launcher, which owns the place, removes what is left. One at a time: nobody waits for it. */

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "exec/preparation.h"
#include "exec/timer.h"
#include "python/internal.h"
#include "python/step.h"

#define ATTEMPTS_MAX 4
#define RETRY_USEC (2 * USEC_PER_SEC) /* the unit that wrote to it may still be dying */
#define REMOVE_TIMEOUT_USEC (300 * USEC_PER_SEC)

typedef enum RemovalState {
        REMOVAL_WAITING,
        REMOVAL_RETIRING, /* the set becomes a leaf */
        REMOVAL_EMPTYING,
        REMOVAL_DROPPING,
} RemovalState;

struct Removal {
        Python *python;
        char name[SHA256_HEX_CHARS + 1];
        RemovalState state;
        bool is_set; /* it must cease to be a set first */
        unsigned n_attempts;
        Step *step;
        void (*on_done)(int error, void *userdata);
        void *userdata;
        LIST_LINK(Removal) removals;
};

bool removal_is_known(const Python *p, const char *name) {
        for (const Removal *m = p->removals.first; m; m = m->removals.next)
                if (streq(m->name, name))
                        return true;
        return false;
}

static void removal_free(Removal *m) {
        LIST_REMOVE(&m->python->removals, removals, m);
        step_free(m->step);
        free(m);
}

/* m is gone afterwards. */
static void removal_end(Removal *m, int error) {
        void (*on_done)(int, void *) = m->on_done;
        void *userdata = m->userdata;
        Python *p = m->python;

        removal_free(m);
        python_update_soon(p);
        if (on_done)
                on_done(error, userdata);
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        python_update_soon(userdata);
        return 0;
}

/* Another try, later and behind all others; or none. */
static void removal_fail(Removal *m, int error, const char *text) {
        Python *p = m->python;

        m->step = step_free(m->step);
        if (++m->n_attempts >= ATTEMPTS_MAX ||
            timer_arm(p->event, &p->retry_source, RETRY_USEC, on_retry, p) < 0) {
                log_warning("Cannot remove what is left of a set of packages (%.16s….tmp): %s", m->name,
                            text);
                removal_end(m, error);
                return;
        }
        m->state = REMOVAL_WAITING;
        LIST_REMOVE(&p->removals, removals, m);
        LIST_APPEND(&p->removals, removals, m);
}

static void removal_begin(Removal *m);

static void removal_on_dropped(int error, const char *text, void *userdata) {
        Removal *m = userdata;

        if (error != 0 && error != ENOENT)
                removal_fail(m, error, text);
        else if (m->is_set && ++m->n_attempts < ATTEMPTS_MAX) /* only what was in its way is gone */
                removal_begin(m);
        else
                removal_end(m, 0);
}

static void removal_on_emptied(const StepOutcome *outcome, void *userdata) {
        Removal *m = userdata;

        if (!outcome->answer) {
                removal_fail(m, EIO, outcome->message);
                return;
        }
        m->step = step_free(m->step);
        m->state = REMOVAL_DROPPING;
        if (exec_engine_change_set(m->python->engine, WIRE_SET_DROP, m->name, NULL, removal_on_dropped, m) <
            0)
                removal_fail(m, ENOMEM, "out of memory");
}

static void removal_empty(Removal *m) {
        m->state = REMOVAL_EMPTYING;
        if (step_new(
                    &(const StepParameters){
                            .python = m->python,
                            .profile = WIRE_PROFILE_INSTALL,
                            .program = "remove.py",
                            .leaf = m->name,
                            .order = "{}",
                            .order_bytes = 2,
                            .timeout_usec = REMOVE_TIMEOUT_USEC,
                            .on_done = removal_on_emptied,
                            .userdata = m,
                    },
                    &m->step) < 0)
                removal_fail(m, EIO, "its unit could not be started");
}

/* A launcher that died may have renamed it before it could say so. */
static bool is_gone(const Python *p, const char *name) {
        _cleanup_free_ char *path = NULL;

        return str_printf(&path, "%s/%s", p->index.directory, name) >= 0 && access(path, F_OK) < 0 &&
               errno == ENOENT;
}

static void removal_on_retired(int error, const char *text, void *userdata) {
        Removal *m = userdata;
        Python *p = m->python;
        SetEntry *e = NULL;

        for (e = p->index.sets.first; e && !streq(e->name, m->name);)
                e = e->sets.next;

        if (error == EEXIST) { /* a leftover of that name is in the way, and goes first */
                removal_empty(m);
                return;
        }
        if (error != 0 && error != ENOENT && error != EBUSY && is_gone(p, m->name))
                error = 0;
        if (error != 0 && error != ENOENT) {
                if (e)
                        e->is_retiring = false;
                if (error != EBUSY)
                        log_warning("Cannot retire a set of packages (%.16s…): %s", m->name, text);
                removal_end(m, error);
                return;
        }

        memory_forget_set(&p->memory, m->name);
        python_save_soon(p);
        if (e) {
                e->is_retiring = false;
                if (e->n_users == 0)
                        set_index_remove(&p->index, e);
        }
        m->is_set = false;
        if (error == ENOENT)
                removal_end(m, ENOENT);
        else
                removal_empty(m);
}

static void removal_begin(Removal *m) {
        if (!m->is_set) {
                removal_empty(m);
                return;
        }
        m->state = REMOVAL_RETIRING;
        if (exec_engine_change_set(m->python->engine, WIRE_SET_RETIRE, m->name, NULL, removal_on_retired,
                                   m) < 0)
                removal_on_retired(ENOMEM, "out of memory", m);
}

int removal_new(Python *p, const char *name, bool is_set, void (*on_done)(int error, void *userdata),
                void *userdata) {
        SetEntry *e;
        Removal *m;

        assert(p && name && strlen(name) == SHA256_HEX_CHARS);

        m = calloc(1, sizeof(Removal));
        if (!m)
                return -ENOMEM;
        m->python = p;
        memcpy(m->name, name, sizeof(m->name));
        m->is_set = is_set;
        m->on_done = on_done;
        m->userdata = userdata;
        LIST_APPEND(&p->removals, removals, m);
        e = is_set ? set_index_find(&p->index, name) : NULL;
        if (e)
                e->is_retiring = true;
        python_update_soon(p);
        return 0;
}

void removal_update(Python *p) {
        Removal *m = p->removals.first;

        if (!m || m->state != REMOVAL_WAITING)
                return;
        /* All have been tried, and the next time has not come. */
        if (m->n_attempts > 0 && p->retry_source) {
                int is_on = SD_EVENT_OFF;

                (void) sd_event_source_get_enabled(p->retry_source, &is_on);
                if (is_on != SD_EVENT_OFF)
                        return;
        }
        removal_begin(m);
}

void removal_done(Python *p) {
        while (p->removals.first)
                removal_free(p->removals.first);
}
