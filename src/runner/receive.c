/* SPDX-License-Identifier: MIT */

/* Receiving a program that has a set of packages, before its interpreter is started: what runner.py does
 * for all others, which must have an interpreter that waits for them. Here one that only received would
 * cost as much again as the one that runs the program. The protocol is in README.md beside this.
 *
 * The daemon is trusted, but a message that contradicts itself ends the run all the same. */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/runner.h"

#define CONTROL_FD STDIN_FILENO
#define CHUNK_BYTES (64 * 1024)
#define FILE_NAME_BYTES_MAX 255
/* What the kernel lets an unprivileged process make of a pipe (/proc/sys/fs/pipe-max-size, by default). */
#define PIPE_BYTES_MAX (1024 * 1024)
#define PIPE_BYTES_DEFAULT (64 * 1024)
#ifndef MFD_NOEXEC_SEAL /* glibc before 2.39 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Beside -errno. */
enum {
        RECEIVE_OVER = 1, /* the stream ended: this unit is not needed */
        RECEIVE_MALFORMED,
};

static int say_ready(int work_fd) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {};
        static char text[] = "MXREADY\n";
        struct iovec iov = { .iov_base = text, .iov_len = strlen(text) };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1,
                .msg_control = &control, .msg_controllen = sizeof(control),
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &work_fd, sizeof(int));
        return sendmsg(CONTROL_FD, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int read_exactly(void *buffer, size_t n) {
        for (char *p = buffer; n > 0;) {
                ssize_t k = read(CONTROL_FD, p, n);

                if (k < 0 && errno == EINTR)
                        continue;
                /* A daemon that ends before it has read READY leaves us the latter. */
                if (k == 0 || (k < 0 && errno == ECONNRESET))
                        return RECEIVE_OVER;
                if (k < 0)
                        return -errno;
                p += k;
                n -= (size_t) k;
        }
        return 0;
}

static int write_all(int fd, const char *p, size_t n) {
        while (n > 0) {
                ssize_t k = write(fd, p, n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                p += k;
                n -= (size_t) k;
        }
        return 0;
}

/* The next part of the message, which is never all in memory. What cannot be put in place (*lost, -errno) is
 * read all the same, as the rest of the message is: a daemon that cannot get rid of it would take this unit
 * for one that never began, and our words for nobody's. */
static int copy_to(int fd, uint64_t n_left, int *lost) {
        static char chunk[CHUNK_BYTES];

        while (n_left > 0) {
                size_t n = n_left < sizeof(chunk) ? (size_t) n_left : sizeof(chunk);
                int r = read_exactly(chunk, n);

                if (r != 0)
                        return r;
                if (*lost == 0)
                        *lost = write_all(fd, chunk, n);
                n_left -= n;
        }
        return 0;
}

/* O_EXCL: two files of one name would be a message that contradicts itself. */
static int receive_file(int work_fd, const char *name, uint64_t n_bytes, int *lost) {
        _cleanup_fd_ int fd = -EBADF;

        fd = openat(work_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 && *lost == 0)
                *lost = -errno;
        return copy_to(fd, n_bytes, lost);
}

static int receive_named_file(int work_fd, int *lost) {
        char name[FILE_NAME_BYTES_MAX + 1] = "";
        uint32_t name_bytes;
        uint64_t n_bytes;
        int r;

        r = read_exactly(&name_bytes, sizeof(name_bytes));
        if (r == 0)
                r = read_exactly(&n_bytes, sizeof(n_bytes));
        if (r != 0)
                return r;
        name_bytes = le32toh(name_bytes);
        if (name_bytes == 0 || name_bytes > FILE_NAME_BYTES_MAX)
                return RECEIVE_MALFORMED;
        r = read_exactly(name, name_bytes);
        if (r != 0)
                return r;
        /* Checked by the daemon as well. A name that is a path would write elsewhere in the sandbox. */
        if (strlen(name) != name_bytes || strchr(name, '/') || strcmp(name, ".") == 0 ||
            strcmp(name, "..") == 0 || strcmp(name, "main.py") == 0)
                return RECEIVE_MALFORMED;
        return receive_file(work_fd, name, le64toh(n_bytes), lost);
}

/* A pipe that holds all of it and has no writer any more, because asyncio can watch it. Fails where the
 * kernel gives none so large. */
static int make_pipe(const char *data, size_t n) {
        _cleanup_fd_ int reader = -EBADF, writer = -EBADF;
        int fds[2], fd;

        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        reader = fds[0];
        writer = fds[1];
        if (n > PIPE_BYTES_DEFAULT && fcntl(writer, F_SETPIPE_SZ, (int) n) < 0)
                return -EAGAIN;
        if (n > 0 && write(writer, data, n) != (ssize_t) n)
                return -EAGAIN;
        /* Non-blocking was for this side; the program's read() has to wait for the end of the file. */
        if (fcntl(reader, F_SETFL, O_RDONLY) < 0)
                return -errno;
        fd = reader;
        reader = -EBADF;
        return fd;
}

/* A file in memory that nobody can change any more, open for reading from its start. */
static int seal(int fd) {
        char path[sizeof("/proc/self/fd/") + 12];
        int reader;

        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return -errno;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        reader = open(path, O_RDONLY | O_CLOEXEC);
        return reader < 0 ? -errno : reader;
}

static int make_file(void) {
        int fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        /* Linux before 6.3 does not know that flag; a later one may demand it (vm.memfd_noexec=2). */
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

/* *ret: the program's standard input, unless something was lost. */
static int receive_stdin(uint64_t n_bytes, int *ret, int *lost) {
        static char data[PIPE_BYTES_MAX];
        _cleanup_fd_ int file = -EBADF;
        bool is_small = n_bytes <= sizeof(data);
        int r;

        if (is_small) {
                r = read_exactly(data, (size_t) n_bytes);
                if (r != 0)
                        return r;
                *ret = make_pipe(data, (size_t) n_bytes);
                if (*ret >= 0)
                        return 0;
        }
        file = make_file();
        if (file < 0 && *lost == 0)
                *lost = file;
        if (!is_small) {
                r = copy_to(file, n_bytes, lost);
                if (r != 0)
                        return r;
        } else if (*lost == 0)
                *lost = write_all(file, data, (size_t) n_bytes);
        if (*lost == 0) {
                *ret = seal(file);
                *lost = *ret < 0 ? *ret : 0;
        }
        return 0;
}

static int receive_all(int work_fd) {
        struct {
                char magic[8];
                uint64_t code_bytes, stdin_bytes, n_files;
        } header;
        _cleanup_fd_ int input = -EBADF;
        int r, lost = 0;

        r = read_exactly(&header, sizeof(header));
        if (r != 0)
                return r;
        if (memcmp(header.magic, "MXCODE2\n", sizeof(header.magic)) != 0)
                return RECEIVE_MALFORMED;
        r = receive_file(work_fd, "main.py", le64toh(header.code_bytes), &lost);
        if (r == 0)
                r = receive_stdin(le64toh(header.stdin_bytes), &input, &lost);
        for (uint64_t n = le64toh(header.n_files); n > 0 && r == 0; n--)
                r = receive_named_file(work_fd, &lost);
        if (r != 0 || lost != 0)
                return r != 0 ? r : lost;
        /* This closes the control socket: from here on the daemon hears nothing of us. */
        return dup2(input, CONTROL_FD) < 0 ? -errno : 0;
}

int receive_program(const RunnerPlaces *places) {
        char path[RUNNER_PATH_MAX];
        _cleanup_fd_ int work_fd = -EBADF;
        int r;

        assert(places);

        /* In user mode init, of which this is a child, is not, and /proc would be closed. */
        (void) prctl(PR_SET_DUMPABLE, 1);
        if (snprintf(path, sizeof(path), "%s/work", places->tmp) >= (int) sizeof(path))
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_PREPARE;
        work_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (work_fd < 0 || say_ready(work_fd) < 0)
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;

        r = receive_all(work_fd);
        if (r == 0)
                return -1;
        if (r == RECEIVE_OVER)
                return 0;
        if (r == RECEIVE_MALFORMED) {
                (void) dprintf(STDERR_FILENO, "mcp-exec: a malformed message came from the daemon\n");
                return RUNNER_EXIT_CHECK + RUNNER_CHECK_CONTROL;
        }
        /* Most likely the tmpfs cannot hold what the daemon sent; the caller can do something about it. */
        (void) dprintf(STDERR_FILENO, "mcp-exec: the program could not be put in place: %s\n", strerror(-r));
        return 1;
}
