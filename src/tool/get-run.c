/* SPDX-License-Identifier: MIT */

/* get_run {run_id, wait_s?, offset?} and cancel_run {run_id}: runs that outlive their call. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "exec/size-text.h"
#include "tool/exec.h"
#include "tool/run-call.h"
#include "tool/schema.h"

/* Clients give up after 60 s. */
#define WAIT_SEC_MAX 45

typedef struct GetRunArguments {
        const JsonValue *run_id, *wait_s, *offset;
} GetRunArguments;

/* One answer to ids that never were, that are somebody else's, and that have expired: nobody can find out
 * which. */
static void refuse_unknown(const ToolRegistry *registry, McpCall *call) {
        char text[200];

        (void) snprintf(text, sizeof(text),
                        "There is no run with this run_id, or it is not yours, or its result has expired "
                        "(results are kept for %s).",
                        size_text_usec(registry->settings->result_keep_usec).text);
        mcp_call_fail(call, text);
}

static Run* find_run(const ToolRegistry *registry, const McpCall *call, const JsonValue *v) {
        const char *id;

        (void) json_get_string(v, &id, NULL);
        return run_table_find(registry->runs, mcp_call_principal(call), id);
}

static int call_get_run(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        GetRunArguments a = {};
        const JsonField fields[] = {
                { "run_id", JSON_STRING, .is_required = true, .ret = &a.run_id },
                { "wait_s", JSON_NUMBER, .accepts_null = true, .ret = &a.wait_s },
                { "offset", JSON_NUMBER, .accepts_null = true, .ret = &a.offset },
        };
        _cleanup_free_ char *message = NULL;
        RunCallParameters p = { .registry = registry, .call = call, .view.part = RESULT_NEWS };
        int64_t wait_s = 0, offset = 0;
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        if (a.wait_s)
                (void) json_get_integer(a.wait_s, &wait_s);
        if (a.offset) {
                (void) json_get_integer(a.offset, &offset);
                if (offset < 0) {
                        mcp_call_fail(call, "offset must not be negative");
                        return 0;
                }
                p.view = (ResultView){ .part = RESULT_PAGE,
                                       .from = { (uint64_t) offset, (uint64_t) offset } };
        }
        p.run = find_run(registry, call, a.run_id);
        if (!p.run)
                return refuse_unknown(registry, call), 0;
        if (run_is_over(p.run)) {
                run_call_answer(registry, call, p.run, &p.view);
                return 0;
        }
        if (wait_s > 0)
                p.wait_usec = (uint64_t) MIN_OF(wait_s, (int64_t) WAIT_SEC_MAX) * USEC_PER_SEC;
        return run_call_new(&p);
}

static int call_cancel_run(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        const JsonValue *run_id = NULL;
        const JsonField fields[] = {
                { "run_id", JSON_STRING, .is_required = true, .ret = &run_id },
        };
        _cleanup_free_ char *message = NULL;
        RunCallParameters p = { .registry = registry, .call = call, .wait_usec = RUN_CALL_FOR_EVER };
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        p.run = find_run(registry, call, run_id);
        if (!p.run)
                return refuse_unknown(registry, call), 0;
        if (run_is_over(p.run)) { /* nothing to end, and how it ended is the answer */
                run_call_answer(registry, call, p.run, &p.view);
                return 0;
        }
        r = run_call_new(&p);
        if (r < 0)
                return r;
        run_stop(p.run);
        return 0;
}

/* ---- What clients are told ---- */

static const char run_id_text[] = "The run_id of the answer that said \"running\", or of a truncated one.";

static int write_get_run(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char title[] = "Get a running program's result";
        static const ToolHints hints = { .is_read_only = true };
        const SchemaProperty properties[] = {
                { "run_id", "string", run_id_text, .is_required = true },
                { "wait_s", "integer",
                  "Wait up to this many seconds for the end of the program; 0 by default, at most 45." },
                { "offset", "integer",
                  "Show the captured output from this byte on, of both streams: 0, then each next_offset.",
                  .more = "\"minimum\":0" },
        };
        char description[600];

        (void) snprintf(description, sizeof(description),
                        "Tells how a program is doing that exec or execute_python answered with status "
                        "\"running\": what it printed since the last look while it runs, the whole result "
                        "once it has ended. With offset it reads all captured output page by page, also of "
                        "a finished program whose output was truncated; next_offset is there as long as "
                        "there is more. Results are kept for %s after the end.",
                        size_text_usec(registry->settings->result_keep_usec).text);
        exec_tool_write_head(w, version, tool_get_run.name, title, description, strlen(description));
        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ true);
        return exec_tool_write_tail(w, version, title, &hints, /* has_pages= */ true);
}

static int write_cancel_run(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char title[] = "End a running program";
        static const ToolHints hints = { .is_idempotent = true };
        const SchemaProperty properties[] = {
                { "run_id", "string", run_id_text, .is_required = true },
        };

        static const char description[] =
                "Ends a program that exec or execute_python answered with status \"running\", and returns "
                "what it had printed. For a program that has ended already it returns its result.";

        (void) registry;
        exec_tool_write_head(w, version, tool_cancel_run.name, title, description, strlen(description));
        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ true);
        return exec_tool_write_tail(w, version, title, &hints, /* has_pages= */ false);
}

const Tool tool_get_run = {
        .name = "get_run",
        .write = write_get_run,
        .call = call_get_run,
};

const Tool tool_cancel_run = {
        .name = "cancel_run",
        .write = write_cancel_run,
        .call = call_cancel_run,
};
