/* SPDX-License-Identifier: MIT */

#include "server/command.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/log.h"

int command_usage_error(const char *command, const char *format, ...) {
        va_list ap;

        assert(format);

        fputs("mcp-exec: ", stderr);
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fprintf(stderr, "\nTry \"mcp-exec%s%s --help\".\n", command ? " " : "", command ? command : "");
        return COMMAND_USAGE;
}

int command_signal_fd(void) {
        sigset_t mask;
        int fd;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGINT);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGHUP);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

int command_next_option(CommandLine *l) {
        int c;

        assert(l && l->name && l->help && l->options);

        l->status = COMMAND_GOES_ON;
        while ((c = getopt_long(l->argc, l->argv, l->has_verbose ? "vh" : "h", l->options,
                                &l->option_index)) >= 0)
                switch (c) {
                case 'v':
                        l->is_verbose = true;
                        log_open("mcp-exec", LOG_DEBUG);
                        break;
                case 'h':
                        fputs(l->help, stdout);
                        l->status = COMMAND_OK;
                        return -1;
                case '?':
                        l->status = command_usage_error(l->name, "the command line was not understood");
                        return -1;
                default:
                        return c;
                }

        if (!l->has_operands && optind < l->argc)
                l->status = command_usage_error(l->name, "unexpected argument \"%s\"", l->argv[optind]);
        return -1;
}
