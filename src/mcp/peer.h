/* SPDX-License-Identifier: MIT */
#pragma once

/* The engine, as transports see it: who sends, and where replies go. */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "mcp/version.h"

typedef struct McpServer McpServer;

/* One pipe, one Unix connection, or one HTTP client (session). Holds the negotiated legacy version and
 * client info of the handshake era and the requests in flight. */
typedef struct McpPeer McpPeer;

#define MCP_IN_FLIGHT_MAX 1024 /* requests of one peer; one more is answered with MCP_ERROR_UNAVAILABLE */

typedef enum McpPeerKind {
        MCP_PEER_PIPE, /* newline framing: its end cancels everything; cancel matches ids across eras */
        MCP_PEER_HTTP, /* one exchange per POST; legacy disconnect does not cancel, modern does */
} McpPeerKind;

int mcp_peer_new(McpServer *s, McpPeerKind kind, const char *principal, McpPeer **ret);

/* Cancels what is in flight and sends nothing; finish() of each exchange that is still open is called. */
McpPeer* mcp_peer_free(McpPeer *p);
DEFINE_CLEANUP(McpPeer*, mcp_peer_free);

/* As if this revision of the handshake era had been negotiated: what a session's id remembers. */
void mcp_peer_resume(McpPeer *p, McpVersion version);

/* Ends the open subscriptions with their result, for a graceful stop: they would never end by themselves. */
void mcp_peer_drain(McpPeer *p);

size_t mcp_peer_n_in_flight(const McpPeer *p);

/* What became of a message; tells HTTP its status. */
typedef struct McpOutcome {
        unsigned http_status; /* 200, 202 (no reply: send() was not called), 400, 404, 429, 503 */
} McpOutcome;

/* Where the replies to one message go. Implemented by the transport; send() never calls back into the
 * engine. */
typedef struct McpSink McpSink;
typedef struct McpSinkOps {
        /* One whole JSON-RPC message without newline. is_notification: progress and the like, mostly before
         * the answer. Returns 0 or -errno (the reader is gone or too slow: the transport closes, later). */
        int (*send)(McpSink *s, const char *json, size_t n_bytes, bool is_notification);
        /* Exactly once per dispatched message, after its last send(): nothing more will come. The sink
         * may free itself. */
        void (*finish)(McpSink *s, const McpOutcome *outcome);
} McpSinkOps;
struct McpSink {
        const McpSinkOps *ops;
};

/* The headers of HTTP that the modern era checks against the body; NULL where absent. A header that came
 * twice: is_duplicate. */
typedef struct McpHttpHeaders {
        const char *protocol_version, *method, *name;
        bool is_duplicate;
        /* Any other header: one of its values, and how often it came. May be NULL: there are none. */
        const char* (*find)(void *userdata, const char *name, unsigned *ret_n);
        void *userdata;
} McpHttpHeaders;

/* One message in flight, with its sink: what an HTTP disconnect refers to. Invalid after finish(). */
typedef struct McpExchange McpExchange;

/* Takes one message. Every request in it is answered through the sink under its own id (also when it is
 * not valid JSON, as far as an id can be read). headers: NULL on pipes. *ret_exchange is NULL when
 * finish() was called already. Returns 0, or -ENOMEM with the sink untouched. */
int mcp_peer_dispatch(McpPeer *p, const char *text, size_t n_bytes, const McpHttpHeaders *headers,
                      McpSink *sink, McpExchange **ret_exchange);

/* The client of this exchange is gone: modern requests are cancelled; legacy ones go on without a sink.
 * The sink is not used any more (finish() is not called). */
void mcp_exchange_disconnect(McpExchange *x);

/* False: it would cancel something. */
bool mcp_exchange_outlives_client(const McpExchange *x);

/* True while a request with a progress token or notifications wanted may stream (HTTP then answers with
 * SSE at once). */
bool mcp_exchange_wants_stream(const McpExchange *x);
