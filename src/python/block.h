/* SPDX-License-Identifier: MIT */
#pragma once

/* Block: the lines of a script that may say what packages it needs, found by their look alone. What they
 * mean is for PARSE to say. */

#include <stddef.h>

#include "base/buffer.h"

/* Appends the script with nothing left of it but comments that have "//" somewhere, each line where it was:
 * PARSE finds the same block, at the same lines, in it, and scripts that differ in their code only look the
 * same. A line of code behind such a comment becomes "x", but for a fence that is indented. Returns 0 or
 * -ENOMEM. */
int block_reduce(const char *text, size_t text_bytes, Buffer *b);
