/* SPDX-License-Identifier: MIT */

/* Connection: one daemon on the seam, and its runs. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "launch/connection.h"
#include "launch/job.h"
#include "wire/wire.h"

/* One turn of the event loop reads no more than this, so that signals of running units are heard in
 * between. */
#define PACKETS_PER_TURN_MAX 16

struct Run {
        Connection *connection;
        uint64_t id;
        Job *job;
        bool is_assigned, is_stopped;
        Run *next, *previous;
};

static void run_free(Run *run) {
        Connection *c = run->connection;

        if (run->next)
                run->next->previous = run->previous;
        if (run->previous)
                run->previous->next = run->next;
        else
                c->runs = run->next;
        c->n_runs--;
        free(run);
}

static Run* find_run(Connection *c, uint64_t id) {
        for (Run *run = c->runs; run; run = run->next)
                if (run->id == id)
                        return run;
        return NULL;
}

/* Closing is put off to the event loop: callers up the stack still hold the connection. */
static void connection_close_soon(Connection *c) {
        c->is_closing = true;
        (void) shutdown(c->fd, SHUT_RDWR); /* wakes our own source up with the end of the connection */
}

static void connection_send(Connection *c, const WireMessage *m) {
        int r;

        if (c->is_closing)
                return;
        r = wire_send(c->fd, m, NULL, 0);
        if (r < 0) {
                /* -EAGAIN: a daemon that does not read its results is no good to anybody. One that has gone
                 * is nothing to speak of, least of all on a user's terminal. */
                (void) log_full(r == -EPIPE || r == -ECONNRESET ? LOG_DEBUG : LOG_WARNING, r,
                                "Closing the connection of process %d: it does not take a message",
                                (int) c->pid);
                connection_close_soon(c);
        }
}

static void send_refused(Connection *c, uint64_t id, const Problem *problem) {
        WireMessage m = {};

        wire_header_init(&m, WIRE_REFUSED, id);
        wire_set_text(m.refused.reason, sizeof(m.refused.reason), problem->reason);
        wire_set_text(m.refused.remedy, sizeof(m.refused.remedy), problem->remedy);
        connection_send(c, &m);
}

static void on_started(Job *j, void *userdata) {
        Run *run = userdata;
        WireMessage m = {};

        wire_header_init(&m, WIRE_STARTED, run->id);
        job_fill_started(j, &m.started);
        connection_send(run->connection, &m);
}

static void on_finished(Job *j _unused_, const WireFinished *finished, void *userdata) {
        Run *run = userdata;
        Connection *c = run->connection;
        WireMessage m = { .finished = *finished };

        wire_header_init(&m, WIRE_FINISHED, run->id);
        run_free(run);
        connection_send(c, &m);
}

static void on_refused(Job *j _unused_, const Problem *problem, const char *unknown_property _unused_,
                       void *userdata) {
        Run *run = userdata;
        Connection *c = run->connection;
        uint64_t id = run->id;

        run_free(run);
        send_refused(c, id, problem);
}

static const JobHandlers run_handlers = {
        .on_started = on_started,
        .on_finished = on_finished,
        .on_refused = on_refused,
};

/* Why a well-formed START is not obeyed. */
static int check_start(const Connection *c, const WireStart *start, Problem *p) {
        Sandbox *s = c->sandbox;

        if (s->has_problem) {
                *p = s->problem;
                return -EOPNOTSUPP;
        }
        if (c->n_runs >= WIRE_JOBS_PER_CONNECTION_MAX || !c->handlers->may_start(c->handlers->userdata))
                return problem_set(p, EBUSY,
                                   "Try again when others have ended, or lower MaxParallel= and PoolSize=",
                                   "The launcher runs as many sandboxes as it may");
        if (!sandbox_interpreter(s, start->interpreter))
                return problem_set(p, ENOENT, "Use interpreter 0, the one of Python=",
                                   "No interpreter %u is configured", start->interpreter);
        /* The daemon counts as well. Their memory is a multiple of a run's. */
        if (profile_has_leaf(start->profile) &&
            job_count(s->manager, WIRE_PROFILE_FETCH) + job_count(s->manager, WIRE_PROFILE_INSTALL) >=
                    2 * (size_t) s->settings->packages.prepare_parallel + 2)
                return problem_set(p, EBUSY, "Try again later",
                                   "Too many sets of packages are being prepared");
        if (start->profile == WIRE_PROFILE_FETCH)
                sandbox_look_again(s);
        if (start->profile == WIRE_PROFILE_FETCH && s->packages.has_problem) {
                *p = s->packages.problem;
                return -ENOENT;
        }
        return 0;
}

/* The set or leaf of a START: may it be had? Returns 0, or -errno with the problem. */
static int take_set(const Connection *c, const WireStart *start, SetName *ret_name, int *ret_lock,
                    Problem *p) {
        *ret_name = set_name_from_field(start->environment, profile_has_leaf(start->profile));
        if (ret_name->digits[0] == 0)
                return 0;
        if (!c->sandbox->sets)
                return problem_set(p, EOPNOTSUPP, REMEDY_JOURNAL, "There are no sets of packages here");
        return sets_use(c->sandbox->sets, ret_name, ret_lock, p);
}

static int begin_run(Connection *c, const WireStart *start, const int fds[static _WIRE_FD_MAX],
                     const SetName *set, int *lock) {
        _cleanup_(unit_spec_freep) UnitSpec *spec = NULL;
        UnitChoice choice = {
                .profile = start->profile,
                .interpreter = start->interpreter,
                .set = set->digits[0] ? set : NULL,
                .limits = start->limits,
        };
        Run *run;
        int r;

        limits_clamp(&choice.limits, &c->sandbox->ceilings[start->profile]);
        r = sandbox_unit_spec(c->sandbox, &choice, &spec);
        if (r < 0)
                return r;

        run = calloc(1, sizeof(*run));
        if (!run)
                return -ENOMEM;
        run->connection = c;
        run->id = start->header.job_id;
        r = job_start(c->sandbox->manager, spec, fds, &run_handlers, run, &run->job);
        if (r < 0) {
                free(run);
                return r;
        }
        job_hold(run->job, TAKE_FD(*lock));

        run->next = c->runs;
        if (c->runs)
                c->runs->previous = run;
        c->runs = run;
        c->n_runs++;
        return 0;
}

static int on_start(Connection *c, const WireStart *start, const int fds[static _WIRE_FD_MAX]) {
        _cleanup_close_ int lock = -EBADF;
        Problem problem = {};
        SetName set;
        int r;

        if (find_run(c, start->header.job_id) || wire_check_start_fds(fds) < 0)
                return -EBADMSG;

        r = check_start(c, start, &problem);
        if (r >= 0)
                r = take_set(c, start, &set, &lock, &problem);
        if (r >= 0) {
                r = begin_run(c, start, fds, &set, &lock);
                if (r < 0) {
                        (void) log_error_errno(r, "A unit cannot be asked for");
                        (void) problem_set(&problem, -r, REMEDY_JOURNAL,
                                           "The launcher could not ask for the sandbox");
                }
        }
        if (r < 0)
                send_refused(c, start->header.job_id, &problem);
        return 0;
}

static int on_assign(Connection *c, const WireAssign *assign) {
        Run *run = find_run(c, assign->header.job_id);
        WireLimits limits = assign->limits;
        int r;

        if (!run)
                return 0; /* its FINISHED is on the way */
        /* The attack: each is a call to the service manager, and as many as fit through wait in our memory,
         * before the one that would kill the unit. */
        if (run->is_assigned)
                return -EBADMSG;
        run->is_assigned = true;

        limits_clamp(&limits, &c->sandbox->ceilings[job_profile(run->job)]);
        r = job_assign(run->job, &limits);
        if (r < 0) {
                (void) log_error_errno(r, "%s cannot be limited, killing it", job_unit(run->job));
                job_stop(run->job);
        }
        return 0;
}

static void on_stop(Connection *c, const WireStop *stop) {
        Run *run = find_run(c, stop->header.job_id);

        /* Once: that it is obeyed is the job's affair. */
        if (!run || run->is_stopped)
                return;
        run->is_stopped = true;
        job_stop(run->job);
}

static void on_set(Connection *c, const WireSet *set) {
        Problem problem = {};
        WireMessage m = {};
        int r;

        r = c->sandbox->sets ? sets_change(c->sandbox->sets, set, &problem) :
                               problem_set(&problem, EOPNOTSUPP, "", "There are no sets of packages here");
        wire_header_init(&m, WIRE_SET_DONE, set->header.job_id);
        m.set_done.error = (uint32_t) -r;
        wire_set_text(m.set_done.text, sizeof(m.set_done.text), problem.reason);
        connection_send(c, &m);
}

static void fill_packages(const Sandbox *s, WireHello *h) {
        const Packages *p = &s->packages;
        const Problem *problem = p->has_problem ? &p->problem : NULL;
        char text[sizeof(h->sets_reason)];

        for (unsigned i = 0; i < WIRE_INTERPRETERS_MAX; i++)
                if (sandbox_interpreter(s, i)) {
                        wire_set_text(h->interpreters[i], sizeof(h->interpreters[i]),
                                      sandbox_interpreter(s, i));
                        h->n_interpreters = i + 1;
                }
        if (!s->sets)
                return;
        if (!s->sets->has_problem)
                wire_set_text(h->sets_directory, sizeof(h->sets_directory), s->sets->directory);
        else
                problem = &s->sets->problem;
        if (problem) {
                (void) snprintf(text, sizeof(text), "%.250s. %.250s.", problem->reason, problem->remedy);
                wire_set_text(h->sets_reason, sizeof(h->sets_reason), text);
        }
        if (p->uv) {
                wire_set_text(h->uv, sizeof(h->uv), p->uv_inside);
                wire_set_text(h->uv_on_host, sizeof(h->uv_on_host), p->uv);
        }
}

static void send_hello(Connection *c) {
        Sandbox *s = c->sandbox;
        WireMessage m = {};
        WireHello *h = &m.hello;

        sandbox_look_again(s);
        wire_header_init(&m, WIRE_HELLO, 0);
        h->verdict = s->has_problem ? WIRE_VERDICT_REFUSED : WIRE_VERDICT_OK;
        h->is_user = s->is_user;
        h->controllers = (uint8_t) s->controllers;
        h->memory_max_bytes = s->ceilings[WIRE_PROFILE_RUN].memory_max_bytes;
        h->tasks_max = s->ceilings[WIRE_PROFILE_RUN].tasks_max;
        h->cpu_quota_per_sec_usec = s->ceilings[WIRE_PROFILE_RUN].cpu_quota_per_sec_usec;
        h->runtime_max_usec = s->ceilings[WIRE_PROFILE_RUN].runtime_max_usec;
        if (s->settings) {
                h->tmpfs_bytes = s->settings->tmpfs_bytes;
                h->is_relaxed = s->settings->require_controllers != CONTROLLERS_ALL;
        }
        if (s->manager) {
                h->manager_version = s->manager->version;
                h->has_memory_peak = s->manager->version >= MANAGER_VERSION_MEMORY_PEAK;
                wire_set_text(h->manager_version_text, sizeof(h->manager_version_text),
                              s->manager->version_text);
        }
        fill_packages(s, h);
        if (s->has_problem) {
                wire_set_text(h->reason, sizeof(h->reason), s->problem.reason);
                wire_set_text(h->remedy, sizeof(h->remedy), s->problem.remedy);
        }
        connection_send(c, &m);
}

static int on_message(Connection *c, const WireMessage *m, const int fds[static _WIRE_FD_MAX]) {
        switch (m->header.type) {
        case WIRE_START:
                return on_start(c, &m->start, fds);
        case WIRE_ASSIGN:
                return on_assign(c, &m->assign);
        case WIRE_STOP:
                on_stop(c, &m->stop);
                return 0;
        case WIRE_SET:
                on_set(c, &m->set);
                return 0;
        case WIRE_LOOK:
                send_hello(c);
                return 0;
        default:
                return -EBADMSG;
        }
}

static int receive_one(Connection *c) {
        int fds[_WIRE_FD_MAX] = { -EBADF, -EBADF, -EBADF };
        WireMessage m;
        int r;

        r = wire_receive(c->fd, WIRE_ROLE_LAUNCHER, &m, fds);
        if (r > 0)
                r = on_message(c, &m, fds) < 0 ? -EBADMSG : 1;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                safe_close(fds[i]);
        return r;
}

static int on_readable(sd_event_source *s _unused_, int fd _unused_, uint32_t events _unused_,
                       void *userdata) {
        Connection *c = userdata;
        int r = 1;

        for (unsigned i = 0; i < PACKETS_PER_TURN_MAX && r > 0 && !c->is_closing; i++)
                r = receive_one(c);
        if (r == -EAGAIN || (r > 0 && !c->is_closing))
                return 0;

        if (r == -EBADMSG)
                log_error("Closing the connection of process %d (uid %u): no daemon of ours sends that",
                          (int) c->pid, (unsigned) c->uid);
        c->handlers->on_closed(c, c->handlers->userdata);
        return 0;
}

void connection_greet(Connection *c) {
        assert(c && !c->is_greeted);

        c->is_greeted = true;
        (void) sd_event_source_set_enabled(c->source, SD_EVENT_ON);
        send_hello(c);
}

int connection_new(sd_event *event, int fd, Sandbox *sandbox, const ConnectionHandlers *handlers,
                   Connection **ret) {
        _cleanup_(connection_freep) Connection *c = NULL;
        struct ucred credentials;
        socklen_t n = sizeof(credentials);
        int r;

        assert(event && sandbox && handlers && ret);

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->fd = -EBADF;
        c->sandbox = sandbox;
        c->handlers = handlers;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) < 0)
                return -errno;
        c->uid = credentials.uid;
        c->pid = credentials.pid;
        r = sd_event_add_io(event, &c->source, fd, EPOLLIN, on_readable, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        c->fd = fd;
        *ret = TAKE_PTR(c);
        return 0;
}

Connection* connection_free(Connection *c) {
        if (!c)
                return NULL;

        while (c->runs) {
                job_abandon(c->runs->job);
                run_free(c->runs);
        }
        sd_event_source_disable_unref(c->source);
        safe_close(c->fd);
        free(c);
        return NULL;
}
