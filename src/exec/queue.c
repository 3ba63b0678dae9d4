/* SPDX-License-Identifier: MIT */

#include "exec/queue.h"

#include <errno.h>

#include "base/macro.h"
#include "base/strv.h"

static QueueLine* queue_find(const Queue *q, const char *principal) {
        for (QueueLine *l = q->lines.first; l; l = l->lines.next)
                if (streq(l->principal, principal))
                        return l;
        return NULL;
}

/* The caller adds it to the lines. */
static int queue_line_new(const char *principal, QueueLine **ret) {
        _cleanup_free_ QueueLine *l = NULL;
        int r;

        l = calloc(1, sizeof(QueueLine));
        if (!l)
                return -ENOMEM;
        r = str_copy(&l->principal, principal);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(l);
        return 0;
}

void queue_done(Queue *q _unused_) { /* used by assert() */
        assert(q);
        assert(!q->lines.first);
        assert(q->n_items == 0);
}

int queue_push(Queue *q, const char *principal, QueueItem *item) {
        QueueLine *l;
        int r;

        assert(q);
        assert(principal);
        assert(item && !item->line);

        l = queue_find(q, principal);
        if (!l) {
                r = queue_line_new(principal, &l);
                if (r < 0)
                        return r;
                LIST_APPEND(&q->lines, lines, l);
        }

        LIST_APPEND(&l->items, items, item);
        item->line = l;
        l->n_items++;
        q->n_items++;
        return 0;
}

int queue_push_front(Queue *q, const char *principal, QueueItem *item) {
        QueueLine *l;
        int r;

        assert(q);
        assert(principal);
        assert(item && !item->line);

        l = queue_find(q, principal);
        if (l)
                LIST_REMOVE(&q->lines, lines, l);
        else {
                r = queue_line_new(principal, &l);
                if (r < 0)
                        return r;
        }

        LIST_PREPEND(&q->lines, lines, l);
        LIST_PREPEND(&l->items, items, item);
        item->line = l;
        l->n_items++;
        q->n_items++;
        return 0;
}

void queue_remove(Queue *q, QueueItem *item) {
        QueueLine *l;

        assert(q);
        assert(item && item->line);

        l = item->line;
        LIST_REMOVE(&l->items, items, item);
        item->line = NULL;
        l->n_items--;
        q->n_items--;

        if (l->n_items == 0) {
                LIST_REMOVE(&q->lines, lines, l);
                free(l->principal);
                free(l);
        }
}

QueueItem* queue_pop_if(Queue *q, QueueMayStart may_start, void *userdata) {
        QueueItem *item;
        QueueLine *l;

        assert(q);

        for (l = q->lines.first; l && may_start && !may_start(l, userdata);)
                l = l->lines.next;
        if (!l)
                return NULL;

        /* The next one in turn is another principal's. */
        LIST_REMOVE(&q->lines, lines, l);
        LIST_APPEND(&q->lines, lines, l);

        item = l->items.first;
        queue_remove(q, item);
        return item;
}

QueueItem* queue_pop(Queue *q) {
        return queue_pop_if(q, NULL, NULL);
}
