/* SPDX-License-Identifier: MIT */
#pragma once

/* The argument "files": what a program finds in its working directory. */

#include "base/settings.h"
#include "exec/request.h"
#include "json/json.h"

/* v: an array, or NULL. Copies each file into the request, whose standard input is there already: both count
 * together against MaxStdinBytes=. -EBADMSG: *reterr_message tells the caller what to change. */
int input_files_take(const Settings *s, const JsonValue *v, ExecRequest *q, char **reterr_message);

#define INPUT_FILES_TEXT_BYTES 240
/* What a schema says of it. together: with what they share a limit. */
void input_files_describe(const Settings *s, const char *together, char ret[static INPUT_FILES_TEXT_BYTES]);

/* The property of that name in a schema. */
#define INPUT_FILES_PROPERTY(description)                                                                   \
        { "files", "array", (description),                                                                  \
          .more = "\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"          \
                  "\"text\":{\"type\":\"string\"},\"base64\":{\"type\":\"string\"}},"                       \
                  "\"required\":[\"name\"],\"additionalProperties\":false}" }
