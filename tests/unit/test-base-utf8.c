/* SPDX-License-Identifier: MIT */

#include "base/macro.h"
#include "base/utf8.h"
#include "test.h"

/* The definition once more, by decoding and encoding back instead of by ranges of bytes. */
static size_t model_sequence(const uint8_t *s, size_t n_bytes) {
        static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
        size_t n = n_bytes == 0          ? 0
                   : s[0] < 0x80         ? 1
                   : (s[0] >> 5) == 6    ? 2
                   : (s[0] >> 4) == 14   ? 3
                   : (s[0] >> 3) == 30   ? 4
                                         : 0;
        uint32_t code_point;

        if (n == 0 || n > n_bytes)
                return 0;
        if (n == 1)
                return 1;
        code_point = s[0] & (0x7fu >> n);
        for (size_t i = 1; i < n; i++) {
                if (s[i] >> 6 != 2)
                        return 0;
                code_point = code_point << 6 | (s[i] & 63);
        }
        if (code_point < smallest[n] || code_point > 0x10ffff ||
            (code_point >= 0xd800 && code_point <= 0xdfff))
                return 0;
        return n;
}

TEST(utf8_sequence_agrees_with_the_definition_for_every_three_bytes) {
        for (uint32_t x = 0; x < 1 << 24; x++) {
                uint8_t s[] = { (uint8_t) (x >> 16), (uint8_t) (x >> 8), (uint8_t) x };

                if (utf8_sequence(s, 3) != model_sequence(s, 3))
                        FAIL("%06x: %zu", x, utf8_sequence(s, 3));
        }
}

TEST(utf8_sequence_agrees_with_the_definition_for_four_bytes) {
        /* Every first two bytes, with last bytes on both sides of each border. */
        static const uint8_t last[] = { 0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff };

        for (uint32_t x = 0; x < 1 << 16; x++)
                for (size_t i = 0; i < ELEMENTSOF(last); i++)
                        for (size_t k = 0; k < ELEMENTSOF(last); k++) {
                                uint8_t s[] = { (uint8_t) (x >> 8), (uint8_t) x, last[i], last[k] };

                                for (size_t n = 0; n <= 4; n++)
                                        if (utf8_sequence(s, n) != model_sequence(s, n))
                                                FAIL("%04x %02x %02x of %zu", x, last[i], last[k], n);
                        }
}

/* As Python does it: re.sub("[\udc80-\udcff]+", "\ufffd", bytes.decode("utf-8", "surrogateescape")). */
TEST(utf8_repair_turns_each_maximal_run_of_bad_bytes_into_one_replacement) {
#define R "\xef\xbf\xbd"
        static const struct {
                const char *raw;
                size_t n_raw;
                const char *repaired;
                size_t n_repaired;
        } rows[] = {
#define ROW(raw, repaired) { raw, sizeof(raw) - 1, repaired, sizeof(repaired) - 1 }
                ROW("", ""),
                ROW("plain", "plain"),
                ROW("a\0b\x1b[31m", "a\0b\x1b[31m"),
                ROW("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
                    "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
                ROW("ok\xff\xfe"
                    "bad",
                    "ok" R "bad"),
                ROW("\xff", R),
                ROW("\xff"
                    "a\xff",
                    R "a" R),
                ROW("\x80\x80\x80", R),
                ROW("\xed\xa0\x80", R), /* U+D800 */
                ROW("\xed\xb0\x80x", R "x"), /* U+DC00 */
                ROW("\xc0\xaf", R), /* overlong / */
                ROW("\xe0\x80\xaf", R),
                ROW("\xf0\x80\x80\xaf", R),
                ROW("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"), /* U+10FFFF */
                ROW("\xf4\x90\x80\x80", R),
                ROW("\xe2\x82", R), /* cut short */
                ROW("\xe2\x82"
                    "A",
                    R "A"),
                ROW("\xe2\x28\xa1", R "(" R),
                ROW("\xf0\x9f\x98", R),
                ROW("\xf0\x9f\x98\xc3\xbc", R "\xc3\xbc"),
                ROW("\xef\xbf\xbd\xff", R R), /* a real U+FFFD stays one of its own */
                ROW("12345678\xff"
                    "12345678",
                    "12345678" R "12345678"),
#undef ROW
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                ASSERT_EQ_INT(utf8_repair(rows[i].raw, rows[i].n_raw, &b), 0);
                if (b.n_bytes != rows[i].n_repaired ||
                    (b.n_bytes > 0 && memcmp(b.data, rows[i].repaired, b.n_bytes) != 0))
                        FAIL("row %zu gave \"%s\"", i, b.data);
                ASSERT_EQ_INT(utf8_is_valid(rows[i].raw, rows[i].n_raw),
                              rows[i].n_raw == rows[i].n_repaired &&
                                      memcmp(rows[i].raw, rows[i].repaired, rows[i].n_raw) == 0);
        }
}

TEST(utf8_repair_gives_valid_text_for_any_bytes_and_leaves_valid_text_alone) {
        uint64_t seed = 2;

        for (int i = 0; i < 20000; i++) {
                _cleanup_buffer_ Buffer once = BUFFER_INIT(0), twice = BUFFER_INIT(0);
                uint8_t raw[40];
                size_t n = test_random(&seed) % sizeof(raw);

                for (size_t k = 0; k < n; k++) {
                        static const uint8_t borders[] = { 'a',  0x80, 0xbf, 0xc2, 0xe0, 0xa0,
                                                           0xed, 0xf0, 0x90, 0xf4, 0xff, 0 };

                        raw[k] = borders[test_random(&seed) % ELEMENTSOF(borders)];
                }
                ASSERT_EQ_INT(utf8_repair(raw, n, &once), 0);
                ASSERT_TRUE(utf8_is_valid(once.data, once.n_bytes));
                ASSERT_EQ_INT(utf8_repair(once.data, once.n_bytes, &twice), 0);
                ASSERT_EQ_MEM(twice.data, twice.n_bytes, once.data, once.n_bytes);
        }
}

TEST(utf8_repair_passes_the_buffers_limit_on) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(2);

        ASSERT_EQ_INT(utf8_repair("\xff", 1, &b), -EMSGSIZE);
}

TEST(utf8_plain_characters_neither_steer_a_terminal_nor_turn_a_line_around) {
        static const char *const plain[] = {
                " ", "~", "a", "\xc2\xa0", "\xc3\xa9", "\xd8\x9b", "\xe2\x80\x93", "\xe2\x80\xa7",
                "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa", "\xf0\x9f\x98\x80",
        };
        static const char *const others[] = {
                "\x1f", "\x7f", "\n", "\x1b", "\xc2\x80", "\xc2\x9b", "\xd8\x9c", "\xe2\x80\x8e",
                "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xae", "\xe2\x81\xa6",
                "\xe2\x81\xa9",
        };

        for (size_t i = 0; i < ELEMENTSOF(plain); i++)
                ASSERT_TRUE(utf8_is_plain(plain[i], strlen(plain[i])));
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                ASSERT_FALSE(utf8_is_plain(others[i], strlen(others[i])));
        ASSERT_FALSE(utf8_is_plain("", 1)); /* the byte 0 */
}
