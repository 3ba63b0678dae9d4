/* SPDX-License-Identifier: MIT */
#pragma once

/* What tools and commands ask of the room that is no run. Part of python/python.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Python Python;

/* One script as a tool got it. Borrowed during the call only. */
typedef struct PythonScript {
        const char *text;
        size_t text_bytes;
        char *const *dependencies; /* a list beside the block; may be NULL */
        const unsigned *lines; /* of each of them, where they are what stands in a file; else NULL */
        bool is_prepared_ahead; /* nothing of it is to run */
        const char *python_version; /* asked for on the command line ("3.12"); may be NULL */
} PythonScript;

typedef enum PythonSeverity {
        PYTHON_ERROR, /* it would not run */
        PYTHON_WARNING, /* it runs, but … (a yanked version, an unknown key) */
        _PYTHON_SEVERITY_MAX,
} PythonSeverity;

typedef struct PythonFinding {
        PythonSeverity severity;
        const char *kind; /* "syntax", "block", "toml", "requirement", "policy", "environment", … */
        uint64_t line, column; /* from 1; 0: nowhere in particular */
        const char *message; /* one sentence: what is wrong and what to do */
} PythonFinding;

/* What PARSE found, and whether what it takes is here. Borrowed, valid during the callback. */
typedef struct PythonReport {
        bool is_valid;
        const char *error; /* not NULL: nothing was found out (sandbox refused …), and why */
        const PythonFinding *findings;
        size_t n_findings;
        char *const *requirements; /* re-serialised, sorted */
        const char *requires_python; /* "" where the script says nothing */
        const char *interpreter; /* path of the one that would serve; "" when none does */
        const char *interpreter_version; /* "": it is still to be downloaded */
        bool has_own_interpreter; /* which its set brings along */
        const char *environment; /* 64 hex digits of the set when it is ready; "" otherwise */
} PythonReport;

typedef struct PythonQuery PythonQuery;

/* Parses and checks, runs nothing of the caller's, fetches nothing. on_report is called exactly once, from
 * the event loop, unless python_query_cancel() comes first. principal: for admission. */
int python_validate(Python *p, const PythonScript *script, const char *principal,
                    void (*on_report)(const PythonReport *report, void *userdata), void *userdata,
                    PythonQuery **ret);
void python_query_cancel(PythonQuery *q);

/* Asks the interpreters and uv for their versions, unless that is known. on_known is called exactly once,
 * from the event loop, unless python_query_cancel() comes first; what python_facts() tells then is all that
 * can be known. principal: for admission. */
int python_ask_versions(Python *p, const char *principal, void (*on_known)(void *userdata), void *userdata,
                        PythonQuery **ret);

typedef struct PythonOutcome {
        const char *error; /* NULL: it is ready; else why not */
        const char *environment; /* 64 hex digits, "" where nothing is needed */
        char *const *warnings; /* may be NULL */
} PythonOutcome;

/* Prepares a set ahead of any run. on_phase (may be NULL) tells what is done now; on_done as on_report
 * above. */
int python_prepare(Python *p, const PythonScript *script,
                   void (*on_phase)(const char *phase, void *userdata),
                   void (*on_done)(const PythonOutcome *outcome, void *userdata), void *userdata,
                   PythonQuery **ret);

/* For check_environment and `mcp-exec env`. */
typedef struct PythonSet {
        char name[65];
        char **packages; /* "numpy 2.3.1" */
        char **requirements;
        char *interpreter_version; /* of what its programs run with */
        bool has_own_interpreter; /* that is uv's, and in the set */
        uint64_t size_bytes, n_files;
        uint64_t created_usec, used_usec; /* CLOCK_REALTIME */
        unsigned n_runs; /* that use it now */
} PythonSet;

/* Visits the ready sets, newest use first. */
int python_foreach_set(Python *p, int (*visit)(const PythonSet *s, void *userdata), void *userdata);

/* Removes a ready set. on_done is called exactly once, from the event loop, unless python_free() comes
 * first: error is 0, -ENOENT (there is none of that name), -EBUSY (a run uses it), or another errno. */
int python_remove_set(Python *p, const char *name, void (*on_done)(int error, void *userdata),
                      void *userdata);
