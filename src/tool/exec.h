/* SPDX-License-Identifier: MIT */
#pragma once

/* The exec tool, in two files: how it runs (exec.c) and what it tells about itself (exec-schema.c). What
 * other tools do and tell alike is here as well. */

#include "tool/registry.h"
#include "tool/result.h"

/* ---- How it runs ---- */

/* A call's program into its request: not empty, not too large. name: the argument's, for the message.
 * -EBADMSG: *reterr_message tells the caller what to change. */
int exec_take_program(const Settings *s, const char *name, const JsonValue *v, ExecRequest *q,
                      char **reterr_message);
uint64_t exec_pick_timeout(const Settings *s, const JsonValue *v); /* NULL, and 0 seconds: the default */

/* What a call says beside its request. */
typedef struct ExecCallParameters {
        char **dependencies;      /* beside those of the program's own block; may be NULL */
        unsigned *lines;          /* of each of them, where they are what stands in a file; else NULL */
        bool is_prepared_ahead;   /* the program is there for its packages only */
        const JsonValue *timeout; /* the argument: who reads the output is told when less is allowed */
        bool is_background;
} ExecCallParameters;

/* Reads a call's arguments into its request and what is beside it; what *ret has afterwards is the caller's,
 * in every case. -EBADMSG: *reterr_message tells the client what to change. */
typedef int (*ExecReadArguments)(const Settings *s, const JsonValue *arguments, ExecRequest *q,
                                 ExecCallParameters *ret, char **reterr_message);

/* Runs the program of a call, after its packages are there. Answers in every case but -errno. */
int exec_call(ToolRegistry *registry, const char *tool, ExecReadArguments read_arguments,
              const JsonValue *arguments, McpCall *call);

/* ---- What it tells ---- */

int exec_tool_write(const ToolRegistry *registry, McpVersion version, JsonWriter *w);

typedef struct ToolHints {
        bool is_read_only, is_idempotent;
        bool is_destructive, is_open_world;
} ToolHints;

/* Everything of a tool before the schema of its input: name, title, description. */
void exec_tool_write_head(JsonWriter *w, McpVersion version, const char *name, const char *title,
                          const char *description, size_t n_description);

/* Sentences on packages, limits and long runs, for descriptions. asked: those that come first, and then few
 * packages are named all; or NULL. timeout_name: the argument's. */
int exec_describe_packages(char *const *packages, char *const *asked, Buffer *b);
int exec_describe_running(const Settings *s, const char *timeout_name, Buffer *b);

#define EXEC_TIMEOUT_TEXT_BYTES 200
void exec_describe_timeout(const Settings *s, char ret[static EXEC_TIMEOUT_TEXT_BYTES]);
extern const char exec_background_text[];

/* Nothing for revisions that have no annotations. */
void exec_tool_write_annotations(JsonWriter *w, McpVersion version, const char *title,
                                 const ToolHints *hints);

/* Everything behind the schema of the input, of every tool whose result is that of a run, and the end of the
 * tool; has_pages: next_offset as well. */
int exec_tool_write_tail(JsonWriter *w, McpVersion version, const char *title, const ToolHints *hints,
                         bool has_pages);
