/* SPDX-License-Identifier: MIT */
#pragma once

/* RunClient: one conversation with an MCP server that runs one program, its output passed on as it comes. */

#include "server/run-request.h"

/* Exit statuses beside the program's own, as timeout(1) and the shell have them. */
enum {
        RUN_EXIT_TIMEOUT = 124,
        RUN_EXIT_INFRASTRUCTURE = 125, /* the program did not run, or how it ended is not known */
        RUN_EXIT_SIGNAL = 128,         /* plus its number */
        RUN_EXIT_OOM = 137,            /* as any SIGKILL */
};

/* fd: a connected stream socket to the server. Returns the exit status for this process, with everything it
 * had to say said on standard error. SIGINT, SIGTERM and SIGHUP end the conversation, and so the program. */
int run_client(int fd, const RunRequest *request);
