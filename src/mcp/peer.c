/* SPDX-License-Identifier: MIT */

/* Peers, and the way of a message: parse, tell its era, hand it to that era's method table. */

#include "mcp/peer.h"

#include <errno.h>

#include "mcp/internal.h"
#include "mcp/tasks.h"

#define BATCH_MESSAGES_MAX 100 /* as the reference implementation has it */
/* With more replies than this nothing more of a batch is begun. */
#define BATCH_BEGUN_BYTES_MAX (512 * KIB)

int mcp_server_new(const McpServerParameters *p, McpServer **ret) {
        McpServer *s;

        assert(p);
        assert(p->name);
        assert(p->version);
        assert(p->tools);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->p = *p;
        *ret = s;
        return 0;
}

McpServer* mcp_server_free(McpServer *s) {
        if (!s)
                return NULL;
        assert(s->n_peers == 0);
        free(s);
        return NULL;
}

int mcp_peer_new(McpServer *s, McpPeerKind kind, const char *principal, McpPeer **ret) {
        McpPeer *p;

        assert(s);
        assert(principal);
        assert(ret);

        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->principal = strdup(principal);
        if (!p->principal) {
                free(p);
                return -ENOMEM;
        }
        p->server = s;
        p->kind = kind;
        s->n_peers++;
        *ret = p;
        return 0;
}

McpPeer* mcp_peer_free(McpPeer *p) {
        if (!p)
                return NULL;
        p->is_closing = true;
        while (p->calls)
                mcp_call_cancel(p->calls);
        p->server->n_peers--;
        free(p->principal);
        free(p->client_name);
        free(p->client_version);
        free(p);
        return NULL;
}

void mcp_peer_resume(McpPeer *p, McpVersion version) {
        assert(p);
        assert(version >= 0 && !mcp_version_is_modern(version));

        p->is_negotiated = true;
        p->version = version;
}

void mcp_peer_drain(McpPeer *p) {
        assert(p);

        for (McpCall *c = p->calls, *next; c; c = next) {
                next = c->next;
                if (c->is_subscription)
                        mcp_subscription_end(c);
        }
}

size_t mcp_peer_n_in_flight(const McpPeer *p) {
        assert(p);
        return p->n_calls;
}

const McpMethod* mcp_method_find(const McpMethod *table, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (streq(table[i].name, name))
                        return table + i;
        return NULL;
}

/* A whole modern envelope turns even initialize into a modern request (which has no such method); anything
 * less leaves it the handshake that it has always been. */
static bool has_complete_envelope(const McpMessage *m) {
        const JsonValue *capabilities = json_member(m->meta, MCP_META_CAPABILITIES);
        const char *version;

        return json_get_string(json_member(m->meta, MCP_META_VERSION), &version, NULL) &&
               mcp_version_text_is_modern(version) && capabilities && json_type(capabilities) == JSON_OBJECT;
}

static bool is_modern(const McpMessage *m, const McpHttpHeaders *headers) {
        if (m->kind == MCP_MESSAGE_REQUEST && streq(m->method, "initialize"))
                return has_complete_envelope(m);
        if (json_member(m->meta, MCP_META_VERSION))
                return true;
        return headers && headers->protocol_version && mcp_version_text_is_modern(headers->protocol_version);
}

static int route_request(McpRequest *q) {
        const McpMessage *m = q->message;

        /* Two answers under one id could not be told apart. HTTP pairs answers by connection instead, and
         * several clients may share one of its peers. */
        if (q->peer->kind == MCP_PEER_PIPE && mcp_peer_find_call(q->peer, m->id, m->id_bytes, NULL))
                return mcp_request_error(q, MCP_ERROR_INVALID_REQUEST, 400,
                                         "a request with this id is still running");
        return is_modern(q->message, q->headers) ? mcp_modern_request(q) : mcp_legacy_request(q);
}

/* Each request of a batch may ask for a large answer, and nobody else is served between them. */
static int refuse_rest_of_batch(const McpRequest *q) {
        return mcp_request_error(q, MCP_ERROR_UNAVAILABLE, 200,
                                 "not begun, because the replies to what stands before it in the batch are "
                                 "large already; send it again, in a batch of its own or in none");
}

/* One message that is not a batch. Whatever happens, a request is answered or pending afterwards. */
static void handle_message(McpExchange *x, const char *text, size_t n_bytes, const McpHttpHeaders *headers) {
        _cleanup_message_ McpMessage m = {};
        McpRequest q = { .peer = x->peer, .exchange = x, .message = &m, .headers = headers };
        int r;

        r = mcp_message_parse(text, n_bytes, &m);
        if (r < 0)
                return mcp_exchange_no_memory(x, m.id, m.id_bytes);

        switch (m.kind) {
        case MCP_MESSAGE_INVALID:
                mcp_exchange_error(x, m.id, m.id_bytes, m.error_code, 400, m.error_message, NULL);
                break;
        case MCP_MESSAGE_RESPONSE: /* we ask clients nothing, so this answers nothing */
                break;
        case MCP_MESSAGE_NOTIFICATION:
                (void) (is_modern(&m, headers) ? mcp_modern_notification(&q) : mcp_legacy_notification(&q));
                break;
        case MCP_MESSAGE_REQUEST:
                r = x->batch.n_bytes > BATCH_BEGUN_BYTES_MAX ? refuse_rest_of_batch(&q) : route_request(&q);
                if (r == -ENOMEM)
                        mcp_exchange_no_memory(x, m.id, m.id_bytes);
                else if (r < 0)
                        mcp_exchange_error(x, m.id, m.id_bytes, MCP_ERROR_INTERNAL, 200, "internal error",
                                           NULL);
                break;
        }
}

/* Batches exist in one revision only. */
static bool may_batch(const McpPeer *p, const McpHttpHeaders *headers) {
        if (headers && headers->protocol_version)
                return streq(headers->protocol_version, mcp_version_to_string(MCP_2025_03_26));
        if (p->is_negotiated)
                return p->version == MCP_2025_03_26;
        return p->kind == MCP_PEER_HTTP; /* what a missing header stands for */
}

/* Why the array as a whole is refused, before any of it is acted on; NULL: it is not. */
static const char* check_batch(const McpPeer *p, const char *text, size_t n_bytes,
                               const McpHttpHeaders *headers, int *ret_code) {
        const char *element;
        size_t pos = 0, element_bytes, n = 0;
        int r;

        r = json_check(text, n_bytes);
        *ret_code = r == JSON_E_SYNTAX ? MCP_ERROR_PARSE : MCP_ERROR_INVALID_REQUEST;
        if (r != 0 && r != JSON_E_TEXT)
                return json_error_to_string(r);
        if (!may_batch(p, headers))
                return "batches exist only in protocol version 2025-03-26";
        while (json_raw_next_element(text, n_bytes, &pos, &element, &element_bytes) > 0) {
                const char *params, *meta, *version;
                size_t n_params, n_meta, n_version;

                if (++n > BATCH_MESSAGES_MAX)
                        return "a batch holds at most 100 messages";
                if (json_raw_member(element, element_bytes, "params", &params, &n_params) > 0 &&
                    json_raw_member(params, n_params, "_meta", &meta, &n_meta) > 0 &&
                    json_raw_member(meta, n_meta, MCP_META_VERSION, &version, &n_version) > 0)
                        return "protocol versions from 2026-07-28 on have no batches";
        }
        return n == 0 ? "a batch cannot be empty" : NULL;
}

static void handle_batch(McpExchange *x, const char *text, size_t n_bytes, const McpHttpHeaders *headers) {
        const char *element, *refusal;
        size_t pos = 0, element_bytes;
        int code;

        refusal = check_batch(x->peer, text, n_bytes, headers, &code);
        if (refusal)
                return mcp_exchange_error(x, NULL, 0, code, 400, refusal, NULL);
        x->is_batch = true;
        while (json_raw_next_element(text, n_bytes, &pos, &element, &element_bytes) > 0)
                handle_message(x, element, element_bytes, headers);
}

int mcp_peer_dispatch(McpPeer *p, const char *text, size_t n_bytes, const McpHttpHeaders *headers,
                      McpSink *sink, McpExchange **ret_exchange) {
        McpExchange *x;
        size_t i = 0;

        assert(p);
        assert(text || n_bytes == 0);
        assert(sink);
        assert(ret_exchange);

        x = calloc(1, sizeof(*x));
        if (!x)
                return -ENOMEM;
        *x = (McpExchange) { .peer = p, .sink = sink, .is_dispatching = true };

        while (i < n_bytes && strchr(" \t\r\n", text[i]) && text[i] != '\0')
                i++;
        if (i < n_bytes && text[i] == '[')
                handle_batch(x, text, n_bytes, headers);
        else
                handle_message(x, text, n_bytes, headers);

        x->is_dispatching = false;
        *ret_exchange = x->n_pending > 0 ? x : NULL;
        mcp_exchange_settle(x);
        return 0;
}
