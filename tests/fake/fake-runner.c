/* SPDX-License-Identifier: MIT */

#include "fake-runner.h"

#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "fake-sets.h"

static void check(bool is_fine) {
        if (!is_fine)
                _exit(99);
}

static void say(const void *data, size_t n_bytes, int fd) {
        union {
                struct cmsghdr header;
                char buffer[CMSG_SPACE(sizeof(int))];
        } control = {};
        struct iovec part = { (void*) data, n_bytes };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

        if (fd >= 0) {
                struct cmsghdr *c;

                m.msg_control = &control;
                m.msg_controllen = sizeof(control);
                c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(c), &fd, sizeof(int));
        }
        check(sendmsg(STDIN_FILENO, &m, MSG_NOSIGNAL) == (ssize_t) n_bytes);
}

static void read_all(void *data, size_t n_bytes) {
        char *p = data;

        while (n_bytes > 0) {
                ssize_t n = read(STDIN_FILENO, p, n_bytes);

                if (n == 0) /* an idle unit told to go */
                        _exit(0);
                check(n > 0);
                p += n;
                n_bytes -= (size_t) n;
        }
}

static uint64_t number(const uint8_t *p) {
        uint64_t n;

        memcpy(&n, p, sizeof(n));
        return le64toh(n);
}

static void put_file(const char *name, const void *data, size_t n_bytes) {
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        check(fd >= 0);
        check(fd_write_all(fd, data, n_bytes) == 0);
        (void) close(fd);
}

static void receive_file(void) {
        _cleanup_free_ char *name = NULL, *data = NULL;
        uint8_t header[12];
        uint64_t n_name, n_bytes;

        read_all(header, sizeof(header));
        n_bytes = number(header + 4);
        n_name = number(header) & UINT32_MAX;
        name = malloc(n_name + 1);
        data = malloc(n_bytes + 1);
        check(name && data);
        read_all(name, n_name);
        name[n_name] = '\0';
        read_all(data, n_bytes);
        put_file(name, data, n_bytes);
}

static void receive_program(void) {
        _cleanup_free_ char *code = NULL, *input = NULL;
        uint64_t code_bytes, stdin_bytes, n_files;
        uint8_t header[32];
        int fd;

        read_all(header, sizeof(header));
        check(memcmp(header, "MXCODE2\n", 8) == 0);
        code_bytes = number(header + 8);
        stdin_bytes = number(header + 16);
        n_files = number(header + 24);
        code = malloc(code_bytes + 1);
        input = malloc(stdin_bytes + 1);
        check(code && input);
        read_all(code, code_bytes);
        read_all(input, stdin_bytes);

        put_file("main.py", code, code_bytes);
        while (n_files-- > 0)
                receive_file();

        fd = memfd_new_sealed("stdin", input, stdin_bytes);
        check(fd >= 0);
        check(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
}

/* In the role of init, too: what a user's manager starts first, and which outlives the program. */
static int wait_for_program(pid_t pid, int control) {
        struct {
                char word[8];
                uint16_t status;
        } __attribute__((__packed__)) m = { .word = "MXSTAT" };
        int status;

        check(waitpid(pid, &status, 0) == pid);
        m.status = htole16((uint16_t) (WIFSIGNALED(status) ? 0x100 + WTERMSIG(status) :
                                                             WEXITSTATUS(status)));
        (void) send(control, &m, sizeof(m), MSG_NOSIGNAL);
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void misbehave(FakeBehaviour behaviour, int directory_fd) {
        static const uint8_t failed[12] = { 'M', 'X', 'F', 'A', 'I', 'L', 'E', 'D', 17 };

        if (behaviour == FAKE_NEVER_READY || behaviour == FAKE_NEVER_STARTS)
                for (;;)
                        (void) pause();
        if (behaviour == FAKE_EXIT_BEFORE_READY)
                _exit(7);
        if (behaviour == FAKE_CHECK_FAILS)
                say(failed, sizeof(failed), -1);
        if (behaviour == FAKE_CHECK_FAILS || behaviour == FAKE_CHECK_FAILS_SILENTLY)
                _exit(117);
        if (behaviour == FAKE_GARBAGE) {
                say("MXWRONG\nmore", 12, -1);
                for (;;)
                        (void) pause();
        }
        if (behaviour == FAKE_READY_WITHOUT_FD) {
                say("MXREADY\n", 8, -1);
                for (;;)
                        (void) pause();
        }
        if (behaviour == FAKE_READY_WITH_FILE) {
                say("MXREADY\n", 8, open("/dev/null", O_RDONLY | O_CLOEXEC));
                for (;;)
                        (void) pause();
        }
        if (behaviour == FAKE_READY_IN_PIECES) {
                say("MXR", 3, directory_fd);
                say("EADY\n", 5, -1);
        } else
                say("MXREADY\n", 8, directory_fd);
        if (behaviour == FAKE_NEVER_READS || behaviour == FAKE_READS_LATE)
                for (;;)
                        (void) pause();
        if (behaviour == FAKE_DIES_READY)
                _exit(0);
}

void fake_runner_main(FakeBehaviour behaviour, const FakeScript *script, const WireStart *start,
                      const int fds[static _WIRE_FD_MAX]) {
        const char *interpreter = fake_sets_interpreter(script, start);
        _cleanup_free_ char *directory = NULL;
        int directory_fd, control;
        sigset_t none;
        pid_t pid;

        (void) setpgid(0, 0);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) signal(SIGPIPE, SIG_DFL);
        for (int i = 0; i < _WIRE_FD_MAX; i++)
                check(dup2(fds[i], i) == i);
        (void) close_range(3, ~0U, 0);

        check(asprintf(&directory, "%s/%d", script->directory, (int) getpid()) > 0);
        check(mkdir(directory, 0700) == 0);
        directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(directory_fd >= 0 && fchdir(directory_fd) == 0);
        check(fake_sets_enter(script, start, directory));
        misbehave(behaviour, directory_fd);

        control = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        check(control >= 0);
        receive_program();

        if (script->is_user) {
                pid = fork();
                check(pid >= 0);
                if (pid > 0)
                        _exit(wait_for_program(pid, control));
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* as with a PID namespace whose init ends */
        }
        (void) execl(interpreter, interpreter, "main.py", NULL);
        _exit(98);
}
