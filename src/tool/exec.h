/* SPDX-License-Identifier: MIT */
#pragma once

/* The exec tool, in two files: how it runs (exec.c) and what it tells about itself (exec-schema.c). What
 * other tools tell alike is here as well. */

#include "tool/registry.h"

int exec_tool_write(const ToolRegistry *registry, McpVersion version, JsonWriter *w);

/* Of every tool whose result is that of a run; has_pages: next_offset as well. */
int exec_tool_write_output_schema(JsonWriter *w, bool has_pages);

typedef struct ToolHints {
        bool is_read_only, is_idempotent;
        bool is_destructive, is_open_world;
} ToolHints;

/* Nothing for revisions that have no annotations. */
void exec_tool_write_annotations(JsonWriter *w, McpVersion version, const char *title,
                                 const ToolHints *hints);
