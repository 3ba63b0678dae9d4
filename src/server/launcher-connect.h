/* SPDX-License-Identifier: MIT */
#pragma once

/* Ways to a launcher: the system's, behind its socket, or the user's own, which is our child. */

typedef struct LauncherConnect {
        const char *socket_path; /* NULL: start "mcp-exec-launcher --user" */
} LauncherConnect;

/* An ExecEngineParameters.connect; userdata is a const LauncherConnect*. */
int launcher_connect(void *userdata, char **reterr_message);
