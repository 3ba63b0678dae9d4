/* SPDX-License-Identifier: MIT */

#include "mcp-fake.h"

#define REQUEST(method, params)                                                                             \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define ERROR_IS(code) "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":" #code ","

TEST(discover_is_complete) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(
                say(f, REQUEST("server/discover", MODERN_META)),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\","
                "\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"ttlMs\":300000,"
                "\"cacheScope\":\"private\"," SERVER_META "}}\n[200]\n");
        fake_free(f);
}

TEST(list_has_hints_and_is_the_same_each_time) {
        static const char expected[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\",\"tools\":[\"2026-07-"
                "28\"],"
                "\"ttlMs\":300000,\"cacheScope\":\"private\"," SERVER_META "}}\n[200]\n";
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(say(f, REQUEST("tools/list", MODERN_META)), expected);
        ASSERT_EQ_STR(say(f, REQUEST("tools/list", MODERN_META)), expected);
        ASSERT_CONTAINS(say(f, REQUEST("tools/list", "\"cursor\":\"\"," MODERN_META)), ERROR_IS(-32602));
        fake_free(f);
}

TEST(call_results_have_type_and_server_info) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(say(f, REQUEST("tools/call", "\"name\":\"now\"," MODERN_META)),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\",\"content\":[],"
                      "\"structuredContent\":{\"a\":1}," SERVER_META "}}\n[200]\n");
        ASSERT_EQ_STR(say(f, REQUEST("tools/call", "\"name\":\"fail\"," MODERN_META)),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\",\"content\":[{"
                      "\"type\":\"text\","
                      "\"text\":\"did \\\"not\\\" run\"}],\"isError\":true," SERVER_META "}}\n[200]\n");
        ASSERT_CONTAINS(say(f, REQUEST("tools/call", "\"name\":\"nope\"," MODERN_META)), ERROR_IS(-32602));
        fake_free(f);
}

TEST(removed_methods_are_unknown_with_404) {
        static const char *const methods[] = { "ping", "initialize", "logging/setLevel",
                                               "resources/subscribe", "x" };
        Fake *f = fake_new(MCP_PEER_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(methods); i++) {
                char ask[400];

                (void) snprintf(ask, sizeof(ask),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}",
                                methods[i], MODERN_META);
                ASSERT_CONTAINS(post(f, "2026-07-28", methods[i], NULL, ask), ERROR_IS(-32601));
                ASSERT_CONTAINS(f->last.data, "\n[404]\n");
        }
        fake_free(f);
}

TEST(missing_or_malformed_meta_is_named_with_400) {
        static const struct {
                const char *meta, *message;
        } cases[] = {
                { "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}",
                  "missing or malformed in params._meta: io.modelcontextprotocol/clientCapabilities (an "
                  "object)" },
                { "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                  "\"io.modelcontextprotocol/clientCapabilities\":[]}",
                  "missing or malformed in params._meta: io.modelcontextprotocol/clientCapabilities (an "
                  "object)" },
                { "{\"io.modelcontextprotocol/protocolVersion\":7,\"io.modelcontextprotocol/"
                  "clientCapabilities\":{}}",
                  "missing or malformed in params._meta: io.modelcontextprotocol/protocolVersion (a "
                  "string)" },
                { "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                  "\"io.modelcontextprotocol/clientCapabilities\":{},\"io.modelcontextprotocol/"
                  "clientInfo\":3}",
                  "malformed in params._meta: io.modelcontextprotocol/clientInfo (an object)" },
        };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char ask[400], expected[400];

                (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\","
                                "\"params\":{\"_meta\":%s}}", cases[i].meta);
                (void) snprintf(expected, sizeof(expected), ERROR_IS(-32602) "\"message\":\"%s\"}}\n[400]\n",
                                cases[i].message);
                ASSERT_EQ_STR(say(f, ask), expected);
        }
        fake_free(f);
}

TEST(modern_header_without_meta_lists_both_keys) {
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_EQ_STR(
                post(f, "2026-07-28", "tools/list", NULL,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
                ERROR_IS(-32602) "\"message\":\"missing or malformed in params._meta: "
                                 "io.modelcontextprotocol/protocolVersion (a string), "
                                 "io.modelcontextprotocol/clientCapabilities (an object)\"}}\n[400]\n");
        /* The handshake stays what it is, whatever the header says. */
        ASSERT_CONTAINS(post(f, "2026-07-28", NULL, NULL,
                             REQUEST("initialize", "\"protocolVersion\":\"2026-07-28\"")),
                        "\"protocolVersion\":\"2025-11-25\"");
        fake_free(f);
}

TEST(unsupported_version_says_what_is_supported) {
        static const char *const versions[] = { "2025-11-25", "2027-01-01", "x", "" };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(versions); i++) {
                char ask[400], expected[400];

                (void) snprintf(
                        ask, sizeof(ask),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":"
                        "{\"io.modelcontextprotocol/protocolVersion\":\"%s\","
                        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                        versions[i]);
                (void) snprintf(expected, sizeof(expected),
                                ERROR_IS(-32022) "\"message\":\"unsupported protocol version\","
                                                 "\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"%"
                                                 "s\"}}}\n[400]\n",
                                versions[i]);
                ASSERT_EQ_STR(say(f, ask), expected);
        }
        fake_free(f);
}

TEST(headers_are_checked_in_the_order_of_the_specification) {
        static const char unknown[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":"
                "{\"io.modelcontextprotocol/protocolVersion\":\"2027-01-01\","
                "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
        static const char call[] = REQUEST("tools/call", "\"name\":\"now\"," MODERN_META);
        static const struct {
                const char *version, *method, *name, *text, *answer, *status;
        } cases[] = {
                { NULL, "tools/call", "now", call,
                  ERROR_IS(-32020) "\"message\":\"header MCP-Protocol-Version is missing\"", "[400]" },
                { "2027-01-02", NULL, NULL, unknown, ERROR_IS(-32020), "[400]" },
                { "2027-01-01", NULL, NULL, unknown, ERROR_IS(-32022), "[400]" },
                { "2025-11-25", "tools/call", "now", call,
                  ERROR_IS(-32020) "\"message\":\"header MCP-Protocol-Version is "
                                   "\\\"2025-11-25\\\", but the message says \\\"2026-07-28\\\"\"",
                  "[400]" },
                { "2026-07-28", NULL, "now", call,
                  ERROR_IS(-32020) "\"message\":\"header Mcp-Method is missing\"", "[400]" },
                { "2026-07-28", "tools/list", "now", call, ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "Tools/Call", "now", call, ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "tools/call", NULL, call,
                  ERROR_IS(-32020) "\"message\":\"header Mcp-Name is missing\"", "[400]" },
                { "2026-07-28", "tools/call", "later", call, ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "tools/call", "=?base64?bm93?=", call, "\"structuredContent\":{\"a\":1}",
                  "[200]" },
                { " 2026-07-28\t", " tools/call ", "now ", call, "\"structuredContent\":{\"a\":1}",
                  "[200]" },
                { "2026-07-28", "tools/call", "=?base64?bm93", call, ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "tools/call", "=?base64?b?93?=", call,
                  ERROR_IS(-32020) "\"message\":\"header Mcp-Name is not valid base64", "[400]" },
                { "2026-07-28", "tools/call", "=?BASE64?bm93?=", call, ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "resources/read", NULL,
                  REQUEST("resources/read", "\"uri\":\"a\"," MODERN_META), ERROR_IS(-32020), "[400]" },
                { "2026-07-28", "resources/read", "a",
                  REQUEST("resources/read", "\"uri\":\"a\"," MODERN_META), ERROR_IS(-32601), "[404]" },
                { "2026-07-28", "tools/call", NULL, REQUEST("tools/call", MODERN_META),
                  ERROR_IS(-32602) "\"message\":\"params.name", "[200]" },
        };
        Fake *f = fake_new(MCP_PEER_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *answer =
                        post(f, cases[i].version, cases[i].method, cases[i].name, cases[i].text);

                ASSERT_CONTAINS(answer, cases[i].answer);
                ASSERT_CONTAINS(answer, cases[i].status);
        }
        fake_free(f);
}

TEST(a_header_sent_twice_is_a_mismatch) {
        static const char call[] = REQUEST("tools/list", MODERN_META);
        McpHttpHeaders h = { "2026-07-28", "tools/list", NULL, .is_duplicate = true };
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_CONTAINS(say_bytes(f, call, strlen(call), &h), ERROR_IS(-32020));
        fake_free(f);
}

static const char* find_tag(void *userdata, const char *name, unsigned *ret_n) {
        char *const *values = userdata;

        ASSERT_EQ_STR(name, "Mcp-Param-Tag");
        for (*ret_n = 0; values[*ret_n]; (*ret_n)++)
                ;
        return values[0];
}

TEST(a_header_that_repeats_an_argument_must_equal_it) {
        static const struct {
                const char *arguments, *values[3], *answer, *status;
        } cases[] = {
                { "\"tag\":\"a\"", { "a" }, "\"structuredContent\":{\"a\":1}", "[200]" },
                { "\"tag\":\"a\"", { "=?base64?YQ==?=" }, "\"structuredContent\":{\"a\":1}", "[200]" },
                { "\"tag\":\"a\"", { "=?base64?YQ?=" }, ERROR_IS(-32020), "[400]" },
                { "\"tag\":\"a\"", { "b" }, ERROR_IS(-32020), "[400]" },
                { "\"tag\":\"a\"", {}, ERROR_IS(-32020) "\"message\":\"header Mcp-Param-Tag is missing\"",
                  "[400]" },
                { "\"tag\":\"a\"", { "a", "a" }, ERROR_IS(-32020), "[400]" },
                { "\"tag\":null", { "a" }, ERROR_IS(-32020), "[400]" },
                { "", { "" }, ERROR_IS(-32020), "[400]" },
                { "", {}, "\"structuredContent\":{\"a\":1}", "[200]" },
                { "\"tag\":1", {}, "\"structuredContent\":{\"a\":1}", "[200]" }, /* the tool's affair */
        };
        Fake *f = fake_new(MCP_PEER_HTTP);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                McpHttpHeaders h = { "2026-07-28", "tools/call", "now", .find = find_tag,
                                     .userdata = (void*) cases[i].values };
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                const char *answer;

                ASSERT_EQ_INT(buffer_printf(&b, REQUEST("tools/call", "\"name\":\"now\",\"arguments\":{%s},"
                                                        MODERN_META), cases[i].arguments), 0);
                answer = say_bytes(f, b.data, b.n_bytes, &h);
                ASSERT_CONTAINS(answer, cases[i].answer);
                ASSERT_CONTAINS(answer, cases[i].status);
        }
        fake_free(f);
}

TEST(a_capability_that_is_not_declared_is_not_used) {
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_CONTAINS(post(f, "2026-07-28", "tools/call", "asks",
                             REQUEST("tools/call", "\"name\":\"asks\"," MODERN_META)),
                        "\"data\":{\"requiredCapabilities\":{\"sampling\":{}}}}}\n[400]\n");
        ASSERT_CONTAINS(post(f, "2026-07-28", "tools/call", "asks",
                             REQUEST("tools/call",
                                     "\"name\":\"asks\",\"_meta\":"
                                     "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                                     "\"io.modelcontextprotocol/clientCapabilities\":"
                                     "{\"sampling\":{}}}")),
                        "\"structuredContent\":{\"a\":1}");
        fake_free(f);
}

TEST(unknown_log_level_is_invalid_params) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_CONTAINS(
                say(f, REQUEST("tools/list",
                               "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                               "\"io.modelcontextprotocol/clientCapabilities\":{},"
                               "\"io.modelcontextprotocol/logLevel\":\"loud\"}")),
                ERROR_IS(-32602));
        ASSERT_CONTAINS(
                say(f, REQUEST("tools/list",
                               "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                               "\"io.modelcontextprotocol/clientCapabilities\":{},"
                               "\"io.modelcontextprotocol/logLevel\":\"debug\"}")),
                "\"result\"");
        fake_free(f);
}

TEST(initialize_with_less_than_a_complete_envelope_is_the_handshake) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_CONTAINS(say(f, REQUEST("initialize", "\"protocolVersion\":\"2025-06-18\",\"_meta\":"
                                       "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}")),
                        "\"protocolVersion\":\"2025-06-18\"");
        ASSERT_CONTAINS(say(f, REQUEST("initialize", "\"protocolVersion\":\"2025-06-18\",\"_meta\":"
                                       "{\"io.modelcontextprotocol/protocolVersion\":\"2025-06-18\","
                                       "\"io.modelcontextprotocol/clientCapabilities\":{}}")),
                        "\"protocolVersion\":\"2025-06-18\"");
        ASSERT_CONTAINS(say(f, REQUEST("initialize", "\"protocolVersion\":\"2025-06-18\"," MODERN_META)),
                        ERROR_IS(-32601));
        fake_free(f);
}

TEST(eras_interleave_on_one_pipe_without_touching_each_other) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_CONTAINS(say(f, REQUEST("server/discover", MODERN_META)), "supportedVersions");
        ASSERT_CONTAINS(say(f, REQUEST("initialize", "\"protocolVersion\":\"2024-11-05\"")),
                        "\"protocolVersion\":\"2024-11-05\"");
        ASSERT_CONTAINS(say(f, REQUEST("tools/call", "\"name\":\"now\"," MODERN_META)),
                        "\"resultType\":\"complete\"");
        ASSERT_EQ_STR(say(f, REQUEST("tools/call", "\"name\":\"now\"")),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n[200]\n");
        ASSERT_CONTAINS(say(f, REQUEST("tools/list", "")), "[\"2024-11-05\"]");
        ASSERT_CONTAINS(say(f, REQUEST("tools/list", MODERN_META)), "[\"2026-07-28\"]");
        ASSERT_CONTAINS(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"), "\"result\":{}");
        fake_free(f);
}

TEST(subscription_acknowledges_first_and_ends_with_its_result) {
        Fake *f = fake_new(MCP_PEER_PIPE), *h = fake_new(MCP_PEER_HTTP);
        static const char listen_request[] =
                "{\"jsonrpc\":\"2.0\",\"id\":\"listen:0\",\"method\":\"subscriptions/listen\","
                "\"params\":{\"notifications\":{\"toolsListChanged\":true}," MODERN_META "}}";
        static const char ack[] =
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":"
                "{\"_meta\":{\"io.modelcontextprotocol/"
                "subscriptionId\":\"listen:0\"},\"notifications\":{}}}\n";
#define LISTEN_RESULT                                                                                       \
        "{\"jsonrpc\":\"2.0\",\"id\":\"listen:0\",\"result\":{\"resultType\":\"complete\",\"_meta\":"       \
        "{\"io.modelcontextprotocol/subscriptionId\":\"listen:0\","                                         \
        "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"s\",\"title\":\"S\",\"version\":\"1\"}}}}\n"

        ASSERT_EQ_STR(say(f, listen_request), ack);
        ASSERT_TRUE(mcp_exchange_wants_stream(f->exchange));
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 1);
        mcp_peer_drain(f->peer);
        ASSERT_EQ_STR(heard(f),
                      LISTEN_RESULT "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                                    "{\"requestId\":\"listen:0\"}}\n[200]\n");
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 0);

        ASSERT_EQ_STR(post(h, "2026-07-28", "subscriptions/listen", NULL, listen_request), ack);
        mcp_peer_drain(h->peer);
        ASSERT_EQ_STR(heard(h), LISTEN_RESULT "[200]\n");

        ASSERT_EQ_STR(say(f, listen_request), ack);
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "cancelled\",\"params\":{\"requestId\":\"listen:0\"}}"),
                      "[202]\n[202]\n");
        ASSERT_CONTAINS(say(f, REQUEST("subscriptions/listen", MODERN_META)), ERROR_IS(-32602));
        fake_free(f);
        fake_free(h);
}

TEST(notifications_are_202_and_modern_http_cancel_is_ignored) {
        static const char cancel[] =
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}",
                          cancel_with_meta[] =
                                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                                  "{\"requestId\":1," MODERN_META "}}";
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_EQ_STR(post(f, "2026-07-28", "tools/call", "later",
                           REQUEST("tools/call", "\"name\":\"later\"," MODERN_META)),
                      "");
        ASSERT_EQ_STR(post(f, "2026-07-28", NULL, NULL, cancel), "[202]\n");
        ASSERT_EQ_STR(post(f, "2026-07-28", NULL, NULL, cancel_with_meta), "[202]\n");
        ASSERT_EQ_STR(post(f, NULL, NULL, NULL, cancel_with_meta), "[202]\n");
        ASSERT_EQ_STR(post(f, NULL, NULL, NULL, cancel), "[202]\n"); /* nor does a legacy one reach it */
        ASSERT_EQ_UINT(f->n_cancelled, 0);
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        ASSERT_CONTAINS(heard(f), "\"content\":[]");
        fake_free(f);
}
