/* SPDX-License-Identifier: MIT */
#pragma once

/* The verdict on a run: from what systemd reported and what we recorded, never from a guess. */

#include <stdbool.h>
#include <stdint.h>

#include "exec/exec.h"
#include "exec/hints.h"
#include "exec/unit.h"
#include "wire/wire.h"

/* Why we ended a run, noted before the kill is sent. */
typedef enum JobReason {
        JOB_REASON_NONE,
        JOB_REASON_TIMEOUT,
        JOB_REASON_CANCELLED,
        JOB_REASON_OUTPUT_LIMIT,
        JOB_REASON_FAILED, /* something of ours does not work */
        JOB_REASON_UNPREPARED, /* its packages cannot be had */
} JobReason;

/* Everything that the verdict depends on. */
typedef struct ResultFacts {
        JobReason reason;
        bool is_sent;                  /* the program got started: its code was with the runner completely */
        const char *explanation;       /* JOB_REASON_FAILED: a sentence, or NULL: the fault says it;
                                        * JOB_REASON_UNPREPARED: the whole message */
        ExecStatus unprepared_status;
        uint64_t timeout_usec, max_timeout_usec;
        uint64_t asked_timeout_sec;    /* 0: none was asked for */
        uint64_t output_limit_bytes;   /* per stream, at which a flood is ended */
        HintFacts hint_facts;
        const Capture *err;

        bool had_ended_silently;       /* both streams had ended before the kill that we sent */
        bool has_met_tasks_max;        /* forks had been refused to it by then */
        UnitFate fate;
        UnitFault fault;
        uint32_t failed_check;
        const char *refusal;
        const WireFinished *finished;  /* with UNIT_FATE_FINISHED */
        bool has_status;               /* user mode: what init reported about its child, the program */
        uint16_t status;
} ResultFacts;

/* Fills status, exit_code, signal, did_run, message, hints. What there is no memory for is left out. */
void result_judge(const ResultFacts *f, ExecResult *r);

/* "SIGSEGV"; "signal 40" for one without a name. Valid until the next call with the same buffer. */
const char* result_signal_name(int signal, char buffer[static 32]);
