/* SPDX-License-Identifier: MIT */
#pragma once

/* The stand-in of a server that cannot run programs at present: a process of ours behind the bridge, which
 * answers everything but calls, so that a client shows the server as connected and its calls tell what is
 * wrong. Each call makes us look again, so that after the repair nobody need start anything anew. */

#include "server/command.h"

/* Why programs cannot be run without the system service, of which system_socket_connect() says code and
 * reason, and what to do about it: allocated, or NULL where the user's own service manager runs them.
 * is_bound: only the service may run them, so the user's own files are none of its business. Returns 0 or
 * -errno. */
int stand_in_find_refusal(int code, const char *reason, bool is_bound, char **ret);

/* The same of a process that does not use the service and reads its configuration once. */
int stand_in_find_mistake(char **ret_refusal);

/* Bridges the client to the system service, whose connection is taken, and to a stand-in while it is away;
 * or to a stand-in at once, until somebody serves. Return the exit status. */
int stand_in_bridge(const StdioOptions *options, int take_fd);
int stand_in_run(const StdioOptions *options, const char *refusal);
