/* SPDX-License-Identifier: MIT */
#pragma once

/* Pool: warm units, whose runners wait for a program. Each is used for one program.
 *
 * A warm unit that nobody takes is stopped when its idle life is over, long before its RuntimeMaxSec=
 * (systemd would log that as a failure). It is not replaced before somebody wants to run something again: a
 * server that nobody uses does nothing. The same holds after a warm unit ended by itself, so that a fault
 * costs no endless restarts. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "exec/list.h"
#include "exec/unit.h"

typedef struct Pool {
        sd_event *event;
        size_t size;
        uint64_t pause_usec;       /* after a run was started, before a new unit is */
        void (*on_change)(void *userdata); /* call pool_update() soon */
        void *userdata;

        bool is_wanted;
        LIST_HEAD(Unit) units;     /* starting and ready ones, oldest first */
        size_t n_units;
        LIST_HEAD(Unit) leaving;   /* stopped or dead, not yet freed */
        uint64_t refill_usec;      /* not before this time on the monotonic clock */
        sd_event_source *refill_source, *expire_source;
} Pool;

void pool_init(Pool *p, sd_event *event, size_t size, uint64_t pause_usec, void (*on_change)(void *userdata),
               void *userdata);

/* Frees all units. The connection's end stops them. */
void pool_done(Pool *p);

/* Somebody is about to run something: units are worth having again. */
void pool_want(Pool *p);

/* The best warm unit: a ready one, or else one that is starting, unless only a settled one can be used. NULL
 * if there is none. The caller owns it. */
Unit* pool_take(Pool *p, bool only_settled);

/* Frees what is dead, and starts what is missing unless new_unit is NULL. is_busy: a program runs, so new
 * units wait until the pause is over. idle_usec: how long a new unit may wait. */
void pool_update(Pool *p, const UnitParameters *new_unit, uint64_t idle_usec, bool is_busy);

/* Stops all units. */
void pool_stop(Pool *p);
