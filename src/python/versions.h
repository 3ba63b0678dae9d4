/* SPDX-License-Identifier: MIT */
#pragma once

/* Versions: of the interpreters and of uv, asked of the programs themselves in a unit like PARSE's, once
 * until they are others. */

#include "python/internal.h"

/* Forgets what was learned of programs that have changed. Returns 0 or -ENOMEM. */
int versions_look(Python *p, const WireHello *hello);

/* True: they are being asked for, and query_tell_versions() follows. False: what is known is all that will
 * be. */
bool versions_ask(Python *p);

/* Nobody waits any more. */
void versions_leave(Python *p);
