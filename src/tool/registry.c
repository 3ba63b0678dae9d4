/* SPDX-License-Identifier: MIT */

#include "tool/registry.h"

#include <errno.h>

#include "tool/diagnostic.h"
#include "tool/sandbox-call.h"

/* In the order in which clients see them, which must never change by itself. */
static const Tool *const tools[] = {
        &tool_exec,
        &tool_get_run,
        &tool_cancel_run,
        &tool_execute_python,
        &tool_validate_script,
        &tool_check_environment,
        &tool_prepare,
        &tool_sets,
};

int tool_registry_new(const ToolRegistryParameters *p, ToolRegistry **ret) {
        ToolRegistry *r;

        assert(p && p->event && p->settings && p->engine && p->runs && p->python);
        assert(ret);

        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        *r = (ToolRegistry) {
                .event = sd_event_ref(p->event),
                .settings = p->settings,
                .engine = p->engine,
                .runs = p->runs,
                .python = p->python,
                .packages = p->packages,
                .interpreters = p->interpreters,
        };
        *ret = r;
        return 0;
}

ToolRegistry* tool_registry_free(ToolRegistry *r) {
        if (!r)
                return NULL;
        sandbox_calls_free(r);
        sd_event_unref(r->event);
        free(r);
        return NULL;
}

static const Tool* find_tool(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(tools); i++)
                if (streq(tools[i]->name, name))
                        return tools[i];
        return NULL;
}

static int list(void *userdata, McpVersion version, JsonWriter *w) {
        const ToolRegistry *registry = userdata;
        int r;

        json_begin_array(w);
        for (size_t i = 0; i < ELEMENTSOF(tools); i++) {
                if (!tools[i]->write)
                        continue;
                r = tools[i]->write(registry, version, w);
                if (r < 0)
                        return r;
        }
        r = diagnostic_list(registry, version, w);
        if (r < 0)
                return r;
        json_end_array(w);
        return 0;
}

static bool exists(void *userdata, const char *name) {
        (void) userdata;
        return find_tool(name) || diagnostic_exists(name);
}

static int call(void *userdata, const char *name, const JsonValue *arguments, McpCall *mcp_call) {
        const Tool *tool = find_tool(name);

        if (!tool && diagnostic_exists(name))
                return diagnostic_call(userdata, name, arguments, mcp_call);
        assert(tool); /* the engine asked exists() */
        return tool->call(userdata, arguments, mcp_call);
}

static void cancel(void *userdata, void *tool_data) {
        ToolCall *c = tool_data;

        (void) userdata;
        c->cancel(c);
}

const McpToolOps tool_registry_ops = {
        .list = list,
        .exists = exists,
        .call = call,
        .cancel = cancel,
        .required_capability = diagnostic_required_capability,
        .routing_header = diagnostic_routing_header,
};
