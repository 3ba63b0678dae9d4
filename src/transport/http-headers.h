/* SPDX-License-Identifier: MIT */
#pragma once

/* The headers of one request that we look at, and what they decide. */

#include <stdbool.h>
#include <stdint.h>

#include "transport/http-request.h"

/* Borrowed from the library where not noted; n_…: how often it came. */
typedef struct HttpHeaders {
        const char *host, *origin, *authorization, *x_mcp_auth, *content_type;
        const char *session_id, *protocol_version, *method, *name, *user, *transfer_encoding;
        const char *content_length_text, *content_encoding;
        unsigned n_host, n_origin, n_authorization, n_x_mcp_auth, n_content_type;
        unsigned n_session_id, n_protocol_version, n_method, n_name, n_user;
        unsigned n_transfer_encoding, n_content_length, n_content_encoding;
        Buffer accept;           /* owned: all of them, joined */
        uint64_t content_length; /* 0: unknown */
        bool expects_continue;
        bool is_malformed, is_too_long;
        bool is_ambiguous; /* where its body ends is a matter of opinion */
        int error;
} HttpHeaders;

int http_headers_read(HttpRequest *q, HttpHeaders *h);
void http_headers_done(HttpHeaders *h);

/* Sets the request's refusal, or what it needs of the headers. Returns 0 or -errno. */
int http_headers_check(HttpRequest *q, HttpHeaders *h, const char *path, const char *method);
