/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of this room share. A tool is one file with one Tool in it; registry.c lists them. */

#include "exec/run-table.h"
#include "tool/tool.h"

struct ToolRegistry {
        sd_event *event;
        const Settings *settings;
        RunTable *runs;
        char *const *packages;
};

typedef struct Tool {
        const char *name;
        int (*write)(const ToolRegistry *r, McpVersion version, JsonWriter *w);
        int (*call)(ToolRegistry *r, const JsonValue *arguments, McpCall *call);
} Tool;

extern const Tool tool_exec, tool_get_run, tool_cancel_run;

/* Head of what a tool hangs on its McpCall, so that a cancel finds its way back. */
typedef struct ToolCall {
        void (*cancel)(struct ToolCall *c); /* ends the work and frees c */
} ToolCall;
