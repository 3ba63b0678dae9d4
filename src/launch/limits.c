/* SPDX-License-Identifier: MIT */

/* How much of everything a unit may have. */

#include "launch/unit-spec.h"

/* On top of the longest run and a warm unit's idle life: the start, and the daemon's own deadline which
 * comes first. */
#define RUNTIME_SPARE_USEC (60 * USEC_PER_SEC)

/* Reading a script is a matter of a second, and needs a multiple of its size. */
#define PARSE_RUNTIME_USEC (60 * USEC_PER_SEC)
#define PARSE_MEMORY_BYTES (256 * MIB)
#define PARSE_TASKS 16

/* Somebody waits for a set. */
#define PREPARE_CPU_USEC (2 * USEC_PER_SEC)

WireLimits limits_ceiling(const Settings *s, WireProfile profile) {
        WireLimits l;

        assert(s);

        l = (WireLimits) {
                .runtime_max_usec = MIN_OF(s->max_timeout_usec + s->pool_idle_usec + RUNTIME_SPARE_USEC,
                                           WIRE_RUNTIME_USEC_MAX),
                .memory_max_bytes = s->memory_max_bytes,
                .tasks_max = s->tasks_max,
                .cpu_quota_per_sec_usec = s->cpu_quota_percent * (USEC_PER_SEC / 100),
        };

        switch (profile) {
        case WIRE_PROFILE_RUN:
        case _WIRE_PROFILE_MAX:
                break;
        case WIRE_PROFILE_PARSE:
                l.runtime_max_usec = PARSE_RUNTIME_USEC;
                l.memory_max_bytes = MIN_OF(l.memory_max_bytes, PARSE_MEMORY_BYTES);
                l.tasks_max = MIN_OF(l.tasks_max, (uint64_t) PARSE_TASKS);
                break;
        case WIRE_PROFILE_FETCH:
        case WIRE_PROFILE_INSTALL:
                l.runtime_max_usec = MIN_OF(s->packages.prepare_timeout_usec + RUNTIME_SPARE_USEC,
                                            WIRE_RUNTIME_USEC_MAX);
                l.memory_max_bytes = s->packages.prepare_memory_max_bytes;
                l.tasks_max = settings_prepare_tasks_max(s);
                l.cpu_quota_per_sec_usec = MAX_OF(l.cpu_quota_per_sec_usec, PREPARE_CPU_USEC);
                break;
        }
        return l;
}

static uint64_t clamp(uint64_t value, uint64_t floor, uint64_t ceiling) {
        /* A ceiling below the floor is the administrator's word and wins. */
        value = MAX_OF(value, floor);
        return MIN_OF(value, ceiling);
}

void limits_clamp(WireLimits *l, const WireLimits *ceiling) {
        assert(l && ceiling);

        l->runtime_max_usec = clamp(l->runtime_max_usec, WIRE_RUNTIME_USEC_MIN, ceiling->runtime_max_usec);
        l->memory_max_bytes = clamp(l->memory_max_bytes, WIRE_MEMORY_BYTES_MIN, ceiling->memory_max_bytes);
        l->tasks_max = clamp(l->tasks_max, WIRE_TASKS_MIN, ceiling->tasks_max);
        l->cpu_quota_per_sec_usec = clamp(l->cpu_quota_per_sec_usec, USEC_PER_SEC / 100,
                                          ceiling->cpu_quota_per_sec_usec);
}
