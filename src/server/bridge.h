/* SPDX-License-Identifier: MIT */
#pragma once

/* Bridge: copies between our standard input and output and a connection to the system service. The newline
 * framing of MCP is the same bytes on both sides, so nothing is parsed. */

/* Returns the exit status: 0 after the client's end of file or a signal, 1 when the service went away. Takes
 * fd. */
int bridge_run(int take_fd);
