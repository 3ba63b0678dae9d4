/* SPDX-License-Identifier: MIT */

/* Asking the system service whether it serves us.
 *
 * A connection alone says nothing: systemd listens before the service runs, and the service decides by the
 * peer's groups after accept(). So we send one `ping` of our own under an id that no client uses and look at
 * the answer. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/macro.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "server/system-socket.h"

#define ANSWER_SEC 5
#define ANSWER_BYTES_MAX (64 * KIB)

static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":\"mcp-exec-probe\",\"method\":\"ping\"}\n";

static int connect_to(const char *path, int *ret_fd, char **reterr_reason) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct timeval timeout = { .tv_sec = ANSWER_SEC };
        _cleanup_close_ int fd = -EBADF;
        int r;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        /* Bounds connect() too, which waits while the service's backlog is full. */
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
                return -errno;

        if (connect(fd, (const struct sockaddr*) &address, sizeof(address)) < 0) {
                switch (errno) {
                case ENOENT:
                case ECONNREFUSED:
                        r = str_printf(reterr_reason,
                                       "the system service is not started: no one listens on %s", path);
                        return r < 0 ? r : SYSTEM_SOCKET_E_ABSENT;
                case EACCES:
                case EPERM:
                        r = str_printf(reterr_reason, "this user may not open %s", path);
                        return r < 0 ? r : SYSTEM_SOCKET_E_REFUSED;
                case EAGAIN:
                        r = str_printf(reterr_reason,
                                       "the system service accepted no connection on %s within %d s", path,
                                       ANSWER_SEC);
                        return r < 0 ? r : SYSTEM_SOCKET_E_SILENT;
                default:
                        return -errno;
                }
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Reads up to the first newline. Returns 1, or 0 when none comes: in time, or before the end. */
static int read_line(int fd, Buffer *line, bool *ret_has_ended) {
        uint64_t end = now_monotonic_usec() + ANSWER_SEC * USEC_PER_SEC;
        int r;

        *ret_has_ended = false;
        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                uint64_t now = now_monotonic_usec();
                char chunk[4096];
                ssize_t n;

                if (now >= end)
                        return 0;
                if (poll(&p, 1, (int) ((end - now) / USEC_PER_MSEC + 1)) <= 0)
                        continue;
                n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (n <= 0) {
                        *ret_has_ended = true;
                        return 0;
                }
                r = buffer_append(line, chunk, (size_t) n);
                if (r < 0)
                        return r == -EMSGSIZE ? 0 : r;
                /* The service speaks only when spoken to: nothing follows the answer to our only request. */
                if (chunk[n - 1] == '\n')
                        return 1;
        }
}

static int judge(const Buffer *line, char **reterr_reason) {
        _cleanup_json_ JsonValue *reply = NULL;
        const JsonValue *error;
        const char *message = NULL;
        int64_t code = 0;
        int r;

        r = json_parse(line->data, line->n_bytes, &reply);
        if (r < 0)
                return r;
        if (r == 0 && json_member(reply, "result"))
                return 0;

        error = r == 0 ? json_member(reply, "error") : NULL;
        (void) json_get_integer(json_member(error, "code"), &code);
        (void) json_get_string(json_member(error, "message"), &message, NULL);

        r = str_printf(reterr_reason, "the system service answers \"%s\"",
                       message ?: "something that is not MCP");
        if (r < 0)
                return r;
        return code == MCP_ERROR_REFUSED ? SYSTEM_SOCKET_E_REFUSED : SYSTEM_SOCKET_E_FAILED;
}

int system_socket_connect(const char *path, int *ret_fd, char **reterr_reason) {
        _cleanup_buffer_ Buffer line = BUFFER_INIT(ANSWER_BYTES_MAX);
        _cleanup_close_ int fd = -EBADF;
        bool has_ended;
        int r;

        assert(path);
        assert(ret_fd);
        assert(reterr_reason);

        r = connect_to(path, &fd, reterr_reason);
        if (r != 0)
                return r;

        /* A refused peer may be answered and closed before it wrote anything: read in any case. */
        (void) send(fd, ping, strlen(ping), MSG_NOSIGNAL);
        r = read_line(fd, &line, &has_ended);
        if (r < 0)
                return r;
        if (r == 0 && has_ended) {
                r = str_printf(reterr_reason,
                               "the system service on %s ended the connection without an answer", path);
                return r < 0 ? r : SYSTEM_SOCKET_E_SILENT;
        }
        if (r == 0) {
                r = str_printf(reterr_reason,
                               "the system service on %s did not answer within %d s (see \"systemctl status "
                               "mcp-exec\")",
                               path, ANSWER_SEC);
                return r < 0 ? r : SYSTEM_SOCKET_E_SILENT;
        }

        r = judge(&line, reterr_reason);
        if (r != 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int system_socket_admission(const char *reason, char **ret) {
        const char *from, *to;

        assert(reason);
        assert(ret);

        *ret = NULL;
        from = strstr(reason, "\"gpasswd -a ");
        to = from ? strchr(from + 1, '"') : NULL;
        return to ? str_printf(ret, "sudo %.*s", (int) (to - from - 1), from + 1) : 0;
}
