/* SPDX-License-Identifier: MIT */
#pragma once

/* Self-test: one unit with the complete profile looks at its own walls from inside, and this process looks
 * at its limits from outside. Without a good verdict nothing is ever run. */

#include "launch/sandbox.h"

typedef struct SelfTest SelfTest;

/* Fills s->controllers and s->without, or s->has_problem and s->problem; then calls on_done, never before
 * the return. A sandbox that has a problem already, or a cached verdict, needs no unit. */
int selftest_start(sd_event *event, Sandbox *s, void (*on_done)(void *userdata), void *userdata,
                   SelfTest **ret);

SelfTest* selftest_free(SelfTest *t);
DEFINE_CLEANUP(SelfTest*, selftest_free);
