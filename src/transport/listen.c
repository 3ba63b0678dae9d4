/* SPDX-License-Identifier: MIT */

/* HOST:PORT -> a listening socket. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/strv.h"
#include "transport/transport.h"

#define LISTEN_BACKLOG 128

/* host: NULL for ":8080". Both are cut out of a copy of the address. */
static int address_split(char *address, const char **ret_host, const char **ret_port) {
        char *colon = strrchr(address, ':');
        uint64_t port;
        size_t n_host;

        if (!colon || parse_uint64(colon + 1, &port) < 0 || port > UINT16_MAX)
                return -EINVAL;
        *ret_port = colon + 1;
        *colon = 0;

        n_host = strlen(address);
        if (n_host == 0) {
                *ret_host = NULL;
                return 0;
        }
        if (address[0] == '[') {
                if (n_host < 3 || address[n_host - 1] != ']')
                        return -EINVAL;
                address[n_host - 1] = 0;
                address++;
        } else if (strchr(address, ':'))
                return -EINVAL; /* "::1:80": which colon? */
        *ret_host = address;
        return 0;
}

static int listen_one(const struct addrinfo *a) {
        _cleanup_close_ int fd = -EBADF;
        int on = 1, off = 0;

        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
                return -errno;
        /* "[::]" serves both families, as ":8080" means every address. */
        if (a->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
                return -errno;
        if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* The family that ":PORT" should have: IPv6 when the kernel knows it, for it takes IPv4 as well. */
static int listen_any(struct addrinfo *list) {
        int fd = -EADDRNOTAVAIL;

        for (const struct addrinfo *a = list; a; a = a->ai_next)
                if (a->ai_family == AF_INET6) {
                        fd = listen_one(a);
                        if (fd >= 0 || fd == -EADDRINUSE || fd == -EACCES)
                                return fd;
                }
        for (const struct addrinfo *a = list; a; a = a->ai_next)
                if (a->ai_family == AF_INET) {
                        fd = listen_one(a);
                        if (fd >= 0)
                                return fd;
                }
        return fd;
}

/* "localhost" has two addresses: clients that know only one know 127.0.0.1. */
static int listen_host(struct addrinfo *list) {
        int fd = -EADDRNOTAVAIL;

        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
                if (a->ai_family == AF_INET)
                        fd = listen_one(a);
        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
                if (a->ai_family != AF_INET)
                        fd = listen_one(a);
        return fd;
}

static const char* remedy(int error) {
        switch (error) {
        case -EADDRINUSE:
                return "another program listens there; choose another port";
        case -EACCES:
                return "ports below 1024 are for root; choose a higher one, or a systemd socket";
        case -EADDRNOTAVAIL:
                return "this machine does not have that address";
        default:
                return "the system refuses that address";
        }
}

int listen_tcp(const char *address, int *ret_fd, char **reterr_message) {
        struct addrinfo hints = {
                .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                .ai_family = AF_UNSPEC,
                .ai_socktype = SOCK_STREAM,
        };
        _cleanup_free_ char *copy = NULL;
        struct addrinfo *list = NULL;
        const char *host, *port;
        int fd, r;

        assert(address);
        assert(ret_fd);
        assert(reterr_message);

        r = str_copy(&copy, address);
        if (r < 0)
                return r;
        if (address_split(copy, &host, &port) < 0) {
                r = str_printf(reterr_message,
                               "\"%s\" is no address to listen on: give HOST:PORT, [IPv6]:PORT or :PORT "
                               "(every address of this machine), for example 127.0.0.1:8080",
                               address);
                return r < 0 ? r : -EINVAL;
        }

        r = getaddrinfo(host, port, &hints, &list);
        if (r != 0) {
                r = str_printf(reterr_message, "Cannot listen on \"%s\": the name \"%s\" is not known here",
                               address, host ?: "");
                return r < 0 ? r : -EADDRNOTAVAIL;
        }
        fd = host ? listen_host(list) : listen_any(list);
        freeaddrinfo(list);

        if (fd < 0) {
                r = str_printf(reterr_message, "Cannot listen on \"%s\": %s", address, remedy(fd));
                return r < 0 ? r : fd;
        }
        *ret_fd = fd;
        return 0;
}
