/* SPDX-License-Identifier: MIT */

/* Replies that are errors of the protocol. */

#include <errno.h>
#include <stdio.h>

#include "base/utf8.h"
#include "mcp/internal.h"

const char* mcp_quote(const char *s, char ret[static MCP_QUOTE_BYTES]) {
        size_t n = 0, n_bytes;

        assert(s);

        n_bytes = strlen(s);
        while (n < n_bytes) {
                size_t k = utf8_sequence(s + n, n_bytes - n);

                if (k == 0 || n + k > 128) {
                        memcpy(ret + n, "…", sizeof("…"));
                        return ret;
                }
                memcpy(ret + n, s + n, k);
                if (k == 1 && ((unsigned char) ret[n] < 0x20 || ret[n] == 0x7f))
                        ret[n] = '?';
                n += k;
        }
        ret[n] = '\0';
        return ret;
}

static int write_error(Buffer *b, const char *id, size_t id_bytes, int code, const char *message,
                       const char *data) {
        JsonWriter w = JSON_WRITER_INIT(b);

        json_begin_object(&w);
        json_key(&w, "jsonrpc");
        json_string(&w, "2.0");
        if (id) { /* null is not an id in any revision's schema: an id that cannot be read is left out */
                json_key(&w, "id");
                json_raw(&w, id, id_bytes);
        }
        json_key(&w, "error");
        json_begin_object(&w);
        json_key(&w, "code");
        json_integer(&w, code);
        json_key(&w, "message");
        json_string(&w, message);
        if (data) {
                json_key(&w, "data");
                json_raw(&w, data, strlen(data));
        }
        json_end_object(&w);
        json_end_object(&w);
        return json_writer_finish(&w);
}

int mcp_error_reply(const char *text, size_t n_bytes, int code, const char *message, Buffer *b) {
        const char *id = NULL;
        size_t id_bytes = 0;

        assert(message);
        assert(b);

        if (text)
                (void) mcp_message_raw_id(text, n_bytes, &id, &id_bytes);
        return write_error(b, id, id_bytes, code, message, NULL);
}

static size_t write_no_memory(const char *id, size_t id_bytes, char ret[static MCP_NO_MEMORY_BYTES]) {
        static_assert(MCP_NO_MEMORY_BYTES > MCP_ID_BYTES_MAX + sizeof(MCP_NO_MEMORY_REPLY) + 16,
                      "any id has to fit in");

        assert(id_bytes <= MCP_ID_BYTES_MAX);

        return (size_t) snprintf(ret, MCP_NO_MEMORY_BYTES,
                                 "{\"jsonrpc\":\"2.0\",%s%.*s%s\"error\":{\"code\":%d,\"message\":\"%s\"}}",
                                 id ? "\"id\":" : "", (int) id_bytes, id ? id : "", id ? "," : "",
                                 MCP_ERROR_UNAVAILABLE, MCP_NO_MEMORY);
}

size_t mcp_no_memory_reply(const char *text, size_t n_bytes, char ret[static MCP_NO_MEMORY_BYTES]) {
        const char *id = NULL;
        size_t id_bytes = 0;

        assert(text || n_bytes == 0);

        if (text)
                (void) mcp_message_raw_id(text, n_bytes, &id, &id_bytes);
        return write_no_memory(id, id_bytes, ret);
}

/* The caller must learn even that, so the answer is made on the stack. */
void mcp_exchange_no_memory(McpExchange *x, const char *id, size_t id_bytes) {
        char text[MCP_NO_MEMORY_BYTES];

        mcp_exchange_reply(x, text, write_no_memory(id, id_bytes, text), 503);
}

void mcp_exchange_error(McpExchange *x, const char *id, size_t id_bytes, int code, unsigned http_status,
                        const char *message, const char *data) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        assert(message);

        if (write_error(&b, id, id_bytes, code, message, data) < 0)
                mcp_exchange_no_memory(x, id, id_bytes);
        else
                mcp_exchange_reply(x, b.data, b.n_bytes, http_status);
}

int mcp_request_error(const McpRequest *q, int code, unsigned http_status, const char *format, ...) {
        _cleanup_buffer_ Buffer message = BUFFER_INIT(0);
        va_list ap;
        int r;

        va_start(ap, format);
        r = buffer_vprintf(&message, format, ap);
        va_end(ap);
        if (r < 0)
                return r;
        mcp_exchange_error(q->exchange, q->message->id, q->message->id_bytes, code, http_status,
                           message.data, NULL);
        return 0;
}
