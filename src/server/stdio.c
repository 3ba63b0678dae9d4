/* SPDX-License-Identifier: MIT */

/* mcp-exec stdio: what MCP clients start.
 *
 * Where the system service serves this user, bytes are copied to and from it. Otherwise the engine runs in
 * this process and starts the user's own launcher as its child when the first program comes. Where neither
 * can be, a stand-in answers everything but calls: see stand-in.h. */

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/settings.h"
#include "base/strv.h"
#include "config.h"
#include "server/audit.h"
#include "server/bridge.h"
#include "server/command.h"
#include "server/daemon.h"
#include "server/event-loop.h"
#include "server/stand-in.h"
#include "server/system-socket.h"
#include "transport/transport.h"

static const char help_text[] =
        "Usage: mcp-exec stdio [OPTION…]\n"
        "\n"
        "Speaks MCP on standard input and output. Uses the system service where it is started and admits "
        "this\n"
        "user; otherwise runs programs under the user's own service manager.\n"
        "\n"
        "Options:\n"
        SERVER_CHOICE_HELP
        "      --prepare-directory PATH  The programs that prepare packages (default: " MCP_EXEC_LIBDIR
        "/prepare)\n"
        "      --single                Expect one call: keep no sandbox ready, say only what is wrong\n"
        "  -v, --verbose               Say more on standard error, also one line for each run\n"
        "  -h, --help                  Show this help\n"
        "\n"
        "In place of the settings, where the system service is not used:\n"
        "      --python-version X.Y    Python of every program (default: that of Python=)\n"
        "      --max-timeout SECONDS, --default-timeout SECONDS, --max-output-bytes N, --uv-path PATH\n"
        "Accepted for compatibility: --sandbox-backend native, --no-warm-cache\n";

/* Of one process that serves one client itself. */
typedef struct Stdio {
        sd_event *event;
        LineTransport *transport;
} Stdio;

static void on_closed(LineTransport *t, void *userdata) {
        Stdio *s = userdata;

        (void) t;
        (void) sd_event_exit(s->event, COMMAND_OK);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void) si;
        (void) userdata;
        return sd_event_exit(sd_event_source_get_event(source), COMMAND_OK);
}

static int watch_signals(sd_event *event) {
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
        sigset_t mask;
        int r;

        (void) sigemptyset(&mask);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) sigaddset(&mask, signals[i]);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                r = sd_event_add_signal(event, NULL, signals[i], on_signal, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int serve_client(sd_event *event, const Settings *settings, const StdioOptions *options,
                        const char *refusal) {
        _cleanup_(daemon_freep) Daemon *daemon = NULL;
        Stdio stdio = { .event = event };
        DaemonParameters parameters = {
                .event = event,
                .settings = settings,
                .launcher_socket_path = options->server.launcher_socket_path,
                .programs_directory = options->programs_directory,
                .uv_path = stdio_settings_uv_path(&options->settings),
                .is_quiet = options->is_single,
                .refusal = refusal,
                .has_audit = options->is_verbose || audit_has_journal(),
        };
        LineTransportParameters line = {
                .event = event,
                .principal = "local",
                .input_fd = STDIN_FILENO,
                .output_fd = STDOUT_FILENO,
                .on_closed = on_closed,
                .userdata = &stdio,
        };
        int r;

        r = watch_signals(event);
        if (r < 0)
                return log_error_errno(r, "Cannot watch for signals");
        r = daemon_new(&parameters, &daemon);
        if (r < 0)
                return log_error_errno(r, "Cannot set up the server");

        line.server = daemon_server(daemon);
        r = line_transport_new(&line, &stdio.transport);
        if (r < 0)
                return log_error_errno(r, "Cannot use standard input and output");

        r = event_loop_run(&(EventLoopParameters) { .event = event });
        (void) line_transport_free(stdio.transport);
        return r < 0 ? log_error_errno(r, "The event loop failed") : r;
}

/* A configuration with a mistake is not obeyed in parts: with a refusal nothing runs, so none is read. */
int stdio_run_here(const StdioOptions *options, const char *refusal) {
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        assert(options);

        r = refusal ? settings_new_default(&settings) :
                      settings_load(/* is_user= */ true, &settings, &message);
        if (r >= 0 && !refusal)
                r = stdio_settings_apply(&options->settings, settings, &message);
        if (r < 0) {
                if (message)
                        log_error("%s", message);
                else
                        (void) log_error_errno(r, "Cannot read the configuration");
                return COMMAND_FAILED;
        }
        if (options->is_single || refusal)
                settings->pool_size = 0;
        r = sd_event_new(&event);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot make an event loop");
                return COMMAND_FAILED;
        }
        return serve_client(event, settings, options, refusal) < 0 ? COMMAND_FAILED : COMMAND_OK;
}

/* The service obeys its own configuration. That a variable set for us has no effect must not stay unsaid. */
static void tell_ignored_variables(void) {
        static const char *const names[] = {
                "MCP_EXEC_DEFAULT_TIMEOUT_S",
                "MCP_EXEC_MAX_OUTPUT_BYTES",
                "MCP_EXEC_MAX_STDIN_BYTES",
                "MCP_EXEC_MAX_TIMEOUT_S",
                "MCP_EXEC_PYTHON",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (getenv(names[i]))
                        log_warning("%s has no effect on the system service, which is used here: set its "
                                    "counterpart in "
                                    "/etc/mcp-exec/mcp-exec.conf, or start \"mcp-exec stdio --no-bridge\"",
                                    names[i]);
}

static int run_without_service(const StdioOptions *options) {
        _cleanup_free_ char *refusal = NULL;

        /* Our own commands, for which --single is, show what is on standard error. */
        if (options->is_single)
                return stdio_run_here(options, NULL);
        if (stand_in_find_mistake(&refusal) < 0) {
                log_oom();
                return COMMAND_FAILED;
        }
        if (refusal)
                log_error("No program can be run: %s", refusal);
        return stdio_run_here(options, refusal);
}

int stdio_main(const StdioOptions *options) {
        _cleanup_free_ char *reason = NULL, *refusal = NULL;
        int fd, r;

        assert(options);

        if (options->server.no_bridge)
                return run_without_service(options);

        r = system_socket_connect(options->server.socket_path, &fd, &reason);
        if (r == 0) {
                tell_ignored_variables();
                stdio_settings_tell_ignored(&options->settings);
                return stand_in_bridge(options, fd);
        }
        if (r < 0)
                (void) str_printf(&reason, "the system service's socket cannot be used: %s", strerror(-r));
        if (!reason || stand_in_find_refusal(r, reason, /* is_bound= */ false, &refusal) < 0) {
                log_oom();
                return COMMAND_FAILED;
        }
        if (refusal)
                return stand_in_run(options, refusal);
        log_info("Programs run under this user's own service manager: %s", reason);
        return stdio_run_here(options, NULL);
}

int command_stdio(int argc, char **argv) {
        enum {
                OPTION_PREPARE_DIRECTORY = 0x100,
                OPTION_SINGLE
        };
        static const struct option table[] = {
                { "prepare-directory", required_argument, NULL, OPTION_PREPARE_DIRECTORY },
                { "single",            no_argument,       NULL, OPTION_SINGLE            },
                { "verbose",           no_argument,       NULL, 'v'                      },
                { "help",              no_argument,       NULL, 'h'                      },
                SERVER_CHOICE_OPTIONS,
                STDIO_OPTIONS,
                {},
        };
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "stdio", .help = help_text, .options = table,
                .has_verbose = true,
        };
        StdioOptions options = { .server = SERVER_CHOICE_INIT };
        int c;

        while ((c = command_next_option(&line)) >= 0)
                switch (c) {
                case OPTION_PREPARE_DIRECTORY:
                        options.programs_directory = optarg;
                        break;
                case OPTION_SINGLE:
                        options.is_single = true;
                        log_open("mcp-exec", LOG_WARNING);
                        break;
                default:
                        if (!server_choice_take(&options.server, c, optarg) &&
                            stdio_settings_take(&options.settings, c, optarg) != 0)
                                return COMMAND_USAGE;
                }
        if (line.status != COMMAND_GOES_ON)
                return line.status;

        options.is_verbose = line.is_verbose;
        return stdio_main(&options);
}
