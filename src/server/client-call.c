/* SPDX-License-Identifier: MIT */

#include "server/client-call.h"

#include "base/buffer.h"
#include "config.h"

static void begin_request(JsonWriter *w, int64_t id, const char *method) {
        json_begin_object(w);
        json_key(w, "jsonrpc");
        json_string(w, "2.0");
        json_key(w, "id");
        json_integer(w, id);
        json_key(w, "method");
        json_string(w, method);
        json_key(w, "params");
        json_begin_object(w);
}

static int end_request(JsonWriter *w) {
        json_end_object(w);
        json_end_object(w);
        return json_writer_finish(w);
}

static int write_handshake(const ClientCall *c, Buffer *b) {
        static const char initialized[] =
                "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        JsonWriter w = JSON_WRITER_INIT(b);
        int r;

        begin_request(&w, 1, "initialize");
        json_key(&w, "protocolVersion");
        json_string(&w, "2025-06-18");
        json_key(&w, "capabilities");
        json_begin_object(&w);
        json_end_object(&w);
        json_key(&w, "clientInfo");
        json_begin_object(&w);
        json_key(&w, "name");
        json_string(&w, c->client);
        json_key(&w, "version");
        json_string(&w, MCP_EXEC_VERSION);
        json_end_object(&w);
        r = end_request(&w);
        return r < 0 ? r : buffer_append_str(b, initialized);
}

int client_call_write(const ClientCall *c, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);
        int r;

        assert(c && c->client && c->tool && c->write_arguments);

        r = write_handshake(c, b);
        if (r < 0)
                return r;
        begin_request(&w, CLIENT_CALL_ID, "tools/call");
        json_key(&w, "name");
        json_string(&w, c->tool);
        json_key(&w, "arguments");
        r = c->write_arguments(&w, c->userdata);
        if (r < 0)
                return r;
        json_key(&w, "_meta");
        json_begin_object(&w);
        if (c->wants_progress) {
                json_key(&w, "progressToken");
                json_integer(&w, CLIENT_CALL_ID);
        }
        if (c->wants_output) {
                json_key(&w, "mcp-exec/output");
                json_boolean(&w, true);
        }
        if (c->wants_files) {
                json_key(&w, "mcp-exec/files");
                json_boolean(&w, true);
        }
        json_end_object(&w);
        r = end_request(&w);
        return r < 0 ? r : buffer_append_str(b, "\n");
}

int client_call_no_arguments(JsonWriter *w, const void *userdata) {
        (void) userdata;
        json_begin_object(w);
        json_end_object(w);
        return w->error;
}

const char* client_call_error(const JsonValue *reply) {
        const JsonValue *result = json_member(reply, "result");
        const char *text = "no reason was given";
        bool is_error = false;

        if (json_member(reply, "error")) {
                (void) json_get_string(json_member(json_member(reply, "error"), "message"), &text, NULL);
                return text;
        }
        if (!json_get_bool(json_member(result, "isError"), &is_error) || !is_error)
                return NULL;
        (void) json_get_string(json_member(json_element(json_member(result, "content"), 0), "text"), &text,
                               NULL);
        return text;
}
