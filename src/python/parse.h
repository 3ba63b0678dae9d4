/* SPDX-License-Identifier: MIT */
#pragma once

/* Parse: asks PARSE each question once, and remembers the answers. */

#include "python/internal.h"

/* Whoever waits for an answer of PARSE. Embedded in its owner; zeroed it waits for nothing. */
typedef struct ParseClient ParseClient;
struct ParseClient {
        /* parsed is NULL when nothing was found out; message says why then. Never within parse_submit(). */
        void (*on_parsed)(ParseClient *c, Parsed *parsed, const char *message);
        const char *journal; /* during on_parsed() without a result: why, for the journal */
        Parse *parse;
        LIST_LINK(ParseClient) clients;
};

typedef struct ParseInput {
        const char *text;
        size_t text_bytes;
        char *const *dependencies;
        const unsigned *lines; /* of the dependencies; may be NULL */
        const char *python_version, *principal;
        bool wants_syntax;
} ParseInput;

/* The launcher's HELLO must be there. *ret (may be NULL) is set and nothing is called when the answer is
 * known already: the caller's reference. Returns 0 or -errno. */
int parse_submit(Python *p, const ParseInput *input, ParseClient *c, Parsed **ret);
/* The key of a question: of everything that its answer depends on. */
int parse_key(Python *p, const ParseInput *input, char ret[static SHA256_HEX_CHARS + 1]);
/* The findings, and that a set is missing and cannot be made here, for which a run would fail. That an
 * interpreter would be downloaded for it is not said then. The array is the caller's. Returns 0 or
 * -ENOMEM. */
int parse_add_problem(const Parsed *parsed, const char *why, PythonFinding **ret, size_t *ret_n);
void parse_leave(ParseClient *c);
void parse_update(Python *p);
void parse_done(Python *p);
