/* SPDX-License-Identifier: MIT */
#pragma once

/* Clocks, in microseconds. */

#include <stdint.h>

uint64_t now_monotonic_usec(void);
uint64_t now_realtime_usec(void);
