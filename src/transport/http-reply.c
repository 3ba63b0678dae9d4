/* SPDX-License-Identifier: MIT */

/* From the engine to the client: one JSON body, or an event stream.
 *
 * Until one or the other is decided, messages are kept as lines. A stream is chosen when the request asks
 * for progress, when it takes longer than a few seconds (idle timers in proxies and clients would cut a
 * silent one), or when the client takes nothing else. */

#include "transport/http-request.h"

#include <errno.h>

#include "base/log.h"
#include "transport/http-checks.h"

static HttpRequest* request_from_sink(McpSink *sink) {
        return (HttpRequest*) ((char*) sink - offsetof(HttpRequest, sink));
}

static enum MHD_Result reply_without_memory(HttpRequest *q) {
        enum MHD_Result r =
                MHD_queue_response(q->mhd, MHD_HTTP_SERVICE_UNAVAILABLE, q->server->no_memory);

        listener_no_memory(&q->server->listener);
        if (r == MHD_YES)
                q->state = HTTP_REPLIED;
        return r;
}

/* response may be NULL, and is given away. */
static enum MHD_Result queue(HttpRequest *q, unsigned status, struct MHD_Response *response) {
        bool ok = true;
        enum MHD_Result r;

        if (!response)
                return reply_without_memory(q);
        ok &= MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES;
        if (q->connection->limit_status != 0 || q->server->listener.is_draining)
                ok &= MHD_add_response_header(response, "Connection", "close") == MHD_YES;
        if (q->session && q->session->id[0] != 0 && q->session->peer && q->is_initialize)
                ok &= MHD_add_response_header(response, "Mcp-Session-Id", q->session->id) == MHD_YES;
        r = ok ? MHD_queue_response(q->mhd, status, response) : MHD_NO;
        MHD_destroy_response(response);
        if (!ok)
                return reply_without_memory(q);
        if (r == MHD_YES && q->state != HTTP_STREAMING)
                q->state = HTTP_REPLIED;
        return r;
}

/* Takes the content of b. */
static struct MHD_Response* text_response(Buffer *b, const char *type) {
        struct MHD_Response *response;
        char *text = NULL;
        size_t n_bytes;

        if (buffer_steal(b, &text, &n_bytes) < 0)
                return NULL;
        response = MHD_create_response_from_buffer(n_bytes, text, MHD_RESPMEM_MUST_FREE);
        if (!response) {
                free(text);
                return NULL;
        }
        if (MHD_add_response_header(response, "Content-Type", type) != MHD_YES) {
                MHD_destroy_response(response);
                return NULL;
        }
        return response;
}

static struct MHD_Response* json_response(Buffer *b) {
        return text_response(b, "application/json");
}

enum MHD_Result http_reply_text(HttpRequest *q, unsigned status, const char *type, Buffer *take_text) {
        assert(q);
        assert(type);
        assert(take_text);

        return queue(q, status, text_response(take_text, type));
}

enum MHD_Result http_reply_accepted(HttpRequest *q) {
        enum MHD_Result r = MHD_queue_response(q->mhd, MHD_HTTP_ACCEPTED, q->server->accepted);

        if (r == MHD_YES)
                q->state = HTTP_REPLIED;
        return r;
}

/* An error under the id of the body, as far as it was kept. */
static int refusal_body(HttpRequest *q, Buffer *b) {
        const HttpRefusal *refusal = &q->refusal;

        if (refusal->code == 0)
                return buffer_printf(b, "{\"error\":\"%s\",\"error_description\":\"%s\"}",
                                     refusal->status == MHD_HTTP_NOT_FOUND ? "not_found" : "refused",
                                     refusal->message);
        if (q->n_body_bytes == q->body.n_bytes)
                return mcp_error_reply(q->body.data, q->body.n_bytes, refusal->code, refusal->message, b);
        skipped_head(&q->skipped, q->body.data, q->body.n_bytes);
        return skipped_error(&q->skipped, refusal->code, refusal->message, b);
}

/* Bare where there is no metadata: a parameter would send clients looking for an authorization server that
 * does not exist. */
static bool add_challenge(const HttpRequest *q, struct MHD_Response *response) {
        const HttpSite *site = q->server->listener.p.site;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        if (buffer_append_str(&b, "Bearer") < 0)
                return false;
        if (site && site->metadata && buffer_printf(&b, " resource_metadata=\"%s\"", site->metadata_url) < 0)
                return false;
        return MHD_add_response_header(response, "WWW-Authenticate", b.data) == MHD_YES;
}

enum MHD_Result http_reply_refusal(HttpRequest *q, bool is_early) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(MIB);
        struct MHD_Response *response;
        bool ok = true;

        assert(q);
        assert(q->refusal.status != 0);

        if (refusal_body(q, &b) < 0)
                return reply_without_memory(q);
        response = json_response(&b);
        if (!response)
                return reply_without_memory(q);
        if (q->refusal.allow)
                ok &= MHD_add_response_header(response, "Allow", q->refusal.allow) == MHD_YES;
        if (q->refusal.accept_encoding)
                ok &= MHD_add_response_header(response, "Accept-Encoding", q->refusal.accept_encoding) ==
                      MHD_YES;
        if (q->refusal.status == MHD_HTTP_UNAUTHORIZED)
                ok &= add_challenge(q, response);
        /* Before the body came: it will not be read any more. */
        if (is_early)
                ok &= MHD_add_response_header(response, "Connection", "close") == MHD_YES;
        if (!ok) {
                MHD_destroy_response(response);
                return reply_without_memory(q);
        }
        return queue(q, q->refusal.status, response);
}

enum MHD_Result http_reply_empty(HttpRequest *q, unsigned status) {
        assert(q);

        return queue(q, status, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

/* Several answers are those of a batch: an array. */
enum MHD_Result http_reply_json(HttpRequest *q) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        const char *p, *end;
        int r = 0;

        assert(q);

        if (q->n_replies == 0)
                return http_reply_empty(q, q->status == MHD_HTTP_OK ? MHD_HTTP_ACCEPTED : q->status);
        if (q->n_replies == 1) {
                /* Not a copy: the answer may be the largest piece of memory there is. */
                q->n_reply_bytes = q->lines.n_allocated;
                q->lines.n_bytes--;
                return queue(q, q->status, json_response(&q->lines));
        }

        p = q->lines.data;
        end = p + q->lines.n_bytes;
        while (p < end && r >= 0) {
                const char *newline = memchr(p, '\n', (size_t) (end - p));

                assert(newline);
                r = buffer_append(&b, b.n_bytes == 0 ? "[" : ",", 1);
                if (r >= 0)
                        r = buffer_append(&b, p, (size_t) (newline - p));
                p = newline + 1;
        }
        if (r >= 0)
                r = buffer_append(&b, "]", 1);
        return queue(q, q->status, r < 0 ? NULL : json_response(&b));
}

/* All of it or nothing. */
static int stream_append(HttpRequest *q, const char *json, size_t n_bytes) {
        static const char start[] = "event: message\ndata: ", end[] = "\n\n";
        const MemoryBudget *budget = &q->server->listener.budget;
        void *room;
        int r;

        if (budget->used_bytes > budget->max_bytes && q->stream.n_bytes > MIB)
                return -ENOBUFS;
        q->stream.max_bytes = HTTP_STREAM_BYTES_MAX;
        r = buffer_reserve(&q->stream, sizeof(start) + n_bytes + sizeof(end), &room);
        if (r >= 0) {
                (void) buffer_append(&q->stream, start, sizeof(start) - 1);
                (void) buffer_append(&q->stream, json, n_bytes);
                (void) buffer_append(&q->stream, end, sizeof(end) - 1);
        }
        http_request_charge(q);
        return r;
}

static ssize_t stream_read(void *userdata, uint64_t position, char *data, size_t max_bytes) {
        HttpRequest *q = userdata;
        size_t n;

        (void) position;
        if (q->server->is_closing)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        /* Not an error: after one from here the library would look at the connection again only when all
         * that were silent for longer are gone. As it is, it writes the end of the stream at once, and
         * fails: nothing can be sent any more. */
        if (q->is_gone)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (q->stream.n_bytes > 0) {
                n = MIN_OF(max_bytes, q->stream.n_bytes);
                memcpy(data, q->stream.data, n);
                buffer_consume(&q->stream, n);
                http_request_charge(q);
                return (ssize_t) n;
        }
        if (q->is_finished)
                return MHD_CONTENT_READER_END_OF_STREAM;
        /* Answering 0 without this would make the library ask again at once, for ever. */
        http_request_suspend(q);
        return 0;
}

static int on_keepalive(sd_event_source *source, uint64_t usec, void *userdata) {
        HttpRequest *q = userdata;

        (void) usec;
        if (q->is_finished || q->is_gone)
                return 0;
        if (q->stream.n_bytes == 0) {
                if (buffer_append_str(&q->stream, ": keepalive\n\n") < 0) {
                        http_request_hangup(q);
                        return 0;
                }
                http_request_resume(q);
        }
        (void) sd_event_source_set_time_relative(source, HTTP_KEEPALIVE_USEC);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

/* What was kept as lines goes first. */
static int lines_to_stream(HttpRequest *q) {
        const char *p = q->lines.data ?: "", *end = p + q->lines.n_bytes;
        int r;

        while (p < end) {
                const char *newline = memchr(p, '\n', (size_t) (end - p));

                assert(newline);
                r = stream_append(q, p, (size_t) (newline - p));
                if (r < 0)
                        return r;
                p = newline + 1;
        }
        buffer_done(&q->lines);
        return 0;
}

/* Room for the smallest answer is kept from now on: once the stream has begun there is no status to tell
 * anything by. */
static int stream_begin(HttpRequest *q) {
        void *room;
        int r;

        r = lines_to_stream(q);
        if (r >= 0)
                r = buffer_reserve(&q->stream, MCP_NO_MEMORY_BYTES + 64, &room);
        if (r < 0)
                return r;
        q->timer_source = sd_event_source_disable_unref(q->timer_source);
        return sd_event_add_time_relative(q->server->listener.p.event, &q->timer_source, CLOCK_MONOTONIC,
                                          HTTP_KEEPALIVE_USEC, 0, on_keepalive, q);
}

static struct MHD_Response* stream_response(HttpRequest *q) {
        static const struct {
                const char *name, *value;
        } headers[] = {
                { "Content-Type", "text/event-stream" },
                { "Cache-Control", "no-cache" },
                { "X-Accel-Buffering", "no" }, /* nginx would collect the events */
        };
        struct MHD_Response *response =
                MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32 * KIB, stream_read, q, NULL);
        bool ok = response;

        for (size_t i = 0; i < ELEMENTSOF(headers) && ok; i++)
                ok = MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
        if (ok || !response)
                return response;
        MHD_destroy_response(response);
        return NULL;
}

enum MHD_Result http_reply_stream(HttpRequest *q) {
        struct MHD_Response *response;

        assert(q);
        assert(q->state == HTTP_WAITING);

        response = stream_response(q);
        if (response && stream_begin(q) >= 0) {
                enum MHD_Result r;

                q->state = HTTP_STREAMING;
                r = queue(q, MHD_HTTP_OK, response);
                if (q->state != HTTP_STREAMING) /* a refusal became of it */
                        q->events = http_events_free(q->events);
                return r;
        }

        if (response)
                MHD_destroy_response(response);
        buffer_done(&q->stream);
        if (!q->is_finished && !q->events) {
                /* It waits for its answer instead. */
                q->wants_stream = false;
                http_request_suspend(q);
                return MHD_YES;
        }
        q->events = http_events_free(q->events);
        http_request_fail(q, -ENOMEM);
        return http_reply_refusal(q, /* is_early= */ false);
}

static int stream_append_no_memory(HttpRequest *q, const char *json, size_t n_bytes) {
        char text[MCP_NO_MEMORY_BYTES];

        return stream_append(q, text, mcp_no_memory_reply(json, n_bytes, text));
}

int http_stream_send(HttpRequest *q, const char *json, size_t n_bytes, bool is_notification) {
        int r;

        assert(q);
        assert(q->state == HTTP_STREAMING);

        if (q->is_gone)
                return -EPIPE;
        r = stream_append(q, json, n_bytes);
        if (r == -ENOMEM && !is_notification)
                r = stream_append_no_memory(q, json, n_bytes);
        if (r < 0) {
                (void) log_info_errno(r, "Disconnecting a client%s", r == -ENOMEM ?
                                              "" : " that does not read its event stream");
                http_request_abandon(q);
        }
        http_request_resume(q);
        return r;
}

static int http_send(McpSink *sink, const char *json, size_t n_bytes, bool is_notification) {
        HttpRequest *q = request_from_sink(sink);
        void *room;
        int r;

        if (q->is_gone)
                return -EPIPE;
        if (q->state == HTTP_STREAMING)
                return http_stream_send(q, json, n_bytes, is_notification);

        if (is_notification) {
                /* There is no place for it in a JSON body. */
                if (!(q->accepts & HTTP_ACCEPT_SSE))
                        return 0;
                q->wants_stream = true;
        }
        q->lines.max_bytes = HTTP_STREAM_BYTES_MAX;
        r = buffer_reserve(&q->lines, n_bytes + 1, &room);
        if (r < 0) {
                /* A notification is dropped. Instead of an answer the client is told why there is none. */
                if (!is_notification)
                        http_request_fail(q, r);
                return r;
        }
        (void) buffer_append(&q->lines, json, n_bytes);
        (void) buffer_append(&q->lines, "\n", 1);
        http_request_charge(q);
        if (!is_notification)
                q->n_replies++;
        else
                http_request_resume(q);
        return 0;
}

static void http_finish(McpSink *sink, const McpOutcome *outcome) {
        HttpRequest *q = request_from_sink(sink);

        q->is_finished = true;
        q->exchange = NULL;
        q->status = outcome->http_status;
        if (q->status == MHD_HTTP_SERVICE_UNAVAILABLE) /* the engine has no other reason */
                listener_no_memory(&q->server->listener);
        http_request_resume(q);
}

const McpSinkOps http_sink_ops = {
        .send = http_send,
        .finish = http_finish,
};
