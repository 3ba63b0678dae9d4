/* SPDX-License-Identifier: MIT */
#pragma once

/* Sweep: ends runs that an earlier launcher left behind. */

#include "launch/manager.h"

/* Kills units of our name in our slice that nobody holds a reference to. Another launcher's runs (a second
 * desktop client's) have theirs and stay. Blocks; for the start. */
int sweep_leftovers(Manager *m);
