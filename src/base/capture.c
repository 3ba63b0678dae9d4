/* SPDX-License-Identifier: MIT */

/* Capture: how the budget is split, and how text is cut out of it.
 *
 *      |<------------- n_total bytes of the stream ------------->|
 *      [ head: first max/2 ]   … left out …   [ ring: newest rest ]
 *
 * The ring grows like a plain array until its budget is used up; only then does it wrap. */

#include "base/capture.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"

#define ALLOCATION_MIN 1024

void capture_init(Capture *c, size_t max_bytes) {
        assert(c);

        *c = (Capture) { .max_bytes = max_bytes };
}

void capture_done(Capture *c) {
        assert(c);

        free(c->head);
        free(c->ring);
        *c = (Capture) { .max_bytes = c->max_bytes };
}

static int grow(char **p, size_t *n_allocated, size_t needed, size_t max_bytes) {
        size_t n;
        char *q;

        if (needed <= *n_allocated)
                return 0;
        n = needed < max_bytes / 2 ? needed * 2 : max_bytes;
        if (n < ALLOCATION_MIN)
                n = MIN_OF((size_t) ALLOCATION_MIN, max_bytes);
        q = realloc(*p, n);
        if (!q)
                return -ENOMEM;
        *p = q;
        *n_allocated = n;
        return 0;
}

int capture_push(Capture *c, const void *data, size_t n_bytes) {
        size_t head_max, ring_max, n_to_head, n_to_ring;
        const char *p = data;
        int r;

        assert(c);
        assert(data || n_bytes == 0);

        if (n_bytes == 0)
                return 0;
        head_max = c->max_bytes / 2;
        ring_max = c->max_bytes - head_max;
        n_to_head = MIN_OF(n_bytes, head_max - c->n_head);
        n_to_ring = n_bytes - n_to_head;

        /* Both before anything is copied: out of memory leaves a capture that still tells the truth. */
        r = grow(&c->head, &c->n_head_allocated, c->n_head + n_to_head, head_max);
        if (r < 0)
                return r;
        r = grow(&c->ring, &c->n_ring_allocated, c->n_ring + MIN_OF(n_to_ring, ring_max - c->n_ring),
                 ring_max);
        if (r < 0)
                return r;

        c->n_total += n_bytes;
        if (n_to_head > 0) {
                memcpy(c->head + c->n_head, p, n_to_head);
                c->n_head += n_to_head;
                p += n_to_head;
        }
        if (n_to_ring > ring_max) { /* only the newest of it can stay */
                p += n_to_ring - ring_max;
                n_to_ring = ring_max;
        }
        while (n_to_ring > 0) {
                bool is_full = c->n_ring == ring_max;
                size_t at = is_full ? c->ring_start : c->n_ring;
                size_t n = MIN_OF(n_to_ring, ring_max - at);

                memcpy(c->ring + at, p, n);
                if (is_full)
                        c->ring_start = (c->ring_start + n) % ring_max;
                else
                        c->n_ring += n;
                p += n;
                n_to_ring -= n;
        }
        return 0;
}

/* All kept bytes in their order, in one piece. *ret may be NULL when there are none. */
static int linearize(const Capture *c, char **ret, size_t *ret_bytes) {
        size_t n_bytes = c->n_head + c->n_ring, n_first = c->n_ring - c->ring_start;
        char *p = NULL;

        if (n_bytes > 0) {
                p = malloc(n_bytes);
                if (!p)
                        return -ENOMEM;
                if (c->n_head > 0)
                        memcpy(p, c->head, c->n_head);
                if (c->n_ring > 0) {
                        memcpy(p + c->n_head, c->ring + c->ring_start, n_first);
                        memcpy(p + c->n_head + n_first, c->ring, c->ring_start);
                }
        }
        *ret = p;
        *ret_bytes = n_bytes;
        return 0;
}

static bool is_blank(const char *text, size_t n_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
                if (!strchr(" \t\r\n\v\f", text[i]) || text[i] == 0)
                        return false;
        return true;
}

bool capture_ends_within_line(const Capture *c) {
        assert(c);

        if (c->n_ring > 0)
                return c->ring[(c->ring_start + c->n_ring - 1) % c->n_ring] != '\n';
        return c->n_head > 0 && c->head[c->n_head - 1] != '\n';
}

int capture_last_line(const Capture *c, bool wants_end, size_t max_bytes, Buffer *b) {
        _cleanup_free_ char *text = NULL;
        size_t n_text, first, begin, end;
        int r;

        assert(c);
        assert(b);

        r = linearize(c, &text, &n_text);
        if (r < 0)
                return r;
        /* Never join what stands on both sides of the gap to one line. */
        first = capture_is_complete(c) ? 0 : c->n_head;
        for (end = n_text; wants_end && end > first && text[end - 1] != '\n';)
                end--;
        if (wants_end && end > first && !is_blank(text + first, end - first))
                n_text = end;
        for (end = n_text; end > first; end--)
                if (!is_blank(text + end - 1, 1))
                        break;
        if (end == first)
                return 0;
        for (begin = end; begin > first && text[begin - 1] != '\n'; begin--)
                ;
        for (; end < n_text && text[end] != '\n'; end++) /* its own trailing blanks belong to it */
                ;
        return buffer_append(b, text + begin, MIN_OF(end - begin, max_bytes));
}

/* What a piece of text costs when shown: code points, and bytes of repaired UTF-8. */
typedef struct Cost {
        size_t n_chars, n_bytes;
} Cost;

/* One shown code point: a valid sequence, or a maximal run of bad bytes. Returns how many raw bytes it
 * covers. */
static size_t next_char(const char *s, size_t n, size_t *ret_shown_bytes) {
        size_t k = (unsigned char) s[0] < 0x80 ? 1 : utf8_sequence(s, n);

        if (k > 0) {
                *ret_shown_bytes = k;
                return k;
        }
        do
                k++;
        while (k < n && utf8_sequence(s + k, n - k) == 0);
        *ret_shown_bytes = 3; /* U+FFFD */
        return k;
}

#define STRIDE sizeof(uint64_t)

/* Eight characters at once: most output is ASCII, and a megabyte of it is looked at more than once. */
static bool is_ascii_stride(const char *s, size_t n) {
        uint64_t word;

        if (n < STRIDE)
                return false;
        memcpy(&word, s, STRIDE);
        return (word & UINT64_C(0x8080808080808080)) == 0;
}

/* Raw bytes at the start of s that fit into limit. *ret_cost: what they cost. */
static size_t fit(const char *s, size_t n, Cost limit, Cost *ret_cost) {
        Cost cost = {};
        size_t i = 0;

        while (i < n) {
                size_t n_shown, k;

                if (limit.n_chars - cost.n_chars >= STRIDE && limit.n_bytes - cost.n_bytes >= STRIDE &&
                    is_ascii_stride(s + i, n - i)) {
                        cost.n_chars += STRIDE;
                        cost.n_bytes += STRIDE;
                        i += STRIDE;
                        continue;
                }
                k = next_char(s + i, n - i, &n_shown);
                if (cost.n_chars + 1 > limit.n_chars || n_shown > limit.n_bytes - cost.n_bytes)
                        break;
                cost.n_chars++;
                cost.n_bytes += n_shown;
                i += k;
        }
        *ret_cost = cost;
        return i;
}

/* Raw bytes at the start of s to leave out so that the rest, whose cost is total, fits into limit. */
static size_t skip_to_fit(const char *s, size_t n, Cost total, Cost limit) {
        size_t i = 0;

        while (i < n && (total.n_chars > limit.n_chars || total.n_bytes > limit.n_bytes)) {
                size_t n_shown;

                if (total.n_chars >= limit.n_chars && total.n_chars - limit.n_chars >= STRIDE &&
                    is_ascii_stride(s + i, n - i)) {
                        total.n_chars -= STRIDE;
                        total.n_bytes -= STRIDE;
                        i += STRIDE;
                        continue;
                }
                i += next_char(s + i, n - i, &n_shown);
                total.n_chars--;
                total.n_bytes -= n_shown;
        }
        return i;
}

/* A sequence that the gap cut in two is left out rather than shown as broken: its start at the end of the
 * head … */
static size_t without_partial_end(const char *s, size_t n) {
        for (size_t k = 1; k <= 3 && k <= n; k++) {
                unsigned char c = (unsigned char) s[n - k];
                size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;

                if ((c & 0xc0) == 0x80)
                        continue;
                return length > k ? n - k : n;
        }
        return n;
}

/* … and its continuation bytes at the start of the tail. */
static size_t partial_start(const char *s, size_t n) {
        size_t k = 0;

        while (k < n && k < 3 && ((unsigned char) s[k] & 0xc0) == 0x80)
                k++;
        return k;
}

static size_t share(size_t available, size_t want_head, size_t want_tail, size_t *ret_tail) {
        size_t head = MIN_OF(want_head, available / 2);

        *ret_tail = MIN_OF(want_tail, available - head);
        return MIN_OF(want_head, available - *ret_tail); /* what the tail does not need is the head's */
}

/* Where head and tail may be taken from. */
typedef struct Source {
        const char *head, *tail;
        size_t n_head, n_tail;
} Source;

static Source find_source(const Capture *c, const char *text, size_t n_text) {
        Source s = { .head = text, .n_head = n_text, .tail = text, .n_tail = n_text };
        size_t n_partial;

        if (n_text == 0 || capture_is_complete(c))
                return s;
        s.n_head = without_partial_end(text, c->n_head);
        n_partial = partial_start(text + c->n_head, c->n_ring);
        s.tail = text + c->n_head + n_partial;
        s.n_tail = c->n_ring - n_partial;
        return s;
}

static int show_cut(const Source *source, uint64_t n_total, Cost limit, Buffer *b) {
        static const char marker_format[] = "\n[… %" PRIu64 " bytes left out …]\n";
        const Cost everything = { SIZE_MAX, SIZE_MAX };
        Cost head_cost, tail_cost, head_limit, tail_limit;
        size_t n_head, n_skipped, n_tail, n_marker_bytes, n_marker_chars;
        int r;

        /* The marker at its longest; "…" is one code point of three bytes, and there are two. */
        n_marker_bytes = (size_t) snprintf(NULL, 0, marker_format, n_total);
        n_marker_chars = n_marker_bytes - 4;
        if (limit.n_chars <= n_marker_chars || limit.n_bytes <= n_marker_bytes)
                /* No room to explain anything: just the beginning. */
                return utf8_repair(source->head, fit(source->head, source->n_head, limit, &head_cost), b);

        (void) fit(source->head, source->n_head, everything, &head_cost);
        (void) fit(source->tail, source->n_tail, everything, &tail_cost);
        head_limit.n_chars = share(limit.n_chars - n_marker_chars, head_cost.n_chars, tail_cost.n_chars,
                                   &tail_limit.n_chars);
        head_limit.n_bytes = share(limit.n_bytes - n_marker_bytes, head_cost.n_bytes, tail_cost.n_bytes,
                                   &tail_limit.n_bytes);
        n_head = fit(source->head, source->n_head, head_limit, &head_cost);
        n_skipped = skip_to_fit(source->tail, source->n_tail, tail_cost, tail_limit);
        n_tail = source->n_tail - n_skipped;

        r = utf8_repair(source->head, n_head, b);
        if (r < 0)
                return r;
        r = buffer_printf(b, marker_format, n_total - n_head - n_tail);
        if (r < 0)
                return r;
        return n_tail > 0 ? utf8_repair(source->tail + n_skipped, n_tail, b) : 0;
}

int capture_text_bounded(const Capture *c, size_t max_chars, size_t max_bytes, Buffer *b,
                         bool *ret_truncated) {
        const Cost limit = { max_chars, max_bytes };
        _cleanup_free_ char *text = NULL;
        bool is_whole;
        size_t n_text;
        Source source;
        Cost cost;
        int r;

        assert(c);
        assert(b);
        assert(ret_truncated);

        r = linearize(c, &text, &n_text);
        if (r < 0)
                return r;
        is_whole = capture_is_complete(c) && fit(text, n_text, limit, &cost) == n_text;
        if (is_whole)
                r = utf8_repair(text, n_text, b);
        else {
                source = find_source(c, text, n_text);
                r = show_cut(&source, c->n_total, limit, b);
        }
        if (r < 0)
                return r;
        *ret_truncated = !is_whole;
        return 0;
}

int capture_text(const Capture *c, size_t max_chars, Buffer *b, bool *ret_truncated) {
        return capture_text_bounded(c, max_chars, SIZE_MAX, b, ret_truncated);
}
