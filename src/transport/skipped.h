/* SPDX-License-Identifier: MIT */
#pragma once

/* SkippedMessage: what must be known of a message that is not kept, to refuse it under its own id. */

#include <stddef.h>

#include "base/buffer.h"

/* The end of the message, where most clients put the id. */
#define SKIPPED_TAIL_BYTES 512

typedef struct SkippedMessage {
        Buffer id;    /* {"id":…}, empty while unknown */
        char tail[SKIPPED_TAIL_BYTES];
        size_t n_tail;
} SkippedMessage;

/* The first bytes of the message, as many as were kept; before or after the others are pushed. */
void skipped_head(SkippedMessage *s, const char *head, size_t n_bytes);
/* The next bytes of it. */
void skipped_push(SkippedMessage *s, const char *data, size_t n_bytes);
/* Ready for another message. */
void skipped_done(SkippedMessage *s);

/* At the end of the message: appends the error reply, with the id if one was seen. Returns 0 or -ENOMEM. */
int skipped_error(SkippedMessage *s, int code, const char *message, Buffer *b);
