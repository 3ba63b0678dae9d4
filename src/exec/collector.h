/* SPDX-License-Identifier: MIT */
#pragma once

/* Collector: reads one output pipe of a run into bounded memory.
 *
 * What has come is kept head and tail (base/capture.h). A writer that goes on far beyond the budget is a
 * flood: it is reported once and not read any further. After the run is dead, drain() takes what is still in
 * the pipe: up to the end of file, or up to the moment when the pipe is empty, since the service manager may
 * hold copies of its other end for ever (257 does) and no end of file would come. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/capture.h"

/* A program that writes this many times what is kept of it gains nothing by going on. */
#define COLLECTOR_FLOOD_FACTOR 64

typedef struct Collector Collector;

typedef struct CollectorHandlers {
        void (*on_data)(Collector *c, const void *data, size_t n_bytes, void *userdata);
        void (*on_flood)(Collector *c, void *userdata);
        void (*on_drained)(Collector *c, void *userdata);           /* only after collector_drain() */
        void (*on_error)(Collector *c, int error, void *userdata);  /* no memory, or no pipe */
} CollectorHandlers;

struct Collector {
        int fd;
        sd_event_source *source;
        Capture capture;
        bool is_draining;
        bool is_over; /* nothing more will be read */
        const CollectorHandlers *handlers;
        void *userdata;
};

/* Takes fd, the reading end of a pipe, on success only. Nothing is read before collector_begin().
 * Handlers may not destroy the collector. Returns 0 or -errno. */
int collector_init(Collector *c, sd_event *event, int take_fd, size_t max_bytes,
                   const CollectorHandlers *handlers, void *userdata);
void collector_done(Collector *c);

int collector_begin(Collector *c);

/* The writers are dead: read what they left. If is_over is set on return, everything is read; otherwise
 * on_drained follows. */
void collector_drain(Collector *c);

/* Reads no more; what was captured stays. */
void collector_close(Collector *c);
