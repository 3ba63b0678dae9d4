/* SPDX-License-Identifier: MIT */
#pragma once

/* The strict scanner: decides what is JSON before cJSON sees it, so that cJSON's leniencies do not
 * matter. */

#include <stdbool.h>
#include <stddef.h>

typedef struct JsonScanner {
        const char *text;
        size_t n_bytes, at;
        size_t n_values;
        bool has_unfit_text; /* "\u0000" or a lone surrogate was seen */
        char *patch;         /* a copy of text to overwrite such escapes in with "\ufffd", or NULL */
} JsonScanner;

/* The whole text. Returns 0 or JSON_E_SYNTAX, JSON_E_DEPTH, JSON_E_SIZE; unfit text is only noted. */
int json_scan(JsonScanner *s);

static inline bool json_is_space(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Four hex digits at s, or -1. */
int json_hex4(const char *s, size_t n_bytes);
