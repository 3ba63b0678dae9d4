/* SPDX-License-Identifier: MIT */

/* tools/list and tools/call, the same in both eras but for their envelopes. */

#include <stdio.h>

#include "mcp/internal.h"

int mcp_tools_list(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int r;

        /* There is one page and we give out no cursors: whatever comes is not ours, "" included. */
        if (json_member(q->message->params, "cursor"))
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "unknown cursor: the list has one page");

        mcp_result_begin(&w, q->message->id, q->message->id_bytes, q->version);
        json_key(&w, "tools");
        r = p->tools->list(p->tools_userdata, q->version, &w);
        if (r < 0)
                return r;
        if (mcp_version_is_modern(q->version)) {
                json_key(&w, "ttlMs");
                json_integer(&w, MCP_TTL_MSEC);
                json_key(&w, "cacheScope");
                json_string(&w, "private");
        }
        mcp_result_end(&w, q->peer->server, q->version);
        return mcp_request_reply(q, &w);
}

/* Which argument holds what cannot be kept; NULL when it is elsewhere. */
static const char* find_unfit_argument(const McpMessage *m, const JsonValue *arguments) {
        const char *params, *raw, *value, *name;
        size_t n_params, n_raw, n_value;

        if (json_raw_member(m->text, m->n_bytes, "params", &params, &n_params) <= 0 ||
            json_raw_member(params, n_params, "arguments", &raw, &n_raw) <= 0)
                return NULL;
        for (size_t i = 0; i < 16 && (name = json_member_name(arguments, i)); i++)
                if (json_raw_member(raw, n_raw, name, &value, &n_value) > 0 &&
                    json_check(value, n_value) == JSON_E_TEXT)
                        return name;
        return NULL;
}

/* An error that the model sees, so that it can send something else. */
static void refuse_unfit_text(const McpRequest *q, const JsonValue *arguments, McpCall *c) {
        const char *name = find_unfit_argument(q->message, arguments);
        char text[MCP_QUOTE_BYTES + 256], quoted[MCP_QUOTE_BYTES];

        if (name)
                (void) snprintf(text, sizeof(text), "argument \"%s\": %s", mcp_quote(name, quoted),
                                json_error_to_string(JSON_E_TEXT));
        else
                (void) snprintf(text, sizeof(text), "the call: %s", json_error_to_string(JSON_E_TEXT));
        mcp_call_fail(c, text);
}

/* Modern clients declare what they can do with each request; in the legacy era nobody asks. */
static int check_capability(const McpRequest *q, const char *tool, bool *ret_is_refused) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        const char *needed;
        int r;

        *ret_is_refused = false;
        if (!p->tools->required_capability)
                return 0;
        needed = p->tools->required_capability(p->tools_userdata, tool);
        if (!needed || !mcp_version_is_modern(q->version) ||
            json_member(json_member(q->message->meta, MCP_META_CAPABILITIES), needed))
                return 0;
        json_begin_object(&w);
        json_key(&w, "requiredCapabilities");
        json_begin_object(&w);
        json_key(&w, needed);
        json_begin_object(&w);
        json_end_object(&w);
        json_end_object(&w);
        json_end_object(&w);
        r = json_writer_finish(&w);
        if (r < 0)
                return r;
        mcp_exchange_error(q->exchange, q->message->id, q->message->id_bytes, MCP_ERROR_MISSING_CAPABILITY,
                           400, "this tool needs a capability that the request does not declare", b.data);
        *ret_is_refused = true;
        return 0;
}

/* With those that there are, as clients are told them, for models that guess. */
static int refuse_unknown(const McpRequest *q, const char *name) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_buffer_ Buffer list = BUFFER_INIT(0), names = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&list);
        _cleanup_json_ JsonValue *tools = NULL;
        char quoted[MCP_QUOTE_BYTES];
        const char *tool;
        int r;

        r = p->tools->list(p->tools_userdata, q->version, &w);
        if (r >= 0)
                r = json_writer_finish(&w);
        if (r >= 0)
                r = json_parse(list.data, list.n_bytes, &tools);
        for (size_t i = 0; r >= 0 && i < json_length(tools); i++)
                if (json_get_string(json_member(json_element(tools, i), "name"), &tool, NULL))
                        r = buffer_printf(&names, "%s%s", names.n_bytes > 0 ? ", " : "; there are ", tool);
        if (r < 0)
                return r;
        return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "unknown tool \"%s\"%s",
                                 mcp_quote(name, quoted), names.n_bytes > 0 ? names.data : "");
}

int mcp_tools_call(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_json_ JsonValue *none = NULL;
        const JsonValue *arguments;
        const char *name;
        bool is_refused;
        McpCall *c;
        int r;

        if (!json_get_string(json_member(q->message->params, "name"), &name, NULL))
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "params.name must be a string");
        if (!p->tools->exists(p->tools_userdata, name))
                return refuse_unknown(q, name);
        r = check_capability(q, name, &is_refused);
        if (r < 0 || is_refused)
                return r;
        arguments = json_member(q->message->params, "arguments");
        if (!arguments || json_type(arguments) == JSON_NULL) {
                r = json_parse("{}", 2, &none);
                if (r < 0)
                        return r;
                arguments = none;
        }
        if (json_type(arguments) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.arguments must be an object, not %s",
                                         json_type_to_string(json_type(arguments)));

        r = mcp_call_admit(q, &is_refused);
        if (r < 0 || is_refused)
                return r;
        r = mcp_call_new(q, &c);
        if (r < 0)
                return r;
        if (q->message->has_unfit_text) {
                refuse_unfit_text(q, arguments, c);
                return 0;
        }
        r = p->tools->call(p->tools_userdata, name, arguments, c); /* 0: c may be gone already */
        if (r < 0)
                mcp_call_end(c);
        return r;
}
