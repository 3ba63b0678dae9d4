/* SPDX-License-Identifier: MIT */

/* Between a client's socket and the library, which has one end of a socket pair instead. Of a request only
 * what was judged passes (http-head.c, http-body.c): to what is malformed the library would answer with a
 * page for people, or not at all, each version in its own cases, and a proxy in front of us may have read it
 * otherwise. One request at a time: the next one stays in the client's socket until the last one is
 * answered, so whatever is said to it comes in its turn.
 *
 *   HEAD ──► PASS ──► WAIT ──► HEAD …       the library's answers go to the client all the while
 *     │        └────► DROP                  its answer came before the end of the body, or the body is bad
 *     └─────────────► DROP                  refused: told why, read until the client goes, for a reset
 *                                           would overtake the answer
 *
 * Bytes lie in the kernel's buffers only: they are looked at (MSG_PEEK), passed on, and then taken as far as
 * they were. Both sockets are watched edge-triggered and tried until they would block. */

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/timeutil.h"
#include "transport/http-request.h"

/* A head in more pieces is somebody's who plays for time: each is a reason to look at it again. */
#define PIECES_MAX 256U
#define PIECE_BYTES (64 * KIB)
/* Read of one that was refused. */
#define DRAINED_BYTES_MAX HTTP_BODY_BYTES_MAX

static const HttpFault
        fault_head_end = { MHD_HTTP_BAD_REQUEST, "The request ends within its head." },
        fault_body_end = { MHD_HTTP_BAD_REQUEST, "The request ends within its body." },
        fault_slow_head = { MHD_HTTP_REQUEST_TIMEOUT, "The head of the request comes too slowly." },
        fault_slow_body = { MHD_HTTP_REQUEST_TIMEOUT, "The body of the request comes too slowly." },
        fault_displaced = { MHD_HTTP_SERVICE_UNAVAILABLE,
                            "Too many connections to this server (MaxConnections=), and this one had no "
                            "whole request yet; try again later." };

static void client_stalls(HttpConnection *c) {
        if (c->stalled_since_usec == 0)
                c->stalled_since_usec = now_monotonic_usec();
}

/* What was looked at and passed on. Whatever else the kernel gives, nothing passes twice or unseen. */
static bool take(HttpConnection *c, int fd, char *data, size_t n_bytes) {
        if (n_bytes == 0 || recv(fd, data, n_bytes, MSG_DONTWAIT) == (ssize_t) n_bytes)
                return true;
        http_connection_end_soon(c);
        return false;
}

static void relay_drop(HttpConnection *c) {
        char scratch[4096];
        ssize_t n;

        while ((n = recv(c->fd, scratch, sizeof(scratch), MSG_DONTWAIT)) > 0) {
                c->n_drained_bytes += (size_t) n;
                if (c->n_drained_bytes > DRAINED_BYTES_MAX)
                        break;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n == 0 && (c->pair_fd >= 0 || c->fault.status != 0))
                return; /* it still listens to what it is told */
        http_connection_end(c);
}

static void start_dropping(HttpConnection *c) {
        c->state = RELAY_DROP;
        c->dropping_since_usec = now_monotonic_usec();
}

/* The last word, after everything the library had to say. Returns false when there is no room for it yet. */
static bool tell(HttpConnection *c) {
        _cleanup_buffer_ Buffer body = BUFFER_INIT(0), b = BUFFER_INIT(0);
        bool is_busy = c->fault.status == MHD_HTTP_SERVICE_UNAVAILABLE;
        int r;

        r = mcp_error_reply(NULL, 0, is_busy ? MCP_ERROR_UNAVAILABLE : MCP_ERROR_REFUSED, c->fault.message,
                            &body);
        if (r >= 0)
                r = buffer_printf(&b,
                                  "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                                  "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n\r\n%s",
                                  c->fault.status, MHD_get_reason_phrase_for(c->fault.status), body.n_bytes,
                                  body.data);
        if (r < 0)
                http_no_memory_send(c->server, c->fd);
        else if (send(c->fd, b.data, b.n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
                 (errno == EAGAIN || errno == EINTR)) {
                client_stalls(c);
                return false;
        }
        (void) shutdown(c->fd, SHUT_WR);
        c->stalled_since_usec = 0;
        c->fault = (HttpFault) {};
        return true;
}

static void library_gone(HttpConnection *c) {
        int n_unread = 0;

        http_connection_unpair(c);
        if (!c->was_started) { /* it had no memory for it */
                c->library_fd = -EBADF; /* closed by it: another connection may have this number */
                c->fault = (HttpFault) {};
                http_no_memory_send(c->server, c->fd);
                start_dropping(c);
        } else if (c->fault.status == 0 && c->state == RELAY_HEAD && c->n_head_bytes > 0)
                c->fault = fault_slow_head;
        else if (c->fault.status == 0 && c->state == RELAY_PASS && !c->was_replied)
                c->fault = fault_slow_body;

        if (c->fault.status != 0) {
                start_dropping(c);
                if (!tell(c))
                        return;
        } else {
                if ((c->state == RELAY_HEAD || c->state == RELAY_WAIT) &&
                    (ioctl(c->fd, FIONREAD, &n_unread) < 0 || n_unread == 0)) {
                        http_connection_end(c);
                        return;
                }
                (void) shutdown(c->fd, SHUT_WR);
                start_dropping(c);
        }
        relay_drop(c);
}

void http_relay_output(HttpConnection *c) {
        char data[PIECE_BYTES];
        ssize_t n, sent;

        assert(c);

        while (c->pair_fd >= 0 && !c->is_ending) {
                n = recv(c->pair_fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n <= 0) {
                        library_gone(c);
                        return;
                }
                sent = send(c->fd, data, (size_t) n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
                        client_stalls(c);
                        return;
                }
                if (sent < 0) {
                        http_connection_end_soon(c);
                        return;
                }
                c->stalled_since_usec = 0;
                if (!take(c, c->pair_fd, data, (size_t) sent))
                        return;
        }
        if (c->pair_fd < 0 && c->fd >= 0 && c->fault.status != 0 && tell(c))
                relay_drop(c);
}

void http_relay_refuse(HttpConnection *c, const HttpFault *fault) {
        assert(c);
        assert(fault);

        c->fault = *fault;
        start_dropping(c);
        if (c->is_given) {
                http_connection_unsettle(c);
                return;
        }
        http_connection_unpair(c);
        if (tell(c))
                relay_drop(c);
}

void http_relay_expire(HttpConnection *c) {
        assert(c);
        assert(c->state == RELAY_HEAD || c->state == RELAY_PASS);

        if (c->state == RELAY_PASS)
                http_relay_refuse(c, &fault_slow_body);
        else if (c->n_head_bytes > 0)
                http_relay_refuse(c, &fault_slow_head);
        else
                http_connection_end_soon(c);
}

void http_relay_last_word(HttpConnection *c) {
        char ignored[16 * KIB];

        assert(c);

        if (c->stalled_since_usec > 0 ||
            !((c->state == RELAY_HEAD && (c->n_head_bytes > 0 || !c->is_given)) ||
              (c->state == RELAY_PASS && !c->was_replied &&
               (!c->request || c->request->state == HTTP_READING))))
                return;
        (void) recv(c->fd, ignored, sizeof(ignored), MSG_DONTWAIT); /* or a reset would overtake it */
        c->fault = fault_displaced;
        (void) tell(c);
        c->fault = (HttpFault) {};
}

/* The library has read what was passed. A request of which it has answered nothing yet ends, for it, with
 * the connection. */
void http_relay_settle_refusal(HttpConnection *c) {
        assert(c);

        c->was_replied |= c->request && c->request->state != HTTP_READING;
        if (c->was_replied)
                c->fault = (HttpFault) {}; /* its answer is on its way, and ends the connection */
        else
                (void) shutdown(c->pair_fd, SHUT_RDWR);
        http_relay_output(c);
}

/* The connection's first good head is here. */
static void give(HttpConnection *c) {
        static const struct sockaddr_un address = { .sun_family = AF_UNIX };

        c->is_given = true;
        /* It closes what it has no memory for, now or when it runs: we see that at our end. */
        (void) MHD_add_connection(c->server->daemon, c->library_fd, (const struct sockaddr*) &address,
                                  sizeof(address));
        http_server_kick(c->server);
}

/* Returns true when there is more to do. */
static bool relay_head(HttpConnection *c) {
        char head[HTTP_HEAD_BYTES_MAX];
        HttpFault fault;
        HttpHead h;
        ssize_t n;
        int r;

        n = recv(c->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n == 0 && c->stalled_since_usec > 0)
                return false; /* it does not have all of its last answer yet */
        if (n <= 0) {
                http_connection_end_soon(c);
                return false;
        }
        if ((size_t) n > c->n_head_bytes)
                c->n_pieces++;
        else if (!c->is_hung_up)
                return false; /* nothing new */
        c->n_head_bytes = (size_t) n;
        r = http_head_check(head, (size_t) n, &h, &fault);
        if (r == HTTP_HEAD_E_INCOMPLETE && (c->is_hung_up || c->n_pieces > PIECES_MAX)) {
                fault = c->is_hung_up ? fault_head_end : fault_slow_head;
                r = HTTP_HEAD_E_BAD;
        }
        if (r == HTTP_HEAD_E_BAD)
                http_relay_refuse(c, &fault);
        if (r != 0 || !take(c, c->fd, head, h.n_blank_bytes))
                return false;
        http_body_init(&c->body, &h);
        c->is_absolute = h.is_absolute;
        c->state = RELAY_PASS;
        c->was_replied = false;
        if (!c->is_given)
                give(c);
        return true;
}

/* The library answers all requests that it has within one call, and nobody's deadline is kept meanwhile. So
 * it gets some at a time, and of the clients that wait the one whose owner was served longest ago comes
 * next: somebody's many connections delay each other, and nobody else's. */
static bool may_pass_last_piece(HttpConnection *c) {
        HttpServer *s = c->server;

        if (s->turn != c && (s->has_waiting || s->n_passed >= HTTP_REQUESTS_PER_RUN)) {
                if (!s->has_waiting)
                        http_server_kick(s);
                c->is_waiting = s->has_waiting = true;
                return false;
        }
        s->n_passed++;
        http_connection_had_turn(c);
        return true;
}

/* Returns true when there is more to do. */
static bool relay_body(HttpConnection *c) {
        char data[PIECE_BYTES];
        HttpBody next = c->body;
        HttpFault fault;
        size_t n_good;
        ssize_t n, sent;
        int r;

        n = recv(c->fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n <= 0) {
                http_relay_refuse(c, &fault_body_end);
                return false;
        }
        r = http_body_push(&next, data, (size_t) n, &n_good, &fault);
        if (r == 0 && !may_pass_last_piece(c))
                return false;
        if (n_good > 0) {
                sent = send(c->pair_fd, data, n_good, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                        return false;
                if (sent < 0) { /* the library reads no more: it has answered */
                        start_dropping(c);
                        return true;
                }
                if (!take(c, c->fd, data, (size_t) sent))
                        return false;
                if ((size_t) sent < n_good) {
                        (void) http_body_push(&c->body, data, (size_t) sent, &n_good, &fault);
                        return true;
                }
        }
        c->body = next;
        if (r == HTTP_HEAD_E_BAD)
                http_relay_refuse(c, &fault);
        else if (r == 0)
                c->state = RELAY_WAIT;
        return r == HTTP_HEAD_E_INCOMPLETE;
}

void http_relay_input(HttpConnection *c) {
        bool has_more = true;

        assert(c);

        while (has_more && c->fd >= 0 && !c->is_ending) {
                if (c->state == RELAY_DROP) {
                        relay_drop(c);
                        return;
                }
                if (c->state == RELAY_WAIT || c->pair_fd < 0)
                        return;
                has_more = c->state == RELAY_HEAD ? relay_head(c) : relay_body(c);
        }
}
