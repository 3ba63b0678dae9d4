/* SPDX-License-Identifier: MIT */

/* Connections: how many in all and from one address, and how long one may take to say what it wants. */

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/strv.h"
#include "base/timeutil.h"
#include "transport/http-request.h"

static void take_address(const struct sockaddr *address, struct in6_addr *ret) {
        static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

        *ret = (struct in6_addr){};
        if (!address)
                return;
        if (address->sa_family == AF_INET6)
                memcpy(ret, &((const struct sockaddr_in6*) (const void*) address)->sin6_addr,
                       sizeof(*ret));
        else if (address->sa_family == AF_INET) {
                memcpy(ret->s6_addr, mapped, sizeof(mapped));
                memcpy(ret->s6_addr + sizeof(mapped),
                       &((const struct sockaddr_in*) (const void*) address)->sin_addr,
                       sizeof(struct in_addr));
        }
}

/* This machine's own: a reverse proxy, or its users, whom MaxConnections= alone limits. A Unix socket has no
 * address, which is all zero. */
static bool is_exempt(const struct in6_addr *a) {
        static const unsigned char loopback4[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

        return IN6_IS_ADDR_UNSPECIFIED(a) || IN6_IS_ADDR_LOOPBACK(a) ||
               memcmp(a, loopback4, sizeof(loopback4)) == 0;
}

/* Whoever has one IPv6 address has the whole /64. */
static bool is_same(const struct in6_addr *a, const struct in6_addr *b) {
        return memcmp(a, b, IN6_IS_ADDR_V4MAPPED(a) ? 16 : 8) == 0;
}

static bool is_there(const HttpConnection *c) {
        return c->fd >= 0 && !c->is_ending;
}

/* Whoever brings a whole request that is admitted is served to its end. Before that, refused, or idle in
 * between, a connection makes room: those go first on which nobody ever showed a token, then the idle, then
 * those whose next request is on its way, and of each kind the one that has waited longest. */
static bool has_work(const HttpConnection *c) {
        bool is_stalled = c->stalled_since_usec > 0;
        int n_unread = 0;
        char byte;

        if (c->owner[0] == 0)
                return c->is_waiting || (!is_stalled && (c->state == RELAY_WAIT || c->fault.status != 0));
        /* Its last answer is the kernel's to bring, and would be lost with the connection. */
        if (ioctl(c->fd, SIOCOUTQ, &n_unread) >= 0 && n_unread > 0)
                return true;
        switch (c->state) {
        case RELAY_HEAD: /* its next request may be here, and was not looked at yet */
                return is_stalled ||
                       (c->n_head_bytes == 0 && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0);
        case RELAY_PASS:
                return c->is_waiting || (c->request && c->request->state != HTTP_READING);
        case RELAY_DROP:
                return c->pair_fd >= 0 || c->fault.status != 0;
        case RELAY_WAIT:
        default:
                return true;
        }
}

static bool goes_before(const HttpConnection *a, const HttpConnection *b) {
        const HttpConnection *both[] = { a, b };
        unsigned ranks[2];

        for (size_t i = 0; i < 2; i++)
                ranks[i] = both[i]->owner[0] == 0 ? 0 :
                           both[i]->state == RELAY_PASS || both[i]->n_head_bytes > 0 ? 2 : 1;
        return ranks[0] != ranks[1] ? ranks[0] < ranks[1] : a->waiting_since_usec < b->waiting_since_usec;
}

size_t http_limits_make_room(Listener *l) {
        HttpServer *s = (HttpServer*) l;
        size_t n = 0, n_working = 0, max;

        assert(l);

        max = l->p.settings->max_connections;
        for (const HttpConnection *c = s->connections; c; c = c->next)
                if (is_there(c)) {
                        n++;
                        n_working += has_work(c);
                }
        if (n_working >= max)
                max += LISTENER_EXTRA_CONNECTIONS_MAX;
        for (; n >= max; n--) {
                HttpConnection *first = NULL;

                for (HttpConnection *c = s->connections; c; c = c->next)
                        if (is_there(c) && !has_work(c) && (!first || goes_before(c, first)))
                                first = c;
                if (!first)
                        break;
                http_connection_displace(first);
        }
        return n;
}

void http_limits_admit(HttpConnection *c, const struct sockaddr *address, bool is_over_limit) {
        const Listener *l;
        unsigned max;
        size_t n = 0;

        assert(c);

        l = &c->server->listener;
        max = l->p.settings->max_connections_per_address;
        c->waiting_since_usec = now_monotonic_usec();
        take_address(address, &c->address);
        if (is_over_limit) {
                c->limit_status = MHD_HTTP_SERVICE_UNAVAILABLE;
                return;
        }
        if (max == 0 || is_exempt(&c->address))
                return;
        for (const HttpConnection *i = c->server->connections; i; i = i->next)
                n += is_there(i) && i->limit_status == 0 && is_same(&i->address, &c->address);
        if (n >= max)
                c->limit_status = MHD_HTTP_TOO_MANY_REQUESTS;
}

/* Where there is one token for everybody, or none, nobody can be kept from locking out the others. */
static bool has_shares(const ListenerParameters *p) {
        return p->is_proxy || (p->access && p->access->n_tokens > 0);
}

/* As on the Unix socket: a quarter of the places is out of the reach of each client, whatever address it has
 * and however many users it names. */
void http_limits_own(HttpConnection *c, const char *principal) {
        const ListenerParameters *p;
        size_t max, n = 0;
        int n_group;

        assert(c);
        assert(principal);

        p = &c->server->listener.p;
        max = p->settings->max_connections;
        n_group = (int) strcspn(principal, "/");
        (void) snprintf(c->owner, sizeof(c->owner), "%.*s", n_group, principal);
        if (c->limit_status != 0 || !has_shares(p))
                return;
        for (const HttpConnection *i = c->server->connections; i; i = i->next)
                n += i != c && is_there(i) && i->limit_status == 0 && streq(i->owner, c->owner);
        if (n >= max - max / 4) {
                c->limit_status = MHD_HTTP_TOO_MANY_REQUESTS;
                c->is_over_share = true;
        }
}

const char* http_limits_message(const HttpConnection *c) {
        assert(c);
        assert(c->limit_status != 0);

        if (c->is_over_share)
                return "You have too many connections to this server (three quarters of MaxConnections=); "
                       "close some of them.";
        return c->limit_status == MHD_HTTP_TOO_MANY_REQUESTS ?
                       "Too many connections from this address (MaxConnectionsPerAddress=); try again "
                       "later." :
                       "Too many connections to this server (MaxConnections=); try again later.";
}

/* The library's timeout is one of silence: a header that grows by a letter now and then would hold its place
 * for ever. */
static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata) {
        HttpServer *s = userdata;
        uint64_t now = now_monotonic_usec();

        (void) usec;
        for (HttpConnection *c = s->connections, *next; c; c = next) {
                next = c->next;
                http_connection_sweep(c, now);
        }
        http_connections_settle(s); /* there may be descriptors by now */
        (void) sd_event_source_set_time_relative(source, s->headers_usec / HTTP_SWEEPS_PER_DEADLINE);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

int http_limits_start(HttpServer *s) {
        assert(s);

        s->headers_usec = HTTP_HEADERS_USEC_MAX;
        return sd_event_add_time_relative(s->listener.p.event, &s->sweep_source, CLOCK_MONOTONIC,
                                          s->headers_usec / HTTP_SWEEPS_PER_DEADLINE, 0, on_sweep, s);
}
