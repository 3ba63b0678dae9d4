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

typedef struct ToolRegistry ToolRegistry;

/* packages: what `import` finds in the default interpreter, "name version" each, for descriptions and
 * messages; may be NULL (unknown). Borrowed. */
int tool_registry_new(sd_event *event, const Settings *settings, RunTable *runs, char *const *packages,
                      ToolRegistry **ret);
ToolRegistry* tool_registry_free(ToolRegistry *r);
DEFINE_CLEANUP(ToolRegistry*, tool_registry_free);

extern const McpToolOps tool_registry_ops; /* userdata is the ToolRegistry */
extern const McpTaskOps tool_task_ops;     /* the same */
