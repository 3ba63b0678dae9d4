/* SPDX-License-Identifier: MIT */

/* Pages of a capture, by offsets into the stream as it was written.
 *
 *      0             n_head                  n_total - n_ring        n_total
 *      [ head ......... ]   … not kept …     [ ring ............... ]
 *
 * A character belongs to the page in which its first byte is, so that pages put together are the text. */

#include <inttypes.h>

#include "base/capture.h"
#include "base/utf8.h"

/* Bytes of a UTF-8 sequence after its first one. */
#define CONTINUATION_BYTES_MAX 3

static uint64_t ring_begin(const Capture *c) {
        return c->n_total - c->n_ring;
}

static bool is_kept(const Capture *c, uint64_t at) {
        return at < c->n_head || (at >= ring_begin(c) && at < c->n_total);
}

static unsigned char byte_at(const Capture *c, uint64_t at) {
        if (at < c->n_head)
                return (unsigned char) c->head[at];
        return (unsigned char) c->ring[(c->ring_start + (at - ring_begin(c))) % c->n_ring];
}

/* Where the character ends into whose middle `at` may point. */
static uint64_t character_end(const Capture *c, uint64_t at) {
        for (int i = 0; i < CONTINUATION_BYTES_MAX && is_kept(c, at) && (byte_at(c, at) & 0xc0) == 0x80; i++)
                at++;
        return at;
}

static int append_kept(const Capture *c, uint64_t from, uint64_t to, Buffer *b) {
        _cleanup_buffer_ Buffer raw = BUFFER_INIT(0);
        void *space;
        int r;

        if (from >= to)
                return 0;
        r = buffer_reserve(&raw, (size_t) (to - from), &space);
        if (r < 0)
                return r;
        for (uint64_t at = from; at < to; at++)
                ((unsigned char*) space)[at - from] = byte_at(c, at);
        buffer_commit(&raw, (size_t) (to - from));
        return utf8_repair(raw.data, raw.n_bytes, b);
}

int capture_slice(const Capture *c, uint64_t offset, size_t max_bytes, Buffer *b, uint64_t *ret_next) {
        uint64_t from, to;
        bool has_gap;
        int r;

        assert(c);
        assert(max_bytes > 0);
        assert(b);
        assert(ret_next);

        from = MIN_OF(offset, c->n_total);
        to = max_bytes < c->n_total - from ? from + max_bytes : c->n_total;
        has_gap = !capture_is_complete(c);

        if (from < c->n_head) {
                uint64_t end = MIN_OF(to, (uint64_t) c->n_head);

                r = append_kept(c, from > 0 ? character_end(c, from) : 0, character_end(c, end), b);
                if (r < 0)
                        return r;
        }
        /* Told once, in the page that ends what stands before the gap. */
        if (has_gap && (from < c->n_head || from == 0) && to >= c->n_head) {
                r = buffer_printf(b, "\n[… %" PRIu64 " bytes were not kept …]\n", capture_omitted(c));
                if (r < 0)
                        return r;
        }
        if (c->n_ring > 0 && to > ring_begin(c)) {
                uint64_t begin = MAX_OF(from, ring_begin(c));

                /* Behind the gap, and in the first page, no page before it can have taken a part of it. */
                if (has_gap ? from > ring_begin(c) : from > 0 || c->n_head > 0)
                        begin = character_end(c, begin);
                r = append_kept(c, begin, character_end(c, to), b);
                if (r < 0)
                        return r;
        }

        *ret_next = has_gap && to >= c->n_head && to < ring_begin(c) ? ring_begin(c) : to;
        return 0;
}

uint64_t capture_end(const Capture *c) {
        assert(c);

        for (unsigned n = 1; n <= CONTINUATION_BYTES_MAX && is_kept(c, c->n_total - n); n++) {
                unsigned char byte = byte_at(c, c->n_total - n);
                unsigned n_needed = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 :
                                    byte >= 0xc0 && byte < 0xe0 ? 2 : 1;

                if ((byte & 0xc0) != 0x80)
                        return n_needed > n ? c->n_total - n : c->n_total;
        }
        return c->n_total;
}
