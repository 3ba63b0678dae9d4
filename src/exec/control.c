/* SPDX-License-Identifier: MIT */

#include "exec/control.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macro.h"

#define WORD_READY "MXREADY\n"
#define WORD_FAILED "MXFAILED"   /* then a u32: number of the check */
#define WORD_STATUS "MXSTAT\0\0" /* then a u16 */

#define RECEIVED_FDS_MAX 4

static bool word_is(const uint8_t *bytes, const char *word) {
        return memcmp(bytes, word, CONTROL_WORD_BYTES) == 0;
}

/* Takes the directory that comes with READY. Returns 0, or -EBADMSG when it is not exactly that. */
static int take_directory(struct msghdr *message, ControlWord *w) {
        int fds[RECEIVED_FDS_MAX], n_fds = 0;
        struct stat st;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                size_t n;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (n_fds < RECEIVED_FDS_MAX)
                                fds[n_fds++] = fd;
                        else
                                safe_close(fd);
                }
        }

        if (n_fds == 0 && !(message->msg_flags & MSG_CTRUNC))
                return 0;
        if (n_fds == 1 && w->directory_fd < 0 && !(message->msg_flags & MSG_CTRUNC) &&
            fstat(fds[0], &st) >= 0 && S_ISDIR(st.st_mode)) {
                w->directory_fd = fds[0];
                return 0;
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return -EBADMSG;
}

int control_receive_word(int fd, ControlWord *w) {
        union {
                struct cmsghdr header; /* for its alignment */
                char buffer[CMSG_SPACE(RECEIVED_FDS_MAX * sizeof(int))];
        } control;
        int r;

        assert(fd >= 0);
        assert(w);

        for (;;) {
                struct iovec part = { w->bytes + w->n_bytes, sizeof(w->bytes) - w->n_bytes };
                struct msghdr message = {
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
                };
                ssize_t n;

                n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? CONTROL_E_INCOMPLETE : -errno;

                r = take_directory(&message, w);
                if (r < 0)
                        return r;
                if (n == 0)
                        return CONTROL_E_END;

                w->n_bytes += (size_t) n;
                if (w->n_bytes < CONTROL_WORD_BYTES)
                        continue;
                if (w->n_bytes == CONTROL_WORD_BYTES && word_is(w->bytes, WORD_READY))
                        return w->directory_fd >= 0 ? 0 : -EBADMSG;
                if (!word_is(w->bytes, WORD_FAILED))
                        return -EBADMSG;
                if (w->n_bytes == sizeof(w->bytes))
                        return CONTROL_E_FAILED;
        }
}

uint32_t control_word_check(const ControlWord *w) {
        const uint8_t *p;

        assert(w);
        assert(w->n_bytes == sizeof(w->bytes));

        p = w->bytes + CONTROL_WORD_BYTES;
        return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

bool control_receive_status(int fd, uint16_t *ret) {
        uint8_t bytes[CONTROL_WORD_BYTES + sizeof(uint16_t)];

        assert(fd >= 0);
        assert(ret);

        if (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) != (ssize_t) sizeof(bytes) ||
            !word_is(bytes, WORD_STATUS))
                return false;

        *ret = (uint16_t) (bytes[CONTROL_WORD_BYTES] | bytes[CONTROL_WORD_BYTES + 1] << 8);
        return true;
}

int control_was_read(int fd) {
        int error = 0, n_unread = 0;
        socklen_t n = sizeof(int);

        assert(fd >= 0);

        /* Bytes in the other end's queue, as long as somebody holds that end … */
        if (ioctl(fd, SIOCOUTQ, &n_unread) < 0 || n_unread > 0)
                return 0;
        /* … and afterwards unix(7) sockets tell by ECONNRESET that some were thrown away. */
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error != 0)
                return -ECONNRESET;
        return 1;
}
