/* SPDX-License-Identifier: MIT */

#include "mcp/message.h"

#include "mcp/mcp.h"

bool mcp_raw_is_id(const char *raw, size_t n_bytes) {
        size_t i = 0;
        int r;

        if (n_bytes == 0 || n_bytes > MCP_ID_BYTES_MAX)
                return false;
        r = json_check(raw, n_bytes);
        if (raw[0] == '"')
                return r == 0 || r == JSON_E_TEXT; /* escapes of any kind can go back as they came */
        if (r != 0)
                return false;

        /* An integer: digits, and perhaps ".0". A fraction or an exponent would be a number of another kind
         * (a boolean, an object … is no number at all). */
        if (raw[i] == '-')
                i++;
        if (i >= n_bytes || raw[i] < '0' || raw[i] > '9')
                return false;
        while (i < n_bytes && raw[i] >= '0' && raw[i] <= '9')
                i++;
        if (i < n_bytes && raw[i] == '.')
                for (i++; i < n_bytes && raw[i] == '0'; i++)
                        ;
        return i == n_bytes;
}

bool mcp_message_raw_id(const char *text, size_t n_bytes, const char **ret, size_t *ret_bytes) {
        const char *raw;
        size_t raw_bytes;

        if (json_raw_member(text, n_bytes, "id", &raw, &raw_bytes) <= 0 || !mcp_raw_is_id(raw, raw_bytes))
                return false;
        *ret = raw;
        *ret_bytes = raw_bytes;
        return true;
}

static bool params_member(const McpMessage *m, const char *name, const char **ret, size_t *ret_bytes) {
        const char *params;
        size_t n_params;

        return json_raw_member(m->text, m->n_bytes, "params", &params, &n_params) > 0 &&
               json_raw_member(params, n_params, name, ret, ret_bytes) > 0;
}

bool mcp_message_progress_token(const McpMessage *m, const char **ret, size_t *ret_bytes) {
        const char *meta, *token;
        size_t n_meta, n_token;

        if (!m->meta || !params_member(m, "_meta", &meta, &n_meta) ||
            json_raw_member(meta, n_meta, "progressToken", &token, &n_token) <= 0 ||
            !mcp_raw_is_id(token, n_token))
                return false;
        *ret = token;
        *ret_bytes = n_token;
        return true;
}

bool mcp_message_request_id(const McpMessage *m, const char **ret, size_t *ret_bytes) {
        const char *id;
        size_t n_id;

        if (!params_member(m, "requestId", &id, &n_id) || !mcp_raw_is_id(id, n_id))
                return false;
        *ret = id;
        *ret_bytes = n_id;
        return true;
}

static void invalid(McpMessage *m, int code, const char *message) {
        m->kind = MCP_MESSAGE_INVALID;
        m->error_code = code;
        m->error_message = message;
}

/* The shape of the envelope: JSON-RPC 2.0 with MCP's narrower rules on ids and params. */
static void classify(McpMessage *m) {
        const JsonValue *id, *method;
        const char *version;

        if (json_type(m->root) != JSON_OBJECT)
                return invalid(m, MCP_ERROR_INVALID_REQUEST, "a message must be a JSON object");
        id = json_member(m->root, "id");
        method = json_member(m->root, "method");
        if (!json_get_string(json_member(m->root, "jsonrpc"), &version, NULL) || !streq(version, "2.0"))
                return invalid(m, MCP_ERROR_INVALID_REQUEST, "member \"jsonrpc\" must be \"2.0\"");
        if (!method && (json_member(m->root, "result") || json_member(m->root, "error"))) {
                m->kind = MCP_MESSAGE_RESPONSE;
                return;
        }
        if (!json_get_string(method, &m->method, NULL))
                return invalid(m, MCP_ERROR_INVALID_REQUEST, "member \"method\" must be a string");
        if (id && !m->id)
                return invalid(m, MCP_ERROR_INVALID_REQUEST,
                               "member \"id\" must be a string or an integer, of at most 1024 bytes");
        m->params = json_member(m->root, "params");
        if (m->params && json_type(m->params) != JSON_OBJECT)
                return invalid(m, MCP_ERROR_INVALID_PARAMS, "member \"params\" must be an object");
        m->meta = json_member(m->params, "_meta");
        if (m->meta && json_type(m->meta) != JSON_OBJECT)
                return invalid(m, MCP_ERROR_INVALID_PARAMS, "params._meta must be an object");
        m->kind = id ? MCP_MESSAGE_REQUEST : MCP_MESSAGE_NOTIFICATION;
}

int mcp_message_parse(const char *text, size_t n_bytes, McpMessage *ret) {
        int r;

        assert(text || n_bytes == 0);
        assert(ret);

        *ret = (McpMessage) { .text = text, .n_bytes = n_bytes };
        (void) mcp_message_raw_id(text, n_bytes, &ret->id, &ret->id_bytes);

        r = json_parse(text, n_bytes, &ret->root);
        if (r < 0)
                return r;
        if (r == 0 || r == JSON_E_TEXT) {
                ret->has_unfit_text = r == JSON_E_TEXT;
                classify(ret);
        } else
                invalid(ret, r == JSON_E_SYNTAX ? MCP_ERROR_PARSE : MCP_ERROR_INVALID_REQUEST,
                        json_error_to_string(r));
        return 0;
}

void mcp_message_done(McpMessage *m) {
        m->root = json_free(m->root);
}
