/* SPDX-License-Identifier: MIT */

/* mcp-exec print-unit: the launcher builds every property, so it is the launcher that shows them. */

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "config.h"
#include "server/command.h"

static const char help_text[] =
        "Usage: mcp-exec print-unit [--user] [--manager-version N] [--profile NAME]\n"
        "\n"
        "Shows every property, with its value, of the unit that a program would get.\n"
        "\n"
        "Options:\n"
        "      --user               As under a user's own service manager\n"
        "      --manager-version N  As with this version of systemd\n"
        "      --profile NAME       Of a program (run), or of what prepares packages (parse, fetch, "
        "install)\n"
        "  -h, --help               Show this help\n";

int command_print_unit(int argc, char **argv) {
        enum { OPTION_USER = 0x100, OPTION_MANAGER_VERSION, OPTION_PROFILE };
        static const struct option table[] = {
                { "user",            no_argument,       NULL, OPTION_USER            },
                { "manager-version", required_argument, NULL, OPTION_MANAGER_VERSION },
                { "profile",         required_argument, NULL, OPTION_PROFILE         },
                { "help",            no_argument,       NULL, 'h'                    },
                {},
        };
        const char *child[8] = { "mcp-exec-launcher", "--print-unit" };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "print-unit", .help = help_text, .options = table,
        };
        static char *const profiles[] = { (char*) "run", (char*) "parse", (char*) "fetch",
                                          (char*) "install", NULL };
        const char *version = NULL, *profile = NULL;
        uint64_t number;
        size_t n = 2;
        int c;

        while ((c = command_next_option(&line)) >= 0)
                switch (c) {
                case OPTION_USER:
                        child[2] = "--user";
                        n = 3;
                        break;
                case OPTION_MANAGER_VERSION:
                        version = optarg;
                        break;
                case OPTION_PROFILE:
                        profile = optarg;
                        break;
                }
        if (line.status != COMMAND_GOES_ON)
                return line.status;
        /* The launcher refuses them, too, and would not be the one to say how to ask. */
        if (version && (parse_uint64(version, &number) < 0 || number == 0 || number > 9999))
                return command_usage_error("print-unit", "--manager-version is a number such as 257, not "
                                                         "\"%s\"", version);
        if (profile && !strv_contains(profiles, profile))
                return command_usage_error("print-unit", "--profile is run, parse, fetch or install, not "
                                                         "\"%s\"", profile);

        if (version) {
                child[n++] = "--manager-version";
                child[n++] = version;
        }
        if (profile) {
                child[n++] = "--profile";
                child[n++] = profile;
        }
        (void) execv(MCP_EXEC_LAUNCHER_PATH, (char *const*) child);
        (void) log_error_errno(errno, "Cannot start %s", MCP_EXEC_LAUNCHER_PATH);
        return COMMAND_FAILED;
}
