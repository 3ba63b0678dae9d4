/* SPDX-License-Identifier: MIT */
#pragma once

/* Tools, as the engine sees them, and one tools/call, as a tool sees it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"
#include "mcp/version.h"

typedef struct McpCall McpCall; /* one tools/call in flight */

typedef struct McpToolOps {
        /* Writes the array of tools for this revision. Same bytes every time. */
        int (*list)(void *userdata, McpVersion version, JsonWriter *w);
        bool (*exists)(void *userdata, const char *name);
        /* Begins the call; arguments is an object, borrowed until return. Exactly one mcp_call_finish()
         * follows, now or later, unless cancel() comes first. Returns 0, or -errno with the call not
         * finished (the engine then answers with an error). */
        int (*call)(void *userdata, const char *name, const JsonValue *arguments, McpCall *call);
        /* The client gave up: end the work; the call is invalid afterwards. tool_data is what
         * mcp_call_set_data() left. */
        void (*cancel)(void *userdata, void *tool_data);
        /* The capability that a client must declare to call this tool, or NULL. May itself be NULL: none
         * needs any. */
        const char* (*required_capability)(void *userdata, const char *name);
        /* The header Mcp-Param-NAME in which clients repeat a string argument of this tool, for proxies to
         * route by ("x-mcp-header" in its schema): NAME, or NULL. May itself be NULL. */
        const char* (*routing_header)(void *userdata, const char *name, const char **ret_argument);
} McpToolOps;

void mcp_call_set_data(McpCall *c, void *tool_data);

/* Facts about the caller, borrowed, valid while the call lives; NULL where not told. The client's own words
 * are as it sent them, of any length: sanitise before use. */
const char* mcp_call_principal(const McpCall *c);
const char* mcp_call_client_name(const McpCall *c);
const char* mcp_call_client_version(const McpCall *c);
const char* mcp_call_traceparent(const McpCall *c);
McpVersion mcp_call_version(const McpCall *c);
bool mcp_call_wants_progress(const McpCall *c);
bool mcp_call_wants_output(const McpCall *c); /* our own: _meta["mcp-exec/output"] is true (mcp-exec run) */

bool mcp_call_wants_files(const McpCall *c);  /* … and _meta["mcp-exec/files"] (mcp-exec run --output-dir) */

/* notifications/progress with this message (UTF-8, may be NULL); progress is the elapsed time in seconds,
 * made strictly increasing here. No-op without a token. Returns 0 or -errno. */
int mcp_call_progress(McpCall *c, uint64_t elapsed_usec, const char *message);

/* notifications/mcp-exec/output {requestId, stream: 1 or 2, data: base64}; no-op unless wanted. */
int mcp_call_output(McpCall *c, int stream, const void *data, size_t n_bytes);

/* notifications/mcp-exec/note {requestId, message}: a sentence for the person who reads the output; no-op
 * unless that is wanted. */
int mcp_call_note(McpCall *c, const char *message);

/* notifications/mcp-exec/file {requestId, path, bytes: of the whole file, data: base64 of the next piece};
 * no-op unless wanted. */
int mcp_call_file(McpCall *c, const char *path, const char *data, size_t n_bytes);

/* The answer; ends the call (c is invalid afterwards). content: JSON array text; structured: JSON object
 * text or NULL (left out of revisions before 2025-06-18, and with is_error). */
void mcp_call_finish(McpCall *c, const char *content, const char *structured, bool is_error);

/* Shorthand for a tool error with one text block (valid UTF-8). */
void mcp_call_fail(McpCall *c, const char *text);

/* The same for a call that was not begun, and may be made again with the server that comes next: the block's
 * _meta is MCP_META_STOPPING, by which mcp-exec stdio knows. */
void mcp_call_fail_stopping(McpCall *c, const char *text);
#define MCP_META_STOPPING "{\"mcp-exec/stopping\":true}"
