/* SPDX-License-Identifier: MIT */
#pragma once

/* RunInput: what `mcp-exec run` is to send, read from the files that its command line names. */

#include <stddef.h>

#include "server/run-request.h"

/* Text as a whole: the program, or what it reads. path NULL: standard input. what: for messages. Returns 0,
 * or -errno with everything said. */
int run_input_text(const char *path, const char *what, char **ret, size_t *ret_bytes);

/* A file of any content for the program's working directory; run_file_done() frees it. path is borrowed.
 * Returns 0, or -errno with everything said. */
int run_input_file(const char *path, RunFile *ret);
