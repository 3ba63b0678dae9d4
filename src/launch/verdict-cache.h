/* SPDX-License-Identifier: MIT */
#pragma once

/* Verdict cache: remembers that the self-test was passed, until the next boot or change of anything it
 * depends on. Only good verdicts are kept: what is missing may be repaired at any time. */

#include <stdbool.h>

#include "launch/sandbox.h"

/* True when a verdict for exactly this sandbox is there; then fills its controllers and without. */
bool verdict_cache_read(Sandbox *s);

/* Returns 0 or -errno; a failure costs the next start a self-test, nothing else. */
int verdict_cache_write(const Sandbox *s);
