/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecResult -> the two forms in which MCP wants it: a JSON object, and the same object as text. */

#include "base/buffer.h"
#include "base/settings.h"
#include "exec/exec.h"

/* Desktop clients refuse messages of 1 MB. What stands around the result (id of at most 1 KiB, server's
 * name, framing) has room in the difference. */
#define RESULT_BYTES_MAX 990000

/* *content: the array of content blocks; *structured: the object. Together at most RESULT_BYTES_MAX: where
 * the output is too large for that (some characters take 13 bytes in both), less of it is shown. Returns 0
 * or -ENOMEM. */
int result_write(const ExecResult *result, const Settings *settings, Buffer *content, Buffer *structured);
