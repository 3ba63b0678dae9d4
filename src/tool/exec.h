/* SPDX-License-Identifier: MIT */
#pragma once

/* The exec tool, in two files: how it runs (exec.c) and what it tells about itself (exec-schema.c). */

#include "tool/registry.h"

int exec_tool_write(const ToolRegistry *registry, McpVersion version, JsonWriter *w);
