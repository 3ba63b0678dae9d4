/* SPDX-License-Identifier: MIT */

/* check_environment {}: what runs here, and behind which walls. The first nine lines are the predecessor's;
 * everything is asked from the launcher at the time of the call, versions from the programs themselves once
 * they are others. */

#include <errno.h>
#include <sys/utsname.h>

#include "base/strv.h"
#include "tool/environment.h"
#include "tool/exec.h"
#include "tool/interpreters.h"
#include "tool/sandbox-call.h"
#include "tool/schema.h"

typedef struct EnvironmentCall {
        ToolCall head;
        ToolRegistry *registry;
        McpCall *call;
        PythonQuery *query;
} EnvironmentCall;

static int count_set(const PythonSet *s, void *userdata) {
        EnvironmentFacts *f = userdata;

        f->n_sets++;
        return s->has_own_interpreter ?
                       tool_interpreters_add("of a set of packages", s->interpreter_version,
                                             &f->interpreters) :
                       0;
}

static int learn(const ToolRegistry *registry, const ExecSandboxInfo *info, EnvironmentFacts *f) {
        int r;

        *f = (EnvironmentFacts) {
                .settings = registry->settings,
                .sandbox = info,
        };
        if (uname(&f->machine) < 0)
                f->machine = (struct utsname) { .sysname = "Linux", .machine = "unknown" };
        python_facts(registry->python, &f->python);
        f->packages = f->python.default_packages ?: registry->packages;
        if (!info->is_known)
                return tool_interpreters_scan(registry->settings, &f->interpreters);
        for (size_t i = 0; i < ELEMENTSOF(info->hello.interpreters); i++)
                if (*info->hello.interpreters[i]) {
                        r = tool_interpreters_add(info->hello.interpreters[i], f->python.versions[i],
                                                  &f->interpreters);
                        if (r < 0)
                                return r;
                }
        /* A directory that cannot be looked into has none to tell of. */
        r = python_foreach_set(registry->python, count_set, f);
        return r == -ENOMEM ? r : 0;
}

/* ---- The call ---- */

static void answer(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info) {
        _cleanup_buffer_ Buffer content = BUFFER_INIT(0), structured = BUFFER_INIT(0);
        EnvironmentFacts facts;

        if (learn(registry, info, &facts) >= 0 && environment_write(&facts, &content, &structured) >= 0)
                mcp_call_finish(call, content.data, structured.data, /* is_error= */ false);
        else
                mcp_call_fail(call, "The server is out of memory. Try again later.");
        strv_free(facts.interpreters);
}

static void on_versions(void *userdata) {
        _cleanup_free_ EnvironmentCall *c = userdata;

        answer(c->registry, c->call, exec_engine_sandbox(c->registry->engine));
}

static void cancel(ToolCall *head) {
        _cleanup_free_ EnvironmentCall *c = (EnvironmentCall*) head;

        python_query_cancel(c->query);
}

/* The launcher has told what it knows; what it does not run by itself says its version in a unit. */
static void ask_versions(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info,
                         const char *argument) {
        _cleanup_free_ EnvironmentCall *c = NULL;

        (void) argument;
        c = malloc(sizeof(*c));
        if (c) {
                *c = (EnvironmentCall) { .head.cancel = cancel, .registry = registry, .call = call };
                if (python_ask_versions(registry->python, mcp_call_principal(call), on_versions, c,
                                        &c->query) >= 0) {
                        mcp_call_set_data(call, &TAKE_PTR(c)->head);
                        return;
                }
        }
        answer(registry, call, info);
}

static int call_check_environment(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = json_read_object(arguments, NULL, NULL, 0, &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        return sandbox_call_new(registry, call, NULL, ask_versions);
}

static int write_check_environment(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char title[] = "Tell about the sandbox",
                          description[] =
                                  "Tells which Python versions and packages there are, whether scripts can "
                                  "declare more, the limits of a run, and which protections of the sandbox "
                                  "were found to work on this machine.";
        static const ToolHints hints = { .is_read_only = true, .is_idempotent = true };

        (void) registry;
        exec_tool_write_head(w, version, tool_check_environment.name, title, description,
                             strlen(description));
        schema_write(w, NULL, 0, /* is_closed= */ true);
        if (version >= MCP_2025_06_18) {
                json_key(w, "outputSchema");
                environment_write_schema(w);
        }
        exec_tool_write_annotations(w, version, title, &hints);
        json_end_object(w);
        return 0;
}

const Tool tool_check_environment = {
        .name = "check_environment",
        .write = write_check_environment,
        .call = call_check_environment,
};
