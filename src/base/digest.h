/* SPDX-License-Identifier: MIT */
#pragma once

/* SHA-256 and constant-time comparison, by nettle. A library of its own: the launcher links none of it. */

#include <stdbool.h>
#include <stddef.h>

#define SHA256_HEX_CHARS 64

/* Lower-case hex digest and a NUL. */
void sha256_hex(const void *data, size_t n_bytes, char ret[static SHA256_HEX_CHARS + 1]);

/* The same of bytes that come in pieces. NULL when there is no memory. */
typedef struct Sha256 Sha256;
Sha256* sha256_new(void);
Sha256* sha256_free(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t n_bytes);
void sha256_hex_end(Sha256 *s, char ret[static SHA256_HEX_CHARS + 1]); /* then only to be freed */

/* Compares two secrets by their digests, in a time that depends on neither. */
bool secret_equal(const char *a, const char *b);

/* Compares two digests in hexadecimal digits, in a time that does not depend on them. */
bool digest_equal(const char a[static SHA256_HEX_CHARS], const char b[static SHA256_HEX_CHARS]);
