/* SPDX-License-Identifier: MIT */

/* tasks/get, tasks/update, tasks/cancel, and how a task is written down. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "mcp/tasks.h"

static const char *const status_table[_MCP_TASK_STATUS_MAX] = {
        [MCP_TASK_WORKING] = "working",
        [MCP_TASK_COMPLETED] = "completed",
        [MCP_TASK_CANCELLED] = "cancelled",
};

void mcp_task_done(McpTask *t) {
        assert(t);

        buffer_done(&t->message);
        buffer_done(&t->content);
        buffer_done(&t->structured);
}

/* ISO 8601, in UTC. */
static void write_time(JsonWriter *w, const char *key, uint64_t usec) {
        time_t seconds = (time_t) (usec / USEC_PER_SEC);
        struct tm tm = {};
        char text[80], date[40];

        (void) gmtime_r(&seconds, &tm);
        (void) strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
        (void) snprintf(text, sizeof(text), "%s.%03uZ", date,
                        (unsigned) (usec % USEC_PER_SEC / USEC_PER_MSEC));
        json_key(w, key);
        json_string(w, text);
}

void mcp_task_write(JsonWriter *w, const McpTask *t) {
        assert(t->status < _MCP_TASK_STATUS_MAX);

        json_key(w, "taskId");
        json_string(w, t->id);
        json_key(w, "status");
        json_string(w, status_table[t->status]);
        if (t->message.n_bytes > 0) {
                json_key(w, "statusMessage");
                json_string_n(w, t->message.data, t->message.n_bytes);
        }
        write_time(w, "createdAt", t->created_usec);
        write_time(w, "lastUpdatedAt", t->updated_usec);
        json_key(w, "ttlMs");
        json_unsigned(w, t->ttl_usec / USEC_PER_MSEC);
        json_key(w, "pollIntervalMs");
        json_unsigned(w, t->poll_usec / USEC_PER_MSEC);
        if (t->status != MCP_TASK_COMPLETED)
                return;
        json_key(w, "result");
        json_begin_object(w);
        json_key(w, "resultType");
        json_string(w, "complete");
        json_key(w, "content");
        json_raw(w, t->content.data, t->content.n_bytes);
        if (t->structured.n_bytes > 0 && !t->is_error) {
                json_key(w, "structuredContent");
                json_raw(w, t->structured.data, t->structured.n_bytes);
        }
        if (t->is_error) {
                json_key(w, "isError");
                json_boolean(w, true);
        }
        json_end_object(w);
}

bool mcp_request_declares_tasks(const McpRequest *q) {
        const JsonValue *capabilities = json_member(q->message->meta, MCP_META_CAPABILITIES),
                        *extensions = json_member(capabilities, "extensions"),
                        *settings = json_member(extensions, MCP_TASKS_EXTENSION);

        return mcp_version_is_modern(q->version) && q->peer->server->p.tasks && settings &&
                json_type(settings) == JSON_OBJECT;
}

int mcp_tasks_refuse_undeclared(const McpRequest *q) {
        mcp_exchange_error(q->exchange, q->message->id, q->message->id_bytes, MCP_ERROR_MISSING_CAPABILITY,
                           400, "this request must declare the extension " MCP_TASKS_EXTENSION
                           " in its clientCapabilities",
                           "{\"requiredCapabilities\":{\"extensions\":{\"" MCP_TASKS_EXTENSION "\":{}}}}");
        return 0;
}

/* What all three methods begin with; *ret is NULL when the request is answered already. */
static int read_task_id(const McpRequest *q, const char **ret) {
        *ret = NULL;
        if (!q->peer->server->p.tasks)
                return mcp_request_error(q, MCP_ERROR_METHOD_NOT_FOUND, 404, "there are no tasks here");
        if (!mcp_request_declares_tasks(q))
                return mcp_tasks_refuse_undeclared(q);
        if (!json_get_string(json_member(q->message->params, "taskId"), ret, NULL))
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "params.taskId must be a string");
        return 0;
}

static int refuse_unknown(const McpRequest *q) {
        return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                 "unknown task: there is none of this id that is yours and not expired");
}

static int acknowledge(const McpRequest *q) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        mcp_result_begin(&w, q->message->id, q->message->id_bytes, q->version);
        mcp_result_end(&w, q->peer->server, q->version);
        return mcp_request_reply(q, &w);
}

int mcp_tasks_get(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        _cleanup_task_ McpTask task = {};
        const char *id;
        int r;

        r = read_task_id(q, &id);
        if (r < 0 || !id)
                return r;
        r = p->tasks->get(p->tools_userdata, q->peer->principal, id, &task);
        if (r == MCP_TASK_E_UNKNOWN)
                return refuse_unknown(q);
        if (r < 0)
                return r;
        mcp_result_begin(&w, q->message->id, q->message->id_bytes, q->version);
        mcp_task_write(&w, &task);
        mcp_result_end(&w, q->peer->server, q->version);
        return mcp_request_reply(q, &w);
}

/* We never ask for input, so whatever is answered here answers nothing: ignored, as it must be. */
int mcp_tasks_update(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        const JsonValue *responses = json_member(q->message->params, "inputResponses");
        _cleanup_task_ McpTask task = {};
        const char *id;
        int r;

        r = read_task_id(q, &id);
        if (r < 0 || !id)
                return r;
        if (!responses || json_type(responses) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.inputResponses must be an object");
        r = p->tasks->get(p->tools_userdata, q->peer->principal, id, &task);
        if (r == MCP_TASK_E_UNKNOWN)
                return refuse_unknown(q);
        return r < 0 ? r : acknowledge(q);
}

int mcp_tasks_cancel(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        const char *id;
        int r;

        r = read_task_id(q, &id);
        if (r < 0 || !id)
                return r;
        r = p->tasks->cancel(p->tools_userdata, q->peer->principal, id);
        if (r == MCP_TASK_E_UNKNOWN)
                return refuse_unknown(q);
        return r < 0 ? r : acknowledge(q);
}

bool mcp_call_takes_task(const McpCall *c) {
        assert(c);
        return c->takes_task;
}

void mcp_call_finish_task(McpCall *c, const McpTask *task) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        assert(c);
        assert(c->takes_task);
        assert(task);

        mcp_result_begin_type(&w, c->id, c->id_bytes, "task");
        mcp_task_write(&w, task);
        mcp_result_end(&w, c->peer->server, c->version);
        if (json_writer_finish(&w) >= 0)
                mcp_exchange_reply(c->exchange, b.data, b.n_bytes, 200);
        else
                mcp_call_fail_without_memory(c);
        mcp_call_end(c);
}
