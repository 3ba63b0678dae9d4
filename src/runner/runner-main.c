/* SPDX-License-Identifier: MIT */

/* The order of things in the first process of a unit: arguments, walls, world, program. Nothing that a
 * client sent is in this process before the walls have been seen to stand. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/runner.h"

/* Tells the daemon (MXFAILED) and, by the exit status, the launcher. Returns the exit status. */
static int fail(int check) {
        const unsigned char message[12] = { 'M', 'X', 'F', 'A', 'I', 'L', 'E', 'D', (unsigned char) check };

        (void) send(STDIN_FILENO, message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
        return RUNNER_EXIT_CHECK + check;
}

static bool is_control_socket(int fd) {
        int type = 0, domain = 0;
        socklen_t n = sizeof(type), m = sizeof(domain);

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) >= 0 && type == SOCK_STREAM &&
               getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) >= 0 && domain == AF_UNIX;
}

static int selftest(const RunnerFacts *facts, RunnerEnvironment *environment) {
        int check;

        check = selftest_interpreter(facts, environment);
        if (check != RUNNER_CHECK_OK)
                return fail(check);

        selftest_wait(STDIN_FILENO);
        return 0;
}

int runner_main(int argc, char *const argv[], char *const inherited[], const RunnerPlaces *places,
                int (*check)(const RunnerFacts *facts)) {
        RunnerEnvironment environment;
        RunnerFacts facts;
        int control_fd, failed;

        /* Ignored, it would let the kernel reap: the program's end, or the self-test's, would be lost. */
        (void) signal(SIGCHLD, SIG_DFL);

        /* Descriptors that a manager left open by mistake would be the program's. */
        (void) close_range(STDERR_FILENO + 1, ~0U, 0);

        failed = facts_parse(argc, argv, &facts);
        if (failed != RUNNER_CHECK_OK)
                return fail(failed);
        if (!is_control_socket(STDIN_FILENO))
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;
        failed = check(&facts);
        if (failed != RUNNER_CHECK_OK)
                return fail(failed);

        if (world_prepare(places) < 0 ||
            world_environment(places, &facts, inherited, &environment) < 0 ||
            world_enter_nowhere(places) < 0)
                return fail(RUNNER_CHECK_PREPARE);

        if (facts.is_selftest)
                return selftest(&facts, &environment);

        if (facts.is_user) {
                control_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
                if (control_fd < 0)
                        return fail(RUNNER_CHECK_CONTROL);
                return program_supervise(places, &facts, &environment, control_fd);
        }

        failed = program_become(places, &facts, &environment);
        return facts.set ? failed : fail(RUNNER_CHECK_INTERPRETER);
}
