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
#include "server/notify.h"

#define MESSAGE \
        "mcp-exec cannot start: its configuration has a mistake, or something it needs is missing. The " \
        "administrator finds it with \"mcp-exec check\" or \"journalctl -u mcp-exec\". Once it is " \
        "repaired, the next client is served; without one: systemctl restart mcp-exec.service"

/* Starts are this far apart, however many clients come. */
#define SPACING_USEC (1 * USEC_PER_SEC)
/* Clients that do not send what they promised are answered all the same. */
#define REQUESTS_USEC (200 * USEC_PER_MSEC)
/* As many as wait in a socket of ours (Backlog=). The next start answers the others. */
#define CLIENTS_MAX 256

typedef struct Waiting {
        int fds[CLIENTS_MAX];
        const Buffer *answers[CLIENTS_MAX];
        size_t n_clients;
} Waiting;

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

/* Those who wait now, and nobody who comes later: whatever was wrong may have been repaired by then. */
static void accept_waiting(Waiting *w, int listening_fd, const Buffer *answer) {
        int fd;

        while (w->n_clients < CLIENTS_MAX &&
               (fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
                w->fds[w->n_clients] = fd;
                w->answers[w->n_clients++] = answer;
        }
}

/* Closing with unread input makes a reset of it, and the answer is lost. Returns true once all has come. */
static bool read_request(int fd) {
        char ignored[4096];
        ssize_t n;

        do
                n = recv(fd, ignored, sizeof(ignored), 0);
        while (n == (ssize_t) sizeof(ignored));
        return n >= 0 || errno != EAGAIN;
}

static void answer_client(Waiting *w, size_t i) {
        (void) send(w->fds[i], w->answers[i]->data, w->answers[i]->n_bytes, MSG_NOSIGNAL);
        (void) shutdown(w->fds[i], SHUT_WR);
        w->fds[i] = safe_close(w->fds[i]);
}

static void answer_waiting(Waiting *w) {
        uint64_t now, end = now_monotonic_usec() + REQUESTS_USEC;
        struct pollfd fds[CLIENTS_MAX];

        while ((now = now_monotonic_usec()) < end) {
                bool has_any = false;

                for (size_t i = 0; i < w->n_clients; i++) {
                        if (w->fds[i] >= 0 && read_request(w->fds[i]))
                                answer_client(w, i);
                        fds[i] = (struct pollfd) { .fd = w->fds[i], .events = POLLIN };
                        has_any = has_any || w->fds[i] >= 0;
                }
                if (!has_any)
                        return;
                (void) poll(fds, w->n_clients, (int) ((end - now) / USEC_PER_MSEC + 1));
        }
        for (size_t i = 0; i < w->n_clients; i++)
                if (w->fds[i] >= 0)
                        answer_client(w, i);
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
        uint64_t now, end = now_monotonic_usec() + SPACING_USEC;
        Waiting waiting = {};

        assert(sockets);

        unblock_signals();
        (void) notify_now("STATUS=Cannot start; the reason is in the journal (journalctl -u mcp-exec)",
                          -EBADF);
        if (make_answers(&line, &http) < 0)
                log_oom();
        else {
                for (size_t i = 0; i < sockets->n_sockets; i++)
                        if (sockets->fds[i] >= 0) /* a listener may have taken it */
                                accept_waiting(&waiting, sockets->fds[i],
                                               service_sockets_are_http(sockets, i) ? &http : &line);
                answer_waiting(&waiting);
        }

        /* Whoever comes meanwhile waits in the socket, and for the next start. */
        while ((now = now_monotonic_usec()) < end)
                (void) poll(NULL, 0, (int) ((end - now) / USEC_PER_MSEC + 1));
}
