/* SPDX-License-Identifier: MIT */

#include "base/capture.h"
#include "base/macro.h"
#include "test.h"

#define _cleanup_capture_ _cleanup_(capture_done)

#define ELLIPSIS "\xe2\x80\xa6"

static void fill(Capture *c, size_t budget, const char *text) {
        capture_init(c, budget);
        ASSERT_EQ_INT(capture_push(c, text, strlen(text)), 0);
}

/* All pages of this size, one after the other. */
static void read_pages(const Capture *c, size_t page, Buffer *b) {
        uint64_t at = 0;

        for (unsigned n = 0; n == 0 || at < c->n_total; n++) {
                uint64_t next;

                ASSERT_TRUE(n < 200);
                ASSERT_EQ_INT(capture_slice(c, at, page, b, &next), 0);
                ASSERT_TRUE(next > at || next == c->n_total);
                at = next;
        }
}

TEST(pages_of_any_size_put_together_are_the_text) {
        static const char text[] = "plain é … \xf0\x9f\x98\x80 end\n";

        for (size_t budget = 2; budget < 60; budget++)
                for (size_t page = 1; page < 40; page++) {
                        _cleanup_capture_ Capture c = {};
                        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                        if (budget < strlen(text))
                                continue;
                        fill(&c, budget, text);
                        read_pages(&c, page, &b);
                        ASSERT_EQ_STR(b.data, text);
                }
}

TEST(what_was_not_kept_is_told_once_and_skipped) {
        for (size_t page = 1; page < 30; page++) {
                _cleanup_capture_ Capture c = {};
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                fill(&c, 10, "abcdefghijklmnopqrstuvwxyz");
                read_pages(&c, page, &b);
                ASSERT_EQ_STR(b.data, "abcde\n[" ELLIPSIS " 16 bytes were not kept " ELLIPSIS "]\nvwxyz");
        }
}

TEST(page_after_the_end_is_empty) {
        _cleanup_capture_ Capture c = {}, none = {};
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t next;

        fill(&c, 100, "abc");
        ASSERT_EQ_INT(capture_slice(&c, 3, 10, &b, &next), 0);
        ASSERT_EQ_UINT(next, 3);
        ASSERT_EQ_INT(capture_slice(&c, UINT64_MAX, 10, &b, &next), 0);
        ASSERT_EQ_UINT(next, 3);
        ASSERT_EQ_INT(capture_slice(&none, 0, 10, &b, &next), 0);
        ASSERT_EQ_UINT(next, 0);
        ASSERT_EQ_UINT(b.n_bytes, 0);
}

TEST(a_page_in_the_gap_leads_behind_it) {
        _cleanup_capture_ Capture c = {};
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t next;

        fill(&c, 10, "abcdefghijklmnopqrstuvwxyz");
        ASSERT_EQ_INT(capture_slice(&c, 8, 4, &b, &next), 0);
        ASSERT_EQ_UINT(b.n_bytes, 0);
        ASSERT_EQ_UINT(next, 21);
        ASSERT_EQ_INT(capture_slice(&c, 23, 2, &b, &next), 0);
        ASSERT_EQ_STR(b.data, "xy");
        ASSERT_EQ_UINT(next, 25);
}

TEST(bad_bytes_become_replacement_characters) {
        _cleanup_capture_ Capture c = {};
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t next;

        fill(&c, 100, "a\xff\xfe" "b");
        ASSERT_EQ_INT(capture_slice(&c, 0, 100, &b, &next), 0);
        ASSERT_EQ_STR(b.data, "a\xef\xbf\xbd" "b");
}

TEST(end_is_before_a_character_whose_rest_may_come) {
        static const struct {
                const char *stream;
                size_t n_held;
        } rows[] = {
                { "", 0 }, { "a", 0 }, { "a\xc3", 1 }, { "a\xc3\xa9", 0 }, { "\xe2", 1 }, { "\xe2\x82", 2 },
                { "\xe2\x82\xac", 0 }, { "\xf0\x9f\x98", 3 }, { "\xf0\x9f\x98\x80", 0 }, { "a\xff", 0 },
                { "\x80\x80\x80\x80", 0 }, { "\x82", 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t budget = 8; budget < 100; budget += 50) {
                        _cleanup_capture_ Capture c = {};

                        fill(&c, budget, rows[i].stream);
                        ASSERT_EQ_UINT(capture_end(&c), strlen(rows[i].stream) - rows[i].n_held);
                }
}
