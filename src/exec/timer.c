/* SPDX-License-Identifier: MIT */

#include "exec/timer.h"

#include <time.h>

#include "base/macro.h"
#include "base/timeutil.h"

/* sd-event's default accuracy is a quarter of a second, which is half of what a deadline may be late. */
#define TIMER_ACCURACY_USEC USEC_PER_MSEC

int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_usec,
              sd_event_time_handler_t handler, void *userdata) {
        uint64_t usec;
        int r;

        assert(event);
        assert(source);

        /* Not sd-event's relative timers: they count from the begin of this turn of the loop, which can be
         * long ago, and a deadline must not come early. */
        usec = now_monotonic_usec() + delay_usec;

        if (*source) {
                r = sd_event_source_set_time(*source, usec);
                if (r < 0)
                        return r;
                return sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
        }

        r = sd_event_add_time(event, source, CLOCK_MONOTONIC, usec, TIMER_ACCURACY_USEC, handler, userdata);
        if (r < 0)
                return r;

        /* A flood on a pipe must not make a deadline wait for its turn. */
        return sd_event_source_set_priority(*source, SD_EVENT_PRIORITY_IMPORTANT);
}

void timer_disarm(sd_event_source *source) {
        if (source)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
}
