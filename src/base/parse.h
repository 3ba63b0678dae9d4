/* SPDX-License-Identifier: MIT */
#pragma once

/* Strict parsers: the whole string must be one value, nothing before, nothing after. Each returns 0, -EINVAL
 * (not such a value) or -ERANGE (it is one, but too large), and writes *ret on success only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, no sign. */
int parse_uint64(const char *s, uint64_t *ret);

/* Optional '-' and decimal digits. */
int parse_int64(const char *s, int64_t *ret);

/* yes/no, true/false, on/off, 1/0 (as systemd). */
int parse_bool(const char *s, bool *ret);

/* A number of bytes with an optional suffix K, M, G, T (powers of 1024), as systemd's size settings. */
int parse_bytes(const char *s, uint64_t *ret);

/* A time span: "30" and "30s" are seconds, also ms, min, h, d and sums such as "1min 30s". Microseconds in
 * *ret. */
int parse_usec(const char *s, uint64_t *ret);

/* "150%" -> 150. */
int parse_percent(const char *s, unsigned *ret);

/* n_chars lower-case hex digits and nothing else. */
bool is_hex(const char *s, size_t n_chars);

/* The number in the first n_chars (1 to 16) characters, which all are lower-case hex digits. */
int parse_hex(const char *s, size_t n_chars, uint64_t *ret);
