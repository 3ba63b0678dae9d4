/* SPDX-License-Identifier: MIT */
#pragma once

/* Buffer: a growing run of bytes with a hard maximum. Used for everything a peer can make larger, and for
 * building text. data is NULL until the first append; then it is always NUL-terminated one byte past the
 * content, so text can be handed on as a string. data does not own the memory (see n_gap): free with
 * buffer_done(), take with buffer_steal(). */

#include <stdarg.h>
#include <stddef.h>

#include "base/macro.h"

typedef struct Buffer {
        char *data;
        size_t n_bytes;
        size_t n_allocated;
        size_t max_bytes; /* content beyond this is refused with -EMSGSIZE; 0 means no limit */
        size_t n_gap;     /* private: consumed bytes before data that still belong to the allocation */
} Buffer;

#define BUFFER_INIT(max) ((Buffer) { .max_bytes = (max) })

void buffer_done(Buffer *b);
#define _cleanup_buffer_ _cleanup_(buffer_done)

/* All of these return 0, -ENOMEM or -EMSGSIZE, and change nothing when they fail. */
int buffer_append(Buffer *b, const void *data, size_t n_bytes);
int buffer_append_str(Buffer *b, const char *s);
int buffer_printf(Buffer *b, const char *format, ...) _printf_(2, 3);
int buffer_vprintf(Buffer *b, const char *format, va_list ap) _printf_(2, 0);

/* Makes room for n_bytes more and returns where to write them; then buffer_commit() what was written. */
int buffer_reserve(Buffer *b, size_t n_bytes, void **ret);
void buffer_commit(Buffer *b, size_t n_bytes);

/* Drops n_bytes from the front, in constant time on average: many short lines in one large buffer cost no
 * more. */
void buffer_consume(Buffer *b, size_t n_bytes);

/* Gives the content away as a NUL-terminated string (never NULL on success); the buffer is empty
 * afterwards. */
int buffer_steal(Buffer *b, char **ret, size_t *ret_bytes);
