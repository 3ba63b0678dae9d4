/* SPDX-License-Identifier: MIT */
#pragma once

/* NULL-terminated arrays of strings, owned as one. A NULL array is the empty one. */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

char** strv_free(char **l);
DEFINE_CLEANUP(char**, strv_free);
#define _cleanup_strv_ _cleanup_(strv_freep)

size_t strv_length(char *const *l);
bool strv_contains(char *const *l, const char *s);

/* Appends a copy. Returns 0 or -ENOMEM. */
int strv_extend(char ***l, const char *s);
int strv_extendf(char ***l, const char *format, ...) _printf_(2, 3);

/* Splits at white space. */
int strv_split(const char *s, char ***ret);

#define STRV_FOREACH(s, l) for (char *const *s = (l); s && *s; s++)

/* asprintf() that returns 0 or -ENOMEM and leaves *ret alone on failure. */
int str_printf(char **ret, const char *format, ...) _printf_(2, 3);
int str_copy(char **ret, const char *s); /* replaces *ret, freeing the old string; s may be NULL */

/* One word of a command line that somebody pastes into a shell: in single quotes where it needs them. Leaves
 * *ret alone on failure. Returns 0 or -ENOMEM. */
int str_quote_for_shell(const char *s, char **ret);
