/* SPDX-License-Identifier: MIT */
#pragma once

/* One-shot timers on the monotonic clock. */

#include <stdint.h>
#include <systemd/sd-event.h>

/* (Re)arms *source to fire once, delay_usec from now. Returns 0 or -errno. */
int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_usec,
              sd_event_time_handler_t handler, void *userdata);

void timer_disarm(sd_event_source *source);
