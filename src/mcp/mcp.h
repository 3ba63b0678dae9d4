/* SPDX-License-Identifier: MIT */
#pragma once

/* MCP: one engine for every revision, chosen per message ("Telling the eras apart", src/README.md).
 *
 *   transport ── bytes of one message ──► mcp_peer_dispatch() ──► method table of its era ──► McpToolOps
 *   transport ◄── McpSink: send(), finish() ◄── replies, progress ◄── mcp_call_…() ◄── tool
 *
 * Transports (peer.h) know no method, tools (call.h) know no envelope. This header is the whole room. */

#include "base/buffer.h"
#include "base/macro.h"
#include "json/json.h"
#include "mcp/call.h"
#include "mcp/peer.h"
#include "mcp/task.h"
#include "mcp/version.h"

/* JSON-RPC and MCP error codes. Private ones lie outside -32768…-32000. */
enum {
        MCP_ERROR_PARSE = -32700,
        MCP_ERROR_INVALID_REQUEST = -32600,
        MCP_ERROR_METHOD_NOT_FOUND = -32601,
        MCP_ERROR_INVALID_PARAMS = -32602,
        MCP_ERROR_INTERNAL = -32603,
        MCP_ERROR_HEADER_MISMATCH = -32020,
        MCP_ERROR_MISSING_CAPABILITY = -32021,
        MCP_ERROR_UNSUPPORTED_VERSION = -32022,
        MCP_ERROR_REFUSED = -31000,     /* not authorised, wrong Host or Origin, … (HTTP 4xx) */
        MCP_ERROR_UNAVAILABLE = -31001, /* too many connections, shutting down, no memory (HTTP 429, 503) */
};

typedef struct McpServerParameters {
        const char *name, *title, *version;
        const char *instructions;    /* NULL: none. Borrowed for the server's life, as everything here */
        const McpToolOps *tools;
        void *tools_userdata;
        const McpTaskOps *tasks;     /* NULL: the extension is not offered */
} McpServerParameters;

int mcp_server_new(const McpServerParameters *p, McpServer **ret);
McpServer* mcp_server_free(McpServer *s); /* asserts that no peer is left */
DEFINE_CLEANUP(McpServer*, mcp_server_free);

/* A whole JSON-RPC error reply, for transports refusing before dispatch. The id is taken from text when one
 * can be read (text may be NULL), else left out. */
int mcp_error_reply(const char *text, size_t n_bytes, int code, const char *message, Buffer *b);

/* For want of memory, even for saying so. The code is MCP_ERROR_UNAVAILABLE, HTTP's status 503. */
#define MCP_NO_MEMORY "The server is out of memory; try again later."
#define MCP_NO_MEMORY_REPLY \
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31001,\"message\":\"" MCP_NO_MEMORY "\"}}"
#define MCP_NO_MEMORY_BYTES 1280
/* The same under the id of text, as far as one can be read. Returns its length. */
size_t mcp_no_memory_reply(const char *text, size_t n_bytes, char ret[static MCP_NO_MEMORY_BYTES]);
