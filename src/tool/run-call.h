/* SPDX-License-Identifier: MIT */
#pragma once

/* RunCall: one tools/call that waits for one run: the call that began it, or one that asks for it later. */

#include "exec/run-table.h"
#include "tool/registry.h"
#include "tool/result.h"

#define RUN_CALL_FOR_EVER UINT64_MAX

typedef struct RunCallParameters {
        ToolRegistry *registry;
        McpCall *call;
        Run *run;
        bool is_beginner;   /* the run is attached to this call: it ends when the client gives up */
        uint64_t wait_usec; /* then the answer is that it is still running; 0: at once */
        ResultView view;    /* what of the output is shown while it runs; RESULT_PAGE: also at its end */
} RunCallParameters;

/* Answers now or later. The run must not be over. Returns 0, or -errno with nothing answered and the run as
 * it was. */
int run_call_new(const RunCallParameters *p);

/* Answers with what is known of the run now. */
void run_call_answer(ToolRegistry *registry, McpCall *call, Run *run, const ResultView *view);

/* The end, as every tool tells it. view may be NULL: the whole result. */
void run_call_answer_end(ToolRegistry *registry, McpCall *call, const ExecResult *result, ResultView *view);
