/* SPDX-License-Identifier: MIT */
#pragma once

/* A peer with five fake tools and sinks that write down everything, for the tests of the protocol engine.
 *
 * The transcript has one line for each message, and "[status]" where an exchange finished. Tools: "now"
 * answers at once, "later" when the test says so, "fail" with a tool error, "broken" returns -EIO, "asks"
 * needs a client that samples. The argument "tag" of "now" is repeated in Mcp-Param-Tag. */

#include "mcp/mcp.h"
#include "test.h"

#define FAKE_CALLS_MAX 2048

typedef struct Fake {
        McpServer *server;
        McpPeer *peer;
        McpExchange *exchange; /* of the last message; NULL when it is finished */
        Buffer out;
        Buffer last;
        McpCall *calls[FAKE_CALLS_MAX];
        size_t n_calls, n_cancelled, n_open_sinks;
        int send_result;
        McpSink *last_sink;
} Fake;

typedef struct FakeSink {
        McpSink sink;
        Fake *fake;
} FakeSink;

static int fake_send(McpSink *s, const char *json, size_t n_bytes, bool is_notification) {
        Fake *f = ((FakeSink*) s)->fake;

        ASSERT_TRUE(memchr(json, '\n', n_bytes) == NULL);
        ASSERT_EQ_INT(json_check(json, n_bytes) == JSON_E_TEXT ? 0 : json_check(json, n_bytes), 0);
        ASSERT_EQ_INT(is_notification, memmem(json, n_bytes, "\"method\":", 9) != NULL);
        ASSERT_EQ_INT(buffer_append(&f->out, json, n_bytes), 0);
        ASSERT_EQ_INT(buffer_append_str(&f->out, "\n"), 0);
        return f->send_result;
}

static void fake_finish(McpSink *s, const McpOutcome *outcome) {
        Fake *f = ((FakeSink*) s)->fake;

        ASSERT_EQ_INT(buffer_printf(&f->out, "[%u]\n", outcome->http_status), 0);
        f->n_open_sinks--;
        free(s);
}

static int fake_list(void *userdata, McpVersion version, JsonWriter *w) {
        (void) userdata;
        json_begin_array(w);
        json_string(w, mcp_version_to_string(version));
        json_end_array(w);
        return 0;
}

static bool fake_exists(void *userdata, const char *name) {
        (void) userdata;
        return streq(name, "now") || streq(name, "later") || streq(name, "fail") ||
                streq(name, "broken") || streq(name, "asks") || streq(name, "large");
}

static const char* fake_required_capability(void *userdata, const char *name) {
        (void) userdata;
        return streq(name, "asks") ? "sampling" : NULL;
}

static const char* fake_routing_header(void *userdata, const char *name, const char **ret_argument) {
        (void) userdata;
        *ret_argument = "tag";
        return streq(name, "now") ? "Tag" : NULL;
}

static int fake_call(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        Fake *f = userdata;

        ASSERT_EQ_INT(json_type(arguments), JSON_OBJECT);
        if (streq(name, "broken"))
                return -EIO;
        if (streq(name, "large")) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                ASSERT_EQ_INT(buffer_printf(&b, "[\"%0*d\"]", 300 * 1024, 0), 0);
                mcp_call_finish(call, b.data, NULL, /* is_error= */ false);
        } else if (streq(name, "fail"))
                mcp_call_fail(call, "did \"not\" run");
        else if (streq(name, "now") || streq(name, "asks"))
                mcp_call_finish(call, "[]", "{\"a\":1}", /* is_error= */ false);
        else {
                ASSERT_TRUE(f->n_calls < FAKE_CALLS_MAX);
                mcp_call_set_data(call, &f->calls[f->n_calls]);
                f->calls[f->n_calls++] = call;
        }
        return 0;
}

static void fake_cancel(void *userdata, void *tool_data) {
        Fake *f = userdata;
        McpCall **c = tool_data;

        ASSERT_TRUE(c >= f->calls && c < f->calls + f->n_calls && *c);
        *c = NULL;
        f->n_cancelled++;
}

__attribute__((__unused__)) static Fake* fake_new(McpPeerKind kind) {
        static const McpToolOps ops = {
                .list = fake_list,
                .exists = fake_exists,
                .call = fake_call,
                .cancel = fake_cancel,
                .required_capability = fake_required_capability,
                .routing_header = fake_routing_header,
        };
        Fake *f = calloc(1, sizeof(*f));
        McpServerParameters p = { "s", "S", "1", NULL, &ops, f };

        ASSERT_TRUE(f != NULL);
        ASSERT_EQ_INT(mcp_server_new(&p, &f->server), 0);
        ASSERT_EQ_INT(mcp_peer_new(f->server, kind, "uid:1", &f->peer), 0);
        return f;
}

__attribute__((__unused__)) static void fake_free(Fake *f) {
        mcp_peer_free(f->peer);
        mcp_server_free(f->server);
        ASSERT_EQ_UINT(f->n_open_sinks, 0);
        buffer_done(&f->out);
        buffer_done(&f->last);
        free(f);
}

/* What was written since the last look. */
__attribute__((__unused__)) static const char* heard(Fake *f) {
        buffer_done(&f->last);
        f->last = f->out;
        f->out = BUFFER_INIT(0);
        return f->last.data ? f->last.data : "";
}

__attribute__((__unused__)) static const char* say_bytes(Fake *f, const char *text, size_t n_bytes,
                                                         const McpHttpHeaders *headers) {
        static const McpSinkOps ops = { fake_send, fake_finish };
        FakeSink *s = malloc(sizeof(*s));

        ASSERT_TRUE(s != NULL);
        *s = (FakeSink) { .sink.ops = &ops, .fake = f };
        f->n_open_sinks++;
        f->last_sink = &s->sink;
        ASSERT_EQ_INT(mcp_peer_dispatch(f->peer, text, n_bytes, headers, &s->sink, &f->exchange), 0);
        return heard(f);
}

__attribute__((__unused__)) static const char* say(Fake *f, const char *text) {
        return say_bytes(f, text, strlen(text), NULL);
}

__attribute__((__unused__)) static const char* post(Fake *f, const char *version, const char *method,
                                                    const char *name, const char *text) {
        McpHttpHeaders h = { .protocol_version = version, .method = method, .name = name };

        return say_bytes(f, text, strlen(text), &h);
}

/* What a disconnect leaves: the sink belongs to the transport again. */
__attribute__((__unused__)) static void hang_up(Fake *f) {
        mcp_exchange_disconnect(f->exchange);
        f->exchange = NULL;
        f->n_open_sinks--;
        free(f->last_sink);
}

#define MODERN_META                                                                     \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","        \
        "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define SERVER_META                                                                                         \
        "\"_meta\":{\"io.modelcontextprotocol/"                                                             \
        "serverInfo\":{\"name\":\"s\",\"title\":\"S\",\"version\":\"1\"}}"
