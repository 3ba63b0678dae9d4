/* SPDX-License-Identifier: MIT */
#pragma once

/* Random identifiers from the kernel. */

#include <stddef.h>
#include <stdint.h>

#define RANDOM_HEX_ID_CHARS 32

/* 128 random bits as 32 lower-case hex digits and a NUL. Returns 0 or -errno. */
int random_hex_id(char ret[static RANDOM_HEX_ID_CHARS + 1]);
int random_uint64(uint64_t *ret);
