/* SPDX-License-Identifier: MIT */
#pragma once

/* RunRequest: what `mcp-exec run` asks a server for, and how a server's answer speaks of it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* A file for the program's working directory. */
typedef struct RunFile {
        const char *path; /* as it was named */
        char *name, *data;
        size_t n_bytes;
} RunFile;

void run_file_done(RunFile *f);

typedef struct RunRequest {
        const char *code;              /* UTF-8 */
        size_t code_bytes;
        const char *code_path;         /* as it was named; NULL: standard input */
        const char *stdin_data;        /* UTF-8 without NUL; NULL: empty */
        size_t stdin_bytes;
        const RunFile *files;
        size_t n_files;
        uint64_t timeout_sec;          /* 0: the server's default */
        bool is_server_own;            /* and not the system service */
        int output_dir_fd;             /* where the program's files are saved; -EBADF: nowhere */
} RunRequest;

/* Appends the messages of the call. Returns 0, -EMSGSIZE when no server takes one that long, or -errno. */
int run_request_write(const RunRequest *request, Buffer *b);

/* Appends a server's refusal in the words of the command line: it names the tool's arguments, which the
 * person who is to read it has not written. Returns 0 or -ENOMEM. */
int run_request_explain(const RunRequest *request, const char *text, Buffer *b);
