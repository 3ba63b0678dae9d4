/* SPDX-License-Identifier: MIT */
#pragma once

/* One JSON-RPC message, parsed and classified, before anybody looks at its method. */

#include <stdbool.h>
#include <stddef.h>

#include "json/json.h"

/* Ids and progress tokens are sent back: bounded, so that no reply outgrows its request. */
#define MCP_ID_BYTES_MAX 1024

#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define MCP_META_SERVER_INFO "io.modelcontextprotocol/serverInfo"
#define MCP_META_SUBSCRIPTION_ID "io.modelcontextprotocol/subscriptionId"

typedef enum McpMessageKind {
        MCP_MESSAGE_INVALID, /* error_code and error_message say why */
        MCP_MESSAGE_REQUEST,
        MCP_MESSAGE_NOTIFICATION,
        MCP_MESSAGE_RESPONSE,
} McpMessageKind;

typedef struct McpMessage {
        McpMessageKind kind;
        const char *text; /* borrowed; id points into it */
        size_t n_bytes;
        JsonValue *root;
        const char *id; /* the exact bytes; NULL: none that can be used */
        size_t id_bytes;
        const char *method;
        const JsonValue *params, *meta; /* NULL when absent; meta only when an object */
        bool has_unfit_text;            /* a string cannot be carried unchanged: to be refused */
        int error_code;
        const char *error_message;
} McpMessage;

/* Always classifies. Returns 0 or -ENOMEM (the id is readable even then). */
int mcp_message_parse(const char *text, size_t n_bytes, McpMessage *ret);
void mcp_message_done(McpMessage *m);
#define _cleanup_message_ _cleanup_(mcp_message_done)

/* The bytes of an id fit to be sent back, also from text that is not JSON. Returns whether there is one. */
bool mcp_message_raw_id(const char *text, size_t n_bytes, const char **ret, size_t *ret_bytes);

/* Are these bytes a string or an integer, and short enough? */
bool mcp_raw_is_id(const char *raw, size_t n_bytes);

/* params._meta.progressToken and params.requestId as exact bytes. Returns whether it is there and valid. */
bool mcp_message_progress_token(const McpMessage *m, const char **ret, size_t *ret_bytes);
bool mcp_message_request_id(const McpMessage *m, const char **ret, size_t *ret_bytes);
