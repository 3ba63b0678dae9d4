/* SPDX-License-Identifier: MIT */

#include "exec/file-list.h"

#include <stdlib.h>

#include "base/macro.h"

static void candidate_done(FileCandidate *c) {
        free(c->path);
        free(c->data);
        *c = (FileCandidate) {};
}

static int compare(const FileCandidate *a, const FileCandidate *b) {
        return a->depth != b->depth ? (a->depth < b->depth ? -1 : 1) : strcmp(a->path, b->path);
}

int file_list_init(FileList *l, size_t max_items) {
        assert(l);
        assert(max_items > 0);

        *l = (FileList) { .max_items = max_items };
        l->items = calloc(max_items, sizeof(FileCandidate));
        return l->items ? 0 : -ENOMEM;
}

void file_list_done(FileList *l) {
        for (size_t i = 0; i < l->n_items; i++)
                candidate_done(l->items + i);
        free(l->items);
        *l = (FileList) {};
}

unsigned file_list_insert(FileList *l, FileCandidate take_c) {
        size_t low = 0, high = l->n_items;
        unsigned n_lost = 0;

        assert(l);
        assert(take_c.path);

        if (l->n_items == l->max_items) {
                n_lost = 1;
                if (compare(&take_c, l->items + high - 1) >= 0) {
                        candidate_done(&take_c);
                        return n_lost;
                }
                candidate_done(l->items + high - 1);
                high = --l->n_items;
        }
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(&take_c, l->items + middle) < 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        memmove(l->items + low + 1, l->items + low, (l->n_items - low) * sizeof(FileCandidate));
        l->items[low] = take_c;
        l->n_items++;
        return n_lost;
}
