/* SPDX-License-Identifier: MIT */

/* A new connection is kept from the library until the head of its first request is here and good: to one
 * that is not, the library would say so with a page for people, or not at all, each version in its own
 * cases. The head is only looked at (MSG_PEEK), and so is in the socket for the library afterwards.
 *
 *   accepted ──► held ──► given to the library, or refused, when it has no memory
 *                  └────► refused: told why, read until the client goes (a reset would overtake the answer)
 *
 * Held is nobody for long: a head that takes many pieces or some seconds is left to the library, with its
 * limits, before buffers of the kernel could fill up. Nor are later requests of a connection looked at: what
 * the library has read of them already we cannot know. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/timeutil.h"
#include "transport/http-head.h"
#include "transport/http-request.h"

#define PIECES_MAX 16U
/* Read of one that was refused. */
#define DRAINED_BYTES_MAX HTTP_BODY_BYTES_MAX

void http_connection_free(HttpConnection *c) {
        Listener *l = &c->server->listener;

        (void) sd_event_source_disable_unref(c->socket_source);
        if (c->is_held)
                (void) safe_close(c->fd);
        else if (!c->is_started)
                c->server->n_given--;
        (void) safe_close(c->own_fd);
        *c->to_this = c->next;
        if (c->next)
                c->next->to_this = c->to_this;
        free(c->room);
        free(c);
        listener_connection_closed(l);
}

HttpConnection* http_hold_find(HttpServer *s, int fd) {
        for (HttpConnection *c = s->connections; c; c = c->next)
                if (c->fd == fd && !c->is_held && !c->is_started)
                        return c;
        return NULL;
}

/* A fresh connection takes so little at once. */
static void hold_refuse(HttpConnection *c, const HttpHeadFault *fault) {
        _cleanup_buffer_ Buffer body = BUFFER_INIT(0), b = BUFFER_INIT(0);
        int r = -ENOMEM;

        c->is_refused = true;
        c->held_since_usec = now_monotonic_usec();
        if (fault)
                r = mcp_error_reply(NULL, 0, MCP_ERROR_REFUSED, fault->message, &body);
        if (r >= 0)
                r = buffer_printf(&b,
                                  "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                                  "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n\r\n%s",
                                  fault->status, MHD_get_reason_phrase_for(fault->status), body.n_bytes,
                                  body.data);
        if (r < 0) {
                http_no_memory_send(c->server, c->fd);
                return;
        }
        (void) send(c->fd, b.data, b.n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void) shutdown(c->fd, SHUT_WR);
}

/* The library has closed its descriptor, whose number may be another's by now. */
static void hold_failed(HttpConnection *c) {
        log_debug("HTTP: the library refused a connection");
        c->server->n_given--;
        if (c->own_fd < 0) {
                c->is_started = true; /* what is over is not counted again */
                http_connection_free(c);
                return;
        }
        c->fd = TAKE_FD(c->own_fd);
        c->is_held = true;
        hold_refuse(c, /* fault= */ NULL);
        (void) sd_event_source_set_enabled(c->socket_source, SD_EVENT_ON);
}

void http_hold_settle(HttpServer *s) {
        assert(s);

        for (HttpConnection *c = s->connections, *next; c && s->n_given > 0; c = next) {
                next = c->next;
                if (!c->is_held && !c->is_started)
                        hold_failed(c);
        }
}

void http_hold_started(HttpConnection *c) {
        assert(c);

        c->is_started = true;
        c->server->n_given--;
        (void) sd_event_source_set_io_fd(c->socket_source, c->fd);
        (void) sd_event_source_set_io_events(c->socket_source, EPOLLRDHUP);
        c->own_fd = safe_close(c->own_fd);
}

void http_hold_release(HttpConnection *c) {
        HttpServer *s = c->server;
        struct sockaddr_storage address = {};
        socklen_t n = sizeof(address);
        int given;

        if (getpeername(c->fd, (struct sockaddr*) &address, &n) < 0) {
                http_connection_free(c);
                return;
        }
        /* The library closes what it has no memory for, now or when it runs. With a descriptor of our own we
         * can still say so. */
        (void) sd_event_source_set_enabled(c->socket_source, SD_EVENT_OFF);
        given = fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
        if (given >= 0) {
                c->own_fd = c->fd;
                c->fd = given;
        }
        c->is_held = false;
        c->held_since_usec = now_monotonic_usec();
        s->n_given++;
        given = c->fd;
        if (MHD_add_connection(s->daemon, given, (struct sockaddr*) &address, n) != MHD_YES) {
                c = http_hold_find(s, given); /* none: it was told of, and of its end */
                if (c)
                        hold_failed(c);
        }
        http_server_kick(s);
}

static void hold_drain(HttpConnection *c) {
        char scratch[4096];
        ssize_t n;

        while ((n = recv(c->fd, scratch, sizeof(scratch), MSG_DONTWAIT)) > 0) {
                c->n_drained_bytes += (size_t) n;
                if (c->n_drained_bytes > DRAINED_BYTES_MAX)
                        break;
        }
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
                http_connection_free(c);
}

static void hold_look(HttpConnection *c, uint32_t revents) {
        char head[HTTP_HEAD_BYTES_MAX];
        HttpHeadFault fault;
        ssize_t n;
        int r;

        if (c->is_refused) {
                hold_drain(c);
                return;
        }
        n = recv(c->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                http_connection_free(c);
                return;
        }
        r = http_head_check(head, (size_t) n, &fault);
        if (r == HTTP_HEAD_E_INCOMPLETE && (revents & (EPOLLRDHUP | EPOLLHUP))) {
                fault = (HttpHeadFault) { MHD_HTTP_BAD_REQUEST, "The request ends within its head." };
                r = HTTP_HEAD_E_BAD;
        }
        if (r == HTTP_HEAD_E_BAD) {
                hold_refuse(c, &fault);
                hold_drain(c);
        } else if (r == 0 || ++c->n_pieces >= PIECES_MAX)
                http_hold_release(c);
}

static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        HttpConnection *c = userdata;

        (void) fd;
        if (c->is_held) {
                hold_look(c, revents);
                return 0;
        }
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (c->request)
                http_request_hangup(c->request);
        return 0;
}

int http_hold(HttpServer *s, int fd, const struct sockaddr *address) {
        HttpConnection *c;
        int r;

        assert(s);
        assert(fd >= 0);

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->room = calloc(1, sizeof(*c->room));
        if (!c->room) {
                free(c);
                return -ENOMEM;
        }
        c->server = s;
        c->fd = fd;
        c->own_fd = -EBADF;
        c->is_held = true;
        c->held_since_usec = now_monotonic_usec();
        r = sd_event_add_io(s->listener.p.event, &c->socket_source, fd, EPOLLIN | EPOLLRDHUP | EPOLLET,
                            on_socket, c);
        if (r < 0) {
                free(c->room);
                free(c);
                return r;
        }
        http_limits_admit(c, address);
        c->next = s->connections;
        c->to_this = &s->connections;
        if (c->next)
                c->next->to_this = &c->next;
        s->connections = c;
        listener_connection_opened(&s->listener);
        /* Most clients have written by now. */
        hold_look(c, 0);
        return 0;
}

void http_hold_sweep(HttpConnection *c, uint64_t now_usec, uint64_t max_usec) {
        assert(c);

        if (now_usec - c->held_since_usec < max_usec)
                return;
        if (c->is_held && !c->is_refused)
                http_hold_release(c);
        else if (c->is_held || !c->is_started)
                /* The latter is one that the library closed without a word: its descriptor is not ours. */
                http_connection_free(c);
}
