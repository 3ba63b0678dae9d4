/* SPDX-License-Identifier: MIT */

#include "base/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "test.h"

TEST(safe_close_ignores_what_is_no_descriptor_and_keeps_errno) {
        errno = ENOTTY;
        ASSERT_EQ_INT(safe_close(-EBADF), -EBADF);
        ASSERT_EQ_INT(safe_close(123456), -EBADF);
        ASSERT_EQ_INT(errno, ENOTTY);
}

TEST(descriptors_are_closed_on_exec_from_birth) {
        _cleanup_close_ int memfd = memfd_new_sealed("test", "x", 1);
        int fds[2];

        ASSERT_EQ_INT(pipe_new(fds), 0);
        ASSERT_EQ_INT(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
        ASSERT_EQ_INT(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
        ASSERT_EQ_INT(fcntl(memfd, F_GETFD), FD_CLOEXEC);
        safe_close(fds[0]);
        safe_close(fds[1]);
}

TEST(fd_set_nonblock_changes_only_that_flag) {
        int fds[2];

        ASSERT_EQ_INT(pipe_new(fds), 0);
        ASSERT_EQ_INT(fd_set_nonblock(fds[1], true), 0);
        ASSERT_EQ_INT(fcntl(fds[1], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_WRONLY);
        ASSERT_EQ_INT(fd_set_nonblock(fds[1], false), 0);
        ASSERT_EQ_INT(fcntl(fds[1], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_WRONLY);
        safe_close(fds[0]);
        safe_close(fds[1]);
}

TEST(file_read_takes_regular_files_within_the_limit_only) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_close_ int dir = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL, *empty = NULL, *none = NULL, *fifo = NULL;
        size_t n;

        put_file(tree, "five", "12345");
        put_file(tree, "empty", "");
        put_bytes(tree, "nul", "a\0b", 3);
        ASSERT_EQ_INT(str_printf(&fifo, "%s/fifo", tree), 0);
        ASSERT_EQ_INT(mkfifo(fifo, 0600), 0);

        ASSERT_EQ_INT(file_read(dir, "five", 5, &text, &n), 0);
        ASSERT_EQ_MEM(text, n, "12345", 5);
        ASSERT_EQ_INT(text[5], 0);
        ASSERT_EQ_INT(file_read(dir, "empty", 0, &empty, NULL), 0);
        ASSERT_EQ_STR(empty, "");
        ASSERT_EQ_INT(file_read(dir, "five", 4, &none, NULL), -EFBIG);
        ASSERT_EQ_INT(file_read(dir, "nul", 5, &none, NULL), -EBADMSG);
        ASSERT_EQ_INT(file_read(dir, "absent", 5, &none, NULL), -ENOENT);
        ASSERT_EQ_INT(file_read(dir, ".", 5, &none, NULL), -EISDIR);
        ASSERT_EQ_INT(file_read(dir, "fifo", 5, &none, NULL), -EBADF);
        ASSERT_EQ_STR(none, NULL);
}

TEST(file_read_takes_files_that_claim_to_be_empty) {
        _cleanup_free_ char *text = NULL;

        ASSERT_EQ_INT(file_read(AT_FDCWD, "/proc/self/status", 1 << 20, &text, NULL), 0);
        ASSERT_CONTAINS(text, "Name:");
}

TEST(memfd_new_sealed_cannot_be_changed_and_starts_at_the_beginning) {
        _cleanup_close_ int fd = memfd_new_sealed("test", "hello", 5);
        _cleanup_free_ char *text = NULL;

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(write(fd, "x", 1), -1);
        ASSERT_EQ_INT(errno, EPERM);
        ASSERT_EQ_INT(ftruncate(fd, 0), -1);
        ASSERT_EQ_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), -1);
        ASSERT_EQ_INT(fd_read_all(fd, 5, &text, NULL), 0);
        ASSERT_EQ_STR(text, "hello");
}

TEST(fd_is_pipe_knows_direction_and_kind) {
        _cleanup_close_ int file = open("/dev/null", O_WRONLY | O_CLOEXEC), path_only = -EBADF;
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_free_ char *fifo = NULL;
        int fds[2], pair[2];

        ASSERT_EQ_INT(pipe_new(fds), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ASSERT_EQ_INT(str_printf(&fifo, "%s/fifo", tree), 0);
        ASSERT_EQ_INT(mkfifo(fifo, 0600), 0);
        path_only = open(fifo, O_PATH | O_CLOEXEC);

        ASSERT_TRUE(fd_is_pipe(fds[0], O_RDONLY));
        ASSERT_TRUE(fd_is_pipe(fds[1], O_WRONLY));
        ASSERT_FALSE(fd_is_pipe(fds[0], O_WRONLY));
        ASSERT_FALSE(fd_is_pipe(fds[1], O_RDONLY));
        ASSERT_FALSE(fd_is_pipe(file, O_WRONLY));
        ASSERT_FALSE(fd_is_pipe(pair[0], O_WRONLY));
        ASSERT_FALSE(fd_is_pipe(-EBADF, O_WRONLY));
        ASSERT_TRUE(path_only >= 0);
        ASSERT_FALSE(fd_is_pipe(path_only, O_RDONLY));
        for (int i = 0; i < 2; i++) {
                safe_close(fds[i]);
                safe_close(pair[i]);
        }
}

TEST(fd_is_socket_compares_family_and_type) {
        int fds[2], pair[2];

        ASSERT_EQ_INT(pipe_new(fds), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        ASSERT_TRUE(fd_is_socket(pair[0], AF_UNIX, SOCK_SEQPACKET));
        ASSERT_TRUE(fd_is_socket(pair[0], AF_UNIX, 0));
        ASSERT_FALSE(fd_is_socket(pair[0], AF_UNIX, SOCK_STREAM));
        ASSERT_FALSE(fd_is_socket(pair[0], AF_INET, SOCK_SEQPACKET));
        ASSERT_FALSE(fd_is_socket(fds[0], AF_UNIX, 0));
        ASSERT_FALSE(fd_is_socket(-EBADF, AF_UNIX, 0));
        for (int i = 0; i < 2; i++) {
                safe_close(fds[i]);
                safe_close(pair[i]);
        }
}

TEST(fd_write_all_reports_a_closed_reader) {
        int fds[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        ASSERT_EQ_INT(fd_write_all(fds[0], "ab", 2), 0);
        ASSERT_EQ_INT(fd_write_all(fds[0], NULL, 0), 0);
        safe_close(fds[0]);
        safe_close(fds[1]);
        ASSERT_EQ_INT(fd_write_all(fds[0], "ab", 2), -EBADF);
}
