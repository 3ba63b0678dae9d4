/* SPDX-License-Identifier: MIT */

/* Runs that outlive their call: get_run, cancel_run, and the tasks extension over the same table. */

#include "tool-fixture.h"

#define ID "{\"run_id\":\"" RUN_ID "\"}"
#define HELLO                                                                                               \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"                              \
        "\"protocolVersion\":\"2025-06-18\"}}"
#define STRUCTURED "\"structuredContent\":{"
#define UNKNOWN                                                                                             \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"               \
        "\"There is no run with this run_id, or it is not yours, or its result has expired "                \
        "(results are kept for 600 s).\"}],\"isError\":true}}\n[200]\n"
#define TASK_META                                                                                           \
        ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                           \
        "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"                                  \
        "\"io.modelcontextprotocol/tasks\":{}}}}"

/* What structuredContent says, without what stands around it. */
static const char* structured(const char *answer) {
        const char *s = strstr(answer, STRUCTURED);

        return s ? s + strlen(STRUCTURED) - 1 : answer;
}

static Setup* setup_running(const char *arguments) {
        Setup *s = setup_new(NULL);

        (void) say(s->f, HELLO);
        (void) call_tool(s, "exec", arguments, "");
        s->engine.job.elapsed_usec = 1500000;
        return s;
}

static void print(Setup *s, int stream, const char *text) {
        ExecJob *j = &s->engine.job;

        ASSERT_EQ_INT(capture_push(stream == 1 ? &j->out : &j->err, text, strlen(text)), 0);
        j->handlers.on_output(j, stream, text, strlen(text), j->userdata);
}

TEST(a_call_is_answered_at_the_sync_limit_and_its_program_runs_on) {
        Setup *s = setup_running("{\"code\":\"1\"}");
        ExecResult r;

        print(s, 1, "so far\n");
        expire(50);
        ASSERT_EQ_STR(
                structured(heard(s->f)),
                "{\"stdout\":\"so far\\n\",\"stderr\":\"\",\"exit_code\":-1,\"duration_ms\":1500,"
                "\"truncated\":false,\"timed_out\":false,\"status\":\"running\",\"message\":\"The program "
                "is still running. get_run with this run_id waits for its end (wait_s, at most 45) and "
                "shows what it printed since; cancel_run ends it.\",\"run_id\":\"" RUN_ID "\","
                "\"stdout_bytes\":7,\"stderr_bytes\":0,\"usage\":{}}}}\n[200]\n");
        ASSERT_TRUE(!s->engine.job.is_cancelled);

        print(s, 1, "more\n");
        r = result_of(&s->engine.job);
        ASSERT_EQ_STR(finish(s, &r), "");
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"stdout\":\"so far\\nmore\\n\"");
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"ok\"");
        setup_free(s);
}

TEST(a_running_program_that_gets_less_time_than_was_asked_for_is_told_so) {
        static const char told[] = "cancel_run ends it. Its time limit is 300 s, the longest there is, and "
                                   "not the 900 s that were asked for.\",\"run_id\"";
        Setup *s = setup_running("{\"code\":\"1\",\"timeout_s\":900}");

        expire(50);
        ASSERT_CONTAINS(structured(heard(s->f)), told);
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")), told);
        setup_free(s);

        s = setup_running("{\"code\":\"1\",\"timeout_s\":300}");
        expire(50);
        ASSERT_CONTAINS(structured(heard(s->f)), "cancel_run ends it.\",\"run_id\"");
        setup_free(s);
}

TEST(sync_limit_of_zero_and_progress_keep_the_call_waiting) {
        Setup *s = setup_new(NULL);

        s->settings->sync_limit_usec = 0;
        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", ""), "");
        ASSERT_TRUE(timer_of(50) == NULL);
        setup_free(s);

        s = setup_new(NULL);
        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", ",\"_meta\":{\"progressToken\":1}"), "");
        ASSERT_TRUE(timer_of(50) == NULL);
        setup_free(s);

        s = setup_new(NULL);
        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", ",\"_meta\":{\"mcp-exec/output\":true}"), "");
        ASSERT_TRUE(timer_of(50) == NULL);
        setup_free(s);
}

TEST(background_is_answered_at_once_and_outlives_its_connection) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        (void) say(s->f, HELLO);
        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", ""),
                        "\"status\":\"running\",\"message\":\"The program waits for its turn to start.");
        mcp_peer_free(s->f->peer);
        ASSERT_EQ_INT(mcp_peer_new(s->f->server, MCP_PEER_PIPE, "uid:1", &s->f->peer), 0);
        (void) say(s->f, HELLO);
        ASSERT_TRUE(!s->engine.job.is_cancelled);
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"running\"");
        r = result_of(&s->engine.job);
        (void) finish(s, &r);
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"ok\"");
        setup_free(s);
}

TEST(a_client_that_gives_up_before_the_limit_ends_its_program) {
        Setup *s = setup_running("{\"code\":\"1\"}");

        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        ASSERT_TRUE(s->engine.job.is_cancelled);
        ASSERT_TRUE(timer_of(50) == NULL);
        ASSERT_EQ_STR(call_tool(s, "get_run", ID, ""), UNKNOWN);
        setup_free(s);
}

TEST(get_run_waits_for_the_end_but_no_longer_than_45_seconds) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        ExecResult r;

        ASSERT_EQ_STR(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"wait_s\":900}", ""), "");
        expire(45);
        ASSERT_CONTAINS(heard(s->f), "\"status\":\"running\"");
        ASSERT_EQ_STR(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"wait_s\":7}", ""), "");
        ASSERT_TRUE(timer_of(7) != NULL);
        print(s, 1, "4\n");
        r = result_of(&s->engine.job);
        ASSERT_CONTAINS(finish(s, &r), "\"stdout\":\"4\\n\"");
        ASSERT_TRUE(timer_of(7) == NULL);
        setup_free(s);
}

TEST(a_client_that_gives_up_get_run_leaves_the_program_alone) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");

        ASSERT_EQ_STR(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"wait_s\":7}", ""), "");
        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        ASSERT_TRUE(!s->engine.job.is_cancelled && !s->engine.job.is_stopped);
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"running\"");
        setup_free(s);
}

TEST(looks_show_what_is_new_since_the_last_one) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");

        print(s, 1, "one\n");
        print(s, 2, "warning\n");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")),
                        "{\"stdout\":\"one\\n\",\"stderr\":\"warning\\n\",");
        print(s, 1, "two\n");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")),
                        "{\"stdout\":\"two\\n\",\"stderr\":\"\",");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")), "{\"stdout\":\"\",\"stderr\":\"\",");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"offset\":2}", "")),
                        "{\"stdout\":\"e\\ntwo\\n\",\"stderr\":\"rning\\n\",");
        setup_free(s);
}

TEST(looks_do_not_cut_a_character_of_which_only_the_begin_was_written) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");

        print(s, 1, "A\xe2");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")), "{\"stdout\":\"A\",");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")), "{\"stdout\":\"\",");
        print(s, 1, "\x82\xac" "B\xf0\x9f\x98");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")), "{\"stdout\":\"\xe2\x82\xac" "B\",");
        print(s, 1, "\x80\n");
        ASSERT_CONTAINS(structured(call_tool(s, "get_run", ID, "")),
                        "{\"stdout\":\"\xf0\x9f\x98\x80\\n\",");
        setup_free(s);
}

TEST(foreign_and_unknown_and_expired_ids_get_one_answer) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        McpPeer *mine = s->f->peer;
        ExecResult r;

        ASSERT_EQ_INT(mcp_peer_new(s->f->server, MCP_PEER_PIPE, "uid:2", &s->f->peer), 0);
        ASSERT_EQ_STR(call_tool(s, "get_run", ID, ""), UNKNOWN);
        ASSERT_EQ_STR(call_tool(s, "cancel_run", ID, ""), UNKNOWN);
        ASSERT_TRUE(!s->engine.job.is_stopped);
        r = result_of(&s->engine.job);
        (void) finish(s, &r);
        ASSERT_EQ_STR(call_tool(s, "get_run", ID, ""), UNKNOWN);
        mcp_peer_free(s->f->peer);

        s->f->peer = mine;
        ASSERT_EQ_STR(call_tool(s, "get_run", "{\"run_id\":\"nope\"}", ""), UNKNOWN);
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"ok\"");
        ASSERT_EQ_UINT(run_table_n_kept(s->runs), 1);
        clock_usec += 600 * USEC_PER_SEC;
        expire(600);
        ASSERT_EQ_STR(call_tool(s, "get_run", ID, ""), UNKNOWN);
        ASSERT_EQ_UINT(run_table_n_kept(s->runs), 0);
        setup_free(s);
}

TEST(cancel_run_ends_the_program_and_tells_how_it_ended) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        ExecResult r;

        ASSERT_EQ_STR(call_tool(s, "cancel_run", ID, ""), "");
        ASSERT_TRUE(s->engine.job.is_stopped && !s->engine.job.is_cancelled);
        r = result_of(&s->engine.job);
        r.status = EXEC_CANCELLED;
        r.exit_code = -1;
        ASSERT_CONTAINS(finish(s, &r), "\"status\":\"cancelled\"");
        ASSERT_CONTAINS(call_tool(s, "cancel_run", ID, ""), "\"status\":\"cancelled\"");
        setup_free(s);
}

TEST(a_program_cancelled_before_its_start_is_a_result_too) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        ExecResult r;

        ASSERT_EQ_STR(call_tool(s, "cancel_run", ID, ""), "");
        r = result_of(&s->engine.job);
        r.status = EXEC_CANCELLED;
        r.did_run = false;
        r.message = (char*) "The run was cancelled before the program started.";
        ASSERT_CONTAINS(structured(finish(s, &r)), "\"status\":\"cancelled\",\"message\":\"The run was");
        setup_free(s);
}

TEST(a_background_run_that_did_not_run_is_an_error_each_time) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        ExecResult r = result_of(&s->engine.job);

        r.did_run = false;
        r.status = EXEC_INFRA_ERROR;
        r.message = (char*) "no network namespace";
        (void) finish(s, &r);
        for (int i = 0; i < 2; i++)
                ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""),
                                "\"no network namespace\"}],\"isError\":true");
        setup_free(s);
}

TEST(truncated_output_can_be_paged_afterwards) {
        Setup *s = setup_new(NULL);
        ExecResult r;
        const char *answer;

        (void) say(s->f, HELLO);
        s->settings->max_reply_chars = 100;
        (void) call_tool(s, "exec", "{\"code\":\"1\"}", "");
        for (int i = 0; i < 25; i++)
                print(s, 1, "0123456789");
        r = result_of(&s->engine.job);
        answer = structured(finish(s, &r));
        ASSERT_CONTAINS(answer, "\"truncated\":true");
        ASSERT_TRUE(strstr(answer, "next_offset") == NULL);
        answer = structured(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"offset\":0}", ""));
        ASSERT_CONTAINS(answer, "\"next_offset\":100}");
        answer = structured(call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\",\"offset\":200}", ""));
        ASSERT_CONTAINS(answer, "{\"stdout\":\"01234567890123456789012345678901234567890123456789\",");
        ASSERT_CONTAINS(answer, "\"truncated\":false");
        ASSERT_TRUE(strstr(answer, "next_offset") == NULL);
        setup_free(s);
}

TEST(a_short_result_that_was_delivered_is_not_kept) {
        Setup *s = setup_running("{\"code\":\"1\"}");
        ExecResult r = result_of(&s->engine.job);

        (void) finish(s, &r);
        ASSERT_EQ_UINT(run_table_n_kept(s->runs), 0);
        ASSERT_EQ_STR(call_tool(s, "get_run", ID, ""), UNKNOWN);
        setup_free(s);
}

TEST(many_results_of_one_user_do_not_drive_out_those_of_another) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        McpPeer *mine = s->f->peer;
        ExecResult r = result_of(&s->engine.job);

        for (int i = 0; i < 5000; i++)
                print(s, 1, "some more bytes than others have\n");
        (void) finish(s, &r);
        ASSERT_EQ_INT(mcp_peer_new(s->f->server, MCP_PEER_PIPE, "uid:2", &s->f->peer), 0);
        for (int i = 0; i < RUNS_KEPT_MAX + 5; i++) {
                (void) call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", "");
                (void) finish(s, &r);
        }
        ASSERT_EQ_UINT(run_table_n_kept(s->runs), RUNS_KEPT_MAX);
        mcp_peer_free(s->f->peer);
        s->f->peer = mine;
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\"status\":\"ok\"");
        setup_free(s);
}

TEST(bad_arguments_are_named) {
        Setup *s = setup_new(NULL);

        ASSERT_CONTAINS(call_tool(s, "get_run", "{}", ""), "argument \\\"run_id\\\" is missing");
        ASSERT_CONTAINS(call_tool(s, "get_run", "{\"run_id\":\"x\",\"offset\":-1}", ""),
                        "offset must not be negative");
        ASSERT_CONTAINS(call_tool(s, "cancel_run", "{\"run_id\":1}", ""), "must be a string, not a number");
        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":1}", ""), "background");
        setup_free(s);
}

/* ---- Tasks ---- */

static const char* ask_task(Setup *s, const char *method, const char *more) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_printf(&b, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"%s\",\"params\":{%s%s}}",
                                    method, more, TASK_META),
                      0);
        return say_bytes(s->f, b.data, b.n_bytes, NULL);
}

TEST(a_quick_program_is_answered_at_once_also_to_who_takes_tasks) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", TASK_META), "");
        r = result_of(&s->engine.job);
        ASSERT_CONTAINS(finish(s, &r), "\"resultType\":\"complete\"");
        ASSERT_TRUE(timer_of(2) == NULL);
        setup_free(s);
}

TEST(a_longer_one_becomes_a_task_that_get_and_get_run_know) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        clock_usec = 1000000;
        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", TASK_META), "");
        expire(2);
        ASSERT_CONTAINS(
                heard(s->f),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"task\",\"taskId\":\"" RUN_ID
                "\",\"status\":\"working\",\"statusMessage\":\"waiting\",\"createdAt\":"
                "\"2025-11-29T19:20:01.000Z\",\"lastUpdatedAt\":\"2025-11-29T19:20:01.000Z\","
                "\"ttlMs\":630000,\"pollIntervalMs\":5000,\"_meta\":");
        s->engine.job.elapsed_usec = 3 * USEC_PER_SEC;
        ASSERT_CONTAINS(ask_task(s, "tasks/get", "\"taskId\":\"" RUN_ID "\""),
                        "\"resultType\":\"complete\",\"taskId\":\"" RUN_ID
                        "\",\"status\":\"working\",\"statusMessage\":\"running for 3 s\"");
        ASSERT_CONTAINS(ask_task(s, "tasks/update", "\"taskId\":\"" RUN_ID "\",\"inputResponses\":{}"),
                        "\"result\":{\"resultType\":\"complete\",\"_meta\"");
        print(s, 1, "4\n");
        r = result_of(&s->engine.job);
        clock_usec += 5 * USEC_PER_SEC;
        ASSERT_EQ_STR(finish(s, &r), "");
        ASSERT_CONTAINS(
                ask_task(s, "tasks/get", "\"taskId\":\"" RUN_ID "\""),
                "\"status\":\"completed\",\"createdAt\":\"2025-11-29T19:20:01.000Z\",\"lastUpdatedAt\":"
                "\"2025-11-29T19:20:06.000Z\",\"ttlMs\":605000,\"pollIntervalMs\":5000,\"result\":{"
                "\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"{");
        ASSERT_CONTAINS(call_tool(s, "get_run", ID, ""), "\\\"stdout\\\":\\\"4\\\\n\\\"");
        setup_free(s);
}

TEST(a_cancelled_task_says_so) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", TASK_META), "\"task\"");
        ASSERT_CONTAINS(ask_task(s, "tasks/cancel", "\"taskId\":\"" RUN_ID "\""), "\"complete\"");
        ASSERT_TRUE(s->engine.job.is_stopped);
        r = result_of(&s->engine.job);
        r.status = EXEC_CANCELLED;
        r.message = (char*) "The run was cancelled.";
        (void) finish(s, &r);
        ASSERT_CONTAINS(ask_task(s, "tasks/get", "\"taskId\":\"" RUN_ID "\""),
                        "\"status\":\"cancelled\",\"statusMessage\":\"The run was cancelled.\"");
        ASSERT_CONTAINS(ask_task(s, "tasks/cancel", "\"taskId\":\"" RUN_ID "\""), "\"complete\"");
        setup_free(s);
}

TEST(subscribers_hear_of_the_end_once) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", TASK_META), "\"task\"");
        ASSERT_EQ_STR(
                ask_task(s, "subscriptions/listen",
                         "\"notifications\":{\"taskIds\":[\"" RUN_ID "\",\"nope\"]}"),
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{"
                "\"_meta\":{\"io.modelcontextprotocol/"
                "subscriptionId\":2},\"notifications\":{\"taskIds\":[\"" RUN_ID "\"]}}}\n");
        r = result_of(&s->engine.job);
        ASSERT_CONTAINS(finish(s, &r),
                        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{"
                        "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":2},\"taskId\":\"" RUN_ID
                        "\",\"status\":\"completed\"");
        ASSERT_EQ_STR(heard(s->f), "");
        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}");
        /* Who comes too late is told at once. */
        ASSERT_CONTAINS(
                ask_task(s, "subscriptions/listen", "\"notifications\":{\"taskIds\":[\"" RUN_ID "\"]}"),
                "\"method\":\"notifications/tasks\"");
        setup_free(s);
}

static size_t count(const char *text, const char *what) {
        size_t n = 0;

        for (const char *p = text; (p = strstr(p, what)); p++)
                n++;
        return n;
}

static const char* wait_for_end(Setup *s, unsigned id) {
        char text[300];

        (void) snprintf(text, sizeof(text),
                        "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":\"get_run\",\"arguments\":{\"run_id\":\"" RUN_ID "\",\"wait_s\":7}}}", id);
        return say(s->f, text);
}

/* All are told within one turn of the event loop. */
TEST(thousands_who_wait_for_one_end_do_not_keep_everybody_waiting) {
        Setup *s = setup_running("{\"code\":\"1\",\"background\":true}");
        ExecResult r;

        for (unsigned i = 0; i < RUN_WATCHES_MAX; i++)
                ASSERT_EQ_STR(wait_for_end(s, 100 + i), "");
        ASSERT_CONTAINS(wait_for_end(s, 5), "\"id\":5,\"result\"");
        ASSERT_CONTAINS(wait_for_end(s, 6), "\"status\":\"running\"");
        /* As for tasks that are not there, the acknowledgement tells. */
        ASSERT_CONTAINS(
                ask_task(s, "subscriptions/listen", "\"notifications\":{\"taskIds\":[\"" RUN_ID "\"]}"),
                "\"taskIds\":[]");
        /* It is ended all the same. */
        ASSERT_CONTAINS(call_tool(s, "cancel_run", ID, ""), "\"status\":\"running\"");
        ASSERT_TRUE(s->engine.job.is_stopped);
        r = result_of(&s->engine.job);
        ASSERT_EQ_INT(count(finish(s, &r), "\"jsonrpc\""), RUN_WATCHES_MAX);
        setup_free(s);
}

TEST(who_names_one_task_often_is_told_once) {
        static const char ids[] =
                "\"notifications\":{\"taskIds\":[\"" RUN_ID "\",\"" RUN_ID "\",\"" RUN_ID "\"]}";
        Setup *s = setup_new(NULL);
        ExecResult r;

        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", TASK_META), "\"task\"");
        ASSERT_CONTAINS(ask_task(s, "subscriptions/listen", ids), "\"taskIds\":[\"" RUN_ID "\"]}");
        r = result_of(&s->engine.job);
        ASSERT_EQ_INT(count(finish(s, &r), "notifications/tasks"), 1);
        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}");
        ASSERT_EQ_INT(count(ask_task(s, "subscriptions/listen", ids), "notifications/tasks"), 1);
        setup_free(s);
}

TEST(a_subscription_that_ends_first_leaves_nothing_behind) {
        Setup *s = setup_new(NULL);
        ExecResult r;

        ASSERT_CONTAINS(call_tool(s, "exec", "{\"code\":\"1\",\"background\":true}", TASK_META), "\"task\"");
        (void) ask_task(s, "subscriptions/listen", "\"notifications\":{\"taskIds\":[\"" RUN_ID "\"]}");
        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}");
        r = result_of(&s->engine.job);
        ASSERT_TRUE(strstr(finish(s, &r), "notifications/tasks") == NULL);
        setup_free(s);
}
