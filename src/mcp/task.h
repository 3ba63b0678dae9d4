/* SPDX-License-Identifier: MIT */
#pragma once

/* The tasks extension (io.modelcontextprotocol/tasks): long calls that are answered with a handle. Only for
 * requests that declare it themselves. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "mcp/call.h"

#define MCP_TASKS_EXTENSION "io.modelcontextprotocol/tasks"

typedef enum McpTaskStatus {
        MCP_TASK_WORKING,
        MCP_TASK_COMPLETED, /* content and what follows tell the result of the call */
        MCP_TASK_CANCELLED,
        _MCP_TASK_STATUS_MAX,
} McpTaskStatus;

typedef struct McpTask {
        char id[64];
        McpTaskStatus status;
        Buffer message;                      /* empty: none */
        uint64_t created_usec, updated_usec; /* CLOCK_REALTIME */
        uint64_t ttl_usec;                   /* from created_usec on */
        uint64_t poll_usec;
        Buffer content, structured;          /* as for mcp_call_finish(); structured may be empty */
        bool is_error;
} McpTask;

void mcp_task_done(McpTask *t);
#define _cleanup_task_ _cleanup_(mcp_task_done)

enum {
        _MCP_TASK_E_SUCCESS,
        MCP_TASK_E_UNKNOWN, /* there is none, it is somebody else's, or it has expired: all the same */
        MCP_TASK_E_BUSY,    /* as many watch it as may; of watch() only */
};

/* One subscription to one task. Held by the room of tools between watch() and unwatch(). */
typedef struct McpTaskWatch McpTaskWatch;

/* Userdata is that of the tools. All return 0, a code above or -errno. */
typedef struct McpTaskOps {
        int (*get)(void *userdata, const char *principal, const char *id, McpTask *ret);
        /* Harmless when the task is over. */
        int (*cancel)(void *userdata, const char *principal, const char *id);
        /* mcp_task_watch_notify() is to be called, at any later time, when the task is over; unwatch()
         * follows in any case. A task that is over has *ret_handle NULL. */
        int (*watch)(void *userdata, const char *principal, const char *id, McpTaskWatch *w,
                     void **ret_handle);
        void (*unwatch)(void *userdata, void *handle);
} McpTaskOps;

/* The client of this call takes a task for an answer. */
bool mcp_call_takes_task(const McpCall *c);

/* The answer is the handle of this task; ends the call, as mcp_call_finish() does. */
void mcp_call_finish_task(McpCall *c, const McpTask *task);

/* Tells the subscriber the task's state. */
void mcp_task_watch_notify(McpTaskWatch *w);
