/* SPDX-License-Identifier: MIT */
#pragma once

/* An engine with a fake launcher behind it, and runs to submit to it. One rig at a time; rig_setup() clears
 * away what a failed case before left. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/engine.h"
#include "fake-launcher.h"

typedef struct Rig {
        sd_event *event;
        Settings *settings;
        FakeLauncher *launcher;
        ExecEngine *engine;
        unsigned n_finished;      /* on_finished calls */
        char finished_words[256]; /* their statuses, each followed by a space */
        unsigned n_idle, n_busy;  /* on_idle_changed calls */
        PrincipalLimits limits;   /* of the principal "limited" and its users, limited/USER */
        int connect_error;        /* not 0: connect fails with it */
        const char *input_name, *input_text; /* a file for each program; NULL: none */
} Rig;

/* One run and what became of it. Zero it, submit it, wait for it. */
typedef struct Run {
        ExecJob *job;
        unsigned n_done, n_started;
        uint64_t submitted_usec, started_usec, done_usec;
        ExecStatus status;
        int exit_code, signal;
        uint64_t duration_usec, queued_usec, preparation_usec, cpu_usec, memory_peak_bytes;
        uint64_t out_bytes, err_bytes, seen_bytes[3];
        char out[4096], err[4096], message[1024], hints[1024], run_id[RANDOM_HEX_ID_CHARS + 1], unit[64];
        char files[2048];         /* each path, "=" and the content, or "!" and the reason's number */
        uint64_t n_more_files;
        unsigned file_gaps;
        bool has_files;
        bool did_run;
} Run;

/* script may be NULL. Afterwards settings may be changed until the first use of rig_engine(). */
Rig* rig_setup(const FakeScript *script);
ExecEngine* rig_engine(Rig *rig);
void rig_teardown(Rig *rig);

/* Times that suit tests: READY within 300 ms, HELLO within 500 ms, FINISHED within 1 s of a kill. */
extern const EngineTimes rig_times;

/* As principal, with stdin (may be NULL) and a time limit. Returns what exec_engine_submit() does;
 * message (may be NULL) gets its sentence. */
int rig_submit_as(Rig *rig, Run *run, const char *principal, const char *code, const char *input,
                  uint64_t timeout_usec, char message[static 512]);
void rig_submit(Rig *rig, Run *run, const char *code);

/* The same in two steps, for what else a request can say. */
ExecRequest* rig_request(const char *principal, const char *code, const char *input, uint64_t timeout_usec);
int rig_submit_request(Rig *rig, Run *run, ExecRequest *take_request, char message[static 512]);

/* Turns the event loop until condition holds; false after 20 s. */
bool rig_wait(Rig *rig, bool (*condition)(const void *data), const void *data);
bool rig_wait_done(Rig *rig, const Run *run);
bool rig_wait_idle(Rig *rig);
void rig_turn(Rig *rig, uint64_t usec); /* for that long */

/* Submits and waits. */
void rig_run(Rig *rig, Run *run, const char *code);

unsigned rig_n_fds(void);
