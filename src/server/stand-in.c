/* SPDX-License-Identifier: MIT */

#include "server/stand-in.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/strv.h"
#include "config.h"
#include "server/bridge.h"
#include "server/system-socket.h"
#include "server/system-units.h"

typedef struct StandIn {
        const StdioOptions *options;
        /* Whom the service served is not moved to another place behind his back: it has other limits, and
         * what runs here is not known there. */
        bool is_bound;
        int fd;        /* of the connection to the process, which is the bridge's; < 0: there is none */
        char *refusal; /* which it tells */
} StandIn;

/* What is wrong in files or variables, allocated, or NULL where they can be obeyed. Returns 0 or -ENOMEM. */
static int find_mistake(char **ret) {
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        *ret = NULL;
        r = settings_load(/* is_user= */ true, &settings, &message);
        if (r >= 0 || r == -ENOMEM)
                return r < 0 ? r : 0;
        return message ? str_copy(ret, message) :
                         str_printf(ret, "the configuration cannot be read: %s", strerror(-r));
}

static bool is_below(const char *path, const char *directory) {
        size_t n = strlen(directory);

        return strncmp(path, directory, n) == 0 && path[n] == '/';
}

/* In a file that the system service reads, too. */
static bool is_of_system(const char *mistake) {
        return is_below(mistake, MCP_EXEC_SYSCONFDIR) || is_below(mistake, MCP_EXEC_LIBDIR);
}

static const char* who_corrects(const char *mistake) {
        return geteuid() != 0 && is_of_system(mistake) ? "root has to correct it" : "Correct it";
}

int stand_in_find_mistake(char **ret_refusal) {
        _cleanup_free_ char *mistake = NULL;
        int r;

        assert(ret_refusal);

        *ret_refusal = NULL;
        r = find_mistake(&mistake);
        if (r < 0 || !mistake)
                return r;
        return str_printf(ret_refusal, "%s. %s, then start this MCP server anew", mistake,
                          who_corrects(mistake));
}

int stand_in_find_refusal(int code, const char *reason, bool is_bound, char **ret) {
        _cleanup_free_ char *mistake = NULL, *cause = NULL;
        const char *then;
        int r;

        assert(reason);
        assert(ret);

        *ret = NULL;
        r = find_mistake(&mistake);
        if (is_bound && mistake && !is_of_system(mistake)) {
                free(mistake);
                mistake = NULL;
        }
        /* With a mistake of its own the service only says that there is one. */
        if (r >= 0 && code > 0 && !(mistake && is_of_system(mistake)))
                r = server_choice_find_cause(code, reason, &cause);
        if (r < 0 || (!mistake && !cause))
                return r;
        if (!mistake)
                return str_printf(ret, "%s (then call again)", cause);
        /* Of a variable we keep what we were started with. */
        then = *mistake == '/' ? "call again" : "start this MCP server anew";
        if (!cause)
                return str_printf(ret, "%s. %s, then %s", mistake, who_corrects(mistake), then);
        return str_printf(ret, "%s. %s. Besides, %s (then %s)", mistake, who_corrects(mistake), cause, then);
}

/* For somebody whose own service manager would run programs, if he came now. */
static int refuse_bound(int code, const char *reason, char **ret) {
        _cleanup_free_ char *remedy = NULL;
        int r;

        r = system_units_remedy(/* units= */ NULL, code, geteuid() == 0, &remedy);
        return r < 0 ? r : str_printf(ret, "%s%s%s (then call again; or start this MCP server anew, to run "
                                           "programs under this user's own service manager)",
                                      reason, remedy ? ". To repair this: " : "", remedy ?: "");
}

/* A process that serves the other end of the returned fd, or -errno. It ends with the connection. */
static int start(StandIn *s, const char *refusal) {
        _cleanup_close_ int ours = -EBADF, theirs = -EBADF;
        int pair[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
                return -errno;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void) safe_close(ours);
                if (s->fd >= 0)
                        (void) safe_close(s->fd); /* else the predecessor would not hear of its end */
                if (dup2(theirs, STDIN_FILENO) < 0 || dup2(theirs, STDOUT_FILENO) < 0)
                        _exit(COMMAND_FAILED);
                (void) safe_close(theirs);
                _exit(stdio_run_here(s->options, refusal));
        }
        s->fd = ours;
        return TAKE_FD(ours);
}

static int choose(StandIn *s, int code, const char *reason, BridgePeer *ret_peer) {
        _cleanup_free_ char *refusal = NULL;
        int fd, r;

        r = stand_in_find_refusal(code, reason, s->is_bound, &refusal);
        if (r >= 0 && !refusal && s->is_bound)
                r = refuse_bound(code, reason, &refusal);
        if (r < 0)
                return r;
        if (refusal && s->fd >= 0 && s->refusal && streq(refusal, s->refusal))
                return -EALREADY;
        fd = start(s, refusal);
        if (fd < 0)
                return log_error_errno(fd, "Cannot start a process that speaks with the client");
        if (refusal)
                log_error("No program can be run: %s", refusal);
        else
                log_info("Programs run under this user's own service manager from now on");
        *ret_peer = refusal ? BRIDGE_STAND_IN : BRIDGE_OWN_SERVER;
        free(s->refusal);
        s->refusal = TAKE_PTR(refusal);
        return fd;
}

static int replace_service(void *userdata, int code, const char *reason, BridgePeer *ret_peer) {
        StandIn *s = userdata;

        s->fd = -EBADF; /* closed by the bridge */
        return choose(s, code, reason, ret_peer);
}

/* While files show why it cannot start, the service is not started once more to say it. */
static int look_for_server(void *userdata, BridgePeer *ret_peer) {
        _cleanup_free_ char *reason = NULL, *mistake = NULL;
        StandIn *s = userdata;
        int fd, r;

        r = find_mistake(&mistake);
        if (r < 0)
                return r;
        if (mistake && is_of_system(mistake))
                return choose(s, SYSTEM_SOCKET_E_FAILED, mistake, ret_peer);
        r = system_socket_connect(s->options->server.socket_path, &fd, &reason);
        if (r != 0)
                return choose(s, r, reason ?: strerror(-r), ret_peer);
        log_info("The system service runs programs from now on");
        s->is_bound = true;
        *ret_peer = BRIDGE_SERVICE;
        return fd;
}

static int run(StandIn *s, int take_fd, BridgePeer peer) {
        const BridgeServers servers = {
                .replace = replace_service,
                .look = look_for_server,
                .userdata = s,
        };
        int status = bridge_run(take_fd, peer, s->options->server.socket_path, &servers);

        free(s->refusal);
        return status;
}

int stand_in_bridge(const StdioOptions *options, int take_fd) {
        StandIn s = { .options = options, .is_bound = true, .fd = -EBADF };

        assert(options);
        assert(take_fd >= 0);

        return run(&s, take_fd, BRIDGE_SERVICE);
}

int stand_in_run(const StdioOptions *options, const char *refusal) {
        StandIn s = { .options = options, .fd = -EBADF };
        int fd, r;

        assert(options);
        assert(refusal);

        log_error("No program can be run: %s", refusal);
        r = str_copy(&s.refusal, refusal);
        fd = r < 0 ? r : start(&s, refusal);
        if (fd < 0) {
                (void) log_error_errno(fd, "Cannot start a process that speaks with the client");
                free(s.refusal);
                return COMMAND_FAILED;
        }
        return run(&s, fd, BRIDGE_STAND_IN);
}
