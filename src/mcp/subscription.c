/* SPDX-License-Identifier: MIT */

/* subscriptions/listen: acknowledged at once, ended by its client or by our stop. In between it is silent,
 * but for the ends of the tasks that the client named. */

#include <errno.h>

#include "mcp/tasks.h"

void mcp_subscription_unwatch(McpCall *c) {
        const McpServerParameters *p;

        assert(c);

        p = &c->peer->server->p;
        for (size_t i = 0; i < c->n_watches; i++) {
                if (c->watches[i].handle)
                        p->tasks->unwatch(p->tools_userdata, c->watches[i].handle);
                free(c->watches[i].id);
        }
        free(TAKE_PTR(c->watches));
        c->n_watches = 0;
}

/* A task that is over is told of at once, with its result: not so many in one turn of the event loop that
 * others wait for theirs. */
#define OVER_MAX 8

static bool is_watched(const McpCall *c, const char *id) {
        for (size_t i = 0; i < c->n_watches; i++)
                if (streq(c->watches[i].id, id))
                        return true;
        return false;
}

/* Those that there are, once each; ids of none and of others' are left out, and what would be too many at
 * once. The acknowledgement tells, and tasks/get is there for them. */
static int watch_tasks(McpCall *c, const JsonValue *ids) {
        const McpServerParameters *p = &c->peer->server->p;
        size_t n_over = 0;
        int r;

        if (json_length(ids) == 0)
                return 0;
        c->watches = calloc(json_length(ids), sizeof(*c->watches));
        if (!c->watches)
                return -ENOMEM;
        for (size_t i = 0; i < json_length(ids); i++) {
                McpTaskWatch *w = c->watches + c->n_watches;
                const char *id = NULL;

                (void) json_get_string(json_element(ids, i), &id, NULL);
                if (is_watched(c, id))
                        continue;
                *w = (McpTaskWatch) { .subscription = c };
                w->id = strdup(id);
                if (!w->id)
                        return -ENOMEM;
                r = p->tasks->watch(p->tools_userdata, c->peer->principal, id, w, &w->handle);
                if (r == 0 && (w->handle || n_over++ < OVER_MAX)) {
                        c->n_watches++;
                        continue;
                }
                free(TAKE_PTR(w->id));
                if (r < 0)
                        return r;
        }
        return 0;
}

static void write_subscription_id(JsonWriter *w, const McpCall *c) {
        json_key(w, MCP_META_SUBSCRIPTION_ID);
        json_raw(w, c->id, c->id_bytes);
}

static int acknowledge(const McpCall *c, bool has_task_ids) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        mcp_notification_begin(&w, "notifications/subscriptions/acknowledged");
        json_key(&w, "_meta");
        json_begin_object(&w);
        write_subscription_id(&w, c);
        json_end_object(&w);
        /* Of what the base protocol knows nothing ever changes here while a client watches. */
        json_key(&w, "notifications");
        json_begin_object(&w);
        if (has_task_ids) {
                json_key(&w, "taskIds");
                json_begin_array(&w);
                for (size_t i = 0; i < c->n_watches; i++)
                        json_string(&w, c->watches[i].id);
                json_end_array(&w);
        }
        json_end_object(&w);
        return mcp_notification_end(&w, c->exchange);
}

void mcp_task_watch_notify(McpTaskWatch *watch) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        _cleanup_task_ McpTask task = {};
        const McpServerParameters *p;
        const McpCall *c;

        assert(watch);

        c = watch->subscription;
        p = &c->peer->server->p;
        /* Without memory for it the client learns of the end when it asks. */
        if (p->tasks->get(p->tools_userdata, c->peer->principal, watch->id, &task) != 0)
                return;
        mcp_notification_begin(&w, "notifications/tasks");
        json_key(&w, "_meta");
        json_begin_object(&w);
        write_subscription_id(&w, c);
        json_end_object(&w);
        mcp_task_write(&w, &task);
        (void) mcp_notification_end(&w, c->exchange);
}

int mcp_subscription_new(const McpRequest *q, const JsonValue *task_ids) {
        McpCall *c;
        int r;

        r = mcp_call_new(q, &c);
        if (r < 0)
                return r;
        c->is_subscription = true;

        r = task_ids ? watch_tasks(c, task_ids) : 0;
        if (r < 0) {
                mcp_call_end(c);
                return r;
        }
        r = acknowledge(c, task_ids);
        if (r == -ENOMEM) {
                mcp_call_end(c);
                return r;
        }
        /* Any other failure is the sink's, which closes later. What is over already would never be told. */
        for (size_t i = 0; i < c->n_watches; i++)
                if (!c->watches[i].handle)
                        mcp_task_watch_notify(&c->watches[i]);
        return 0;
}

void mcp_subscription_end(McpCall *c) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), n = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b), notification = JSON_WRITER_INIT(&n);

        assert(c);
        assert(c->is_subscription);

        json_begin_object(&w);
        json_key(&w, "jsonrpc");
        json_string(&w, "2.0");
        json_key(&w, "id");
        json_raw(&w, c->id, c->id_bytes);
        json_key(&w, "result");
        json_begin_object(&w);
        json_key(&w, "resultType");
        json_string(&w, "complete");
        json_key(&w, "_meta");
        json_begin_object(&w);
        json_key(&w, MCP_META_SUBSCRIPTION_ID);
        json_raw(&w, c->id, c->id_bytes);
        json_key(&w, MCP_META_SERVER_INFO);
        mcp_write_implementation(&w, c->peer->server, /* has_title= */ true);
        json_end_object(&w);
        json_end_object(&w);
        json_end_object(&w);
        if (json_writer_finish(&w) >= 0)
                mcp_exchange_reply(c->exchange, b.data, b.n_bytes, 200);
        else
                mcp_call_fail_without_memory(c);

        /* Two pages of the specification want two different ends; on a pipe both can be given, in this order
         * (the other one makes clients report an unknown id). */
        if (c->peer->kind == MCP_PEER_PIPE) {
                mcp_notification_begin(&notification, "notifications/cancelled");
                json_key(&notification, "requestId");
                json_raw(&notification, c->id, c->id_bytes);
                (void) mcp_notification_end(&notification, c->exchange);
        }
        mcp_call_end(c);
}
