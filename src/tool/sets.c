/* SPDX-License-Identifier: MIT */

/* mcp-exec.sets {remove?}: lists the sets of packages, or removes one. For `mcp-exec env`, which asks the
 * service itself, for it alone knows which sets are in use. Clients are not told of it, and it answers only
 * to root and to whoever started this server for himself: a set shows what others work with. */

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/strv.h"
#include "tool/sandbox-call.h"

typedef struct SetsCall {
        ToolCall head;
        McpCall *call; /* NULL: nobody waits any more, but the removal goes on */
} SetsCall;

static void write_strings(JsonWriter *w, const char *key, char *const *l) {
        json_key(w, key);
        json_begin_array(w);
        STRV_FOREACH(s, l)
                json_string(w, *s);
        json_end_array(w);
}

static int write_set(const PythonSet *s, void *userdata) {
        JsonWriter *w = userdata;

        json_begin_object(w);
        json_key(w, "name");
        json_string(w, s->name);
        write_strings(w, "requirements", s->requirements);
        write_strings(w, "packages", s->packages);
        json_key(w, "python");
        json_string(w, s->interpreter_version ?: "");
        json_key(w, "size_bytes");
        json_unsigned(w, s->size_bytes);
        json_key(w, "files");
        json_unsigned(w, s->n_files);
        json_key(w, "created_s");
        json_unsigned(w, s->created_usec / USEC_PER_SEC);
        json_key(w, "used_s");
        json_unsigned(w, s->used_usec / USEC_PER_SEC);
        json_key(w, "runs");
        json_unsigned(w, s->n_runs);
        json_end_object(w);
        return w->error;
}

static int write_sets(ToolRegistry *registry, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);
        PythonFacts facts;
        int r;

        python_facts(registry->python, &facts);
        json_begin_object(&w);
        json_key(&w, "problem");
        json_string(&w, facts.problem ?: "");
        json_key(&w, "sets");
        json_begin_array(&w);
        r = python_foreach_set(registry->python, write_set, &w);
        if (r < 0)
                return r;
        json_end_array(&w);
        json_end_object(&w);
        return json_writer_finish(&w);
}

static void list_sets(ToolRegistry *registry, McpCall *call) {
        _cleanup_buffer_ Buffer structured = BUFFER_INIT(0);

        if (write_sets(registry, &structured) >= 0)
                mcp_call_finish(call, "[]", structured.data, /* is_error= */ false);
        else
                mcp_call_fail(call, "The sets of packages cannot be listed.");
}

static void on_removed(int error, void *userdata) {
        _cleanup_free_ SetsCall *c = userdata;
        char why[160];

        if (!c->call)
                return;
        (void) snprintf(why, sizeof(why), "It could not be removed; see %s.",
                        log_place("the journal (journalctl -u mcp-exec -u mcp-exec-launcher)"));
        if (error == 0)
                mcp_call_finish(c->call, "[]", "{}", /* is_error= */ false);
        else
                mcp_call_fail(c->call, error == -ENOENT ? "There is no set of this name." :
                                       error == -EBUSY  ? "It is in use: by a program, so try again when "
                                                          "that has ended, or as DefaultRequirements=." :
                                                          why);
}

static void cancel(ToolCall *head) {
        SetsCall *c = (SetsCall*) head;

        c->call = NULL;
}

static int remove_set(ToolRegistry *registry, const char *name, McpCall *call) {
        _cleanup_free_ SetsCall *c = NULL;
        int r;

        c = malloc(sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (SetsCall) { .head.cancel = cancel, .call = call };
        r = python_remove_set(registry->python, name, on_removed, c);
        if (r < 0)
                return r;
        mcp_call_set_data(call, &TAKE_PTR(c)->head);
        return 0;
}

/* Where they are is known from the launcher. */
static void on_info(ToolRegistry *registry, McpCall *call, const ExecSandboxInfo *info, const char *name) {
        if (!info->is_known)
                mcp_call_fail(call, info->error ?: "The launcher does not answer.");
        else if (!name)
                list_sets(registry, call);
        else {
                mcp_call_set_data(call, NULL);
                if (remove_set(registry, name, call) < 0)
                        mcp_call_fail(call, "It cannot be removed now.");
        }
}

static bool is_administrator(const char *principal) {
        return principal && (streq(principal, "uid:0") || streq(principal, "local"));
}

static int call_sets(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        const JsonValue *remove = NULL;
        const JsonField fields[] = {
                { "remove", JSON_STRING, .ret = &remove },
        };
        _cleanup_free_ char *message = NULL;
        const char *name = NULL;
        int r;

        if (!is_administrator(mcp_call_principal(call))) {
                mcp_call_fail(call, "Only root may see and remove sets of packages.");
                return 0;
        }
        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        (void) json_get_string(remove, &name, NULL);
        return sandbox_call_new(registry, call, name, on_info);
}

const Tool tool_sets = {
        .name = "mcp-exec.sets",
        .call = call_sets,
};
