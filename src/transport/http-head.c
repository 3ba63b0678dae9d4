/* SPDX-License-Identifier: MIT */

#include "transport/http-head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Blank lines that a client may have left behind its last request. */
#define BLANK_LINES_MAX 8
#define LENGTH_DIGITS_MAX 18

static const HttpFault
        fault_no_http = { 400, "This is no HTTP request. TLS is the business of a reverse proxy." },
        fault_request_line = { 400, "The request line is not METHOD, one space, address, one space, "
                                    "HTTP/1.1." },
        fault_version = { 505, "Only HTTP/1.1 and HTTP/1.0 are spoken here." },
        fault_line_end = { 400, "A line of the head does not end with CR LF." },
        fault_header = { 400, "A header is not a name, a colon and a value on one line." },
        fault_host = { 400, "There has to be one Host header." },
        fault_authority = { 400, "The address names no host, or another one than the Host header." },
        fault_length = { 400, "Where the body ends is ambiguous: send one Content-Length, or "
                              "\"Transfer-Encoding: chunked\"." },
        fault_too_long = { 413, "The body is longer than the server takes." },
        fault_coding = { 501, "The only transfer coding that is understood is chunked." },
        fault_parts = { 431, "The request has more headers, cookies and parameters of its address than the "
                             "server takes." },
        fault_long_line = { 414, "The address is longer than the server takes." },
        fault_long_head = { 431, "The headers are longer than the server takes." };

typedef struct Head {
        bool is_1_0, has_length, is_chunked;
        uint64_t n_content_bytes;
        unsigned n_host;
        const char *host, *authority; /* the latter of an address in its absolute form, or NULL */
        size_t n_host_bytes, n_authority_bytes;
        size_t n_parts;
} Head;

static bool is_name_character(char c) {
        return isalnum((unsigned char) c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool http_is_header_name(const char *s, size_t n_bytes) {
        assert(s || n_bytes == 0);

        for (size_t i = 0; i < n_bytes; i++)
                if (!is_name_character(s[i]))
                        return false;
        return n_bytes > 0;
}

bool http_is_header_value(const char *s, size_t n_bytes) {
        assert(s || n_bytes == 0);

        for (size_t i = 0; i < n_bytes; i++)
                if (((unsigned char) s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
                        return false;
        return true;
}

/* The part of a line up to a space, or all of it. */
static size_t word_length(const char *s, size_t n_bytes) {
        const char *end = memchr(s, ' ', n_bytes);

        return end ? (size_t) (end - s) : n_bytes;
}

static size_t count(const char *s, size_t n_bytes, const char *of_these) {
        size_t n = 0;

        for (size_t i = 0; i < n_bytes; i++)
                n += s[i] && strchr(of_these, s[i]);
        return n;
}

static bool has_encoded_nul(const char *s, size_t n_bytes) {
        return memmem(s, n_bytes, "%00", 3);
}

/* Clients that were told of a proxy send it, and servers have to take it (RFC 9112 §3.2.2). */
static void take_authority(Head *h, const char *s, size_t n_bytes) {
        static const char *const schemes[] = { "http://", "https://" };

        for (size_t i = 0; i < ELEMENTSOF(schemes); i++) {
                size_t n = strlen(schemes[i]);

                if (n_bytes < n || strncasecmp(s, schemes[i], n) != 0)
                        continue;
                h->authority = s + n;
                for (; n < n_bytes && !strchr("/?", s[n]); n++)
                        h->n_authority_bytes++;
        }
}

/* Who of two hosts is meant, a proxy in front of us may see otherwise. They have to be the same (§3.2). */
static bool is_host_clear(const Head *h) {
        if (!h->authority || h->n_host == 0)
                return true;
        return h->n_authority_bytes > 0 && h->n_authority_bytes == h->n_host_bytes &&
               strncasecmp(h->authority, h->host, h->n_host_bytes) == 0;
}

static const HttpFault* check_request_line(Head *h, const char *s, size_t n_bytes) {
        static const char prefix[] = "HTTP/";
        size_t n = word_length(s, n_bytes);

        if (!http_is_header_name(s, n) || n == n_bytes)
                return &fault_request_line;
        s += n + 1;
        n_bytes -= n + 1;

        n = word_length(s, n_bytes);
        if (n == 0 || n == n_bytes || !http_is_header_value(s, n) || memchr(s, '\t', n) ||
            has_encoded_nul(s, n))
                return &fault_request_line;
        h->n_parts += count(s, n, "?&");
        take_authority(h, s, n);
        s += n + 1;
        n_bytes -= n + 1;

        if (n_bytes != sizeof(prefix) - 1 + 3 || memcmp(s, prefix, sizeof(prefix) - 1) != 0)
                return &fault_request_line;
        s += sizeof(prefix) - 1;
        if (!isdigit((unsigned char) s[0]) || s[1] != '.' || !isdigit((unsigned char) s[2]))
                return &fault_request_line;
        h->is_1_0 = s[2] == '0';
        return s[0] == '1' ? NULL : &fault_version;
}

static const HttpFault* take_length(Head *h, const char *s, size_t n_bytes) {
        if (h->has_length || h->is_chunked || n_bytes == 0)
                return &fault_length;
        h->has_length = true;
        for (size_t i = 0; i < n_bytes; i++) {
                if (!isdigit((unsigned char) s[i]))
                        return &fault_length;
                if (i < LENGTH_DIGITS_MAX)
                        h->n_content_bytes = h->n_content_bytes * 10 + (uint64_t) (s[i] - '0');
        }
        return n_bytes > LENGTH_DIGITS_MAX ? &fault_too_long : NULL;
}

static const HttpFault* take_coding(Head *h, const char *s, size_t n_bytes) {
        static const char chunked[] = "chunked";

        if (h->has_length || h->is_chunked || h->is_1_0)
                return &fault_length;
        h->is_chunked = true;
        return n_bytes == sizeof(chunked) - 1 && strncasecmp(s, chunked, n_bytes) == 0 ? NULL :
                                                                                          &fault_coding;
}

static bool is_named(const char *s, size_t n_bytes, const char *name) {
        return n_bytes == strlen(name) && strncasecmp(s, name, n_bytes) == 0;
}

static const HttpFault* take_header(Head *h, const char *name, size_t n_name, const char *value,
                                    size_t n_value) {
        bool is_host = is_named(name, n_name, "Host"), is_length = is_named(name, n_name, "Content-Length"),
             is_coding = is_named(name, n_name, "Transfer-Encoding");

        /* The library would read white space behind these as a part of them. */
        if ((is_length || is_coding) && n_value > 0 &&
            (value[n_value - 1] == ' ' || value[n_value - 1] == '\t'))
                return &fault_length;
        while (n_value > 0 && (*value == ' ' || *value == '\t')) {
                value++;
                n_value--;
        }
        if (is_host) {
                while (n_value > 0 && (value[n_value - 1] == ' ' || value[n_value - 1] == '\t'))
                        n_value--;
                h->host = value;
                h->n_host_bytes = n_value;
                return ++h->n_host > 1 ? &fault_host : NULL;
        }
        if (is_length)
                return take_length(h, value, n_value);
        if (is_coding)
                return take_coding(h, value, n_value);
        if (is_named(name, n_name, "Cookie"))
                h->n_parts += count(value, n_value, ";,");
        return NULL;
}

static const HttpFault* check_header(Head *h, const char *s, size_t n_bytes) {
        const char *colon = memchr(s, ':', n_bytes), *value;
        size_t n_name, n_value;

        if (!colon)
                return &fault_header;
        n_name = (size_t) (colon - s);
        value = colon + 1;
        n_value = n_bytes - n_name - 1;
        if (!http_is_header_name(s, n_name) || !http_is_header_value(value, n_value))
                return &fault_header;
        h->n_parts++;
        return take_header(h, s, n_name, value, n_value);
}

/* What cannot become a request whatever follows is refused at once: such a client waits for our answer. */
static const HttpFault* check_beginning(const char *s, size_t n_bytes) {
        size_t n = word_length(s, n_bytes);

        return n > 0 && !http_is_header_name(s, n) ? &fault_no_http : NULL;
}

static int verdict(const HttpFault *fault, HttpFault *ret_fault) {
        *ret_fault = *fault;
        return HTTP_HEAD_E_BAD;
}

static int head_end(const Head *h, size_t n_blank, size_t n_bytes, HttpHead *ret, HttpFault *ret_fault) {
        if (h->n_host == 0 && !h->is_1_0)
                return verdict(&fault_host, ret_fault);
        if (!is_host_clear(h))
                return verdict(&fault_authority, ret_fault);
        *ret = (HttpHead) {
                .n_blank_bytes = n_blank,
                .n_bytes = n_bytes,
                .is_absolute = h->authority,
                .is_chunked = h->is_chunked,
                .n_content_bytes = h->n_content_bytes,
        };
        return 0;
}

int http_head_check(const char *data, size_t n_bytes, HttpHead *ret, HttpFault *ret_fault) {
        const char *s = data ?: "", *end = s + n_bytes, *start, *newline;
        const HttpFault *fault;
        unsigned n_blank = 0;
        bool is_first = true;
        Head h = {};

        assert(data || n_bytes == 0);
        assert(ret);
        assert(ret_fault);

        for (; end - s >= 2 && s[0] == '\r' && s[1] == '\n' && n_blank < BLANK_LINES_MAX; n_blank++)
                s += 2;
        if (end - s == 1 && *s == '\r' && n_blank < BLANK_LINES_MAX)
                return HTTP_HEAD_E_INCOMPLETE;
        start = s;
        while (s < end && (newline = memchr(s, '\n', (size_t) (end - s)))) {
                size_t n = (size_t) (newline - s);

                fault = is_first ? check_beginning(s, n) : NULL;
                if (!fault && (n == 0 || s[n - 1] != '\r'))
                        fault = &fault_line_end;
                if (fault)
                        return verdict(fault, ret_fault);
                n--;
                if (!is_first && n == 0)
                        return head_end(&h, (size_t) (start - data), (size_t) (newline + 1 - start), ret,
                                        ret_fault);
                fault = is_first ? check_request_line(&h, s, n) : check_header(&h, s, n);
                if (!fault && h.n_parts > HTTP_PARTS_MAX)
                        fault = &fault_parts;
                if (fault)
                        return verdict(fault, ret_fault);
                is_first = false;
                s = newline + 1;
        }
        fault = is_first ? check_beginning(s, (size_t) (end - s)) : NULL;
        if (!fault && n_bytes >= HTTP_HEAD_BYTES_MAX)
                fault = is_first ? &fault_long_line : &fault_long_head;
        return fault ? verdict(fault, ret_fault) : HTTP_HEAD_E_INCOMPLETE;
}
