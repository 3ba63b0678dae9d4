/* SPDX-License-Identifier: MIT */

/* One request, from its headers to the engine. */

#include "transport/http-request.h"

#include <errno.h>
#include <strings.h>

#include "base/log.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "json/json.h"
#include "transport/http-checks.h"
#include "transport/http-headers.h"

void http_request_charge(HttpRequest *q) {
        MemoryBudget *budget = &q->server->listener.budget;
        size_t held = q->body.n_allocated + q->lines.n_allocated + q->stream.n_allocated + q->n_reply_bytes;

        budget->used_bytes += held;
        budget->used_bytes -= q->charged_bytes;
        q->charged_bytes = held;
}

HttpRequest* http_request_start(HttpConnection *c, struct MHD_Connection *mhd) {
        HttpRequest *q;

        assert(c);
        assert(!c->request);
        assert(mhd);

        q = c->room;
        *q = (HttpRequest) {};
        q->sink.ops = &http_sink_ops;
        q->server = c->server;
        q->connection = c;
        q->mhd = mhd;
        q->started_usec = now_monotonic_usec();

        c->request = q;
        q->next = c->server->requests;
        q->to_this = &c->server->requests;
        if (q->next)
                q->next->to_this = &q->next;
        c->server->requests = q;
        return q;
}

/* The engine learns that nobody waits any more; what it makes of that depends on the revision. */
static void request_disconnect(HttpRequest *q) {
        McpExchange *x = TAKE_PTR(q->exchange);

        if (x)
                mcp_exchange_disconnect(x);
}

HttpRequest* http_request_free(HttpRequest *q) {
        if (!q)
                return NULL;

        request_disconnect(q);
        q->events = http_events_free(q->events);
        http_session_release(q->session);
        *q->to_this = q->next;
        if (q->next)
                q->next->to_this = q->to_this;
        q->connection->request = NULL;

        (void) sd_event_source_disable_unref(q->timer_source);
        buffer_done(&q->body);
        buffer_done(&q->lines);
        buffer_done(&q->stream);
        q->n_reply_bytes = 0;
        http_request_charge(q);
        skipped_done(&q->skipped);
        free(q->principal);
        free(q->session_id);
        free(q->protocol_version);
        free(q->method_header);
        free(q->name_header);
        return NULL; /* its room is for the next one */
}

void http_request_abandon(HttpRequest *q) {
        assert(q);

        q->is_gone = true;
        http_connection_close(q->connection);
}

void http_request_hangup(HttpRequest *q) {
        http_request_abandon(q);
        request_disconnect(q);
        http_request_resume(q);
}

void http_request_suspend(HttpRequest *q) {
        assert(!q->is_suspended);

        MHD_suspend_connection(q->mhd);
        q->is_suspended = true;
        http_connection_suspended(q->connection);
}

void http_request_resume(HttpRequest *q) {
        if (!q->is_suspended)
                return;
        q->is_suspended = false;
        MHD_resume_connection(q->mhd);
        http_server_kick(q->server);
}

enum MHD_Result http_request_begin(HttpRequest *q, const char *path, const char *method) {
        HttpHeaders h = {};
        int r;

        r = http_headers_read(q, &h);
        if (r >= 0)
                r = http_headers_check(q, &h, path, method);
        if (r < 0)
                http_request_fail(q, r);

        /* Who asks first, or sends more than we would read even to be polite, is told at once. */
        if (q->refusal.status != 0 &&
            (h.is_ambiguous || h.is_malformed || h.is_too_long || h.expects_continue ||
             h.content_length > HTTP_DRAIN_BYTES_MAX)) {
                http_headers_done(&h);
                return http_reply_refusal(q, /* is_early= */ true);
        }
        http_headers_done(&h);
        return MHD_YES;
}

void http_request_refuse(HttpRequest *q, unsigned status, int code, const char *message) {
        if (q->refusal.status == 0)
                q->refusal = (HttpRefusal) { .status = status, .code = code, .message = message };
}

void http_request_fail(HttpRequest *q, int error) {
        if (error == -ENOMEM) {
                listener_no_memory(&q->server->listener);
                http_request_refuse(q, MHD_HTTP_SERVICE_UNAVAILABLE, MCP_ERROR_UNAVAILABLE, MCP_NO_MEMORY);
        } else
                http_request_refuse(q, MHD_HTTP_INTERNAL_SERVER_ERROR, MCP_ERROR_INTERNAL,
                                    "Internal error; the server's journal may say more.");
}

/* Keeps the head of a body that is refused, as far as there is memory for it, and drops the rest. */
static void body_skip(HttpRequest *q, const char *data, size_t n_bytes) {
        bool is_head = q->body.n_bytes == q->n_body_bytes - n_bytes; /* nothing is missing before data */

        if (q->body.n_bytes > HTTP_HEAD_BYTES) { /* it was kept whole until it became too large */
                Buffer head = BUFFER_INIT(0);

                if (buffer_append(&head, q->body.data, HTTP_HEAD_BYTES) < 0)
                        skipped_head(&q->skipped, q->body.data, HTTP_HEAD_BYTES);
                buffer_done(&q->body);
                q->body = head;
        } else if (is_head)
                (void) buffer_append(&q->body, data, MIN_OF(n_bytes, HTTP_HEAD_BYTES - q->body.n_bytes));
        skipped_push(&q->skipped, data, n_bytes);
}

enum MHD_Result http_request_body(HttpRequest *q, const char *data, size_t n_bytes) {
        const MemoryBudget *budget = &q->server->listener.budget;
        int r;

        assert(q);
        assert(q->state == HTTP_READING);

        q->n_body_bytes += n_bytes;
        if (q->n_body_bytes > HTTP_DRAIN_BYTES_MAX ||
            now_monotonic_usec() > q->started_usec + HTTP_BODY_USEC_MAX)
                return MHD_NO;

        if (q->n_body_bytes > q->server->body_bytes_max)
                http_request_refuse(q, MHD_HTTP_CONTENT_TOO_LARGE, MCP_ERROR_INVALID_REQUEST,
                       "This message is longer than the server takes (MaxCodeBytes=, "
                       "MaxStdinBytes=; 16 MiB at most).");
        else if (budget->used_bytes > budget->max_bytes && q->n_body_bytes > HTTP_HEAD_BYTES)
                http_request_refuse(q, MHD_HTTP_SERVICE_UNAVAILABLE, MCP_ERROR_UNAVAILABLE,
                       "The server is busy with other large messages; try again in a moment.");
        else if (q->connection->limit_status != 0 && q->n_body_bytes > HTTP_HEAD_BYTES)
                http_request_refuse(q, q->connection->limit_status, MCP_ERROR_UNAVAILABLE,
                                    http_limits_message(q->connection));
        if (q->refusal.status == 0) {
                r = buffer_append(&q->body, data, n_bytes);
                if (r < 0)
                        http_request_fail(q, r);
        }
        if (q->refusal.status != 0)
                body_skip(q, data, n_bytes);
        http_request_charge(q);
        return MHD_YES;
}

bool http_request_is_modern(const HttpRequest *q) {
        McpVersion v;

        assert(q);

        if (!q->protocol_version)
                return false;
        v = mcp_version_from_string(q->protocol_version);
        return v >= MCP_VERSION_FIRST_MODERN ||
               (v < 0 && strcmp(q->protocol_version, mcp_version_to_string(MCP_VERSION_FIRST_MODERN)) > 0);
}

static bool body_has_method(const HttpRequest *q, const char *quoted) {
        const char *method;
        size_t n;

        return json_raw_member(q->body.data, q->body.n_bytes, "method", &method, &n) > 0 &&
               n == strlen(quoted) && memcmp(method, quoted, n) == 0;
}

/* A client that cannot even learn what the server is takes it for a broken one. */
static bool is_opening(const HttpRequest *q) {
        return q->target == HTTP_TARGET_MCP && !q->is_delete &&
               (body_has_method(q, "\"initialize\"") || body_has_method(q, "\"server/discover\""));
}

/* What the handshake will be answered with. */
static McpVersion requested_version(const HttpRequest *q) {
        const char *params, *version;
        size_t n_params, n;

        if (json_raw_member(q->body.data, q->body.n_bytes, "params", &params, &n_params) > 0 &&
            json_raw_member(params, n_params, "protocolVersion", &version, &n) > 0)
                for (McpVersion v = 0; v <= MCP_VERSION_NEWEST_LEGACY; v++) {
                        const char *name = mcp_version_to_string(v);

                        if (n == strlen(name) + 2 && memcmp(version + 1, name, n - 2) == 0)
                                return v;
                }
        return MCP_VERSION_NEWEST_LEGACY;
}

/* Finds who the engine shall think is talking. Returns 0 or -errno; a refusal may be the result. */
static int request_find_session(HttpRequest *q) {
        HttpSessions *s = q->server->sessions;
        int r;

        /* The modern era has no sessions: their header is ignored there. A handshake starts a new one,
         * whatever old id the client still sends along. */
        if (http_request_is_modern(q))
                r = http_sessions_acquire(s, q->principal, NULL, &q->session);
        else if (!q->is_delete && body_has_method(q, "\"initialize\"")) {
                q->is_initialize = true;
                r = http_sessions_create(s, q->principal, requested_version(q), &q->session);
        } else
                r = http_sessions_acquire(s, q->principal, q->session_id, &q->session);

        if (r == HTTP_SESSION_E_UNKNOWN) {
                http_request_refuse(q, MHD_HTTP_NOT_FOUND, MCP_ERROR_REFUSED,
                       "This session has ended or never existed; start a new one with initialize.");
                return 0;
        }
        if (r == HTTP_SESSION_E_FULL) {
                http_request_refuse(q, MHD_HTTP_SERVICE_UNAVAILABLE, MCP_ERROR_UNAVAILABLE,
                       "Too many sessions have requests in flight; try again later.");
                return 0;
        }
        return r;
}

/* Everything in flight in this session ends without the engine's answer; those who wait for one get ours. */
static enum MHD_Result request_delete_session(HttpRequest *q) {
        for (HttpRequest *other = q->server->requests; other; other = other->next) {
                if (other == q || other->session != q->session || other->is_finished || !other->exchange)
                        continue;
                other->exchange = NULL;
                other->is_finished = true;
                http_request_refuse(other, MHD_HTTP_NOT_FOUND, MCP_ERROR_REFUSED,
                       "The session was ended while this request ran.");
                http_request_resume(other);
        }
        http_sessions_end(q->server->sessions, q->session, /* is_deleted= */ true);
        return http_reply_empty(q, MHD_HTTP_NO_CONTENT);
}

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata) {
        HttpRequest *q = userdata;

        (void) source;
        (void) usec;
        q->wants_stream = true;
        http_request_resume(q);
        return 0;
}

typedef struct HeaderSearch {
        const char *name, *value;
        unsigned n;
} HeaderSearch;

static enum MHD_Result on_any_header(void *userdata, enum MHD_ValueKind kind, const char *name,
                                     const char *value) {
        HeaderSearch *search = userdata;

        (void) kind;
        if (strcasecmp(name, search->name) == 0) {
                search->value = value ?: "";
                search->n++;
        }
        return MHD_YES;
}

static const char* find_header(void *userdata, const char *name, unsigned *ret_n) {
        const HttpRequest *q = userdata;
        HeaderSearch search = { .name = name };

        (void) MHD_get_connection_values(q->mhd, MHD_HEADER_KIND, on_any_header, &search);
        *ret_n = search.n;
        return search.value;
}

/* Returns 0 or -errno. */
static int request_dispatch(HttpRequest *q) {
        McpHttpHeaders headers = {
                .protocol_version = q->protocol_version,
                .method = q->method_header,
                .name = q->name_header,
                .is_duplicate = q->has_duplicate,
                .find = find_header,
                .userdata = q,
        };
        int r;

        q->state = HTTP_WAITING;
        r = mcp_peer_dispatch(q->session->peer, q->body.data, q->body.n_bytes, &headers, &q->sink,
                              &q->exchange);
        if (r < 0)
                return r;
        if (q->is_finished)
                return 0;
        assert(q->exchange);
        if ((q->accepts & HTTP_ACCEPT_SSE) &&
            (!(q->accepts & HTTP_ACCEPT_JSON) || mcp_exchange_wants_stream(q->exchange)))
                q->wants_stream = true;
        else if (q->accepts & HTTP_ACCEPT_SSE)
                (void) sd_event_add_time_relative(q->server->listener.p.event, &q->timer_source,
                                                  CLOCK_MONOTONIC, HTTP_SLOW_USEC, 0, on_slow, q);
        return 0;
}

/* A handshake that failed leaves no session behind. */
static void request_settle_session(HttpRequest *q) {
        const char *result;
        size_t n;

        if (!q->is_initialize || !q->session || (!q->is_finished && q->refusal.status == 0))
                return;
        if (q->refusal.status == 0 && q->status == MHD_HTTP_OK &&
            json_raw_member(q->lines.data, q->lines.n_bytes, "result", &result, &n) > 0)
                return;
        http_sessions_end(q->server->sessions, q->session, /* is_deleted= */ false);
}

static enum MHD_Result request_reply(HttpRequest *q) {
        if (q->is_gone || q->server->is_closing)
                return MHD_NO;
        if (q->refusal.status != 0)
                return http_reply_refusal(q, /* is_early= */ false);
        if (!q->is_finished && !q->wants_stream) {
                http_request_suspend(q);
                return MHD_YES;
        }

        request_settle_session(q);
        if (q->wants_stream && (!q->is_finished || q->status == MHD_HTTP_OK))
                return http_reply_stream(q);
        if (q->is_finished && q->status == MHD_HTTP_OK && q->n_replies > 0 &&
            !(q->accepts & HTTP_ACCEPT_JSON))
                return http_reply_stream(q);
        return http_reply_json(q);
}

enum MHD_Result http_request_continue(HttpRequest *q) {
        enum MHD_Result result;
        int r = 0;

        assert(q);

        if (q->state == HTTP_WAITING)
                return request_reply(q);
        if (q->state != HTTP_READING)
                return MHD_YES;
        if (q->refusal.status == 0 && q->target >= HTTP_TARGET_HEALTHZ)
                return http_site_reply(q);
        if (q->refusal.status == 0 && q->target == HTTP_TARGET_SSE)
                return http_events_open(q);
        if (q->refusal.status == 0 && q->target == HTTP_TARGET_MESSAGES)
                return http_events_post(q);
        if (q->refusal.status == 0 && q->connection->limit_status != 0 && !is_opening(q))
                http_request_refuse(q, q->connection->limit_status, MCP_ERROR_UNAVAILABLE,
                                    http_limits_message(q->connection));
        if (q->refusal.status == 0)
                r = request_find_session(q);
        if (r >= 0 && q->refusal.status == 0) {
                if (q->is_delete)
                        return request_delete_session(q);
                r = request_dispatch(q);
        }
        if (r < 0)
                http_request_fail(q, r);
        if (q->refusal.status != 0) {
                request_settle_session(q);
                return http_reply_refusal(q, /* is_early= */ false);
        }

        /* Its id, in case there will be no memory for the answer. */
        if (!q->is_finished)
                skipped_head(&q->skipped, q->body.data, q->body.n_bytes);
        result = request_reply(q);
        buffer_done(&q->body);
        http_request_charge(q);
        return result;
}
