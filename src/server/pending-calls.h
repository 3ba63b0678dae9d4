/* SPDX-License-Identifier: MIT */
#pragma once

/* PendingCalls: which requests went to a server and have no answer yet, by the bytes of their ids. */

#include "base/buffer.h"

typedef struct PendingCalls {
        Buffer ids; /* each with a NUL; no id holds one */
        size_t n;
} PendingCalls;

void pending_calls_done(PendingCalls *p);

/* A line of the client: its requests are added, and those that it cancels, which get no answer, removed.
 * Returns 0 or -ENOMEM. */
int pending_calls_sent(PendingCalls *p, const char *line, size_t n_bytes);

/* A line of the server. */
void pending_calls_answered(PendingCalls *p, const char *line, size_t n_bytes);

/* Appends an error, a line each, for all of them; then none is left. Returns 0 or -ENOMEM. */
int pending_calls_fail(PendingCalls *p, const char *message, Buffer *b);
