/* SPDX-License-Identifier: MIT */
#pragma once

/* Options of `mcp-exec stdio` that stand for settings: those of the predecessor's command line, whose users
 * have them in the configuration of their clients. */

#include <stdbool.h>

#include "base/settings.h"

/* getopt_long() values from this one on are ours, and the table's entries to put among the others. */
#define STDIO_OPTION_BASE 0x200

#define STDIO_OPTIONS                                                             \
        { "python-version",   required_argument, NULL, STDIO_OPTION_BASE + 0 },   \
        { "max-timeout",      required_argument, NULL, STDIO_OPTION_BASE + 1 },   \
        { "default-timeout",  required_argument, NULL, STDIO_OPTION_BASE + 2 },   \
        { "max-output-bytes", required_argument, NULL, STDIO_OPTION_BASE + 3 },   \
        { "uv-path",          required_argument, NULL, STDIO_OPTION_BASE + 4 },   \
        { "sandbox-backend",  required_argument, NULL, STDIO_OPTION_BASE + 5 },   \
        { "no-warm-cache",    no_argument,       NULL, STDIO_OPTION_BASE + 6 }

#define _STDIO_OPTIONS_MAX 7

typedef struct StdioSettings {
        const char *values[_STDIO_OPTIONS_MAX]; /* borrowed; NULL: not given */
} StdioSettings;

/* One option as getopt_long() found it. Returns 0, or COMMAND_USAGE with everything said. */
int stdio_settings_take(StdioSettings *o, int option, const char *value);

/* Over what files and variables say. -EBADMSG with message, or -ENOMEM. */
int stdio_settings_apply(const StdioSettings *o, Settings *s, char **reterr_message);

const char* stdio_settings_uv_path(const StdioSettings *o); /* NULL: not given */

/* Those which the system service, that is used instead, does not see. */
void stdio_settings_tell_ignored(const StdioSettings *o);
