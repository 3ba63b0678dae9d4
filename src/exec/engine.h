/* SPDX-License-Identifier: MIT */
#pragma once

/* The engine's inside: what engine.c and job.c share. Everybody else includes exec/exec.h.
 *
 * Nothing is delivered, started or freed from within a callback of a unit or of the launcher's client. They
 * note what happened and ask for an update, and engine_update() does the rest in the event loop's next turn.
 * So no callback can pull the ground from under another one. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "exec/exec.h"
#include "exec/hints.h"
#include "exec/job.h"
#include "exec/launcher-client.h"
#include "exec/list.h"
#include "exec/pool.h"
#include "exec/preparation.h"
#include "exec/queue.h"
#include "exec/unit.h"

/* Constants in the daemon; tests shorten them. */
typedef struct EngineTimes {
        uint64_t hello_usec;  /* connection to HELLO: the launcher's self-test is in it */
        uint64_t ready_usec;  /* START to STARTED, STARTED to READY, READY to the whole code */
        uint64_t answer_usec; /* a kill to an answer without FINISHED */
        uint64_t files_usec;  /* for reading what a run left, where its deadline leaves so much */
        uint64_t dead_usec;   /* a kill to FINISHED; then the launcher is given up */
        uint64_t pause_usec;  /* a warm unit taken to the start of the next, while programs run */
} EngineTimes;

typedef struct EngineQuery EngineQuery;
struct EngineQuery {
        void (*on_info)(const ExecSandboxInfo *info, void *userdata);
        void *userdata;
        LIST_LINK(EngineQuery) queries;
};

typedef struct SetChange SetChange;

struct ExecEngine {
        ExecEngineParameters parameters;
        sd_event *event;
        const Settings *settings;
        EngineTimes times;
        unsigned n_slots;

        LauncherClient *client;
        ExecSandboxInfo sandbox;
        bool is_news;  /* sandbox was just (not) learned: who asked is told now */
        LIST_HEAD(EngineQuery) queries;

        LIST_HEAD(SetChange) set_changes;

        Queue queue;
        LIST_HEAD(ExecJob) active;
        size_t n_active;
        LIST_HEAD(ExecJob) preparing; /* who waits for packages; counts as waiting in the queue */
        size_t n_preparing;
        LIST_HEAD(ExecJob) steps_waiting, steps; /* of preparations: for the launcher, and with a unit */
        size_t n_steps;
        LIST_HEAD(ExecJob) done;
        Pool pool;

        sd_event_source *update_source;
        bool is_draining, is_idle;
};

/* exec_engine_new() with other times, for tests. */
int engine_new_with_times(const ExecEngineParameters *p, const EngineTimes *times, ExecEngine **ret);

void engine_update_soon(ExecEngine *e);

/* The job is over: its result goes out with the next update. */
void engine_deliver(ExecEngine *e, ExecJob *j);

/* The job's unit ended before it had the code: back to the front of the queue, without the unit. */
void engine_requeue(ExecEngine *e, ExecJob *j);

/* slots.c */
int engine_line_up(ExecEngine *e, const ExecRequest *request, ExecJob *j); /* 0 or -ENOMEM */
void engine_leave_preparing(ExecEngine *e, ExecJob *j);
void engine_leave_queue(ExecEngine *e, ExecJob *j);
void engine_occupy(ExecEngine *e, ExecJob *j);
void engine_release(ExecEngine *e, ExecJob *j);
void engine_fail_queued(ExecEngine *e, const char *explanation);
void engine_update_lingering(ExecEngine *e); /* frees what is answered and dead by now */

/* True when START may be sent now. Otherwise whoever waits is failed, or an update follows. */
bool engine_is_connected(ExecEngine *e);

/* set-change.c */
void engine_update_set_changes(ExecEngine *e);
void engine_fail_set_changes(ExecEngine *e, const char *why); /* those that were not sent */
void engine_drop_set_changes(ExecEngine *e);

/* The service manager started no unit for the job in all the time it had. */
void engine_start_overdue(ExecEngine *e, ExecJob *j);

/* admission.c. engine_admit() returns 0, EXEC_E_BUSY or EXEC_E_STOPPING with a sentence, or -errno. */
ExecJob* job_of_queue_item(QueueItem *item);
bool engine_may_start(const QueueLine *line, void *userdata);
int engine_admit(const ExecEngine *e, const ExecRequest *request, PrincipalLimits *limits,
                 char **reterr_message);

void engine_unit_parameters(const ExecEngine *e, uint64_t runtime_usec, UnitParameters *ret);
HintFacts engine_hint_facts(const ExecEngine *e);
