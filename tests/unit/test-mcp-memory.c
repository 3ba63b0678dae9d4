/* SPDX-License-Identifier: MIT */

/* Each allocation of the protocol engine fails once, in each kind of request: it must be answered all the
 * same, under its id, or refused with the sink untouched. Linked with --wrap for the allocators. */

#include "mcp/mcp.h"
#include "failing-allocations.h"
#include "test.h"

static char transcript[16384];
static size_t n_transcript;
static unsigned n_finished;
static McpCall *waiting;

static int on_send(McpSink *s, const char *json, size_t n_bytes, bool is_notification) {
        (void) s;
        (void) is_notification;
        ASSERT_TRUE(n_transcript + n_bytes < sizeof(transcript));
        memcpy(transcript + n_transcript, json, n_bytes);
        n_transcript += n_bytes;
        transcript[n_transcript] = '\0';
        return 0;
}

static void on_finish(McpSink *s, const McpOutcome *outcome) {
        (void) s;
        (void) outcome;
        n_finished++;
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
        return streq(name, "now") || streq(name, "later") || streq(name, "fail");
}

static int call_tool(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        (void) userdata;
        (void) arguments;
        if (streq(name, "now"))
                mcp_call_finish(call, "[]", "{}", /* is_error= */ false);
        else if (streq(name, "fail"))
                mcp_call_fail(call, "x");
        else
                waiting = call;
        return 0;
}

static void cancel_tool(void *userdata, void *tool_data) {
        (void) userdata;
        (void) tool_data;
        waiting = NULL;
}

static int get_task(void *userdata, const char *principal, const char *id, McpTask *ret) {
        _cleanup_task_ McpTask t = { .status = MCP_TASK_COMPLETED };
        int r;

        (void) userdata;
        (void) principal;
        r = buffer_append_str(&t.content, "[]");
        if (r < 0)
                return r;
        (void) snprintf(t.id, sizeof(t.id), "%s", id);
        *ret = t;
        t = (McpTask) {};
        return 0;
}

static int cancel_task(void *userdata, const char *principal, const char *id) {
        (void) userdata;
        (void) principal;
        (void) id;
        return 0;
}

static unsigned n_watches;

static int watch_task(void *userdata, const char *principal, const char *id, McpTaskWatch *w,
                      void **ret_handle) {
        (void) userdata;
        (void) principal;
        if (streq(id, "unknown"))
                return MCP_TASK_E_UNKNOWN;
        *ret_handle = streq(id, "over") ? NULL : w;
        n_watches += *ret_handle != NULL;
        return 0;
}

static void unwatch_task(void *userdata, void *handle) {
        (void) userdata;
        (void) handle;
        n_watches--;
}

/* A batch may be answered by one error for all of it, and is by both answers otherwise. */
static bool is_answered_at_all(McpPeerKind kind) {
        if (kind != MCP_PEER_HTTP)
                return false;
        if (transcript[0] == '[')
                return strstr(transcript, "\"id\":7") && strstr(transcript, "\"id\":8");
        return streq(transcript, MCP_NO_MEMORY_REPLY);
}

/* Returns whether there was an allocation left to fail. */
static bool fails_well(McpPeerKind kind, const char *text, unsigned n) {
        static const McpToolOps tools = {
                .list = list_tools, .exists = tool_exists, .call = call_tool, .cancel = cancel_tool,
        };
        static const McpSinkOps ops = { on_send, on_finish };
        static const McpTaskOps tasks = { get_task, cancel_task, watch_task, unwatch_task };
        McpServerParameters p = { "s", "S", "1", "i", &tools, NULL, &tasks };
        McpExchange *exchange = NULL;
        McpSink sink = { &ops };
        McpServer *server;
        McpPeer *peer;
        int r;

        ASSERT_EQ_INT(mcp_server_new(&p, &server), 0);
        ASSERT_EQ_INT(mcp_peer_new(server, kind, "uid:1", &peer), 0);
        transcript[n_transcript = 0] = '\0';
        n_finished = 0;
        waiting = NULL;
        has_failed = false;

        failing_allocation = n;
        r = mcp_peer_dispatch(peer, text, strlen(text), /* headers= */ NULL, &sink, &exchange);
        if (waiting) {
                (void) mcp_call_progress(waiting, 5, "m");
                mcp_call_finish(TAKE_PTR(waiting), "[]", "{}", /* is_error= */ false);
        }
        if (r >= 0)
                mcp_peer_drain(peer);
        failing_allocation = 0;

        if (r < 0) {
                ASSERT_EQ_INT(r, -ENOMEM);
                ASSERT_EQ_UINT(n_transcript + n_finished, 0);
        } else {
                ASSERT_EQ_UINT(n_finished, 1);
                if (kind == MCP_PEER_HTTP)
                        ASSERT_EQ_INT(json_check(transcript, n_transcript), 0);
                if (!strstr(transcript, "\"id\":7,\"error\"") && !is_answered_at_all(kind))
                        ASSERT_CONTAINS(transcript, "\"id\":7,\"result\"");
        }
        mcp_peer_free(peer);
        mcp_server_free(server);
        ASSERT_EQ_UINT(n_watches, 0);
        return has_failed;
}

#define CALL(params) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{" params "}}"
#define PING_7 "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"
#define CALL_8(params) "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{" params "}}"
#define META \
        "\"_meta\":{\"progressToken\":1,\"traceparent\":\"t\",\"io.modelcontextprotocol/protocolVersion\":" \
        "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}," \
        "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"a\",\"version\":\"b\"}}"

#define TASK_META                                                                                      \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                        \
        "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                             \
        "\"io.modelcontextprotocol/tasks\":{}}}}"
#define ASK(method, params) \
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":{" params "," TASK_META "}}"

TEST(every_request_is_answered_whichever_allocation_fails) {
        static const char *const requests[] = {
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                "\"2025-03-26\",\"clientInfo\":{\"name\":\"n\",\"version\":\"v\"}}}",
                PING_7,
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"nope\"}",
                CALL("\"name\":\"now\"," META),
                CALL("\"name\":\"fail\""),
                CALL("\"name\":\"now\",\"arguments\":{\"a\":\"\\u0000\"}"),
                CALL("\"name\":\"later\"," META),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"server/discover\",\"params\":{" META "}}",
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"subscriptions/listen\",\"params\":"
                "{\"notifications\":{}," META "}}",
                ASK("subscriptions/listen", "\"notifications\":{\"taskIds\":[\"a\",\"unknown\",\"over\"]}"),
                ASK("tasks/get", "\"taskId\":\"a\""),
                ASK("tasks/update", "\"taskId\":\"a\",\"inputResponses\":{}"),
                ASK("tasks/cancel", "\"taskId\":\"a\""),
                "{\"a\":oops,\"id\":7,}",
        };

        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                unsigned n = 1;

                while (fails_well(MCP_PEER_PIPE, requests[i], n))
                        n++;
                ASSERT_TRUE(n >= 3);
        }
}

TEST(batch_is_answered_whole_or_refused_whole) {
        unsigned n = 1;

        while (fails_well(MCP_PEER_HTTP, "[" PING_7 "," CALL_8("\"name\":\"later\"") "]", n))
                n++;
        ASSERT_TRUE(n >= 9);
}
