/* SPDX-License-Identifier: MIT */

#include "tool/sandbox-call.h"

#include <errno.h>

#include "base/strv.h"

struct SandboxCall {
        ToolCall head;
        ToolRegistry *registry;
        McpCall *call; /* NULL: nobody waits any more, but the engine's answer is to come */
        char *argument;
        void (*answer)(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info,
                       const char *argument);
        LIST_LINK(SandboxCall) calls;
};

static SandboxCall* sandbox_call_free(SandboxCall *c) {
        if (!c)
                return NULL;
        free(c->argument);
        free(c);
        return NULL;
}
DEFINE_CLEANUP(SandboxCall*, sandbox_call_free);

static void on_info(const ExecSandboxInfo *info, void *userdata) {
        _cleanup_(sandbox_call_freep) SandboxCall *c = userdata;

        LIST_REMOVE(&c->registry->sandbox_calls, calls, c);
        if (c->call)
                c->answer(c->registry, c->call, info, c->argument);
}

static void cancel(ToolCall *head) {
        SandboxCall *c = (SandboxCall*) head;

        c->call = NULL;
}

int sandbox_call_new(ToolRegistry *registry, McpCall *call, const char *argument,
                     void (*answer)(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info,
                                    const char *argument)) {
        _cleanup_(sandbox_call_freep) SandboxCall *c = NULL;
        int r;

        assert(registry);
        assert(call);
        assert(answer);

        c = malloc(sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (SandboxCall) {
                .head.cancel = cancel,
                .registry = registry,
                .call = call,
                .answer = answer,
        };
        r = str_copy(&c->argument, argument);
        if (r < 0)
                return r;
        r = exec_engine_query_sandbox(registry->engine, on_info, c);
        if (r < 0)
                return r;
        LIST_APPEND(&registry->sandbox_calls, calls, c);
        mcp_call_set_data(call, &TAKE_PTR(c)->head);
        return 0;
}

void sandbox_calls_free(ToolRegistry *registry) {
        SandboxCall *c;

        assert(registry);

        while ((c = registry->sandbox_calls.first)) {
                LIST_REMOVE(&registry->sandbox_calls, calls, c);
                (void) sandbox_call_free(c);
        }
}
