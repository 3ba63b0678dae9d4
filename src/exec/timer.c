/* SPDX-License-Identifier: MIT */

#include "exec/timer.h"

#include <time.h>

#include "base/macro.h"

/* sd-event's default accuracy is a quarter of a second, which is half of what a deadline may be late. */
#define TIMER_ACCURACY_USEC USEC_PER_MSEC

int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_usec,
              sd_event_time_handler_t handler, void *userdata) {
        int r;

        assert(event);
        assert(source);

        if (*source) {
                r = sd_event_source_set_time_relative(*source, delay_usec);
                if (r < 0)
                        return r;
                return sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
        }

        r = sd_event_add_time_relative(event, source, CLOCK_MONOTONIC, delay_usec, TIMER_ACCURACY_USEC,
                                       handler, userdata);
        if (r < 0)
                return r;

        /* A flood on a pipe must not make a deadline wait for its turn. */
        return sd_event_source_set_priority(*source, SD_EVENT_PRIORITY_IMPORTANT);
}

void timer_disarm(sd_event_source *source) {
        if (source)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
}
