/* SPDX-License-Identifier: MIT */

/* Listening sockets: inherited, TCP by address, Unix by path. */

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/strv.h"
#include "server/service-sockets.h"
#include "transport/transport.h"

#define UNIX_PREFIX "unix:"
#define PROXY_PREFIX "proxy:"
#define PROXY_NAME "proxy" /* FileDescriptorName= of mcp-exec-proxy.socket */
#define BACKLOG 128

/* Takes fd in any case. */
static int add(ServiceSockets *s, int take_fd, bool is_inet, char *take_path) {
        if (s->n_sockets >= SERVICE_SOCKETS_MAX) {
                (void) safe_close(take_fd);
                free(take_path);
                return -E2BIG;
        }
        s->fds[s->n_sockets] = take_fd;
        s->is_inet[s->n_sockets] = is_inet;
        s->unix_paths[s->n_sockets] = take_path;
        s->n_sockets++;
        return 0;
}

int service_sockets_inherit(ServiceSockets *s, char **reterr_message) {
        _cleanup_strv_ char **names = NULL;
        int n, r;

        assert(s);
        assert(reterr_message);

        n = sd_listen_fds_with_names(/* unset_environment= */ true, &names);
        if (n < 0)
                return n;

        for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
                const char *name = names ? names[fd - SD_LISTEN_FDS_START] : "";
                bool is_unix = sd_is_socket(fd, AF_UNIX, SOCK_STREAM, /* listening= */ 1) > 0;
                bool is_inet = sd_is_socket(fd, AF_INET, SOCK_STREAM, 1) > 0 ||
                               sd_is_socket(fd, AF_INET6, SOCK_STREAM, 1) > 0;

                if (!is_unix && !is_inet && fd_store_is_name(name)) {
                        stored_results_add(&s->results, fd, name);
                        continue;
                }
                if (!is_unix && !is_inet) {
                        (void) str_printf(reterr_message,
                                          "the socket unit handed over descriptor %d, which is no "
                                          "listening stream socket: use ListenStream= and Accept=no",
                                          fd);
                        return -EINVAL;
                }
                r = fd_set_nonblock(fd, true);
                if (r < 0)
                        return r;
                r = add(s, fd, is_inet, NULL);
                if (r >= 0)
                        s->is_proxy[s->n_sockets - 1] = is_unix && streq(name, PROXY_NAME);
                if (r < 0) {
                        (void) str_printf(reterr_message, "more than %d sockets were handed over",
                                          SERVICE_SOCKETS_MAX);
                        return r;
                }
                s->is_activated = true;
        }
        return 0;
}

/* A socket file that nobody listens on is what a killed server left behind. */
static bool is_stale(const struct sockaddr_un *address) {
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat st;

        return fd >= 0 && lstat(address->sun_path, &st) >= 0 && S_ISSOCK(st.st_mode) &&
               connect(fd, (const struct sockaddr*) address, sizeof(*address)) < 0 && errno == ECONNREFUSED;
}

static int listen_unix(ServiceSockets *s, const char *path, bool is_proxy, char **reterr_message) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *copy = NULL;
        int r;

        if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path)) {
                (void) str_printf(reterr_message, "\"%s\" is no absolute path of less than %zu bytes", path,
                                  sizeof(address.sun_path));
                return -EINVAL;
        }
        memcpy(address.sun_path, path, strlen(path));
        r = str_copy(&copy, path);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (is_stale(&address))
                (void) unlink(path); /* bind() tells when that did not help */
        if (bind(fd, (const struct sockaddr*) &address, sizeof(address)) < 0) {
                r = -errno;
                (void) str_printf(reterr_message, "cannot listen on %s: %s", path,
                                  r == -EADDRINUSE ?
                                          "another server does, or a file of that name is in the way" :
                                          "this user may not create it");
                return r;
        }
        /* Who may use it is decided for each connection, by uid and groups. Whoever opens a proxy's is
         * believed every name, so that is decided by its mode. */
        if (chmod(path, is_proxy ? 0600 : 0666) < 0 || listen(fd, BACKLOG) < 0) {
                r = -errno;
                (void) unlink(path);
                return r;
        }
        r = add(s, TAKE_FD(fd), /* is_inet= */ false, TAKE_PTR(copy));
        if (r >= 0)
                s->is_proxy[s->n_sockets - 1] = is_proxy;
        return r;
}

int service_sockets_listen(ServiceSockets *s, const char *address, char **reterr_message) {
        int fd, r;

        assert(s);
        assert(address);
        assert(reterr_message);

        if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
                return listen_unix(s, address + strlen(UNIX_PREFIX), /* is_proxy= */ false, reterr_message);
        if (strncmp(address, PROXY_PREFIX, strlen(PROXY_PREFIX)) == 0)
                return listen_unix(s, address + strlen(PROXY_PREFIX), /* is_proxy= */ true, reterr_message);

        r = listen_tcp(address, &fd, reterr_message);
        if (r < 0)
                return r;
        return add(s, fd, /* is_inet= */ true, NULL);
}

bool service_sockets_have_inet(const ServiceSockets *s) {
        assert(s);

        for (size_t i = 0; i < s->n_sockets; i++)
                if (s->is_inet[i])
                        return true;
        return false;
}

void service_sockets_done(ServiceSockets *s) {
        assert(s);

        for (size_t i = 0; i < s->n_sockets; i++) {
                s->fds[i] = safe_close(s->fds[i]);
                if (s->unix_paths[i])
                        (void) unlink(s->unix_paths[i]);
                free(s->unix_paths[i]);
        }
        s->n_sockets = 0;
        stored_results_done(&s->results);
}
