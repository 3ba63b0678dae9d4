/* SPDX-License-Identifier: MIT */

#include "exec/launcher-client.h"

#include <inttypes.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "exec/timer.h"

/* Packets handled in one turn of the event loop. */
#define PACKETS_PER_TURN 32

/* A packet that did not fit into the socket. Their number is bounded by the jobs: at most a START and a STOP
 * each. */
typedef struct PendingPacket PendingPacket;
struct PendingPacket {
        WireMessage message;
        int fds[_WIRE_FD_MAX];
        size_t n_fds;
        LIST_LINK(PendingPacket) packets;
};

struct LauncherClient {
        LauncherClientParameters parameters;
        LauncherState state;
        bool is_looking;
        int fd;
        uint64_t last_job_id;
        sd_event_source *io_source, *hello_source, *break_source;
        char *break_why;
        LIST_HEAD(LauncherJob) jobs;
        LIST_HEAD(PendingPacket) packets;
};

static PendingPacket* pending_packet_free(PendingPacket *p) {
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_fds; i++)
                safe_close(p->fds[i]);
        free(p);
        return NULL;
}

static void client_unregister(LauncherClient *c, LauncherJob *j) {
        LIST_REMOVE(&c->jobs, jobs, j);
        j->id = 0;
}

/* Whoever asks need not be who started it. */
#define LAUNCHER_LOG \
        "its journal (journalctl -u mcp-exec-launcher; under a user's own service manager: standard error)."

/* Back to DISCONNECTED, without a word to anyone. */
static void client_close(LauncherClient *c) {
        c->state = LAUNCHER_DISCONNECTED;
        c->is_looking = false;
        c->io_source = sd_event_source_unref(c->io_source);
        c->hello_source = sd_event_source_unref(c->hello_source);
        c->break_source = sd_event_source_unref(c->break_source);
        c->fd = safe_close(c->fd);

        while (c->packets.first) {
                PendingPacket *p = c->packets.first;

                LIST_REMOVE(&c->packets, packets, p);
                pending_packet_free(p);
        }
}

static void client_lose(LauncherClient *c, const char *why) {
        bool was_ready = c->state == LAUNCHER_READY;

        client_close(c);
        /* Handlers may start nothing on a client that is DISCONNECTED, so this list only gets shorter. */
        while (c->jobs.first) {
                LauncherJob *j = c->jobs.first;

                client_unregister(c, j);
                j->on_lost(j);
        }
        c->parameters.on_lost(was_ready, why, c->parameters.userdata);
}

static int client_on_hello_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        client_lose(userdata, "The launcher accepted the connection but did not answer; see " LAUNCHER_LOG);
        return 0;
}

static int client_on_break(sd_event_source *s, void *userdata) {
        LauncherClient *c = userdata;
        _cleanup_free_ char *why = TAKE_PTR(c->break_why);

        (void) s;
        client_lose(c, why ?: "The connection to the launcher was given up.");
        return 0;
}

void launcher_client_break(LauncherClient *c, const char *why) {
        assert(c);
        assert(why);

        if (c->state == LAUNCHER_DISCONNECTED || c->break_source)
                return;

        (void) str_copy(&c->break_why, why);
        if (sd_event_add_defer(c->parameters.event, &c->break_source, client_on_break, c) < 0)
                client_lose(c, why);
}

static LauncherJob* client_find(LauncherClient *c, uint64_t job_id) {
        for (LauncherJob *j = c->jobs.first; j; j = j->jobs.next)
                if (j->id == job_id)
                        return j;
        return NULL;
}

/* Returns 0, or -EBADMSG for a packet that has no place in this state. */
static int client_dispatch(LauncherClient *c, const WireMessage *m) {
        LauncherJob *j;

        if (m->header.type == WIRE_HELLO) {
                if (c->state != LAUNCHER_GREETING && !c->is_looking)
                        return -EBADMSG;
                timer_disarm(c->hello_source);
                c->is_looking = false;
                c->state = LAUNCHER_READY;
                c->parameters.on_hello(&m->hello, c->parameters.userdata);
                return 0;
        }

        if (c->state != LAUNCHER_READY)
                return -EBADMSG;

        j = client_find(c, m->header.job_id);
        if (!j) {
                log_debug("The launcher speaks of job %" PRIu64 ", which does not exist (any more).",
                          m->header.job_id);
                return 0;
        }
        if ((m->header.type == WIRE_SET_DONE) != j->is_set_change)
                return -EBADMSG;
        if (m->header.type != WIRE_STARTED)
                client_unregister(c, j);
        j->on_message(j, m);
        return 0;
}

static int client_flush(LauncherClient *c) {
        int r;

        while (c->packets.first) {
                PendingPacket *p = c->packets.first;

                r = wire_send(c->fd, &p->message, p->n_fds > 0 ? p->fds : NULL, p->n_fds);
                if (r == -EAGAIN)
                        return sd_event_source_set_io_events(c->io_source, EPOLLIN | EPOLLOUT);
                if (r < 0)
                        return r;
                LIST_REMOVE(&c->packets, packets, p);
                pending_packet_free(p);
        }

        return sd_event_source_set_io_events(c->io_source, EPOLLIN);
}

static void client_read(LauncherClient *c) {
        int r;

        for (unsigned i = 0; i < PACKETS_PER_TURN && c->state != LAUNCHER_DISCONNECTED; i++) {
                WireMessage m;
                int fds[_WIRE_FD_MAX];

                r = wire_receive(c->fd, WIRE_ROLE_DAEMON, &m, fds);
                if (r == -EAGAIN)
                        return;
                if (r == 0) {
                        client_lose(c, c->state == LAUNCHER_READY ?
                                    "The launcher closed the connection; see " LAUNCHER_LOG :
                                    "The launcher closed the connection before it said anything. "
                                    "\"mcp-exec check\" tells what to do; see also " LAUNCHER_LOG);
                        return;
                }
                if (r > 0)
                        r = client_dispatch(c, &m);
                if (r < 0) {
                        log_error_errno(r, "Cannot understand the launcher, closing the connection");
                        client_lose(c, "The launcher sent something that this version does not understand: "
                                       "install daemon and launcher of the same version.");
                        return;
                }
        }
}

static int client_on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        LauncherClient *c = userdata;
        int r;

        (void) s;
        (void) fd;

        if (revents & EPOLLOUT) {
                r = client_flush(c);
                /* A closed peer is found again by reading, after what it said last. */
                if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
                        log_error_errno(r, "Cannot send to the launcher, closing the connection");
                        client_lose(c, "Nothing can be sent to the launcher.");
                        return 0;
                }
                if (r < 0)
                        (void) sd_event_source_set_io_events(c->io_source, EPOLLIN);
        }

        client_read(c);
        return 0;
}

int launcher_client_new(const LauncherClientParameters *p, LauncherClient **ret) {
        LauncherClient *c;

        assert(p && p->event && p->connect && p->on_hello && p->on_lost);
        assert(ret);

        c = calloc(1, sizeof(LauncherClient));
        if (!c)
                return -ENOMEM;

        c->parameters = *p;
        c->fd = -EBADF;
        sd_event_ref(c->parameters.event);
        *ret = c;
        return 0;
}

LauncherClient* launcher_client_free(LauncherClient *c) {
        if (!c)
                return NULL;

        client_close(c);
        assert(!c->jobs.first);
        free(c->break_why);
        sd_event_unref(c->parameters.event);
        free(c);
        return NULL;
}

int launcher_client_connect(LauncherClient *c, char **reterr_message) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        assert(c);
        assert(reterr_message);

        if (c->state != LAUNCHER_DISCONNECTED)
                return 0;

        fd = c->parameters.connect(c->parameters.connect_userdata, reterr_message);
        if (fd < 0)
                return fd;

        r = fd_set_nonblock(fd, true);
        if (r < 0)
                return r;

        r = sd_event_add_io(c->parameters.event, &c->io_source, fd, EPOLLIN, client_on_io, c);
        if (r < 0)
                return r;
        /* As for the timers: the end of a run does not wait behind the clients' messages. */
        (void) sd_event_source_set_priority(c->io_source, SD_EVENT_PRIORITY_IMPORTANT);

        r = timer_arm(c->parameters.event, &c->hello_source, c->parameters.hello_timeout_usec,
                      client_on_hello_timeout, c);
        if (r < 0) {
                c->io_source = sd_event_source_unref(c->io_source);
                return r;
        }

        c->fd = TAKE_FD(fd);
        c->state = LAUNCHER_GREETING;
        return 0;
}

LauncherState launcher_client_state(const LauncherClient *c) {
        assert(c);
        return c->state;
}

/* Sends now, or keeps the packet for when the socket has room. Takes the fds on success only. */
static int client_send(LauncherClient *c, const WireMessage *m, const int *take_fds, size_t n_fds) {
        PendingPacket *p;
        int r;

        if (!c->packets.first) {
                r = wire_send(c->fd, m, take_fds, n_fds);
                if (r >= 0)
                        for (size_t i = 0; i < n_fds; i++)
                                safe_close(take_fds[i]);
                if (r != -EAGAIN)
                        return r;
        }

        p = calloc(1, sizeof(PendingPacket));
        if (!p)
                return -ENOMEM;

        r = sd_event_source_set_io_events(c->io_source, EPOLLIN | EPOLLOUT);
        if (r < 0) {
                free(p);
                return r;
        }

        p->message = *m;
        p->n_fds = n_fds;
        for (size_t i = 0; i < n_fds; i++)
                p->fds[i] = take_fds[i];
        LIST_APPEND(&c->packets, packets, p);
        return 0;
}

int launcher_client_start(LauncherClient *c, LauncherJob *j, const LauncherOrder *order,
                          const int take_fds[static _WIRE_FD_MAX]) {
        WireMessage m = {};
        int r;

        assert(c);
        assert(c->state == LAUNCHER_READY);
        assert(j && j->on_message && j->on_lost);
        assert(j->id == 0);
        assert(order);

        wire_header_init(&m, WIRE_START, ++c->last_job_id);
        m.start.profile = (uint32_t) order->profile;
        m.start.interpreter = order->interpreter;
        if (order->environment && *order->environment) {
                assert(strlen(order->environment) == sizeof(m.start.environment));
                memcpy(m.start.environment, order->environment, sizeof(m.start.environment));
        }
        m.start.limits = order->limits;

        r = client_send(c, &m, take_fds, _WIRE_FD_MAX);
        if (r < 0)
                return r;

        j->id = c->last_job_id;
        LIST_APPEND(&c->jobs, jobs, j);
        return 0;
}

int launcher_client_set(LauncherClient *c, LauncherJob *j, WireSetAction action, const char *environment,
                        const char *to) {
        WireMessage m = {};
        int r;

        assert(c);
        assert(c->state == LAUNCHER_READY);
        assert(j && j->on_message && j->on_lost);
        assert(j->id == 0);
        assert(environment && strlen(environment) == sizeof(m.set.environment));
        assert(!to || strlen(to) == sizeof(m.set.to));

        wire_header_init(&m, WIRE_SET, ++c->last_job_id);
        m.set.action = (uint32_t) action;
        memcpy(m.set.environment, environment, sizeof(m.set.environment));
        if (to)
                memcpy(m.set.to, to, sizeof(m.set.to));

        r = client_send(c, &m, NULL, 0);
        if (r < 0)
                return r;

        j->id = c->last_job_id;
        LIST_APPEND(&c->jobs, jobs, j);
        return 0;
}

/* A peer that is gone has stopped everything already and is found by reading. Anything else would leave a
 * program running that must not: end the connection, at which the launcher kills all jobs of it. */
static void client_tell(LauncherClient *c, WireMessage *m, const char *what) {
        int r;

        r = client_send(c, m, NULL, 0);
        if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
                log_error_errno(r, "Cannot tell the launcher to %s", what);
                launcher_client_break(c, "Nothing can be sent to the launcher.");
        }
}

void launcher_client_stop(LauncherClient *c, const LauncherJob *j) {
        WireMessage m = {};

        assert(c);
        assert(j);

        if (j->id == 0)
                return;

        wire_header_init(&m, WIRE_STOP, j->id);
        client_tell(c, &m, "stop a run");
}

void launcher_client_assign(LauncherClient *c, const LauncherJob *j, const WireLimits *limits) {
        WireMessage m = {};

        assert(c);
        assert(j && j->id != 0);
        assert(limits);

        wire_header_init(&m, WIRE_ASSIGN, j->id);
        m.assign.limits = *limits;
        client_tell(c, &m, "limit a run");
}

void launcher_client_look(LauncherClient *c) {
        WireMessage m = {};

        assert(c);
        assert(c->state == LAUNCHER_READY);

        if (c->is_looking || timer_arm(c->parameters.event, &c->hello_source,
                                       c->parameters.hello_timeout_usec, client_on_hello_timeout, c) < 0)
                return;
        c->is_looking = true;
        wire_header_init(&m, WIRE_LOOK, 0);
        client_tell(c, &m, "look again");
}

bool launcher_client_is_looking(const LauncherClient *c) {
        assert(c);
        return c->is_looking;
}

void launcher_client_forget(LauncherClient *c, LauncherJob *j) {
        assert(c);
        assert(j);

        if (j->id != 0)
                client_unregister(c, j);
}
