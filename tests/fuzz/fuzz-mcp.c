/* SPDX-License-Identifier: MIT */

/* Lines of any bytes to the protocol engine, over a pipe or as HTTP bodies (first byte). Whatever comes,
 * each message's sink is finished exactly once, each reply is one line of JSON, and every request that can
 * be read is answered. */

#include "fuzz.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "mcp/message.h"

#define CALLS_MAX 64

typedef struct World {
        size_t n_open, n_replies;
        McpTaskWatch *watches[CALLS_MAX]; /* of the task that runs */
        size_t n_watches;
        McpCall *calls[CALLS_MAX]; /* waiting ones */
        size_t n_calls;
} World;

typedef struct FuzzSink {
        McpSink sink;
        World *world;
} FuzzSink;

static int on_send(McpSink *s, const char *json, size_t n_bytes, bool is_notification) {
        int verdict = json_check(json, n_bytes);

        FUZZ_CHECK(!memchr(json, '\n', n_bytes));
        FUZZ_CHECK(verdict == 0 || verdict == JSON_E_TEXT); /* an id comes back exactly as it was sent */
        if (!is_notification)
                ((FuzzSink*) s)->world->n_replies++;
        return 0;
}

static void on_finish(McpSink *s, const McpOutcome *outcome) {
        FUZZ_CHECK(outcome->http_status >= 200 && outcome->http_status < 600);
        ((FuzzSink*) s)->world->n_open--;
        free(s);
}

static int list_tools(void *userdata, McpVersion version, JsonWriter *w) {
        (void) userdata;
        (void) version;
        json_begin_array(w);
        json_end_array(w);
        return 0;
}

static bool tool_exists(void *userdata, const char *name) {
        (void) userdata;
        return streq(name, "now") || streq(name, "later");
}

static int call_tool(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        World *world = userdata;

        FUZZ_CHECK(json_type(arguments) == JSON_OBJECT);
        if (streq(name, "later") && world->n_calls < CALLS_MAX) {
                world->calls[world->n_calls] = call;
                mcp_call_set_data(call, &world->calls[world->n_calls++]);
        } else
                mcp_call_finish(call, "[]", "{}", /* is_error= */ false);
        return 0;
}

static void cancel_tool(void *userdata, void *tool_data) {
        (void) userdata;
        *(McpCall**) tool_data = NULL;
}

/* One task that runs, "on", and one that is over, "over". */
static int get_task(void *userdata, const char *principal, const char *id, McpTask *ret) {
        (void) userdata;
        FUZZ_CHECK(streq(principal, "uid:1"));
        if (!streq(id, "on") && !streq(id, "over"))
                return MCP_TASK_E_UNKNOWN;
        *ret = (McpTask) { .status = streq(id, "on") ? MCP_TASK_WORKING : MCP_TASK_COMPLETED };
        (void) memcpy(ret->id, id, strlen(id) + 1);
        return buffer_append_str(&ret->content, "[]");
}

static int cancel_task(void *userdata, const char *principal, const char *id) {
        (void) userdata;
        (void) principal;
        return streq(id, "on") ? 0 : MCP_TASK_E_UNKNOWN;
}

static int watch_task(void *userdata, const char *principal, const char *id, McpTaskWatch *w,
                      void **ret_handle) {
        World *world = userdata;

        (void) principal;
        if (!streq(id, "on") && !streq(id, "over"))
                return MCP_TASK_E_UNKNOWN;
        *ret_handle = streq(id, "on") ? w : NULL;
        if (!*ret_handle)
                return 0;
        if (world->n_watches >= CALLS_MAX)
                return -ENOMEM;
        world->watches[world->n_watches++] = w;
        return 0;
}

static void unwatch_task(void *userdata, void *handle) {
        World *world = userdata;

        for (size_t i = 0; i < world->n_watches; i++)
                if (world->watches[i] == handle) {
                        world->watches[i] = world->watches[--world->n_watches];
                        return;
                }
        FUZZ_CHECK(false);
}

static void say(World *world, McpPeer *peer, McpPeerKind kind, const char *text, size_t n_bytes) {
        static const McpSinkOps ops = { on_send, on_finish };
        const McpHttpHeaders headers = { .protocol_version = "2025-11-25" };
        McpExchange *exchange = NULL;
        FuzzSink *s = malloc(sizeof(*s));

        FUZZ_CHECK(s);
        *s = (FuzzSink) { .sink.ops = &ops, .world = world };
        world->n_open++;
        FUZZ_CHECK(mcp_peer_dispatch(peer, text, n_bytes, kind == MCP_PEER_HTTP ? &headers : NULL, &s->sink,
                                     &exchange) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        static const McpToolOps ops = {
                .list = list_tools, .exists = tool_exists, .call = call_tool, .cancel = cancel_tool,
        };
        McpPeerKind kind = fuzz_byte(&data, &n_bytes) & 1 ? MCP_PEER_HTTP : MCP_PEER_PIPE;
        World world = {};
        static const McpTaskOps tasks = { get_task, cancel_task, watch_task, unwatch_task };
        McpServerParameters p = { "fuzz", "Fuzz", "1", NULL, &ops, &world, &tasks };
        _cleanup_(mcp_server_freep) McpServer *server = NULL;
        McpPeer *peer = NULL;

        FUZZ_CHECK(mcp_server_new(&p, &server) == 0);
        FUZZ_CHECK(mcp_peer_new(server, kind, "uid:1", &peer) == 0);
        while (n_bytes > 0) {
                const uint8_t *newline = memchr(data, '\n', n_bytes);
                size_t n = newline ? (size_t) (newline - data) : n_bytes;
                size_t n_replies = world.n_replies, n_open = world.n_open;

                say(&world, peer, kind, (const char*) data, n);
                /* Answered at once, or waiting for its tool; only what asks nothing is met with silence. */
                if (world.n_open == n_open && world.n_replies == n_replies) {
                        _cleanup_message_ McpMessage m = {};

                        FUZZ_CHECK(mcp_message_parse((const char*) data, n, &m) == 0);
                        FUZZ_CHECK(m.kind != MCP_MESSAGE_REQUEST);
                }
                data += n + (newline != NULL);
                n_bytes -= n + (newline != NULL);
        }
        for (size_t i = 0; i < world.n_watches; i++)
                mcp_task_watch_notify(world.watches[i]);
        for (size_t i = 0; i < world.n_calls; i += 2)
                if (world.calls[i])
                        mcp_call_finish(world.calls[i], "[]", "{}", /* is_error= */ false);
        mcp_peer_free(peer);
        FUZZ_CHECK(world.n_open == 0);
        FUZZ_CHECK(world.n_watches == 0);
        return 0;
}
