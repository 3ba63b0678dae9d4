/* SPDX-License-Identifier: MIT */
#pragma once

/* MCP: one engine for every revision, chosen per message ("Telling the eras apart", src/README.md).
 *
 *   transport ── bytes of one message ──► mcp_peer_dispatch() ──► method table of its era ──► McpToolOps
 *   transport ◄── McpSink: send(), finish() ◄── replies, progress ◄── mcp_call_…() ◄── tool
 *
 * Transports know no method, tools know no envelope. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "json/json.h"

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
        MCP_ERROR_REFUSED = -31000,      /* not authorised, wrong Host or Origin, not acceptable, … (HTTP 4xx) */
        MCP_ERROR_UNAVAILABLE = -31001,  /* too many connections, shutting down (HTTP 429, 503) */
};

/* ---- Tools: implemented by src/tool/, called by the engine ---- */

typedef struct McpCall McpCall; /* one tools/call in flight */

typedef struct McpToolOps {
        /* Writes the array of tools for this revision. Same bytes every time. */
        int (*list)(void *userdata, McpVersion version, JsonWriter *w);
        bool (*exists)(void *userdata, const char *name);
        /* Begins the call; arguments is an object, borrowed until return. Exactly one mcp_call_finish() follows, now or
         * later, unless cancel() comes first. Returns 0 or -errno (the engine then answers -32603). */
        int (*call)(void *userdata, const char *name, const JsonValue *arguments, McpCall *call);
        /* The client gave up: end the work; the call is invalid afterwards. tool_data is what mcp_call_set_data() left. */
        void (*cancel)(void *userdata, void *tool_data);
} McpToolOps;

void mcp_call_set_data(McpCall *c, void *tool_data);

/* Facts about the caller, borrowed, valid while the call lives; NULL where not told. */
const char* mcp_call_principal(const McpCall *c);
const char* mcp_call_client_name(const McpCall *c);
const char* mcp_call_client_version(const McpCall *c);
const char* mcp_call_traceparent(const McpCall *c);
McpVersion mcp_call_version(const McpCall *c);
bool mcp_call_wants_progress(const McpCall *c);
bool mcp_call_wants_output(const McpCall *c); /* our own: _meta["mcp-exec/output"] is true (mcp-exec run) */

/* notifications/progress with this message (UTF-8); progress is made strictly increasing here. No-op without a token. */
int mcp_call_progress(McpCall *c, uint64_t elapsed_usec, const char *message);

/* notifications/mcp-exec/output {requestId, stream, data (base64)}; no-op unless wanted. */
int mcp_call_output(McpCall *c, int stream, const void *data, size_t n_bytes);

/* The answer; ends the call (c is invalid afterwards). content: JSON array text; structured: JSON object text or
 * NULL (left out of revisions before 2025-06-18, and with is_error). */
void mcp_call_finish(McpCall *c, const char *content, const char *structured, bool is_error);

/* Shorthand for a tool error with one text block. */
void mcp_call_fail(McpCall *c, const char *text);

/* ---- Server ---- */

typedef struct McpServer McpServer;

typedef struct McpServerParameters {
        const char *name, *title, *version;
        const char *instructions;    /* NULL: none. Borrowed for the server's life, as everything here */
        const McpToolOps *tools;
        void *tools_userdata;
} McpServerParameters;

int mcp_server_new(const McpServerParameters *p, McpServer **ret);
McpServer* mcp_server_free(McpServer *s); /* asserts that no peer is left */
DEFINE_CLEANUP(McpServer*, mcp_server_free);

/* ---- Transports: who sends, and where replies go ---- */

/* One pipe, one Unix connection, or one HTTP client (session). Holds the negotiated legacy version and client info of the
 * handshake era and the requests in flight. */
typedef struct McpPeer McpPeer;

typedef enum McpPeerKind {
        MCP_PEER_PIPE,  /* newline framing: end of stream cancels everything; cancel matches ids across eras */
        MCP_PEER_HTTP,  /* one exchange per POST; legacy disconnect does not cancel, modern does */
} McpPeerKind;

int mcp_peer_new(McpServer *s, McpPeerKind kind, const char *principal, McpPeer **ret);
McpPeer* mcp_peer_free(McpPeer *p); /* cancels what is in flight, sends nothing */
DEFINE_CLEANUP(McpPeer*, mcp_peer_free);

/* What became of a message; tells HTTP its status. */
typedef struct McpOutcome {
        unsigned http_status; /* 200, 202, 400, 404 */
} McpOutcome;

/* Where the replies to one message go. Implemented by the transport; send() never calls back into the engine. */
typedef struct McpSink McpSink;
typedef struct McpSinkOps {
        /* One whole JSON-RPC message without newline. is_notification: progress and the like, before the answer.
         * Returns 0 or -errno (the reader is gone or too slow: the transport closes, later). */
        int (*send)(McpSink *s, const char *json, size_t n_bytes, bool is_notification);
        /* Exactly once per dispatched message, after its last send(): nothing more will come. The sink may free itself. */
        void (*finish)(McpSink *s, const McpOutcome *outcome);
} McpSinkOps;
struct McpSink {
        const McpSinkOps *ops;
};

/* The headers of HTTP that the modern era checks against the body; NULL where absent. A header that came twice: is_duplicate. */
typedef struct McpHttpHeaders {
        const char *protocol_version, *method, *name;
        bool is_duplicate;
} McpHttpHeaders;

/* One message in flight, with its sink: what an HTTP disconnect refers to. Invalid after finish(). */
typedef struct McpExchange McpExchange;

/* Takes one message. Every request in it is answered through the sink under its own id (also when it is not valid
 * JSON, as far as an id can be read). headers: NULL on pipes. *ret_exchange is NULL when finish() was called already.
 * Returns 0, or -ENOMEM with the sink untouched. */
int mcp_peer_dispatch(McpPeer *p, const char *text, size_t n_bytes, const McpHttpHeaders *headers, McpSink *sink,
                      McpExchange **ret_exchange);

/* The client of this exchange is gone: modern requests are cancelled; legacy ones go on without a sink. The sink is
 * not used any more (finish() is not called). */
void mcp_exchange_disconnect(McpExchange *x);

/* True while a request with a progress token or notifications wanted may stream (HTTP then answers with SSE at once). */
bool mcp_exchange_wants_stream(const McpExchange *x);

size_t mcp_peer_n_in_flight(const McpPeer *p);

/* A whole JSON-RPC error reply, for transports refusing before dispatch. The id is taken from text when one can be read
 * (text may be NULL), else left out. */
int mcp_error_reply(const char *text, size_t n_bytes, int code, const char *message, Buffer *b);
