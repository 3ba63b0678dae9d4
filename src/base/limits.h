/* SPDX-License-Identifier: MIT */
#pragma once

/* What one principal may use. A zero means: as the settings say for everybody. None can raise a limit, only
 * lower it. */

#include <stdbool.h>
#include <stdint.h>

typedef struct CountLimits {
        unsigned parallel;        /* programs that run at once */
        unsigned queue;           /* calls that wait */
        bool has_queue;           /* queue is meant, also when it is 0: nothing may wait */
        unsigned rate_per_minute; /* programs started */
} CountLimits;

/* "token:" and the longest name of a token. */
#define PRINCIPAL_GROUP_CHARS_MAX 80

typedef struct PrincipalLimits {
        CountLimits own;
        /* Of all users together whom one client names, or a front end could run as much as it likes by
         * inventing some. Their principals are group, group/USER or group:USER. "": no such group. */
        CountLimits whole;
        char group[PRINCIPAL_GROUP_CHARS_MAX + 1];
        uint64_t timeout_usec;     /* of one program */
        uint64_t memory_max_bytes; /* of one program */
} PrincipalLimits;

bool principal_is_of(const char *principal, const char *group);
