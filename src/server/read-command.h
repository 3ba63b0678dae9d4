/* SPDX-License-Identifier: MIT */
#pragma once

/* The output of a small program of the system, such as systemctl. */

#include "base/buffer.h"

/* Blocks, five seconds at most. What it says on standard error is dropped. Returns 0 with what it printed,
 * which may be nothing, or -errno when it cannot be started. */
int read_command(const char *const argv[], Buffer *output);
