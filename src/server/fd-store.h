/* SPDX-License-Identifier: MIT */
#pragma once

/* FdStore: kept results in the service manager's hands, so that they outlive this process. */

#include <stdbool.h>

#include "exec/run-table.h"

/* Results that an earlier process left: descriptors, and the names they are stored under. */
typedef struct StoredResults {
        int fds[RUNS_KEPT_MAX];
        char *names[RUNS_KEPT_MAX];
        size_t n_results;
} StoredResults;

/* Does this name of an inherited descriptor say that it is a result? */
bool fd_store_is_name(const char *name);

/* Takes fd in any case; what there is no room or memory for is removed from the store. */
void stored_results_add(StoredResults *s, int take_fd, const char *name);

/* Gives them to the table; what cannot be used is removed from the store. */
void stored_results_restore(StoredResults *s, RunTable *runs);
void stored_results_done(StoredResults *s);

/* Without a service manager, or with one that does not store, nothing happens. */
void fd_store_push(const char *run_id, int fd);
void fd_store_remove(const char *run_id);
