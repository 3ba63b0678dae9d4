/* SPDX-License-Identifier: MIT */
#pragma once

/* Python: what has to happen before a script that names its packages can run.
 *
 *      script + list --PARSE unit--> requirements --FETCH unit--> lock, wheels --INSTALL unit--> set
 *
 * A *set* is a directory of packages for one interpreter, named by 64 hex digits, read-only for scripts. The
 * caller's code runs in none of the three units. What is known already is not asked again: the answer of
 * PARSE is cached by the hash of block and list, sets stay on disk until they are evicted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "python/query.h"

typedef struct PythonParameters {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        const char *programs_directory; /* parse.py, fetch.py, install.py, remove.py */
        const char *sets_directory; /* NULL: the one that the launcher tells of */
        const char *state_directory; /* where which request led to which set is remembered; may be NULL */
} PythonParameters;

int python_new(const PythonParameters *p, Python **ret);
Python* python_free(Python *p); /* before the engine */
DEFINE_CLEANUP(Python*, python_free);

/* Whether a script may name packages at all: a cheap look at its bytes for a "# /// script" line, in any of
 * the spellings that PARSE reports on. False: it runs as it is, without any of this. */
bool python_has_block(const char *text, size_t text_bytes);

/* Makes the request wait for its packages (request->preparation). The script's text is request->code. To be
 * called before exec_engine_submit(). Returns 0 or -errno. */
int python_attach(Python *p, ExecRequest *request, const PythonScript *script);

/* A requirements file's lines as a list, and the number of each; comments and blank lines are left out, what
 * the rest means is for PARSE to say. -EBADMSG with a message when it cannot be one, -errno when it
 * cannot be read. */
int python_read_requirements(const char *path, char ***ret, unsigned **ret_lines,
                             char **reterr_message);

/* The administrator's set: prepared from now on, never evicted, and the environment of every request that
 * python_attach_default() was called for. Such a request waits while it is being made; if it cannot be had,
 * also because the file cannot be read, it runs without, and its result says so. As
 * python_read_requirements(), but there is always a message, unless memory is what is missing. */
int python_set_default(Python *p, const char *path, char **reterr_message);
int python_attach_default(Python *p, ExecRequest *request);

typedef struct PythonFacts {
        const char *uv_path, *uv_version; /* "" where there is none, or it is not known */
        const char *versions[WIRE_INTERPRETERS_MAX]; /* of the launcher's interpreters; "" the same */
        const char *problem; /* why packages cannot be installed, with remedy; NULL: they can */
        /* What programs that name none get in place of the system's packages, "numpy 2.3.1" or "numpy", as
         * far as it is known. NULL: nothing; they have the system's. */
        char *const *default_packages;
        char *const *default_asked; /* those that the file names, in its order, said alike */
        bool is_default_ready; /* false: they wait for it */
        const char *default_problem; /* why the administrator's set is not there; NULL: it is, or will be */
        bool is_offline;
} PythonFacts;

void python_facts(const Python *p, PythonFacts *ret);

/* The launcher was reached, for whatever: leftovers of an earlier process are looked for now, once.
 * Otherwise they would stay until somebody names packages. */
void python_sweep_once(Python *p);

/* For exit on idle: nothing is being prepared, asked or cleaned up. */
bool python_is_idle(const Python *p);

/* The service stops: what is prepared ahead of runs is given up. Before exec_engine_drain(). */
void python_drain(Python *p);
