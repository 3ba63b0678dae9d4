/* SPDX-License-Identifier: MIT */
#pragma once

/* PendingCalls: which requests went to a server and have no answer yet, by the bytes of their ids. */

#include <stdbool.h>

#include "base/buffer.h"

typedef struct PendingCall {
        Buffer id;   /* empty: none that a server would answer under */
        Buffer line; /* empty: too long to be kept, or several messages */
        bool is_refused; /* by a server that stops and had not begun it */
} PendingCall;

typedef struct PendingCalls {
        PendingCall *calls; /* in their order */
        size_t n, n_allocated, n_line_bytes;
} PendingCalls;

void pending_calls_done(PendingCalls *p);

/* A line of the client: its requests are added, and those that it cancels, which get no answer, removed.
 * Returns 0 or -ENOMEM. */
int pending_calls_sent(PendingCalls *p, const char *line, size_t n_bytes);

/* A line of the server. Returns true when it refuses a call that can be made again with the next server, and
 * so need not reach the client. */
bool pending_calls_answered(PendingCalls *p, const char *line, size_t n_bytes);

/* The server is gone: appends the lines of refused calls to again, and an error, a line each, for all others
 * to errors. Then none is left. Returns 0 or -ENOMEM. */
int pending_calls_end(PendingCalls *p, const char *message, Buffer *again, Buffer *errors);
