/* SPDX-License-Identifier: MIT */

/* mcp-exec run: a person's way into the sandbox. The program gets what a client's program gets, no more. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "exec/request.h"
#include "server/command.h"
#include "server/run-client.h"
#include "server/run-input.h"
#include "server/server-choice.h"

static const char help_text[] =
        "Usage: mcp-exec run [OPTION…] FILE|-\n"
        "\n"
        "Runs one Python program in the sandbox; its output comes live. \"-\" reads the program from "
        "standard input.\n"
        "Otherwise standard input, unless it is a terminal, is read to its end and given to the program.\n"
        "\n"
        "Options:\n"
        "      --timeout SECONDS       Time limit; at most MaxTimeoutSec=, see mcp-exec.conf(5)\n"
        "      --stdin FILE            Standard input of the program\n"
        "      --file FILE             A file for its working directory (can be given several times)\n"
        "      --output-dir DIR        Save the files that the program leaves in its working directory\n"
        SERVER_CHOICE_HELP
        "  -v, --verbose               Say more on standard error\n"
        "  -h, --help                  Show this help\n"
        "\n"
        "Exit status: the program's own; 128 + N for signal N; 124 at the time limit; 137 out of memory or "
        "output;\n"
        "125 when the program could not be run.\n";

typedef struct RunOptions {
        const char *file, *stdin_file, *output_dir;
        char **files;
        ServerChoice server;
        uint64_t timeout_sec;
        bool is_verbose;
} RunOptions;

/* Without code there is nothing to do; without stdin the program gets an empty one. */
static int read_inputs(const RunOptions *o, char **ret_code, size_t *ret_code_bytes, char **ret_stdin,
                       size_t *ret_stdin_bytes) {
        bool code_is_stdin = streq(o->file, "-");
        int r;

        r = run_input_text(code_is_stdin ? NULL : o->file, "the program", ret_code, ret_code_bytes);
        if (r < 0)
                return r;
        if (!o->stdin_file && (code_is_stdin || isatty(STDIN_FILENO)))
                return 0;
        return run_input_text(o->stdin_file, "the program's input", ret_stdin, ret_stdin_bytes);
}

typedef struct RunFiles {
        RunFile items[EXEC_INPUT_FILES_MAX];
        size_t n_items;
} RunFiles;

static void run_files_done(RunFiles *files) {
        while (files->n_items > 0)
                run_file_done(files->items + --files->n_items);
}

/* The server judges names and sizes; here only what it could not be sent is refused. */
static int read_files(char *const *paths, RunFiles *files) {
        STRV_FOREACH(path, paths) {
                int r;

                if (files->n_items == ELEMENTSOF(files->items)) {
                        log_error("At most %zu files can be sent", ELEMENTSOF(files->items));
                        return -E2BIG;
                }
                r = run_input_file(*path, files->items + files->n_items);
                if (r < 0)
                        return r;
                files->n_items++;
        }
        return 0;
}

/* Before the program runs: what it leaves could not be had again. */
static int open_output_dir(const char *path) {
        int fd;

        if (mkdir(path, 0777) < 0 && errno != EEXIST)
                return log_error_errno(errno, "%s: cannot make this directory", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return log_error_errno(errno, "%s: cannot open this directory", path);
        return fd;
}

static int run(const RunOptions *o) {
        _cleanup_free_ char *code = NULL, *input = NULL, *reason = NULL;
        _cleanup_close_ int fd = -EBADF, dir_fd = -EBADF;
        _cleanup_(run_files_done) RunFiles files = {};
        size_t n_code = 0, n_input = 0;
        int status;

        if (read_inputs(o, &code, &n_code, &input, &n_input) < 0 || read_files(o->files, &files) < 0)
                return RUN_EXIT_INFRASTRUCTURE;

        if (o->output_dir) {
                dir_fd = open_output_dir(o->output_dir);
                if (dir_fd < 0)
                        return RUN_EXIT_INFRASTRUCTURE;
        }
        fd = server_choice_connect(&o->server, o->is_verbose, &reason);
        if (fd < 0)
                return RUN_EXIT_INFRASTRUCTURE;
        /* root has a service manager of its own only when somebody is logged in as root, so what comes next
         * may be about that one, which is not the point. */
        if (reason && geteuid() == 0)
                log_notice("The system service is not used: %s", reason);
        else if (reason)
                log_debug("Using this user's own service manager: %s", reason);

        status = run_client(fd, &(RunRequest) {
                .code = code,
                .code_bytes = n_code,
                .code_path = streq(o->file, "-") ? NULL : o->file,
                .stdin_data = input,
                .stdin_bytes = n_input,
                .files = files.items,
                .n_files = files.n_items,
                .timeout_sec = o->timeout_sec,
                .is_server_own = server_choice_is_own(&o->server, reason),
                .output_dir_fd = dir_fd,
        });
        /* The other way in may be the shorter one to repair. */
        if (status == RUN_EXIT_INFRASTRUCTURE && reason && geteuid() != 0)
                log_notice("The system service was not used: %s", reason);
        return status;
}

int command_run(int argc, char **argv) {
        enum {
                OPTION_TIMEOUT = 0x100,
                OPTION_STDIN,
                OPTION_FILE,
                OPTION_OUTPUT_DIR
        };
        static const struct option table[] = {
                { "timeout",         required_argument, NULL, OPTION_TIMEOUT         },
                { "stdin",           required_argument, NULL, OPTION_STDIN           },
                { "file",            required_argument, NULL, OPTION_FILE            },
                { "output-dir",      required_argument, NULL, OPTION_OUTPUT_DIR      },
                { "verbose",         no_argument,       NULL, 'v'                    },
                { "help",            no_argument,       NULL, 'h'                    },
                SERVER_CHOICE_OPTIONS,
                {},
        };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "run", .help = help_text, .options = table,
                .has_operands = true, .has_verbose = true,
        };
        _cleanup_strv_ char **files = NULL;
        RunOptions o = { .server = SERVER_CHOICE_INIT };
        int c;

        while ((c = command_next_option(&line)) >= 0)
                switch (c) {
                case OPTION_TIMEOUT:
                        if (parse_uint64(optarg, &o.timeout_sec) < 0 || o.timeout_sec == 0)
                                return command_usage_error(
                                        "run",
                                        "--timeout must be a whole number of seconds from 1 on, "
                                        "not \"%s\"",
                                        optarg);
                        break;
                case OPTION_STDIN:
                        o.stdin_file = optarg;
                        break;
                case OPTION_FILE:
                        if (strv_extend(&files, optarg) < 0) {
                                (void) log_oom();
                                return RUN_EXIT_INFRASTRUCTURE;
                        }
                        break;
                case OPTION_OUTPUT_DIR:
                        o.output_dir = optarg;
                        break;
                default:
                        (void) server_choice_take(&o.server, c, optarg);
                }
        if (line.status != COMMAND_GOES_ON)
                return line.status;
        if (optind >= argc)
                return command_usage_error("run", "no program is named");
        if (optind + 1 < argc)
                return command_usage_error(
                        "run", "unexpected argument \"%s\" (a program's arguments cannot be passed)",
                        argv[optind + 1]);

        o.file = argv[optind];
        o.files = files;
        o.is_verbose = line.is_verbose;
        return run(&o);
}
