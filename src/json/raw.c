/* SPDX-License-Identifier: MIT */

/* The lenient scanner: finds members in text that may be broken elsewhere. It knows strings and brackets
 * and nothing more; whatever it returns must be checked by whoever uses it. Iterative: depth costs
 * nothing here. */

#include <errno.h>

#include "json/json.h"
#include "json/scan.h"

static size_t skip_space(const char *t, size_t n, size_t i) {
        while (i < n && json_is_space(t[i]))
                i++;
        return i;
}

/* Behind the closing quote of the string that opens at i, or n when it never closes. */
static size_t skip_string(const char *t, size_t n, size_t i) {
        for (i++; i < n; i++)
                if (t[i] == '\\')
                        i++;
                else if (t[i] == '"')
                        return i + 1;
        return n;
}

/* To the comma or closing bracket that ends the value starting at i, or n. Text left over from a broken
 * string ends up in here too, which is why an id that follows one is not found rather than invented. */
static size_t skip_value(const char *t, size_t n, size_t i) {
        size_t depth = 0;

        while (i < n)
                switch (t[i]) {
                case '"':
                        i = skip_string(t, n, i);
                        break;
                case '{':
                case '[':
                        depth++;
                        i++;
                        break;
                case '}':
                case ']':
                        if (depth == 0)
                                return i;
                        depth--;
                        i++;
                        break;
                case ',':
                        if (depth == 0)
                                return i;
                        i++;
                        break;
                default:
                        i++;
                        break;
                }
        return n;
}

/* Does the key text[start..end), quotes included, spell this name? "\u0069d" is "id" too. Names are
 * ASCII. */
static bool key_is(const char *t, size_t start, size_t end, const char *name) {
        size_t i = start + 1;

        if (end < start + 2)
                return false;
        for (end--; i < end; name++) {
                int c = (unsigned char) t[i];

                if (c == '\\' && i + 1 < end) {
                        if (t[i + 1] == 'u') {
                                c = json_hex4(t + i + 2, end - i - 2);
                                i += 6;
                        } else {
                                c = (unsigned char) t[i + 1];
                                if (c != '/' && c != '\\' && c != '"')
                                        return false; /* control characters occur in no name */
                                i += 2;
                        }
                } else
                        i++;
                if (*name == '\0' || c != (unsigned char) *name)
                        return false;
        }
        return *name == '\0';
}

int json_raw_member(const char *text, size_t n_bytes, const char *name, const char **ret,
                    size_t *ret_bytes) {
        size_t i;

        assert(text || n_bytes == 0);
        assert(name);
        assert(ret);
        assert(ret_bytes);

        i = skip_space(text, n_bytes, 0);
        if (i >= n_bytes || text[i] != '{')
                return 0;
        i++;
        while (i < n_bytes) {
                size_t key_start, key_end, value_start, value_end;

                key_start = skip_space(text, n_bytes, i);
                if (key_start >= n_bytes || text[key_start] != '"')
                        return 0;
                key_end = skip_string(text, n_bytes, key_start);
                i = skip_space(text, n_bytes, key_end);
                if (i >= n_bytes || text[i] != ':')
                        return 0;
                value_start = skip_space(text, n_bytes, i + 1);
                value_end = skip_value(text, n_bytes, value_start);
                i = value_end + 1;
                /* A value that runs to the end of broken text may have been cut: 12 of 1234. */
                if (value_end >= n_bytes)
                        return 0;
                if (!key_is(text, key_start, key_end, name)) {
                        if (text[value_end] != ',')
                                return 0;
                        continue;
                }
                while (value_end > value_start && json_is_space(text[value_end - 1]))
                        value_end--;
                if (value_end == value_start)
                        return 0;
                *ret = text + value_start;
                *ret_bytes = value_end - value_start;
                return 1;
        }
        return 0;
}

int json_raw_next_element(const char *text, size_t n_bytes, size_t *pos, const char **ret,
                          size_t *ret_bytes) {
        size_t i, start, end;

        assert(text || n_bytes == 0);
        assert(pos);
        assert(ret);
        assert(ret_bytes);

        i = *pos;
        if (i == 0) {
                i = skip_space(text, n_bytes, 0);
                if (i >= n_bytes || text[i] != '[')
                        return -EBADMSG;
                i = skip_space(text, n_bytes, i + 1);
                if (i < n_bytes && text[i] == ']') { /* the empty array */
                        *pos = n_bytes;
                        return 0;
                }
        }
        if (i >= n_bytes)
                return 0;

        start = skip_space(text, n_bytes, i);
        end = skip_value(text, n_bytes, start);
        if (end >= n_bytes)
                return -EBADMSG;
        if (text[end] == '}')
                return -EBADMSG;
        *pos = text[end] == ',' ? end + 1 : n_bytes;
        while (end > start && json_is_space(text[end - 1]))
                end--;
        if (end == start)
                return -EBADMSG;
        *ret = text + start;
        *ret_bytes = end - start;
        return 1;
}
