/* SPDX-License-Identifier: MIT */

/* The transport of revision 2024-11-05: the client opens an event stream with GET /sse, is told there where
 * to POST its messages, and reads every answer from the stream. Which revision it speaks over it is
 * negotiated as everywhere; most clients that still use it speak a newer one.
 *
 * So a stream is to the engine what a pipe is: one peer, whose end cancels everything that runs for it. The
 * id in the address only tells streams apart. It is no credential: a message is taken from the principal
 * that opened the stream, and from nobody else. */

#include "transport/http-request.h"

#include "base/random.h"
#include "json/json.h"

struct HttpEvents {
        HttpRequest *request; /* the GET */
        McpPeer *peer;
        McpSink sink;
        size_t n_in_flight;
        bool is_closing, is_leaving;
        char id[RANDOM_HEX_ID_CHARS + 1];
        HttpEvents *next, **to_this;
};

static HttpEvents* events_from_sink(McpSink *sink) {
        return (HttpEvents*) ((char*) sink - offsetof(HttpEvents, sink));
}

/* Where it shall end, it does once everything in it is answered. */
static void end_if_drained(HttpEvents *e) {
        if (e->is_closing || e->n_in_flight > 0 ||
            !(e->is_leaving || e->request->server->listener.is_draining))
                return;
        e->request->is_finished = true;
        http_request_resume(e->request);
}

static int events_send(McpSink *sink, const char *json, size_t n_bytes, bool is_notification) {
        HttpEvents *e = events_from_sink(sink);

        return http_stream_send(e->request, json, n_bytes, is_notification);
}

static void events_finish(McpSink *sink, const McpOutcome *outcome) {
        HttpEvents *e = events_from_sink(sink);

        (void) outcome;
        assert(e->n_in_flight > 0);
        e->n_in_flight--;
        end_if_drained(e);
}

static const McpSinkOps events_sink_ops = {
        .send = events_send,
        .finish = events_finish,
};

HttpEvents* http_events_free(HttpEvents *e) {
        if (!e)
                return NULL;

        e->is_closing = true;
        (void) mcp_peer_free(e->peer);
        if (e->to_this) {
                *e->to_this = e->next;
                if (e->next)
                        e->next->to_this = e->to_this;
        }
        free(e);
        return NULL;
}
DEFINE_CLEANUP(HttpEvents *, http_events_free);

static int events_new(HttpRequest *q) {
        _cleanup_(http_events_freep) HttpEvents *e = NULL;
        HttpServer *s = q->server;
        int r;

        e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;
        r = random_hex_id(e->id);
        if (r >= 0)
                r = mcp_peer_new(s->listener.p.server, MCP_PEER_PIPE, q->principal, &e->peer);
        e->sink.ops = &events_sink_ops;
        e->request = q;
        /* Relative, so that it also holds behind a proxy: clients insist on the origin they know. */
        if (r >= 0)
                r = buffer_printf(&q->stream, "event: endpoint\ndata: /messages?sessionId=%s\n\n", e->id);
        if (r < 0)
                return r;

        e->next = s->events;
        e->to_this = &s->events;
        if (e->next)
                e->next->to_this = &e->next;
        s->events = e;
        q->events = TAKE_PTR(e);
        http_request_charge(q);
        return 0;
}

enum MHD_Result http_events_open(HttpRequest *q) {
        int r;

        assert(q);
        assert(q->state == HTTP_READING);

        r = events_new(q);
        if (r < 0) {
                http_request_fail(q, r);
                return http_reply_refusal(q, /* is_early= */ false);
        }
        q->state = HTTP_WAITING;
        return http_reply_stream(q);
}

static HttpEvents* find_events(const HttpRequest *q, const char *id) {
        for (HttpEvents *e = q->server->events; e; e = e->next)
                if (streq(e->id, id) && streq(e->request->principal, q->principal) && !e->request->is_gone)
                        return e;
        return NULL;
}

enum MHD_Result http_events_post(HttpRequest *q) {
        const char *id;
        McpExchange *exchange;
        HttpEvents *e;
        int r;

        assert(q);
        assert(q->state == HTTP_READING);

        id = MHD_lookup_connection_value(q->mhd, MHD_GET_ARGUMENT_KIND, "sessionId");
        e = id ? find_events(q, id) : NULL;
        if (!id)
                http_request_refuse(q, MHD_HTTP_BAD_REQUEST, MCP_ERROR_REFUSED,
                                    "The address has no sessionId: open /sse first and use the address that "
                                    "it tells.");
        else if (!e)
                http_request_refuse(q, MHD_HTTP_NOT_FOUND, MCP_ERROR_REFUSED,
                                    "This session has ended or never existed; open /sse again.");
        else if (json_check(q->body.data, q->body.n_bytes) == JSON_E_SYNTAX)
                http_request_refuse(q, MHD_HTTP_BAD_REQUEST, MCP_ERROR_PARSE, "The message is not JSON.");
        if (q->refusal.status != 0)
                return http_reply_refusal(q, /* is_early= */ false);

        e->n_in_flight++;
        r = mcp_peer_dispatch(e->peer, q->body.data, q->body.n_bytes, NULL, &e->sink, &exchange);
        if (r < 0) {
                e->n_in_flight--;
                http_request_fail(q, r);
                return http_reply_refusal(q, /* is_early= */ false);
        }
        buffer_done(&q->body);
        http_request_charge(q);
        return http_reply_accepted(q);
}

void http_events_leave(HttpEvents *e) {
        assert(e);

        e->is_leaving = true;
        mcp_peer_drain(e->peer);
        end_if_drained(e);
}

void http_events_drain(HttpServer *s) {
        assert(s);

        for (HttpEvents *e = s->events; e; e = e->next)
                http_events_leave(e);
}
