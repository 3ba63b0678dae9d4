/* SPDX-License-Identifier: MIT */
#pragma once

/* Audit: one journal record for each finished run, metadata only. mcp-exec(8) lists the fields. */

#include <stdbool.h>

#include "exec/exec.h"

/* All records of finished runs carry this MESSAGE_ID. */
#define AUDIT_MESSAGE_ID_RUN_FINISHED "d8730b6fcf21427bb7ab3f93b1c22f0f"

/* Writes the record. A record that cannot be written is logged and otherwise lost: the answer goes out all
 * the same. */
void audit_run_finished(const ExecRequest *request, const ExecResult *result);

/* True when log_struct() reaches a journal, so that records do not end up as text on a client's screen. */
bool audit_has_journal(void);
