/* SPDX-License-Identifier: MIT */
#pragma once

/* The stand-in of a server that cannot run programs at present: a process of ours behind the bridge, which
 * answers everything but calls, so that a client shows the server as connected and its calls tell what is
 * wrong. Each call makes us look again, so that after the repair nobody need start anything anew. */

#include "server/command.h"

/* What is wrong in files or variables, allocated, or NULL where they can be obeyed. Returns 0 or -ENOMEM. */
int stand_in_find_mistake(char **ret);

/* mistake: of the configuration; cause: why the system service does not serve; one may be NULL. Returns the
 * exit status. */
int stand_in_run(const StdioOptions *options, const char *mistake, const char *cause);
