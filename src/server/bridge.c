/* SPDX-License-Identifier: MIT */

/* Copies bytes both ways until the client has had enough.
 *
 *   stdin  ──► to_service ──► socket     at its end: shutdown(SHUT_WR), then the service cancels
 *   stdout ◄── to_client  ◄── socket     at its end: we are done
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/timeutil.h"
#include "server/bridge.h"
#include "server/command.h"
#include "server/out-queue.h"

/* Reading stops while this much waits for the other side: memory is bounded, and pressure reaches the
 * sender. */
#define QUEUE_BYTES_MAX (256 * KIB)
#define CHUNK_BYTES (64 * KIB)

/* After the client's end of file the service has this long to end the conversation. */
#define GOODBYE_USEC (2 * USEC_PER_SEC)

enum { POLL_STDIN, POLL_STDOUT, POLL_SERVICE, POLL_SIGNALS, _POLL_MAX };

typedef struct Bridge {
        int service_fd, signal_fd;
        bool has_input_ended, has_shut_down;
        bool is_refused; /* the service takes no more: it is stopping */
        uint64_t end_usec; /* after the client's end of file */
        OutQueue to_service, to_client;
        int exit_status; /* < 0: go on */
} Bridge;

/* Returns the number of bytes moved into the queue, 0 at the end of file, -EAGAIN or another -errno. */
static ssize_t fill(OutQueue *q, int fd) {
        char chunk[CHUNK_BYTES];
        ssize_t n;
        int r;

        n = read(fd, chunk, sizeof(chunk));
        if (n < 0)
                return errno == EINTR ? -EAGAIN : -errno;
        r = out_queue_push(q, chunk, (size_t) n);
        return r < 0 ? r : n;
}

static bool has_room(const OutQueue *q) {
        return out_queue_n_bytes(q) + CHUNK_BYTES <= QUEUE_BYTES_MAX;
}

static void input_ended(Bridge *b) {
        b->has_input_ended = true;
        b->end_usec = now_monotonic_usec() + GOODBYE_USEC;
}

static void service_ended(Bridge *b) {
        (void) out_queue_drain(&b->to_client, GOODBYE_USEC);
        if (!b->has_input_ended)
                log_error("The system service ended the conversation: start the server again (see "
                          "\"journalctl -u mcp-exec\")");
        b->exit_status = b->has_input_ended ? COMMAND_OK : COMMAND_FAILED;
}

static void handle_client(Bridge *b, const struct pollfd *fds) {
        ssize_t n;

        if (fds[POLL_STDIN].revents) {
                n = fill(&b->to_service, STDIN_FILENO);
                if (n <= 0 && n != -EAGAIN)
                        input_ended(b);
        }
        if ((fds[POLL_STDOUT].revents & POLLOUT) && out_queue_flush(&b->to_client) < 0)
                b->exit_status = COMMAND_OK; /* the client is gone */
        else if (!(fds[POLL_STDOUT].revents & POLLOUT) && (fds[POLL_STDOUT].revents & (POLLERR | POLLNVAL)))
                b->exit_status = COMMAND_OK;
}

static void handle_service(Bridge *b, const struct pollfd *fds) {
        ssize_t n;

        /* What it said last is still there to be read, and then its end. */
        if ((fds[POLL_SERVICE].revents & POLLOUT) && !b->is_refused && out_queue_flush(&b->to_service) < 0)
                b->is_refused = true;
        if (fds[POLL_SERVICE].revents & (POLLIN | POLLHUP | POLLERR)) {
                n = has_room(&b->to_client) ? fill(&b->to_client, b->service_fd) : -EAGAIN;
                if (n <= 0 && n != -EAGAIN) {
                        service_ended(b);
                        return;
                }
        }
        if (b->has_input_ended && !b->has_shut_down && !b->is_refused &&
            out_queue_n_bytes(&b->to_service) == 0) {
                (void) shutdown(b->service_fd, SHUT_WR);
                b->has_shut_down = true;
        }
}

static int turn(Bridge *b) {
        struct pollfd fds[_POLL_MAX] = {
                [POLL_STDIN] = { .fd = !b->has_input_ended && has_room(&b->to_service) && !b->is_refused ?
                                       STDIN_FILENO : -1,
                                 .events = POLLIN },
                [POLL_STDOUT] = { .fd = STDOUT_FILENO, .events = out_queue_events(&b->to_client) },
                [POLL_SERVICE] = { .fd = b->service_fd,
                                   .events = b->is_refused ? 0 : out_queue_events(&b->to_service) },
                [POLL_SIGNALS] = { .fd = b->signal_fd, .events = POLLIN },
        };
        int timeout_msec = -1;

        if (has_room(&b->to_client))
                fds[POLL_SERVICE].events |= POLLIN;
        else if (!fds[POLL_SERVICE].events)
                fds[POLL_SERVICE].fd = -1; /* or a hang-up that we are not ready to read would spin */

        if (b->has_input_ended) {
                uint64_t now = now_monotonic_usec();
                if (now >= b->end_usec) {
                        b->exit_status = COMMAND_OK;
                        return 0;
                }
                timeout_msec = (int) ((b->end_usec - now) / USEC_PER_MSEC + 1);
        }

        if (poll(fds, ELEMENTSOF(fds), timeout_msec) < 0)
                return errno == EINTR ? 0 : -errno;

        if (fds[POLL_SIGNALS].revents) {
                b->exit_status = COMMAND_OK;
                return 0;
        }
        handle_client(b, fds);
        if (b->exit_status < 0)
                handle_service(b, fds);
        return 0;
}

int bridge_run(int take_fd) {
        _cleanup_close_ int service_fd = take_fd, signal_fd = -EBADF;
        Bridge b = { .service_fd = service_fd, .exit_status = -1 };
        int r = 0;

        assert(take_fd >= 0);

        signal_fd = command_signal_fd();
        if (signal_fd < 0) {
                (void) log_error_errno(signal_fd, "Cannot watch for signals");
                return COMMAND_FAILED;
        }
        b.signal_fd = signal_fd;
        out_queue_init(&b.to_service, service_fd, QUEUE_BYTES_MAX);
        out_queue_init(&b.to_client, STDOUT_FILENO, QUEUE_BYTES_MAX);

        while (r >= 0 && b.exit_status < 0)
                r = turn(&b);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot copy between the client and the system service");
                b.exit_status = COMMAND_FAILED;
        }

        out_queue_done(&b.to_client);
        out_queue_done(&b.to_service);
        return b.exit_status;
}
