/* SPDX-License-Identifier: MIT */
#pragma once

/* Problem: why nothing can be run, in two sentences that travel to the client: what is missing, and what
 * to do. */

#include "base/macro.h"
#include "wire/wire.h"

typedef struct Problem {
        char reason[sizeof(((WireHello*) NULL)->reason)];
        char remedy[sizeof(((WireHello*) NULL)->remedy)];
} Problem;

/* The two remedies that recur. */
#define REMEDY_SYSTEM_SERVICE                                                                               \
        "Use the system service: \"sudo systemctl enable --now mcp-exec.socket\" and "                      \
        "\"sudo gpasswd -a USER mcp-exec\" with the user's name"
#define REMEDY_JOURNAL "See the journal: journalctl -b -u mcp-exec-launcher.service"

/* Fills p and returns -error, so that `return problem_set(…)` both tells and fails. p may be NULL. */
int problem_set(Problem *p, int error, const char *remedy, const char *reason_format, ...) _printf_(4, 5);
