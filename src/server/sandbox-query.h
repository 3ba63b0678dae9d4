/* SPDX-License-Identifier: MIT */
#pragma once

/* The verdict of a launcher, for commands that wait for it. */

#include <stdint.h>

#include "base/settings.h"
#include "exec/engine.h"
#include "server/launcher-connect.h"

/* Blocks until the handler was called, once: with what the launcher says, or with NULL where it gave no
 * verdict in time. Returns 0, or -errno without having called it. */
int sandbox_query(const Settings *settings, LauncherConnect *connect, uint64_t timeout_usec,
                  void (*handler)(const ExecSandboxInfo *info, void *userdata), void *userdata);

/* Why the user's own service manager runs no programs, a sentence without its end, allocated; NULL where it
 * does. One that is silent for ten seconds does not. Returns 0 or -ENOMEM. */
int sandbox_of_user_find_fault(char **ret);
