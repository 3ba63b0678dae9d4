/* SPDX-License-Identifier: MIT */
#pragma once

/* Configuration files in systemd's manner: sections, Key=value, # and ; comments, a trailing backslash
 * continues a line, drop-ins sorted by name over the main file.
 *
 * The main file is the first of DIR/NAME in the order given (so /etc hides /usr/lib). Drop-ins are
 * DIR/NAME.d/?.conf of all directories; of two with one name the earlier directory wins; a link to /dev/null
 * or an empty file masks. */

#include "base/macro.h"

/* One assignment, at place "FILE:LINE". Returns 0, or -EINVAL/-ENOMEM after having logged nothing: the
 * reason goes to *reterr_reason (allocated), to which the caller adds the place. */
typedef int (*ConfAssign)(const char *section, const char *key, const char *value, const char *place,
                          void *userdata, char **reterr_reason);

/* Reads everything for NAME ("mcp-exec.conf"). An unknown section or key or a bad value stops with -EBADMSG
 * and *reterr_message "FILE:LINE: what is wrong" (allocated). A missing file is not an error. */
int conf_read(const char *const dirs[], const char *name, ConfAssign assign, void *userdata,
              char **reterr_message);

/* The same for text already in memory. */
int conf_parse(const char *file, const char *text, ConfAssign assign, void *userdata, char **reterr_message);
