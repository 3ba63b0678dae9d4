/* SPDX-License-Identifier: MIT */
#pragma once

/* SandboxCall: a tools/call that is answered once the launcher has told what it is. */

#include "tool/registry.h"

/* The call is answered by answer, later and from the event loop, unless the client gives up before.
 * argument: copied, may be NULL. Returns 0 or -errno. */
int sandbox_call_new(ToolRegistry *registry, McpCall *call, const char *argument,
                     void (*answer)(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info,
                                    const char *argument));

void sandbox_calls_free(ToolRegistry *registry);
