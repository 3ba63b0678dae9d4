/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of this room share. A tool is one file with one Tool in it; registry.c lists them. */

#include "exec/list.h"
#include "exec/run-table.h"
#include "tool/tool.h"

typedef struct SandboxCall SandboxCall;

struct ToolRegistry {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        RunTable *runs;
        Python *python;
        char *const *packages, *const *interpreters;
        /* Questions to the engine, which cannot be called off. */
        LIST_HEAD(SandboxCall) sandbox_calls;
};

typedef struct Tool {
        const char *name;
        /* NULL: clients are not told of it. */
        int (*write)(const ToolRegistry *r, McpVersion version, JsonWriter *w);
        int (*call)(ToolRegistry *r, const JsonValue *arguments, McpCall *call);
} Tool;

extern const Tool tool_exec, tool_get_run, tool_cancel_run, tool_execute_python, tool_validate_script,
        tool_check_environment, tool_prepare, tool_sets;

/* Head of what a tool hangs on its McpCall, so that a cancel finds its way back. */
typedef struct ToolCall {
        void (*cancel)(struct ToolCall *c); /* ends the work and frees c */
} ToolCall;
