/* SPDX-License-Identifier: MIT */

#include "python/grammar.h"

#include <string.h>

#include "base/macro.h"
#include "base/utf8.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* The rest of the text, read from the left. */
typedef struct Reader {
        const char *at;
} Reader;

static bool take(Reader *r, const char *word) {
        size_t n = strlen(word);

        if (strncmp(r->at, word, n) != 0)
                return false;
        r->at += n;
        return true;
}

/* One character of these at least. */
static bool take_some(Reader *r, const char *characters) {
        size_t n = strspn(r->at, characters);

        r->at += n;
        return n > 0;
}

/* [a-z0-9]+(-[a-z0-9]+)* */
static bool take_name(Reader *r) {
        do
                if (!take_some(r, LOWER DIGITS))
                        return false;
        while (take(r, "-"));
        return true;
}

static bool take_specifier(Reader *r) {
        static const char *const operators[] = { "===", "==", "!=", "<=", ">=", "~=", "<", ">" };

        for (size_t i = 0; i < ELEMENTSOF(operators); i++)
                if (take(r, operators[i]))
                        return take_some(r, LOWER UPPER DIGITS "._+!*-");
        return false;
}

static bool take_specifiers(Reader *r) {
        do
                if (!take_specifier(r))
                        return false;
        while (take(r, ","));
        return true;
}

static bool take_extras(Reader *r) {
        do
                if (!take_name(r))
                        return false;
        while (take(r, ","));
        return take(r, "]");
}

static bool take_url(Reader *r, const GrammarPolicy *policy) {
        if (take(r, "git+https://")) {
                if (!policy->allows_vcs)
                        return false;
        } else if (!take(r, "https://") || !policy->allows_urls)
                return false;
        return take_some(r, LOWER UPPER DIGITS "._~:/?#@!&*+,=%-");
}

bool grammar_is_requirement(const char *s, const GrammarPolicy *policy) {
        Reader r = { s };

        assert(s);
        assert(policy);

        if (strlen(s) > REQUIREMENT_BYTES_MAX || !take_name(&r))
                return false;
        if (take(&r, "[") && !take_extras(&r))
                return false;
        if (take(&r, " @ ")) {
                if (!take_url(&r, policy))
                        return false;
        } else if (*r.at && strchr("=!<>~", *r.at) && !take_specifiers(&r))
                return false;
        if (take(&r, " ; ") && !take_some(&r, LOWER UPPER DIGITS "_.+*!,<>=~() \"-"))
                return false;
        return *r.at == 0;
}

bool grammar_is_specifier_set(const char *s) {
        Reader r = { s };

        assert(s);

        return *s == 0 || (strlen(s) <= REQUIREMENT_BYTES_MAX && take_specifiers(&r) && *r.at == 0);
}

bool grammar_is_version(const char *s) {
        Reader r = { s };

        assert(s);

        return strlen(s) <= 32 && take_some(&r, DIGITS) && take(&r, ".") &&
               take_some(&r, LOWER DIGITS ".+") && *r.at == 0;
}

bool grammar_is_name(const char *s, size_t n_bytes) {
        Reader r = { s };

        assert(s);

        return n_bytes == strlen(s) && n_bytes <= 200 && take_name(&r) && *r.at == 0;
}

bool grammar_is_line(const char *s, size_t n_bytes, size_t max_bytes) {
        assert(s);

        if (n_bytes > max_bytes)
                return false;
        for (size_t i = 0; i < n_bytes;) {
                size_t n = utf8_sequence(s + i, n_bytes - i);

                if (n == 0 || !utf8_is_plain(s + i, n))
                        return false;
                i += n;
        }
        return true;
}
