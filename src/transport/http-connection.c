/* SPDX-License-Identifier: MIT */

/* A client's connection from accept to end, and the socket pair by which the library has it. It is over when
 * its descriptors are closed, which any function may do, and is freed when the library knows it no more: as
 * the last thing in a turn of the event loop. */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "transport/http-request.h"

/* Of a client that does not take its answer; the library's own time is over by then. */
#define STALLED_USEC_MAX (30 * USEC_PER_SEC)
/* What is watched of both sockets. */
#define EDGES (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

void http_connection_unpair(HttpConnection *c) {
        assert(c);

        c->pair_source = sd_event_source_disable_unref(c->pair_source);
        c->pair_fd = safe_close(c->pair_fd);
        if (!c->is_given)
                c->library_fd = safe_close(c->library_fd);
}

void http_connection_close(HttpConnection *c) {
        assert(c);

        http_connection_unpair(c);
        c->client_source = sd_event_source_disable_unref(c->client_source);
        c->fd = safe_close(c->fd);
}

/* Nothing more comes from the client or goes to it. */
void http_connection_end(HttpConnection *c) {
        assert(c);

        if (c->request)
                http_request_hangup(c->request);
        http_connection_close(c);
}

/* Of one that is over, when the library knows it no more. The last thing that is done with a connection in
 * each turn of the event loop. */
static void reap(HttpConnection *c) {
        Listener *l = &c->server->listener;

        if (c->fd >= 0 || c->is_started)
                return;
        assert(!c->request);
        c->server->n_unpaired -= c->is_unpaired;
        if (c->server->n_unpaired > 0)
                http_server_kick(c->server);
        *c->to_this = c->next;
        if (c->next)
                c->next->to_this = c->to_this;
        free(c->room);
        free(c);
        listener_connection_closed(l);
}

static void move_to(HttpConnection *c, HttpConnection ***end) {
        *c->to_this = c->next;
        if (c->next)
                c->next->to_this = c->to_this;
        c->next = NULL;
        c->to_this = *end;
        **end = c;
        *end = &c->next;
}

static HttpConnection** tail_of(HttpServer *s) {
        HttpConnection **end = &s->connections;

        while (*end)
                end = &(*end)->next;
        return end;
}

/* Of connections that nobody owns yet, those from one address have one. */
static bool has_same_owner(const HttpConnection *a, const HttpConnection *b) {
        return streq(a->owner, b->owner) &&
               (a->owner[0] != 0 || memcmp(&a->address, &b->address, sizeof(a->address)) == 0);
}

void http_connection_had_turn(HttpConnection *c) {
        HttpConnection *moved = NULL, **end = &moved, *next;

        assert(c);

        for (HttpConnection *i = c->server->connections; i; i = next) {
                next = i->next;
                if (i != c && has_same_owner(i, c))
                        move_to(i, &end);
        }
        move_to(c, &end);
        moved->to_this = tail_of(c->server);
        *moved->to_this = moved;
}

void http_connection_unsettle(HttpConnection *c) {
        assert(c);

        c->is_unsettled = true;
        c->server->is_unsettled = true;
        http_server_kick(c->server);
}

/* The library reads once for each edge of epoll(7): it would miss an end that came together with data. So it
 * is run before it sees one. */
void http_connection_end_soon(HttpConnection *c) {
        assert(c);

        c->is_ending = true;
        http_connection_unsettle(c);
}

static int on_pair(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        HttpConnection *c = userdata;

        (void) source;
        (void) fd;
        (void) revents;
        http_relay_output(c);
        http_relay_input(c);
        reap(c);
        return 0;
}

/* Returns 0 or -errno. Without descriptors the connection waits for some. */
static int make_pair(HttpConnection *c) {
        int fds[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
                return -errno;
        c->pair_fd = fds[0];
        c->library_fd = fds[1];
        r = sd_event_add_io(c->server->listener.p.event, &c->pair_source, c->pair_fd, EDGES, on_pair, c);
        if (r < 0)
                http_connection_unpair(c);
        return r;
}

/* Edge-triggered, this is never nothing: whatever is so now is told as if it were new. */
void http_connection_rearm(HttpConnection *c) {
        assert(c);

        if (c->pair_source)
                (void) sd_event_source_set_io_events(c->pair_source, EDGES);
        if (c->client_source)
                (void) sd_event_source_set_io_events(c->client_source, EDGES);
}

HttpConnection* http_connection_find(HttpServer *s, int fd) {
        assert(s);

        for (HttpConnection *c = s->connections; c; c = c->next)
                if (c->is_given && !c->was_started && c->library_fd == fd)
                        return c;
        return NULL;
}

void http_connection_started(HttpConnection *c) {
        assert(c);

        c->is_started = c->was_started = true;
}

void http_connection_ended(HttpConnection *c) {
        assert(c);

        c->is_started = false;
        reap(c);
}

void http_connection_next(HttpConnection *c, bool was_replied) {
        assert(c);

        c->waiting_since_usec = now_monotonic_usec();
        if (c->state != RELAY_WAIT) {
                c->was_replied |= was_replied; /* before its end: the library will close the connection */
                return;
        }
        c->state = RELAY_HEAD;
        c->n_pieces = 0;
        c->n_head_bytes = 0;
        if (c->server->listener.is_draining && c->pair_fd >= 0)
                (void) shutdown(c->pair_fd, SHUT_RDWR);
        http_connection_unsettle(c);
}

void http_connection_suspended(HttpConnection *c) {
        assert(c);

        if (c->is_hung_up)
                http_connection_unsettle(c);
}

/* A client that sends no more may still want its answer (RFC 9112 §9.6), or have closed its socket: the two
 * look alike until it refuses what it is sent. Of the handshake era, where leaving cancels nothing, it is
 * taken to listen, and its connection stays at most until its call is answered. What leaving does cancel,
 * modern calls and event streams, ends at once: clients leave by closing, and a program that nobody waits
 * for must not run on. */
static void notice_hangup(HttpConnection *c) {
        HttpRequest *q = c->request;

        if (!c->is_hung_up || !q || !q->is_suspended)
                return;
        if (c->is_gone || !q->exchange || !mcp_exchange_outlives_client(q->exchange))
                http_request_hangup(q);
}

static int on_client(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        HttpConnection *c = userdata;

        (void) source;
        (void) fd;
        if (revents & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                c->is_hung_up = true;
        if (revents & (EPOLLHUP | EPOLLERR))
                c->is_gone = true;
        http_relay_output(c);
        http_relay_input(c);
        notice_hangup(c);
        reap(c);
        return 0;
}

static void settle(HttpConnection *c) {
        c->is_unsettled = false;
        if (c->is_ending)
                http_connection_end(c);
        else if (c->pair_fd >= 0 && c->fault.status != 0)
                http_relay_settle_refusal(c);
        else if (c->fd >= 0) {
                http_relay_output(c);
                http_relay_input(c);
                notice_hangup(c);
        }
}

static void find_pair(HttpConnection *c) {
        if (!c->is_unpaired || make_pair(c) < 0)
                return;
        c->is_unpaired = false;
        c->server->n_unpaired--;
        c->waiting_since_usec = now_monotonic_usec();
        http_relay_input(c);
}

/* As many as the library gets at a time. Each changes the order of the list. */
static void give_turns(HttpServer *s) {
        while (s->has_waiting && s->n_passed < HTTP_REQUESTS_PER_RUN) {
                HttpConnection *c = s->connections;

                while (c && !c->is_waiting)
                        c = c->next;
                s->has_waiting = c;
                if (!c)
                        return;
                c->is_waiting = false;
                s->turn = c;
                http_relay_input(c);
                s->turn = NULL;
                reap(c);
        }
        if (s->has_waiting)
                http_server_kick(s);
}

void http_connections_settle(HttpServer *s) {
        assert(s);

        if (!s->is_unsettled && s->n_unpaired == 0 && !s->has_waiting)
                return;
        s->is_unsettled = false;
        s->has_waiting = true; /* a turn changes the order of the list: there is none before its end */
        for (HttpConnection *c = s->connections, *next; c; c = next) {
                next = c->next;
                if (s->n_unpaired > 0)
                        find_pair(c);
                if (c->is_unsettled)
                        settle(c);
                reap(c);
        }
        give_turns(s);
}

void http_connection_drain(HttpConnection *c, bool is_due) {
        char byte;

        assert(c);

        if (c->state == RELAY_HEAD && c->stalled_since_usec > 0) {
                /* Its end comes to us behind what is left of its last answer. */
                (void) shutdown(c->pair_fd, SHUT_RDWR);
                return;
        }
        if (c->state == RELAY_HEAD && !is_due)
                is_due = c->was_started && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
        if (is_due && (c->state == RELAY_HEAD || c->state == RELAY_DROP))
                http_connection_end_soon(c);
}

/* How a connection ends that its client keeps, says nothing on, or does not read from. */
void http_connection_sweep(HttpConnection *c, uint64_t now_usec) {
        const HttpServer *s;

        assert(c);

        s = c->server;
        if (c->fd < 0)
                return;
        if (c->stalled_since_usec > 0 && now_usec - c->stalled_since_usec > STALLED_USEC_MAX)
                http_connection_end(c);
        else if (c->state == RELAY_DROP && c->pair_fd < 0 &&
                 now_usec - c->dropping_since_usec >= s->headers_usec / HTTP_SWEEPS_PER_DEADLINE)
                http_connection_end(c);
        else if (c->state == RELAY_HEAD && !c->is_unpaired && c->stalled_since_usec == 0 &&
                 now_usec - c->waiting_since_usec > s->headers_usec)
                http_relay_expire(c);
        /* Also where it is not content that comes slowly, and the library tells us of nothing. */
        else if (c->state == RELAY_PASS && c->request && c->request->state == HTTP_READING &&
                 now_usec - c->request->started_usec > HTTP_BODY_USEC_MAX)
                http_relay_expire(c);
        reap(c);
}

void http_connection_displace(HttpConnection *c) {
        assert(c);

        http_relay_last_word(c);
        if (c->is_given) {
                http_connection_end_soon(c);
                return;
        }
        http_connection_end(c);
        reap(c);
}

int http_connection_new(HttpServer *s, int fd, const struct sockaddr *address, bool is_over_limit) {
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
        c->pair_fd = c->library_fd = -EBADF;
        r = make_pair(c);
        if (r == -EMFILE || r == -ENFILE) {
                c->is_unpaired = true;
                s->n_unpaired++;
                r = 0;
        }
        if (r >= 0)
                r = sd_event_add_io(s->listener.p.event, &c->client_source, fd, EDGES, on_client, c);
        if (r < 0) {
                s->n_unpaired -= c->is_unpaired;
                http_connection_unpair(c);
                free(c->room);
                free(c);
                return r;
        }
        http_limits_admit(c, address, is_over_limit);
        c->to_this = tail_of(s);
        *c->to_this = c;
        listener_connection_opened(&s->listener);
        /* Most clients have written by now. */
        http_relay_input(c);
        reap(c);
        return 0;
}
