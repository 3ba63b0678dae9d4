/* SPDX-License-Identifier: MIT */
#pragma once

/* Bridge: carries the lines of MCP between our standard input and output and the system service. The framing
 * is the same on both sides, so a line passes as it is. A restart of the service is not the client's
 * business: what is not answered by then gets an error, the next line goes to the new one. */

/* Returns the exit status: 0 after the client's end of file or a signal. Takes fd, a connection to the
 * service's socket, whose path is borrowed. */
int bridge_run(int take_fd, const char *path);
