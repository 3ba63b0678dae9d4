/* SPDX-License-Identifier: MIT */

#include "tool/task.h"

#include <errno.h>

#include "exec/preparation.h"
#include "exec/size-text.h"
#include "tool/clean.h"
#include "tool/result.h"

#define POLL_USEC (5 * USEC_PER_SEC)
#define MESSAGE_BYTES_MAX 500

typedef struct TaskHandle {
        RunWatch watch;
        McpTaskWatch *subscription;
} TaskHandle;

static int describe_end(const ToolRegistry *registry, const ExecResult *result, McpTask *t) {
        JsonWriter w = JSON_WRITER_INIT(&t->content);
        int r;

        if (result->message) {
                r = clean_append(result->message, strlen(result->message), MESSAGE_BYTES_MAX, &t->message);
                if (r < 0)
                        return r;
        }
        if (result->status == EXEC_CANCELLED) {
                t->status = MCP_TASK_CANCELLED;
                return 0;
        }
        t->status = MCP_TASK_COMPLETED;
        if (result->did_run)
                return result_write(result, registry->settings, &t->content, &t->structured);
        t->is_error = true;
        json_begin_array(&w);
        json_begin_object(&w);
        json_key(&w, "type");
        json_string(&w, "text");
        json_key(&w, "text");
        json_string(&w, result->message ?: "The sandbox could not be started.");
        json_end_object(&w);
        json_end_array(&w);
        return json_writer_finish(&w);
}

static int describe(const ToolRegistry *registry, const Run *run, McpTask *t) {
        const char *phase;
        ExecResult result;
        int r;

        static_assert(sizeof(result.run_id) <= sizeof(t->id), "run ids fit into a task's");
        run_result(run, &result);
        *t = (McpTask) { .poll_usec = POLL_USEC };
        memcpy(t->id, result.run_id, sizeof(result.run_id));
        run_times(run, &t->created_usec, &t->updated_usec, &t->ttl_usec);
        if (run_is_over(run))
                return describe_end(registry, &result, t);
        t->status = MCP_TASK_WORKING;
        phase = exec_job_phase(run_job(run));
        if (*phase) {
                r = buffer_append_str(&t->message, "preparing: ");
                return r < 0 ? r : clean_append(phase, strlen(phase), MESSAGE_BYTES_MAX, &t->message);
        }
        if (result.duration_usec == 0)
                return buffer_append_str(&t->message, "waiting");
        return buffer_printf(&t->message, "running for %s",
                             size_text_usec(result.duration_usec / USEC_PER_SEC * USEC_PER_SEC).text);
}

void task_answer(const ToolRegistry *registry, McpCall *call, const Run *run) {
        _cleanup_task_ McpTask task = {};

        if (describe(registry, run, &task) < 0) /* of a handle only its words can fail */
                buffer_done(&task.message);
        mcp_call_finish_task(call, &task);
}

static int get(void *userdata, const char *principal, const char *id, McpTask *ret) {
        const ToolRegistry *registry = userdata;
        _cleanup_task_ McpTask task = {};
        const Run *run = run_table_find(registry->runs, principal, id);
        int r;

        if (!run)
                return MCP_TASK_E_UNKNOWN;
        r = describe(registry, run, &task);
        if (r < 0)
                return r;
        *ret = task;
        task = (McpTask) {};
        return 0;
}

static int cancel(void *userdata, const char *principal, const char *id) {
        const ToolRegistry *registry = userdata;
        Run *run = run_table_find(registry->runs, principal, id);

        if (!run)
                return MCP_TASK_E_UNKNOWN;
        run_stop(run);
        return 0;
}

static void on_end(RunWatch *w, const ExecResult *result) {
        const TaskHandle *h = (TaskHandle*) ((char*) w - offsetof(TaskHandle, watch));

        (void) result;
        mcp_task_watch_notify(h->subscription);
}

static int watch(void *userdata, const char *principal, const char *id, McpTaskWatch *w, void **ret_handle) {
        const ToolRegistry *registry = userdata;
        Run *run = run_table_find(registry->runs, principal, id);
        TaskHandle *h;

        if (!run)
                return MCP_TASK_E_UNKNOWN;
        *ret_handle = NULL;
        if (run_is_over(run))
                return 0;
        if (!run_has_room(run))
                return MCP_TASK_E_BUSY;
        h = malloc(sizeof(*h));
        if (!h)
                return -ENOMEM;
        *h = (TaskHandle) { .watch.on_end = on_end, .subscription = w };
        run_watch(run, &h->watch);
        *ret_handle = h;
        return 0;
}

static void unwatch(void *userdata, void *handle) {
        TaskHandle *h = handle;

        (void) userdata;
        run_unwatch(&h->watch);
        free(h);
}

const McpTaskOps tool_task_ops = {
        .get = get,
        .cancel = cancel,
        .watch = watch,
        .unwatch = unwatch,
};
