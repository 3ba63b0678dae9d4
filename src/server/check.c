/* SPDX-License-Identifier: MIT */

/* mcp-exec check: can this machine run sandboxes for this user, and if not, what is to be done? */

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "config.h"
#include "server/check.h"
#include "server/command.h"

static const char help_text[] =
        "Usage: mcp-exec check [--json]\n"
        "\n"
        "Tells whether this machine can run sandboxes for this user: one line for each thing that is "
        "needed, with the\n"
        "remedy where it is missing. Runs one small program to see for itself.\n"
        "\n"
        "Options:\n"
        "      --json                  A JSON array of {name, verdict, detail, remedy}\n"
        "      --socket PATH           The system service's socket (default: " MCP_EXEC_SOCKET_PATH ")\n"
        "      --launcher-socket PATH  The launcher's socket (default: " MCP_EXEC_LAUNCHER_SOCKET_PATH ")\n"
        "  -h, --help                  Show this help\n"
        "\n"
        "Exit status: 0 when nothing has failed, 1 otherwise.\n";

static void find_user(CheckContext *c) {
        const struct passwd *p;

        c->uid = geteuid();
        p = getpwuid(c->uid);
        if (p)
                (void) snprintf(c->user_name, sizeof(c->user_name), "%s", p->pw_name);
        else
                (void) snprintf(c->user_name, sizeof(c->user_name), "uid %u", (unsigned) c->uid);
}

static int check_all(CheckContext *c) {
        _cleanup_close_ int service_fd = -EBADF;
        int r;

        check_init(c);
        if (c->is_booted) {
                r = check_service(c, &service_fd);
                if (r < 0)
                        return r;
                if (!c->uses_system_service && c->uid != 0)
                        check_user_manager(c);
                /* Asking on would only repeat what was just said. */
                if (c->uses_system_service || c->uid == 0 || c->has_user_manager)
                        check_launcher(c);
                check_files(c);
                check_http(c);
                check_version(c);
        }
        check_cgroups(c);
        check_namespaces(c);
        check_seccomp(c);
        if (c->uses_system_service || (c->knows_launcher && c->hello.verdict == WIRE_VERDICT_OK))
                check_run(c, service_fd);
        check_packages(c);
        if (c->uses_system_service || (c->knows_launcher && c->hello.verdict == WIRE_VERDICT_OK))
                check_sets(c);
        return 0;
}

int command_check(int argc, char **argv) {
        enum { OPTION_JSON = 0x100, OPTION_SOCKET, OPTION_LAUNCHER_SOCKET };
        static const struct option table[] = {
                { "json",            no_argument,       NULL, OPTION_JSON            },
                { "socket",          required_argument, NULL, OPTION_SOCKET          },
                { "launcher-socket", required_argument, NULL, OPTION_LAUNCHER_SOCKET },
                { "help",            no_argument,       NULL, 'h'                    },
                {},
        };
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        CheckContext context = {
                .socket_path = MCP_EXEC_SOCKET_PATH,
                .launcher_socket_path = MCP_EXEC_LAUNCHER_SOCKET_PATH,
        };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "check", .help = help_text, .options = table,
        };
        bool is_json = false, has_failed;
        int c, r;

        while ((c = command_next_option(&line)) >= 0)
                switch (c) {
                case OPTION_JSON:
                        is_json = true;
                        break;
                case OPTION_SOCKET:
                        context.socket_path = optarg;
                        break;
                case OPTION_LAUNCHER_SOCKET:
                        context.launcher_socket_path = optarg;
                        break;
                }
        if (line.status != COMMAND_GOES_ON)
                return line.status;

        find_user(&context);
        r = settings_load(/* is_user= */ context.uid != 0, &settings, &message);
        if (message) {
                system_units_read(&context.units);
                check_configuration(&context, message);
                r = 0;
        } else if (r >= 0) {
                settings->pool_size = 0; /* the engine here only asks */
                context.settings = settings;
                r = check_all(&context);
        }
        if (r < 0) {
                (void) log_error_errno(r, "The check itself failed");
                context.report.is_incomplete = true;
        }
        has_failed = check_report_has_failed(&context.report);
        if (!is_json)
                check_report_print_text(&context.report);
        else if (check_report_print_json(&context.report) < 0)
                has_failed = true;
        check_report_done(&context.report);
        return has_failed ? COMMAND_FAILED : COMMAND_OK;
}
