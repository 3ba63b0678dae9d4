/* SPDX-License-Identifier: MIT */

/* File descriptors. */

#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

#define READ_STEP_BYTES 4096

int safe_close(int fd) {
        int saved_errno = errno;

        /* Never repeated after EINTR: Linux has released the descriptor by then, and the number may already
         * be somebody else's. */
        if (fd >= 0)
                (void) close(fd);
        errno = saved_errno;
        return -EBADF;
}

int fd_set_nonblock(int fd, bool is_nonblock) {
        int flags, wanted;

        assert(fd >= 0);

        flags = fcntl(fd, F_GETFL);
        if (flags < 0)
                return -errno;
        wanted = is_nonblock ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
        if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
                return -errno;
        return 0;
}

int fd_write_all(int fd, const void *data, size_t n_bytes) {
        const char *p = data;

        assert(fd >= 0);
        assert(data || n_bytes == 0);

        while (n_bytes > 0) {
                ssize_t n = write(fd, p, n_bytes);

                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (n == 0)
                        return -EIO;
                p += n;
                n_bytes -= (size_t) n;
        }
        return 0;
}

int fd_read_bytes(int fd, size_t max_bytes, char **ret, size_t *ret_bytes) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        assert(fd >= 0);
        assert(ret);

        for (;;) {
                void *p;
                ssize_t n;

                /* No trust in st_size: it is 0 in /proc, and a file may grow while it is read. */
                r = buffer_reserve(&b, READ_STEP_BYTES, &p);
                if (r < 0)
                        return r;
                n = read(fd, p, READ_STEP_BYTES);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (n == 0)
                        break;
                buffer_commit(&b, (size_t) n);
                if (b.n_bytes > max_bytes)
                        return -EFBIG;
        }

        return buffer_steal(&b, ret, ret_bytes);
}

int fd_read_all(int fd, size_t max_bytes, char **ret, size_t *ret_bytes) {
        _cleanup_free_ char *data = NULL;
        size_t n_bytes;
        int r;

        r = fd_read_bytes(fd, max_bytes, &data, &n_bytes);
        if (r < 0)
                return r;
        if (memchr(data, 0, n_bytes))
                return -EBADMSG;
        *ret = TAKE_PTR(data);
        if (ret_bytes)
                *ret_bytes = n_bytes;
        return 0;
}

int file_read(int dir_fd, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        assert(path);
        assert(ret);

        /* O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing for a regular file. */
        fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        return fd_read_all(fd, max_bytes, ret, ret_bytes);
}

int memfd_new_sealed(const char *name, const void *data, size_t n_bytes) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        assert(name);
        assert(data || n_bytes == 0);

        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;

        r = fd_write_all(fd, data, n_bytes);
        if (r < 0)
                return r;
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                return -errno;
        return TAKE_FD(fd);
}

bool fd_is_pipe(int fd, int access_mode) {
        struct stat st;
        int flags;

        assert(access_mode == O_RDONLY || access_mode == O_WRONLY);

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
                return false;
        flags = fcntl(fd, F_GETFL);
        /* An O_PATH descriptor reports access mode 0, which reads like O_RDONLY. */
        return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) == access_mode;
}

bool fd_is_socket(int fd, int family, int type) {
        int value;
        socklen_t n = sizeof(value);

        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &n) < 0 || value != family)
                return false;
        if (type == 0)
                return true;
        n = sizeof(value);
        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n) == 0 && value == type;
}

int pipe_new(int ret[static 2]) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        ret[0] = fds[0];
        ret[1] = fds[1];
        return 0;
}

int path_make_directories(const char *path, mode_t mode) {
        _cleanup_free_ char *copy = NULL;

        assert(path);

        copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        for (char *slash = copy; slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                if (slash != copy && mkdir(copy, mode) < 0 && errno != EEXIST)
                        return -errno;
                *slash = '/';
        }
        return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}
