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

typedef struct Python Python;

typedef struct PythonParameters {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        const char *programs_directory; /* parse.py, fetch.py, install.py, remove.py */
        const char *sets_directory;     /* NULL: the launcher has none, every set is refused with its reason */
        const char *state_directory;    /* where which request led to which set is remembered; may be NULL */
} PythonParameters;

int python_new(const PythonParameters *p, Python **ret);
Python* python_free(Python *p); /* before the engine */
DEFINE_CLEANUP(Python*, python_free);

/* One script as a tool got it. Borrowed during the call only. */
typedef struct PythonScript {
        const char *text;
        size_t text_bytes;
        char *const *dependencies;      /* a list beside the block; may be NULL */
        const char *python_version;     /* asked for on the command line ("3.12"); may be NULL */
} PythonScript;

/* Whether a script may name packages at all: a cheap look at its bytes for a "# /// script" line, in any of
 * the spellings that PARSE reports on. False: it runs as it is, without any of this. */
bool python_has_block(const char *text, size_t text_bytes);

/* Makes the request wait for its packages (request->preparation). The script's text is request->code. To be
 * called before exec_engine_submit(). Returns 0 or -errno. */
int python_attach(Python *p, ExecRequest *request, const PythonScript *script);

typedef enum PythonSeverity {
        PYTHON_ERROR,   /* it would not run */
        PYTHON_WARNING, /* it runs, but … (a yanked version, an unknown key) */
        _PYTHON_SEVERITY_MAX,
} PythonSeverity;

typedef struct PythonFinding {
        PythonSeverity severity;
        const char *kind;               /* "syntax", "block", "toml", "requirement", "policy", … */
        uint64_t line, column;          /* from 1; 0: nowhere in particular */
        const char *message;            /* one sentence: what is wrong and what to do */
} PythonFinding;

/* What PARSE found. Borrowed, valid during the callback. */
typedef struct PythonReport {
        bool is_valid;
        const char *error;              /* not NULL: nothing was found out (sandbox refused …), and why */
        const PythonFinding *findings;
        size_t n_findings;
        char *const *requirements;      /* re-serialised, sorted */
        const char *requires_python;    /* "" where the script says nothing */
        const char *interpreter;        /* path of the one that would serve; "" when none does */
        const char *interpreter_version;
        const char *environment;        /* 64 hex digits of the set when it is ready; "" otherwise */
} PythonReport;

typedef struct PythonQuery PythonQuery;

/* Parses and checks, runs nothing of the caller's, fetches nothing. on_report is called exactly once, from
 * the event loop, unless python_query_cancel() comes first. principal: for admission. */
int python_validate(Python *p, const PythonScript *script, const char *principal,
                    void (*on_report)(const PythonReport *report, void *userdata), void *userdata,
                    PythonQuery **ret);
void python_query_cancel(PythonQuery *q);

/* For check_environment and `mcp-exec env`. */
typedef struct PythonSet {
        char name[65];
        char **packages;                /* "numpy 2.3.1" */
        char **requirements;
        char *interpreter_version;
        uint64_t size_bytes, n_files;
        uint64_t created_usec, used_usec; /* CLOCK_REALTIME */
        unsigned n_runs;                /* that use it now */
} PythonSet;

/* Visits the ready sets, newest use first. */
int python_foreach_set(Python *p, int (*visit)(const PythonSet *s, void *userdata), void *userdata);

/* Removes a ready set. on_done is called exactly once, from the event loop, unless python_free() comes first:
 * error is 0, -ENOENT (there is none of that name), -EBUSY (a run uses it), or another errno. */
int python_remove_set(Python *p, const char *name, void (*on_done)(int error, void *userdata),
                      void *userdata);

typedef struct PythonFacts {
        const char *uv_path;            /* "" where there is none */
        const char *problem;            /* why packages cannot be installed, with remedy; NULL: they can */
        bool is_offline;
} PythonFacts;

void python_facts(const Python *p, PythonFacts *ret);

/* Ends preparations that nobody waits for, and tells when none is left: for exit on idle. */
bool python_is_idle(const Python *p);
