/* SPDX-License-Identifier: MIT */

/* Strict JSON (RFC 8259) over UTF-8, with limits on depth, on the number of values and on the length of
 * numbers. */

#include "json/scan.h"

#include "base/utf8.h"
#include "json/json.h"

int json_hex4(const char *s, size_t n_bytes) {
        int v = 0;

        if (n_bytes < 4)
                return -1;
        for (size_t i = 0; i < 4; i++) {
                char c = s[i];

                if (c >= '0' && c <= '9')
                        v = v * 16 + (c - '0');
                else if (c >= 'a' && c <= 'f')
                        v = v * 16 + (c - 'a' + 10);
                else if (c >= 'A' && c <= 'F')
                        v = v * 16 + (c - 'A' + 10);
                else
                        return -1;
        }
        return v;
}

static bool at_end(const JsonScanner *s) {
        return s->at >= s->n_bytes;
}

static char peek(const JsonScanner *s) {
        return at_end(s) ? '\0' : s->text[s->at];
}

static void skip_space(JsonScanner *s) {
        while (!at_end(s) && json_is_space(s->text[s->at]))
                s->at++;
}

static void note_unfit(JsonScanner *s, size_t escape_at) {
        s->has_unfit_text = true;
        if (s->patch)
                memcpy(s->patch + escape_at, "\\ufffd", 6);
}

/* At the backslash of "\uXXXX". A pair of surrogates is one character and taken whole. */
static int scan_unicode_escape(JsonScanner *s) {
        size_t start = s->at;
        int high = json_hex4(s->text + start + 2, s->n_bytes - start - 2), low;

        if (high < 0)
                return JSON_E_SYNTAX;
        s->at += 6;
        if (high >= 0xd800 && high <= 0xdbff && s->n_bytes - s->at >= 6 && s->text[s->at] == '\\' &&
            s->text[s->at + 1] == 'u') {
                low = json_hex4(s->text + s->at + 2, s->n_bytes - s->at - 2);
                if (low >= 0xdc00 && low <= 0xdfff) {
                        s->at += 6;
                        return 0;
                }
        }
        if (high == 0 || (high >= 0xd800 && high <= 0xdfff))
                note_unfit(s, start);
        return 0;
}

/* At the opening quote; afterwards behind the closing one. */
static int scan_string(JsonScanner *s) {
        int r;

        s->at++;
        while (!at_end(s)) {
                unsigned char c = (unsigned char) s->text[s->at];

                if (c == '"') {
                        s->at++;
                        return 0;
                }
                if (c < 0x20)
                        return JSON_E_SYNTAX;
                if (c >= 0x80) {
                        size_t n = utf8_sequence(s->text + s->at, s->n_bytes - s->at);

                        if (n == 0)
                                return JSON_E_SYNTAX;
                        s->at += n;
                } else if (c != '\\')
                        s->at++;
                else if (s->n_bytes - s->at < 2)
                        return JSON_E_SYNTAX;
                else if (s->text[s->at + 1] == 'u') {
                        r = scan_unicode_escape(s);
                        if (r != 0)
                                return r;
                } else if (s->text[s->at + 1] != '\0' && strchr("\"\\/bfnrt", s->text[s->at + 1]))
                        s->at += 2;
                else
                        return JSON_E_SYNTAX;
        }
        return JSON_E_SYNTAX;
}

static bool scan_digits(JsonScanner *s) {
        size_t start = s->at;

        while (peek(s) >= '0' && peek(s) <= '9')
                s->at++;
        return s->at > start;
}

static int scan_number(JsonScanner *s) {
        size_t start = s->at;

        if (peek(s) == '-')
                s->at++;
        if (peek(s) == '0')
                s->at++;
        else if (!scan_digits(s))
                return JSON_E_SYNTAX;
        if (peek(s) == '.') {
                s->at++;
                if (!scan_digits(s))
                        return JSON_E_SYNTAX;
        }
        if (peek(s) == 'e' || peek(s) == 'E') {
                s->at++;
                if (peek(s) == '+' || peek(s) == '-')
                        s->at++;
                if (!scan_digits(s))
                        return JSON_E_SYNTAX;
        }
        return s->at - start > JSON_NUMBER_CHARS_MAX ? JSON_E_SIZE : 0;
}

static int scan_word(JsonScanner *s, const char *word) {
        size_t n = strlen(word);

        if (s->n_bytes - s->at < n || memcmp(s->text + s->at, word, n) != 0)
                return JSON_E_SYNTAX;
        s->at += n;
        return 0;
}

static int scan_value(JsonScanner *s, unsigned depth);

/* An object or array, at its opening bracket. */
static int scan_container(JsonScanner *s, char close, unsigned depth) {
        int r;

        if (depth >= JSON_DEPTH_MAX)
                return JSON_E_DEPTH;
        s->at++;
        skip_space(s);
        if (peek(s) == close) {
                s->at++;
                return 0;
        }
        for (;;) {
                if (close == '}') {
                        if (peek(s) != '"')
                                return JSON_E_SYNTAX;
                        r = scan_string(s);
                        if (r != 0)
                                return r;
                        skip_space(s);
                        if (peek(s) != ':')
                                return JSON_E_SYNTAX;
                        s->at++;
                        skip_space(s);
                }
                r = scan_value(s, depth + 1);
                if (r != 0)
                        return r;
                skip_space(s);
                if (peek(s) == close) {
                        s->at++;
                        return 0;
                }
                if (peek(s) != ',')
                        return JSON_E_SYNTAX;
                s->at++;
                skip_space(s);
        }
}

static int scan_value(JsonScanner *s, unsigned depth) {
        if (++s->n_values > JSON_VALUES_MAX)
                return JSON_E_SIZE;
        switch (peek(s)) {
        case '{':
                return scan_container(s, '}', depth);
        case '[':
                return scan_container(s, ']', depth);
        case '"':
                return scan_string(s);
        case 't':
                return scan_word(s, "true");
        case 'f':
                return scan_word(s, "false");
        case 'n':
                return scan_word(s, "null");
        default:
                return scan_number(s);
        }
}

int json_scan(JsonScanner *s) {
        int r;

        assert(s);
        assert(s->text || s->n_bytes == 0);

        if (s->n_bytes > JSON_BYTES_MAX)
                return JSON_E_SIZE;
        skip_space(s);
        r = scan_value(s, 0);
        if (r != 0)
                return r;
        skip_space(s);
        return at_end(s) ? 0 : JSON_E_SYNTAX;
}
