/* SPDX-License-Identifier: MIT */
#pragma once

/* The argument "dependencies", of every tool that has a script. */

#include "json/json.h"

/* v: an array, or NULL. The strings are copied as they are; what they say is judged by python/. -EBADMSG:
 * *reterr_message tells the caller what to change. */
int script_take_dependencies(const JsonValue *v, char ***ret, char **reterr_message);

/* The property of that name in a schema. */
#define SCRIPT_DEPENDENCIES_PROPERTY(description) \
        { "dependencies", "array", (description), .more = "\"items\":{\"type\":\"string\"}" }
