/* SPDX-License-Identifier: MIT */
#pragma once

/* What one principal may use. A zero means: as the settings say for everybody. None can raise a limit, only
 * lower it. */

#include <stdbool.h>
#include <stdint.h>

typedef struct PrincipalLimits {
        unsigned parallel;         /* programs that run at once */
        unsigned queue;            /* calls that wait */
        bool has_queue;            /* queue is meant, also when it is 0: nothing may wait */
        unsigned rate_per_minute;  /* programs started */
        uint64_t timeout_usec;     /* of one program */
        uint64_t memory_max_bytes; /* of one program */
} PrincipalLimits;
