/* SPDX-License-Identifier: MIT */

#include "tool/clean.h"

#include "base/utf8.h"

int clean_append(const void *text, size_t n_bytes, size_t max_bytes, Buffer *b) {
        const char *s = text;
        size_t n_added = 0;
        int r;

        assert(s || n_bytes == 0);
        assert(b);

        for (size_t i = 0, k; i < n_bytes; i += k) {
                char one[4];
                size_t n;

                k = utf8_sequence(s + i, n_bytes - i);
                if (k == 0) {
                        k = 1;
                        n = 3;
                        memcpy(one, "\xef\xbf\xbd", 3); /* U+FFFD */
                } else {
                        n = k;
                        memcpy(one, s + i, k);
                        if (!utf8_is_plain(one, k)) {
                                one[0] = ' ';
                                n = 1;
                        }
                }
                if (n_added + n > max_bytes)
                        break;
                r = buffer_append(b, one, n);
                if (r < 0)
                        return r;
                n_added += n;
        }
        return 0;
}

int clean_copy(const char *text, size_t max_bytes, char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        assert(ret);

        if (!text) {
                *ret = NULL;
                return 0;
        }
        r = clean_append(text, strlen(text), max_bytes, &b);
        return r < 0 ? r : buffer_steal(&b, ret, NULL);
}
