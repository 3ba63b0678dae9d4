/* SPDX-License-Identifier: MIT */

/* The exec tool, by itself and as clients are told of it. */

#include "tool-fixture.h"

static const char* call(Setup *s, const char *arguments, const char *meta) {
        return call_tool(s, "exec", arguments, meta);
}

TEST(bad_arguments_are_tool_errors_that_name_the_argument) {
        static const struct {
                const char *arguments, *text;
        } cases[] = {
                { "{}", "argument \\\"code\\\" is missing" },
                { "{\"code\":5}", "argument \\\"code\\\" must be a string, not a number" },
                { "{\"code\":null}", "argument \\\"code\\\" must be a string, not null" },
                { "{\"code\":\"\"}", "code must not be empty" },
                { "{\"code\":\" \\n\\t\"}", "code must not be empty" },
                { "{\"code\":\"1\",\"timeout_s\":\"5\"}",
                  "argument \\\"timeout_s\\\" must be an integer, not a string" },
                { "{\"code\":\"1\",\"timeout_s\":1.5}",
                  "argument \\\"timeout_s\\\" must be an integer, not a fraction" },
                { "{\"code\":\"1\",\"stdin\":3}", "argument \\\"stdin\\\" must be a string, not a number" },
                { "{\"code\":\"1\",\"timout\":3}",
                  "unknown argument \\\"timout\\\"; there are code, timeout_s, stdin, files and "
                  "background" },
                { "{\"code\":\"1\",\"dependencies\":[\"numpy\"]}",
                  "unknown argument \\\"dependencies\\\"; there are code, timeout_s, stdin, files and "
                  "background. Packages are named in a PEP 723 block at the top of the code (\\\"# /// "
                  "script\\\"), or in \\\"dependencies\\\" of the tool execute_python." },
                { "{\"code\":\"1\",\"files\":{}}",
                  "argument \\\"files\\\" must be an array, not an object" },
                { "{\"code\":\"1\",\"files\":[{\"name\":\"a\"}]}",
                  "files[0] must have either text or base64" },
                { "{\"code\":\"1\",\"files\":[{\"name\":\"a\",\"text\":\"\",\"base64\":\"\"}]}",
                  "files[0] must have either text or base64" },
                { "{\"code\":\"1\",\"files\":[{\"name\":\"a\",\"base64\":\"QQ\"}]}",
                  "files[0] has no valid Base64 (RFC 4648, with padding)" },
                { "{\"code\":\"1\",\"files\":[{\"name\":\"a/b\",\"text\":\"\"}]}",
                  "files[0] must have the name of a file in the working directory: at most 255 bytes, no "
                  "\\\"/\\\", and not main.py, which is the program" },
                { "{\"code\":\"1\",\"files\":[{\"name\":\"a\",\"text\":\"\"},"
                  "{\"name\":\"a\",\"text\":\"\"}]}",
                  "files[1] has the name of another one" },
        };
        Setup *s = setup_new(NULL);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char expected[400];

                (void) snprintf(expected, sizeof(expected),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":"
                                "\"text\",\"text\":\"%s\"}],\"isError\":true}}\n[200]\n",
                                cases[i].text);
                ASSERT_EQ_STR(call(s, cases[i].arguments, ""), expected);
        }
        ASSERT_EQ_UINT(s->engine.n_submitted, 0);
        setup_free(s);
}

TEST(code_and_stdin_have_limits_that_are_named) {
        Setup *s = setup_new(NULL);

        s->settings->max_code_bytes = 4;
        s->settings->max_stdin_bytes = 3;
        ASSERT_CONTAINS(call(s, "{\"code\":\"12345\"}", ""),
                        "\"code exceeds limit of 4 bytes (it has 5; the server's setting is "
                        "MaxCodeBytes=)\"");
        ASSERT_CONTAINS(call(s, "{\"code\":\"1234\",\"stdin\":\"éé\"}", ""),
                        "\"stdin exceeds limit of 3 bytes (it has 4; the server's setting is "
                        "MaxStdinBytes=)\"");
        ASSERT_EQ_STR(call(s, "{\"code\":\"1234\",\"stdin\":\"é1\"}", ""), "");
        ASSERT_EQ_STR(s->engine.job.request->stdin_data, "é1");
        setup_free(s);
}

TEST(files_reach_the_program_and_count_as_its_input) {
        Setup *s = setup_new(NULL);
        const ExecRequest *q;

        s->settings->max_stdin_bytes = 5;
        ASSERT_CONTAINS(call(s, "{\"code\":\"1\",\"stdin\":\"12\",\"files\":[{\"name\":\"a\","
                                "\"text\":\"1234\"}]}", ""),
                        "\"files and stdin together exceed the limit of 5 bytes (the server's setting is "
                        "MaxStdinBytes=)\"");
        ASSERT_CONTAINS(call(s, "{\"code\":\"1\",\"files\":[{\"name\":\"a\","
                                "\"text\":\"123456\"}]}", ""),
                        "\"files together exceed the limit of 5 bytes (the server's setting is "
                        "MaxStdinBytes=)\"");
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\",\"stdin\":\"12\",\"files\":["
                              "{\"name\":\"a.csv\",\"text\":\"1\"},"
                              "{\"name\":\"b\",\"base64\":\"AP8=\"}]}", ""), "");
        q = s->engine.job.request;
        ASSERT_EQ_UINT(q->n_files, 2);
        ASSERT_EQ_STR(q->files[0].name, "a.csv");
        ASSERT_EQ_MEM(q->files[0].data, q->files[0].n_bytes, "1", 1);
        ASSERT_EQ_STR(q->files[1].name, "b");
        ASSERT_EQ_MEM(q->files[1].data, q->files[1].n_bytes, "\0\377", 2);
        setup_free(s);
}

TEST(timeout_is_the_default_for_zero_and_clamped_otherwise) {
        static const struct {
                const char *arguments;
                uint64_t seconds, asked;
        } cases[] = {
                { "{\"code\":\"1\"}", 30, 0 },
                { "{\"code\":\"1\",\"timeout_s\":0}", 30, 0 },
                { "{\"code\":\"1\",\"timeout_s\":null}", 30, 0 },
                { "{\"code\":\"1\",\"timeout_s\":-5}", 1, 0 },
                { "{\"code\":\"1\",\"timeout_s\":10}", 10, 10 },
                { "{\"code\":\"1\",\"timeout_s\":10.0}", 10, 10 },
                { "{\"code\":\"1\",\"timeout_s\":900}", 300, 900 },
                { "{\"code\":\"1\",\"timeout_s\":9007199254740992}", 300, 9007199254740992 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Setup *s = setup_new(NULL);

                ASSERT_EQ_STR(call(s, cases[i].arguments, ""), "");
                ASSERT_EQ_UINT(s->engine.job.request->timeout_usec, cases[i].seconds * USEC_PER_SEC);
                ASSERT_EQ_UINT(s->engine.job.request->asked_timeout_sec, cases[i].asked);
                setup_free(s);
        }
}

TEST(less_time_than_was_asked_for_is_told_to_who_reads_the_output) {
        static const char wants_output[] = ",\"_meta\":{\"mcp-exec/output\":true}";
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\",\"timeout_s\":900}", wants_output),
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/mcp-exec/note\",\"params\":{"
                      "\"requestId\":1,\"message\":\"The time limit is 300 s, the most that is allowed here "
                      "(MaxTimeoutSec=), and not 900 s.\"}}\n");
        setup_free(s);
        s = setup_new(NULL);
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\",\"timeout_s\":300}", wants_output), "");
        setup_free(s);
        s = setup_new(NULL);
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\",\"timeout_s\":900}", ""), "");
        setup_free(s);
}

TEST(request_says_who_asks_in_clean_words) {
        Setup *s = setup_new(NULL);
        const ExecRequest *q;

        (void) say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                         "\"protocolVersion\":\"2025-06-18\","
                         "\"clientInfo\":{\"name\":\"c\\n\\u001b[31mx\\u0085\",\"version\":"
                         "\"1234567890123456789012345678901234567890"
                         "1234567890123456789012345678901234567890123456789012345678901234567890123456789012"
                         "345678901234567890\"}}}");
        ASSERT_EQ_STR(call(s, "{\"code\":\"print(1)\"}", ",\"_meta\":{\"traceparent\":\"00-a-b-01\"}"), "");
        q = s->engine.job.request;
        ASSERT_EQ_STR(q->tool, "exec");
        ASSERT_EQ_STR(q->principal, "uid:1");
        ASSERT_EQ_STR(q->client_name, "c  [31mx ");
        ASSERT_EQ_UINT(strlen(q->client_version), 128);
        ASSERT_EQ_STR(q->traceparent, "00-a-b-01");
        ASSERT_EQ_STR(q->code, "print(1)");
        ASSERT_EQ_UINT(q->code_bytes, 8);
        ASSERT_EQ_STR(q->code_sha256, "d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99");
        setup_free(s);
}

TEST(result_is_structured_and_the_same_as_text) {
        Setup *s = setup_new(NULL);
        ExecResult r;
        ExecJob *j;

        (void) say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                         "\"protocolVersion\":\"2025-06-18\"}}");
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ""), "");
        j = &s->engine.job;
        ASSERT_EQ_INT(capture_push(&j->out, "4\n", 2), 0);
        r = result_of(j);
        j->handlers.on_done(j, &r, j->userdata);
        ASSERT_EQ_STR(heard(s->f), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":"
                                   "\"text\",\"text\":\"{\\\"stdout\\\":\\\"4\\\\n\\\","
                                   "\\\"stderr\\\":\\\"\\\",\\\"exit_code\\\":0,\\\"duration_ms\\\":35,"
                                   "\\\"truncated\\\":false,\\\"timed_out\\\":false,"
                                   "\\\"status\\\":\\\"ok\\\",\\\"run_id\\\":"
                                   "\\\"0123456789abcdef0123456789abcdef\\\",\\\"stdout_bytes\\\":2,"
                                   "\\\"stderr_bytes\\\":0,\\\"usage\\\":{}}\"}],\"structuredContent\":{"
                                   "\"stdout\":\"4\\n\",\"stderr\":\"\","
                                   "\"exit_code\":0,\"duration_ms\":35,\"truncated\":false,\"timed_out\":"
                                   "false,\"status\":\"ok\","
                                   "\"run_id\":\"0123456789abcdef0123456789abcdef\",\"stdout_bytes\":2,"
                                   "\"stderr_bytes\":0,\"usage\":{}}}}\n[200]\n");
        setup_free(s);
}

TEST(a_call_that_did_not_run_is_an_error_with_its_reason_only) {
        Setup *s = setup_new(NULL);
        ExecResult r;
        ExecJob *j;

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ""), "");
        j = &s->engine.job;
        r = result_of(j);
        r.did_run = false;
        r.status = EXEC_INFRA_ERROR;
        r.message = (char*) "no network namespace";
        j->handlers.on_done(j, &r, j->userdata);
        ASSERT_EQ_STR(heard(s->f),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                      "\"no network namespace\"}],\"isError\":true}}\n[200]\n");
        setup_free(s);
}

TEST(busy_is_a_tool_error_and_other_failures_are_internal) {
        Setup *s = setup_new(NULL);

        s->engine.submit_result = EXEC_E_BUSY;
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ""),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":"
                      "\"text\",\"text\":\"busy: 64 wait\"}],\"isError\":true}}\n[200]\n");
        s->engine.submit_result = -ENOMEM;
        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ""),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31001,\"message\":"
                      "\"The server is out of memory; try again later.\"}}\n[503]\n");
        setup_free(s);
}

TEST(cancel_reaches_the_job) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ",\"_meta\":{\"progressToken\":1}"), "");
        ASSERT_TRUE(timer_of(1) != NULL);
        (void) say(
                s->f,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        ASSERT_TRUE(s->engine.job.is_cancelled);
        ASSERT_TRUE(timer_of(1) == NULL);
        setup_free(s);
}

/* One second passes. */
static const char* tick(Setup *s) {
        clock_usec += USEC_PER_SEC;
        expire(1);
        return heard(s->f);
}

TEST(progress_tells_the_newest_line_at_once_and_silence_after_ten_seconds) {
        Setup *s = setup_new(NULL);
        ExecJob *j;

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ",\"_meta\":{\"progressToken\":\"t\"}"), "");
        j = &s->engine.job;
        ASSERT_EQ_STR(tick(s), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                               "progress\",\"params\":{\"progressToken\":\"t\","
                               "\"progress\":1.000,\"message\":\"waiting for 1 s\"}}\n");
        ASSERT_EQ_STR(tick(s), "");
        j->elapsed_usec = 1;
        ASSERT_EQ_INT(capture_push(&j->err, "first\nstep \x1b[1m\xff 2\n\n", 20), 0);
        j->handlers.on_output(j, 2, "x", 1, j->userdata);
        ASSERT_EQ_STR(tick(s),
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                      "progress\",\"params\":{\"progressToken\":\"t\","
                      "\"progress\":3.000,\"message\":\"running for 3 s: step  [1m\xef\xbf\xbd 2\"}}\n");
        for (int i = 0; i < 9; i++)
                ASSERT_EQ_STR(tick(s), "");
        ASSERT_CONTAINS(tick(s), "\"progress\":13.000,\"message\":\"running for 13 s: step");
        setup_free(s);
}

TEST(progress_waits_for_the_rest_of_a_line_but_not_for_its_end) {
        Setup *s = setup_new(NULL);
        ExecJob *j;

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ",\"_meta\":{\"progressToken\":\"t\"}"), "");
        j = &s->engine.job;
        j->elapsed_usec = 1;
        ASSERT_EQ_INT(capture_push(&j->out, "step", 4), 0);
        j->handlers.on_output(j, 1, "x", 1, j->userdata);
        ASSERT_EQ_STR(tick(s), ""); /* print("step", 1) is four pieces */
        ASSERT_EQ_INT(capture_push(&j->out, " 1\n", 3), 0);
        expire_usec(50 * USEC_PER_MSEC);
        ASSERT_CONTAINS(heard(s->f), "\"message\":\"running for 1 s: step 1\"");
        ASSERT_EQ_INT(capture_push(&j->out, "loading...", 10), 0);
        ASSERT_EQ_STR(tick(s), "");
        expire_usec(50 * USEC_PER_MSEC);
        ASSERT_CONTAINS(heard(s->f), "\"message\":\"running for 2 s: loading...\"");
        ASSERT_EQ_INT(capture_push(&j->out, "done\nepoch", 10), 0);
        ASSERT_EQ_STR(tick(s), "");
        ASSERT_EQ_INT(capture_push(&j->out, " 1\nepo", 6), 0); /* the look is late, or lines come fast */
        expire_usec(50 * USEC_PER_MSEC);
        ASSERT_CONTAINS(heard(s->f), "\"message\":\"running for 3 s: epoch 1\"");
        setup_free(s);
}

TEST(without_a_token_there_is_no_progress) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ""), "");
        ASSERT_TRUE(timer_of(1) == NULL);
        setup_free(s);
}

TEST(output_is_passed_on_as_it_comes) {
        Setup *s = setup_new(NULL);
        ExecJob *j;

        ASSERT_EQ_STR(call(s, "{\"code\":\"1\"}", ",\"_meta\":{\"mcp-exec/output\":true}"), "");
        j = &s->engine.job;
        j->handlers.on_output(j, 1, "hi\n", 3, j->userdata);
        ASSERT_CONTAINS(heard(s->f), "\"stream\":1,\"data\":\"aGkK\"");
        setup_free(s);
}

/* ---- What clients are told ---- */

static JsonValue* listed_tool(Setup *s, const char *version, JsonValue **ret_reply) {
        char ask[300];
        const char *answer;

        (void) snprintf(ask, sizeof(ask),
                        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
                        "{\"protocolVersion\":\"%s\"}}",
                        version);
        (void) say(s->f, ask);
        answer = say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        ASSERT_EQ_INT(json_parse(answer, strcspn(answer, "\n"), ret_reply), 0);
        return (JsonValue*) json_element(json_member(json_member(*ret_reply, "result"), "tools"), 0);
}

static const char* text_of(const JsonValue *v, const char *name) {
        const char *s = NULL;

        (void) json_get_string(json_member(v, name), &s, NULL);
        return s;
}

TEST(description_names_packages_and_live_limits_and_stays_short) {
        char *packages[] = { (char *) "Jinja2 3.1.2", (char *) "matplotlib 3.6.3",
                             (char *) "numpy 1.24.2", (char *) "pandas 1.5.3",
                             (char *) "Pillow 9.4.0", (char *) "python_dateutil 2.8.2",
                             (char *) "PyYAML 6.0",   (char *) "six 1.16.0",
                             (char *) "wheel 0.38.4", NULL };
        Setup *s = setup_new(packages);
        JsonValue *reply = NULL;
        const JsonValue *tool = listed_tool(s, "2025-11-25", &reply);
        const char *d = text_of(tool, "description");

        ASSERT_CONTAINS(d, "numpy 1.24.2, pandas 1.5.3, matplotlib 3.6.3, Pillow 9.4.0 (import PIL), PyYAML "
                           "6.0 (import yaml), "
                           "Jinja2 3.1.2 (import jinja2), python_dateutil 2.8.2 (import dateutil) and 2 "
                           "other distributions");
        ASSERT_CONTAINS(d, "No network");
        ASSERT_CONTAINS(d, "Give it its data in the code, in stdin or in files.");
        ASSERT_CONTAINS(
                d, "30 s unless timeout_s says otherwise (at most 300 s), 512 MiB of memory, 100% of a CPU, "
                   "128 processes and threads, 64 MiB of files");
        ASSERT_CONTAINS(d, "40000 characters");
        ASSERT_TRUE(strlen(d) < 2048);
        json_free(reply);
        setup_free(s);
}

TEST(description_stays_below_two_kilobytes_whatever_is_installed) {
        Setup *s;
        JsonValue *reply = NULL;
        char **packages = NULL;
        static const char *const names[] = { "numpy",          "pandas",   "matplotlib", "Pillow",
                                             "PyYAML",         "Jinja2",   "scipy",      "sympy",
                                             "scikit-learn",   "networkx", "lxml",       "openpyxl",
                                             "beautifulsoup4", "tabulate" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                ASSERT_EQ_INT(strv_extendf(&packages, "%s 1.2.3+%0100d", names[i], 0), 0);
        s = setup_new(packages);
        s->settings->has_output_limit_override = true;
        ASSERT_TRUE(strlen(text_of(listed_tool(s, "2025-11-25", &reply), "description")) < 2048);
        json_free(reply);
        setup_free(s);
        strv_free(packages);
}

TEST(schemas_are_plain_objects_and_fit_the_revision) {
        static const struct {
                const char *version;
                bool has_annotations, has_output_schema;
        } cases[] = { { "2024-11-05", false, false },
                      { "2025-03-26", true, false },
                      { "2025-06-18", true, true } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Setup *s = setup_new(NULL);
                JsonValue *reply = NULL;
                const JsonValue *tool = listed_tool(s, cases[i].version, &reply),
                                *input = json_member(tool, "inputSchema"),
                                *output = json_member(tool, "outputSchema"),
                                *notes = json_member(tool, "annotations");
                bool b;

                ASSERT_EQ_STR(text_of(tool, "name"), "exec");
                ASSERT_EQ_STR(text_of(input, "type"), "object");
                ASSERT_TRUE(json_get_bool(json_member(input, "additionalProperties"), &b) && !b);
                ASSERT_EQ_UINT(json_length(json_member(input, "properties")), 5);
                ASSERT_EQ_UINT(json_length(json_member(input, "required")), 1);
                ASSERT_EQ_INT(notes != NULL, cases[i].has_annotations);
                ASSERT_EQ_INT(output != NULL, cases[i].has_output_schema);
                if (notes) {
                        ASSERT_TRUE(json_get_bool(json_member(notes, "readOnlyHint"), &b) && b);
                        ASSERT_TRUE(json_get_bool(json_member(notes, "destructiveHint"), &b) && !b);
                        ASSERT_TRUE(json_get_bool(json_member(notes, "idempotentHint"), &b) && !b);
                        ASSERT_TRUE(json_get_bool(json_member(notes, "openWorldHint"), &b) && !b);
                }
                if (output) {
                        ASSERT_EQ_STR(text_of(output, "type"), "object");
                        ASSERT_EQ_UINT(json_length(json_member(output, "properties")), 16);
                        ASSERT_TRUE(json_member(output, "$schema") == NULL);
                }
                json_free(reply);
                setup_free(s);
        }
}

TEST(hints_are_the_worst_ones_where_the_administrator_wants_people_to_be_asked) {
        static const struct {
                unsigned said;
                bool read_only, destructive, open_world;
        } cases[] = {
                { HINT_READ_ONLY | HINT_CLOSED_WORLD, true, false, false },
                { HINT_READ_ONLY, true, false, true },
                { HINT_CLOSED_WORLD, false, true, false },
                { 0, false, true, true },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Setup *s = setup_new(NULL);
                JsonValue *reply = NULL;
                const JsonValue *notes;
                bool b;

                s->settings->run_hints = cases[i].said;
                notes = json_member(listed_tool(s, "2025-06-18", &reply), "annotations");
                ASSERT_TRUE(json_get_bool(json_member(notes, "readOnlyHint"), &b) &&
                            b == cases[i].read_only);
                ASSERT_TRUE(json_get_bool(json_member(notes, "destructiveHint"), &b) &&
                            b == cases[i].destructive);
                ASSERT_TRUE(json_get_bool(json_member(notes, "openWorldHint"), &b) &&
                            b == cases[i].open_world);
                json_free(reply);
                setup_free(s);
        }
}

TEST(list_has_the_same_bytes_each_time) {
        Setup *s = setup_new(NULL);
        static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
        char *first = strdup(say(s->f, ask));

        ASSERT_TRUE(first != NULL);
        (void) call(s, "{\"code\":\"\"}", "");
        ASSERT_EQ_STR(say(s->f, ask), first);
        free(first);
        setup_free(s);
}
