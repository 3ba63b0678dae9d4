/* SPDX-License-Identifier: MIT */

/* Calls: requests that are answered later, by a tool or, for subscriptions, at the end. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "mcp/internal.h"
#include "mcp/tasks.h"

/* Raw output bytes of one notification: its base64 stays far below what clients read in one line. */
#define OUTPUT_CHUNK_BYTES (48 * KIB)

static McpCall* call_free(McpCall *c) {
        if (!c)
                return NULL;
        free(c->id);
        free(c->progress_token);
        free(c->client_name);
        free(c->client_version);
        free(c->traceparent);
        free(c);
        return NULL;
}
DEFINE_CLEANUP(McpCall*, call_free);

static int copy_string(char **ret, const char *s) {
        char *copy;

        if (!s)
                return 0;
        copy = strdup(s);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

static int copy_member(char **ret, const JsonValue *object, const char *name) {
        const char *s;

        return json_get_string(json_member(object, name), &s, NULL) ? copy_string(ret, s) : 0;
}

/* Who calls: from the handshake in the legacy era, from the request itself in the modern one. */
static int copy_caller(McpCall *c, const McpRequest *q) {
        const JsonValue *client;
        int r;

        r = copy_member(&c->traceparent, q->message->meta, "traceparent");
        if (r < 0)
                return r;
        if (!mcp_version_is_modern(q->version)) {
                r = copy_string(&c->client_name, q->peer->client_name);
                return r < 0 ? r : copy_string(&c->client_version, q->peer->client_version);
        }
        client = json_member(q->message->meta, MCP_META_CLIENT_INFO);
        r = copy_member(&c->client_name, client, "name");
        return r < 0 ? r : copy_member(&c->client_version, client, "version");
}

int mcp_call_admit(const McpRequest *q, bool *ret_is_refused) {
        *ret_is_refused = q->peer->n_calls >= MCP_IN_FLIGHT_MAX;
        if (!*ret_is_refused)
                return 0;
        return mcp_request_error(q, MCP_ERROR_UNAVAILABLE, 429,
                                 "%d requests are running already; wait for one to end", MCP_IN_FLIGHT_MAX);
}

int mcp_call_new(const McpRequest *q, McpCall **ret) {
        _cleanup_(call_freep) McpCall *c = NULL;
        const char *token;
        size_t token_bytes;
        int r;

        assert(q);
        assert(q->message->id);
        assert(ret);

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->peer = q->peer;
        c->exchange = q->exchange;
        c->version = q->version;
        c->id_bytes = q->message->id_bytes;
        c->id = strndup(q->message->id, q->message->id_bytes);
        if (!c->id)
                return -ENOMEM;
        if (mcp_message_progress_token(q->message, &token, &token_bytes)) {
                c->progress_token = strndup(token, token_bytes);
                if (!c->progress_token)
                        return -ENOMEM;
        }
        (void) json_get_bool(json_member(q->message->meta, "mcp-exec/output"), &c->wants_output);
        (void) json_get_bool(json_member(q->message->meta, "mcp-exec/files"), &c->wants_files);
        c->takes_task = mcp_request_declares_tasks(q);
        r = copy_caller(c, q);
        if (r < 0)
                return r;

        c->next = c->peer->calls;
        if (c->next)
                c->next->prev = c;
        c->peer->calls = c;
        c->peer->n_calls++;
        c->exchange->n_pending++;
        *ret = TAKE_PTR(c);
        return 0;
}

void mcp_call_end(McpCall *c) {
        McpExchange *x;

        assert(c);

        mcp_subscription_unwatch(c);
        x = c->exchange;
        if (c->prev)
                c->prev->next = c->next;
        else
                c->peer->calls = c->next;
        if (c->next)
                c->next->prev = c->prev;
        c->peer->n_calls--;
        (void) call_free(c);
        if (x) {
                x->n_pending--;
                mcp_exchange_settle(x);
        }
}

void mcp_call_cancel(McpCall *c) {
        const McpServerParameters *p;

        assert(c);

        p = &c->peer->server->p;
        if (!c->is_subscription)
                p->tools->cancel(p->tools_userdata, c->tool_data);
        mcp_call_end(c);
}

McpCall* mcp_peer_find_call(const McpPeer *p, const char *id, size_t id_bytes, McpCall *after) {
        assert(p);
        assert(id);

        for (McpCall *c = after ? after->next : p->calls; c; c = c->next)
                if (c->id_bytes == id_bytes && memcmp(c->id, id, id_bytes) == 0)
                        return c;
        return NULL;
}

void mcp_call_set_data(McpCall *c, void *tool_data) {
        assert(c);
        c->tool_data = tool_data;
}

const char* mcp_call_principal(const McpCall *c) {
        assert(c);
        return c->peer->principal;
}

const char* mcp_call_client_name(const McpCall *c) {
        assert(c);
        return c->client_name;
}

const char* mcp_call_client_version(const McpCall *c) {
        assert(c);
        return c->client_version;
}

const char* mcp_call_traceparent(const McpCall *c) {
        assert(c);
        return c->traceparent;
}

McpVersion mcp_call_version(const McpCall *c) {
        assert(c);
        return c->version;
}

bool mcp_call_wants_progress(const McpCall *c) {
        assert(c);
        return c->progress_token;
}

bool mcp_call_wants_output(const McpCall *c) {
        assert(c);
        return c->wants_output;
}

bool mcp_call_wants_files(const McpCall *c) {
        assert(c);
        return c->wants_files;
}

int mcp_call_progress(McpCall *c, uint64_t elapsed_usec, const char *message) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        char seconds[32];

        assert(c);

        if (!c->progress_token)
                return 0;
        c->progress_msec = MAX_OF(elapsed_usec / USEC_PER_MSEC, c->progress_msec + 1);
        (void) snprintf(seconds, sizeof(seconds), "%" PRIu64 ".%03u", c->progress_msec / 1000,
                        (unsigned) (c->progress_msec % 1000));

        mcp_notification_begin(&w, "notifications/progress");
        json_key(&w, "progressToken");
        json_raw(&w, c->progress_token, strlen(c->progress_token));
        json_key(&w, "progress");
        json_raw(&w, seconds, strlen(seconds));
        if (message && c->version >= MCP_2025_03_26) {
                json_key(&w, "message");
                json_string(&w, message);
        }
        return mcp_notification_end(&w, c->exchange);
}

int mcp_call_output(McpCall *c, int stream, const void *data, size_t n_bytes) {
        int r;

        assert(c);
        assert(data || n_bytes == 0);

        if (!c->wants_output)
                return 0;
        for (size_t at = 0; at < n_bytes; at += OUTPUT_CHUNK_BYTES) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0), text = BUFFER_INIT(0);
                JsonWriter w = JSON_WRITER_INIT(&b);

                r = base64_append(&text, (const char*) data + at,
                                  MIN_OF(n_bytes - at, (size_t) OUTPUT_CHUNK_BYTES));
                if (r < 0)
                        return r;
                mcp_notification_begin(&w, "notifications/mcp-exec/output");
                json_key(&w, "requestId");
                json_raw(&w, c->id, c->id_bytes);
                json_key(&w, "stream");
                json_integer(&w, stream);
                json_key(&w, "data");
                json_string_n(&w, text.data, text.n_bytes);
                r = mcp_notification_end(&w, c->exchange);
                if (r < 0)
                        return r;
        }
        return 0;
}

int mcp_call_note(McpCall *c, const char *message) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        assert(c);
        assert(message);

        if (!c->wants_output)
                return 0;
        mcp_notification_begin(&w, "notifications/mcp-exec/note");
        json_key(&w, "requestId");
        json_raw(&w, c->id, c->id_bytes);
        json_key(&w, "message");
        json_string(&w, message);
        return mcp_notification_end(&w, c->exchange);
}

static int send_file_piece(McpCall *c, const char *path, const char *data, size_t n_bytes, size_t at) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), text = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int r = 0;

        if (n_bytes > at) /* data may be NULL */
                r = base64_append(&text, data + at, MIN_OF(n_bytes - at, (size_t) OUTPUT_CHUNK_BYTES));
        if (r < 0)
                return r;
        mcp_notification_begin(&w, "notifications/mcp-exec/file");
        json_key(&w, "requestId");
        json_raw(&w, c->id, c->id_bytes);
        json_key(&w, "path");
        json_string(&w, path);
        json_key(&w, "bytes");
        json_unsigned(&w, n_bytes);
        json_key(&w, "data");
        json_string_n(&w, text.data ? text.data : "", text.n_bytes);
        return mcp_notification_end(&w, c->exchange);
}

int mcp_call_file(McpCall *c, const char *path, const char *data, size_t n_bytes) {
        size_t at = 0;
        int r;

        assert(c);
        assert(path);
        assert(data || n_bytes == 0);

        if (!c->wants_files)
                return 0;
        do { /* an empty file is one empty piece */
                r = send_file_piece(c, path, data, n_bytes, at);
                at += OUTPUT_CHUNK_BYTES;
        } while (r >= 0 && at < n_bytes);
        return r;
}

void mcp_call_fail_without_memory(McpCall *c) {
        mcp_exchange_no_memory(c->exchange, c->id, c->id_bytes);
}

static int write_result(const McpCall *c, JsonWriter *w, const char *content, const char *structured,
                        bool is_error) {
        mcp_result_begin(w, c->id, c->id_bytes, c->version);
        json_key(w, "content");
        json_raw(w, content, strlen(content));
        if (structured && !is_error && c->version >= MCP_2025_06_18) {
                json_key(w, "structuredContent");
                json_raw(w, structured, strlen(structured));
        }
        if (is_error) {
                json_key(w, "isError");
                json_boolean(w, true);
        }
        mcp_result_end(w, c->peer->server, c->version);
        return json_writer_finish(w);
}

void mcp_call_finish(McpCall *c, const char *content, const char *structured, bool is_error) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        assert(c);
        assert(!c->is_subscription);
        assert(content);

        if (write_result(c, &w, content, structured, is_error) >= 0)
                mcp_exchange_reply(c->exchange, b.data, b.n_bytes, 200);
        else
                mcp_call_fail_without_memory(c);
        mcp_call_end(c);
}

static void fail_with(McpCall *c, const char *text, const char *meta) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        json_begin_array(&w);
        json_begin_object(&w);
        json_key(&w, "type");
        json_string(&w, "text");
        json_key(&w, "text");
        json_string(&w, text);
        if (meta) {
                json_key(&w, "_meta");
                json_raw(&w, meta, strlen(meta));
        }
        json_end_object(&w);
        json_end_array(&w);
        if (json_writer_finish(&w) >= 0)
                return mcp_call_finish(c, b.data, NULL, /* is_error= */ true);
        mcp_call_fail_without_memory(c);
        mcp_call_end(c);
}

void mcp_call_fail(McpCall *c, const char *text) {
        assert(c);
        assert(text);

        fail_with(c, text, /* meta= */ NULL);
}

void mcp_call_fail_stopping(McpCall *c, const char *text) {
        assert(c);
        assert(text);

        fail_with(c, text, MCP_META_STOPPING);
}
