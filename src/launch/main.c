/* SPDX-License-Identifier: MIT */

/* mcp-exec-launcher: the only process of mcp-exec that talks to systemd. Reads no JSON and nothing a
 * program wrote. */

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "config.h"
#include "launch/sandbox.h"
#include "launch/server.h"

#define DAEMON_USER "mcp-exec"

static bool arg_is_user = false;
static bool arg_print_unit = false;
static int arg_connection_fd = -EBADF;
static const char *arg_uv_path = NULL;
static unsigned arg_manager_version = 0;
static WireProfile arg_profile = WIRE_PROFILE_RUN;

static void help(FILE *f) {
        fputs("mcp-exec-launcher [--user --connection=FD [--uv-path=PATH]]\n"
              "mcp-exec-launcher --print-unit [--user] [--manager-version=N] [--profile=NAME]\n\n"
              "Starts the sandboxed units of mcp-exec. Not for use by hand: systemd starts it by\n"
              "mcp-exec-launcher.socket, or mcp-exec stdio does. --print-unit shows every property\n"
              "that a run would get.\n\n"
              "  --user               use the service manager of the calling user\n"
              "  --connection=FD      serve this socket\n"
              "  --uv-path=PATH       in place of UvPath= (only with --connection)\n"
              "  --print-unit         print Name=value lines and exit\n"
              "  --profile=NAME       print for run, parse, fetch or install\n"
              "  --manager-version=N  print for this version of systemd instead of the one that runs\n"
              "  --version, --help\n",
              f);
}

static int parse_number(const char *option, const char *text, uint64_t maximum, uint64_t *ret) {
        if (parse_uint64(text, ret) < 0 || *ret > maximum) {
                log_error("%s takes a number, not %s", option, text);
                return -EINVAL;
        }
        return 0;
}

/* Returns 1 to go on, 0 when all is said, -EINVAL. */
static int parse_arguments(int argc, char *argv[]) {
        enum {
                ARG_USER = 0x100,
                ARG_CONNECTION,
                ARG_UV_PATH,
                ARG_PRINT_UNIT,
                ARG_MANAGER_VERSION,
                ARG_PROFILE,
                ARG_VERSION,
                ARG_HELP
        };
        static const struct option options[] = {
                { "user", no_argument, NULL, ARG_USER },
                { "connection", required_argument, NULL, ARG_CONNECTION },
                { "uv-path", required_argument, NULL, ARG_UV_PATH },
                { "print-unit", no_argument, NULL, ARG_PRINT_UNIT },
                { "manager-version", required_argument, NULL, ARG_MANAGER_VERSION },
                { "profile", required_argument, NULL, ARG_PROFILE },
                { "version", no_argument, NULL, ARG_VERSION },
                { "help", no_argument, NULL, ARG_HELP },
                {}
        };
        uint64_t number;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case ARG_USER:
                        arg_is_user = true;
                        break;
                case ARG_CONNECTION:
                        if (parse_number("--connection", optarg, INT32_MAX, &number) < 0)
                                return -EINVAL;
                        arg_connection_fd = (int) number;
                        break;
                case ARG_UV_PATH:
                        arg_uv_path = optarg;
                        break;
                case ARG_PRINT_UNIT:
                        arg_print_unit = true;
                        break;
                case ARG_MANAGER_VERSION:
                        if (parse_number("--manager-version", optarg, 9999, &number) < 0)
                                return -EINVAL;
                        arg_manager_version = (unsigned) number;
                        break;
                case ARG_PROFILE:
                        arg_profile = profile_from_string(optarg);
                        if (arg_profile == _WIRE_PROFILE_MAX) {
                                log_error("--profile takes run, parse, fetch or install, not %s", optarg);
                                return -EINVAL;
                        }
                        break;
                case ARG_VERSION:
                        puts(MCP_EXEC_VERSION);
                        return 0;
                case ARG_HELP:
                        help(stdout);
                        return 0;
                default:
                        return -EINVAL; /* getopt said why */
                }

        if (optind < argc || (!arg_print_unit && arg_is_user != (arg_connection_fd >= 0)) ||
            (arg_uv_path && arg_connection_fd < 0)) {
                help(stderr);
                return -EINVAL;
        }
        return 1;
}

static int print_unit(void) {
        _cleanup_(sandbox_freep) Sandbox *s = NULL;
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(MIB);
        UnitChoice choice = { .profile = arg_profile };
        static const SetName leaf = { .text = "NAME" SET_LEAF_SUFFIX, .is_leaf = true };
        int r;

        /* What else this machine lacks or has set is not what was asked. */
        log_open("mcp-exec-launcher", LOG_ERR);
        if (arg_manager_version > 0)
                r = sandbox_new_for_version(arg_is_user, arg_manager_version, &s);
        else
                r = sandbox_new(NULL, arg_is_user, NULL, &s);
        if (r < 0)
                return r;
        if (!s->manager || !s->settings || !s->python)
                return -EOPNOTSUPP; /* why was said */

        choice.limits = s->ceilings[arg_profile];
        choice.set = profile_has_leaf(arg_profile) ? &leaf : NULL;
        r = sandbox_unit_spec(s, &choice, &spec);
        if (r >= 0)
                r = unit_spec_print(spec, &b);
        if (r < 0)
                return log_error_errno(r, "Cannot make the unit");
        if (fwrite(b.data, 1, b.n_bytes, stdout) != b.n_bytes || fflush(stdout) != 0)
                return log_error_errno(-errno, "Cannot write to standard output");
        return 0;
}

/* In system mode each run is bound to our unit, and ends with it. Outside of it that would not hold. */
static int check_own_unit(void) {
        _cleanup_free_ char *unit = NULL;

        if (geteuid() != 0) {
                log_error("The launcher of the system runs as root; a user's is started with --user");
                return -EPERM;
        }
        if (sd_pid_get_unit(0, &unit) < 0 || !streq(unit, LAUNCHER_UNIT)) {
                log_error("Only systemd may start this, as " LAUNCHER_UNIT
                          ": systemctl restart mcp-exec-launcher.socket");
                return -EPERM;
        }
        return 0;
}

static int take_system_socket(Server *s) {
        const struct passwd *user;

        if (sd_listen_fds(/* unset_environment= */ true) != 1 ||
            sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, /* listening= */ 1, NULL, 0) <= 0) {
                log_error("No listening socket was handed over; restart mcp-exec-launcher.socket");
                return -EINVAL;
        }

        /* Blocking look-up, before the event loop runs. Without the user only root may connect. */
        user = getpwnam(DAEMON_USER);
        if (!user)
                log_warning("There is no user " DAEMON_USER ": run systemd-sysusers mcp-exec.conf");
        return server_take_listener(s, SD_LISTEN_FDS_START, user ? user->pw_uid : 0);
}

static int take_user_socket(Server *s) {
        struct ucred peer;
        socklen_t n = sizeof(peer);

        if (!fd_is_socket(arg_connection_fd, AF_UNIX, SOCK_SEQPACKET) ||
            getsockopt(arg_connection_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
            (peer.uid != getuid() && peer.uid != 0)) {
                log_error("--connection=%d is not a socket of this user", arg_connection_fd);
                return -EINVAL;
        }
        return server_take_connection(s, arg_connection_fd);
}

static int on_signal(sd_event_source *source _unused_, const struct signalfd_siginfo *info _unused_,
                     void *userdata) {
        (void) sd_notify(0, "STOPPING=1\nSTATUS=Ending all runs");
        server_shutdown(userdata);
        return 0;
}

static int watch_signals(sd_event *event, Server *s) {
        static const int numbers[] = { SIGTERM, SIGINT };
        sigset_t set;
        int r = 0;

        if (sigemptyset(&set) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                (void) sigaddset(&set, numbers[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(numbers) && r >= 0; i++)
                r = sd_event_add_signal(event, NULL, numbers[i], on_signal, s);
        return r;
}

static int serve(void) {
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        _cleanup_(sandbox_freep) Sandbox *sandbox = NULL;
        _cleanup_(server_freep) Server *server = NULL;
        int r;

        if (!arg_is_user) {
                r = check_own_unit();
                if (r < 0)
                        return r;
        }

        r = sd_event_new(&event);
        if (r < 0)
                return log_error_errno(r, "Cannot make an event loop");
        r = sandbox_new(event, arg_is_user, arg_uv_path, &sandbox);
        if (r < 0)
                return r;
        r = server_new(event, sandbox, &server);
        if (r >= 0)
                r = watch_signals(event, server);
        if (r >= 0)
                r = arg_is_user ? take_user_socket(server) : take_system_socket(server);
        if (r < 0)
                return r;

        /* Before the self-test: its unit is ordered after ours and would wait for it. */
        (void) sd_notify(0, "READY=1\nSTATUS=Testing the sandbox");
        r = server_start(server);
        if (r < 0)
                return log_error_errno(r, "Cannot start the self-test");
        return sd_event_loop(event);
}

int main(int argc, char *argv[]) {
        int r;

        log_open("mcp-exec-launcher", LOG_INFO);
        r = parse_arguments(argc, argv);
        if (r > 0)
                r = arg_print_unit ? print_unit() : serve();
        return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
