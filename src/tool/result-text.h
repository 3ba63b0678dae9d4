/* SPDX-License-Identifier: MIT */
#pragma once

/* The result of execute_python as text, in the predecessor's layout. */

#include "base/buffer.h"

/* structured: the object as result.c wrote it. Appends a JSON string (with its quotes) that says the same.
 * Returns 0 or -ENOMEM. */
int result_text_write(const Buffer *structured, Buffer *b);
