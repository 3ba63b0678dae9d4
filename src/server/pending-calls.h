/* SPDX-License-Identifier: MIT */
#pragma once

/* PendingCalls: which requests went to a server and have no answer yet, by the bytes of their ids. */

#include <stdbool.h>

#include "base/buffer.h"

typedef struct PendingCall {
        Buffer id;   /* empty: none that a server would answer under */
        Buffer line; /* empty: too long to be kept, or several messages */
        size_t batch; /* a number that is common to those, or 0 */
        bool is_refused; /* by a server that stops and had not begun it */
        bool is_question; /* carries out nothing */
} PendingCall;

typedef struct PendingCalls {
        PendingCall *calls; /* in their order */
        size_t n, n_allocated, n_line_bytes, n_batches;
} PendingCalls;

void pending_calls_done(PendingCalls *p);

/* A line of the client: its requests are added, and those that it cancels, which get no answer, removed.
 * Returns 0 or -ENOMEM. */
int pending_calls_sent(PendingCalls *p, const char *line, size_t n_bytes);

/* A line of the server. Returns true when it refuses a call that can be made again with the next server, and
 * so need not reach the client. */
bool pending_calls_answered(PendingCalls *p, const char *line, size_t n_bytes);

/* The line of the request that this line of the server answers, as far as it was kept, or NULL. */
const Buffer* pending_calls_find(const PendingCalls *p, const char *line, size_t n_bytes);

/* Whether a line of so many bytes would be kept. */
bool pending_calls_have_room(const PendingCalls *p, size_t n_bytes);

/* What the server has read is made again with the next one: what only asks; or all of it, for it carries out
 * nothing. */
void pending_calls_retry(PendingCalls *p, bool all);

/* The server is gone: appends the lines of refused calls to again, and an error for all others to errors, a
 * line each; those of a batch are one line, an array. Then none is left. Returns 0 or -ENOMEM. */
int pending_calls_end(PendingCalls *p, const char *message, Buffer *again, Buffer *errors);
