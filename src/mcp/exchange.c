/* SPDX-License-Identifier: MIT */

/* Exchanges: one dispatched message, its sink, and the replies it is still owed. */

#include <errno.h>

#include "mcp/internal.h"

/* Clients read at most 10 MiB in one piece. */
#define BATCH_REPLY_BYTES_MAX (8 * MIB)

/* A batch is answered in one array, so its replies are collected. One that does not fit any more is replaced
 * by an error under the same id: a reply too large for the client would lose all the others with it. */
static int append_to_batch(McpExchange *x, const char *json, size_t n_bytes) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r = 0;

        if (x->batch.n_bytes + n_bytes > BATCH_REPLY_BYTES_MAX) {
                r = mcp_error_reply(json, n_bytes, MCP_ERROR_UNAVAILABLE,
                                    "the replies to this batch are larger than 8 MiB together; "
                                    "send fewer requests in one batch", &b);
                json = b.data;
                n_bytes = b.n_bytes;
        }
        if (r >= 0)
                r = buffer_append_str(&x->batch, x->batch.n_bytes == 0 ? "[" : ",");
        return r < 0 ? r : buffer_append(&x->batch, json, n_bytes);
}

void mcp_exchange_reply(McpExchange *x, const char *json, size_t n_bytes, unsigned http_status) {
        if (!x || x->peer->is_closing)
                return;
        if (x->is_batch) {
                if (append_to_batch(x, json, n_bytes) < 0)
                        x->has_lost = true;
                x->http_status = 200;
                return;
        }
        x->http_status = http_status;
        /* A failure is the transport's to handle: it closes, later. */
        (void) x->sink->ops->send(x->sink, json, n_bytes, /* is_notification= */ false);
}

int mcp_exchange_notify(McpExchange *x, const char *json, size_t n_bytes) {
        if (!x || x->peer->is_closing)
                return 0;
        return x->sink->ops->send(x->sink, json, n_bytes, /* is_notification= */ true);
}

void mcp_exchange_settle(McpExchange *x) {
        McpOutcome outcome;

        assert(x);

        if (x->is_dispatching || x->n_pending > 0)
                return;
        if (x->batch.n_bytes > 0 && !x->has_lost && buffer_append_str(&x->batch, "]") < 0)
                x->has_lost = true;
        if (x->has_lost) {
                /* Some of the answers without the others would leave those waiting for ever. */
                x->is_batch = false;
                mcp_exchange_no_memory(x, NULL, 0);
        } else if (x->batch.n_bytes > 0 && !x->peer->is_closing)
                (void) x->sink->ops->send(x->sink, x->batch.data, x->batch.n_bytes, false);
        /* Nothing was sent: only notifications, or every request was cancelled. */
        outcome.http_status = x->http_status != 0 ? x->http_status : 202;
        x->sink->ops->finish(x->sink, &outcome);
        buffer_done(&x->batch);
        free(x);
}

static bool outlives_client(const McpCall *c) {
        return !mcp_version_is_modern(c->version) && c->peer->kind != MCP_PEER_PIPE;
}

bool mcp_exchange_outlives_client(const McpExchange *x) {
        assert(x);

        for (const McpCall *c = x->peer->calls; c; c = c->next)
                if (c->exchange == x && !outlives_client(c))
                        return false;
        return true;
}

void mcp_exchange_disconnect(McpExchange *x) {
        assert(x);
        assert(!x->is_dispatching);
        assert(x->n_pending > 0);

        for (McpCall *c = x->peer->calls, *next; c; c = next) {
                next = c->next;
                if (c->exchange != x)
                        continue;
                c->exchange = NULL;
                if (!outlives_client(c))
                        mcp_call_cancel(c);
        }
        buffer_done(&x->batch);
        free(x);
}

bool mcp_exchange_wants_stream(const McpExchange *x) {
        assert(x);

        for (const McpCall *c = x->peer->calls; c; c = c->next)
                if (c->exchange == x &&
                    (c->progress_token || c->wants_output || c->wants_files || c->is_subscription))
                        return true;
        return false;
}
