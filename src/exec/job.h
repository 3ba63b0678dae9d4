/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecJob: one request on its way from submission to its answer.
 *
 *      PREPARING --> QUEUED (only where packages are wanted)
 *
 *      QUEUED --> STARTING --> SENDING --> RUNNING --> ENDING --> COLLECTING --> DONE --> (freed)
 *         ^          |            |          | |         |           ^            | |
 *         +--retry---+------------+----------+ +-- dead -(-----------+            | |
 *                                                        +----- not dead ---------+ +-> LINGERING -> (freed)
 *
 * A job holds a slot from STARTING until its unit is dead, even if it was answered before (LINGERING). */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/random.h"
#include "exec/exec.h"
#include "exec/file-walk.h"
#include "exec/list.h"
#include "exec/queue.h"
#include "exec/result.h"
#include "exec/unit.h"

typedef enum JobState {
        JOB_QUEUED,    /* waits for a slot, or for the launcher */
        JOB_PREPARING, /* waits for its packages, before it is QUEUED */
        JOB_STARTING,  /* has a unit whose runner is not READY */
        JOB_SENDING,   /* the code is on its way */
        JOB_RUNNING,   /* the deadline's timer runs */
        JOB_ENDING,    /* killed for a recorded reason; the end is awaited for a short time only */
        JOB_COLLECTING, /* its unit is dead, and its files are read */
        JOB_DONE,      /* over; the engine delivers the result */
        JOB_LINGERING, /* answered, but its unit is not dead yet */
        _JOB_STATE_MAX,
} JobState;

struct ExecJob {
        ExecEngine *engine;
        ExecRequest *request;
        ExecJobHandlers handlers; /* all NULL once cancelled */
        void *userdata;

        JobState state;
        JobReason reason;
        char *explanation;        /* JOB_REASON_FAILED; NULL: the unit tells. JOB_REASON_UNPREPARED */
        ExecStatus unprepared_status;
        char *journal;            /* JOB_REASON_UNPREPARED: the explanation in our own words only */
        char run_id[RANDOM_HEX_ID_CHARS + 1];
        Unit *unit;
        char environment[SHA256_HEX_CHARS + 1]; /* as the request says, or as it was prepared */
        unsigned interpreter;
        char *phase;              /* PREPARING: what is done now */
        char **warnings;          /* of the preparation */
        bool has_slot, is_warm, is_retry;
        bool is_announced;
        bool has_met_tasks_max;   /* at its deadline: forks had been refused to it */
        bool had_ended_silently;  /* when we killed it, its streams had ended and nobody had told its end */
        uint64_t submitted_usec, prepared_usec, started_usec, sent_usec, ended_usec; /* 0: not yet */
        uint64_t answer_by_usec;  /* from RUNNING on: when the answer goes out, whatever is missing */
        sd_event_source *timer_source; /* PREPARING: its budget; RUNNING: the deadline; ENDING: the
                                        * patience with a kill; COLLECTING: that with a walk */
        FileWalk *walk;           /* from COLLECTING on */

        QueueItem queue_item;
        LIST_LINK(ExecJob) active; /* engine's jobs with a slot, or steps of a preparation */
        LIST_LINK(ExecJob) waiting; /* engine's: PREPARING, or steps that wait for the launcher */
        LIST_LINK(ExecJob) done;   /* engine's jobs to deliver */
};

/* Takes nothing. */
int job_new(ExecEngine *e, const ExecJobHandlers *handlers, void *userdata, ExecJob **ret);

/* Frees the request and the unit as well. The job must be in none of the engine's lists. */
ExecJob* job_free(ExecJob *j);
DEFINE_CLEANUP(ExecJob*, job_free);

/* Whoever waits for packages is told that the service stops: they can take much longer than it may. */
void job_give_up_all_preparing(ExecEngine *e);

/* A job with a preparation, before anything else. */
void job_prepare(ExecJob *j);

/* From the queue into a slot: takes a warm unit or starts one. */
void job_start(ExecJob *j);

/* The one place where a state changes. */
void job_set_state(ExecJob *j, JobState state);

/* A step of a preparation, of whatever profile: it holds no slot and waits in no queue, for its number is
 * bounded by whoever starts it. */
bool job_is_step(const ExecJob *j);

/* A warm unit has the first interpreter, without packages. */
bool job_may_be_warm(const ExecJob *j);

/* Over without a unit, or with the one it has dead or dying: explanation says why (copied). */
void job_fail(ExecJob *j, const char *explanation);

/* Its code was sent, and there is no sign that nobody read it. */
bool job_is_started(const ExecJob *j);

/* own: a principal's, 0 where it has none. */
static inline uint64_t smaller_limit(uint64_t common, uint64_t own) {
        return own > 0 ? MIN_OF(common, own) : common;
}

/* job-result.c: the verdict, from all that is known now. r borrows from the job; message and hints are the
 * caller's to free. */
void job_result(const ExecJob *j, ExecResult *r);
