/* SPDX-License-Identifier: MIT */

/* Our own server is a child and not this process, so that a terminal which does not take our output stops
 * only us, never the deadline of the program. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "server/own-server.h"

static int spawn(int fd, bool is_silent, const char *const argv[]) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        pid_t pid;
        int r;

        r = -posix_spawn_file_actions_init(&actions);
        if (r < 0)
                return r;
        r = -posix_spawnattr_init(&attributes);
        if (r < 0) {
                (void) posix_spawn_file_actions_destroy(&actions);
                return r;
        }
        (void) sigemptyset(&none);
        (void) sigfillset(&all);

        r = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
        if (r == 0 && is_silent)
                r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
        /* Ctrl-C is for us; the child ends with the connection. */
        if (r == 0)
                r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                                  POSIX_SPAWN_SETSIGMASK);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(&attributes, &all);
        if (r == 0)
                r = posix_spawnattr_setsigmask(&attributes, &none);
        if (r == 0)
                r = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, (char *const*) argv, environ);

        (void) posix_spawnattr_destroy(&attributes);
        (void) posix_spawn_file_actions_destroy(&actions);
        return -r;
}

int own_server_start(const char *launcher_socket_path, OwnServerVoice voice) {
        const char *argv[7] = { "mcp-exec", "stdio", "--no-bridge" };
        _cleanup_close_ int ours = -EBADF, theirs = -EBADF;
        size_t n = 3;
        int r, pair[2];

        argv[n++] = voice == OWN_SERVER_VERBOSE ? "--verbose" : "--single";
        if (launcher_socket_path) {
                argv[n++] = "--launcher-socket";
                argv[n++] = launcher_socket_path;
        }

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];

        /* The end of the connection tells all that there is to know about the child. */
        if (signal(SIGCHLD, SIG_IGN) == SIG_ERR)
                return -errno;
        r = spawn(theirs, voice == OWN_SERVER_SILENT, argv);
        return r < 0 ? r : TAKE_FD(ours);
}
