/* SPDX-License-Identifier: MIT */
#pragma once

/* File descriptors: closing, reading and writing whole things, asking what one is. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

/* Closes fd if it is one, keeps errno, returns -EBADF for assignment. */
int safe_close(int fd);

static inline void closep(int *fd) {
        *fd = safe_close(*fd);
}
#define _cleanup_close_ _cleanup_(closep)

/* Makes the directory and those above it, where they are not there. Returns 0 or -errno. */
int path_make_directories(const char *path, mode_t mode);

int fd_set_nonblock(int fd, bool is_nonblock);

/* Writes everything to a blocking descriptor. Returns 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t n_bytes);

/* Reads a regular file of at most max_bytes, as a NUL-terminated string. Embedded NUL: -EBADMSG. Larger:
 * -EFBIG. The caller frees *ret. ret_bytes may be NULL. dir_fd as in openat(2). */
int file_read(int dir_fd, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes);

/* As file_read(), for an open descriptor (from its current position). fd_read_bytes() takes NUL as well. */
int fd_read_bytes(int fd, size_t max_bytes, char **ret, size_t *ret_bytes);
int fd_read_all(int fd, size_t max_bytes, char **ret, size_t *ret_bytes);

/* A sealed, read-only memfd with this content; name shows in /proc only. Returns the fd or -errno. */
int memfd_new_sealed(const char *name, const void *data, size_t n_bytes);

/* True when fd is a FIFO open for the wanted direction (O_RDONLY or O_WRONLY). */
bool fd_is_pipe(int fd, int access_mode);

/* True when fd is a connected or listening socket of this family and type; type 0 takes any. */
bool fd_is_socket(int fd, int family, int type);

/* A cloexec pipe: ret[0] for reading, ret[1] for writing. */
int pipe_new(int ret[static 2]);
