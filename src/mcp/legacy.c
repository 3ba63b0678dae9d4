/* SPDX-License-Identifier: MIT */

/* The handshake era: 2024-11-05 to 2025-11-25. */

#include <errno.h>

#include "base/strv.h"
#include "mcp/internal.h"

static int remember_client(McpPeer *p, McpVersion version, const JsonValue *client) {
        const char *name = NULL, *client_version = NULL;
        int r;

        (void) json_get_string(json_member(client, "name"), &name, NULL);
        (void) json_get_string(json_member(client, "version"), &client_version, NULL);
        r = str_copy(&p->client_name, name);
        if (r < 0)
                return r;
        r = str_copy(&p->client_version, client_version);
        if (r < 0)
                return r;
        p->version = version;
        p->is_negotiated = true;
        return 0;
}

static int initialize(const McpRequest *q) {
        const McpServerParameters *p = &q->peer->server->p;
        const JsonValue *params = q->message->params, *capabilities, *client;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        const char *requested;
        McpVersion version;
        int r;

        if (q->exchange->is_batch)
                return mcp_request_error(q, MCP_ERROR_INVALID_REQUEST, 400,
                                         "initialize cannot be part of a batch");
        capabilities = json_member(params, "capabilities");
        client = json_member(params, "clientInfo");
        if (!json_get_string(json_member(params, "protocolVersion"), &requested, NULL))
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.protocolVersion must be a string");
        if (capabilities && json_type(capabilities) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.capabilities must be an object");
        if (client && json_type(client) != JSON_OBJECT)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200,
                                         "params.clientInfo must be an object");

        /* An offer we cannot take is answered with our newest one; never with a modern revision, which has
         * no handshake. */
        version = mcp_version_from_string(requested);
        if (version < 0 || mcp_version_is_modern(version))
                version = MCP_VERSION_NEWEST_LEGACY;
        r = remember_client(q->peer, version, client);
        if (r < 0)
                return r;

        mcp_result_begin(&w, q->message->id, q->message->id_bytes, version);
        json_key(&w, "protocolVersion");
        json_string(&w, mcp_version_to_string(version));
        json_key(&w, "capabilities");
        json_begin_object(&w);
        json_key(&w, "tools");
        json_begin_object(&w);
        json_end_object(&w);
        json_end_object(&w);
        json_key(&w, "serverInfo");
        mcp_write_implementation(&w, q->peer->server, /* has_title= */ version >= MCP_2025_06_18);
        if (p->instructions) {
                json_key(&w, "instructions");
                json_string(&w, p->instructions);
        }
        mcp_result_end(&w, q->peer->server, version);
        return mcp_request_reply(q, &w);
}

static int ping(const McpRequest *q) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);

        mcp_result_begin(&w, q->message->id, q->message->id_bytes, q->version);
        mcp_result_end(&w, q->peer->server, q->version);
        return mcp_request_reply(q, &w);
}

/* The work ends and nothing is sent. Unknown and finished ids are normal: answer and cancel may cross. */
static int cancelled(const McpRequest *q) {
        McpCall *c = NULL, *match = NULL;
        const char *id;
        size_t id_bytes;

        if (!mcp_message_request_id(q->message, &id, &id_bytes))
                return 0;
        while ((c = mcp_peer_find_call(q->peer, id, id_bytes, c))) {
                /* Modern HTTP is cancelled by closing the stream, and only so: all clients use the same
                 * ids. */
                if (q->peer->kind == MCP_PEER_HTTP && mcp_version_is_modern(c->version))
                        continue;
                if (match)
                        return 0; /* two clients share this HTTP peer: better none than the wrong one */
                match = c;
        }
        if (match)
                mcp_call_cancel(match);
        return 0;
}

static const McpMethod requests[] = {
        { "initialize", initialize },
        { "ping", ping },
        { "tools/list", mcp_tools_list },
        { "tools/call", mcp_tools_call },
};

static const McpMethod notifications[] = {
        { "notifications/cancelled", cancelled },
};

/* The revision this message is to be treated by. On HTTP the header says it; clients have been seen to send
 * a revision other than the negotiated one, so any that we know will do. */
static int resolve_version(McpRequest *q) {
        const char *text = q->headers ? q->headers->protocol_version : NULL;
        McpVersion version;

        if (text) {
                version = mcp_version_from_string(text);
                if (version < 0)
                        return -EPROTONOSUPPORT;
                q->version = version;
        } else if (q->peer->is_negotiated)
                q->version = q->peer->version;
        else
                q->version = q->peer->kind == MCP_PEER_HTTP ? MCP_2025_03_26 : MCP_VERSION_NEWEST_LEGACY;
        return 0;
}

static int refuse_version(const McpRequest *q) {
        char quoted[MCP_QUOTE_BYTES];

        return mcp_request_error(q, MCP_ERROR_INVALID_REQUEST, 400,
                                 "header MCP-Protocol-Version names \"%s\", which is not supported",
                                 mcp_quote(q->headers->protocol_version, quoted));
}

int mcp_legacy_request(McpRequest *q) {
        char quoted[MCP_QUOTE_BYTES];
        const McpMethod *m;

        m = mcp_method_find(requests, ELEMENTSOF(requests), q->message->method);
        if ((!m || m->handle != initialize) && resolve_version(q) < 0)
                return refuse_version(q);
        if (!m)
                return mcp_request_error(q, MCP_ERROR_METHOD_NOT_FOUND, 200, "unknown method \"%s\"",
                                         mcp_quote(q->message->method, quoted));
        if (q->message->has_unfit_text && m->handle != mcp_tools_call)
                return mcp_request_error(q, MCP_ERROR_INVALID_PARAMS, 200, "%s",
                                         json_error_to_string(JSON_E_TEXT));
        return m->handle(q);
}

int mcp_legacy_notification(McpRequest *q) {
        const McpMethod *m;

        if (resolve_version(q) < 0)
                return refuse_version(q);
        m = mcp_method_find(notifications, ELEMENTSOF(notifications), q->message->method);
        return m ? m->handle(q) : 0;
}
