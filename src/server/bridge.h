/* SPDX-License-Identifier: MIT */
#pragma once

/* Bridge: carries the lines of MCP between our standard input and output and the system service. The framing
 * is the same on both sides, so a line passes as it is. A restart of the service is not the client's
 * business: what is not answered by then gets an error, the next line goes to the new one. */

/* For a connection that does not lead to the service but to a stand-in, which refuses every call. Before it
 * is sent one, and at most once a second, find() may give a connection to a server that serves, and which
 * hears the client's handshake first; < 0: not yet. */
typedef struct BridgeStandIn {
        int (*find)(void *userdata);
        void *userdata;
} BridgeStandIn;

/* Returns the exit status: 0 after the client's end of file or a signal. Takes fd, a connection to the
 * service's socket, whose path is borrowed. stand_in: what fd leads to instead, or NULL. */
int bridge_run(int take_fd, const char *path, const BridgeStandIn *stand_in);
