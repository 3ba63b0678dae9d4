/* SPDX-License-Identifier: MIT */

/* Clocks. */

#include "base/timeutil.h"

#include <time.h>

#include "base/macro.h"

static uint64_t now_usec(clockid_t clock) {
        struct timespec ts = {};
        int r;

        /* These two clocks always exist; the call cannot fail. */
        r = clock_gettime(clock, &ts);
        assert(r == 0);
        (void) r;
        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

uint64_t now_monotonic_usec(void) {
        return now_usec(CLOCK_MONOTONIC);
}

uint64_t now_realtime_usec(void) {
        return now_usec(CLOCK_REALTIME);
}
