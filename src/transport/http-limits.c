/* SPDX-License-Identifier: MIT */

/* Connections: how many in all and from one address, and how long one may take to say what it wants. */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
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

void http_limits_admit(HttpConnection *c, const struct sockaddr *address) {
        const Listener *l;
        unsigned max;
        size_t n = 0;

        assert(c);

        l = &c->server->listener;
        max = l->p.settings->max_connections_per_address;
        c->waiting_since_usec = now_monotonic_usec();
        take_address(address, &c->address);
        if (l->n_connections >= l->p.settings->max_connections) {
                c->limit_status = MHD_HTTP_SERVICE_UNAVAILABLE;
                return;
        }
        if (max == 0 || is_exempt(&c->address))
                return;
        for (const HttpConnection *i = c->server->connections; i; i = i->next)
                n += i->limit_status == 0 && is_same(&i->address, &c->address);
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
                n += i != c && i->limit_status == 0 && streq(i->owner, c->owner);
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
