/* SPDX-License-Identifier: MIT */

/* check_environment. */

#include "tool-fixture.h"

#define HELLO_18                                                                                     \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-" \
        "06-18\"}}"

static const char* environment(Setup *s, const ExecSandboxInfo *info) {
        (void) say(s->f, HELLO_18);
        ASSERT_EQ_STR(call_tool(s, "check_environment", "{}", ""), "");
        s->engine.info = info;
        s->engine.on_info(info, s->engine.info_userdata);
        ASSERT_EQ_STR(heard(s->f), "");
        s->python.query.on_known(s->python.query.userdata);
        return heard(s->f);
}

TEST(a_model_that_guesses_the_name_of_a_tool_is_told_those_that_there_are) {
        Setup *s = setup_new(NULL);

        ASSERT_CONTAINS(call_tool(s, "run_python", "{}", ""),
                        "\"unknown tool \\\"run_python\\\"; there are exec, get_run, cancel_run, "
                        "execute_python, validate_script, check_environment");
        setup_free(s);
}

TEST(environment_is_told_in_the_predecessors_lines_first) {
        char *packages[] = { (char*) "numpy 2.3.1", (char*) "six 1.17.0", NULL };
        Setup *s = setup_new(packages);
        ExecSandboxInfo info = {
                .is_known = true,
                .hello = { .verdict = WIRE_VERDICT_OK,
                           .controllers = CONTROLLER_MEMORY | CONTROLLER_PIDS,
                           .manager_version_text = "257.9-1",
                           .memory_max_bytes = 256 * MIB,
                           .n_interpreters = 3,
                           .interpreters = { "/nonexistent/python3", "", "/x/python3.12" } },
        };
        const char *answer = environment(s, &info);

        ASSERT_CONTAINS(answer, "\"text\":\"Python version: 3 (/nonexistent/python3)\\nuv: /usr/bin/uv\\n"
                                "Platform: Linux ");
        ASSERT_CONTAINS(answer, "\\nSandbox backend: native (systemd 257.9-1, system manager)\\n"
                                "Sandbox status: active\\n"
                                "Default timeout: 30s\\nMax timeout: 300s\\nMax output: 1048576 bytes\\n"
                                "Cache warming: disabled\\n"
                                "Interpreters: 3 (/nonexistent/python3), 3.12 (/x/python3.12)\\n"
                                "Installed: numpy 2.3.1, six 1.17.0\\n"
                                "Declared packages: fetched before the script starts; 0 sets are ready\\n"
                                "Network of scripts: none\\n"
                                "Limits of a run: 256 MiB of memory, ");
        ASSERT_CONTAINS(answer, "\\n  - memory limit\\n  - limit of processes and threads\"}]");
        ASSERT_CONTAINS(answer, "\"sandbox\":{\"backend\":\"systemd\",\"status\":\"active\",\"manager\":"
                                "\"system\",\"systemd\":\"257.9-1\",\"controllers\":[\"memory\",\"pids\"],");
        ASSERT_CONTAINS(answer, "\"memory_bytes\":268435456,\"tasks\":128,");
        ASSERT_CONTAINS(answer, "\"packages\":{\"installed\":[\"numpy 2.3.1\",\"six 1.17.0\"],"
                                "\"can_be_declared\":true,\"offline\":false,\"uv\":\"/usr/bin/uv\","
                                "\"uv_version\":\"\",\"sets\":0}}");
        setup_free(s);
}

TEST(environment_tells_the_versions_that_the_programs_say) {
        Setup *s = setup_new(NULL);
        ExecSandboxInfo info = {
                .is_known = true,
                .hello = { .n_interpreters = 3,
                           .interpreters = { "/x/python3", "/x/python3.12", "/x/python3.13" } },
        };
        const char *answer;

        s->python.facts = (PythonFacts){ .uv_path = "/usr/bin/uv",
                                         .uv_version = "0.13.9",
                                         .versions = { "3.13.5", "", "3.13.5" } };
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "\"text\":\"Python version: 3.13.5 (/x/python3)\\n"
                                "uv: 0.13.9 (/usr/bin/uv)\\n");
        ASSERT_CONTAINS(answer, "\\nInterpreters: 3.13.5 (/x/python3), 3.12 (/x/python3.12)\\n");
        ASSERT_CONTAINS(answer, "\"python\":\"3.13.5 (/x/python3)\",");
        ASSERT_CONTAINS(answer,
                        "\"uv\":\"/usr/bin/uv\",\"uv_version\":\"0.13.9\",\"sets\":0}}");

        s->settings->python_version = (char*) "3.12";
        ASSERT_CONTAINS(environment(s, &info), "\"Python version: 3.12 (/x/python3.12)\\nuv");
        s->settings->python_version = (char*) "3.1";
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "\"Python version: 3.1: not installed, so no program runs; --python-version "
                                "asks for it. Start the server without that option, or install it and name "
                                "it in Python= or ExtraPythons= of mcp-exec.conf\\nuv");
        ASSERT_CONTAINS(answer, "\"python\":\"3.1\",\"python_problem\":\"not installed, so no program "
                                "runs; ");
        s->settings->packages.allow_python_downloads = true;
        ASSERT_CONTAINS(environment(s, &info), "\"Python version: 3.1: not installed; --python-version "
                                               "asks for it, and it is downloaded before the first program "
                                               "runs\\nuv");
        s->settings->packages.allow_python_downloads = false;
        (void) strcpy(info.hello.interpreters[0], "/x/python");
        s->python.facts.versions[0] = "";
        ASSERT_CONTAINS(environment(s, &info), "\"Python version: 3.1\\nuv");
        s->settings->python_version = NULL;
        setup_free(s);
}

TEST(environment_tells_what_programs_get_that_name_no_packages) {
        char *system[] = { (char*) "six 1.17.0", NULL }, *own[] = { (char*) "numpy 2.3.1", NULL };
        Setup *s = setup_new(system);
        ExecSandboxInfo info = { .is_known = true };
        const char *answer;

        ASSERT_EQ_INT(str_copy(&s->settings->packages.default_requirements, "/etc/base.txt"), 0);
        s->python.facts = (PythonFacts){ .uv_path = "", .uv_version = "", .default_packages = own };
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "Cache warming: enabled, /etc/base.txt\\n");
        ASSERT_CONTAINS(answer, "Installed: numpy 2.3.1\\n"
                                "Default packages: being prepared, programs wait for them\\n");
        ASSERT_CONTAINS(answer, "\"installed\":[\"numpy 2.3.1\"],\"can_be_declared\":true,"
                                "\"default_ready\":false,\"offline\"");

        s->python.facts.is_default_ready = true;
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "Default packages: ready\\n");
        ASSERT_CONTAINS(answer, "\"default_ready\":true,\"offline\"");

        s->python.facts = (PythonFacts){ .uv_path = "", .uv_version = "",
                                         .default_problem = "There is no package x." };
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "Installed: six 1.17.0\\n"
                                "Default packages: missing, so programs run with what is installed: "
                                "There is no package x. Administrators: repair that, in the file that "
                                "DefaultRequirements= names");
        ASSERT_CONTAINS(answer, "\"installed\":[\"six 1.17.0\"],\"can_be_declared\":true,"
                                "\"default_ready\":false,"
                                "\"default_problem\":\"There is no package x.\"");
        answer = say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}");
        ASSERT_CONTAINS(answer,
                        "Importable: the standard library and 1 other distribution (importlib.metadata "
                        "lists them). More that this server should offer is missing at the moment; "
                        "check_environment says why. Other packages: ");
        setup_free(s);
}

TEST(few_default_packages_are_named_all_and_those_that_were_asked_for_first) {
        char *system[] = { (char*) "wheel 0.38.4", NULL };
        char *own[] = { (char*) "certifi 2026.1", (char*) "idna 3.10", (char*) "Pillow 11.0",
                        (char*) "requests 2.32.3", (char*) "six 1.17.0", NULL };
        char *asked[] = { (char*) "Six", (char*) "requests 2.32.3", (char*) "requests", (char*) "absent",
                          NULL };
        Setup *s = setup_new(system);
        const char *answer;

        s->python.facts = (PythonFacts){ .uv_path = "", .uv_version = "", .default_packages = own,
                                         .default_asked = asked, .is_default_ready = true };
        answer = say(s->f, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}");
        ASSERT_CONTAINS(answer, "Importable: the standard library, six 1.17.0, requests 2.32.3, Pillow 11.0 "
                                "(import PIL), certifi 2026.1, idna 3.10. Other packages: ");
        setup_free(s);
}

TEST(environment_says_when_nothing_runs_and_claims_no_protection_then) {
        Setup *s = setup_new(NULL);
        ExecSandboxInfo info = {
                .is_known = true,
                .hello = { .verdict = WIRE_VERDICT_REFUSED, .reason = "no seccomp", .remedy = "get one",
                           .manager_version_text = "252" },
        };
        const char *answer;

        s->python.facts = (PythonFacts){ .uv_path = "", .uv_version = "",
                                         .problem = "uv is missing: install it" };
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "\\nuv: none\\n");
        ASSERT_CONTAINS(answer, "\\nSandbox status: refused, nothing runs: no seccomp\\n");
        ASSERT_CONTAINS(answer, "\\nDeclared packages: not possible here: uv is missing: install it\\n");
        ASSERT_CONTAINS(answer, "\\nProtections: not proven, so nothing runs\"}]");
        ASSERT_CONTAINS(answer, "\"reason\":\"no seccomp\",\"remedy\":\"get one\",\"controllers\":[],"
                                "\"protections\":[]}");
        ASSERT_CONTAINS(answer, "\"can_be_declared\":false,\"problem\":\"uv is missing: install it\"");

        info = (ExecSandboxInfo){ .error = (char*) "the launcher is gone" };
        answer = environment(s, &info);
        ASSERT_CONTAINS(answer, "\\nSandbox status: unknown, nothing runs: the launcher is gone\\n");
        ASSERT_CONTAINS(answer, "\"status\":\"unknown\",\"reason\":\"the launcher is gone\"");
        setup_free(s);
}

TEST(a_cancelled_question_about_the_environment_does_no_harm) {
        Setup *s = setup_new(NULL);
        ExecSandboxInfo info = {};

        ASSERT_CONTAINS(call_tool(s, "check_environment", "{\"x\":1}", ""), "unknown argument \\\"x\\\"");
        ASSERT_EQ_STR(call_tool(s, "check_environment", "{}", ""), "");
        (void) say(s->f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":1}}");
        s->engine.on_info(&info, s->engine.info_userdata);
        ASSERT_EQ_STR(heard(s->f), "");
        /* Later, while the programs are asked. */
        ASSERT_EQ_STR(call_tool(s, "check_environment", "{}", ""), "");
        s->engine.on_info(&info, s->engine.info_userdata);
        ASSERT_TRUE(s->python.query.on_known != NULL);
        (void) say(s->f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                         "\"requestId\":1}}");
        ASSERT_TRUE(s->python.query.on_known == NULL);
        ASSERT_EQ_STR(call_tool(s, "check_environment", "{}", ""), ""); /* never answered */
        setup_free(s);
}
