/* SPDX-License-Identifier: MIT */

/* mcp-exec check: can this machine run sandboxes for this user, and if not, what is to be done? */

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
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

static int find_user(CheckContext *c) {
        const struct passwd *p;

        c->uid = geteuid();
        p = getpwuid(c->uid);
        if (p && strlen(p->pw_name) < sizeof(c->user_name)) {
                (void) snprintf(c->user_name, sizeof(c->user_name), "%s", p->pw_name);
                return str_quote_for_shell(p->pw_name, &c->user_word);
        }
        (void) snprintf(c->user_name, sizeof(c->user_name), "uid %u", (unsigned) c->uid);
        return 0;
}

static int check_all(CheckContext *c) {
        _cleanup_close_ int service_fd = -EBADF;
        bool can_run;
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
        /* A service that runs obeys what it read before. A server that is started now reads the mistake. */
        can_run = c->uses_system_service ||
                  (!c->mistake && c->knows_launcher && c->hello.verdict == WIRE_VERDICT_OK);
        if (can_run)
                check_run(c, service_fd);
        check_packages(c);
        if (can_run)
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

        r = find_user(&context);
        if (r >= 0)
                r = check_configuration(&context, &settings);
        if (r >= 0) {
                settings->pool_size = 0; /* the engine here only asks */
                context.settings = settings;
                r = check_all(&context);
        }
        if (r < 0)
                check_report_break(&context.report, r);
        has_failed = check_report_has_failed(&context.report);
        r = is_json ? check_report_print_json(&context.report) : check_report_print_text(&context.report);
        if (r < 0) {
                (void) log_error_errno(r, "The report could not be written");
                has_failed = true;
        }
        check_report_done(&context.report);
        free(context.user_word);
        free(context.mistake);
        return has_failed ? COMMAND_FAILED : COMMAND_OK;
}
