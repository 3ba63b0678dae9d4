/* SPDX-License-Identifier: MIT */
#pragma once

/* Capture: the first and the last bytes of a stream of any length, within a fixed budget.
 *
 * The head takes the first half of the budget, a ring takes the newest bytes of the rest; while everything
 * fits, everything is kept. Memory grows only as far as bytes come. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

typedef struct Capture {
        size_t max_bytes;
        uint64_t n_total; /* bytes ever pushed */
        char *head;
        size_t n_head, n_head_allocated;
        char *ring;
        size_t n_ring, ring_start, n_ring_allocated;
} Capture;

void capture_init(Capture *c, size_t max_bytes);
void capture_done(Capture *c);

/* Returns 0 or -ENOMEM. */
int capture_push(Capture *c, const void *data, size_t n_bytes);

static inline bool capture_is_complete(const Capture *c) {
        return c->n_total == c->n_head + c->n_ring;
}

/* Bytes left out between head and tail. */
static inline uint64_t capture_omitted(const Capture *c) {
        return c->n_total - c->n_head - c->n_ring;
}

/* Whether the newest byte is not the end of a line. */
bool capture_ends_within_line(const Capture *c);

/* The newest line that is not blank (without its newline), at most max_bytes of it, appended raw to b.
 * wants_end: one that has ended, if there is any. */
int capture_last_line(const Capture *c, bool wants_end, size_t max_bytes, Buffer *b);

/* Appends valid UTF-8 text showing at most max_chars code points: all of it, or a head, a line "\n[… N bytes
 * left out …]\n", and a tail, cut at code point borders. Invalid sequences: every maximal run of bad bytes
 * becomes one U+FFFD. *ret_truncated: whether anything is missing. Returns 0 or -ENOMEM. */
int capture_text(const Capture *c, size_t max_chars, Buffer *b, bool *ret_truncated);

/* The same with a limit on the bytes of the text as well. The line that tells what is left out counts
 * towards both limits; where they have no room for it only a head is shown. */
int capture_text_bounded(const Capture *c, size_t max_chars, size_t max_bytes, Buffer *b,
                         bool *ret_truncated);

/* One page of what is kept, as valid UTF-8: the bytes from offset on (counted in the stream as it was
 * written), at most max_bytes and the rest of a character. Bytes that were not kept are told once, by a line
 * in the page before them. *ret_next: the offset of the next page; n_total when there is none. Returns 0 or
 * -ENOMEM. */
int capture_slice(const Capture *c, uint64_t offset, size_t max_bytes, Buffer *b, uint64_t *ret_next);

/* Where the stream ends, without the begin of a character whose rest may still come. */
uint64_t capture_end(const Capture *c);
