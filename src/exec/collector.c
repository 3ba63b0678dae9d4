/* SPDX-License-Identifier: MIT */

#include "exec/collector.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"

/* One turn of the event loop reads at most this much of one pipe, so that a flood of one run leaves time for
 * the clients of all others. */
#define COLLECTOR_CHUNK_BYTES (64 * KIB)
#define COLLECTOR_CHUNKS_PER_TURN 4

void collector_close(Collector *c) {
        assert(c);

        c->is_over = true;
        /* The source first: closing a descriptor behind epoll's back leaves the registration dangling. */
        c->source = sd_event_source_unref(c->source);
        c->fd = safe_close(c->fd);
}

static void collector_fail(Collector *c, int error) {
        collector_close(c);
        c->handlers->on_error(c, error, c->userdata);
}

/* Reads until the pipe is empty, at its end, or the turn is used up. */
static void collector_read(Collector *c) {
        char chunk[COLLECTOR_CHUNK_BYTES];
        uint64_t flood_bytes;
        int r;

        flood_bytes = (uint64_t) c->capture.max_bytes * COLLECTOR_FLOOD_FACTOR;

        for (unsigned i = 0; i < COLLECTOR_CHUNKS_PER_TURN && !c->is_over; i++) {
                ssize_t n;

                n = read(c->fd, chunk, sizeof(chunk));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN) {
                        if (c->is_draining)
                                collector_close(c);
                        return;
                }
                if (n < 0) {
                        collector_fail(c, -errno);
                        return;
                }
                if (n == 0) {
                        collector_close(c);
                        return;
                }

                r = capture_push(&c->capture, chunk, (size_t) n);
                if (r < 0) {
                        collector_fail(c, r);
                        return;
                }

                c->handlers->on_data(c, chunk, (size_t) n, c->userdata);

                if (!c->is_over && c->capture.n_total > flood_bytes) {
                        collector_close(c);
                        c->handlers->on_flood(c, c->userdata);
                        return;
                }
        }
}

static int collector_on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Collector *c = userdata;

        (void) source;
        (void) fd;
        (void) revents;

        collector_read(c);
        if (c->is_over && c->is_draining)
                c->handlers->on_drained(c, c->userdata);

        return 0;
}

int collector_init(Collector *c, sd_event *event, int take_fd, size_t max_bytes,
                   const CollectorHandlers *handlers, void *userdata) {
        sd_event_source *source = NULL;
        int r;

        assert(c);
        assert(event);
        assert(take_fd >= 0);
        assert(handlers);

        r = fd_set_nonblock(take_fd, true);
        if (r < 0)
                return r;

        r = sd_event_add_io(event, &source, take_fd, EPOLLIN, collector_on_io, c);
        if (r < 0)
                return r;

        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (r < 0) {
                sd_event_source_unref(source);
                return r;
        }

        *c = (Collector) {
                .fd = take_fd,
                .source = source,
                .handlers = handlers,
                .userdata = userdata,
        };
        capture_init(&c->capture, max_bytes);
        return 0;
}

void collector_done(Collector *c) {
        assert(c);

        if (!c->handlers) /* never initialised */
                return;
        collector_close(c);
        capture_done(&c->capture);
        c->handlers = NULL;
}

int collector_begin(Collector *c) {
        assert(c);

        if (c->is_over)
                return 0;
        return sd_event_source_set_enabled(c->source, SD_EVENT_ON);
}

void collector_drain(Collector *c) {
        assert(c);

        c->is_draining = true;
        if (c->is_over)
                return;

        collector_read(c);
        if (!c->is_over && sd_event_source_set_enabled(c->source, SD_EVENT_ON) < 0)
                collector_close(c);
}
