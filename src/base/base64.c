/* SPDX-License-Identifier: MIT */

#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_append(Buffer *b, const void *data, size_t n_bytes) {
        const unsigned char *p = data;
        size_t n_chars = (n_bytes + 2) / 3 * 4;
        void *space;
        char *out;
        int r;

        assert(b);
        assert(data || n_bytes == 0);

        r = buffer_reserve(b, n_chars, &space);
        if (r < 0)
                return r;
        out = space;
        for (size_t i = 0; i < n_bytes; i += 3) {
                size_t n = MIN_OF(n_bytes - i, (size_t) 3);
                unsigned v = (unsigned) p[i] << 16;

                if (n > 1)
                        v |= (unsigned) p[i + 1] << 8;
                if (n > 2)
                        v |= p[i + 2];
                *out++ = alphabet[v >> 18];
                *out++ = alphabet[(v >> 12) & 63];
                *out++ = n > 1 ? alphabet[(v >> 6) & 63] : '=';
                *out++ = n > 2 ? alphabet[v & 63] : '=';
        }
        buffer_commit(b, n_chars);
        return 0;
}

static int value_of(char c) {
        const char *p = c == '\0' ? NULL : strchr(alphabet, c);

        return p ? (int) (p - alphabet) : -1;
}

int base64_decode(const char *text, size_t n_chars, Buffer *b) {
        int r;

        assert(text || n_chars == 0);
        assert(b);

        if (n_chars % 4 != 0)
                return -EBADMSG;
        for (size_t i = 0; i < n_chars; i += 4) {
                bool is_last = i + 4 == n_chars;
                size_t n_padding = is_last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
                unsigned char bytes[3];
                unsigned v = 0;

                for (size_t k = 0; k < 4; k++) {
                        int d = k >= 4 - n_padding ? 0 : value_of(text[i + k]);

                        if (d < 0)
                                return -EBADMSG;
                        v = v << 6 | (unsigned) d;
                }
                /* Two spellings of one value would let a header differ from what it decodes to. */
                if ((n_padding == 1 && (v & 0xff) != 0) || (n_padding == 2 && (v & 0xffff) != 0))
                        return -EBADMSG;
                bytes[0] = (unsigned char) (v >> 16);
                bytes[1] = (unsigned char) (v >> 8);
                bytes[2] = (unsigned char) v;
                r = buffer_append(b, bytes, 3 - n_padding);
                if (r < 0)
                        return r;
        }
        return 0;
}
