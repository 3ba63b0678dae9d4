/* SPDX-License-Identifier: MIT */
#pragma once

/* A fuzzer is one file with LLVMFuzzerTestOneInput(). Without -Dfuzzing it is linked with fuzz-main.c, which
 * runs the corpus and small changes of it, in each `meson test`. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* What must hold for every input; not assert(), which NDEBUG removes. */
#define FUZZ_CHECK(expression)                                                                     \
        do {                                                                                       \
                if (!(expression)) {                                                               \
                        fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #expression);    \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)

/* Takes numbers from the front of the input. */
static inline uint8_t fuzz_byte(const uint8_t **data, size_t *n_bytes) {
        if (*n_bytes == 0)
                return 0;
        (*n_bytes)--;
        return *(*data)++;
}
