/* SPDX-License-Identifier: MIT */
#pragma once

/* The revisions of the protocol that we speak, oldest first. */

#include <errno.h>
#include <stdbool.h>

typedef enum McpVersion {
        MCP_2024_11_05,
        MCP_2025_03_26,
        MCP_2025_06_18,
        MCP_2025_11_25,
        MCP_2026_07_28,
        _MCP_VERSION_MAX,
        _MCP_VERSION_INVALID = -EINVAL,
} McpVersion;

#define MCP_VERSION_NEWEST_LEGACY MCP_2025_11_25
#define MCP_VERSION_FIRST_MODERN MCP_2026_07_28

const char* mcp_version_to_string(McpVersion v);
McpVersion mcp_version_from_string(const char *s);

static inline bool mcp_version_is_modern(McpVersion v) {
        return v >= MCP_VERSION_FIRST_MODERN;
}

/* Does this text name a revision of the modern era, be it one we do not know? Dates compare as text. */
bool mcp_version_text_is_modern(const char *s);
