/* SPDX-License-Identifier: MIT */
#pragma once

/* The event loop, which goes on where a turn of it finds no memory. */

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

typedef struct EventLoopParameters {
        sd_event *event;
        /* A turn failed. What the kernel had told in it is told again, but not of sources that are watched
         * edge-triggered: those are to be armed anew. NULL: there are none. */
        void (*on_lost_turn)(void *userdata);
        void *userdata;
        uint64_t patience_usec; /* without memory so long in a row is the end; 0: five seconds */
} EventLoopParameters;

/* Until sd_event_exit(). Returns its code, or -errno. */
int event_loop_run(const EventLoopParameters *p);

/* Blocks the signals, for which handler is called when there are some to be read. Not sd_event_add_signal():
 * that one reads them before it knows whether there is memory to pass them on. */
int event_loop_watch_signals(sd_event *event, const int numbers[], size_t n_numbers,
                             sd_event_io_handler_t handler, void *userdata);
int event_loop_read_signal(int fd); /* its number, or 0 when there is none */
