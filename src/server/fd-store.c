/* SPDX-License-Identifier: MIT */

#include "server/fd-store.h"

#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "server/notify.h"

#define NAME_PREFIX "run-"

bool fd_store_is_name(const char *name) {
        assert(name);
        return strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0;
}

void fd_store_push(const char *run_id, int fd) {
        char message[200];
        int r;

        assert(run_id);

        (void) snprintf(message, sizeof(message), "FDSTORE=1\nFDPOLL=0\nFDNAME=" NAME_PREFIX "%s", run_id);
        r = notify_now(message, fd);
        if (r < 0)
                (void) log_warning_errno(r, "The result of run %s would not survive a restart", run_id);
}

static void remove_name(const char *name) {
        _cleanup_free_ char *message = NULL;

        if (str_printf(&message, "FDSTOREREMOVE=1\nFDNAME=%s", name) >= 0)
                (void) notify_now(message, -EBADF);
}

void fd_store_remove(const char *run_id) {
        char name[100];

        assert(run_id);

        (void) snprintf(name, sizeof(name), NAME_PREFIX "%s", run_id);
        remove_name(name);
}

void stored_results_add(StoredResults *s, int take_fd, const char *name) {
        assert(s);
        assert(name);

        if (s->n_results < RUNS_KEPT_MAX && str_copy(&s->names[s->n_results], name) >= 0) {
                s->fds[s->n_results++] = take_fd;
                return;
        }
        remove_name(name);
        (void) safe_close(take_fd);
}

void stored_results_restore(StoredResults *s, RunTable *runs) {
        size_t n_restored = 0;
        int r;

        assert(s);
        assert(runs);

        for (size_t i = 0; i < s->n_results; i++) {
                r = run_table_restore(runs, s->fds[i]);
                if (r >= 0) {
                        s->fds[i] = -EBADF;
                        n_restored++;
                        continue;
                }
                (void) log_warning_errno(r, "A kept result cannot be read any more");
                remove_name(s->names[i]);
        }
        if (n_restored > 0)
                log_debug("%zu kept results were taken over", n_restored);
        stored_results_done(s);
}

void stored_results_done(StoredResults *s) {
        assert(s);

        for (size_t i = 0; i < s->n_results; i++) {
                s->fds[i] = safe_close(s->fds[i]);
                free(TAKE_PTR(s->names[i]));
        }
        s->n_results = 0;
}
