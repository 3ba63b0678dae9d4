/* SPDX-License-Identifier: MIT */

#include "exec/collector.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "test.h"

typedef struct Watch {
        uint64_t n_bytes;
        unsigned n_floods, n_drained, n_errors, n_calls;
} Watch;

static void on_data(Collector *c, const void *data, size_t n_bytes, void *userdata) {
        Watch *w = userdata;

        (void) c;
        (void) data;
        w->n_bytes += n_bytes;
        w->n_calls++;
}

static void on_flood(Collector *c, void *userdata) {
        (void) c;
        ((Watch*) userdata)->n_floods++;
}

static void on_drained(Collector *c, void *userdata) {
        (void) c;
        ((Watch*) userdata)->n_drained++;
}

static void on_error(Collector *c, int error, void *userdata) {
        (void) c;
        (void) error;
        ((Watch*) userdata)->n_errors++;
}

static const CollectorHandlers handlers = { on_data, on_flood, on_drained, on_error };

typedef struct Fixture {
        sd_event *event;
        Collector c;
        Watch w;
        int far;
} Fixture;

static void setup(Fixture *f, size_t max_bytes) {
        int fds[2];

        *f = (Fixture) {};
        ASSERT_TRUE(sd_event_new(&f->event) >= 0);
        ASSERT_EQ_INT(pipe_new(fds), 0);
        ASSERT_TRUE(fcntl(fds[1], F_SETPIPE_SZ, 1 << 20) >= 0);
        ASSERT_EQ_INT(collector_init(&f->c, f->event, fds[0], max_bytes, &handlers, &f->w), 0);
        f->far = fds[1];
}

static void done(Fixture *f) {
        collector_done(&f->c);
        safe_close(f->far);
        sd_event_unref(f->event);
}

static void fill(Fixture *f, size_t n_bytes) {
        static const char bytes[4096];

        for (; n_bytes > 0; n_bytes -= MIN_OF(n_bytes, sizeof(bytes)))
                ASSERT_EQ_INT(fd_write_all(f->far, bytes, MIN_OF(n_bytes, sizeof(bytes))), 0);
}

TEST(collector_reads_nothing_before_it_begins) {
        Fixture f;

        setup(&f, 1000);
        fill(&f, 10);
        ASSERT_EQ_INT(sd_event_run(f.event, 0), 0);
        ASSERT_EQ_UINT(f.w.n_bytes, 0);
        ASSERT_TRUE(collector_begin(&f.c) >= 0);
        ASSERT_EQ_INT(sd_event_run(f.event, 0), 1);
        ASSERT_EQ_UINT(f.w.n_bytes, 10);
        ASSERT_EQ_UINT(f.c.capture.n_total, 10);
        done(&f);
}

TEST(collector_takes_a_bounded_share_of_each_turn) {
        Fixture f;
        unsigned n_turns = 0;

        setup(&f, 1 << 20);
        fill(&f, 1 << 20);
        ASSERT_TRUE(collector_begin(&f.c) >= 0);
        while (f.w.n_bytes < 1 << 20) {
                uint64_t before = f.w.n_bytes;

                ASSERT_EQ_INT(sd_event_run(f.event, 0), 1);
                ASSERT_TRUE(f.w.n_bytes - before <= 256 * KIB);
                n_turns++;
        }
        ASSERT_TRUE(n_turns >= 4);
        done(&f);
}

TEST(collector_drains_to_empty_though_the_pipe_stays_open) {
        Fixture f;

        setup(&f, 1 << 20);
        ASSERT_TRUE(collector_begin(&f.c) >= 0);
        fill(&f, 600 * KIB);
        collector_drain(&f.c); /* takes the first share at once … */
        ASSERT_FALSE(f.c.is_over);
        while (f.w.n_drained == 0)
                ASSERT_EQ_INT(sd_event_run(f.event, 0), 1);
        ASSERT_EQ_UINT(f.w.n_bytes, 600 * KIB);
        ASSERT_TRUE(f.c.is_over);
        ASSERT_EQ_UINT(f.w.n_drained, 1);
        done(&f);
}

TEST(collector_is_over_at_once_when_there_is_nothing_to_drain) {
        Fixture f;

        setup(&f, 1000);
        collector_drain(&f.c);
        ASSERT_TRUE(f.c.is_over);
        ASSERT_EQ_UINT(f.w.n_drained, 0); /* the caller sees it */
        done(&f);

        setup(&f, 1000);
        f.far = safe_close(f.far);
        collector_drain(&f.c);
        ASSERT_TRUE(f.c.is_over);
        done(&f);
}

TEST(collector_does_not_spin_at_the_end_of_file) {
        Fixture f;

        setup(&f, 1000);
        ASSERT_TRUE(collector_begin(&f.c) >= 0);
        fill(&f, 3);
        f.far = safe_close(f.far);
        ASSERT_EQ_INT(sd_event_run(f.event, 0), 1);
        ASSERT_TRUE(f.c.is_over);
        ASSERT_EQ_INT(sd_event_run(f.event, 0), 0);
        ASSERT_EQ_UINT(f.w.n_bytes, 3);
        ASSERT_EQ_UINT(f.w.n_drained, 0);
        done(&f);
}

TEST(collector_reports_a_flood_once_and_reads_no_further) {
        Fixture f;

        setup(&f, 1000); /* a flood is more than 64000 */
        ASSERT_TRUE(collector_begin(&f.c) >= 0);
        fill(&f, 64000);
        while (sd_event_run(f.event, 0) > 0)
                ;
        ASSERT_EQ_UINT(f.w.n_floods, 0);
        fill(&f, 1);
        while (sd_event_run(f.event, 0) > 0)
                ;
        ASSERT_EQ_UINT(f.w.n_floods, 1);
        ASSERT_EQ_UINT(f.w.n_bytes, 64001);
        collector_drain(&f.c);
        ASSERT_TRUE(f.c.is_over);
        ASSERT_EQ_UINT(f.w.n_bytes, 64001);
        ASSERT_EQ_UINT(f.c.capture.n_head + f.c.capture.n_ring, 1000);
        done(&f);
}
