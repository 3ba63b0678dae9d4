/* SPDX-License-Identifier: MIT */

/* The head of a request: it is judged alike in one piece and byte by byte, and what passes is plain. */

#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "transport/http-head.h"

/* Checked here with other means than there: every line ends in CR LF, and nothing else controls anything. */
static void check_good(const char *data, size_t n_bytes) {
        size_t start = 0, end;
        const char *blank;

        while (start < n_bytes && (data[start] == '\r' || data[start] == '\n'))
                start++;
        blank = memmem(data + start, n_bytes - start, "\r\n\r\n", 4);
        FUZZ_CHECK(blank);
        end = (size_t) (blank - data) + 4;
        FUZZ_CHECK(end - start <= HTTP_HEAD_BYTES_MAX + 4);
        for (size_t i = start; i < end; i++) {
                FUZZ_CHECK((data[i] == '\r') == (i + 1 < end && data[i + 1] == '\n'));
                FUZZ_CHECK((unsigned char) data[i] >= ' ' || data[i] == '\r' || data[i] == '\n' ||
                           data[i] == '\t');
        }
        FUZZ_CHECK(memmem(data + start, end - start, " HTTP/1.", 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        const char *text = (const char*) data;
        HttpHead head = {};
        HttpFault fault = {}, piecewise = {};
        int verdict = http_head_check(text, n_bytes, &head, &fault), r;
        size_t n = 0;

        if (verdict == HTTP_HEAD_E_BAD)
                FUZZ_CHECK(fault.status >= 400 && fault.status < 600 && fault.message);
        do
                r = http_head_check(text, n, &head, &piecewise);
        while (r == HTTP_HEAD_E_INCOMPLETE && n++ < n_bytes);
        FUZZ_CHECK(r == verdict && fault.status == piecewise.status && fault.message == piecewise.message);
        if (verdict == 0) {
                check_good(text, n_bytes);
                FUZZ_CHECK(!head.is_absolute || memmem(text, n_bytes, "://", 3));
        }
        return 0;
}
