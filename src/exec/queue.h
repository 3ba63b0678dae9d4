/* SPDX-License-Identifier: MIT */
#pragma once

/* Queue: who waits for a slot. One line per principal, served in turn, so that a principal with many
 * requests does not make another one with a single request wait behind all of them. Bounds are the
 * caller's. */

#include <stdbool.h>
#include <stddef.h>

#include "exec/list.h"

typedef struct QueueItem QueueItem;
typedef struct QueueLine QueueLine;

/* Embedded in what waits. */
struct QueueItem {
        QueueLine *line; /* NULL: does not wait */
        LIST_LINK(QueueItem) items;
};

/* The items of one principal, oldest first. */
struct QueueLine {
        char *principal;
        size_t n_items;
        LIST_HEAD(QueueItem) items;
        LIST_LINK(QueueLine) lines;
};

typedef struct Queue {
        LIST_HEAD(QueueLine) lines; /* the first one is served next */
        size_t n_items;
} Queue;

/* Asserts that it is empty. */
void queue_done(Queue *q);

/* Returns 0 or -ENOMEM. */
int queue_push(Queue *q, const char *principal, QueueItem *item);

/* For what was served once and must be served again: it comes next. Returns 0 or -ENOMEM. */
int queue_push_front(Queue *q, const char *principal, QueueItem *item);

/* The next one whose principal may have it now (may_start NULL: each); NULL when there is none. */
typedef bool (*QueueMayStart)(const QueueLine *line, void *userdata);
QueueItem* queue_pop_if(Queue *q, QueueMayStart may_start, void *userdata);

/* NULL when nobody waits. */
QueueItem* queue_pop(Queue *q);

void queue_remove(Queue *q, QueueItem *item);
