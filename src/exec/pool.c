/* SPDX-License-Identifier: MIT */

#include "exec/pool.h"

#include "base/log.h"
#include "base/timeutil.h"
#include "exec/timer.h"

/* No more than this many units are started in one turn: a real run may come at any moment and should not
 * find the service manager busy. */
#define STARTS_PER_UPDATE 2

static void pool_drop(Pool *p, Unit *u) {
        LIST_REMOVE(&p->units, units, u);
        p->n_units--;
        LIST_APPEND(&p->leaving, units, u);
        unit_stop(u);
}

static void pool_give_up(Pool *p, const Unit *u) {
        log_debug("A warm unit (%s) ended unused.", u->name[0] ? u->name : "not started");
        p->is_wanted = false;
        p->on_change(p->userdata);
}

static void pool_on_ready(Unit *u, void *userdata) {
        (void) u;
        (void) userdata;
}

static void pool_on_output(Unit *u, int stream, const void *data, size_t n_bytes, void *userdata) {
        (void) u;
        (void) stream;
        (void) data;
        (void) n_bytes;
        (void) userdata;
}

static void pool_on_fault(Unit *u, void *userdata) {
        Pool *p = userdata;

        if (u->is_stopped)
                return;
        pool_drop(p, u);
        pool_give_up(p, u);
}

static void pool_on_dead(Unit *u, void *userdata) {
        Pool *p = userdata;

        if (u->is_stopped) { /* stands among the leaving ones already */
                p->on_change(p->userdata);
                return;
        }
        pool_drop(p, u);
        pool_give_up(p, u);
}

static const UnitHandlers pool_handlers = {
        .on_ready = pool_on_ready,
        .on_sent = pool_on_ready,
        .on_output = pool_on_output,
        .on_flood = pool_on_fault,
        .on_fault = pool_on_fault,
        .on_dead = pool_on_dead,
};

static int pool_on_refill(sd_event_source *s, uint64_t usec, void *userdata) {
        Pool *p = userdata;

        (void) s;
        (void) usec;
        p->on_change(p->userdata);
        return 0;
}

static int pool_on_expire(sd_event_source *s, uint64_t usec, void *userdata);

static void pool_arm_expiry(Pool *p) {
        uint64_t now = now_monotonic_usec(), delay_usec;
        const Unit *u = p->units.first;

        if (!u) {
                timer_disarm(p->expire_source);
                return;
        }
        delay_usec = u->expires_usec > now ? u->expires_usec - now : 0;
        if (timer_arm(p->event, &p->expire_source, delay_usec, pool_on_expire, p) < 0)
                pool_stop(p); /* units that nobody would stop in time */
}

static int pool_on_expire(sd_event_source *s, uint64_t usec, void *userdata) {
        Pool *p = userdata;
        uint64_t now = now_monotonic_usec();

        (void) s;
        (void) usec;

        while (p->units.first && p->units.first->expires_usec <= now) {
                p->is_wanted = false;
                pool_drop(p, p->units.first);
        }
        pool_arm_expiry(p);
        return 0;
}

void pool_init(Pool *p, sd_event *event, size_t size, uint64_t pause_usec, void (*on_change)(void *userdata),
               void *userdata) {
        assert(p);
        assert(event);
        assert(on_change);

        *p = (Pool) {
                .event = event,
                .size = size,
                .pause_usec = pause_usec,
                .on_change = on_change,
                .userdata = userdata,
        };
}

static void pool_free_all(Pool *p) {
        Unit *u;

        while ((u = p->units.first)) {
                LIST_REMOVE(&p->units, units, u);
                unit_free(u);
        }
        while ((u = p->leaving.first)) {
                LIST_REMOVE(&p->leaving, units, u);
                unit_free(u);
        }
        p->n_units = 0;
}

void pool_done(Pool *p) {
        assert(p);

        pool_free_all(p);
        p->refill_source = sd_event_source_unref(p->refill_source);
        p->expire_source = sd_event_source_unref(p->expire_source);
}

void pool_want(Pool *p) {
        assert(p);

        p->is_wanted = true;
}

Unit* pool_take(Pool *p, bool only_settled) {
        Unit *u;

        assert(p);

        p->refill_usec = now_monotonic_usec() + p->pause_usec;
        (void) timer_arm(p->event, &p->refill_source, p->pause_usec, pool_on_refill, p);

        for (u = p->units.first; u; u = u->units.next)
                if (only_settled ? unit_is_settled(u) : u->state == UNIT_READY)
                        break;
        if (!u && !only_settled)
                u = p->units.first;
        if (!u)
                return NULL;

        LIST_REMOVE(&p->units, units, u);
        p->n_units--;
        pool_arm_expiry(p);
        return u;
}

void pool_update(Pool *p, const UnitParameters *new_unit, uint64_t idle_usec, bool is_busy) {
        int r;

        assert(p);

        for (Unit *u = p->leaving.first, *next; u; u = next) {
                next = u->units.next;
                if (u->state != UNIT_DEAD)
                        continue;
                LIST_REMOVE(&p->leaving, units, u);
                unit_free(u);
        }

        if (!new_unit || !p->is_wanted || idle_usec == 0)
                return;
        if (is_busy && now_monotonic_usec() < p->refill_usec)
                return;

        for (unsigned i = 0; i < STARTS_PER_UPDATE && p->n_units < p->size; i++) {
                Unit *u;

                r = unit_new(new_unit, &pool_handlers, p, &u);
                if (r < 0) {
                        log_debug_errno(r, "Cannot start a warm unit");
                        p->is_wanted = false;
                        break;
                }
                u->expires_usec = now_monotonic_usec() + idle_usec;
                LIST_APPEND(&p->units, units, u);
                p->n_units++;
        }
        pool_arm_expiry(p);

        if (p->is_wanted && p->n_units < p->size)
                (void) timer_arm(p->event, &p->refill_source, p->pause_usec, pool_on_refill, p);
}

void pool_stop(Pool *p) {
        assert(p);

        while (p->units.first)
                pool_drop(p, p->units.first);
        timer_disarm(p->expire_source);
        timer_disarm(p->refill_source);
}
