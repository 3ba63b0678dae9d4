/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs as tasks of the tasks extension: a second face of the same table. */

#include "exec/run-table.h"
#include "tool/registry.h"

/* Quick programs are answered at once even to clients that take tasks: some declare it with every call. */
#define TASK_AFTER_USEC (2 * USEC_PER_SEC)

/* Ends the call with the handle of this background run. */
void task_answer(const ToolRegistry *registry, McpCall *call, const Run *run);
