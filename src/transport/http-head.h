/* SPDX-License-Identifier: MIT */
#pragma once

/* The head of a request, judged by the grammar of RFC 9112 and by nothing else: what is doubtful is refused,
 * for a proxy in front of us may have read it otherwise. */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

/* Request line and headers. It fits into what the kernel buffers for a connection. */
#define HTTP_HEAD_BYTES_MAX (32 * KIB)

enum {
        _HTTP_HEAD_E_SUCCESS,
        HTTP_HEAD_E_INCOMPLETE, /* good so far */
        HTTP_HEAD_E_BAD,        /* *ret says why */
};

typedef struct HttpHeadFault {
        unsigned status;
        const char *message; /* static */
} HttpHeadFault;

/* What has come of a connection's input up to now; a body behind the head is not looked at. */
int http_head_check(const char *data, size_t n_bytes, HttpHeadFault *ret);

/* The characters of a header's name; of its value: no control characters but the tabulator. */
bool http_is_header_name(const char *s, size_t n_bytes);
bool http_is_header_value(const char *s, size_t n_bytes);
