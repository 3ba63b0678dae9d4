/* SPDX-License-Identifier: MIT */

#include "base/macro.h"
#include "base/parse.h"
#include "test.h"

typedef struct Row {
        const char *text;
        int r;
        uint64_t value;
} Row;

static void check_rows(int (*parse)(const char *s, uint64_t *ret), const Row *rows, size_t n_rows) {
        for (size_t i = 0; i < n_rows; i++) {
                uint64_t value = 4711;
                int r = parse(rows[i].text, &value);

                if (r != rows[i].r)
                        FAIL("\"%s\" returned %d, expected %d", rows[i].text, r, rows[i].r);
                if (value != (r < 0 ? 4711 : rows[i].value))
                        FAIL("\"%s\" gave %" PRIu64, rows[i].text, value);
        }
}

TEST(parse_uint64_takes_digits_only) {
        static const Row rows[] = {
                { "0", 0, 0 },
                { "7", 0, 7 },
                { "007", 0, 7 },
                { "18446744073709551615", 0, UINT64_MAX },
                { "18446744073709551616", -ERANGE, 0 },
                { "99999999999999999999999", -ERANGE, 0 },
                { "99999999999999999999999x", -EINVAL, 0 },
                { "", -EINVAL, 0 },
                { " 1", -EINVAL, 0 },
                { "1 ", -EINVAL, 0 },
                { "1\n", -EINVAL, 0 },
                { "+1", -EINVAL, 0 },
                { "-1", -EINVAL, 0 },
                { "-0", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "1.0", -EINVAL, 0 },
                { "1e3", -EINVAL, 0 },
                { "\xd9\xa1", -EINVAL, 0 }, /* an Arabic digit */
        };

        check_rows(parse_uint64, rows, ELEMENTSOF(rows));
}

static int parse_int64_as_bits(const char *s, uint64_t *ret) {
        int64_t value;
        int r = parse_int64(s, &value);

        if (r >= 0)
                *ret = (uint64_t) value;
        return r;
}

TEST(parse_int64_covers_the_whole_range_and_no_more) {
        static const Row rows[] = {
                { "0", 0, 0 },
                { "-0", 0, 0 },
                { "-1", 0, UINT64_MAX },
                { "9223372036854775807", 0, INT64_MAX },
                { "9223372036854775808", -ERANGE, 0 },
                { "-9223372036854775808", 0, UINT64_C(1) << 63 },
                { "-9223372036854775809", -ERANGE, 0 },
                { "--1", -EINVAL, 0 },
                { "-", -EINVAL, 0 },
                { "- 1", -EINVAL, 0 },
                { "+1", -EINVAL, 0 },
        };

        check_rows(parse_int64_as_bits, rows, ELEMENTSOF(rows));
}

static int parse_bool_as_number(const char *s, uint64_t *ret) {
        bool value;
        int r = parse_bool(s, &value);

        if (r >= 0)
                *ret = value;
        return r;
}

TEST(parse_bool_takes_systemds_words_only) {
        static const Row rows[] = {
                { "1", 0, 1 },        { "yes", 0, 1 },      { "true", 0, 1 },     { "on", 0, 1 },
                { "0", 0, 0 },        { "no", 0, 0 },       { "false", 0, 0 },    { "off", 0, 0 },
                { "", -EINVAL, 0 },   { "2", -EINVAL, 0 },  { "YES", -EINVAL, 0 }, { "y", -EINVAL, 0 },
                { "yes ", -EINVAL, 0 },
        };

        check_rows(parse_bool_as_number, rows, ELEMENTSOF(rows));
}

TEST(parse_bytes_knows_powers_of_1024) {
        static const Row rows[] = {
                { "0", 0, 0 },
                { "1024", 0, 1024 },
                { "1K", 0, 1024 },
                { "64M", 0, UINT64_C(64) << 20 },
                { "2G", 0, UINT64_C(2) << 30 },
                { "3T", 0, UINT64_C(3) << 40 },
                { "16777215T", 0, UINT64_C(16777215) << 40 },
                { "16777216T", -ERANGE, 0 },
                { "99999999999999999999K", -ERANGE, 0 },
                { "99999999999999999999X", -EINVAL, 0 },
                { "1k", -EINVAL, 0 },
                { "1KB", -EINVAL, 0 },
                { "1 K", -EINVAL, 0 },
                { "K", -EINVAL, 0 },
                { "1.5G", -EINVAL, 0 },
                { "-1K", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
                { "", -EINVAL, 0 },
        };

        check_rows(parse_bytes, rows, ELEMENTSOF(rows));
}

TEST(parse_usec_adds_terms_with_units) {
        static const Row rows[] = {
                { "0", 0, 0 },
                { "30", 0, 30000000 },
                { "30s", 0, 30000000 },
                { "30 s", 0, 30000000 },
                { "30sec", 0, 30000000 },
                { "500ms", 0, 500000 },
                { "7us", 0, 7 },
                { "1min", 0, 60000000 },
                { "1m", 0, 60000000 },
                { "1min 30s", 0, 90000000 },
                { "1min30s", 0, 90000000 },
                { "1h 1ms", 0, UINT64_C(3600001000) },
                { "1d", 0, UINT64_C(86400000000) },
                { "18446744073709s", 0, UINT64_C(18446744073709000000) },
                { "18446744073710s", -ERANGE, 0 },
                { "18446744073709s 18446744073709s", -ERANGE, 0 },
                { "99999999999999999999", -ERANGE, 0 },
                { "99999999999999999999x", -EINVAL, 0 },
                { "1min 30", -EINVAL, 0 }, /* a term of a sum says its unit */
                { "1 30", -EINVAL, 0 },
                { "", -EINVAL, 0 },
                { "s", -EINVAL, 0 },
                { " 1s", -EINVAL, 0 },
                { "1s ", -EINVAL, 0 },
                { "1S", -EINVAL, 0 },
                { "-1s", -EINVAL, 0 },
                { "1.5s", -EINVAL, 0 },
                { "1x", -EINVAL, 0 },
                { "1sm", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
        };

        check_rows(parse_usec, rows, ELEMENTSOF(rows));
}

static int parse_percent_as_number(const char *s, uint64_t *ret) {
        unsigned value;
        int r = parse_percent(s, &value);

        if (r >= 0)
                *ret = value;
        return r;
}

TEST(parse_percent_needs_its_sign) {
        static const Row rows[] = {
                { "0%", 0, 0 },
                { "150%", 0, 150 },
                { "4294967295%", 0, UINT32_MAX },
                { "4294967296%", -ERANGE, 0 },
                { "99999999999999999999%", -ERANGE, 0 },
                { "150", -EINVAL, 0 },
                { "%", -EINVAL, 0 },
                { "1%%", -EINVAL, 0 },
                { "1 %", -EINVAL, 0 },
                { "-1%", -EINVAL, 0 },
        };

        check_rows(parse_percent_as_number, rows, ELEMENTSOF(rows));
}

TEST(is_hex_wants_the_exact_length_in_lower_case) {
        ASSERT_TRUE(is_hex("0123456789abcdef", 16));
        ASSERT_TRUE(is_hex("", 0));
        ASSERT_FALSE(is_hex("0123456789abcde", 16));
        ASSERT_FALSE(is_hex("0123456789abcdef0", 16));
        ASSERT_FALSE(is_hex("0123456789ABCDEF", 16));
        ASSERT_FALSE(is_hex("0123456789abcdeg", 16));
        ASSERT_FALSE(is_hex("0123456789abcde/", 16));
}
