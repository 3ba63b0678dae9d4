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

/* The remedies that recur. Those for a user name this process's; static, until the next call. */
#define REMEDY_JOURNAL "See the journal: journalctl -b -u mcp-exec-launcher.service"
const char* remedy_system_service(void);
const char* remedy_user_manager(void); /* that does not run */
const char* remedy_user_bus(void); /* that is not there */

/* Fills p and returns -error, so that `return problem_set(…)` both tells and fails. p may be NULL. */
int problem_set(Problem *p, int error, const char *remedy, const char *reason_format, ...) _printf_(4, 5);
