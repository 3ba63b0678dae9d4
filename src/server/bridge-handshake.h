/* SPDX-License-Identifier: MIT */
#pragma once

/* Handshake: what a client said once and a new connection must hear again, for the revisions that begin with
 * initialize. Those without it (2026-07-28) need nothing of this. */

#include <stdbool.h>

#include "base/buffer.h"

typedef struct Handshake {
        Buffer initialize;  /* the last one that was answered with a result: a line */
        Buffer id;          /* of it */
        Buffer initialized; /* a line as well, of whichever handshake */
        Buffer replay;      /* of both, to be sent before anything else */
        bool is_replaying;  /* the answer is not the client's */
} Handshake;

void handshake_done(Handshake *h);

/* A line went to the service. Returns 0 or -ENOMEM. */
int handshake_sent(Handshake *h, const char *line, size_t n_bytes);

/* The connection is lost; on the next one everything begins again. */
void handshake_lost(Handshake *h);
int handshake_replay(Handshake *h);

/* A line of the service that answers what the client did not ask. */
bool handshake_is_ours(Handshake *h, const char *line, size_t n_bytes);

/* Any other, and the request that it answers. Returns 0 or -ENOMEM. */
int handshake_answered(Handshake *h, const Buffer *request, const char *line, size_t n_bytes);

/* A client has made one, and could with the next service. */
bool handshake_is_done(const Handshake *h);
