/* SPDX-License-Identifier: MIT */

/* The last check of the self-test: the configured interpreter says READY, takes a program and runs it,
 * within these walls. We play the daemon over a socket pair (which the filter allows: it refuses
 * socket(), not socketpair()). */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/runner.h"

#define ANSWER 73
#define PATIENCE_MSEC 8000 /* a cold interpreter on a busy machine; the daemon gives a run ten seconds */

static void put_le(unsigned char *p, uint64_t value, size_t n_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
                p[i] = (unsigned char) (value >> (8 * i));
}

/* Waits for "MXREADY\n" with one fd that is a directory. */
static bool receive_ready(int fd) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        char text[9] = {};
        struct iovec iov = { .iov_base = text, .iov_len = 8 };
        struct msghdr message = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control),
        };
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const struct cmsghdr *c;
        struct stat st = {};
        int dir_fd;

        if (poll(&p, 1, PATIENCE_MSEC) != 1 || recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 8)
                return false;
        c = CMSG_FIRSTHDR(&message);
        if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
                return false;

        memcpy(&dir_fd, CMSG_DATA(c), sizeof(int));
        (void) fstat(dir_fd, &st);
        (void) close(dir_fd);
        return streq(text, "MXREADY\n") && S_ISDIR(st.st_mode);
}

static bool send_program(int fd) {
        char code[] = "import sys\nsys.exit(73 if sys.stdin.read() == 'in' else 1)\n";
        char input[] = "in";
        unsigned char header[32] = "MXCODE2\n";
        struct iovec parts[] = {
                { .iov_base = header, .iov_len = sizeof(header) },
                { .iov_base = code, .iov_len = sizeof(code) - 1 },
                { .iov_base = input, .iov_len = sizeof(input) - 1 },
        };
        const struct msghdr message = { .msg_iov = parts, .msg_iovlen = ELEMENTSOF(parts) };
        size_t n = sizeof(header) + sizeof(code) - 1 + sizeof(input) - 1;

        put_le(header + 8, sizeof(code) - 1, 8);
        put_le(header + 16, sizeof(input) - 1, 8);
        put_le(header + 24, 0, 8);

        return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t) n;
}

/* The program ends by itself, or hangs until its end of the socket pair is shut: then killing it is the
 * way out. */
static bool converse(int fd, pid_t pid) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int wait_status = 0;
        bool is_sent;

        is_sent = receive_ready(fd) && send_program(fd) && poll(&p, 1, PATIENCE_MSEC) == 1;
        if (!is_sent)
                (void) kill(pid, SIGKILL);
        if (waitpid(pid, &wait_status, 0) != pid)
                return false;

        return is_sent && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == ANSWER;
}

int selftest_interpreter(const RunnerFacts *facts, RunnerEnvironment *environment) {
        int pair[2];
        bool is_good;
        pid_t pid;

        assert(facts);
        assert(environment);

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return RUNNER_CHECK_CONTROL;

        pid = fork();
        if (pid < 0)
                return RUNNER_CHECK_PREPARE;
        if (pid == 0) {
                if (dup2(pair[1], STDIN_FILENO) == STDIN_FILENO)
                        (void) program_exec(facts, environment);
                _exit(RUNNER_EXIT_CHECK + RUNNER_CHECK_INTERPRETER);
        }
        (void) close(pair[1]);

        is_good = converse(pair[0], pid);
        (void) close(pair[0]);
        return is_good ? RUNNER_CHECK_OK : RUNNER_CHECK_INTERPRETER;
}

void selftest_wait(int control_fd) {
        char ignored[64];
        ssize_t k;

        do
                k = read(control_fd, ignored, sizeof(ignored));
        while (k > 0 || (k < 0 && errno == EINTR));
}
