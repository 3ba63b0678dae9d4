/* SPDX-License-Identifier: MIT */
#pragma once

/* RunTable: runs that can outlive the call that began them, and results that can outlive the run.
 *
 *      submit --> attached --detach--> background --end--> kept --time, memory--> (gone)
 *                    |  \--end, keep---------------------^
 *                    +--end or abandon--> (gone)
 *
 * An attached run belongs to one call, which ends it when its client gives up. A background run belongs to
 * its principal, who finds it by its id. What is kept may survive this process (see on_kept). */

#include <systemd/sd-event.h>

#include "base/settings.h"
#include "exec/exec.h"
#include "exec/list.h"

/* Kept at the same time, whoever owns them: FileDescriptorStoreMax= of mcp-exec.service. */
#define RUNS_KEPT_MAX 128
/* Of one run. All of them are told of its end in one turn of the event loop, most with the whole result, and
 * nobody else is served meanwhile: a thousand would take longer than any deadline may be late. */
#define RUN_WATCHES_MAX 32

typedef struct RunTable RunTable;
typedef struct Run Run;

/* Whoever wants to know of one run. Embedded in its owner; zero is a watch that watches nothing. */
typedef struct RunWatch RunWatch;
struct RunWatch {
        /* Raw bytes as they come; may be NULL. */
        void (*on_output)(RunWatch *w, int stream, const void *data, size_t n_bytes);
        /* Once, at the end; the watch is off already. Not after run_abandon(). */
        void (*on_end)(RunWatch *w, const ExecResult *result);
        Run *run;
        LIST_LINK(RunWatch) watches;
};

typedef struct RunTableParameters {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        /* A result is kept from now on; fd is a sealed memfd that run_table_restore() reads again. It is
         * closed when this returns. May be NULL. */
        void (*on_kept)(const char *run_id, int fd, void *userdata);
        /* It is kept no longer. Not called by run_table_free(). May be NULL. */
        void (*on_dropped)(const char *run_id, void *userdata);
        void *userdata;
} RunTableParameters;

int run_table_new(const RunTableParameters *p, RunTable **ret);
RunTable* run_table_free(RunTable *t); /* runs go on without it: free the engine next */
DEFINE_CLEANUP(RunTable*, run_table_free);

/* A result that an earlier process kept. Takes fd on success only; -EBADMSG: it cannot be used. */
int run_table_restore(RunTable *t, int take_fd);

/* As exec_engine_submit(): takes the request on success only. The run is attached: exactly one of
 * run_detach(), run_abandon() and its end follows. */
int run_table_submit(RunTable *t, ExecRequest *take_request, Run **ret, char **reterr_message);

/* A background run or a kept result of this principal; NULL for all others alike. */
Run* run_table_find(RunTable *t, const char *principal, const char *run_id);

size_t run_table_n_kept(const RunTable *t);
uint64_t run_table_kept_bytes(const RunTable *t); /* at most ResultMemoryMax= */

bool run_has_room(const Run *r);       /* fewer than RUN_WATCHES_MAX watch it */
void run_watch(Run *r, RunWatch *w); /* the run is not over, and has room */
void run_unwatch(RunWatch *w);

void run_detach(Run *r);  /* it runs on in the background */
void run_keep(Run *r);    /* its result is kept although its call lives; also from within on_end */
void run_abandon(Run *r); /* attached only: ends it; r is invalid afterwards, and its watches are off */
void run_stop(Run *r);    /* ends it with status cancelled; harmless when it is over */

bool run_is_over(const Run *r);
const char* run_id(const Run *r);
uint64_t run_timeout_usec(const Run *r); /* as admission left it */
uint64_t run_asked_timeout_sec(const Run *r); /* 0: none */
ExecJob* run_job(const Run *r); /* NULL when it is over */

/* What is known now: the end, or EXEC_RUNNING with the output so far. Borrows from the run. */
void run_result(const Run *r, ExecResult *ret);

/* Times of the clock on the wall, and how long after its begin the run or its result is there at least. */
void run_times(const Run *r, uint64_t *ret_created_usec, uint64_t *ret_updated_usec, uint64_t *ret_ttl_usec);

/* Up to where its owner has seen the output, by stream (1, 2). */
uint64_t run_looked(const Run *r, int stream);
void run_note_look(Run *r); /* all of what is there now */
