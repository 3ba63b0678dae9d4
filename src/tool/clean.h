/* SPDX-License-Identifier: MIT */
#pragma once

/* Words of others, made fit to be shown in one line. */

#include "base/buffer.h"

/* Appends text as valid UTF-8 without control characters (each becomes a space), at most max_bytes of it. */
int clean_append(const void *text, size_t n_bytes, size_t max_bytes, Buffer *b);

/* The same as a new string; NULL stays NULL. */
int clean_copy(const char *text, size_t max_bytes, char **ret);
