/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of this room share: peers, exchanges, calls, and how replies are built. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/mcp.h"
#include "mcp/message.h"

#define MCP_TTL_MSEC 300000 /* how long a client may keep what discover and tools/list said */

struct McpServer {
        McpServerParameters p;
        size_t n_peers;
};

struct McpPeer {
        McpServer *server;
        McpPeerKind kind;
        char *principal;
        bool is_closing;
        /* Said in the handshake; modern messages neither read nor write them. */
        bool is_negotiated;
        McpVersion version;
        char *client_name, *client_version;
        McpCall *calls; /* in flight */
        size_t n_calls;
};

struct McpExchange {
        McpPeer *peer;
        McpSink *sink;
        size_t n_pending;    /* calls that still owe their reply to this exchange */
        bool is_dispatching; /* mcp_peer_dispatch() is on the stack and will settle it */
        bool is_batch, has_lost; /* a batch without memory for all of its replies */
        Buffer batch;        /* replies so far, without the closing bracket */
        unsigned http_status; /* 0: no reply yet */
};

/* A tools/call or a subscriptions/listen that is not answered yet. */
struct McpCall {
        McpPeer *peer;
        McpExchange *exchange; /* NULL: the client of a legacy HTTP request has hung up */
        McpCall *prev, *next;
        char *id; /* raw */
        size_t id_bytes;
        McpVersion version;
        bool is_subscription, takes_task, wants_output, wants_files;
        McpTaskWatch *watches; /* of a subscription */
        size_t n_watches;
        char *progress_token; /* raw; NULL: none wanted */
        uint64_t progress_msec;
        char *client_name, *client_version, *traceparent;
        void *tool_data;
};

/* One request or notification on its way through a method table. */
typedef struct McpRequest {
        McpPeer *peer;
        McpExchange *exchange;
        const McpMessage *message;
        const McpHttpHeaders *headers; /* NULL on pipes */
        McpVersion version;
} McpRequest;

/* Answers, or leaves a McpCall behind. Returns 0, or -errno: then the router answers. */
typedef int (*McpHandler)(const McpRequest *q);

typedef struct McpMethod {
        const char *name;
        McpHandler handle;
} McpMethod;

const McpMethod* mcp_method_find(const McpMethod *table, size_t n, const char *name);

/* The eras (legacy.c, modern.c). Requests and notifications; the message is valid. */
int mcp_legacy_request(McpRequest *q);
int mcp_legacy_notification(McpRequest *q);
int mcp_modern_request(McpRequest *q);
int mcp_modern_notification(McpRequest *q);

/* Methods of both eras (tools.c). */
int mcp_tools_list(const McpRequest *q);
int mcp_tools_call(const McpRequest *q);

/* Results: begin, members, end (modern adds resultType in front and serverInfo behind), send. */
void mcp_result_begin(JsonWriter *w, const char *id, size_t id_bytes, McpVersion v);
void mcp_result_begin_type(JsonWriter *w, const char *id, size_t id_bytes, const char *type);
void mcp_result_end(JsonWriter *w, const McpServer *s, McpVersion v);
void mcp_write_implementation(JsonWriter *w, const McpServer *s, bool has_title);
int mcp_request_reply(const McpRequest *q, const JsonWriter *w);

/* Notifications: begin, members of params, end (which sends; x may be NULL). */
void mcp_notification_begin(JsonWriter *w, const char *method);
int mcp_notification_end(JsonWriter *w, McpExchange *x);

/* Errors. data is raw JSON or NULL. Never fails: without memory MCP_NO_MEMORY goes out. */
void mcp_exchange_error(McpExchange *x, const char *id, size_t id_bytes, int code, unsigned http_status,
                        const char *message, const char *data);
void mcp_exchange_no_memory(McpExchange *x, const char *id, size_t id_bytes);
int mcp_request_error(const McpRequest *q, int code, unsigned http_status, const char *format, ...)
        _printf_(4, 5);

/* A client's word in our sentence: at most 128 bytes, whole characters, control characters replaced. */
#define MCP_QUOTE_BYTES 136
const char* mcp_quote(const char *s, char ret[static MCP_QUOTE_BYTES]);

void mcp_exchange_reply(McpExchange *x, const char *json, size_t n_bytes, unsigned http_status);
int mcp_exchange_notify(McpExchange *x, const char *json, size_t n_bytes); /* x NULL: nobody listens */
void mcp_exchange_settle(McpExchange *x); /* finishes and frees it once nothing is pending */

int mcp_call_admit(const McpRequest *q, bool *ret_is_refused); /* refuses beyond MCP_IN_FLIGHT_MAX */
int mcp_call_new(const McpRequest *q, McpCall **ret);
void mcp_call_cancel(McpCall *c); /* the tool is told; nothing is sent */
void mcp_call_end(McpCall *c);    /* leaves peer and exchange, and is freed */
void mcp_call_fail_without_memory(McpCall *c); /* answers; mcp_call_end() must follow */
McpCall* mcp_peer_find_call(const McpPeer *p, const char *id, size_t id_bytes, McpCall *after);
