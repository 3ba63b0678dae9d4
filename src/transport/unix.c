/* SPDX-License-Identifier: MIT */

/* The Unix socket: who connects is known from the kernel, so a connection is a client from its first byte
 * on. */

#include <errno.h>
#include <sys/socket.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/strv.h"
#include "transport/line.h"

typedef struct UnixConnection UnixConnection;
typedef struct UnixListener {
        Listener listener;
        UnixConnection *connections;
} UnixListener;

struct UnixConnection {
        UnixListener *owner;
        LineTransport *line;
        UnixConnection *next, **to_this; /* in the owner's list */
};

static void connection_unlink(UnixConnection *c) {
        *c->to_this = c->next;
        if (c->next)
                c->next->to_this = c->to_this;
}

static void connection_free(UnixConnection *c) {
        Listener *l = &c->owner->listener;

        connection_unlink(c);
        line_transport_free(c->line);
        free(c);
        listener_connection_closed(l);
}

static void on_line_closed(LineTransport *t, void *userdata) {
        (void) t;
        connection_free(userdata);
}

/* One line, which a new socket's buffer always has room for; then the connection ends. */
static void refuse(int fd, int code, const char *message) {
        static const char no_memory[] = MCP_NO_MEMORY_REPLY "\n";
        _cleanup_buffer_ Buffer reply = BUFFER_INIT(64 * KIB);

        if (mcp_error_reply(NULL, 0, code, message, &reply) < 0 || buffer_append(&reply, "\n", 1) < 0)
                (void) send(fd, no_memory, sizeof(no_memory) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        else
                (void) send(fd, reply.data, reply.n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One user must not be able to lock out all others, the administrator among them: a quarter of the places is
 * out of his reach. */
static bool has_too_many(const UnixListener *u, const char *principal) {
        size_t max = u->listener.p.settings->max_connections, n = 0;

        for (const UnixConnection *c = u->connections; c; c = c->next)
                n += streq(c->line->principal, principal);
        return n >= max - max / 4;
}

static int admit(Listener *l, int fd, bool is_over_limit) {
        _cleanup_free_ char *principal = NULL, *message = NULL;
        _cleanup_free_ UnixConnection *c = NULL;
        UnixListener *u = (UnixListener*) l;
        int r;

        r = auth_unix_peer(l->p.settings, fd, &principal, &message);
        if (r == AUTH_E_DENIED) {
                log_info("Refused a connection: %s", message);
                refuse(fd, MCP_ERROR_REFUSED, message);
                return -EACCES;
        }
        if (r < 0)
                return r;
        if (is_over_limit) {
                log_info("Refused a connection of %s: MaxConnections=%u reached", principal,
                         l->p.settings->max_connections);
                refuse(fd, MCP_ERROR_UNAVAILABLE,
                       "Too many connections to this server (MaxConnections=); try again later.");
                return -EBUSY;
        }

        if (has_too_many(u, principal)) {
                log_info("Refused a connection of %s, who has three quarters of MaxConnections=%u",
                         principal, l->p.settings->max_connections);
                refuse(fd, MCP_ERROR_UNAVAILABLE,
                       "You have too many connections to this server (three quarters of MaxConnections=); "
                       "close some of them.");
                return -EBUSY;
        }

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->owner = u;
        r = line_transport_new(&(LineTransportParameters) {
                        .event = l->p.event,
                        .server = l->p.server,
                        .principal = principal,
                        .input_fd = fd,
                        .output_fd = fd,
                        .on_closed = on_line_closed,
                        .userdata = c,
                        .budget = &l->budget,
                }, &c->line);
        if (r < 0)
                return r;

        c->next = u->connections;
        c->to_this = &u->connections;
        if (c->next)
                c->next->to_this = &c->next;
        u->connections = c;
        TAKE_PTR(c);
        listener_connection_opened(l);
        return 0;
}

static int unix_connected(Listener *l, int fd, bool is_over_limit) {
        int r;

        r = admit(l, fd, is_over_limit);
        if (r != -ENOMEM)
                return r;
        listener_no_memory(l);
        refuse(fd, MCP_ERROR_UNAVAILABLE, MCP_NO_MEMORY);
        return r;
}

static void unix_drain(Listener *l) {
        UnixListener *u = (UnixListener*) l;

        for (UnixConnection *c = u->connections; c; c = c->next)
                line_transport_drain(c->line);
}

/* Who may use the socket is decided when it connects, and at a reload once more. */
static void unix_reloaded(Listener *l, const ListenerParameters *before) {
        UnixListener *u = (UnixListener*) l;
        const UnixConnection *last = NULL;
        bool is_denied = false;

        (void) before;
        for (UnixConnection *c = u->connections; c; c = c->next) {
                _cleanup_free_ char *principal = NULL, *message = NULL;

                /* One look-up for all connections of a user that stand together. */
                if (!last || !streq(last->line->principal, c->line->principal))
                        is_denied = auth_unix_peer(l->p.settings, c->line->p.input_fd, &principal,
                                                   &message) == AUTH_E_DENIED;
                if (message)
                        log_info("Ending connections after the reload: %s", message);
                if (is_denied)
                        line_transport_dismiss(c->line);
                last = c;
        }
}

static Listener* unix_free(Listener *l) {
        UnixListener *u = (UnixListener*) l;

        l->p.on_idle_changed = NULL;
        while (u->connections)
                connection_free(u->connections);
        listener_done(l);
        free(u);
        return NULL;
}

static const ListenerOps unix_listener_ops = {
        .connected = unix_connected,
        .drain = unix_drain,
        .reloaded = unix_reloaded,
        .free = unix_free,
};

int unix_listener_new(const ListenerParameters *p, Listener **ret) {
        _cleanup_free_ UnixListener *u = NULL;
        int r;

        assert(ret);

        u = calloc(1, sizeof(*u));
        if (!u)
                return -ENOMEM;
        r = listener_init(&u->listener, &unix_listener_ops, p);
        if (r < 0)
                return r;
        *ret = &TAKE_PTR(u)->listener;
        return 0;
}
