/* SPDX-License-Identifier: MIT */
#pragma once

/* JSON schemas as data. Roots are plain objects without $schema and without root-level combinators: several
 * clients drop a tool, or all of them, over anything else. */

#include "json/json.h"

typedef struct SchemaProperty {
        const char *name;
        const char *type;
        const char *description;
        bool is_required;
        const char *more; /* further members of the property as raw JSON ("\"minimum\":0"), or NULL */
} SchemaProperty;

/* Writes {"type":"object","properties":…,"required":…}; is_closed adds additionalProperties: false. */
void schema_write(JsonWriter *w, const SchemaProperty *properties, size_t n_properties, bool is_closed);
