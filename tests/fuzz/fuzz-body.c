/* SPDX-License-Identifier: MIT */

/* Where a request ends: it is found alike in one piece and byte by byte, and its content is what a plain
 * reader of chunks finds. */

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "transport/http-body.h"

/* Checked here with other means than there: sizes in hexadecimal, each with that many bytes and CR LF behind
 * them, then lines up to an empty one. */
static void check_chunks(const char *data, size_t n_bytes) {
        const char *p = data, *end = data + n_bytes, *line;

        for (;;) {
                size_t n = 0;

                line = memmem(p, (size_t) (end - p), "\r\n", 2);
                FUZZ_CHECK(line && isxdigit((unsigned char) *p));
                for (; isxdigit((unsigned char) *p); p++)
                        n = n * 16 + (size_t) (isdigit((unsigned char) *p) ? *p - '0' :
                                                                             tolower(*p) - 'a' + 10);
                FUZZ_CHECK(p == line);
                p = line + 2;
                if (n == 0)
                        break;
                FUZZ_CHECK((size_t) (end - p) >= n + 2);
                FUZZ_CHECK(memcmp(p + n, "\r\n", 2) == 0);
                p += n + 2;
        }
        while ((line = memmem(p, (size_t) (end - p), "\r\n", 2)) && line != p) {
                FUZZ_CHECK(memchr(p, ':', (size_t) (line - p)));
                p = line + 2;
        }
        FUZZ_CHECK(line && line + 2 == end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        const char *text = (const char*) data;
        HttpFault fault = {}, piecewise = {};
        size_t n_good = 0, n = 0, n_one;
        HttpBody whole, pieces;
        int verdict, r;

        /* The head itself has passed. */
        http_body_init(&whole, &(HttpHead) { .n_bytes = 1, .is_chunked = true });
        (void) http_body_push(&whole, "\n", 1, &n_good, &fault);
        pieces = whole;
        verdict = http_body_push(&whole, text, n_bytes, &n_good, &fault);
        FUZZ_CHECK(n_good <= n_bytes);
        if (verdict == HTTP_HEAD_E_BAD)
                FUZZ_CHECK(fault.status >= 400 && fault.status < 500 && fault.message);
        r = HTTP_HEAD_E_INCOMPLETE;
        for (; r == HTTP_HEAD_E_INCOMPLETE && n < n_bytes; n += n_one)
                r = http_body_push(&pieces, text + n, 1, &n_one, &piecewise);
        FUZZ_CHECK(r == verdict && n == n_good);
        FUZZ_CHECK(fault.status == piecewise.status && fault.message == piecewise.message);
        if (verdict == 0)
                check_chunks(text, n_good);
        return 0;
}
