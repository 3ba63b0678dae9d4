/* SPDX-License-Identifier: MIT */
#pragma once

/* Tools that the official conformance suite calls by name (meson's option "conformance"). No package has
 * them: they answer with fixed words, or run fixed programs. */

#include <errno.h>

#include "config.h"
#include "tool/registry.h"

#if ENABLE_CONFORMANCE

bool diagnostic_exists(const char *name);
/* Elements of an array. */
int diagnostic_list(const ToolRegistry *registry, McpVersion version, JsonWriter *w);
int diagnostic_call(ToolRegistry *registry, const char *name, const JsonValue *arguments, McpCall *call);
const char* diagnostic_required_capability(void *userdata, const char *name);
const char* diagnostic_routing_header(void *userdata, const char *name, const char **ret_argument);

#else

static inline bool diagnostic_exists(const char *name) {
        (void) name;
        return false;
}

static inline int diagnostic_list(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        (void) registry;
        (void) version;
        (void) w;
        return 0;
}

static inline int diagnostic_call(ToolRegistry *registry, const char *name, const JsonValue *arguments,
                                  McpCall *call) {
        (void) registry;
        (void) name;
        (void) arguments;
        (void) call;
        return -ENOSYS;
}

/* None of ours needs any. */
static inline const char* diagnostic_required_capability(void *userdata, const char *name) {
        (void) userdata;
        (void) name;
        return NULL;
}

static inline const char* diagnostic_routing_header(void *userdata, const char *name,
                                                    const char **ret_argument) {
        (void) userdata;
        (void) name;
        *ret_argument = NULL;
        return NULL;
}

#endif
