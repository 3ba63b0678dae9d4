/* SPDX-License-Identifier: MIT */

/* Any output of a program within any budget. First three bytes: budget, characters shown, size of the
 * pieces. */

#include "base/capture.h"
#include "base/utf8.h"
#include "fuzz.h"

static size_t count_chars(const Buffer *b) {
        size_t n = 0;

        for (size_t i = 0; i < b->n_bytes; i++)
                n += ((uint8_t) b->data[i] & 0xc0) != 0x80;
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        size_t budget = fuzz_byte(&data, &n_bytes), max_chars = fuzz_byte(&data, &n_bytes);
        size_t piece = (size_t) fuzz_byte(&data, &n_bytes) + 1,
               max_bytes = max_chars % 2 ? SIZE_MAX : max_chars * 2;
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0), repaired = BUFFER_INIT(0), line = BUFFER_INIT(0);
        _cleanup_(capture_done) Capture c;
        bool is_truncated;

        capture_init(&c, budget);
        for (size_t at = 0; at < n_bytes; at += piece)
                FUZZ_CHECK(capture_push(&c, data + at, MIN_OF(piece, n_bytes - at)) == 0);
        FUZZ_CHECK(c.n_total == n_bytes && c.n_head + c.n_ring <= budget);
        FUZZ_CHECK(capture_omitted(&c) == (n_bytes > budget ? n_bytes - budget : 0));

        FUZZ_CHECK(capture_text_bounded(&c, max_chars, max_bytes, &text, &is_truncated) == 0);
        FUZZ_CHECK(utf8_is_valid(text.data, text.n_bytes));
        FUZZ_CHECK(count_chars(&text) <= max_chars && text.n_bytes <= max_bytes);
        FUZZ_CHECK(utf8_repair(data, n_bytes, &repaired) == 0);
        FUZZ_CHECK(utf8_is_valid(repaired.data, repaired.n_bytes));
        if (!is_truncated)
                FUZZ_CHECK(text.n_bytes == repaired.n_bytes &&
                           (text.n_bytes == 0 || memcmp(text.data, repaired.data, text.n_bytes) == 0));

        FUZZ_CHECK(capture_last_line(&c, n_bytes % 2, 50, &line) == 0);
        FUZZ_CHECK(c.n_total - capture_end(&c) <= 3);
        FUZZ_CHECK(!capture_ends_within_line(&c) || data[n_bytes - 1] != '\n');
        for (uint64_t at = 0; at < c.n_total;) {
                _cleanup_buffer_ Buffer page = BUFFER_INIT(0);
                uint64_t next;

                FUZZ_CHECK(capture_slice(&c, at, max_chars + 1, &page, &next) == 0);
                FUZZ_CHECK(next > at && next <= c.n_total && utf8_is_valid(page.data, page.n_bytes));
                at = next;
        }
        FUZZ_CHECK(line.n_bytes <= 50 && !(line.n_bytes > 0 && memchr(line.data, '\n', line.n_bytes)));
        return 0;
}
