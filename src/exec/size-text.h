/* SPDX-License-Identifier: MIT */
#pragma once

/* Sizes and times as a sentence shows them: "512 MiB", "1500 bytes", "30 s", "1.5 s". */

#include <stdint.h>

typedef struct SizeText {
        char text[32];
} SizeText;

SizeText size_text_bytes(uint64_t bytes);
/* For tables, as systemd shows sizes: "64M", "440.9M", "512B". */
SizeText size_text_short(uint64_t bytes);
SizeText size_text_usec(uint64_t usec);
