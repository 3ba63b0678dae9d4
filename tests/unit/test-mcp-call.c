/* SPDX-License-Identifier: MIT */

/* Calls in flight: cancel, disconnect, progress, output, limits. */

#include "mcp-fake.h"

#define CALL(id, more)                                                                                      \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"later\"" more  \
        "}}"
#define CANCEL(id)                                                                                          \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id         \
        ",\"reason\":\"r\"}}"

TEST(cancel_ends_the_work_and_sends_nothing) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        ASSERT_EQ_STR(say(f, CALL("1", "")), "");
        ASSERT_EQ_STR(say(f, CALL("\"1\"", "")), "");
        ASSERT_EQ_STR(say(f, CANCEL("\"1\"")),
                      "[202]\n[202]\n"); /* the call's exchange, then the notification's */
        ASSERT_TRUE(f->calls[0] != NULL && f->calls[1] == NULL);
        ASSERT_EQ_STR(say(f, CANCEL("\"1\"")), "[202]\n");
        ASSERT_EQ_STR(say(f, CANCEL("2")), "[202]\n");
        ASSERT_EQ_UINT(f->n_cancelled, 1);
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        ASSERT_EQ_STR(heard(f), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n[200]\n");
        ASSERT_EQ_STR(say(f, CANCEL("1")), "[202]\n");
        fake_free(f);
}

TEST(cancel_on_a_pipe_reaches_either_era_from_either_era) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("1", "," MODERN_META));
        (void) say(f, CALL("2", ""));
        ASSERT_EQ_STR(say(f, CANCEL("1")), "[202]\n[202]\n");
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "cancelled\",\"params\":{\"requestId\":2," MODERN_META "}}"),
                      "[202]\n[202]\n");
        ASSERT_EQ_UINT(f->n_cancelled, 2);
        fake_free(f);
}

TEST(legacy_http_cancel_matches_only_when_one_request_fits) {
        Fake *f = fake_new(MCP_PEER_HTTP);

        (void) post(f, "2025-06-18", NULL, NULL, CALL("1", ""));
        (void) post(f, "2025-06-18", NULL, NULL, CALL("1", ""));
        ASSERT_EQ_STR(post(f, "2025-06-18", NULL, NULL, CANCEL("1")), "[202]\n");
        ASSERT_EQ_UINT(f->n_cancelled, 0);
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        (void) heard(f);
        ASSERT_EQ_STR(post(f, "2025-06-18", NULL, NULL, CANCEL("1")), "[202]\n[202]\n");
        ASSERT_EQ_UINT(f->n_cancelled, 1);
        fake_free(f);
}

TEST(an_id_still_running_cannot_be_used_again_on_a_pipe) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("1", ""));
        ASSERT_EQ_STR(say(f, CALL("1", "")),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":"
                      "\"a request with this id is still running\"}}\n[400]\n");
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        (void) heard(f);
        ASSERT_EQ_STR(say(f, CALL("1", "")), "");
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 1);
        fake_free(f);
}

TEST(disconnect_cancels_modern_calls_and_leaves_legacy_ones_running) {
        Fake *f = fake_new(MCP_PEER_HTTP);
        static const char modern[] = CALL("1", "," MODERN_META);

        (void) post(f, "2026-07-28", "tools/call", "later", modern);
        ASSERT_FALSE(mcp_exchange_outlives_client(f->exchange));
        hang_up(f);
        ASSERT_EQ_UINT(f->n_cancelled, 1);
        (void) post(f, "2025-06-18", NULL, NULL, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
        ASSERT_TRUE(mcp_exchange_outlives_client(f->exchange));
        hang_up(f);
        ASSERT_EQ_UINT(f->n_cancelled, 1);
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 1);
        ASSERT_EQ_INT(mcp_call_progress(f->calls[1], 5, "x"), 0);
        mcp_call_finish(f->calls[1], "[]", NULL, false);
        ASSERT_EQ_STR(heard(f), "");
        ASSERT_EQ_UINT(mcp_peer_n_in_flight(f->peer), 0);
        /* Hung up, but it can still be cancelled. */
        (void) post(f, "2025-06-18", NULL, NULL, CALL("7", ""));
        hang_up(f);
        ASSERT_EQ_STR(post(f, "2025-06-18", NULL, NULL, CANCEL("7")), "[202]\n");
        ASSERT_EQ_UINT(f->n_cancelled, 2);
        fake_free(f);
}

TEST(end_of_a_peer_cancels_everything_and_sends_nothing) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("1", ""));
        (void) say(f, CALL("2", "," MODERN_META));
        f->peer = mcp_peer_free(f->peer);
        ASSERT_EQ_UINT(f->n_cancelled, 2);
        ASSERT_EQ_STR(heard(f), "[202]\n[202]\n");
        fake_free(f);
}

TEST(progress_carries_the_token_byte_for_byte_and_always_increases) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("1", ",\"_meta\":{\"progressToken\":9223372036854775807}"));
        ASSERT_TRUE(mcp_exchange_wants_stream(f->exchange));
        ASSERT_TRUE(mcp_call_wants_progress(f->calls[0]));
        ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 1500000, "a \"b\""), 0);
        ASSERT_EQ_STR(
                heard(f),
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                "{\"progressToken\":9223372036854775807,\"progress\":1.500,\"message\":\"a \\\"b\\\"\"}}\n");
        ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 1000000, NULL), 0);
        ASSERT_EQ_STR(heard(f), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                      "{\"progressToken\":9223372036854775807,\"progress\":1.501}}\n");
        ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 0, NULL), 0);
        ASSERT_CONTAINS(heard(f), "\"progress\":1.502}");
        fake_free(f);
}

TEST(progress_without_a_valid_token_is_silent) {
        static const char *const metas[] = { "", ",\"_meta\":{\"progressToken\":null}",
                                             ",\"_meta\":{\"progressToken\":{}}",
                                             ",\"_meta\":{\"progressToken\":1.5}", ",\"_meta\":{}" };

        for (size_t i = 0; i < ELEMENTSOF(metas); i++) {
                Fake *f = fake_new(MCP_PEER_PIPE);
                char ask[300];

                (void) snprintf(ask, sizeof(ask),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
                                "{\"name\":\"later\"%s}}",
                                metas[i]);
                (void) say(f, ask);
                ASSERT_FALSE(mcp_exchange_wants_stream(f->exchange));
                ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 5, "x"), 0);
                ASSERT_EQ_STR(heard(f), "");
                fake_free(f);
        }
}

TEST(progress_message_is_left_out_of_the_first_revision) {
        Fake *f = fake_new(MCP_PEER_HTTP);

        (void) post(f, "2024-11-05", NULL, NULL, CALL("1", ",\"_meta\":{\"progressToken\":\"t\"}"));
        ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 2000000, "x"), 0);
        ASSERT_EQ_STR(heard(f), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                      "{\"progressToken\":\"t\",\"progress\":2.000}}\n");
        fake_free(f);
}

TEST(notes_are_sent_only_to_who_asked_for_the_output) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("\"r\"", ",\"_meta\":{\"mcp-exec/output\":true}"));
        ASSERT_EQ_INT(mcp_call_note(f->calls[0], "less \"time\""), 0);
        ASSERT_EQ_STR(heard(f), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-exec/note\",\"params\":"
                                "{\"requestId\":\"r\",\"message\":\"less \\\"time\\\"\"}}\n");
        (void) say(f, CALL("2", ""));
        ASSERT_EQ_INT(mcp_call_note(f->calls[1], "x"), 0);
        ASSERT_EQ_STR(heard(f), "");
        fake_free(f);
}

TEST(output_is_sent_in_base64_only_to_who_asked) {
        Fake *f = fake_new(MCP_PEER_PIPE);
        char big[50000] = {};
        const char *p;

        (void) say(f, CALL("\"r\"", ",\"_meta\":{\"mcp-exec/output\":true}"));
        ASSERT_TRUE(mcp_exchange_wants_stream(f->exchange));
        ASSERT_EQ_INT(mcp_call_output(f->calls[0], 2, "\xff\0x", 3), 0);
        ASSERT_EQ_STR(heard(f),
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-exec/output\",\"params\":"
                      "{\"requestId\":\"r\",\"stream\":2,\"data\":\"/wB4\"}}\n");
        ASSERT_EQ_INT(mcp_call_output(f->calls[0], 1, big, sizeof(big)), 0);
        p = strchr(heard(f), '\n');
        ASSERT_TRUE(p && strchr(p + 1, '\n') &&
                    !strchr(strchr(p + 1, '\n') + 1, '\n')); /* two notifications */
        (void) say(f, CALL("2", ",\"_meta\":{\"mcp-exec/output\":1}"));
        ASSERT_EQ_INT(mcp_call_output(f->calls[1], 1, "x", 1), 0);
        ASSERT_EQ_STR(heard(f), "");
        fake_free(f);
}

TEST(files_are_sent_in_base64_only_to_who_asked) {
        Fake *f = fake_new(MCP_PEER_PIPE);
        char big[50000] = {};
        const char *p;

        (void) say(f, CALL("\"r\"", ",\"_meta\":{\"mcp-exec/files\":true}"));
        ASSERT_TRUE(mcp_exchange_wants_stream(f->exchange));
        ASSERT_TRUE(mcp_call_wants_files(f->calls[0]));
        ASSERT_FALSE(mcp_call_wants_output(f->calls[0]));
        ASSERT_EQ_INT(mcp_call_file(f->calls[0], "a/b", "\xff\0x", 3), 0);
        ASSERT_EQ_STR(heard(f),
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-exec/file\",\"params\":"
                      "{\"requestId\":\"r\",\"path\":\"a/b\",\"bytes\":3,\"data\":\"/wB4\"}}\n");
        ASSERT_EQ_INT(mcp_call_file(f->calls[0], "e", NULL, 0), 0);
        ASSERT_EQ_STR(heard(f),
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-exec/file\",\"params\":"
                      "{\"requestId\":\"r\",\"path\":\"e\",\"bytes\":0,\"data\":\"\"}}\n");
        ASSERT_EQ_INT(mcp_call_file(f->calls[0], "big", big, sizeof(big)), 0);
        p = strchr(heard(f), '\n');
        ASSERT_TRUE(p && strchr(p + 1, '\n') && !strchr(strchr(p + 1, '\n') + 1, '\n')); /* two pieces */
        (void) say(f, CALL("2", ",\"_meta\":{\"mcp-exec/output\":true}"));
        ASSERT_EQ_INT(mcp_call_file(f->calls[1], "a", "x", 1), 0);
        ASSERT_EQ_STR(heard(f), "");
        fake_free(f);
}

TEST(a_sink_that_fails_does_not_stop_the_call) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, CALL("1", ",\"_meta\":{\"progressToken\":1}"));
        f->send_result = -EPIPE;
        ASSERT_EQ_INT(mcp_call_progress(f->calls[0], 5, "x"), -EPIPE);
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        ASSERT_CONTAINS(heard(f), "[200]\n");
        fake_free(f);
}

TEST(who_calls_comes_from_the_handshake_or_from_the_request_itself) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                      "\"protocolVersion\":\"2025-06-18\","
                      "\"capabilities\":{},\"clientInfo\":{\"name\":\"old\",\"version\":\"1\"}}}");
        (void) say(f, CALL("1", ",\"_meta\":{\"traceparent\":\"00-aa-bb-01\"}"));
        (void) say(f, CALL("2", ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                           "\"io.modelcontextprotocol/clientCapabilities\":{},"
                           "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"new\",\"version\":\"2\"}}"));
        (void) say(f, CALL("3", "," MODERN_META));
        ASSERT_EQ_STR(mcp_call_principal(f->calls[0]), "uid:1");
        ASSERT_EQ_STR(mcp_call_client_name(f->calls[0]), "old");
        ASSERT_EQ_STR(mcp_call_client_version(f->calls[0]), "1");
        ASSERT_EQ_STR(mcp_call_traceparent(f->calls[0]), "00-aa-bb-01");
        ASSERT_EQ_INT(mcp_call_version(f->calls[0]), MCP_2025_06_18);
        ASSERT_EQ_STR(mcp_call_client_name(f->calls[1]), "new");
        ASSERT_EQ_STR(mcp_call_client_version(f->calls[1]), "2");
        ASSERT_EQ_STR(mcp_call_traceparent(f->calls[1]), NULL);
        ASSERT_EQ_STR(mcp_call_client_name(f->calls[2]), NULL); /* nothing of the pipe's past */
        fake_free(f);
}

TEST(requests_in_flight_are_bounded_and_ping_answers_all_the_same) {
        Fake *f = fake_new(MCP_PEER_PIPE);
        char ask[200];

        for (int i = 0; i < MCP_IN_FLIGHT_MAX; i++) {
                (void) snprintf(ask, sizeof(ask), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\","
                                "\"params\":{\"name\":\"later\"}}", i);
                ASSERT_EQ_STR(say(f, ask), "");
        }
        ASSERT_EQ_STR(say(f, CALL("\"more\"", "")),
                      "{\"jsonrpc\":\"2.0\",\"id\":\"more\",\"error\":{\"code\":-31001,"
                      "\"message\":\"1024 requests are running already; wait for one to end\"}}\n[429]\n");
        ASSERT_EQ_STR(say(f, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}"),
                      "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n[200]\n");
        fake_free(f);
}

/* ---- Batches: revision 2025-03-26 only ---- */

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"

static Fake* batch_peer(void) {
        Fake *f = fake_new(MCP_PEER_PIPE);

        (void) say(f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                      "\"protocolVersion\":\"2025-03-26\"}}");
        return f;
}

TEST(batch_is_answered_in_one_array_once_all_is_done) {
        Fake *f = batch_peer();

        ASSERT_EQ_STR(
                say(f,
                    " [" PING("1") ",{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}," CALL(
                            "2", "") ",5," PING("3") "]"),
                "");
        mcp_call_finish(f->calls[0], "[]", NULL, false);
        ASSERT_EQ_STR(heard(f), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},"
                                "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"a message "
                                "must be a JSON object\"}},"
                                "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}},"
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[]}}]\n[200]\n");
        fake_free(f);
}

TEST(batch_of_notifications_gets_nothing) {
        Fake *f = batch_peer();

        ASSERT_EQ_STR(say(f, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                             "initialized\"},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]"),
                      "[202]\n");
        fake_free(f);
}

TEST(batch_rules_are_enforced) {
        static const struct {
                const char *text, *answer;
        } cases[] = {
                { "[]", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"a batch cannot be "
                        "empty\"}}\n[400]\n" },
                { "[" PING("1"), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"not valid "
                                 "JSON in UTF-8\"}}\n[400]\n" },
                { "[" PING("1") ",{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/"
                                "list\",\"params\":{" MODERN_META "}}]",
                  "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"protocol versions from "
                  "2026-07-28 on have no batches\"}}\n[400]\n" },
                { "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                  "\"2025-03-26\"}}]",
                  "[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":\"initialize "
                  "cannot be part of a batch\"}}]\n[200]\n" },
                { "[[]]", "[{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"a message must be "
                          "a JSON object\"}}]\n[200]\n" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Fake *f = batch_peer();

                ASSERT_EQ_STR(say(f, cases[i].text), cases[i].answer);
                fake_free(f);
        }
}

TEST(batch_elsewhere_is_an_invalid_request) {
        static const char *const refusal =
                "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":"
                "\"batches exist only in protocol version 2025-03-26\"}}\n[400]\n";
        Fake *pipe_peer = fake_new(MCP_PEER_PIPE), *http = fake_new(MCP_PEER_HTTP);

        ASSERT_EQ_STR(say(pipe_peer, "[" PING("1") "]"), refusal);
        ASSERT_EQ_STR(post(http, "2025-06-18", NULL, NULL, "[" PING("1") "]"), refusal);
        ASSERT_EQ_STR(post(http, "2025-03-26", NULL, NULL, "[" PING("1") "]"),
                      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]\n[200]\n");
        ASSERT_EQ_STR(post(http, NULL, NULL, NULL, "[" PING("1") "]"),
                      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]\n[200]\n");
        fake_free(pipe_peer);
        fake_free(http);
}

TEST(batch_of_more_than_a_hundred_is_refused_whole) {
        Fake *f = batch_peer();
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        for (int i = 0; i < 101; i++)
                ASSERT_EQ_INT(buffer_printf(&b, "%s{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}",
                                            i ? "," : "[", i),
                              0);
        ASSERT_EQ_INT(buffer_append_str(&b, "]"), 0);
        ASSERT_CONTAINS(say(f, b.data), "a batch holds at most 100 messages");
        fake_free(f);
}

TEST(batch_reply_too_large_is_replaced_under_its_id) {
        Fake *f = batch_peer();
        char *big = malloc(5 * MIB + 3);

        ASSERT_TRUE(big != NULL);
        big[0] = '"';
        memset(big + 1, 'x', 5 * MIB);
        memcpy(big + 1 + 5 * MIB, "\"", 2);
        ASSERT_EQ_STR(say(f, "[" CALL("1", "") "," CALL("2", "") "]"), "");
        mcp_call_finish(f->calls[0], big, NULL, false);
        mcp_call_finish(f->calls[1], big, NULL, false);
        ASSERT_CONTAINS(heard(f) + 5 * MIB, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-31001,");
        free(big);
        fake_free(f);
}

#define NOT_BEGUN(id)                                                                                       \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":-31001,\"message\":\"not begun, "           \
        "because the replies to what stands before it in the batch are large already; send it again, "      \
        "in a batch of its own or in none\"}}"

/* A hundred large answers in one turn of the event loop would keep everybody else waiting. */
TEST(batch_with_large_replies_is_not_begun_any_further) {
        Fake *f = batch_peer();
        static const char large[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                                    "\"name\":\"large\",\"arguments\":{}}}";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        const char *answer;

        ASSERT_EQ_INT(buffer_printf(&b, "[" PING("0") ",%s,%s,%s," CALL("2", "") "]", large, large, large),
                      0);
        answer = say(f, b.data);
        ASSERT_CONTAINS(answer, "[{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}},{");
        answer = strstr(answer, "},{\"jsonrpc\":\"2.0\",\"id\":1,\"error\"");
        ASSERT_EQ_STR(answer, "}," NOT_BEGUN("1") "," NOT_BEGUN("2") "]\n[200]\n");
        ASSERT_EQ_INT(f->n_calls, 0);
        fake_free(f);
}

TEST(error_reply_of_a_transport_finds_the_id) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), c = BUFFER_INIT(0);
        static const char text[] = "{\"id\":\"é\",\"jsonrpc\":\"2.0\",bro";

        ASSERT_EQ_INT(mcp_error_reply(text, strlen(text), MCP_ERROR_REFUSED, "no", &b), 0);
        ASSERT_EQ_STR(b.data,
                      "{\"jsonrpc\":\"2.0\",\"id\":\"é\",\"error\":{\"code\":-31000,\"message\":\"no\"}}");
        ASSERT_EQ_INT(mcp_error_reply(NULL, 0, MCP_ERROR_REFUSED, "no", &c), 0);
        ASSERT_EQ_STR(c.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,\"message\":\"no\"}}");
}
