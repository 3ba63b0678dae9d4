/* SPDX-License-Identifier: MIT */
#pragma once

/* OwnServer: a server of our own for one conversation, where the system service does not serve this user. */

typedef enum OwnServerVoice {
        OWN_SERVER_SILENT,  /* for somebody who finds out by asking it */
        OWN_SERVER_NORMAL,
        OWN_SERVER_VERBOSE,
} OwnServerVoice;

/* Starts `mcp-exec stdio --no-bridge` as our child, with its standard input and output on a socket that it
 * ends with. launcher_socket_path may be NULL. Returns the connected fd or -errno. */
int own_server_start(const char *launcher_socket_path, OwnServerVoice voice);
