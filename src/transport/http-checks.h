/* SPDX-License-Identifier: MIT */
#pragma once

/* What HTTP headers must say before a body is looked at. Pure functions of text. */

#include <stdbool.h>

typedef enum HttpAccept {
        HTTP_ACCEPT_JSON = 1 << 0,
        HTTP_ACCEPT_SSE = 1 << 1,
} HttpAccept;

/* The reply forms a client takes; a missing header and wildcards mean both. */
unsigned http_accepts(const char *accept);

/* application/json, with or without parameters. */
bool http_is_json(const char *content_type);

/* No compression or the like, as without that header (NULL). */
bool http_is_identity(const char *content_encoding);

/* The attack: a web page whose name was rebound to this machine's address reaches us from the user's
 * browser; its own name then stands in Host (and Origin). Names of this machine are localhost, its
 * loopback addresses and the very address the connection came to (local_address, numeric; may be NULL);
 * allowed_hosts adds "name" or "name:port". */
bool http_host_is_allowed(const char *host, const char *local_address, char *const *allowed_hosts);

/* An origin of this machine by http or https, of an allowed host, or listed in full
 * ("https://app.example"). */
bool http_origin_is_allowed(const char *origin, char *const *allowed_hosts);

/* The origin's host and port are what stands in Host, letter case aside. */
bool http_origin_is_host(const char *origin, const char *host);
