/* SPDX-License-Identifier: MIT */

/* The event loop without memory: many sources have something to do at once, more than it has room for from
 * the start, while the first allocation of the turn fails, then the second, and so on. */

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timeutil.h"
#include "no-memory.h"
#include "server/event-loop.h"
#include "test.h"

#define EXIT_CODE 42
#define MANY 1200 /* whatever the first turn made room for */
#define FEW 300

typedef struct World {
        sd_event *event;
        sd_event_source *begin, *due, *sources[MANY];
        int fds[MANY];
        unsigned n_events[MANY];
        size_t n_sources, n_seen;
        unsigned n_signals, n_due, n_lost;
        unsigned n_lost_max;  /* there is memory after so many lost turns */
        unsigned fault;       /* which allocation fails first */
        bool is_for_good, is_rearmed;
} World;

static void seen(World *w) {
        if (++w->n_seen == w->n_sources + 2)
                (void) sd_event_exit(w->event, EXIT_CODE);
}

static int on_event(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        World *w = userdata;
        uint64_t value;

        (void) source;
        (void) revents;
        if (read(fd, &value, sizeof(value)) != (ssize_t) sizeof(value))
                return 0;
        for (size_t i = 0; i < w->n_sources; i++)
                if (w->fds[i] == fd)
                        w->n_events[i]++;
        seen(w);
        return 0;
}

static int on_signal(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        World *w = userdata;

        (void) source;
        (void) revents;
        w->n_signals += event_loop_read_signal(fd) == SIGUSR1;
        seen(w);
        return 0;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata) {
        World *w = userdata;

        (void) source;
        (void) usec;
        w->n_due++;
        seen(w);
        return 0;
}

static int on_stuck(sd_event_source *source, uint64_t usec, void *userdata) {
        World *w = userdata;

        (void) source;
        (void) usec;
        return sd_event_exit(w->event, 1);
}

#if defined(IS_SANITIZED)
static void begin_fault(const World *w) {
        (void) w;
}
static bool end_fault(void) {
        return false;
}
#else
static void begin_fault(const World *w) {
        fault_begin(w->fault, w->is_for_good);
}
static bool end_fault(void) {
        return fault_end();
}
#endif

/* Within the loop, when it has made its room: everything is ready at once. */
static int on_begin(sd_event_source *source, void *userdata) {
        World *w = userdata;

        (void) source;
        for (size_t i = 0; i < w->n_sources; i++)
                if (sd_event_add_io(w->event, &w->sources[i], w->fds[i],
                                    i % 2 == 0 ? EPOLLIN : EPOLLIN | EPOLLET, on_event, w) < 0)
                        return sd_event_exit(w->event, 2);
        if (sd_event_add_time_relative(w->event, &w->due, CLOCK_MONOTONIC, 0, 1, on_due, w) < 0)
                return sd_event_exit(w->event, 3);
        (void) raise(SIGUSR1);
        begin_fault(w);
        return 0;
}

static void on_lost_turn(void *userdata) {
        World *w = userdata;

        if (++w->n_lost == w->n_lost_max)
                (void) end_fault();
        for (size_t i = 1; w->is_rearmed && i < w->n_sources; i += 2)
                (void) sd_event_source_set_io_events(w->sources[i], EPOLLIN | EPOLLET);
}

static void world_init(World *w, size_t n_sources) {
        static const int signals[] = { SIGUSR1 };
        struct rlimit limit;

        ASSERT_EQ_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        if (limit.rlim_max < MANY + 100)
                SKIP("too few descriptors are allowed");
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);

        log_open("test", LOG_ERR);
        *w = (World) { .n_sources = n_sources, .is_rearmed = true };
        ASSERT_EQ_INT(sd_event_new(&w->event), 0);
        for (size_t i = 0; i < n_sources; i++) {
                w->fds[i] = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
                ASSERT_TRUE(w->fds[i] >= 0);
        }
        ASSERT_TRUE(event_loop_watch_signals(w->event, signals, ELEMENTSOF(signals), on_signal, w) >= 0);
        ASSERT_EQ_INT(sd_event_add_defer(w->event, &w->begin, on_begin, w), 0);
        ASSERT_EQ_INT(sd_event_add_time_relative(w->event, NULL, CLOCK_MONOTONIC, 20 * USEC_PER_SEC, 1,
                                                 on_stuck, w), 0);
}

static void world_done(World *w) {
        (void) sd_event_source_unref(w->begin);
        (void) sd_event_source_unref(w->due);
        for (size_t i = 0; i < w->n_sources; i++) {
                (void) sd_event_source_unref(w->sources[i]);
                (void) close(w->fds[i]);
        }
        (void) sd_event_unref(w->event);
}

static int run(World *w, uint64_t patience_usec) {
        return event_loop_run(&(EventLoopParameters) {
                        .event = w->event,
                        .on_lost_turn = on_lost_turn,
                        .userdata = w,
                        .patience_usec = patience_usec,
        });
}

static void assert_all_seen(const World *w) {
        for (size_t i = 0; i < w->n_sources; i++)
                ASSERT_EQ_UINT(w->n_events[i], 1);
        ASSERT_EQ_UINT(w->n_signals, 1);
        ASSERT_EQ_UINT(w->n_due, 1);
}

TEST(every_source_gets_its_event_and_the_exit_code_is_kept) {
        World w;

        world_init(&w, FEW);
        ASSERT_EQ_INT(run(&w, 0), EXIT_CODE);
        (void) end_fault();
        assert_all_seen(&w);
        world_done(&w);
}

#if !defined(IS_SANITIZED)
TEST(loop_has_room_for_usual_numbers_of_sources_from_the_start) {
        World w;

        world_init(&w, FEW);
        w.is_for_good = true;
        ASSERT_EQ_INT(run(&w, USEC_PER_SEC), EXIT_CODE);
        ASSERT_FALSE(end_fault()); /* there was nothing to fail */
        assert_all_seen(&w);
        ASSERT_EQ_UINT(w.n_lost, 0);
        world_done(&w);
}

/* Returns how many turns were lost. */
static unsigned fails_well(unsigned n, bool is_for_good, unsigned n_lost_max) {
        World w;
        int r;

        world_init(&w, MANY);
        w.fault = n;
        w.is_for_good = is_for_good;
        w.n_lost_max = n_lost_max;
        r = run(&w, 0);
        (void) end_fault();
        ASSERT_EQ_INT(r, EXIT_CODE);
        assert_all_seen(&w);
        world_done(&w);
        return w.n_lost;
}

TEST(every_source_gets_its_event_whichever_allocation_of_a_turn_fails) {
        unsigned n = 0;

        while (fails_well(n, /* is_for_good= */ false, 1) > 0)
                n++;
        printf("# %u allocations\n", n);
        ASSERT_TRUE(n >= 2); /* for what the kernel tells, and for the queue */
}

TEST(every_source_gets_its_event_when_there_is_memory_again_after_some_turns) {
        for (unsigned n = 0; n < 2; n++)
                ASSERT_EQ_UINT(fails_well(n, /* is_for_good= */ true, 4), 4);
}

/* Or the two before would say nothing. */
TEST(edge_is_lost_with_its_turn_unless_armed_anew) {
        World w;

        world_init(&w, MANY);
        w.fault = 1;
        w.n_lost_max = 1;
        w.is_rearmed = false;
        ASSERT_EQ_INT(sd_event_add_time_relative(w.event, NULL, CLOCK_MONOTONIC, 500 * USEC_PER_MSEC, 1,
                                                 on_stuck, &w), 0);
        ASSERT_EQ_INT(run(&w, 0), 1);
        (void) end_fault();
        ASSERT_EQ_UINT(w.n_lost, 1);
        ASSERT_EQ_UINT(w.n_signals, 1);
        ASSERT_EQ_UINT(w.n_due, 1);
        ASSERT_TRUE(w.n_seen < MANY + 2);
        world_done(&w);
}

TEST(loop_ends_when_memory_never_comes) {
        World w;

        world_init(&w, MANY);
        w.is_for_good = true;
        ASSERT_EQ_INT(run(&w, 50 * USEC_PER_MSEC), -ENOMEM);
        ASSERT_TRUE(end_fault());
        ASSERT_TRUE(w.n_lost >= 2);
        ASSERT_EQ_UINT(w.n_seen, 0);
        world_done(&w);
}
#endif
