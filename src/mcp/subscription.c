/* SPDX-License-Identifier: MIT */

/* subscriptions/listen: acknowledged at once, silent while it lasts, ended by its client or by our stop. */

#include <errno.h>

#include "mcp/internal.h"

int mcp_subscription_new(const McpRequest *q) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        McpCall *c;
        int r;

        r = mcp_call_new(q, &c);
        if (r < 0)
                return r;
        c->is_subscription = true;

        /* Nothing here ever changes while a client watches, so the accepted subset is empty. */
        mcp_notification_begin(&w, "notifications/subscriptions/acknowledged");
        json_key(&w, "_meta");
        json_begin_object(&w);
        json_key(&w, MCP_META_SUBSCRIPTION_ID);
        json_raw(&w, c->id, c->id_bytes);
        json_end_object(&w);
        json_key(&w, "notifications");
        json_begin_object(&w);
        json_end_object(&w);
        r = mcp_notification_end(&w, c->exchange);
        if (r == -ENOMEM) {
                mcp_call_end(c);
                return r;
        }
        return 0; /* any other failure is the sink's, which closes later */
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
