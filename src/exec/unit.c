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

/* Takes the directory fd that comes with READY. Returns 0, or -EBADMSG when it is not exactly that. */
static int unit_take_directory(Unit *u, struct msghdr *message) {
        int fds[4], n_fds = 0;
        struct stat st;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                size_t n;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (n_fds < (int) ELEMENTSOF(fds))
                                fds[n_fds++] = fd;
                        else
                                safe_close(fd);
                }
        }

        if (n_fds == 0)
                return 0;
        if (n_fds == 1 && u->directory_fd < 0 && !(message->msg_flags & MSG_CTRUNC) &&
            fstat(fds[0], &st) >= 0 && S_ISDIR(st.st_mode)) {
                u->directory_fd = fds[0];
                return 0;
        }
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
        return -EBADMSG;
}

static bool unit_word_is(const Unit *u, const char word[static RUNNER_WORD_BYTES]) {
        return memcmp(u->word, word, RUNNER_WORD_BYTES) == 0;
}

/* Reads what the runner says before it has its code. Returns 1 when the word is complete, 0 when more must
 * come, or -errno; -ENODATA at the end of the stream. */
static int unit_receive_word(Unit *u) {
        union {
                struct cmsghdr header; /* for its alignment */
                char buffer[CMSG_SPACE(4 * sizeof(int))];
        } control;
        int r;

        for (;;) {
                struct iovec part = { u->word + u->n_word, sizeof(u->word) - u->n_word };
                struct msghdr message = {
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
                };
                ssize_t n;

                n = recvmsg(u->control_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;

                r = unit_take_directory(u, &message);
                if (r < 0)
                        return r;
                if (n == 0)
                        return -ENODATA;

                u->n_word += (size_t) n;
                if (u->n_word == RUNNER_WORD_BYTES && unit_word_is(u, RUNNER_WORD_READY))
                        return u->directory_fd >= 0 ? 1 : -EBADMSG;
                if (u->n_word == sizeof(u->word))
                        return unit_word_is(u, RUNNER_WORD_FAILED) ? 1 : -EBADMSG;
                if (u->n_word > RUNNER_WORD_BYTES && !unit_word_is(u, RUNNER_WORD_FAILED))
                        return -EBADMSG;
        }
}

static uint32_t unit_failed_check(const Unit *u) {
        const uint8_t *p = u->word + RUNNER_WORD_BYTES;

        return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static void unit_read_control(Unit *u) {
        int r;

        r = unit_receive_word(u);
        if (r == 0)
                return;
        if (r == -ENODATA) {
                /* The runner is gone; FINISHED brings its exit status. The timer waits for that. */
                unit_close_control(u);
                return;
        }
        if (r < 0) {
                unit_fail(u, UNIT_FAULT_PROTOCOL);
                return;
        }

        if (u->n_word == sizeof(u->word)) {
                u->failed_check = unit_failed_check(u);
                unit_fail(u, UNIT_FAULT_CHECK);
                return;
        }

        if (u->fate != UNIT_FATE_NONE)
                return;

        u->state = UNIT_READY;
        timer_disarm(u->ready_source);
        /* Nothing more is read from here on: hostile code may hold the other end next, and is not heard. */
        (void) sd_event_source_set_enabled(u->control_source, SD_EVENT_OFF);
        u->handlers->on_ready(u, u->userdata);
}

static void unit_continue_sending(Unit *u) {
        int r;

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

        u->state = UNIT_RUNNING;
        timer_disarm(u->ready_source);
        if (u->parameters.is_user) {
                /* init watches this socket: its end is the order to die, and the program's status comes on
                 * it. */
                u->control_source = sd_event_source_unref(u->control_source);
        } else
                unit_close_control(u);
        u->handlers->on_sent(u, u->userdata);
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

        unit_fail(u, u->state == UNIT_SENDING ? UNIT_FAULT_CODE : UNIT_FAULT_NOT_READY);
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

/* User mode: what init says about the program, which ran as its child. It speaks only of its own run. */
static void unit_receive_status(Unit *u) {
        uint8_t word[RUNNER_WORD_BYTES + sizeof(uint16_t)];
        ssize_t n;

        if (u->control_fd < 0)
                return;

        n = recv(u->control_fd, word, sizeof(word), MSG_DONTWAIT);
        if (n == (ssize_t) sizeof(word) && memcmp(word, RUNNER_WORD_STATUS, RUNNER_WORD_BYTES) == 0) {
                u->status = (uint16_t) (word[8] | word[9] << 8);
                u->has_status = true;
        }
}

static void unit_on_finished(Unit *u, const WireFinished *m) {
        /* A failed check may still stand unread in the socket. */
        if (u->state == UNIT_STARTING && u->control_fd >= 0 && unit_receive_word(u) > 0 &&
            u->n_word == sizeof(u->word)) {
                u->fault = UNIT_FAULT_CHECK;
                u->failed_check = unit_failed_check(u);
        }
        if (u->state == UNIT_RUNNING)
                unit_receive_status(u);

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
                (void) str_printf(&u->refusal, "%s%s%s", m->refused.reason, m->refused.remedy[0] ? " " : "",
                                  m->refused.remedy);
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
        u->control_fd = u->directory_fd = -EBADF;
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

        r = launcher_client_start(p->client, &u->job, &p->limits,
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
        safe_close(u->directory_fd);
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

int unit_send_code(Unit *u, const char *code, size_t code_bytes, const char *stdin_data,
                   size_t stdin_bytes) {
        int r;

        assert(u);
        assert(u->state == UNIT_READY);

        code_frame_init(&u->frame, code, code_bytes, stdin_data, stdin_bytes);

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

void unit_stop(Unit *u) {
        assert(u);

        if (u->is_stopped || u->fate != UNIT_FATE_NONE)
                return;

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
