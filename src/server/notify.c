/* SPDX-License-Identifier: MIT */

#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/macro.h"

int notify_now(const char *text, int fd) {
        union {
                struct cmsghdr header; /* for its alignment */
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {};
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct iovec iov = { .iov_base = (void*) (uintptr_t) text };
        struct msghdr message = { .msg_name = &address, .msg_iov = &iov, .msg_iovlen = 1 };
        _cleanup_close_ int s = -EBADF;
        size_t n_path;

        assert(text);

        if (!path)
                return 0;
        n_path = strlen(path);
        if ((path[0] != '/' && path[0] != '@') || n_path < 2 || n_path >= sizeof(address.sun_path))
                return -EINVAL;
        memcpy(address.sun_path, path, n_path);
        if (path[0] == '@') /* an abstract name */
                address.sun_path[0] = 0;
        message.msg_namelen = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n_path);
        iov.iov_len = strlen(text);

        if (fd >= 0) {
                struct cmsghdr *c;

                message.msg_control = control.bytes;
                message.msg_controllen = sizeof(control.bytes);
                c = CMSG_FIRSTHDR(&message);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(c), &fd, sizeof(int));
        }

        s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s < 0)
                return -errno;
        return sendmsg(s, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}
