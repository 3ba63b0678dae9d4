/* SPDX-License-Identifier: MIT */

/* execute_python, validate_script, and exec where a program names packages. */

#include "tool-fixture.h"

#define HELLO_18                                                                                     \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-" \
        "06-18\"}}"

static const char* execute(Setup *s, const char *arguments) {
        return call_tool(s, "execute_python", arguments, "");
}

/* ---- execute_python ---- */

TEST(bad_arguments_name_the_argument_in_the_words_of_this_tool) {
        static const struct {
                const char *arguments, *text;
        } cases[] = {
                { "{}", "argument \\\"script\\\" is missing" },
                { "{\"script\":\"\\n\"}", "script must not be empty" },
                { "{\"script\":\"1\",\"dependencies\":\"numpy\"}",
                  "argument \\\"dependencies\\\" must be an array, not a string" },
                { "{\"script\":\"1\",\"dependencies\":[\"numpy\",5]}",
                  "argument \\\"dependencies\\\" must be an array of strings, such as [\\\"numpy>=2\\\"]" },
                { "{\"script\":\"1\",\"timeout_seconds\":\"5\"}",
                  "argument \\\"timeout_seconds\\\" must be an integer, not a string" },
                { "{\"script\":\"1\",\"code\":\"2\"}",
                  "unknown argument \\\"code\\\"; there are script, dependencies, timeout_seconds, "
                  "files and background" },
                { "{\"script\":\"1\",\"files\":[{\"name\":\"a\"}]}",
                  "files[0] must have either text or base64" },
        };
        Setup *s = setup_new(NULL);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char expected[400];

                (void) snprintf(expected, sizeof(expected),
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":"
                                "\"text\",\"text\":\"%s\"}],\"isError\":true}}\n[200]\n",
                                cases[i].text);
                ASSERT_EQ_STR(execute(s, cases[i].arguments), expected);
        }
        s->settings->max_code_bytes = 4;
        ASSERT_CONTAINS(execute(s, "{\"script\":\"12345\"}"),
                        "\"script exceeds limit of 4 bytes (it has 5; the server's setting is "
                        "MaxCodeBytes=)\"");
        ASSERT_EQ_UINT(s->engine.n_submitted, 0);
        ASSERT_EQ_UINT(s->python.n_attached, 0);
        setup_free(s);
}

TEST(files_are_taken_as_exec_takes_them) {
        Setup *s = setup_new(NULL);
        const ExecRequest *q;

        ASSERT_EQ_STR(execute(s, "{\"script\":\"1\",\"dependencies\":[\"a\"],\"files\":["
                                 "{\"name\":\"a.csv\",\"text\":\"1\"},"
                                 "{\"name\":\"b\",\"base64\":\"AP8=\"}]}"),
                      "");
        q = s->engine.job.request;
        ASSERT_EQ_UINT(s->python.n_attached, 1);
        ASSERT_EQ_UINT(q->n_files, 2);
        ASSERT_EQ_STR(q->files[0].name, "a.csv");
        ASSERT_EQ_MEM(q->files[1].data, q->files[1].n_bytes, "\0\377", 2);
        setup_free(s);
}

TEST(dependencies_have_limits) {
        Setup *s = setup_new(NULL);
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_append_str(&b, "{\"script\":\"1\",\"dependencies\":[\"a\""), 0);
        for (int i = 0; i < 200; i++)
                ASSERT_EQ_INT(buffer_append_str(&b, ",\"a\""), 0);
        ASSERT_EQ_INT(buffer_append_str(&b, "]}"), 0);
        ASSERT_CONTAINS(execute(s, b.data), "\"dependencies may have at most 200 elements\"");

        buffer_done(&b);
        ASSERT_EQ_INT(buffer_printf(&b, "{\"script\":\"1\",\"dependencies\":[\"%01001d\"]}", 0), 0);
        ASSERT_CONTAINS(execute(s, b.data),
                        "\"an element of dependencies exceeds the limit of 1000 bytes\"");
        setup_free(s);
}

TEST(a_script_that_names_nothing_takes_the_fast_path) {
        static const char *const plain[] = { "{\"script\":\"print(1)\"}",
                                             "{\"script\":\"print(1)\",\"dependencies\":null}",
                                             "{\"script\":\"print(1)\",\"dependencies\":[]}" };

        for (size_t i = 0; i < ELEMENTSOF(plain); i++) {
                Setup *s = setup_new(NULL);

                ASSERT_EQ_STR(execute(s, plain[i]), "");
                ASSERT_EQ_UINT(s->python.n_attached, 0);
                ASSERT_EQ_UINT(s->python.n_attached_default, 1); /* nothing, where there is no default */
                ASSERT_EQ_UINT(s->engine.n_submitted, 1);
                ASSERT_EQ_STR(s->engine.job.request->tool, "execute_python");
                ASSERT_EQ_STR(s->engine.job.request->code, "print(1)");
                ASSERT_EQ_UINT(s->engine.job.request->timeout_usec, 30 * USEC_PER_SEC);
                setup_free(s);
        }
}

TEST(a_list_a_block_or_a_version_makes_it_wait_for_packages) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(execute(s, "{\"script\":\"import a\",\"dependencies\":[\"a>=1\",\"b\"],"
                                 "\"timeout_seconds\":7}"),
                      "");
        ASSERT_EQ_UINT(s->python.n_attached, 1);
        ASSERT_EQ_STR(s->python.text, "import a");
        ASSERT_EQ_STR(s->python.dependencies, "a>=1|b|");
        ASSERT_EQ_STR(s->python.python_version, NULL);
        ASSERT_EQ_UINT(s->engine.job.request->timeout_usec, 7 * USEC_PER_SEC);
        setup_free(s);

        s = setup_new(NULL);
        ASSERT_EQ_STR(execute(s, "{\"script\":\"# /// script\\n# ///\\n1\"}"), "");
        ASSERT_EQ_UINT(s->python.n_attached, 1);
        ASSERT_EQ_STR(s->python.dependencies, "");
        setup_free(s);

        s = setup_new(NULL);
        ASSERT_EQ_INT(str_copy(&s->settings->python_version, "3.12"), 0);
        ASSERT_EQ_STR(execute(s, "{\"script\":\"1\"}"), "");
        ASSERT_EQ_UINT(s->python.n_attached, 1);
        ASSERT_EQ_STR(s->python.python_version, "3.12");
        setup_free(s);
}

TEST(exec_takes_a_block_too) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"# /// script\\n# ///\\n1\"}", ""), "");
        ASSERT_EQ_UINT(s->python.n_attached, 1);
        ASSERT_EQ_STR(s->engine.job.request->tool, "exec");
        setup_free(s);

        s = setup_new(NULL);
        ASSERT_EQ_STR(call_tool(s, "exec", "{\"code\":\"1\"}", ""), "");
        ASSERT_EQ_UINT(s->python.n_attached, 0);
        setup_free(s);
}

static const char* result_text(Setup *s, const char *out, const char *err, ExecResult r) {
        ExecJob *j;

        (void) say(s->f, HELLO_18);
        ASSERT_EQ_STR(execute(s, "{\"script\":\"1\"}"), "");
        j = &s->engine.job;
        ASSERT_EQ_INT(capture_push(&j->out, out, strlen(out)), 0);
        ASSERT_EQ_INT(capture_push(&j->err, err, strlen(err)), 0);
        r.out = &j->out;
        r.err = &j->err;
        r.presentation = j->request->presentation;
        return finish(s, &r);
}

TEST(text_is_the_predecessors_layout_with_our_lines_behind) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(result_text(s, "4\n\"\\", "", result_of(&s->engine.job)),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                      "\"--- stdout ---\\n4\\n\\\"\\\\\\n"
                      "--- exit_code: 0 ---\\n"
                      "--- duration_ms: 35 ---\\n"
                      "--- status: ok ---\\n"
                      "--- run_id: 0123456789abcdef0123456789abcdef ---\"}],\"structuredContent\":{"
                      "\"stdout\":\"4\\n\\\"\\\\\",\"stderr\":\"\","
                      "\"exit_code\":0,\"duration_ms\":35,\"truncated\":false,\"timed_out\":"
                      "false,\"status\":\"ok\","
                      "\"run_id\":\"0123456789abcdef0123456789abcdef\",\"stdout_bytes\":4,"
                      "\"stderr_bytes\":0,\"usage\":{}}}}\n[200]\n");
        setup_free(s);
}

TEST(text_tells_all_that_the_object_tells) {
        Setup *s = setup_new(NULL);
        ExecResult r = result_of(&s->engine.job);
        char *hints[] = { (char*) "Ask for \"more\".", (char*) "Or less.", NULL };

        r.status = EXEC_TIMEOUT;
        r.exit_code = -1;
        r.signal = 9;
        r.message = (char*) "It took too long.";
        r.hints = hints;
        r.cpu_usec = 5000;
        ASSERT_CONTAINS(result_text(s, "", "late\n", r),
                        "\"text\":\"--- stderr ---\\nlate\\n\\n"
                        "--- exit_code: -1 ---\\n"
                        "--- duration_ms: 35 ---\\n"
                        "--- timed_out: true ---\\n"
                        "--- status: timeout ---\\n"
                        "--- signal: SIGKILL ---\\n"
                        "--- message ---\\nIt took too long.\\n"
                        "--- hints ---\\nAsk for \\\"more\\\".\\nOr less.\\n"
                        "--- usage: {\\\"cpu_ms\\\":5} ---\\n"
                        "--- run_id: 0123456789abcdef0123456789abcdef ---\"}]");
        setup_free(s);
}

TEST(a_run_that_goes_on_is_told_in_the_same_layout_and_found_by_get_run) {
        static const char *const tools[] = { "get_run", "get_run", "cancel_run" };
        static const char *const arguments[] = { "{\"run_id\":\"" RUN_ID "\"}",
                                                 "{\"run_id\":\"" RUN_ID "\",\"offset\":0}",
                                                 "{\"run_id\":\"" RUN_ID "\"}" };
        Setup *s = setup_new(NULL);
        ExecResult result;

        (void) say(s->f, HELLO_18);
        ASSERT_CONTAINS(execute(s, "{\"script\":\"1\",\"dependencies\":[\"a\"],\"background\":true}"),
                        "--- status: running ---\\n--- message ---\\nThe program waits for its turn");
        s->engine.job.phase = "downloading 3/7 numpy";
        ASSERT_CONTAINS(
                call_tool(s, "get_run", "{\"run_id\":\"" RUN_ID "\"}", ""),
                "--- status: running ---\\n--- message ---\\n"
                "The program's packages are being made ready (downloading 3/7 numpy); it "
                "starts when they are. get_run with this run_id waits for its end (wait_s, at most 45); "
                "cancel_run ends it.\\n");

        ASSERT_EQ_INT(capture_push(&s->engine.job.out, "done\n", 5), 0);
        result = result_of(&s->engine.job);
        (void) finish(s, &result);
        for (size_t i = 0; i < ELEMENTSOF(arguments); i++)
                ASSERT_CONTAINS(call_tool(s, tools[i], arguments[i], ""),
                                "{\"type\":\"text\",\"text\":\"--- stdout ---\\ndone\\n\\n"
                                "--- exit_code: 0 ---\\n");
        setup_free(s);
}

TEST(progress_tells_the_phase_of_the_preparation) {
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(call_tool(s, "execute_python", "{\"script\":\"1\",\"dependencies\":[\"a\"]}",
                                ",\"_meta\":{\"progressToken\":1}"),
                      "");
        s->engine.job.phase = "resolving";
        clock_usec += USEC_PER_SEC;
        expire(1);
        ASSERT_CONTAINS(heard(s->f), "\"message\":\"preparing for 1 s: resolving\"");
        setup_free(s);
}

/* ---- validate_script ---- */

static const char* validate(Setup *s, const PythonReport *report) {
        (void) say(s->f, HELLO_18);
        ASSERT_EQ_STR(call_tool(s, "validate_script",
                                "{\"script\":\"import a\",\"dependencies\":[\"numpy\"]}", ""),
                      "");
        ASSERT_EQ_STR(s->python.text, "import a");
        ASSERT_EQ_STR(s->python.dependencies, "numpy|");
        s->python.query.on_report(report, s->python.query.userdata);
        return heard(s->f);
}

TEST(a_valid_script_is_told_in_the_predecessors_words) {
        static const PythonFinding warning = { PYTHON_WARNING, "metadata", 2, 0, "unknown key \"x\x1b\"" };
        char *requirements[] = { (char*) "numpy>=2", (char*) "pandas", NULL };
        Setup *s = setup_new(NULL);

        ASSERT_EQ_STR(validate(s, &(const PythonReport){ .is_valid = true,
                                                         .findings = &warning,
                                                         .n_findings = 1,
                                                         .requirements = requirements,
                                                         .requires_python = ">=3.11",
                                                         .interpreter = "/usr/bin/python3",
                                                         .interpreter_version = "3.13.5",
                                                         .environment = "" }),
                      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                      "\"VALID\\nrequires-python: >=3.11\\ndependencies (2):\\n  - numpy>=2\\n  - pandas\\n"
                      "interpreter: /usr/bin/python3 (Python 3.13.5)\\n"
                      "environment: not made yet, the first run makes it\\n"
                      "warnings:\\n  - line 2: unknown key \\\"x \\\"\"}],\"structuredContent\":{"
                      "\"valid\":true,\"requires_python\":\">=3.11\",\"dependencies\":[\"numpy>=2\","
                      "\"pandas\"],\"interpreter\":\"/usr/bin/python3\",\"interpreter_version\":\"3.13.5\","
                      "\"environment\":\"missing\",\"findings\":[{\"severity\":\"warning\",\"kind\":"
                      "\"metadata\",\"line\":2,\"column\":0,\"message\":\"unknown key \\\"x \\\"\"}]}}}\n"
                      "[200]\n");
        setup_free(s);
}

TEST(a_script_without_packages_is_valid_and_needs_nothing) {
        Setup *s = setup_new(NULL);

        ASSERT_CONTAINS(validate(s, &(const PythonReport){ .is_valid = true,
                                                           .requires_python = "",
                                                           .interpreter = "/usr/bin/python3",
                                                           .interpreter_version = "3.13.5",
                                                           .environment = "" }),
                        "\"text\":\"VALID\\ndependencies: none\\ninterpreter: /usr/bin/python3 (Python "
                        "3.13.5)\"}],\"structuredContent\":{\"valid\":true,\"requires_python\":\"\","
                        "\"dependencies\":[],\"interpreter\":\"/usr/bin/python3\",\"interpreter_version\":"
                        "\"3.13.5\",\"environment\":\"none\",\"findings\":[]}");
        setup_free(s);
}

TEST(an_interpreter_of_its_own_is_named_as_far_as_it_is_known) {
        Setup *s = setup_new(NULL);
        PythonReport report = { .is_valid = true,
                                .requires_python = "==3.12.*",
                                .interpreter = "/env/bin/python3",
                                .interpreter_version = "",
                                .has_own_interpreter = true,
                                .environment = "" };

        ASSERT_CONTAINS(validate(s, &report),
                        "dependencies: none\\ninterpreter: /env/bin/python3 (of its own, not downloaded "
                        "yet)\\nenvironment: not made yet, the first run makes it\"}],"
                        "\"structuredContent\":{"
                        "\"valid\":true,\"requires_python\":\"==3.12.*\",\"dependencies\":[],"
                        "\"interpreter\":\"/env/bin/python3\",\"interpreter_version\":\"\","
                        "\"environment\":\"missing\",");
        report.interpreter_version = "3.12.8";
        report.environment = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        ASSERT_CONTAINS(validate(s, &report),
                        "dependencies: none\\ninterpreter: /env/bin/python3 (Python 3.12.8)\\nenvironment: "
                        "ready\"}],");
        setup_free(s);
}

TEST(an_invalid_script_is_a_result_with_every_finding) {
        static const PythonFinding findings[] = {
                { PYTHON_WARNING, "metadata", 0, 0, "w" },
                { PYTHON_ERROR, "requirement", 0, 0, "\"junk!!\" is no requirement" },
                { PYTHON_ERROR, "syntax", 3, 5, "invalid syntax" },
        };
        Setup *s = setup_new(NULL);
        const char *answer;

        answer = validate(s, &(const PythonReport){ .findings = findings,
                                                    .n_findings = 3,
                                                    .requires_python = "",
                                                    .interpreter = "",
                                                    .interpreter_version = "",
                                                    .environment = "" });
        ASSERT_CONTAINS(answer, "\"text\":\"INVALID: \\\"junk!!\\\" is no requirement\\nerrors:\\n  - "
                                "\\\"junk!!\\\" is no requirement\\n  - line 3, column 5: invalid syntax\\n"
                                "warnings:\\n  - w\"}],\"structuredContent\":{\"valid\":false,");
        ASSERT_CONTAINS(answer, "{\"severity\":\"error\",\"kind\":\"syntax\",\"line\":3,\"column\":5,"
                                "\"message\":\"invalid syntax\"}]}}}");
        setup_free(s);
}

TEST(what_could_not_be_found_out_is_an_error_and_a_cancel_ends_the_question) {
        Setup *s = setup_new(NULL);

        ASSERT_CONTAINS(validate(s, &(const PythonReport){ .error = "The sandbox was refused." }),
                        "\"text\":\"The sandbox was refused.\"}],\"isError\":true");
        ASSERT_EQ_STR(call_tool(s, "validate_script", "{\"script\":\"1\"}", ""), "");
        (void) say(s->f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":1}}");
        ASSERT_TRUE(s->python.query.on_report == NULL);
        ASSERT_CONTAINS(call_tool(s, "validate_script", "{\"script\":\" \"}", ""),
                        "script must not be empty");
        setup_free(s);
}

/* ---- mcp-exec.sets ---- */

TEST(sets_are_for_root_only_and_not_listed) {
        Setup *s = setup_new(NULL);

        ASSERT_CONTAINS(call_tool(s, "mcp-exec.sets", "{}", ""),
                        "\"Only root may see and remove sets of packages.\"}],\"isError\":true");
        ASSERT_TRUE(strstr(say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
                           "mcp-exec.sets") == NULL);
        setup_free(s);
}

static const char* sets(Setup *s, const char *arguments) {
        static const ExecSandboxInfo info = { .is_known = true };

        ASSERT_EQ_STR(call_tool(s, "mcp-exec.sets", arguments, ""), "");
        s->engine.on_info(&info, s->engine.info_userdata);
        return heard(s->f);
}

TEST(root_sees_sets_and_removes_them) {
        char *packages[] = { (char*) "numpy 2.3.1", NULL }, *requirements[] = { (char*) "numpy", NULL };
        const PythonSet set = {
                .name = "aa",
                .packages = packages,
                .requirements = requirements,
                .interpreter_version = (char *) "3.13.5",
                .size_bytes = 5,
                .n_files = 4,
                .created_usec = 3000000,
                .used_usec = 2000000,
                .n_runs = 1,
        };
        Setup *s = setup_new(NULL);
        McpPeer *others = s->f->peer;

        (void) mcp_peer_free(others);
        ASSERT_EQ_INT(mcp_peer_new(s->f->server, MCP_PEER_PIPE, "uid:0", &s->f->peer), 0);
        (void) say(s->f, HELLO_18);
        s->python.sets = &set;
        s->python.n_sets = 1;
        ASSERT_CONTAINS(
                sets(s, "{}"),
                "\"structuredContent\":{\"problem\":\"\",\"sets\":[{\"name\":\"aa\",\"requirements\":["
                "\"numpy\"],\"packages\":[\"numpy 2.3.1\"],\"python\":\"3.13.5\",\"size_bytes\":5,"
                "\"files\":4,\"created_s\":3,\"used_s\":2,\"runs\":1}]}");
        ASSERT_EQ_STR(sets(s, "{\"remove\":\"aa\"}"), "");
        ASSERT_EQ_STR(s->python.removed, "aa");
        s->python.on_removed(-EBUSY, s->python.removed_userdata);
        ASSERT_CONTAINS(heard(s->f),
                        "\"It is in use: by a program, so try again when that has ended, or as "
                        "DefaultRequirements=.\"}],\"isError\":true");
        ASSERT_EQ_STR(sets(s, "{\"remove\":\"aa\"}"), "");
        s->python.on_removed(0, s->python.removed_userdata);
        ASSERT_CONTAINS(heard(s->f), "\"result\":{\"content\":[],\"structuredContent\":{}}");
        setup_free(s);
}

/* ---- What clients are told ---- */

TEST(descriptions_are_short_and_true) {
        Setup *s = setup_new(NULL);
        JsonValue *reply = NULL;
        const JsonValue *tools;
        const char *answer, *name, *d;
        static const char *const expected[] = { "exec",           "get_run",         "cancel_run",
                                                "execute_python", "validate_script", "check_environment" };

        s->settings->packages.allow_source_builds = false;
        (void) say(s->f, HELLO_18);
        answer = say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        ASSERT_EQ_INT(json_parse(answer, strcspn(answer, "\n"), &reply), 0);
        tools = json_member(json_member(reply, "result"), "tools");
        ASSERT_EQ_UINT(json_length(tools), ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++) {
                ASSERT_TRUE(json_get_string(json_member(json_element(tools, i), "name"), &name, NULL));
                ASSERT_EQ_STR(name, expected[i]);
                ASSERT_TRUE(json_get_string(json_member(json_element(tools, i), "description"), &d, NULL));
                ASSERT_TRUE(strlen(d) < 2048);
        }
        ASSERT_TRUE(json_get_string(json_member(json_element(tools, 3), "description"), &d, NULL));
        ASSERT_CONTAINS(d, "# /// script\n# dependencies = [\"pandas>=2.2\", \"httpx==0.28.1\"]\n# ///\n");
        ASSERT_CONTAINS(d, "The script itself has no network");
        ASSERT_CONTAINS(d, "(wheels only)");
        ASSERT_CONTAINS(d, "Python 3.13, 3.12 (the first, unless requires-python says otherwise).");
        ASSERT_CONTAINS(d, "30 s unless timeout_seconds says otherwise (at most 300 s)");
        ASSERT_CONTAINS(d, "message and hints say what to do."); /* nothing was cut off */
        json_free(reply);
        setup_free(s);
}
