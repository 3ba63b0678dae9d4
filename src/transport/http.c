/* SPDX-License-Identifier: MIT */

/* libmicrohttpd on our event loop: it has an epoll descriptor that we watch, and is run when that is
 * readable, when one of its timeouts is due, or when we gave it something to do. It has no thread and no
 * listening socket of its own: accepting is done by Listener, within the same limits and with the same
 * patience as for the Unix socket. */

#include "transport/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/timeutil.h"
#include "transport/http-request.h"

/* Of a connection that says nothing, or does not take what we send. */
#define IDLE_SEC 30U
/* Request line and headers have to fit in, and it is the piece in which bodies are read. */
#define CONNECTION_MEMORY_BYTES (64 * KIB)
/* Beyond MaxConnections=: those that only get their refusal, and those that made room a moment ago. */
#define SPARE_CONNECTIONS 128U
/* The largest MaxConnections=, for a reload may raise it. */
#define CONNECTIONS_MAX 4096U

static void http_run(HttpServer *s);

/* The library's own complaints, about clients mostly. */
static void _printf_(2, 0) on_mhd_log(void *userdata, const char *format, va_list ap) {
        char text[256];

        (void) userdata;
        (void) vsnprintf(text, sizeof(text), format, ap);
        for (char *p = text; *p; p++)
                if (*p < ' ' || *p > '~')
                        *p = *p == '\n' && p[1] == 0 ? 0 : '?';
        log_debug("HTTP: %s", text);
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
        HttpServer *s = userdata;
        HttpConnection *c = *socket_context;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                const union MHD_ConnectionInfo *info =
                        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

                c = info ? http_connection_find(s, info->connect_fd) : NULL;
                *socket_context = c; /* without it, its requests will be refused by closing it */
                if (c)
                        http_connection_started(c);
        } else if (c) {
                http_connection_ended(c);
                *socket_context = NULL;
        }
}

static void on_completed(void *userdata, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode code) {
        HttpRequest *q = *request_context;
        HttpConnection *c;
        bool was_replied;

        (void) userdata;
        (void) mhd;
        (void) code;
        if (!q)
                return;
        c = q->connection;
        was_replied = q->state != HTTP_READING;
        *request_context = http_request_free(q);
        http_connection_next(c, was_replied);
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data, size_t *n_bytes,
                                  void **request_context) {
        HttpServer *s = userdata;
        HttpRequest *q = *request_context;
        enum MHD_Result r;

        (void) version;
        if (s->is_closing)
                return MHD_NO;
        if (!q) {
                const union MHD_ConnectionInfo *info =
                        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

                if (!info || !info->socket_context)
                        return MHD_NO;
                q = http_request_start(info->socket_context, mhd);
                *request_context = q;
                return http_request_begin(q, path, method);
        }
        if (*n_bytes > 0) {
                r = http_request_body(q, data, *n_bytes);
                *n_bytes = 0;
                return r;
        }
        return http_request_continue(q);
}

static int on_epoll(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source;
        (void) fd;
        (void) revents;
        http_run(userdata);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        http_run(userdata);
        return 0;
}

void http_server_kick(HttpServer *s) {
        assert(s);

        s->is_kicked = true;
        if (!s->timeout_source)
                return;
        /* Long due. Not a defer source: that one counts as waiting since its creation, and would keep all
         * others of its priority from their turn. */
        (void) sd_event_source_set_time(s->timeout_source, 0);
        (void) sd_event_source_set_enabled(s->timeout_source, SD_EVENT_ONESHOT);
}

static void http_run(HttpServer *s) {
        MHD_UNSIGNED_LONG_LONG msec;

        s->is_kicked = false;
        (void) MHD_run(s->daemon);
        s->n_passed = 0;
        http_connections_settle(s);
        if (s->is_kicked)
                return;
        if (MHD_get_timeout(s->daemon, &msec) != MHD_YES) {
                (void) sd_event_source_set_enabled(s->timeout_source, SD_EVENT_OFF);
                return;
        }
        if (msec == 0) {
                http_server_kick(s);
                return;
        }
        msec = MIN_OF(msec, (MHD_UNSIGNED_LONG_LONG) IDLE_SEC * 1000);
        (void) sd_event_source_set_time_relative(s->timeout_source, (uint64_t) msec * USEC_PER_MSEC);
        (void) sd_event_source_set_enabled(s->timeout_source, SD_EVENT_ONESHOT);
}

static int http_connected(Listener *l, int fd, bool is_over_limit) {
        HttpServer *s = (HttpServer*) l;
        struct sockaddr_storage address = {};
        socklen_t n = sizeof(address);
        int on = 1, r;

        if (getpeername(fd, (struct sockaddr*) &address, &n) < 0)
                return -errno;
        /* Replies are written whole: waiting for more of them only delays the last piece. */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

        r = http_connection_new(s, fd, (const struct sockaddr*) &address, is_over_limit);
        if (r == -ENOMEM)
                http_no_memory_refuse(s, fd);
        return r;
}

static void drain_connections(HttpServer *s, bool is_due) {
        for (HttpConnection *c = s->connections; c; c = c->next)
                http_connection_drain(c, is_due);
}

static int on_drain_due(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        drain_connections(userdata, /* is_due= */ true);
        return 0;
}

/* A connection without a request would stay until its timeout; one with a request, also with one that was
 * not read yet, is closed after its answer. One that was taken in this moment is given the time to say what
 * it was made for. */
static void http_drain(Listener *l) {
        HttpServer *s = (HttpServer*) l;

        http_sessions_drain(s->sessions);
        http_events_drain(s);
        drain_connections(s, /* is_due= */ false);
        if (sd_event_add_time_relative(l->p.event, &s->drain_source, CLOCK_MONOTONIC, HTTP_FRESH_USEC, 0,
                                       on_drain_due, s) < 0)
                drain_connections(s, /* is_due= */ true);
}

static Listener* http_free(Listener *l) {
        HttpServer *s = (HttpServer*) l;

        l->p.on_idle_changed = NULL;
        s->is_closing = true;
        /* The library must not be stopped with suspended connections left: wake them all, which closes
         * them. */
        for (HttpRequest *q = s->requests; q; q = q->next)
                http_request_hangup(q);
        if (s->daemon) {
                (void) MHD_run(s->daemon);
                s->epoll_source = sd_event_source_disable_unref(s->epoll_source);
                MHD_stop_daemon(s->daemon);
        }
        while (s->connections) {
                http_connection_close(s->connections);
                http_connection_ended(s->connections);
        }
        (void) sd_event_source_disable_unref(s->timeout_source);
        (void) sd_event_source_disable_unref(s->sweep_source);
        (void) sd_event_source_disable_unref(s->drain_source);
        http_no_memory_done(s);
        (void) http_sessions_free(s->sessions);
        listener_done(l);
        free(s);
        return NULL;
}

static void http_rearm(Listener *l) {
        for (HttpConnection *c = ((HttpServer*) l)->connections; c; c = c->next)
                http_connection_rearm(c);
}

static size_t http_n_sessions(const Listener *l) {
        return http_sessions_n(((const HttpServer*) l)->sessions);
}

static const ListenerOps http_listener_ops = {
        .connected = http_connected,
        .make_room = http_limits_make_room,
        .drain = http_drain,
        .reloaded = http_reloaded,
        .rearm = http_rearm,
        .n_sessions = http_n_sessions,
        .free = http_free,
};

static int http_start(HttpServer *s) {
        const union MHD_DaemonInfo *info;
        sd_event *event = s->listener.p.event;
        int r;

        r = http_no_memory_prepare(s);
        if (r < 0)
                return r;
        s->daemon = MHD_start_daemon(
                MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
                NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
                MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX + SPARE_CONNECTIONS,
                MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SEC, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                (size_t) CONNECTION_MEMORY_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
                MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                MHD_OPTION_END);
        if (!s->daemon)
                return -ENOMEM;
        info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        if (!info)
                return -EOPNOTSUPP;

        r = sd_event_add_io(event, &s->epoll_source, info->epoll_fd, EPOLLIN, on_epoll, s);
        if (r < 0)
                return r;
        r = sd_event_add_time(event, &s->timeout_source, CLOCK_MONOTONIC, 0, 1, on_timeout, s);
        return r < 0 ? r : http_limits_start(s);
}

static uint64_t body_bytes_max(const Settings *settings) {
        uint64_t n;

        /* Six bytes for each at worst: \u0000. Besides, there is room for what stands around them. */
        if (__builtin_add_overflow(settings->max_code_bytes, settings->max_stdin_bytes, &n) ||
            __builtin_mul_overflow(n, 6, &n) || n > HTTP_BODY_BYTES_MAX - 64 * KIB)
                return HTTP_BODY_BYTES_MAX;
        return n + 64 * KIB;
}

int http_listener_new(const ListenerParameters *p, Listener **ret) {
        HttpServer *s;
        int r;

        assert(p);
        assert(p->sessions);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        r = listener_init(&s->listener, &http_listener_ops, p);
        if (r >= 0) {
                s->body_bytes_max = body_bytes_max(p->settings);
                r = http_sessions_new(p->server, p->sessions, &s->sessions);
        }
        if (r >= 0)
                r = http_start(s);
        if (r < 0) {
                s->listener.p.fd = -EBADF; /* still the caller's */
                http_free(&s->listener);
                return r;
        }
        *ret = &s->listener;
        return 0;
}
