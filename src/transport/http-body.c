/* SPDX-License-Identifier: MIT */

#include "transport/http-body.h"

#include <ctype.h>

/*   PLAIN ─► (content of one Content-Length) ─► END
 *     └────► SIZE ─► SIZE_LF ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE …
 *                                     └ size 0 ─► LINE ─► END_LF ─► END
 *                                                  └► NAME ─► VALUE ─► LINE_LF ─► LINE … */
enum {
        BODY_PLAIN, /* head and content */
        BODY_SIZE_FIRST,
        BODY_SIZE,
        BODY_SIZE_LF,
        BODY_DATA,
        BODY_DATA_CR,
        BODY_DATA_LF,
        BODY_TRAILER_LINE,
        BODY_TRAILER_NAME,
        BODY_TRAILER_VALUE,
        BODY_TRAILER_LF,
        BODY_END_LF,
        BODY_END,
};

static const HttpFault
        fault_chunk = { 400, "A chunk of the body is not its size in hexadecimal, CR LF, that many bytes, "
                             "CR LF." },
        fault_extension = { 400, "Chunks with extensions are not taken." },
        fault_chunk_line = { 400, "The line before a chunk of the body is longer than the server takes." },
        fault_chunk_bytes = { 413, "A chunk of the body is longer than the server takes." },
        fault_trailer = { 400, "A trailer of the body is not a name, a colon and a value on one line." },
        fault_trailers = { 431, "The trailers of the body are longer than the server takes." };

void http_body_init(HttpBody *b, const HttpHead *head) {
        assert(b);
        assert(head);

        *b = (HttpBody) {
                .is_chunked = head->is_chunked,
                .n_left = head->n_bytes + head->n_content_bytes,
        };
}

static const HttpFault* push_size(HttpBody *b, char c) {
        bool is_digit = isxdigit((unsigned char) c);

        if (!is_digit && b->state == BODY_SIZE_FIRST)
                return &fault_chunk;
        /* Not even known ones are taken: releases of the library lose count of the bytes behind them. */
        if (c == ';')
                return &fault_extension;
        if (!is_digit) {
                b->state = BODY_SIZE_LF;
                return c == '\r' ? NULL : &fault_chunk;
        }
        b->state = BODY_SIZE;
        b->chunk_bytes = b->chunk_bytes * 16 +
                         (uint64_t) (isdigit((unsigned char) c) ? c - '0' : (c | 0x20) - 'a' + 10);
        return b->chunk_bytes > HTTP_DRAIN_BYTES_MAX ? &fault_chunk_bytes : NULL;
}

static const HttpFault* push_size_end(HttpBody *b, char c) {
        if (c != '\n')
                return &fault_chunk;
        b->n_left = b->chunk_bytes;
        b->state = b->chunk_bytes > 0 ? BODY_DATA : BODY_TRAILER_LINE;
        b->n_line_bytes = 0;
        return NULL;
}

static const HttpFault* push_trailer(HttpBody *b, char c) {
        if (b->state == BODY_TRAILER_LINE && c == '\r')
                b->state = BODY_END_LF;
        else if (b->state == BODY_TRAILER_NAME && c == ':')
                b->state = BODY_TRAILER_VALUE;
        else if (b->state == BODY_TRAILER_VALUE && c == '\r')
                b->state = BODY_TRAILER_LF;
        else if (b->state == BODY_TRAILER_VALUE)
                return http_is_header_value(&c, 1) ? NULL : &fault_trailer;
        else if (http_is_header_name(&c, 1)) {
                if (b->state == BODY_TRAILER_LINE && ++b->n_trailers > HTTP_TRAILERS_MAX)
                        return &fault_trailers;
                b->state = BODY_TRAILER_NAME;
        }
        else
                return &fault_trailer;
        return NULL;
}

/* One byte of what stands around content. */
static const HttpFault* push_byte(HttpBody *b, char c) {
        bool is_trailer = b->state >= BODY_TRAILER_LINE;

        if (++b->n_line_bytes > (is_trailer ? HTTP_TRAILERS_BYTES_MAX : HTTP_CHUNK_LINE_BYTES_MAX))
                return is_trailer ? &fault_trailers : &fault_chunk_line;
        switch (b->state) {
        case BODY_SIZE_FIRST:
        case BODY_SIZE:
                return push_size(b, c);
        case BODY_SIZE_LF:
                return push_size_end(b, c);
        case BODY_DATA_CR:
                b->state = BODY_DATA_LF;
                return c == '\r' ? NULL : &fault_chunk;
        case BODY_DATA_LF:
                b->state = BODY_SIZE_FIRST;
                b->chunk_bytes = 0;
                b->n_line_bytes = 0;
                return c == '\n' ? NULL : &fault_chunk;
        case BODY_TRAILER_LF:
                b->state = BODY_TRAILER_LINE;
                return c == '\n' ? NULL : &fault_trailer;
        case BODY_END_LF:
                b->state = BODY_END;
                return c == '\n' ? NULL : &fault_trailer;
        default:
                return push_trailer(b, c);
        }
}

/* What comes after bytes that were passed as they are. */
static void content_end(HttpBody *b) {
        b->n_line_bytes = 0;
        if (b->state == BODY_DATA)
                b->state = BODY_DATA_CR;
        else
                b->state = b->is_chunked ? BODY_SIZE_FIRST : BODY_END;
}

int http_body_push(HttpBody *b, const char *data, size_t n_bytes, size_t *ret_n_good, HttpFault *ret_fault) {
        size_t n_good = 0;

        assert(b);
        assert(data || n_bytes == 0);
        assert(ret_n_good);
        assert(ret_fault);

        while (b->state != BODY_END && n_good < n_bytes) {
                const HttpFault *fault;

                if (b->n_left > 0) {
                        size_t n = (size_t) MIN_OF(b->n_left, (uint64_t) (n_bytes - n_good));

                        n_good += n;
                        b->n_left -= n;
                        if (b->n_left == 0)
                                content_end(b);
                        continue;
                }
                fault = push_byte(b, data[n_good]);
                if (fault) {
                        *ret_n_good = n_good;
                        *ret_fault = *fault;
                        return HTTP_HEAD_E_BAD;
                }
                n_good++;
        }
        *ret_n_good = n_good;
        return b->state == BODY_END ? 0 : HTTP_HEAD_E_INCOMPLETE;
}
