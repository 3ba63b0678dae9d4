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

/* Whether the user's own service manager runs programs. What cannot be found out counts as a yes: the
 * program will tell. */
bool sandbox_of_user_is_good(void);
