/* SPDX-License-Identifier: MIT */
#pragma once

/* For whoever makes the packages that a run waits for (ExecPreparation in exec/request.h). */

#include "exec/exec.h"

/* Its packages are there, so it queues for a slot. environment: "" for none. warnings (may be NULL) become
 * hints of the result. */
void exec_job_prepared(ExecJob *j, unsigned interpreter, const char *environment, char *const *warnings);

/* It cannot run: its answer is message (copied) as it stands, with EXEC_ERROR where the caller can change
 * that, or EXEC_INFRA_ERROR. journal (copied): the same in our own words only, for the journal. */
void exec_job_prepare_failed(ExecJob *j, ExecStatus status, const char *message, const char *journal);

/* What its preparation does now ("downloading 3/7 numpy"); "": it is not being prepared. */
void exec_job_set_phase(ExecJob *j, const char *phase);
const char *exec_job_phase(const ExecJob *j);

/* Renames or removes a set (wire/wire.h). on_done is called exactly once from the event loop, unless
 * exec_engine_free() comes first. error: 0 or an errno, ECONNRESET without a launcher; text: a sentence
 * where there is an error. */
int exec_engine_change_set(ExecEngine *e, WireSetAction action, const char *environment, const char *to,
                           void (*on_done)(int error, const char *text, void *userdata), void *userdata);
