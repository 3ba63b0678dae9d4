/* SPDX-License-Identifier: MIT */
#pragma once

/* Hints: what a program's last words on stderr let one guess. systemd cannot know that a program died
 * because there is no network; its last error line can. A guess never changes a status. */

#include <stdbool.h>
#include <stdint.h>

#include "base/capture.h"

/* What a hint can tell of this sandbox. */
typedef struct HintFacts {
        uint64_t tasks_max, memory_max_bytes, tmpfs_bytes; /* 0: not known */
        char *const *packages;                             /* "numpy 1.24.2"; NULL: not known */
        bool can_declare;                                  /* programs may name packages they need */
} HintFacts;

/* *ret_cause: a sentence for the result's message, when the program died for want of a module or of the
 * network, else NULL. *ret_hints: sentences for everything else, NULL if there are none. Returns 0 or
 * -ENOMEM. */
int hints_from_stderr(const Capture *err, const HintFacts *facts, char **ret_cause, char ***ret_hints);
