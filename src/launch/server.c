/* SPDX-License-Identifier: MIT */

/* Server: the launcher's side of the seam. */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "launch/connection.h"
#include "launch/selftest.h"
#include "launch/server.h"

/* A refusal holds this long: long enough not to test again at every call, short enough that a repaired
 * machine serves without anybody's restart. The next connection starts a new launcher. */
#define REFUSAL_USEC (3 * USEC_PER_SEC)
#define SHUTDOWN_USEC (3 * USEC_PER_SEC)
#define STATUS_USEC (1 * USEC_PER_SEC)
/* Without a free descriptor accept(2) fails at once, and the socket stays readable: not to spin then. */
#define ACCEPTS_PER_SEC_MAX 64U

struct Server {
        sd_event *event;
        Sandbox *sandbox;
        SelfTest *selftest;
        ConnectionHandlers handlers;
        Connection *connections;
        size_t n_connections;
        int listener;
        uid_t peer_uid;
        bool has_verdict, is_shutting_down;
        sd_event_source *accept, *idle, *status, *end;
};

static size_t n_jobs(const Server *s) {
        return s->sandbox->manager ? s->sandbox->manager->n_jobs : 0;
}

static int on_idle(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Server *s = userdata;

        /* Whoever connects from here on waits in the listening socket, which PID 1 holds and watches
         * again. */
        log_debug("Nobody is connected, exiting");
        return sd_event_exit(s->event, EXIT_SUCCESS);
}

static int on_refusal_expired(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Server *s = userdata;

        log_info("Exiting, so that the next connection looks at this machine again");
        return sd_event_exit(s->event, EXIT_SUCCESS);
}

static int on_shutdown_expired(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Server *s = userdata;

        log_warning("%zu runs are still ending, exiting all the same", n_jobs(s));
        return sd_event_exit(s->event, EXIT_SUCCESS);
}

static int on_status(sd_event_source *source _unused_, uint64_t usec _unused_, void *userdata) {
        Server *s = userdata;
        const Sandbox *b = s->sandbox;

        s->status = sd_event_source_disable_unref(s->status);
        if (!s->has_verdict)
                (void) sd_notify(0, "STATUS=Testing the sandbox");
        else if (b->has_problem)
                (void) sd_notifyf(0, "STATUS=Refusing runs: %s", b->problem.reason);
        else
                (void) sd_notifyf(0, "STATUS=%zu sandbox%s in use or ready, self-test passed, systemd %s",
                                  n_jobs(s), n_jobs(s) == 1 ? "" : "es", b->manager->version_text);
        return 0;
}

/* Something changed: look at what follows from it. The status is told a moment later, once for many
 * changes. */
static void server_update(Server *s) {
        bool is_idle = s->n_connections == 0 && n_jobs(s) == 0;
        uint64_t idle_usec = s->sandbox->settings ? s->sandbox->settings->exit_idle_usec : USEC_PER_SEC;

        if (s->is_shutting_down) {
                if (is_idle)
                        (void) sd_event_exit(s->event, EXIT_SUCCESS);
                return;
        }

        if (!s->status)
                (void) sd_event_add_time_relative(s->event, &s->status, CLOCK_MONOTONIC, STATUS_USEC, 0,
                                                  on_status, s);

        if (!is_idle || s->listener < 0 || !s->has_verdict || idle_usec == 0)
                s->idle = sd_event_source_disable_unref(s->idle);
        else if (!s->idle)
                (void) sd_event_add_time_relative(s->event, &s->idle, CLOCK_MONOTONIC, idle_usec, 0, on_idle,
                                                  s);
}

static void on_jobs_changed(void *userdata) {
        server_update(userdata);
}

static void on_manager_lost(void *userdata) {
        Server *s = userdata;

        /* BindsTo= ends the runs, the daemon sees its connection end, the socket starts a new launcher. */
        (void) sd_event_exit(s->event, EXIT_FAILURE);
}

static bool may_start(void *userdata) {
        const Server *s = userdata;

        return n_jobs(s) < SERVER_JOBS_MAX && !s->is_shutting_down;
}

static void on_connection_closed(Connection *c, void *userdata) {
        Server *s = userdata;

        for (Connection **p = &s->connections; *p; p = &(*p)->next)
                if (*p == c) {
                        *p = c->next;
                        break;
                }
        s->n_connections--;
        connection_free(c);

        if (s->listener < 0)
                server_shutdown(s); /* a user's launcher lives as long as its client */
        else
                server_update(s);
}

static int server_add_connection(Server *s, int fd, Connection **ret) {
        Connection *c;
        int r;

        r = connection_new(s->event, fd, s->sandbox, &s->handlers, &c);
        if (r < 0)
                return r;
        c->next = s->connections;
        s->connections = c;
        s->n_connections++;
        *ret = c;
        return 0;
}

static int on_acceptable(sd_event_source *source _unused_, int fd, uint32_t events _unused_,
                         void *userdata) {
        _cleanup_close_ int connection = -EBADF;
        Server *s = userdata;
        struct ucred peer;
        socklen_t n = sizeof(peer);
        Connection *c;

        connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0)
                return 0; /* gone again, or no descriptors: those waiting are still there next time */

        /* The socket's mode says the same. Repeated on purpose: who may connect may run code on this
         * machine. */
        if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return 0;
        if (peer.uid != s->peer_uid && peer.uid != 0) {
                log_warning("Process %d of uid %u tried to connect and was turned away", (int) peer.pid,
                            (unsigned) peer.uid);
                return 0;
        }
        if (s->n_connections >= SERVER_CONNECTIONS_MAX) {
                log_warning("Process %d was turned away: %d connections are open", (int) peer.pid,
                            SERVER_CONNECTIONS_MAX);
                return 0;
        }

        if (server_add_connection(s, connection, &c) < 0)
                return 0;
        TAKE_FD(connection);
        if (s->has_verdict)
                connection_greet(c);
        server_update(s);
        return 0;
}

static void on_verdict(void *userdata) {
        Server *s = userdata;

        s->has_verdict = true;
        if (s->sandbox->has_problem)
                (void) sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC, REFUSAL_USEC, 0,
                                                  on_refusal_expired, s);
        for (Connection *c = s->connections; c; c = c->next)
                connection_greet(c);
        server_update(s);
}

int server_new(sd_event *event, Sandbox *sandbox, Server **ret) {
        Server *s;

        assert(event && sandbox && ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->event = sd_event_ref(event);
        s->sandbox = sandbox;
        s->listener = -EBADF;
        s->handlers = (ConnectionHandlers) {
                .may_start = may_start,
                .on_closed = on_connection_closed,
                .userdata = s,
        };
        if (sandbox->manager) {
                sandbox->manager->on_lost = on_manager_lost;
                sandbox->manager->on_changed = on_jobs_changed;
                sandbox->manager->userdata = s;
        }
        *ret = s;
        return 0;
}

int server_take_listener(Server *s, int fd, uid_t peer_uid) {
        int r;

        assert(s && s->listener < 0);

        r = fd_set_nonblock(fd, true);
        if (r < 0)
                return r;
        r = sd_event_add_io(s->event, &s->accept, fd, EPOLLIN, on_acceptable, s);
        if (r >= 0)
                r = sd_event_source_set_ratelimit(s->accept, USEC_PER_SEC, ACCEPTS_PER_SEC_MAX);
        if (r < 0)
                return r;
        s->listener = fd;
        s->peer_uid = peer_uid;
        return 0;
}

int server_take_connection(Server *s, int fd) {
        Connection *c;

        assert(s && s->n_connections == 0);

        return server_add_connection(s, fd, &c);
}

int server_start(Server *s) {
        assert(s);

        server_update(s);
        return selftest_start(s->event, s->sandbox, on_verdict, s, &s->selftest);
}

void server_shutdown(Server *s) {
        assert(s);

        if (s->is_shutting_down)
                return;
        s->is_shutting_down = true;
        s->accept = sd_event_source_disable_unref(s->accept);
        s->selftest = selftest_free(s->selftest);
        while (s->connections) {
                Connection *c = s->connections;

                s->connections = c->next;
                s->n_connections--;
                connection_free(c);
        }
        if (sd_event_add_time_relative(s->event, &s->end, CLOCK_MONOTONIC, SHUTDOWN_USEC, 0,
                                       on_shutdown_expired, s) < 0)
                (void) sd_event_exit(s->event, EXIT_FAILURE);
        server_update(s);
}

Server* server_free(Server *s) {
        if (!s)
                return NULL;

        s->selftest = selftest_free(s->selftest);
        while (s->connections) {
                Connection *c = s->connections;

                s->connections = c->next;
                connection_free(c);
        }
        if (s->sandbox->manager)
                s->sandbox->manager->on_lost = s->sandbox->manager->on_changed = NULL;
        sd_event_source_disable_unref(s->accept);
        sd_event_source_disable_unref(s->idle);
        sd_event_source_disable_unref(s->status);
        sd_event_source_disable_unref(s->end);
        safe_close(s->listener);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}
