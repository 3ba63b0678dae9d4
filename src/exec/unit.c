/* SPDX-License-Identifier: MIT */

#include "exec/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "exec/sentence.h"
#include "exec/timer.h"

/* A larger pipe makes a talkative program wait less often for us. Best effort: a user's pipes are limited in
 * sum. */
#define OUTPUT_PIPE_BYTES (256 * KIB)

static Unit* unit_of_job(LauncherJob *j) {
        return (Unit*) ((char*) j - offsetof(Unit, job));
}

static void unit_close_control(Unit *u) {
        u->control_source = sd_event_source_unref(u->control_source);
        u->control_fd = safe_close(u->control_fd);
}

static void unit_fail(Unit *u, UnitFault fault) {
        if (u->fault != UNIT_FAULT_NONE || u->fate != UNIT_FATE_NONE)
                return;

        u->fault = fault;
        timer_disarm(u->ready_source);
        unit_close_control(u);
        u->handlers->on_fault(u, u->userdata);
}

static void unit_set_dead(Unit *u) {
        if (u->state == UNIT_DEAD)
                return;

        u->state = UNIT_DEAD;
        unit_close_control(u);
        unit_close_output(u);
        timer_disarm(u->ready_source);
        timer_disarm(u->dead_source);
        u->handlers->on_dead(u, u->userdata);
}

static void unit_read_control(Unit *u) {
        int r;

        r = control_receive_word(u->control_fd, &u->word);
        if (r == CONTROL_E_INCOMPLETE)
                return;
        if (r == CONTROL_E_END) {
                /* The runner is gone; FINISHED brings its exit status. The timer waits for that. */
                unit_close_control(u);
                return;
        }
        if (r == CONTROL_E_FAILED)
                u->failed_check = control_word_check(&u->word);
        if (r != 0) {
                unit_fail(u, r == CONTROL_E_FAILED ? UNIT_FAULT_CHECK : UNIT_FAULT_PROTOCOL);
                return;
        }

        u->state = UNIT_READY;
        timer_disarm(u->ready_source);
        /* Nothing more is read from here on: hostile code may hold the other end next, and is not heard. */
        (void) sd_event_source_set_enabled(u->control_source, SD_EVENT_OFF);
        u->handlers->on_ready(u, u->userdata);
}

static void unit_continue_sending(Unit *u) {
        int r;

        /* Before the last byte goes out: the program may be over when we run again. */
        u->sent_usec = now_monotonic_usec();
        r = code_frame_send(&u->frame, u->control_fd);
        if (r == 0) {
                r = sd_event_source_set_io_events(u->control_source, EPOLLOUT);
                if (r >= 0)
                        r = sd_event_source_set_enabled(u->control_source, SD_EVENT_ON);
                if (r >= 0)
                        return;
        }
        if (r < 0) {
                unit_fail(u, UNIT_FAULT_CODE);
                return;
        }

        u->state = UNIT_RUNNING; /* the timer goes on: a runner that is frozen never reads it */
        /* Nothing is read from it any more, but it stays open: to see whether the code was read, and in user
         * mode because init takes its end for the order to die and reports the program's status on it. */
        u->control_source = sd_event_source_unref(u->control_source);
        u->handlers->on_sent(u, u->userdata);
}

/* The unit is dead, about to be, or should have begun long ago: did it ever read its code? The last answer
 * counts, for it may be read while we look. */
static void unit_settle_code(Unit *u) {
        int r;

        if (u->state != UNIT_RUNNING || u->control_fd < 0 || u->is_code_lost)
                return;

        r = control_was_read(u->control_fd);
        u->is_code_lost = r < 0;
        if (r <= 0)
                u->fault = UNIT_FAULT_CODE;
        else if (u->fault == UNIT_FAULT_CODE)
                u->fault = UNIT_FAULT_NONE;
}

static int unit_on_control(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Unit *u = userdata;

        (void) s;
        (void) fd;
        (void) revents;

        if (u->state == UNIT_STARTING)
                unit_read_control(u);
        else if (u->state == UNIT_SENDING)
                unit_continue_sending(u);
        return 0;
}

static int unit_on_ready_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        Unit *u = userdata;

        (void) s;
        (void) usec;

        if (u->state != UNIT_RUNNING) {
                unit_fail(u, u->state == UNIT_STARTING ? UNIT_FAULT_NOT_READY : UNIT_FAULT_CODE);
                return 0;
        }
        if (u->is_stopped || u->fault != UNIT_FAULT_NONE)
                return 0;
        unit_settle_code(u); /* not unit_fail(): the socket tells how it turns out */
        if (u->fault == UNIT_FAULT_CODE)
                u->handlers->on_fault(u, u->userdata);
        return 0;
}

static int unit_arm_ready(Unit *u) {
        return timer_arm(u->parameters.event, &u->ready_source, u->parameters.ready_timeout_usec,
                         unit_on_ready_timeout, u);
}

static int unit_on_dead_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        Unit *u = userdata;

        (void) s;
        (void) usec;

        log_error("Unit %s was killed %" PRIu64 " s ago and the launcher has not reported its end.",
                  u->name[0] ? u->name : "(not started)", u->parameters.dead_timeout_usec / USEC_PER_SEC);
        launcher_client_break(u->parameters.client, "The launcher did not report the end of a run that was "
                                                    "killed.");
        return 0;
}

static void unit_on_finished(Unit *u, const WireFinished *m) {
        /* A failed check may still stand unread in the socket. */
        if (u->state == UNIT_STARTING && u->control_fd >= 0 &&
            control_receive_word(u->control_fd, &u->word) == CONTROL_E_FAILED) {
                u->fault = UNIT_FAULT_CHECK;
                u->failed_check = control_word_check(&u->word);
        }
        if (u->state == UNIT_RUNNING && u->parameters.is_user && u->control_fd >= 0)
                u->has_status = control_receive_status(u->control_fd, &u->status);
        unit_settle_code(u);

        u->fate = UNIT_FATE_FINISHED;
        u->finished = *m;
        u->state = UNIT_DRAINING;
        timer_disarm(u->ready_source);
        timer_disarm(u->dead_source);

        collector_drain(&u->out);
        collector_drain(&u->err);
        if (u->out.is_over && u->err.is_over)
                unit_set_dead(u);
}

static void unit_on_message(LauncherJob *j, const WireMessage *m) {
        Unit *u = unit_of_job(j);

        if (m->header.type == WIRE_STARTED) {
                memcpy(u->name, m->started.unit, sizeof(u->name));
                u->name[sizeof(u->name) - 1] = '\0';
                /* The wait for PID 1 is over, the wait for the runner begins. */
                if (u->state == UNIT_STARTING && u->fault == UNIT_FAULT_NONE)
                        (void) unit_arm_ready(u);
        } else if (m->header.type == WIRE_REFUSED) {
                u->fate = UNIT_FATE_REFUSED;
                (void) sentence_join(m->refused.reason, m->refused.remedy, &u->refusal);
                unit_set_dead(u);
        } else if (m->header.type == WIRE_FINISHED)
                unit_on_finished(u, &m->finished);
}

static void unit_on_lost(LauncherJob *j) {
        Unit *u = unit_of_job(j);

        u->fate = UNIT_FATE_LOST;
        /* What is in the pipes is the last that will be heard of it. */
        collector_drain(&u->out);
        collector_drain(&u->err);
        unit_set_dead(u);
}

static void unit_on_output(Collector *c, const void *data, size_t n_bytes, void *userdata) {
        Unit *u = userdata;

        u->handlers->on_output(u, c == &u->out ? 1 : 2, data, n_bytes, u->userdata);
}

static void unit_on_flood(Collector *c, void *userdata) {
        Unit *u = userdata;

        (void) c;
        u->handlers->on_flood(u, u->userdata);
}

static void unit_on_drained(Collector *c, void *userdata) {
        Unit *u = userdata;

        (void) c;
        if (u->state == UNIT_DRAINING && u->out.is_over && u->err.is_over)
                unit_set_dead(u);
}

static void unit_on_output_error(Collector *c, int error, void *userdata) {
        (void) c;
        log_error_errno(error, "Cannot collect the output of a run");
        unit_fail(userdata, UNIT_FAULT_OUTPUT);
}

static const CollectorHandlers collector_handlers = {
        .on_data = unit_on_output,
        .on_flood = unit_on_flood,
        .on_drained = unit_on_drained,
        .on_error = unit_on_output_error,
};

/* One output stream: the reading end becomes a collector, *ret_far the writing end for the unit. */
static int unit_open_output(Unit *u, Collector *c, int *ret_far) {
        int r, fds[2];

        r = pipe_new(fds);
        if (r < 0)
                return r;

        _cleanup_close_ int near = fds[0], far = fds[1];

        /* The program may open /dev/stdout again by its own uid, for writing; nobody may for reading. */
        if (fchmod(far, 0222) < 0)
                return -errno;
        (void) fcntl(far, F_SETPIPE_SZ, (int) OUTPUT_PIPE_BYTES);

        r = collector_init(c, u->parameters.event, near, u->parameters.max_output_bytes, &collector_handlers,
                           u);
        if (r < 0)
                return r;

        TAKE_FD(near);
        *ret_far = TAKE_FD(far);
        return 0;
}

static int unit_open_control(Unit *u, int *ret_far) {
        int r, fds[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;

        u->control_fd = fds[0];
        *ret_far = fds[1];

        r = sd_event_add_io(u->parameters.event, &u->control_source, u->control_fd, EPOLLIN, unit_on_control,
                            u);
        if (r < 0)
                return r;

        return unit_arm_ready(u);
}

int unit_new(const UnitParameters *p, const UnitHandlers *handlers, void *userdata, Unit **ret) {
        _cleanup_close_ int control = -EBADF, out = -EBADF, err = -EBADF;
        _cleanup_(unit_freep) Unit *u = NULL;
        int r;

        assert(p && p->event && p->client);
        assert(handlers);
        assert(ret);

        u = calloc(1, sizeof(Unit));
        if (!u)
                return -ENOMEM;

        u->parameters = *p;
        u->parameters.order.environment = NULL;
        u->control_fd = u->word.directory_fd = -EBADF;
        u->handlers = handlers;
        u->userdata = userdata;
        u->job.on_message = unit_on_message;
        u->job.on_lost = unit_on_lost;

        r = unit_open_control(u, &control);
        if (r < 0)
                return r;
        r = unit_open_output(u, &u->out, &out);
        if (r < 0)
                return r;
        r = unit_open_output(u, &u->err, &err);
        if (r < 0)
                return r;

        r = launcher_client_start(p->client, &u->job, &p->order,
                                  (const int[]) { [WIRE_FD_CONTROL] = control, [WIRE_FD_STDOUT] = out,
                                                  [WIRE_FD_STDERR] = err });
        if (r < 0)
                return r;
        TAKE_FD(control);
        TAKE_FD(out);
        TAKE_FD(err);

        *ret = TAKE_PTR(u);
        return 0;
}

Unit* unit_free(Unit *u) {
        if (!u)
                return NULL;

        launcher_client_forget(u->parameters.client, &u->job);
        sd_event_source_unref(u->ready_source);
        sd_event_source_unref(u->dead_source);
        unit_close_control(u);
        collector_done(&u->out);
        collector_done(&u->err);
        safe_close(u->word.directory_fd);
        free(u->refusal);
        free(u);
        return NULL;
}

void unit_set_handlers(Unit *u, const UnitHandlers *handlers, void *userdata) {
        assert(u);
        assert(handlers);

        u->handlers = handlers;
        u->userdata = userdata;
}

int unit_send_code(Unit *u, const ExecRequest *q) {
        int r;

        assert(u);
        assert(u->state == UNIT_READY);
        assert(q);

        code_frame_init(&u->frame, q);

        r = collector_begin(&u->out);
        if (r < 0)
                return r;
        r = collector_begin(&u->err);
        if (r < 0)
                return r;
        r = unit_arm_ready(u);
        if (r < 0)
                return r;

        u->state = UNIT_SENDING;
        unit_continue_sending(u);
        return 0;
}

bool unit_is_settled(const Unit *u) {
        assert(u);
        return u->state == UNIT_READY && *u->name && u->fate == UNIT_FATE_NONE;
}

void unit_assign(Unit *u, const WireLimits *limits) {
        assert(u && unit_is_settled(u));

        u->parameters.order.limits = *limits;
        launcher_client_assign(u->parameters.client, &u->job, limits);
}

void unit_stop(Unit *u) {
        assert(u);

        if (u->is_stopped || u->fate != UNIT_FATE_NONE)
                return;

        unit_settle_code(u);
        u->is_stopped = true;
        launcher_client_stop(u->parameters.client, &u->job);
        /* Without a timer a lost FINISHED would keep its slot for ever. */
        if (timer_arm(u->parameters.event, &u->dead_source, u->parameters.dead_timeout_usec,
                      unit_on_dead_timeout, u) < 0)
                launcher_client_break(u->parameters.client, "The daemon is out of memory.");
}

void unit_close_output(Unit *u) {
        assert(u);

        collector_close(&u->out);
        collector_close(&u->err);
}
