/* SPDX-License-Identifier: MIT */

/* Headers to decisions. Comparisons are of whole names: "localhost.evil.example" is not localhost. */

#include "transport/http-checks.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/strv.h"

/* A run of text, not terminated. */
typedef struct Span {
        const char *p;
        size_t n;
} Span;

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static Span span_trim(Span s) {
        while (s.n > 0 && is_blank(s.p[0])) {
                s.p++;
                s.n--;
        }
        while (s.n > 0 && is_blank(s.p[s.n - 1]))
                s.n--;
        return s;
}

static bool span_is(Span s, const char *text) {
        return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

/* Cuts the text before the next delimiter out of *rest. */
static Span span_next(Span *rest, char delimiter) {
        const char *end = rest->n > 0 ? memchr(rest->p, delimiter, rest->n) : NULL;
        Span item = { rest->p, end ? (size_t) (end - rest->p) : rest->n };
        size_t n_gone = end ? item.n + 1 : item.n;

        rest->p += n_gone;
        rest->n -= n_gone;
        return item;
}

/* "q=0" (or 0.0, 0.000) means: not this one (RFC 9110 §12.4.2). */
static bool is_refused_by_weight(Span parameters) {
        while (parameters.n > 0) {
                Span p = span_trim(span_next(&parameters, ';'));

                if (p.n >= 3 && strncasecmp(p.p, "q=0", 3) == 0) {
                        size_t i = 3;

                        while (i < p.n && (p.p[i] == '0' || p.p[i] == '.'))
                                i++;
                        if (i == p.n)
                                return true;
                }
        }
        return false;
}

unsigned http_accepts(const char *accept) {
        Span rest;
        unsigned mask = 0;

        if (!accept)
                return HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE;

        rest = (Span) { accept, strlen(accept) };
        while (rest.n > 0) {
                Span parameters = span_next(&rest, ','), type = span_trim(span_next(&parameters, ';'));

                if (is_refused_by_weight(parameters))
                        continue;
                if (span_is(type, "*/*"))
                        mask |= HTTP_ACCEPT_JSON | HTTP_ACCEPT_SSE;
                else if (span_is(type, "application/json") || span_is(type, "application/*"))
                        mask |= HTTP_ACCEPT_JSON;
                else if (span_is(type, "text/event-stream") || span_is(type, "text/*"))
                        mask |= HTTP_ACCEPT_SSE;
        }
        return mask;
}

bool http_is_json(const char *content_type) {
        Span rest;

        if (!content_type)
                return false;
        rest = (Span) { content_type, strlen(content_type) };
        return span_is(span_trim(span_next(&rest, ';')), "application/json");
}

bool http_is_identity(const char *content_encoding) {
        Span coding = { content_encoding ?: "", content_encoding ? strlen(content_encoding) : 0 };

        coding = span_trim(coding);
        return coding.n == 0 || span_is(coding, "identity");
}

/* Splits "name:port", "[v6]:port" and both without a port. Returns false for anything else, such as
 * user:password@. */
static bool split_host(Span authority, Span *ret_name, Span *ret_port) {
        Span rest = authority;

        if (rest.n > 0 && rest.p[0] == '[') {
                const char *end = memchr(rest.p, ']', rest.n);

                if (!end)
                        return false;
                *ret_name = (Span) { rest.p + 1, (size_t) (end - rest.p) - 1 };
                rest.n -= (size_t) (end - rest.p) + 1;
                rest.p = end + 1;
                if (rest.n > 0 && rest.p[0] != ':')
                        return false;
                *ret_port = rest.n > 0 ? (Span) { rest.p + 1, rest.n - 1 } : rest;
        } else {
                *ret_name = span_next(&rest, ':');
                *ret_port = rest;
        }
        if (ret_name->n == 0)
                return false;
        for (size_t i = 0; i < ret_name->n; i++)
                if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:",
                            ret_name->p[i]))
                        return false;
        for (size_t i = 0; i < ret_port->n; i++)
                if (ret_port->p[i] < '0' || ret_port->p[i] > '9')
                        return false;
        return true;
}

static bool is_loopback_name(Span name) {
        return span_is(name, "localhost") || span_is(name, "127.0.0.1") || span_is(name, "::1");
}

static bool is_listed(Span authority, Span name, char *const *allowed_hosts) {
        STRV_FOREACH(allowed, allowed_hosts)
                if (span_is(name, *allowed) || span_is(authority, *allowed))
                        return true;
        return false;
}

bool http_host_is_allowed(const char *host, const char *local_address, char *const *allowed_hosts) {
        Span authority, name, port;

        if (!host)
                return false;
        authority = span_trim((Span) { host, strlen(host) });
        if (!split_host(authority, &name, &port))
                return false;
        return is_loopback_name(name) || (local_address && span_is(name, local_address)) ||
               is_listed(authority, name, allowed_hosts);
}

bool http_origin_is_allowed(const char *origin, char *const *allowed_hosts) {
        Span whole, authority, name, port;

        assert(origin);

        whole = span_trim((Span) { origin, strlen(origin) });
        STRV_FOREACH(allowed, allowed_hosts)
                if (strstr(*allowed, "://") && span_is(whole, *allowed))
                        return true;

        authority = whole;
        if (whole.n > 7 && strncasecmp(whole.p, "http://", 7) == 0)
                authority = (Span) { whole.p + 7, whole.n - 7 };
        else if (whole.n > 8 && strncasecmp(whole.p, "https://", 8) == 0)
                authority = (Span) { whole.p + 8, whole.n - 8 };
        else
                return false; /* "null", file:, an extension's own scheme */
        if (!split_host(authority, &name, &port))
                return false;
        return is_loopback_name(name) || is_listed(authority, name, allowed_hosts);
}

bool http_origin_is_host(const char *origin, const char *host) {
        Span whole, authority;

        assert(origin);
        assert(host);

        whole = span_trim((Span) { origin, strlen(origin) });
        authority = span_trim((Span) { host, strlen(host) });
        for (size_t i = 0; i < 2; i++) {
                static const char *const schemes[] = { "http://", "https://" };
                size_t n = strlen(schemes[i]);

                if (authority.n > 0 && whole.n == n + authority.n &&
                    strncasecmp(whole.p, schemes[i], n) == 0 &&
                    strncasecmp(whole.p + n, authority.p, authority.n) == 0)
                        return true;
        }
        return false;
}
