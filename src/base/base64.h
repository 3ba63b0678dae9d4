/* SPDX-License-Identifier: MIT */
#pragma once

/* Base64 (RFC 4648 §4, with padding). */

#include "base/buffer.h"

int base64_append(Buffer *b, const void *data, size_t n_bytes);

/* Strict: alphabet, padding and unused bits are checked. Appends to b. Returns 0, -EBADMSG or -ENOMEM. */
int base64_decode(const char *text, size_t n_chars, Buffer *b);
