/* SPDX-License-Identifier: MIT */

#include "mcp-fake.h"

#define INITIALIZE(version)                                                                                 \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"          \
        "\"" version "\","                                                                                  \
        "\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"9\"}}}"
#define INITIALIZED(version, title)                                                                         \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"" version "\","                    \
        "\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\"," title                             \
        "\"version\":\"1\"}}}\n[200]\n"

TEST(initialize_echoes_each_version_and_counters_with_the_newest_legacy_one) {
        static const struct {
                const char *asks, *gets;
        } cases[] = {
                { INITIALIZE("2024-11-05"), INITIALIZED("2024-11-05", "") },
                { INITIALIZE("2025-03-26"), INITIALIZED("2025-03-26", "") },
                { INITIALIZE("2025-06-18"), INITIALIZED("2025-06-18", "\"title\":\"S\",") },
                { INITIALIZE("2025-11-25"), INITIALIZED("2025-11-25", "\"title\":\"S\",") },
                { INITIALIZE("2026-07-28"), INITIALIZED("2025-11-25", "\"title\":\"S\",") },
                { INITIALIZE("1999-01-01"), INITIALIZED("2025-11-25", "\"title\":\"S\",") },
                { INITIALIZE(""), INITIALIZED("2025-11-25", "\"title\":\"S\",") },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Fake *f = fake_new(MCP_PEER_PIPE);

                ASSERT_EQ_STR(say(f, cases[i].asks), cases[i].gets);
                fake_free(f);
        }
}

TEST(initialize_with_malformed_params_is_invalid_params) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
                      "\"message\":\"params.protocolVersion must be a string\"}}\n[200]\n");
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
                          "{\"protocolVersion\":\"2025-06-18\",\"clientInfo\":[]}}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
                      "\"message\":\"params.clientInfo must be an object\"}}\n[200]\n");
        fake_free(f);
}

TEST(ping_answers_before_initialize_and_while_a_tool_runs) {
        static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}",
                          pong[] = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n[200]\n";
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(say(f, ping), pong);
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                             "call\",\"params\":{\"name\":\"later\"}}"),
                      "");
        ASSERT_EQ_STR(say(f, ping), pong);
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 1);
        fake_free(f);
}

TEST(ids_come_back_byte_for_byte) {
        static const char *const ids[] = {
                "0",
                "-5",
                "1",
                "9007199254740993",
                "9223372036854775807",
                "-9223372036854775808",
                "123456789012345678901234567890",
                "1.0",
                "\"a\"",
                "\"\"",
                "\"\\u0041\\n\\\"\\/\"",
                "\"\\ud83d\\ude00\"",
                "\"😀\"",
                "\"\\u0000\"",
                "\"\\ud800\"",
        };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                char ask[200], expected[200];

                (void) snprintf(ask, sizeof(ask), "{\"method\":\"ping\", \"id\" :\t%s ,\"jsonrpc\":\"2.0\"}",
                                ids[i]);
                (void) snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%s,", ids[i]);
                ASSERT_CONTAINS(say(f, ask), expected);
        }
        fake_free(f);
}

TEST(an_id_of_another_kind_is_an_invalid_request_without_id) {
        static const char *const ids[] = { "null", "1.5", "1e3", "true", "[]", "{}", "[1]" };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                char ask[200];

                (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}",
                                ids[i]);
                ASSERT_EQ_STR(say(f, ask), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":"
                                           "\"member \\\"id\\\" must be a string or an integer, of at most "
                                           "1024 bytes\"}}\n[400]\n");
        }
        fake_free(f);
}

TEST(an_id_longer_than_1024_bytes_is_refused) {
        Fake *f = fake_new(MCP_PEER_PIPE);
        char ask[1300], id[1100];

        memset(id, 'x', sizeof(id));
        id[1022] = '\0';
        (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
        ASSERT_CONTAINS(say(f, ask), "\"result\":{}");
        id[1022] = 'x';
        id[1023] = '\0';
        (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
        ASSERT_CONTAINS(say(f, ask), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,");
        fake_free(f);
}

TEST(without_id_a_message_is_a_notification_and_gets_nothing) {
        static const char *const silent[] = {
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nobody/knows\",\"params\":{}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"now\"}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":[]}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}", /* responses answer nothing of ours */
                "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"x\"}}",
        };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(silent); i++)
                ASSERT_EQ_STR(say(f, silent[i]), "[202]\n");
        fake_free(f);
}

TEST(what_is_no_request_gets_the_exact_error_under_the_id_that_can_be_read) {
        static const struct {
                const char *text, *answer;
        } cases[] = {
                { "", "\"error\":{\"code\":-32700" },
                { "hello", "\"error\":{\"code\":-32700" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
                  "\"id\":1,\"error\":{\"code\":-32700" },
                { "{\"id\":1,\"params\":{oops},\"method\":\"ping\"}",
                  "\"id\":1,\"error\":{\"code\":-32700" },
                { "{\"params\":{\"id\":9,},\"id\":\"x\"}", "\"id\":\"x\",\"error\":{\"code\":-32700" },
                { "{\"jsonrpc\":\"2.0\",\"id\":12", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
                  "\"id\":1,\"error\":{\"code\":-32700" },
                { "{\"id\":1,\"method\":\"ping\"}", "\"id\":1,\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
                  "\"id\":1,\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", "\"id\":1,\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1}", "\"id\":1,\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "\"id\":1,\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"x\"}",
                  "\"id\":1,\"error\":{\"code\":-32600" },
                { "null", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600" },
                { "\"x\"", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600" },
                { "5", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
                  "\"id\":1,\"error\":{\"code\":-32602" },
                { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"_meta\":5}}",
                  "\"id\":1,\"error\":{\"code\":-32602" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Fake *f = fake_new(MCP_PEER_PIPE);
                const char *answer = say(f, cases[i].text);

                ASSERT_CONTAINS(answer, cases[i].answer);
                ASSERT_CONTAINS(answer, "\n[400]\n");
                fake_free(f);
        }
}

TEST(unknown_method_is_named_and_keeps_http_200) {
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"prompts/list\"}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32601,"
                      "\"message\":\"unknown method \\\"prompts/list\\\"\"}}\n[200]\n");
        ASSERT_CONTAINS(say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"logging/setLevel\"}"), "-32601");
        ASSERT_CONTAINS(say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"server/discover\"}"), "-32601");
        fake_free(f);
}

TEST(tools_list_follows_the_negotiated_version_and_refuses_any_cursor) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, INITIALIZE("2025-03-26"));
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[\"2025-03-26\"]}}\n[200]\n");
        ASSERT_CONTAINS(
                say(f,
                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"\"}}"),
                "\"error\":{\"code\":-32602");
        ASSERT_CONTAINS(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                               "list\",\"params\":{\"cursor\":\"x\"}}"),
                        "\"error\":{\"code\":-32602");
        fake_free(f);
}

TEST(header_decides_the_version_on_http_and_an_unknown_one_is_400) {
        static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_CONTAINS(post(f, NULL, NULL, NULL, list), "[\"2025-03-26\"]");
        ASSERT_CONTAINS(post(f, "2025-11-25", NULL, NULL, list), "[\"2025-11-25\"]");
        (void) post(f, NULL, NULL, NULL, INITIALIZE("2024-11-05"));
        ASSERT_CONTAINS(post(f, NULL, NULL, NULL, list), "[\"2024-11-05\"]");
        ASSERT_CONTAINS(post(f, "2025-11-25", NULL, NULL, list), "[\"2025-11-25\"]"); /* seen in the field */
        ASSERT_EQ_STR(post(f, "1999-01-01", NULL, NULL, list),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":\"header "
                      "MCP-Protocol-Version names \\\"1999-01-01\\\", which is not supported\"}}\n[400]\n");
        ASSERT_CONTAINS(post(f, "1999-01-01", NULL, NULL, INITIALIZE("2025-06-18")),
                        "\"protocolVersion\":\"2025-06-18\"");
        fake_free(f);
}

TEST(tools_call_refuses_what_is_no_call) {
        static const struct {
                const char *params, *answer;
        } cases[] = {
                { "{}", "params.name must be a string" },
                { "{\"name\":5}", "params.name must be a string" },
                { "{\"name\":\"nope\"}", "unknown tool \\\"nope\\\"" },
                { "{\"name\":\"now\",\"arguments\":[]}",
                  "params.arguments must be an object, not an array" },
                { "{\"name\":\"now\",\"arguments\":\"x\"}",
                  "params.arguments must be an object, not a string" },
        };
        Fake *f = fake_new(MCP_PEER_PIPE);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char ask[300], expected[300];

                (void) snprintf(ask, sizeof(ask),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":%s}",
                                cases[i].params);
                (void) snprintf(expected, sizeof(expected),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
                                "\"message\":\"%s\"}}\n[200]\n",
                                cases[i].answer);
                ASSERT_EQ_STR(say(f, ask), expected);
        }
        fake_free(f);
}

TEST(results_have_what_their_version_knows) {
        static const char call[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"now\"}}";
        Fake *f = fake_new(MCP_PEER_HTTP);

        ASSERT_EQ_STR(post(f, "2025-03-26", NULL, NULL, call),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n[200]\n");
        ASSERT_EQ_STR(post(f, "2025-06-18", NULL, NULL, call),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[],\"structuredContent\":{"
                      "\"a\":1}}}\n[200]\n");
        ASSERT_EQ_STR(post(f, "2025-11-25", NULL, NULL,
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                           "call\",\"params\":{\"name\":\"fail\",\"arguments\":null}}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                      "\"did \\\"not\\\" run\"}],\"isError\":true}}\n[200]\n");
        ASSERT_EQ_STR(post(f, "2025-11-25", NULL, NULL,
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                           "call\",\"params\":{\"name\":\"broken\"}}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"internal "
                      "error\"}}\n[200]\n");
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 0);
        fake_free(f);
}

TEST(nul_and_lone_surrogates_in_arguments_are_tool_errors_that_name_the_argument) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(
                say(f,
                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"now\","
                    "\"arguments\":{\"code\":\"x\",\"stdin\":\"a\\u0000b\"}}}"),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                "\"argument "
                "\\\"stdin\\\": a string contains \\\\u0000 or half of a surrogate pair, which cannot be "
                "kept\"}],"
                "\"isError\":true}}\n[200]\n");
        ASSERT_CONTAINS(
                say(f,
                    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"now\","
                    "\"arguments\":{\"code\":\"\\udfff\"}}}"),
                "argument \\\"code\\\": a string contains");
        ASSERT_CONTAINS(
                say(f,
                    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"now\","
                    "\"_meta\":{\"x\":\"\\u0000\"}}}"),
                "the call: a string contains");
        ASSERT_EQ_STR(
                say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"x\":\"\\ud800\"}}"),
                "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32602,\"message\":\"a string contains "
                "\\\\u0000 or "
                "half of a surrogate pair, which cannot be kept\"}}\n[200]\n");
        fake_free(f);
}

TEST(long_hostile_names_are_quoted_short_and_on_one_line) {
        Fake *f = fake_new(MCP_PEER_PIPE);
        char ask[4000], name[3000];
        const char *answer;

        memset(name, 'm', sizeof(name));
        name[0] = '\\'; /* "\n" */
        name[1] = 'n';
        name[sizeof(name) - 1] = '\0';
        (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}", name);
        answer = say(f, ask);
        ASSERT_CONTAINS(answer, "unknown method \\\"?mmm");
        ASSERT_CONTAINS(answer, "…");
        ASSERT_TRUE(strlen(answer) < 300);
        fake_free(f);
}
