/* SPDX-License-Identifier: MIT */
#pragma once

/* Reload: what SIGHUP (`systemctl reload mcp-exec`) does. */

#include <stdbool.h>

#include "base/settings.h"

/* In the service's status, before the place of the mistake; until a reload that finds none. */
#define RELOAD_FAILED_TEXT "the last reload found a mistake, so what was in use before stays: "

/* Logs that what is named by the word could not be read again, and keeps the place of the first such mistake
 * in *problem: the place alone, for everybody can read the status. message: "FILE:LINE: what is wrong", or
 * NULL. */
void reload_complain(char **problem, int error, const char *message, const char *what);

/* Reads the configuration again and logs what is different from `current` and how to put it into effect:
 * [Server] is by *ret, the rest by a restart. A configuration with a mistake is reported the same way, so
 * that it is found now and not at the next start, and leaves NULL with *problem as above. */
void reload_settings(const Settings *current, bool is_user, Settings **ret, char **problem);
