/* SPDX-License-Identifier: MIT */

/* Writing without blocking and without O_NONBLOCK.
 *
 * A socket takes MSG_DONTWAIT. A pipe that poll() reports writable has at least one free page, so a write of
 * PIPE_BUF bytes does not block. Regular files and devices do not block for long. */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/timeutil.h"
#include "server/out-queue.h"

#define WRITE_BYTES_MAX (64 * KIB)

void out_queue_init(OutQueue *q, int fd, size_t max_bytes) {
        struct stat st;

        assert(q);
        assert(fd >= 0);

        *q = (OutQueue) { .fd = fd, .buffer = BUFFER_INIT(max_bytes) };
        if (fstat(fd, &st) >= 0) {
                q->is_socket = S_ISSOCK(st.st_mode);
                q->is_pipe = S_ISFIFO(st.st_mode);
        }
}

void out_queue_done(OutQueue *q) {
        assert(q);
        buffer_done(&q->buffer);
}

int out_queue_push(OutQueue *q, const void *data, size_t n_bytes) {
        assert(q);
        return buffer_append(&q->buffer, data, n_bytes);
}

short out_queue_events(const OutQueue *q) {
        assert(q);
        return out_queue_n_bytes(q) > 0 ? POLLOUT : 0;
}

static ssize_t write_some(const OutQueue *q, const char *data, size_t n_bytes) {
        if (q->is_socket)
                return send(q->fd, data, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        return write(q->fd, data,
                     MIN_OF(n_bytes, q->is_pipe ? (size_t) PIPE_BUF : (size_t) WRITE_BYTES_MAX));
}

static bool is_writable(const OutQueue *q) {
        struct pollfd p = { .fd = q->fd, .events = POLLOUT };

        return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

int out_queue_flush(OutQueue *q) {
        assert(q);

        for (size_t n_written = 0; out_queue_n_bytes(q) > 0 && n_written < WRITE_BYTES_MAX;) {
                ssize_t n = write_some(q, q->buffer.data, q->buffer.n_bytes);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        if (errno == EAGAIN)
                                return 0;
                        return errno == ECONNRESET ? -EPIPE : -errno;
                }
                buffer_consume(&q->buffer, (size_t) n);
                n_written += (size_t) n;
                if (!q->is_socket && !is_writable(q))
                        return 0;
        }
        return 0;
}

int out_queue_drain(OutQueue *q, uint64_t timeout_usec) {
        uint64_t end;
        int r;

        assert(q);

        end = timeout_usec == UINT64_MAX ? UINT64_MAX : now_monotonic_usec() + timeout_usec;
        while (out_queue_n_bytes(q) > 0) {
                struct pollfd p = { .fd = q->fd, .events = POLLOUT };
                uint64_t now = now_monotonic_usec();
                int timeout_msec = -1;

                if (now >= end)
                        return -ETIMEDOUT;
                if (end != UINT64_MAX)
                        timeout_msec = (int) MIN_OF((end - now) / USEC_PER_MSEC + 1, (uint64_t) INT_MAX);
                if (poll(&p, 1, timeout_msec) < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (p.revents & POLLOUT) {
                        r = out_queue_flush(q);
                        if (r < 0)
                                return r;
                } else if (p.revents & (POLLERR | POLLHUP | POLLNVAL))
                        return -EPIPE;
        }
        return 0;
}
