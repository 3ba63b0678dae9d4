/* SPDX-License-Identifier: MIT */

/* Envelopes: what stands around every result and every notification, by revision. */

#include <errno.h>

#include "mcp/internal.h"

void mcp_write_implementation(JsonWriter *w, const McpServer *s, bool has_title) {
        json_begin_object(w);
        json_key(w, "name");
        json_string(w, s->p.name);
        if (has_title && s->p.title) {
                json_key(w, "title");
                json_string(w, s->p.title);
        }
        json_key(w, "version");
        json_string(w, s->p.version);
        json_end_object(w);
}

static void begin_result(JsonWriter *w, const char *id, size_t id_bytes, const char *type) {
        assert(id);

        json_begin_object(w);
        json_key(w, "jsonrpc");
        json_string(w, "2.0");
        json_key(w, "id");
        json_raw(w, id, id_bytes);
        json_key(w, "result");
        json_begin_object(w);
        if (type) {
                json_key(w, "resultType");
                json_string(w, type);
        }
}

void mcp_result_begin(JsonWriter *w, const char *id, size_t id_bytes, McpVersion v) {
        begin_result(w, id, id_bytes, mcp_version_is_modern(v) ? "complete" : NULL);
}

void mcp_result_begin_type(JsonWriter *w, const char *id, size_t id_bytes, const char *type) {
        begin_result(w, id, id_bytes, type);
}

void mcp_result_end(JsonWriter *w, const McpServer *s, McpVersion v) {
        if (mcp_version_is_modern(v)) {
                json_key(w, "_meta");
                json_begin_object(w);
                json_key(w, MCP_META_SERVER_INFO);
                mcp_write_implementation(w, s, /* has_title= */ true);
                json_end_object(w);
        }
        json_end_object(w);
        json_end_object(w);
}

int mcp_request_reply(const McpRequest *q, const JsonWriter *w) {
        int r;

        r = json_writer_finish(w);
        if (r < 0)
                return r;
        mcp_exchange_reply(q->exchange, w->buffer->data, w->buffer->n_bytes, 200);
        return 0;
}

void mcp_notification_begin(JsonWriter *w, const char *method) {
        json_begin_object(w);
        json_key(w, "jsonrpc");
        json_string(w, "2.0");
        json_key(w, "method");
        json_string(w, method);
        json_key(w, "params");
        json_begin_object(w);
}

int mcp_notification_end(JsonWriter *w, McpExchange *x) {
        int r;

        json_end_object(w);
        json_end_object(w);
        r = json_writer_finish(w);
        return r < 0 ? r : mcp_exchange_notify(x, w->buffer->data, w->buffer->n_bytes);
}
