/* SPDX-License-Identifier: MIT */

#include "mcp/version.h"

#include "base/macro.h"

static const char *const version_table[_MCP_VERSION_MAX] = {
        [MCP_2024_11_05] = "2024-11-05",
        [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18",
        [MCP_2025_11_25] = "2025-11-25",
        [MCP_2026_07_28] = "2026-07-28",
};

const char* mcp_version_to_string(McpVersion v) {
        assert(v >= 0 && v < _MCP_VERSION_MAX);
        return version_table[v];
}

McpVersion mcp_version_from_string(const char *s) {
        assert(s);

        for (McpVersion v = 0; v < _MCP_VERSION_MAX; v++)
                if (streq(version_table[v], s))
                        return v;
        return _MCP_VERSION_INVALID;
}

bool mcp_version_text_is_modern(const char *s) {
        assert(s);
        return strcmp(s, version_table[MCP_VERSION_FIRST_MODERN]) >= 0;
}
