/* SPDX-License-Identifier: MIT */
#pragma once

/* Log: one line of human text to the journal (with its priority) or, without one, to standard error.
 *
 * Under systemd (JOURNAL_STREAM names our stderr) entries go to the journal as structured records; otherwise
 * as "mcp-exec: text" lines to stderr. stdout is never touched: on stdio it belongs to the protocol.
 * Never pass code, stdin, output or a token to anything here. */

#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>
#include <sys/uio.h>

#include "base/macro.h"

/* Call once at start. name: program name for the prefix. max_level: LOG_DEBUG … LOG_ERR (default
 * LOG_INFO). */
void log_open(const char *name, int max_level);

/* Where a person finds what this process logs, for a sentence: in_journal, or what to look at where none of
 * it is in the journal. */
const char* log_place(const char *in_journal);

int log_level_from_string(const char *s);

/* Logs and returns -abs(error) so that `return log_error_errno(r, …)` logs exactly once. error 0: none. A
 * non-zero error's strerror() text is appended after ": ". */
int log_full(int level, int error, const char *format, ...) _printf_(3, 4);

#define log_debug(...) ((void) log_full(LOG_DEBUG, 0, __VA_ARGS__))
#define log_info(...) ((void) log_full(LOG_INFO, 0, __VA_ARGS__))
#define log_notice(...) ((void) log_full(LOG_NOTICE, 0, __VA_ARGS__))
#define log_warning(...) ((void) log_full(LOG_WARNING, 0, __VA_ARGS__))
#define log_error(...) ((void) log_full(LOG_ERR, 0, __VA_ARGS__))
#define log_debug_errno(error, ...) log_full(LOG_DEBUG, error, __VA_ARGS__)
#define log_info_errno(error, ...) log_full(LOG_INFO, error, __VA_ARGS__)
#define log_warning_errno(error, ...) log_full(LOG_WARNING, error, __VA_ARGS__)
#define log_error_errno(error, ...) log_full(LOG_ERR, error, __VA_ARGS__)
#define log_oom() log_full(LOG_ERR, ENOMEM, "Out of memory")

/* A structured record: n fields "KEY=value", the first of which should be "MESSAGE=…". Without a journal
 * only the MESSAGE is shown, on stderr. Values must be printable metadata; they are not checked here. */
int log_struct(int level, const char *const fields[], size_t n_fields);
