/* SPDX-License-Identifier: MIT */
#pragma once

/* Tools: arguments -> ExecRequest, ExecResult -> content. One file per tool, schemas as data, a registry. */

#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "exec/run-table.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "python/python.h"

typedef struct ToolRegistry ToolRegistry;

/* All borrowed. */
typedef struct ToolRegistryParameters {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        RunTable *runs;
        Python *python;
        /* What `import` finds in the default interpreter, "name version" each, and the interpreters there
         * are, "3.13 (/usr/bin/python3)", for descriptions and messages; NULL: not known. */
        char *const *packages, *const *interpreters;
} ToolRegistryParameters;

int tool_registry_new(const ToolRegistryParameters *p, ToolRegistry **ret);
ToolRegistry* tool_registry_free(ToolRegistry *r);
DEFINE_CLEANUP(ToolRegistry*, tool_registry_free);

extern const McpToolOps tool_registry_ops; /* userdata is the ToolRegistry */
extern const McpTaskOps tool_task_ops;     /* the same */
