/* SPDX-License-Identifier: MIT */
#pragma once

/* The kinds of values that a configuration key can have, and which words each of them takes. For settings.c
 * only. */

#include <stdbool.h>

#include "base/macro.h"

typedef enum Kind {
        KIND_COUNT,       /* unsigned */
        KIND_COUNT64,
        KIND_BYTES,
        KIND_TIME,
        KIND_TIME_OR_ZERO, /* 0 means never, whatever the minimum */
        KIND_PERCENT,
        KIND_BOOL,
        KIND_NAMES,
        KIND_HOSTS,
        KIND_PATHS,
        KIND_PROGRAM,
        KIND_PROGRAMS,
        KIND_FILE,        /* one path, or empty */
        KIND_URL,         /* one, or empty */
        KIND_URLS,
        KIND_PROXY,       /* the URL of an HTTP proxy, or empty */
        KIND_DESTINATIONS, /* names of hosts, addresses, networks */
        KIND_DISTRIBUTIONS, /* names of Python packages */
        KIND_MOMENT,      /* a date, a time of day with it, or a span of days or weeks (P7D); or empty */
        KIND_CONTROLLERS, KIND_ENDPOINTS, KIND_HINTS, /* masks of known words */
        _KIND_MAX,
} Kind;

/* Whether one word may stand as a value, or in a list, of this kind. 0, -EINVAL with reason, or -ENOMEM. */
int settings_check_word(Kind kind, const char *word, char **reterr_reason);

/* Returns -EINVAL with the sentence, or -ENOMEM. */
int settings_refuse(char **reterr_reason, const char *format, ...) _printf_(2, 3);
