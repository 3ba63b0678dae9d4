/* SPDX-License-Identifier: MIT */
#pragma once

/* Answers: what the programs in the units say, as structs. Each was written by a program of ours that has
 * read something hostile, so nothing is taken that does not have the shape that runner/prepare/README.md
 * gives it. All of the readers return 0, -EBADMSG, or -ENOMEM. */

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/macro.h"
#include "python/grammar.h"
#include "python/python.h"
#include "json/json.h"

#define INTERPRETERS_MAX 8
#define ANSWER_BYTES_MAX (1 * MIB)
#define ANSWER_MESSAGE_BYTES_MAX 4000
#define VERSION_CHARS_MAX 32
#define PACKAGES_MAX 1024

/* Of PARSE. Shared by all who asked the same. */
typedef struct Parsed {
        unsigned n_refs;
        bool is_valid; /* no finding is an error */
        PythonFinding *findings; /* their strings belong to kinds and messages */
        size_t n_findings;
        char **kinds, **messages;
        char **requirements; /* none where a finding is an error */
        char *requires_python;
        int interpreter; /* -1: none fits */
        char interpreter_version[VERSION_CHARS_MAX + 1];
        char versions[INTERPRETERS_MAX][VERSION_CHARS_MAX + 1]; /* of all interpreters, as far as known */
        char *tool_uv; /* a JSON object */
        bool needs_python; /* an interpreter that is not here: a set of its own, also without packages */
} Parsed;

Parsed* parsed_ref(Parsed *p);
Parsed* parsed_unref(Parsed *p);
DEFINE_CLEANUP(Parsed*, parsed_unref);

/* "interpreters" and "uv_version" of an answer: of all that are told, "" of those that are not. */
int answer_read_versions(const JsonValue *answer, char ret[static INTERPRETERS_MAX][VERSION_CHARS_MAX + 1],
                         char ret_uv[static VERSION_CHARS_MAX + 1]);

int answer_read_parse(const JsonValue *answer, const GrammarPolicy *policy, Parsed **ret);

/* Of FETCH. */
typedef struct Fetched {
        char lock[SHA256_HEX_CHARS + 1];
        bool is_known;
        char **warnings;
} Fetched;

void fetched_done(Fetched *f);
int answer_read_fetch(const JsonValue *answer, Fetched *ret);

/* The "error" of any answer: 1 and its kind and message (borrowed), or 0 when it has none. */
int answer_read_error(const JsonValue *answer, const char **ret_kind, const char **ret_message);

/* The hosts that an error is about, as "index.example (10.0.0.1), …"; 0, or 1 where there are any. */
int answer_read_internal_hosts(const JsonValue *answer, Buffer *ret);

/* mcp-exec-set.json in a set: what INSTALL left there, written by the user who prepares. */
typedef struct SetFacts {
        PythonSet set; /* without name, used_usec and n_runs */
        char *python; /* the interpreter that it was asked for with, which its name is made of */
        char python_version[VERSION_CHARS_MAX + 1];
        char lock[SHA256_HEX_CHARS + 1];
} SetFacts;

void set_facts_done(SetFacts *f);
int answer_read_set(const char *text, size_t n_bytes, SetFacts *ret);

/* The name of the set of this lock for this interpreter, of which "3.13" counts and not "3.13.5". */
int set_name(const char *python, const char *version, const char *lock,
             char ret[static SHA256_HEX_CHARS + 1]);
