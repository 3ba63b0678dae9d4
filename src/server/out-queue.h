/* SPDX-License-Identifier: MIT */
#pragma once

/* OutQueue: bytes on their way to a descriptor that others share with us.
 *
 * Writes never block, yet the descriptor keeps its flags: O_NONBLOCK belongs to the open file, so setting it
 * on a terminal or on an inherited pipe would change it under its other owners, the shell among them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

typedef struct OutQueue {
        int fd; /* borrowed */
        bool is_socket, is_pipe;
        Buffer buffer;
} OutQueue;

void out_queue_init(OutQueue *q, int fd, size_t max_bytes);
void out_queue_done(OutQueue *q);
#define _cleanup_out_queue_ _cleanup_(out_queue_done)

/* Returns 0, -ENOMEM or -EMSGSIZE (max_bytes are waiting). Writes nothing yet. */
int out_queue_push(OutQueue *q, const void *data, size_t n_bytes);

static inline size_t out_queue_n_bytes(const OutQueue *q) {
        return q->buffer.n_bytes;
}

/* What to poll() the descriptor for. POLLERR and POLLHUP come unasked. */
short out_queue_events(const OutQueue *q);

/* After POLLOUT: writes what goes without waiting. Returns 0 or -errno (-EPIPE: nobody reads). */
int out_queue_flush(OutQueue *q);

/* Writes everything, waiting at most timeout_usec (UINT64_MAX: for ever). Returns 0, -ETIMEDOUT or -errno.
 */
int out_queue_drain(OutQueue *q, uint64_t timeout_usec);
