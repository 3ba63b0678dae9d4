/* SPDX-License-Identifier: MIT */
#pragma once

/* Reload: what SIGHUP (`systemctl reload mcp-exec`) does. */

#include <stdbool.h>

#include "base/settings.h"

/* Reads the configuration again and logs what is different from `current` and how to put it into effect:
 * [Server] is by *ret, the rest by a restart. A configuration with a mistake is reported the same way, so
 * that it is found now and not at the next start, and leaves NULL. */
void reload_settings(const Settings *current, bool is_user, Settings **ret);
