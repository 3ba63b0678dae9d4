/* SPDX-License-Identifier: MIT */

/* Each turn of an sd_event may need memory: for what the kernel tells it, by the number of sources, and for
 * the queue of those that have something to do. sd_event_loop() ends without it. But the sd_event is as it
 * was before, so another turn is taken:
 *
 *   - room for many sources is made at the start, and libsystemd keeps it: most of the time nothing fails
 *   - what is missing beyond that is kept in reserve, and freed when a turn fails
 *   - a failed turn has lost the edges that it was told of (EPOLLET), and signals: see event-loop.h
 *   - it may have read a clock's timer descriptor, which is not readable again: the next turn must not wait,
 *     it finds by itself what is due */

#include "server/event-loop.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/timeutil.h"

/* At the start; both arrays together are some 30 KiB. */
#define ROOM_SOURCES 512
/* Enough for these arrays with the connections of several sockets, and below what malloc() would map. */
#define RESERVE_BYTES (64 * KIB)
#define PAUSE_MSEC 10
#define PATIENCE_USEC (5 * USEC_PER_SEC)
#define COMPLAINT_INTERVAL_USEC (60 * USEC_PER_SEC)

typedef struct Loop {
        const EventLoopParameters *p;
        void *reserve;
        bool is_failing;
        uint64_t failing_since_usec, next_complaint_usec;
} Loop;

static void complain(Loop *l, uint64_t now_usec) {
        if (now_usec < l->next_complaint_usec)
                return;
        l->next_complaint_usec = now_usec + COMPLAINT_INTERVAL_USEC;
        log_warning("Out of memory: everything waits for some, and perhaps again in the next minute");
}

/* Returns 0 when another turn may be taken, or -ENOMEM. */
static int lose_turn(Loop *l) {
        uint64_t now = now_monotonic_usec();

        if (!l->is_failing)
                l->failing_since_usec = now;
        l->is_failing = true;
        if (l->reserve) {
                free(l->reserve);
                l->reserve = NULL;
        } else if (now - l->failing_since_usec >= (l->p->patience_usec ?: PATIENCE_USEC))
                return -ENOMEM;
        else
                (void) poll(NULL, 0, PAUSE_MSEC);
        complain(l, now);
        if (l->p->on_lost_turn)
                l->p->on_lost_turn(l->p->userdata);
        return 0;
}

static int take_turn(Loop *l) {
        int r;

        r = sd_event_run(l->p->event, l->is_failing ? 0 : UINT64_MAX);
        if (r == -ENOMEM)
                return lose_turn(l);
        if (r < 0)
                return r;
        l->is_failing = false;
        if (!l->reserve)
                l->reserve = malloc(RESERVE_BYTES);
        return 0;
}

static int on_nothing(sd_event_source *source, void *userdata) {
        (void) source;
        (void) userdata;
        return 0;
}

/* By a first turn with that many sources, all of which have something to do. Where there is no memory for
 * them, there will perhaps be some when they are needed. */
static int take_first_turn(Loop *l) {
        sd_event_source *sources[ROOM_SOURCES];
        size_t n = 0;
        int r;

        while (n < ROOM_SOURCES && sd_event_add_defer(l->p->event, &sources[n], on_nothing, NULL) >= 0)
                n++;
        r = take_turn(l);
        while (n > 0)
                (void) sd_event_source_disable_unref(sources[--n]);
        return r;
}

int event_loop_run(const EventLoopParameters *p) {
        Loop l = { .p = p };
        int code = 0, r;

        assert(p);
        assert(p->event);

        l.reserve = malloc(RESERVE_BYTES);
        r = take_first_turn(&l);
        while (r >= 0 && sd_event_get_state(p->event) != SD_EVENT_FINISHED)
                r = take_turn(&l);
        free(l.reserve);
        if (r >= 0)
                r = sd_event_get_exit_code(p->event, &code);
        return r < 0 ? r : code;
}

int event_loop_watch_signals(sd_event *event, const int numbers[], size_t n_numbers,
                             sd_event_io_handler_t handler, void *userdata) {
        _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
        _cleanup_close_ int fd = -EBADF;
        sigset_t mask;
        int r;

        assert(event);
        assert(handler);

        (void) sigemptyset(&mask);
        for (size_t i = 0; i < n_numbers; i++)
                (void) sigaddset(&mask, numbers[i]);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return -errno;
        r = sd_event_add_io(event, &source, fd, EPOLLIN, handler, userdata);
        if (r < 0)
                return r;
        r = sd_event_source_set_io_fd_own(source, true);
        if (r < 0)
                return r;
        TAKE_FD(fd);
        return sd_event_source_set_floating(source, true);
}

int event_loop_read_signal(int fd) {
        struct signalfd_siginfo si;

        return read(fd, &si, sizeof(si)) == (ssize_t) sizeof(si) ? (int) si.ssi_signo : 0;
}
