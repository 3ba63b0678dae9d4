/* SPDX-License-Identifier: MIT */
#pragma once

/* Sub-commands of mcp-exec: one file each, one function each, found by the table in main.c. */

#include <getopt.h>
#include <stdbool.h>

#include "base/macro.h"
#include "server/server-choice.h"
#include "server/stdio-options.h"

/* argv[0] is "mcp-exec COMMAND", for getopt's messages. Returns the exit status of the process. */
int command_stdio(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_print_unit(int argc, char **argv);
int command_token(int argc, char **argv);
int command_env(int argc, char **argv);

/* The two halves that a bare `mcp-exec` chooses between by MCP_EXEC_TRANSPORT. */
typedef struct StdioOptions {
        ServerChoice server;
        bool is_verbose;
        bool is_single;                   /* one call is to be expected: keep nothing ready, be silent */
        const char *programs_directory;   /* of those that prepare packages; NULL: the installed ones */
        StdioSettings settings;
} StdioOptions;
int stdio_main(const StdioOptions *options);
/* Serves the client in this process. refusal: why no call can be, and what to do about it, or NULL. */
int stdio_run_here(const StdioOptions *options, const char *refusal);

typedef struct ServeOptions {
        char **listen;                    /* addresses given on the command line, borrowed; may be NULL */
        bool listens_by_variable;         /* also where MCP_EXEC_ADDR says */
        bool no_auth;
        bool is_verbose;
        const char *launcher_socket_path;
        const char *programs_directory;   /* as above */
        const char *token_file, *metadata_file; /* NULL: the system's, where there is one */
} ServeOptions;
int serve_main(const ServeOptions *options);
/* A server that found out before serve_main() that it cannot start: tells the clients for whom systemd
 * started it. Returns the status. */
int serve_refuse(int status);

/* Exit statuses that mean the same in every command. */
enum {
        COMMAND_OK,
        COMMAND_FAILED,
        COMMAND_USAGE, /* the command line is wrong; nothing was done */
        COMMAND_GOES_ON = -1, /* none yet */
};

/* A command line while it is read: what every command does alike is done here. */
typedef struct CommandLine {
        int argc;
        char **argv;
        const char *name, *help;
        const struct option *options; /* values from 0x100 on are the command's own */
        bool has_operands;            /* otherwise what is left is a mistake */
        bool has_verbose;
        /* Result */
        bool is_verbose;
        int option_index;             /* in options, of a long one */
        int status;                   /* after the last option: COMMAND_GOES_ON, or what to exit with */
} CommandLine;

/* Returns the next option of the command's own, or -1. */
int command_next_option(CommandLine *l);

/* A signalfd of SIGINT, SIGTERM and SIGHUP, which are blocked from then on; or -errno. */
int command_signal_fd(void);

/* Says what is wrong with the command line and where help is. Returns COMMAND_USAGE. */
int command_usage_error(const char *command, const char *format, ...) _printf_(2, 3);
