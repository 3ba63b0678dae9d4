/* SPDX-License-Identifier: MIT */

/* One fixed answer to everybody, whatever they ask. The reason is in the journal: it may name files and
 * values that are not for clients. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/timeutil.h"
#include "mcp/mcp.h"
#include "server/apology.h"

#define MESSAGE \
        "mcp-exec cannot start: its configuration has a mistake, or something it needs is missing. The " \
        "administrator finds it with \"journalctl -u mcp-exec\"."

#define QUIET_USEC (5 * USEC_PER_SEC)
/* However many come: then the service fails visibly, and the next connection starts it anew. */
#define TOTAL_USEC (60 * USEC_PER_SEC)
/* A client that does not send what it promised must not keep the others waiting. */
#define REQUEST_MSEC 200

static int make_answers(Buffer *line, Buffer *http) {
        int r;

        r = mcp_error_reply(NULL, 0, MCP_ERROR_UNAVAILABLE, MESSAGE, line);
        if (r < 0)
                return r;
        r = buffer_printf(http,
                          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\nRetry-After: 60\r\nConnection: close\r\n\r\n%s",
                          line->n_bytes, line->data);
        return r < 0 ? r : buffer_append_str(line, "\n");
}

static void answer_one(int listening_fd, const Buffer *answer) {
        _cleanup_close_ int fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char ignored[4096];

        if (fd < 0)
                return;
        /* Closing with unread input makes a reset of it, and the answer is lost. */
        while (poll(&p, 1, REQUEST_MSEC) == 1 &&
               recv(fd, ignored, sizeof(ignored), 0) == (ssize_t) sizeof(ignored))
                ;
        (void) send(fd, answer->data, answer->n_bytes, MSG_NOSIGNAL);
        (void) shutdown(fd, SHUT_WR);
}

/* A service that failed late had blocked them for its event loop. */
static void unblock_signals(void) {
        sigset_t mask;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGINT);
        (void) sigprocmask(SIG_UNBLOCK, &mask, NULL);
}

void apologise(const ServiceSockets *sockets) {
        _cleanup_buffer_ Buffer line = BUFFER_INIT(0), http = BUFFER_INIT(0);
        struct pollfd fds[SERVICE_SOCKETS_MAX];
        uint64_t start = now_monotonic_usec(), quiet_since = start;
        bool has_any = false;

        assert(sockets);

        for (size_t i = 0; i < sockets->n_sockets; i++) {
                fds[i] = (struct pollfd) { .fd = sockets->fds[i], .events = POLLIN };
                has_any = has_any || fds[i].fd >= 0; /* a listener may have taken it */
        }
        if (!has_any)
                return;
        if (make_answers(&line, &http) < 0) {
                log_oom();
                return;
        }
        unblock_signals();

        for (;;) {
                uint64_t now = now_monotonic_usec();

                if (now >= quiet_since + QUIET_USEC || now >= start + TOTAL_USEC)
                        return;
                if (poll(fds, sockets->n_sockets,
                         (int) ((quiet_since + QUIET_USEC - now) / USEC_PER_MSEC + 1)) <= 0)
                        continue;
                for (size_t i = 0; i < sockets->n_sockets; i++)
                        if (fds[i].revents)
                                answer_one(fds[i].fd, service_sockets_are_http(sockets, i) ? &http : &line);
                quiet_since = now_monotonic_usec();
        }
}
