/* SPDX-License-Identifier: MIT */

#include "server/read-command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/timeutil.h"

#define TIME_USEC (5 * USEC_PER_SEC)

static int spawn(const char *const argv[], int output_fd, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        int r;

        r = -posix_spawn_file_actions_init(&actions);
        if (r < 0)
                return r;
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawnp(ret, argv[0], &actions, NULL, (char *const*) argv, environ);
        (void) posix_spawn_file_actions_destroy(&actions);
        return -r;
}

int read_command(const char *const argv[], Buffer *output) {
        _cleanup_close_ int read_fd = -EBADF, write_fd = -EBADF;
        uint64_t now, end = now_monotonic_usec() + TIME_USEC;
        bool has_ended = false;
        pid_t pid;
        int r, fds[2];

        assert(argv && argv[0]);
        assert(output);

        r = pipe_new(fds);
        if (r < 0)
                return r;
        read_fd = fds[0];
        write_fd = fds[1];
        r = spawn(argv, write_fd, &pid);
        if (r < 0)
                return r;
        write_fd = safe_close(write_fd);

        while (!has_ended && (now = now_monotonic_usec()) < end) {
                struct pollfd p = { .fd = read_fd, .events = POLLIN };
                char chunk[1024];
                ssize_t n;

                if (poll(&p, 1, (int) ((end - now) / USEC_PER_MSEC + 1)) <= 0)
                        continue;
                n = read(read_fd, chunk, sizeof(chunk));
                has_ended = n <= 0 || buffer_append(output, chunk, (size_t) n) < 0;
        }
        if (!has_ended)
                (void) kill(pid, SIGKILL);
        read_fd = safe_close(read_fd);
        (void) waitpid(pid, NULL, 0); /* gone already where SIGCHLD is ignored */
        return 0;
}
