/* SPDX-License-Identifier: MIT */
#pragma once

/* One HTTP request. */

#include "base/buffer.h"
#include "mcp/mcp.h"
#include "transport/http-connection.h"
#include "transport/skipped.h"

/* The largest body whatever the settings say. */
#define HTTP_BODY_BYTES_MAX (16 * MIB)
/* Kept of a refused body, to read the id from. */
#define HTTP_HEAD_BYTES (64 * KIB)
/* Waiting in an event stream that nobody reads. */
#define HTTP_STREAM_BYTES_MAX (32 * MIB)
/* A request that takes longer is answered by an event stream where the client takes one. */
#define HTTP_SLOW_USEC (5 * USEC_PER_SEC)
#define HTTP_KEEPALIVE_USEC (15 * USEC_PER_SEC)
/* The longest a body may take to come, however steadily it trickles. */
#define HTTP_BODY_USEC_MAX (120 * USEC_PER_SEC)

typedef enum HttpState {
        HTTP_READING,   /* its body */
        HTTP_WAITING,   /* for the engine; suspended */
        HTTP_STREAMING, /* an event stream is queued */
        HTTP_REPLIED,
} HttpState;

/* What it asks for, by its path. */
typedef enum HttpTarget {
        HTTP_TARGET_MCP,
        HTTP_TARGET_SSE,      /* GET: the stream */
        HTTP_TARGET_MESSAGES, /* POST: a message of a client that reads such a stream */
        HTTP_TARGET_HEALTHZ,  /* GET, from here on: http-site.c */
        HTTP_TARGET_READYZ,
        HTTP_TARGET_METRICS,
        HTTP_TARGET_METADATA,
} HttpTarget;

/* Why a request is refused before the engine sees it. */
typedef struct HttpRefusal {
        unsigned status;      /* 0: it is not */
        int code; /* of the JSON-RPC error; 0: a plain JSON object, for paths that are not ours */
        const char *message;  /* fixed text */
        const char *allow;    /* the Allow header of a 405 */
        const char *accept_encoding; /* that header of a 415 for its sake */
} HttpRefusal;

struct HttpRequest {
        McpSink sink;
        HttpServer *server;
        HttpConnection *connection;
        struct MHD_Connection *mhd;
        HttpState state;
        HttpTarget target;
        HttpRefusal refusal;
        bool is_delete, is_initialize;

        /* From the headers; owned. */
        char *principal, *session_id, *protocol_version, *method_header, *name_header;
        bool has_duplicate;
        unsigned accepts;

        Buffer body;
        SkippedMessage skipped;
        uint64_t n_body_bytes, started_usec; /* the former came, kept or not */
        size_t charged_bytes, n_reply_bytes; /* the latter the library's */

        HttpEvents *events;        /* this request is such a stream */
        HttpSession *session;
        McpExchange *exchange;     /* NULL when not in flight */
        unsigned status;           /* of the outcome */
        bool is_finished;          /* the engine has nothing more for it */
        bool is_gone;              /* the client hung up, or reads too slowly */
        bool wants_stream;

        Buffer lines;              /* messages so far, a line each, until it is known how to send them */
        size_t n_replies;          /* of them answers */
        Buffer stream;             /* frames of an event stream not yet sent */

        bool is_suspended;
        sd_event_source *timer_source;
        HttpRequest *next, **to_this;
};

/* http-request.c */
HttpRequest* http_request_start(HttpConnection *c, struct MHD_Connection *mhd);
HttpRequest* http_request_free(HttpRequest *q);
enum MHD_Result http_request_begin(HttpRequest *q, const char *path, const char *method);
enum MHD_Result http_request_body(HttpRequest *q, const char *data, size_t n_bytes);
enum MHD_Result http_request_continue(HttpRequest *q); /* the body is complete, or the request was resumed */
bool http_request_is_modern(const HttpRequest *q); /* by its MCP-Protocol-Version header */
void http_request_abandon(HttpRequest *q); /* nothing more is sent, not even the end of the answer */
void http_request_hangup(HttpRequest *q);
void http_request_charge(HttpRequest *q);
void http_request_suspend(HttpRequest *q);
void http_request_resume(HttpRequest *q);
void http_request_refuse(HttpRequest *q, unsigned status, int code, const char *message);
void http_request_fail(HttpRequest *q, int error); /* refuses it as well */

/* http-events.c */
enum MHD_Result http_events_open(HttpRequest *q);
enum MHD_Result http_events_post(HttpRequest *q);
HttpEvents* http_events_free(HttpEvents *e);
void http_events_leave(HttpEvents *e); /* it ends with the answer to its last request */
void http_events_drain(HttpServer *s); /* all of them do */

enum MHD_Result http_site_reply(HttpRequest *q); /* http-site.c */

/* http-reply.c */
extern const McpSinkOps http_sink_ops;
enum MHD_Result http_reply_refusal(HttpRequest *q, bool is_early);
enum MHD_Result http_reply_json(HttpRequest *q);
enum MHD_Result http_reply_empty(HttpRequest *q, unsigned status);
enum MHD_Result http_reply_text(HttpRequest *q, unsigned status, const char *type, Buffer *take_text);
enum MHD_Result http_reply_accepted(HttpRequest *q); /* never fails for want of memory */
enum MHD_Result http_reply_stream(HttpRequest *q);
int http_stream_send(HttpRequest *q, const char *json, size_t n_bytes, bool is_notification);
