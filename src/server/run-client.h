/* SPDX-License-Identifier: MIT */
#pragma once

/* RunClient: one conversation with an MCP server that runs one program, its output passed on as it comes. */

#include <stddef.h>
#include <stdint.h>

/* Exit statuses beside the program's own, as timeout(1) and the shell have them. */
enum {
        RUN_EXIT_TIMEOUT = 124,
        RUN_EXIT_INFRASTRUCTURE = 125, /* the program did not run, or how it ended is not known */
        RUN_EXIT_SIGNAL = 128,         /* plus its number */
        RUN_EXIT_OOM = 137,            /* as any SIGKILL */
};

/* A file for the program's working directory. */
typedef struct RunFile {
        char *name, *data;
        size_t n_bytes;
} RunFile;

typedef struct RunRequest {
        const char *code;              /* UTF-8 */
        size_t code_bytes;
        const char *stdin_data;        /* UTF-8 without NUL; NULL: empty */
        size_t stdin_bytes;
        const RunFile *files;
        size_t n_files;
        uint64_t timeout_sec;          /* 0: the server's default */
        int output_dir_fd;             /* where the program's files are saved; -EBADF: nowhere */
} RunRequest;

/* fd: a connected stream socket to the server. Returns the exit status for this process, with everything it
 * had to say said on standard error. SIGINT, SIGTERM and SIGHUP end the conversation, and so the program. */
int run_client(int fd, const RunRequest *request);
