/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecEngine: runs programs. The one door through which tools and commands start code.
 *
 * ExecRequest (immutable) -> admission (slot, queue or busy) -> a unit (warm or new) -> ExecResult. The
 * engine holds the connection to the launcher, the pool and the queue; transports and JSON are unknown
 * here. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/capture.h"
#include "base/macro.h"
#include "base/random.h"
#include "base/settings.h"
#include "exec/files.h"
#include "exec/request.h"
#include "wire/wire.h"

typedef struct ExecResult {
        char run_id[RANDOM_HEX_ID_CHARS + 1];
        ExecStatus status;
        int exit_code;             /* 0..255; 128+n for a signal; -1 for a timeout and where none exists */
        int signal;                /* 0: none */
        uint64_t queued_usec, duration_usec; /* waiting; from code sent to program dead */
        uint64_t preparation_usec; /* waiting for its packages, before that */
        uint64_t cpu_usec;         /* WIRE_UNKNOWN when not accounted */
        uint64_t memory_peak_bytes;
        const Capture *out, *err;  /* borrowed from the job, valid during the callback */
        const ExecFiles *files;    /* the same; NULL where none are collected */
        char *message;             /* one sentence: what happened and what to do; NULL for EXEC_OK */
        char **hints;              /* warnings, and guesses from the last error line, each a sentence */
        bool did_run;              /* false: the program was never started; message says why */
        uint8_t presentation;      /* the request's */
        bool is_unprepared;        /* its packages cannot be had; message may quote uv or an index … */
        const char *journal;       /* … and this does not; borrowed from the job. NULL otherwise */
        char unit[64];
} ExecResult;

typedef struct ExecEngine ExecEngine;

/* Called from the event loop, never from within exec_engine_submit(). After on_done the job is gone.
 * Any of them may be NULL except on_done. */
typedef struct ExecJobHandlers {
        void (*on_started)(ExecJob *j, void *userdata);
        /* New raw output bytes, stream 1 or 2, as they come (before any limit of the reply). */
        void (*on_output)(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata);
        void (*on_done)(ExecJob *j, const ExecResult *result, void *userdata);
} ExecJobHandlers;

/* What the daemon knows about the sandbox, from HELLO. */
typedef struct ExecSandboxInfo {
        bool is_known;             /* a launcher answered */
        WireHello hello;           /* valid when is_known */
        char *error;               /* when not known: why (launcher missing …), with remedy */
} ExecSandboxInfo;

typedef struct ExecEngineParameters {
        sd_event *event;
        const Settings *settings;
        /* What programs can import, for messages: "numpy 1.24.2" and so on. Borrowed; may be NULL. */
        char *const *packages;
        /* Opens a connection to a launcher: a connected SOCK_SEQPACKET fd, or -errno with a sentence
         * (allocated) that says what is wrong and what to do. Called when there is work and no
         * connection. */
        int (*connect)(void *userdata, char **reterr_message);
        /* Asked before a request is admitted: what its principal may use. 0, or EXEC_E_BUSY with a sentence
         * (allocated) when it may not start anything now, or -errno. NULL: nobody has own limits. */
        int (*admit)(const char *principal, PrincipalLimits *ret, char **reterr_message, void *userdata);
        /* Every finished run, for the journal and the metrics; before the job's own on_done. */
        void (*on_finished)(const ExecRequest *request, const ExecResult *result, void *userdata);
        /* The number of runs and queued requests became zero or stopped being zero: for exit on idle. */
        void (*on_idle_changed)(bool is_idle, void *userdata);
        void *userdata;
} ExecEngineParameters;

int exec_engine_new(const ExecEngineParameters *p, ExecEngine **ret);

/* Stops every run and warm unit (their cgroups are killed), without callbacks. */
ExecEngine* exec_engine_free(ExecEngine *e);
DEFINE_CLEANUP(ExecEngine*, exec_engine_free);

enum {
        _EXEC_E_SUCCESS,
        EXEC_E_BUSY, /* queue full; *reterr_message (allocated) tells its state and what to do */
        EXEC_E_STOPPING, /* nothing is taken any more; likewise */
};

/* Takes the request on success only. Then exactly one on_done follows, unless exec_job_cancel() comes first.
 * Returns 0, EXEC_E_BUSY, EXEC_E_STOPPING, or -errno. */
int exec_engine_submit(ExecEngine *e, ExecRequest *take_request, const ExecJobHandlers *handlers,
                       void *userdata, ExecJob **ret, char **reterr_message);

/* Ends the run (queued, starting or running) with status cancelled. The handlers are not called any more;
 * the job pointer is invalid afterwards. The slot is free once the unit is dead. */
void exec_job_cancel(ExecJob *j);

/* Ends the run as well, but its handlers are still called: on_done with status cancelled follows. */
void exec_job_stop(ExecJob *j);

const char* exec_job_run_id(const ExecJob *j);
uint64_t exec_job_elapsed_usec(const ExecJob *j); /* since its code was sent, 0 before */
const Capture* exec_job_stream(const ExecJob *j, int stream);

/* Connects when necessary and reports once known. on_info is called from the event loop exactly once. */
int exec_engine_query_sandbox(ExecEngine *e, void (*on_info)(const ExecSandboxInfo *info, void *userdata),
                              void *userdata);
/* What is known now, without waiting. Borrowed, never NULL. */
const ExecSandboxInfo* exec_engine_sandbox(const ExecEngine *e);

/* Accept no new runs, and end those that wait for packages; on_idle_changed(true) tells when the last one is
 * done. For a graceful stop. */
void exec_engine_drain(ExecEngine *e);

size_t exec_engine_n_running(const ExecEngine *e);
size_t exec_engine_n_queued(const ExecEngine *e);
size_t exec_engine_n_warm(const ExecEngine *e); /* units that wait, or will soon, for a program */
