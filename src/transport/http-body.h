/* SPDX-License-Identifier: MIT */
#pragma once

/* Where a request ends: its head, which is good, and the body that it announces. A chunked body is judged by
 * the grammar of RFC 9112 section 7.1, with CR LF wherever that says so. */

#include "transport/http-head.h"

/* The longest body that is read, if only to drop it: who is still sending does not read an answer. */
#define HTTP_DRAIN_BYTES_MAX (128 * MIB)
/* All trailers of a body together, and the line before one chunk. */
#define HTTP_TRAILERS_BYTES_MAX (4 * KIB)
#define HTTP_TRAILERS_MAX 32U
#define HTTP_CHUNK_LINE_BYTES_MAX 256U

typedef struct HttpBody {
        int state;
        bool is_chunked;
        uint64_t n_left;       /* bytes that are passed as they are: head, content, the content of a chunk */
        uint64_t chunk_bytes;  /* of the one whose line is being read */
        unsigned n_line_bytes; /* of that line, or of the trailers */
        unsigned n_trailers;
} HttpBody;

void http_body_init(HttpBody *b, const HttpHead *head);

/* The next bytes of the request, beginning with its head. *ret_n_good of them belong to it and are good:
 * all where it goes on (HTTP_HEAD_E_INCOMPLETE), those up to its end (0) or up to the fault. */
int http_body_push(HttpBody *b, const char *data, size_t n_bytes, size_t *ret_n_good, HttpFault *ret_fault);
