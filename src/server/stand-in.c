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
#include "server/bridge.h"
#include "server/system-socket.h"

typedef struct StandIn {
        const StdioOptions *options;
        int fd; /* of its connection, which is the bridge's */
} StandIn;

int stand_in_find_mistake(char **ret) {
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        assert(ret);

        *ret = NULL;
        r = settings_load(/* is_user= */ true, &settings, &message);
        if (r >= 0 || r == -ENOMEM)
                return r < 0 ? r : 0;
        return message ? str_copy(ret, message) :
                         str_printf(ret, "the configuration cannot be read: %s", strerror(-r));
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

/* Whoever is not admitted has a service manager, which may serve by now. */
static int find_server(void *userdata) {
        _cleanup_free_ char *reason = NULL, *cause = NULL, *mistake = NULL;
        StandIn *s = userdata;
        int fd, r;

        r = system_socket_connect(s->options->server.socket_path, &fd, &reason);
        if (r == 0)
                return fd;
        if (r != SYSTEM_SOCKET_E_REFUSED && r != SYSTEM_SOCKET_E_ABSENT)
                return -ENOTCONN;
        r = server_choice_find_cause(r, reason, &cause);
        if (r >= 0 && !cause)
                r = stand_in_find_mistake(&mistake);
        return r < 0 ? r : cause || mistake ? -ENOTCONN : start(s, NULL);
}

int stand_in_run(const StdioOptions *options, const char *mistake, const char *cause) {
        StandIn s = { .options = options, .fd = -EBADF };
        const BridgeStandIn stand_in = { .find = find_server, .userdata = &s };
        _cleanup_free_ char *refusal = NULL;
        const char *then;
        int fd, r;

        assert(options);
        assert(mistake || cause);

        /* Of a variable we keep what we were started with. */
        then = mistake && *mistake != '/' ? "start this MCP server anew" : "call again";
        if (!cause)
                r = str_printf(&refusal, "%s. Correct it, then %s", mistake, then);
        else
                r = str_printf(&refusal, "%s%s%s (then %s)", mistake ?: "",
                               mistake ? ". Correct it. Besides, " : "", cause, then);
        fd = r < 0 ? r : start(&s, refusal);
        if (fd < 0) {
                (void) log_error_errno(fd, "Cannot start a process that tells the client what is wrong");
                return COMMAND_FAILED;
        }
        return bridge_run(fd, options->server.socket_path, &stand_in);
}
