/* SPDX-License-Identifier: MIT */
#pragma once

/* Tasks and subscriptions, as the files of this room share them. */

#include "mcp/internal.h"

/* Part of a subscription, allocated with all the others of it. */
struct McpTaskWatch {
        McpCall *subscription;
        char *id;
        void *handle; /* NULL: the task was over at once */
};

/* The methods of the extension. */
int mcp_tasks_get(const McpRequest *q);
int mcp_tasks_update(const McpRequest *q);
int mcp_tasks_cancel(const McpRequest *q);

bool mcp_request_declares_tasks(const McpRequest *q);
int mcp_tasks_refuse_undeclared(const McpRequest *q);
void mcp_task_write(JsonWriter *w, const McpTask *t); /* its members, within an object */

/* task_ids: NULL, or an array whose elements are strings for sure. */
int mcp_subscription_new(const McpRequest *q, const JsonValue *task_ids);
void mcp_subscription_unwatch(McpCall *c); /* harmless for calls that are none */
void mcp_subscription_end(McpCall *c);
