/* SPDX-License-Identifier: MIT */

/* mcp-exec: finds the sub-command and prepares the process for it. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/settings.h"
#include "config.h"
#include "server/command.h"

static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
} commands[] = {
        { "stdio",      command_stdio      },
        { "serve",      command_serve      },
        { "run",        command_run        },
        { "check",      command_check      },
        { "print-unit", command_print_unit },
        { "token",      command_token      },
        { "env",        command_env        },
};

static const char help_text[] =
        "Usage: mcp-exec [COMMAND [OPTION…]]\n"
        "\n"
        "Runs Python for language models, each program in a sandbox of its own that systemd makes.\n"
        "\n"
        "Commands:\n"
        "  stdio        Speak MCP on standard input and output; what an MCP client starts\n"
        "  serve        Serve the sockets that systemd hands over, or those of --listen\n"
        "  run FILE|-   Run one Python program in the sandbox\n"
        "  check        Tell whether this machine can run sandboxes, and what to do if not\n"
        "  env          Make sets of packages ahead, list and remove them\n"
        "  token        Make, list and remove the tokens of HTTP clients\n"
        "  print-unit   Show every property of the unit that a program would get\n"
        "\n"
        "Options:\n"
        "  -h, --help     Show this help (\"mcp-exec COMMAND --help\" for one command)\n"
        "      --version  Show the version\n"
        "\n"
        "Without a command, MCP_EXEC_TRANSPORT chooses: stdio (the default), or http or sse, which both\n"
        "listen on MCP_EXEC_ADDR with /mcp and /sse. See mcp-exec(1).\n";

/* A program started with 0, 1 or 2 closed would get a socket under that number and print into it. */
static int open_standard_fds(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        continue;
                /* The lowest free number is this one, for those below are open. */
                if (open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0)
                        return -errno;
        }
        return 0;
}

/* A thousand clients, each with a run's five descriptors, do not fit into the soft limit of 1024, which
 * exists for programs that use select(). */
static void raise_fd_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit); /* the soft limit will do for a while */
}

/* Which is known even where the configuration is not: no file says it. */
static bool is_stdio_by_variable(void) {
        const char *value = getenv("MCP_EXEC_TRANSPORT");

        return !value || !*value || streq(value, transport_to_string(TRANSPORT_STDIO));
}

static int run_default(void) {
        static const StdioOptions stdio_options = { .server = SERVER_CHOICE_INIT };
        static const ServeOptions serve_options = {
                .listens_by_variable = true,
        };
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = settings_load(/* is_user= */ geteuid() != 0, &settings, &message);
        if (r < 0 && !is_stdio_by_variable()) {
                if (message)
                        log_error("%s", message);
                else
                        log_error_errno(r, "Cannot read the configuration");
                return serve_refuse(COMMAND_FAILED);
        }

        if (r < 0 || settings->transport == TRANSPORT_STDIO)
                return stdio_main(&stdio_options);
        /* Both are served on one port: /mcp, and /sse of the older transport. */
        return serve_main(&serve_options);
}

/* What was printed and did not arrive, on a full disk for one, is no success. */
static int finish(int status) {
        if (status != COMMAND_OK)
                return status;
        errno = 0;
        if (fflush(stdout) == 0 && !ferror(stdout))
                return COMMAND_OK;
        (void) log_error_errno(errno > 0 ? -errno : -EIO, "Cannot write standard output");
        return COMMAND_FAILED;
}

int main(int argc, char **argv) {
        char name[64];
        int r;

        log_open("mcp-exec", LOG_INFO);

        r = open_standard_fds();
        if (r < 0)
                return COMMAND_FAILED;

        /* A client that hangs up is an error of one write, not the end of the process. */
        if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
                log_error_errno(errno, "Cannot ignore SIGPIPE");
                return COMMAND_FAILED;
        }
        raise_fd_limit();

        if (argc < 2)
                return run_default();

        if (streq(argv[1], "--help") || streq(argv[1], "-h")) {
                fputs(help_text, stdout);
                return finish(COMMAND_OK);
        }
        if (streq(argv[1], "--version")) {
                puts("mcp-exec " MCP_EXEC_VERSION);
                return finish(COMMAND_OK);
        }
        if (argv[1][0] == '-')
                return command_usage_error(NULL, "unknown option \"%s\"", argv[1]);

        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                if (streq(argv[1], commands[i].name)) {
                        (void) snprintf(name, sizeof(name), "mcp-exec %s", commands[i].name);
                        argv[1] = name;
                        return finish(commands[i].run(argc - 1, argv + 1));
                }

        return command_usage_error(NULL, "unknown command \"%s\"", argv[1]);
}
