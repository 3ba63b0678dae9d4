/* SPDX-License-Identifier: MIT */

/* Accepting connections. Out of descriptors or memory, accept(2) fails at once and the socket stays
 * readable: the loop would spin. So accepting pauses; the clients wait in the backlog meanwhile and lose
 * nothing. */

#include "transport/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/timeutil.h"

/* A burst of connects must not keep the loop from those who are connected already. */
#define ACCEPTS_PER_TURN_MAX 16
#define ACCEPT_PAUSE_USEC (100 * USEC_PER_MSEC)
#define COMPLAINT_INTERVAL_USEC (60 * USEC_PER_SEC)

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        Listener *l = userdata;

        (void) source;
        (void) usec;
        if (!l->is_draining)
                (void) sd_event_source_set_enabled(l->accept_source, SD_EVENT_ON);
        return 0;
}

static void listener_pause(Listener *l, int error) {
        uint64_t now = now_monotonic_usec();
        int r;

        if (now >= l->next_complaint_usec) {
                l->next_complaint_usec = now + COMPLAINT_INTERVAL_USEC;
                (void) log_warning_errno(error,
                                         "Cannot accept connections, trying again ten times a second%s",
                                         abs(error) != EMFILE ? "" :
                                         " (raise LimitNOFILE= of the service, or lower MaxConnections=)");
        }
        if (l->retry_source) {
                r = sd_event_source_set_time_relative(l->retry_source, ACCEPT_PAUSE_USEC);
                if (r >= 0)
                        r = sd_event_source_set_enabled(l->retry_source, SD_EVENT_ONESHOT);
        } else
                r = sd_event_add_time_relative(l->p.event, &l->retry_source, CLOCK_MONOTONIC,
                                               ACCEPT_PAUSE_USEC, 0, on_retry, l);
        if (r < 0)
                return; /* rather spin than never accept again */
        (void) sd_event_source_set_enabled(l->accept_source, SD_EVENT_OFF);
}

/* Returns true when there may be more to accept. */
static bool listener_accept(Listener *l) {
        _cleanup_close_ int fd = -EBADF;
        size_t n = l->n_connections, max = l->p.settings->max_connections;
        int r;

        fd = accept4(l->p.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
                if (errno == EAGAIN)
                        return false;
                /* These belong to the one connection that failed (accept(2), "Error handling"). */
                if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
                    errno == ENOPROTOOPT || errno == EHOSTDOWN || errno == ENONET || errno == EHOSTUNREACH ||
                    errno == EOPNOTSUPP || errno == ENETUNREACH || errno == EPERM)
                        return true;
                listener_pause(l, errno);
                return false;
        }
        if (n >= max && l->ops->make_room)
                n = l->ops->make_room(l);
        if (n >= max + LISTENER_EXTRA_CONNECTIONS_MAX)
                return true;

        r = l->ops->connected(l, fd, n >= max);
        if (r >= 0)
                TAKE_FD(fd);
        else if (r == -EMFILE || r == -ENFILE) {
                listener_pause(l, r);
                return false;
        } else
                (void) log_debug_errno(r, "Dropped a connection");
        return true;
}

static int on_acceptable(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source;
        (void) fd;
        (void) revents;

        for (unsigned i = 0; i < ACCEPTS_PER_TURN_MAX; i++)
                if (!listener_accept(userdata))
                        break;
        return 0;
}

int listener_init(Listener *l, const ListenerOps *ops, const ListenerParameters *p) {
        int r;

        assert(l);
        assert(ops);
        assert(p);
        assert(p->event && p->server && p->settings && p->fd >= 0);

        l->ops = ops;
        l->p = *p;
        l->p.fd = -EBADF;
        l->budget.max_bytes = LISTENER_MEMORY_BYTES_MAX;
        r = fd_set_nonblock(p->fd, true);
        if (r < 0)
                return r;
        r = sd_event_add_io(p->event, &l->accept_source, p->fd, EPOLLIN, on_acceptable, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->accept_source, "accept");
        l->p.fd = p->fd;
        return 0;
}

void listener_done(Listener *l) {
        assert(l);
        assert(l->n_connections == 0);
        assert(l->budget.used_bytes == 0);

        l->retry_source = sd_event_source_disable_unref(l->retry_source);
        l->accept_source = sd_event_source_disable_unref(l->accept_source);
        l->p.fd = safe_close(l->p.fd);
}

void listener_no_memory(Listener *l) {
        uint64_t now = now_monotonic_usec();

        assert(l);

        if (now < l->next_memory_complaint_usec)
                return;
        l->next_memory_complaint_usec = now + COMPLAINT_INTERVAL_USEC;
        log_warning("Out of memory: refused a request, and perhaps more of them in the next minute");
}

void listener_connection_opened(Listener *l) {
        assert(l);

        if (l->n_connections++ == 0 && l->p.on_idle_changed)
                l->p.on_idle_changed(l, /* is_idle= */ false, l->p.userdata);
}

void listener_connection_closed(Listener *l) {
        assert(l);
        assert(l->n_connections > 0);

        if (--l->n_connections == 0 && l->p.on_idle_changed)
                l->p.on_idle_changed(l, /* is_idle= */ true, l->p.userdata);
}

Listener* listener_free(Listener *l) {
        return l ? l->ops->free(l) : NULL;
}

void listener_drain(Listener *l) {
        assert(l);

        if (l->is_draining)
                return;
        l->is_draining = true;
        (void) sd_event_source_set_enabled(l->accept_source, SD_EVENT_OFF);
        l->ops->drain(l);
}

void listener_rearm(Listener *l) {
        assert(l);

        if (l->ops->rearm)
                l->ops->rearm(l);
}

size_t listener_n_connections(const Listener *l) {
        assert(l);

        return l->n_connections;
}

size_t listener_n_sessions(const Listener *l) {
        assert(l);

        return l->ops->n_sessions ? l->ops->n_sessions(l) : 0;
}

void listener_reload(Listener *l, const Settings *settings, const Access *access) {
        ListenerParameters before;

        assert(l);
        assert(settings);

        before = l->p;
        l->p.settings = settings;
        l->p.access = access;
        if (!l->is_draining)
                l->ops->reloaded(l, &before);
}
