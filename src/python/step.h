/* SPDX-License-Identifier: MIT */
#pragma once

/* Step: one program of ours in a unit of its own, from its order to its answer. */

#include "exec/exec.h"
#include "python/answer.h"

typedef struct Python Python;
typedef struct Step Step;

#define STEP_PHASE_CHARS_MAX 120

typedef struct StepOutcome {
        const JsonValue *answer; /* NULL: it failed */
        const char *kind, *message; /* it failed: the program's own word for it, "" where it had none; why */
        const char *journal; /* it failed: the same in our own words only, for the journal */
        bool is_infra; /* nothing that the caller could change */
} StepOutcome;

typedef struct StepParameters {
        Python *python;
        WireProfile profile;
        const char *program; /* "fetch.py" */
        const char *leaf; /* 64 hex digits; NULL: none */
        const char *order;
        size_t order_bytes;
        uint64_t timeout_usec;
        void (*on_phase)(const char *phase, void *userdata); /* "downloading 3/7 numpy"; may be NULL */
        /* Exactly once, unless step_free() comes first. The step may be freed in it. */
        void (*on_done)(const StepOutcome *outcome, void *userdata);
        void *userdata;
} StepParameters;

/* The journal's words where [Packages] forbids what was asked for. */
extern const char step_journal_policy[];

/* Returns 0 or -errno. */
int step_new(const StepParameters *p, Step **ret);

/* Ends it if it is not over. */
Step* step_free(Step *s);
DEFINE_CLEANUP(Step*, step_free);
