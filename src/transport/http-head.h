/* SPDX-License-Identifier: MIT */
#pragma once

/* The head of a request, judged by the grammar of RFC 9112 and by nothing else: what is doubtful is refused,
 * for a proxy in front of us may have read it otherwise. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

/* Request line and headers. It fits into what the kernel buffers for a connection. */
#define HTTP_HEAD_BYTES_MAX (32 * KIB)
/* Headers, cookies and parameters of the address together: the library keeps an account of each, for which
 * it has no more memory than for the head, and fails in ways that no client understands when that ends. */
#define HTTP_PARTS_MAX 256U

enum {
        _HTTP_HEAD_E_SUCCESS,
        HTTP_HEAD_E_INCOMPLETE, /* good so far */
        HTTP_HEAD_E_BAD,        /* *ret_fault says why */
};

typedef struct HttpFault {
        unsigned status;
        const char *message; /* static */
} HttpFault;

typedef struct HttpHead {
        size_t n_blank_bytes;     /* blank lines before it, which need not be passed on */
        size_t n_bytes;           /* without them */
        bool is_absolute;         /* the address begins with a scheme and the host that Host names */
        bool is_chunked;          /* otherwise the body has */
        uint64_t n_content_bytes; /* this many bytes */
} HttpHead;

/* What has come of a connection's input up to now; a body behind the head is not looked at. ret is set on
 * success, ret_fault when it is bad. */
int http_head_check(const char *data, size_t n_bytes, HttpHead *ret, HttpFault *ret_fault);

/* The characters of a header's name; of its value: no control characters but the tabulator. */
bool http_is_header_name(const char *s, size_t n_bytes);
bool http_is_header_value(const char *s, size_t n_bytes);
