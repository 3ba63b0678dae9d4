/* SPDX-License-Identifier: MIT */

/* The stateless era: 2026-07-28 and what follows. Nothing here reads what an earlier message said. */

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "mcp/headers.h"
#include "mcp/internal.h"
#include "mcp/tasks.h"

#define TASK_IDS_MAX 64 /* of one subscription */

static void write_supported(JsonWriter *w) {
        json_begin_array(w);
        for (McpVersion v = MCP_VERSION_FIRST_MODERN; v < _MCP_VERSION_MAX; v++)
                json_string(w, mcp_version_to_string(v));
        json_end_array(w);
}

static int discover(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        mcp_result_begin(&w, q->message->id, q->message->id_bytes, q->version);
        json_key(&w, "supportedVersions");
        write_supported(&w);
        json_key(&w, "capabilities");
        json_begin_object(&w);
        json_key(&w, "tools");
        json_begin_object(&w);
        json_end_object(&w);
        if (p->tasks) {
                json_key(&w, "extensions");
                json_begin_object(&w);
                json_key(&w, MCP_TASKS_EXTENSION);
                json_begin_object(&w);
                json_end_object(&w);
                json_end_object(&w);
        }
        json_end_object(&w);
        if (p->instructions) {
                json_key(&w, "instructions");
                json_string(&w, p->instructions);
        }
        json_key(&w, "ttlMs");
        json_integer(&w, MCP_TTL_MSEC);
        json_key(&w, "cacheScope");
        json_string(&w, "private");
        mcp_result_end(&w, q->peer->server, q->version);
        return mcp_request_reply(q, &w);
}

/* Which tasks a client wants to hear of: *ret is NULL when it names none. */
static int read_task_ids(const McpRequest *q, const JsonValue *filter, const JsonValue **ret,
                         bool *ret_is_refused) {
        const JsonValue *ids = json_member(filter, "taskIds");
        const char *id;

        *ret = NULL;
        *ret_is_refused = false;
        if (!ids || !q->peer->server->p.tasks)
                return 0;
        *ret_is_refused = true;
        if (!mcp_request_declares_tasks(q))
                return mcp_tasks_refuse_undeclared(q);
        if (json_type(ids) != JSON_ARRAY || json_length(ids) > TASK_IDS_MAX)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.notifications.taskIds must be an array of up to %d strings",
                                         TASK_IDS_MAX);
        for (size_t i = 0; i < json_length(ids); i++)
                if (!json_get_string(json_element(ids, i), &id, NULL))
                        return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                                 "params.notifications.taskIds[%zu] must be a string", i);
        *ret_is_refused = false;
        *ret = ids;
        return 0;
}

static int listen_to_changes(const McpRequest *q) {
        const JsonValue *filter = json_member(q->message->params, "notifications"), *task_ids;
        bool is_refused;
        int r;

        if (!filter || json_type(filter) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.notifications must be an object");
        r = read_task_ids(q, filter, &task_ids, &is_refused);
        if (r < 0 || is_refused)
                return r;
        r = mcp_call_admit(q, &is_refused);
        return r < 0 || is_refused ? r : mcp_subscription_new(q, task_ids);
}

static const McpMethod requests[] = {
        { "server/discover", discover },
        { "tools/list", mcp_tools_list },
        { "tools/call", mcp_tools_call },
        { "subscriptions/listen", listen_to_changes },
        { "tasks/get", mcp_tasks_get },
        { "tasks/update", mcp_tasks_update },
        { "tasks/cancel", mcp_tasks_cancel },
};

/* What every request must carry: all that is wrong in one message. */
static int check_meta(const McpRequest *q, bool *ret_is_refused) {
        const JsonValue *version = json_member(q->message->meta, MCP_META_VERSION),
                        *capabilities = json_member(q->message->meta, MCP_META_CAPABILITIES),
                        *client = json_member(q->message->meta, MCP_META_CLIENT_INFO);
        bool is_version = version && json_type(version) == JSON_STRING,
             is_capabilities = capabilities && json_type(capabilities) == JSON_OBJECT;

        *ret_is_refused = true;
        if (!is_version || !is_capabilities)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 400,
                                         "missing or malformed in params._meta: %s%s%s",
                                         is_version ? "" : MCP_META_VERSION " (a string)",
                                         is_version || is_capabilities ? "" : ", ",
                                         is_capabilities ? "" : MCP_META_CAPABILITIES " (an object)");
        if (client && json_type(client) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 400,
                                         "malformed in params._meta: " MCP_META_CLIENT_INFO " (an object)");
        *ret_is_refused = false;
        return 0;
}

static int refuse_version(const McpRequest *q, const char *requested) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        char quoted[MCP_QUOTE_BYTES];
        int r;

        json_begin_object(&w);
        json_key(&w, "supported");
        write_supported(&w);
        json_key(&w, "requested");
        json_string(&w, mcp_quote(requested, quoted));
        json_end_object(&w);
        r = json_writer_finish(&w);
        if (r < 0)
                return r;
        mcp_exchange_error(q->exchange, q->message->id, q->message->id_bytes, MCP_ERROR_UNSUPPORTED_VERSION,
                           400, "unsupported protocol version", b.data);
        return 0;
}

static int check_header(const McpRequest *q, const char *name, const char *header, const char *body,
                        bool *ret_is_refused) {
        char a[MCP_QUOTE_BYTES], b[MCP_QUOTE_BYTES];
        int r;

        *ret_is_refused = true;
        if (q->headers->is_duplicate)
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400,
                                         "a header of the protocol was sent twice");
        if (!header)
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400, "header %s is missing", name);
        r = mcp_header_equal(header, body);
        if (r == -EBADMSG)
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400,
                                         "header %s is not valid base64 between its markers", name);
        if (r < 0)
                return r;
        if (r == 0) {
                log_debug("Refused: header %s is \"%s\", the message says \"%s\".", name,
                          mcp_quote(header, a), mcp_quote(body, b));
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400,
                                         "header %s is \"%s\", but the message says \"%s\"", name,
                                         mcp_quote(header, a), mcp_quote(body, b));
        }
        *ret_is_refused = false;
        return 0;
}

/* Which member of params a proxy may route by, for methods that have one, be they ours or not. */
static const char* routing_member(const char *method) {
        if (streq(method, "tools/call") || streq(method, "prompts/get"))
                return "name";
        if (streq(method, "tasks/get") || streq(method, "tasks/update") || streq(method, "tasks/cancel"))
                return "taskId";
        return streq(method, "resources/read") ? "uri" : NULL;
}

/* Headers that no tool of ours names mean nothing to us. */
static int check_parameter_header(const McpRequest *q, const char *tool, bool *ret_is_refused) {
        const McpServerParameters *p = &q->peer->server->p;
        const JsonValue *v;
        const char *name, *argument, *header, *value;
        char full_name[80];
        unsigned n = 0;

        if (!p->tools->routing_header)
                return 0;
        name = p->tools->routing_header(p->tools_userdata, tool, &argument);
        if (!name)
                return 0;
        (void) snprintf(full_name, sizeof(full_name), "Mcp-Param-%s", name);
        header = q->headers->find ? q->headers->find(q->headers->userdata, full_name, &n) : NULL;
        v = json_member(json_member(q->message->params, "arguments"), argument);
        if (!v || json_type(v) == JSON_NULL) {
                if (!header)
                        return 0;
                *ret_is_refused = true;
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400,
                                         "header %s is there, but no argument \"%s\"", full_name, argument);
        }
        if (n > 1) {
                *ret_is_refused = true;
                return mcp_request_error(q, MCP_ERROR_HEADER_MISMATCH, 400, "header %s was sent twice",
                                         full_name);
        }
        if (!json_get_string(v, &value, NULL))
                return 0; /* refused by the tool itself */
        return check_header(q, full_name, header, value, ret_is_refused);
}

static int check_routing_headers(const McpRequest *q, bool *ret_is_refused) {
        const char *member, *value;
        int r;

        r = check_header(q, "Mcp-Method", q->headers->method, q->message->method, ret_is_refused);
        if (r < 0 || *ret_is_refused)
                return r;
        member = routing_member(q->message->method);
        if (!member || !json_get_string(json_member(q->message->params, member), &value, NULL))
                return 0; /* a missing name is refused by the method itself */
        r = check_header(q, "Mcp-Name", q->headers->name, value, ret_is_refused);
        if (r < 0 || *ret_is_refused || !streq(q->message->method, "tools/call"))
                return r;
        return check_parameter_header(q, value, ret_is_refused);
}

static int check_log_level(const McpRequest *q, bool *ret_is_refused) {
        static const char *const levels[] = {
                "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
        };
        const JsonValue *v = json_member(q->message->meta, MCP_META_LOG_LEVEL);
        const char *level;

        *ret_is_refused = false;
        if (!v)
                return 0;
        if (json_get_string(v, &level, NULL))
                for (size_t i = 0; i < ELEMENTSOF(levels); i++)
                        if (streq(levels[i], level))
                                return 0;
        *ret_is_refused = true;
        return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "unknown log level in params._meta");
}

/* The order of these checks is the specification's: clients tell what we are by which one fails first. */
static int check_request(McpRequest *q, bool *ret_is_refused) {
        const char *text;
        int r;

        r = check_meta(q, ret_is_refused);
        if (r < 0 || *ret_is_refused)
                return r;
        (void) json_get_string(json_member(q->message->meta, MCP_META_VERSION), &text, NULL);
        if (q->headers) {
                r = check_header(q, "MCP-Protocol-Version", q->headers->protocol_version, text,
                                 ret_is_refused);
                if (r < 0 || *ret_is_refused)
                        return r;
        }
        q->version = mcp_version_from_string(text);
        if (q->version < 0 || !mcp_version_is_modern(q->version)) {
                *ret_is_refused = true;
                return refuse_version(q, text);
        }
        return q->headers ? check_routing_headers(q, ret_is_refused) : 0;
}

int mcp_modern_request(McpRequest *q) {
        char quoted[MCP_QUOTE_BYTES];
        bool is_refused;
        const McpMethod *m;
        int r;

        r = check_request(q, &is_refused);
        if (r < 0 || is_refused)
                return r;
        m = mcp_method_find(requests, ELEMENTSOF(requests), q->message->method);
        if (!m)
                return mcp_request_error(q, MCP_ERROR_METHOD_NOT_FOUND, 404, "unknown method \"%s\"",
                                         mcp_quote(q->message->method, quoted));
        r = check_log_level(q, &is_refused);
        if (r < 0 || is_refused)
                return r;
        if (q->message->has_unfit_text && m->handle != mcp_tools_call)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "%s",
                                         json_error_to_string(JSON_E_TEXT));
        return m->handle(q);
}

/* On a pipe a cancel reaches requests of either era. On HTTP the end of the stream is the cancel, and this
 * notification must be ignored: clients send both, under ids that are the same for all of them. */
int mcp_modern_notification(McpRequest *q) {
        return q->peer->kind == MCP_PEER_PIPE ? mcp_legacy_notification(q) : 0;
}
