/* SPDX-License-Identifier: MIT */

/* Buffer: one allocation, laid out as [n_gap consumed bytes][n_bytes content][NUL][room]. data points at the
 * content. Consuming only moves data forward; the content moves back to the start once the gap is as large
 * as the content, so that every byte is moved at most once for each byte consumed. */

#include "base/buffer.h"

#include <stdio.h>

#define BUFFER_MIN_ALLOCATED 64

static char* buffer_base(const Buffer *b) {
        return b->data ? b->data - b->n_gap : NULL;
}

void buffer_done(Buffer *b) {
        assert(b);

        free(buffer_base(b));
        *b = BUFFER_INIT(b->max_bytes);
}

static void buffer_compact(Buffer *b) {
        char *base = buffer_base(b);

        if (b->n_gap == 0)
                return;
        assert(base); /* without data there is no gap */
        memmove(base, b->data, b->n_bytes + 1);
        b->data = base;
        b->n_gap = 0;
}

/* Room for n_bytes more and the NUL behind them. */
static int buffer_make_room(Buffer *b, size_t n_bytes) {
        size_t needed, allocated;
        char *p;

        if (__builtin_add_overflow(b->n_bytes, n_bytes, &needed))
                return -ENOMEM;
        if (b->max_bytes > 0 && needed > b->max_bytes)
                return -EMSGSIZE;
        if (__builtin_add_overflow(needed, 1, &needed) || needed > PTRDIFF_MAX)
                return -ENOMEM;
        if (b->data && needed <= b->n_allocated - b->n_gap)
                return 0;

        buffer_compact(b);
        if (b->data && needed <= b->n_allocated)
                return 0;

        /* Twice as much each time, or appending byte by byte would cost quadratic time. */
        if (__builtin_mul_overflow(b->n_allocated, 2, &allocated))
                allocated = needed;
        allocated = MAX_OF(allocated, needed);
        if (allocated < BUFFER_MIN_ALLOCATED)
                allocated = BUFFER_MIN_ALLOCATED;
        p = realloc(b->data, allocated);
        if (!p)
                return -ENOMEM;
        if (!b->data)
                p[0] = 0;
        b->data = p;
        b->n_allocated = allocated;
        return 0;
}

int buffer_append(Buffer *b, const void *data, size_t n_bytes) {
        int r;

        assert(b);
        assert(data || n_bytes == 0);

        r = buffer_make_room(b, n_bytes);
        if (r < 0)
                return r;
        if (n_bytes > 0)
                memcpy(b->data + b->n_bytes, data, n_bytes);
        buffer_commit(b, n_bytes);
        return 0;
}

int buffer_append_str(Buffer *b, const char *s) {
        assert(s);

        return buffer_append(b, s, strlen(s));
}

int buffer_printf(Buffer *b, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = buffer_vprintf(b, format, ap);
        va_end(ap);
        return r;
}

int buffer_vprintf(Buffer *b, const char *format, va_list ap) {
        va_list again;
        int n, r;

        assert(b);
        assert(format);

        va_copy(again, ap);
        n = vsnprintf(NULL, 0, format, again);
        va_end(again);
        if (n < 0)
                return -ENOMEM;

        r = buffer_make_room(b, (size_t) n);
        if (r < 0)
                return r;
        n = vsnprintf(b->data + b->n_bytes, (size_t) n + 1, format, ap);
        if (n < 0) {
                b->data[b->n_bytes] = 0;
                return -ENOMEM;
        }
        buffer_commit(b, (size_t) n);
        return 0;
}

int buffer_reserve(Buffer *b, size_t n_bytes, void **ret) {
        int r;

        assert(b);
        assert(ret);

        r = buffer_make_room(b, n_bytes);
        if (r < 0)
                return r;
        *ret = b->data + b->n_bytes;
        return 0;
}

void buffer_commit(Buffer *b, size_t n_bytes) {
        assert(b);
        assert(b->data);
        assert(n_bytes < b->n_allocated - b->n_gap - b->n_bytes);

        b->n_bytes += n_bytes;
        b->data[b->n_bytes] = 0;
}

void buffer_consume(Buffer *b, size_t n_bytes) {
        assert(b);
        assert(n_bytes <= b->n_bytes);

        if (n_bytes == 0)
                return;
        b->data += n_bytes;
        b->n_gap += n_bytes;
        b->n_bytes -= n_bytes;
        if (b->n_gap >= b->n_bytes)
                buffer_compact(b);
}

int buffer_steal(Buffer *b, char **ret, size_t *ret_bytes) {
        size_t n_bytes;
        int r;

        assert(b);
        assert(ret);

        r = buffer_make_room(b, 0);
        if (r < 0)
                return r;
        buffer_compact(b);
        n_bytes = b->n_bytes;
        *ret = TAKE_PTR(b->data);
        if (ret_bytes)
                *ret_bytes = n_bytes;
        *b = BUFFER_INIT(b->max_bytes);
        return 0;
}
