/* SPDX-License-Identifier: MIT */
#pragma once

/* Grammar: what we take from PARSE and hand on to FETCH. PARSE read hostile text, so its word is checked
 * again before it gets near a program that has network. The grammar stands in runner/prepare/README.md. */

#include <stdbool.h>
#include <stddef.h>

#define REQUIREMENT_BYTES_MAX 512
#define REQUIREMENTS_MAX 256

typedef struct GrammarPolicy {
        bool allows_urls, allows_vcs, allows_python_downloads;
} GrammarPolicy;

/* One requirement: name[extra,…]spec,… ; marker, or with " @ URL" where policy allows that. */
bool grammar_is_requirement(const char *s, const GrammarPolicy *policy);

/* "", or specifiers with commas. */
bool grammar_is_specifier_set(const char *s);

/* A version as an interpreter tells it ("3.13.5", "3.14.0rc2"). */
bool grammar_is_version(const char *s);

/* A package's normalised name. */
bool grammar_is_name(const char *s, size_t n_bytes);

/* One line for a human: valid UTF-8 without control characters, at most max_bytes. */
bool grammar_is_line(const char *s, size_t n_bytes, size_t max_bytes);
