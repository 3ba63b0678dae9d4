/* SPDX-License-Identifier: MIT */
#pragma once

/* The room that prepares packages, with an engine and a fake launcher below it: PARSE and the remover are
 * the real programs, FETCH and INSTALL play what the names of the requirements say (tests/fake/prepare). */

#include "exec-rig.h"
#include "python/internal.h"

typedef struct PythonRig {
        Rig *rig;
        Python *python;
        FakeScript script;
        char directory[64]; /* with sets/, state/ and programs/ in it */
        char sets[96], state[96], programs[96], uv[96];
} PythonRig;

/* Afterwards settings may be changed until python_rig_start(). */
PythonRig* python_rig_setup(void);
void python_rig_start(PythonRig *r);
void python_rig_start_as_scripted(PythonRig *r); /* with a launcher that knows what was changed in script */
void python_rig_restart(PythonRig *r); /* another daemon with the same directories */
void python_rig_teardown(PythonRig *r); /* removes the directories */

/* A run of "print" with these requirements, one word each; the first may be "python=VERSION". */
void python_rig_submit(PythonRig *r, Run *run, const char *requirements);
void python_rig_submit_as(PythonRig *r, Run *run, const char *principal, const char *requirements);
void python_rig_run(PythonRig *r, Run *run, const char *requirements); /* and waits */
bool python_rig_wait_idle(PythonRig *r);

/* How many of them the sets directory has: sets, or leaves. */
unsigned python_rig_n_sets(const PythonRig *r);
unsigned python_rig_n_leaves(const PythonRig *r);
unsigned python_rig_n_prepared(const PythonRig *r); /* STARTs of FETCH and INSTALL */
