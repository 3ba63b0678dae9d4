/* SPDX-License-Identifier: MIT */
#pragma once

/* Ways to a launcher: the system's, behind its socket, or the user's own, which is our child. */

#include <stdbool.h>

typedef struct LauncherConnect {
        const char *socket_path; /* NULL: start "mcp-exec-launcher --user" */
        const char *uv_path;     /* for our child, in place of its UvPath=; NULL: it has its own */
        bool is_quiet;           /* what our child has to say reaches the caller by other ways */
        bool has_remedy;         /* the caller: it wants to hear only what is wrong */
} LauncherConnect;

/* An ExecEngineParameters.connect; userdata is a const LauncherConnect*. */
int launcher_connect(void *userdata, char **reterr_message);
