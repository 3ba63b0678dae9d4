/* SPDX-License-Identifier: MIT */
#pragma once

/* UTF-8 by RFC 3629: no surrogates, no overlong forms, nothing beyond U+10FFFF. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Length in bytes of the valid sequence at s (1..4), or 0 if there is none within n_bytes. */
size_t utf8_sequence(const void *s, size_t n_bytes);

/* One character for a journal or a terminal: no control characters (C0, DEL, C1), no line and paragraph
 * separators, and none that turn the direction of what stands around them, by which a name can make a line
 * read as another one. s holds one valid sequence of n_bytes. */
bool utf8_is_plain(const void *s, size_t n_bytes);

bool utf8_is_valid(const void *s, size_t n_bytes);

/* Appends s as valid UTF-8; each maximal run of bad bytes becomes one U+FFFD. */
int utf8_repair(const void *s, size_t n_bytes, Buffer *b);
