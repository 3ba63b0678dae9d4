/* SPDX-License-Identifier: MIT */

#include "base/capture.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "test.h"

#define _cleanup_capture_ _cleanup_(capture_done)

#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT "\xef\xbf\xbd"

static char* kept(const Capture *c, size_t *ret_n) {
        char *p = malloc(c->n_head + c->n_ring + 1);

        memcpy(p, c->head ? c->head : "", c->n_head);
        for (size_t i = 0; i < c->n_ring; i++)
                p[c->n_head + i] = c->ring[(c->ring_start + i) % c->n_ring];
        *ret_n = c->n_head + c->n_ring;
        return p;
}

/* What must be kept: all, or the first half of the budget and the newest bytes of the rest. */
static size_t model_kept(const char *stream, size_t n, size_t budget, char *ret) {
        size_t head = budget / 2, tail = budget - head;

        if (n <= budget) {
                memcpy(ret, stream, n);
                return n;
        }
        memcpy(ret, stream, head);
        memcpy(ret + head, stream + n - tail, tail);
        return budget;
}

TEST(capture_keeps_head_and_tail_for_every_budget_length_and_chunk_size) {
        char stream[64], expected[64];

        for (size_t i = 0; i < sizeof(stream); i++)
                stream[i] = (char) ('0' + i);
        for (size_t budget = 0; budget <= 20; budget++)
                for (size_t n = 0; n <= sizeof(stream); n++)
                        for (size_t chunk = 1; chunk <= 25; chunk++) {
                                _cleanup_capture_ Capture c;
                                _cleanup_free_ char *actual = NULL;
                                size_t n_actual, n_expected;

                                capture_init(&c, budget);
                                for (size_t at = 0; at < n; at += chunk)
                                        ASSERT_EQ_INT(capture_push(&c, stream + at, MIN_OF(chunk, n - at)),
                                                      0);
                                actual = kept(&c, &n_actual);
                                n_expected = model_kept(stream, n, budget, expected);
                                ASSERT_EQ_MEM(actual, n_actual, expected, n_expected);
                                ASSERT_EQ_UINT(c.n_total, n);
                                ASSERT_EQ_UINT(capture_omitted(&c), n - n_expected);
                                ASSERT_EQ_INT(capture_is_complete(&c), n <= budget);
                        }
}

TEST(capture_takes_memory_only_as_bytes_come) {
        _cleanup_capture_ Capture c;

        capture_init(&c, 256 * MIB);
        ASSERT_EQ_INT(capture_push(&c, "x", 1), 0);
        ASSERT_TRUE(c.n_head_allocated + c.n_ring_allocated <= 4096);
}

TEST(capture_of_a_flood_stays_within_its_budget) {
        _cleanup_capture_ Capture c;
        static char block[65536];

        memset(block, 'x', sizeof(block));
        capture_init(&c, 100000);
        for (int i = 0; i < 1000; i++)
                ASSERT_EQ_INT(capture_push(&c, block, sizeof(block)), 0);
        ASSERT_EQ_UINT(c.n_total, 65536000);
        ASSERT_EQ_UINT(c.n_head + c.n_ring, 100000);
        ASSERT_TRUE(c.n_head_allocated + c.n_ring_allocated <= 100000);
}

static size_t count_chars(const char *s, size_t n) {
        size_t n_chars = 0;

        for (size_t i = 0; i < n; i++)
                n_chars += ((unsigned char) s[i] & 0xc0) != 0x80;
        return n_chars;
}

/* For ASCII: exactly which characters must be shown. */
static void model_text(const char *stream, size_t n, size_t budget, size_t max_chars, Buffer *b) {
        size_t n_head = budget / 2, n_tail = budget - n_head, n_marker, room;
        char marker[64];

        if (n <= budget && n <= max_chars) {
                ASSERT_EQ_INT(buffer_append(b, stream, n), 0);
                return;
        }
        if (n <= budget)
                n_head = n_tail = n;
        n_marker = (size_t) snprintf(marker, sizeof(marker), "\n[. %zu bytes left out .]\n", n);
        if (max_chars <= n_marker) {
                ASSERT_EQ_INT(buffer_append(b, stream, MIN_OF(n_head, max_chars)), 0);
                return;
        }
        room = max_chars - n_marker;
        while (n_head + n_tail > room) {
                /* Fair: the larger one gives, the head first where both are the same. */
                if (n_head >= n_tail && n_head > 0)
                        n_head--;
                else
                        n_tail--;
        }
        ASSERT_EQ_INT(buffer_append(b, stream, n_head), 0);
        ASSERT_EQ_INT(
                buffer_printf(b, "\n[" ELLIPSIS " %zu bytes left out " ELLIPSIS "]\n", n - n_head - n_tail),
                0);
        ASSERT_EQ_INT(buffer_append(b, stream + n - n_tail, n_tail), 0);
}

TEST(capture_text_shows_exactly_the_right_ascii_for_every_budget_and_limit) {
        char stream[120];

        for (size_t i = 0; i < sizeof(stream); i++)
                stream[i] = (char) ('0' + i % 70);
        for (size_t budget = 0; budget <= 110; budget += 3)
                for (size_t n = 0; n <= sizeof(stream); n++)
                        for (size_t max_chars = 0; max_chars <= 125; max_chars++) {
                                _cleanup_buffer_ Buffer actual = BUFFER_INIT(0), expected = BUFFER_INIT(0);
                                _cleanup_capture_ Capture c;
                                bool is_truncated;

                                capture_init(&c, budget);
                                ASSERT_EQ_INT(capture_push(&c, stream, n), 0);
                                ASSERT_EQ_INT(capture_text(&c, max_chars, &actual, &is_truncated), 0);
                                model_text(stream, n, budget, max_chars, &expected);
                                if (!streq_ptr(actual.n_bytes ? actual.data : "",
                                               expected.n_bytes ? expected.data : ""))
                                        FAIL("budget %zu, %zu bytes, %zu chars: \"%s\", expected \"%s\"",
                                             budget, n, max_chars, actual.data, expected.data);
                                ASSERT_EQ_INT(is_truncated, n > budget || n > max_chars);
                                ASSERT_TRUE(count_chars(actual.data, actual.n_bytes) <= max_chars);
                        }
}

TEST(capture_text_never_breaks_a_character_nor_exceeds_its_limits) {
        static const char *const letters[] = { "a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
        uint64_t seed = 3;

        for (int i = 0; i < 60000; i++) {
                _cleanup_buffer_ Buffer stream = BUFFER_INIT(0), text = BUFFER_INIT(0);
                size_t n_letters = test_random(&seed) % 80, max_chars = test_random(&seed) % 100;
                size_t max_bytes = test_random(&seed) % 2 ? SIZE_MAX : test_random(&seed) % 150;
                _cleanup_capture_ Capture c;
                const char *marker;
                bool is_truncated;

                capture_init(&c, test_random(&seed) % 120);
                for (size_t k = 0; k < n_letters; k++)
                        ASSERT_EQ_INT(buffer_append_str(&stream,
                                                        letters[test_random(&seed) % ELEMENTSOF(letters)]),
                                      0);
                for (size_t at = 0, n; at < stream.n_bytes; at += n) {
                        n = MIN_OF(1 + (size_t) (test_random(&seed) % 30), stream.n_bytes - at);
                        ASSERT_EQ_INT(capture_push(&c, stream.data + at, n), 0);
                }
                ASSERT_EQ_INT(capture_text_bounded(&c, max_chars, max_bytes, &text, &is_truncated), 0);
                ASSERT_TRUE(utf8_is_valid(text.data, text.n_bytes));
                ASSERT_TRUE(count_chars(text.data, text.n_bytes) <= max_chars);
                ASSERT_TRUE(text.n_bytes <= max_bytes);
                if (text.n_bytes > 0 && strstr(text.data, REPLACEMENT))
                        FAIL("round %d: a cut made a replacement character: \"%s\"", i, text.data);
                if (!is_truncated) {
                        ASSERT_EQ_MEM(text.data, text.n_bytes, stream.data, stream.n_bytes);
                        continue;
                }
                marker = text.n_bytes > 0 ? strstr(text.data, "\n[" ELLIPSIS " ") : NULL;
                if (marker) {
                        const char *tail = strstr(marker, ELLIPSIS "]\n") + 5;
                        size_t n_head = (size_t) (marker - text.data), n_tail = strlen(tail);
                        char number[32];

                        /* The number in the marker is what is really missing. */
                        (void) snprintf(number, sizeof(number), " %zu bytes",
                                        stream.n_bytes - n_head - n_tail);
                        ASSERT_CONTAINS(marker, number);
                        ASSERT_EQ_MEM(text.data, n_head, stream.data, n_head);
                        ASSERT_EQ_MEM(tail, n_tail, stream.data + stream.n_bytes - n_tail, n_tail);
                } else
                        ASSERT_EQ_MEM(text.data, text.n_bytes, stream.data, text.n_bytes);
        }
}

TEST(capture_text_is_valid_for_any_bytes) {
        uint64_t seed = 4;

        for (int i = 0; i < 30000; i++) {
                _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
                size_t n = test_random(&seed) % 200, max_chars = test_random(&seed) % 120;
                _cleanup_capture_ Capture c;
                bool is_truncated;
                uint8_t raw[200];

                for (size_t k = 0; k < n; k++)
                        raw[k] = test_random(&seed) % 2 ? (uint8_t) test_random(&seed)
                                                        : (uint8_t) (0xc0 | (test_random(&seed) & 63));
                capture_init(&c, test_random(&seed) % 200);
                ASSERT_EQ_INT(capture_push(&c, raw, n), 0);
                ASSERT_EQ_INT(capture_text(&c, max_chars, &text, &is_truncated), 0);
                ASSERT_TRUE(utf8_is_valid(text.data, text.n_bytes));
                ASSERT_TRUE(count_chars(text.data, text.n_bytes) <= max_chars);
        }
}

TEST(capture_text_repairs_and_keeps_nul) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        _cleanup_capture_ Capture c;
        bool is_truncated = true;

        capture_init(&c, 100);
        ASSERT_EQ_INT(capture_push(&c, "a\0\xff\xfe\x1b[1m", 8), 0);
        ASSERT_EQ_INT(capture_text(&c, 100, &text, &is_truncated), 0);
        ASSERT_EQ_MEM(text.data, text.n_bytes, "a\0" REPLACEMENT "\x1b[1m", 9);
        ASSERT_FALSE(is_truncated);
}

static void check_last_line(const char *stream, size_t n, size_t budget, size_t max_bytes,
                            const char *expected) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_capture_ Capture c;

        capture_init(&c, budget);
        ASSERT_FALSE(capture_ends_within_line(&c));
        ASSERT_EQ_INT(capture_push(&c, stream, n), 0);
        ASSERT_EQ_INT(capture_ends_within_line(&c), n > 0 && stream[n - 1] != '\n');
        ASSERT_EQ_INT(capture_last_line(&c, /* wants_end= */ false, max_bytes, &b), 0);
        ASSERT_EQ_MEM(b.data, b.n_bytes, expected, strlen(expected));
}

TEST(capture_last_line_is_the_newest_that_is_not_blank) {
        static const struct {
                const char *stream, *line;
        } rows[] = {
                { "", "" },
                { "\n\n \t\n", "" },
                { "one", "one" },
                { "one\ntwo", "two" },
                { "one\ntwo\n", "two" },
                { "one\n  two  \n \n\t\n", "  two  " },
                { "\none\n\n", "one" },
                { "KeyError: 'x'\r\n", "KeyError: 'x'\r" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                check_last_line(rows[i].stream, strlen(rows[i].stream), 1000, 1000, rows[i].line);
        /* Across the border of head and ring, which is no border for the reader. */
        check_last_line("first\nsecond line\n", 18, 20, 1000, "second line");
        check_last_line("first\nsecond line\n", 18, 18, 6, "second");
}

TEST(capture_last_line_that_has_ended_is_wanted_where_there_is_one) {
        static const struct {
                const char *stream, *line;
        } rows[] = {
                { "", "" }, { "one", "one" }, { "one\n", "one" }, { "one\ntw", "one" },
                { "one\n\n \ntw", "one" }, { "\n \ntw", "tw" }, { "one\ntwo\n", "two" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                _cleanup_capture_ Capture c;

                capture_init(&c, 1000);
                ASSERT_EQ_INT(capture_push(&c, rows[i].stream, strlen(rows[i].stream)), 0);
                ASSERT_EQ_INT(capture_last_line(&c, /* wants_end= */ true, 1000, &b), 0);
                ASSERT_EQ_MEM(b.data, b.n_bytes, rows[i].line, strlen(rows[i].line));
        }
}

TEST(capture_last_line_does_not_join_across_what_was_left_out) {
        /* Head "aaaa", tail "cc\n\n": the line that ended in "cc" began in the gap. */
        check_last_line("aaaabbbbcc\n\n", 12, 8, 1000, "cc");
        /* A tail of blanks says nothing; the head's line is not the last one. */
        check_last_line("aaaabbbb\n\n\n\n\n", 13, 8, 1000, "");
}
