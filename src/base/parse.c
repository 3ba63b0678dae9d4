/* SPDX-License-Identifier: MIT */

/* Strict parsers: written out by hand, since the C library's skip white space, take signs and stop at
 * garbage. */

#include "base/parse.h"

#include "base/macro.h"

/* Digits at *p; moves *p behind them. */
static int parse_digits(const char **p, uint64_t *ret) {
        const char *s = *p;
        uint64_t value = 0;
        bool is_too_large = false;

        if (*s < '0' || *s > '9')
                return -EINVAL;
        for (; *s >= '0' && *s <= '9'; s++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (*s - '0'), &value))
                        is_too_large = true; /* read on: "99999999999999999999x" is no number at all */
        *p = s;
        *ret = value;
        return is_too_large ? -ERANGE : 0;
}

int parse_uint64(const char *s, uint64_t *ret) {
        uint64_t value;
        int r;

        assert(s);
        assert(ret);

        r = parse_digits(&s, &value);
        if (r == -EINVAL || *s)
                return -EINVAL;
        if (r < 0)
                return r;
        *ret = value;
        return 0;
}

int parse_int64(const char *s, int64_t *ret) {
        bool is_negative;
        uint64_t value;
        int r;

        assert(s);
        assert(ret);

        is_negative = *s == '-';
        r = parse_uint64(s + is_negative, &value);
        if (r < 0)
                return r;
        if (value > (uint64_t) INT64_MAX + is_negative)
                return -ERANGE;
        /* Not -(int64_t) value: that overflows for the smallest number. */
        *ret = is_negative ? (int64_t) (UINT64_C(0) - value) : (int64_t) value;
        return 0;
}

int parse_bool(const char *s, bool *ret) {
        static const char *const words[2][4] = {
                { "0", "no", "false", "off" },
                { "1", "yes", "true", "on" },
        };

        assert(s);
        assert(ret);

        for (size_t value = 0; value < ELEMENTSOF(words); value++)
                for (size_t i = 0; i < ELEMENTSOF(words[value]); i++)
                        if (streq(s, words[value][i])) {
                                *ret = value == 1;
                                return 0;
                        }
        return -EINVAL;
}

int parse_bytes(const char *s, uint64_t *ret) {
        static const char suffixes[] = "KMGT";
        uint64_t value, factor = 1;
        int r;

        assert(s);
        assert(ret);

        r = parse_digits(&s, &value);
        if (r == -EINVAL)
                return r;
        if (*s) {
                const char *suffix = strchr(suffixes, *s);

                if (!suffix || s[1])
                        return -EINVAL;
                factor = UINT64_C(1) << (10 * (suffix - suffixes + 1));
        }
        if (r < 0)
                return r;
        if (__builtin_mul_overflow(value, factor, &value))
                return -ERANGE;
        *ret = value;
        return 0;
}

static int parse_time_unit(const char *s, size_t n, uint64_t *ret) {
        static const struct {
                const char *name;
                uint64_t usec;
        } units[] = {
                { "us", 1 },
                { "ms", USEC_PER_MSEC },
                { "s", USEC_PER_SEC },
                { "sec", USEC_PER_SEC },
                { "m", 60 * USEC_PER_SEC },
                { "min", 60 * USEC_PER_SEC },
                { "h", 3600 * USEC_PER_SEC },
                { "d", 86400 * USEC_PER_SEC },
        };

        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (strlen(units[i].name) == n && memcmp(units[i].name, s, n) == 0) {
                        *ret = units[i].usec;
                        return 0;
                }
        return -EINVAL;
}

int parse_usec(const char *s, uint64_t *ret) {
        uint64_t sum = 0;
        bool is_too_large = false;

        assert(s);
        assert(ret);

        for (bool is_first = true;; is_first = false) {
                uint64_t value, factor;
                size_t n;
                int r;

                r = parse_digits(&s, &value);
                if (r == -EINVAL)
                        return r;
                if (r < 0)
                        is_too_large = true;

                /* A number alone is seconds; within a sum every term says its unit. */
                if (!*s && is_first)
                        factor = USEC_PER_SEC;
                else {
                        s += strspn(s, " ");
                        n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
                        r = parse_time_unit(s, n, &factor);
                        if (r < 0)
                                return r;
                        s += n;
                }
                if (__builtin_mul_overflow(value, factor, &value) ||
                    __builtin_add_overflow(sum, value, &sum))
                        is_too_large = true;
                if (!*s)
                        break;
                s += strspn(s, " ");
        }
        if (is_too_large)
                return -ERANGE;
        *ret = sum;
        return 0;
}

int parse_percent(const char *s, unsigned *ret) {
        uint64_t value;
        int r;

        assert(s);
        assert(ret);

        r = parse_digits(&s, &value);
        if (r == -EINVAL || !streq(s, "%"))
                return -EINVAL;
        if (r < 0 || value > UINT32_MAX)
                return -ERANGE;
        *ret = (unsigned) value;
        return 0;
}

bool is_hex(const char *s, size_t n_chars) {
        assert(s);

        return strlen(s) == n_chars && strspn(s, "0123456789abcdef") == n_chars;
}

int parse_hex(const char *s, size_t n_chars, uint64_t *ret) {
        static const char digits[] = "0123456789abcdef";
        uint64_t value = 0;

        assert(s);
        assert(n_chars > 0 && n_chars <= 16);
        assert(ret);

        for (size_t i = 0; i < n_chars; i++) {
                const char *digit = s[i] ? strchr(digits, s[i]) : NULL;

                if (!digit)
                        return -EINVAL;
                value = value << 4 | (uint64_t) (digit - digits);
        }
        *ret = value;
        return 0;
}
