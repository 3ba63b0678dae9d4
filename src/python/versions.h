/* SPDX-License-Identifier: MIT */
#pragma once

/* Versions: of the interpreters and of uv, asked of the programs themselves in a unit like PARSE's, once
 * until they are others. */

#include "python/internal.h"

/* What is_uv_mute means, with what to do. */
extern const char versions_mute_uv[];

/* Forgets what was learned of programs that have changed. Returns 0 or -ENOMEM. */
int versions_look(Python *p, const WireHello *hello);

/* True: they are being asked for, and query_tell_versions() follows. False: what is known is all that will
 * be. */
bool versions_ask(Python *p);

/* Why nothing can be fetched with a uv that was asked and said nothing, with what to do, or NULL: also where
 * it is another one by now, or was not asked. */
const char* versions_find_problem(Python *p, const WireHello *hello);

/* Nobody waits any more. */
void versions_leave(Python *p);
