/* SPDX-License-Identifier: MIT */
#pragma once

/* Controllers: which limits the kernel really enforces on a cgroup. A service manager accepts MemoryMax=
 * also where no memory controller exists. */

#include "base/settings.h"
#include "wire/wire.h"

/* Compares memory.max, pids.max and cpu.max in directory (the cgroup's, below /sys/fs/cgroup) with the
 * limits that were asked for. Returns a mask of Controller; a limit that is absent, looser or unreadable
 * is not in it. */
unsigned controllers_enforced(const char *directory, const WireLimits *limits);

/* "memory pids", for a sentence; empty for 0. */
void controllers_to_string(unsigned controllers, char ret[static 32]);
