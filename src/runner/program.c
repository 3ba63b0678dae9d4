/* SPDX-License-Identifier: MIT */

/* Becoming the program, and in user mode being the PID 1 above it.
 *
 * Why a PID 1 of our own: a process that is PID 1 of its namespace cannot kill itself, and its children
 * have nobody to reap them. It holds the control socket, which the program must never reach: a dumpable
 * PID 1 of the same user would show its descriptors, memory and environment in /proc/1. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/runner.h"

#define STATUS_SIGNAL 0x100 /* in MXSTAT: killed by the signal in the low byte */

int program_exec(const RunnerFacts *facts, RunnerEnvironment *environment) {
        char python[RUNNER_PATH_MAX], script[] = "main.py";
        char *const argv[] = { python, script, NULL };

        if (snprintf(python, sizeof(python), "%s%s", facts->set ?: facts->python,
                     facts->set ? "/bin/python3" : "") >= (int) sizeof(python))
                return -ENAMETOOLONG;

        (void) execve(python, argv, environment->entries);
        return -errno;
}

int program_become(const RunnerPlaces *places, const RunnerFacts *facts, RunnerEnvironment *environment) {
        int r;

        if (facts->set) {
                r = receive_program(places);
                if (r >= 0)
                        return r;
        }
        r = program_exec(facts, environment);
        if (facts->set) /* the control socket is closed, and nobody hears of the check */
                (void) dprintf(STDERR_FILENO,
                               "mcp-exec: the interpreter of the packages cannot be started: %s\n",
                               strerror(-r));
        return RUNNER_EXIT_CHECK + RUNNER_CHECK_INTERPRETER;
}

/* The exit code 0..255, or STATUS_SIGNAL | signal. */
static uint16_t status_encode(int wait_status) {
        if (WIFSIGNALED(wait_status))
                return (uint16_t) (STATUS_SIGNAL | WTERMSIG(wait_status));
        return (uint16_t) WEXITSTATUS(wait_status);
}

static int report_status(int control_fd, uint16_t status) {
        const unsigned char message[10] = {
                'M', 'X', 'S', 'T', 'A', 'T', 0, 0,
                (unsigned char) (status & 0xff), (unsigned char) (status >> 8),
        };

        /* Ten bytes fit always. A daemon that is gone does not want to know. */
        (void) send(control_fd, message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
        return status & STATUS_SIGNAL ? 128 + (status & 0xff) : status;
}

/* Waits for children, ours and orphans. Returns true when the program itself is among them. */
static bool reap(pid_t program, int *ret_wait_status) {
        bool is_over = false;
        int wait_status;
        pid_t pid;

        while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
                if (pid == program) {
                        *ret_wait_status = wait_status;
                        is_over = true;
                }

        return is_over;
}

static int watch(int control_fd, int signal_fd, pid_t program) {
        /* No POLLIN: what the daemon says is for the runner, which reads from the same socket. */
        struct pollfd fds[] = {
                { .fd = control_fd, .events = POLLRDHUP },
                { .fd = signal_fd, .events = POLLIN },
        };
        struct signalfd_siginfo info;
        int wait_status = 0;

        for (;;) {
                if (poll(fds, ELEMENTSOF(fds), -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;
                }

                if (fds[1].revents) {
                        (void) read(signal_fd, &info, sizeof(info));
                        if (reap(program, &wait_status))
                                return report_status(control_fd, status_encode(wait_status));
                }

                /* Nobody waits for this run any more. Our exit makes the kernel kill the whole namespace. */
                if (fds[0].revents)
                        return 0;
        }
}

int program_supervise(const RunnerPlaces *places, const RunnerFacts *facts,
                      RunnerEnvironment *environment, int control_fd) {
        sigset_t mask, old_mask;
        int signal_fd;
        pid_t pid;

        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;

        /* Blocked before the fork: a program that ends at once must not be missed. */
        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &mask, &old_mask) < 0)
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;
        signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signal_fd < 0)
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;

        pid = fork();
        if (pid < 0)
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_PREPARE;
        if (pid == 0) {
                /* The program's terminal signals and process group are its own affair, as for the system
                 * manager. */
                (void) setsid();
                (void) sigprocmask(SIG_SETMASK, &old_mask, NULL);
                _exit(program_become(places, facts, environment));
        }

        /* The pipes belong to the program alone: whoever reads them waits for their last writer. */
        (void) close(STDIN_FILENO);
        (void) close(STDOUT_FILENO);
        (void) close(STDERR_FILENO);

        return watch(control_fd, signal_fd, pid);
}
