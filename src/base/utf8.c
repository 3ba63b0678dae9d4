/* SPDX-License-Identifier: MIT */

/* UTF-8 by RFC 3629, table 3-7 of the Unicode standard: the second byte's range depends on the first, which
 * is where overlong forms, surrogates and code points beyond U+10FFFF are refused. */

#include "base/utf8.h"

#include "base/macro.h"

#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

size_t utf8_sequence(const void *s, size_t n_bytes) {
        const uint8_t *p = s;
        uint8_t low = 0x80, high = 0xbf;
        size_t length;

        assert(s || n_bytes == 0);

        if (n_bytes == 0)
                return 0;
        if (p[0] < 0x80)
                return 1;
        if (p[0] < 0xc2) /* a continuation byte, or an overlong form of ASCII */
                return 0;
        if (p[0] < 0xe0)
                length = 2;
        else if (p[0] < 0xf0) {
                length = 3;
                if (p[0] == 0xe0)
                        low = 0xa0; /* overlong */
                else if (p[0] == 0xed)
                        high = 0x9f; /* surrogates */
        } else if (p[0] < 0xf5) {
                length = 4;
                if (p[0] == 0xf0)
                        low = 0x90; /* overlong */
                else if (p[0] == 0xf4)
                        high = 0x8f; /* beyond U+10FFFF */
        } else
                return 0;

        if (n_bytes < length || p[1] < low || p[1] > high)
                return 0;
        for (size_t i = 2; i < length; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        return length;
}

bool utf8_is_plain(const void *s, size_t n_bytes) {
        const uint8_t *p = s;
        unsigned c;

        assert(s);

        if (n_bytes == 1)
                return p[0] >= 0x20 && p[0] != 0x7f;
        if (n_bytes == 2) {
                c = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
                return c >= 0xa0 && c != 0x61c;
        }
        if (n_bytes == 3) {
                c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
                return c != 0x200e && c != 0x200f && !(c >= 0x2028 && c <= 0x202e) &&
                       !(c >= 0x2066 && c <= 0x2069);
        }
        return n_bytes == 4;
}

/* Bytes of valid text at the start of s. Eight ASCII bytes a step: most output is nothing else. */
static size_t utf8_valid_prefix(const uint8_t *s, size_t n_bytes) {
        size_t i = 0;

        while (i < n_bytes) {
                uint64_t word;
                size_t n;

                if (n_bytes - i >= sizeof(word)) {
                        memcpy(&word, s + i, sizeof(word));
                        if ((word & UINT64_C(0x8080808080808080)) == 0) {
                                i += sizeof(word);
                                continue;
                        }
                }
                n = utf8_sequence(s + i, n_bytes - i);
                if (n == 0)
                        break;
                i += n;
        }
        return i;
}

bool utf8_is_valid(const void *s, size_t n_bytes) {
        assert(s || n_bytes == 0);

        return n_bytes == 0 || utf8_valid_prefix(s, n_bytes) == n_bytes;
}

int utf8_repair(const void *s, size_t n_bytes, Buffer *b) {
        const uint8_t *p = s;
        int r;

        assert(s || n_bytes == 0);
        assert(b);

        while (n_bytes > 0) {
                size_t n = utf8_valid_prefix(p, n_bytes);

                r = buffer_append(b, p, n);
                if (r < 0)
                        return r;
                p += n;
                n_bytes -= n;
                if (n_bytes == 0)
                        break;

                r = buffer_append_str(b, REPLACEMENT_CHARACTER);
                if (r < 0)
                        return r;
                do {
                        p++;
                        n_bytes--;
                } while (n_bytes > 0 && utf8_sequence(p, n_bytes) == 0);
        }
        return 0;
}
