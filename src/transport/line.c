/* SPDX-License-Identifier: MIT */

/* LineTransport: one client behind a pipe, a terminal, a file or a socket.
 *
 * Every event ends in line_turn() and line_update(): the first does a bounded piece of work, the second
 * computes from the state what to wait for. There is no other place where event sources are switched. */

#include "transport/line.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"

static void line_turn(LineTransport *t);

static LineTransport* transport_from_sink(McpSink *sink) {
        return (LineTransport*) ((char*) sink - offsetof(LineTransport, sink));
}

void line_charge(LineTransport *t) {
        size_t held = t->in.n_allocated + t->out.n_allocated;

        if (!t->p.budget)
                return;
        t->p.budget->used_bytes += held;
        t->p.budget->used_bytes -= t->charged_bytes;
        t->charged_bytes = held;
}

/* Something happened outside of our own callbacks: look at the state soon. */
static void line_schedule(LineTransport *t) {
        (void) sd_event_source_set_enabled(t->turn_source, SD_EVENT_ONESHOT);
}

static void line_write(LineTransport *t) {
        size_t n_left = LINE_WRITE_BYTES_PER_TURN;

        while (t->out.n_bytes > 0 && n_left > 0 && !t->is_failed) {
                ssize_t n = write(t->p.output_fd, t->out.data, MIN_OF(t->out.n_bytes, n_left));

                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        if (errno != EAGAIN)
                                t->is_failed = true;
                        break;
                }
                buffer_consume(&t->out, (size_t) n);
                t->n_written += (uint64_t) n;
                n_left -= (size_t) n;
        }
        if (t->out.n_bytes == 0 && t->out.n_allocated > LINE_READ_BYTES)
                buffer_done(&t->out);
        line_charge(t);
}

/* The whole message with its newline, or nothing. */
static int line_append(LineTransport *t, const char *json, size_t n_bytes) {
        void *room;
        int r;

        r = buffer_reserve(&t->out, n_bytes + 1, &room);
        if (r < 0)
                return r;
        (void) buffer_append(&t->out, json, n_bytes);
        return buffer_append(&t->out, "\n", 1);
}

int line_enqueue(LineTransport *t, const char *json, size_t n_bytes) {
        const MemoryBudget *budget = t->p.budget;
        char fallback[MCP_NO_MEMORY_BYTES];
        int r;

        if (t->is_failed || t->is_closed)
                return -EPIPE;
        if (budget && budget->used_bytes > budget->max_bytes && line_is_congested(t))
                r = -ENOBUFS;
        else
                r = line_append(t, json, n_bytes);
        if (r == -ENOMEM)
                r = line_append(t, fallback, mcp_no_memory_reply(json, n_bytes, fallback));
        line_charge(t);
        if (r < 0) {
                /* An answer is missing, and its client would wait for ever: this connection is over. */
                (void) log_info_errno(r, "Disconnecting %s%s", t->principal,
                                      r == -ENOMEM ? "" : ", who does not read its replies");
                t->is_failed = true;
        }
        /* A run's answer goes out now: when other clients keep us busy with large messages, this one's turn
         * can be further away than a deadline allows. */
        if (r >= 0 && !t->is_in_turn)
                line_write(t);
        line_schedule(t);
        return r;
}

static int sink_send(McpSink *sink, const char *json, size_t n_bytes, bool is_notification) {
        LineTransport *t = transport_from_sink(sink);
        void *room;

        /* Without memory it is dropped: an error in its place would be nobody's answer. */
        if (is_notification && buffer_reserve(&t->out, n_bytes + 1, &room) == -ENOMEM)
                return -ENOMEM;
        return line_enqueue(t, json, n_bytes);
}

static void sink_finish(McpSink *sink, const McpOutcome *outcome) {
        LineTransport *t = transport_from_sink(sink);

        (void) outcome;
        assert(t->n_in_flight > 0);
        t->n_in_flight--;
        line_schedule(t);
}

static const McpSinkOps line_sink_ops = {
        .send = sink_send,
        .finish = sink_finish,
};

/* Cancels what is in flight. */
static void line_drop_peer(LineTransport *t) {
        t->peer = mcp_peer_free(t->peer);
        t->n_in_flight = 0;
}

static int on_flush_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        LineTransport *t = userdata;

        (void) usec;
        if (t->n_written == t->n_written_at_check) {
                t->is_failed = true;
                line_schedule(t);
                return 0;
        }
        t->n_written_at_check = t->n_written;
        if (sd_event_source_set_time_relative(source, LINE_FLUSH_USEC) < 0 ||
            sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
                t->is_failed = true;
        return 0;
}

static void line_begin_flush(LineTransport *t) {
        if (t->flush_source)
                return;
        t->n_written_at_check = t->n_written;
        if (sd_event_add_time_relative(t->p.event, &t->flush_source, CLOCK_MONOTONIC, LINE_FLUSH_USEC, 0,
                                       on_flush_timeout, t) < 0)
                t->is_failed = true;
}

static bool wants_input(const LineTransport *t) {
        return !t->is_input_ended && !t->is_failed && !t->is_drained && !t->has_line &&
               !line_is_congested(t);
}

static void source_set(sd_event_source *source, uint32_t events) {
        if (!source)
                return;
        (void) sd_event_source_set_io_events(source, events);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ON);
}

static void line_update(LineTransport *t) {
        uint32_t input = 0, output = t->out.n_bytes > 0 && !t->is_failed ? EPOLLOUT : 0;
        bool needs_turn = false;

        if (wants_input(t)) {
                input = EPOLLIN;
                needs_turn = !t->input_source; /* a file: always readable */
        } else if (t->is_draining && !t->is_input_ended && !t->is_shut)
                input = EPOLLRDHUP; /* whoever waits for a run may still give up */
        if (t->is_failed || (t->has_line && !line_is_congested(t)) ||
            (!t->output_source && output && !line_is_one_fd(t)))
                needs_turn = true;

        if (line_is_one_fd(t))
                source_set(t->input_source, input | output);
        else {
                /* Once the input has ended its hang-up is no news, but would be reported for ever. */
                if (t->input_source && (t->is_input_ended || (!input && !t->is_draining)))
                        (void) sd_event_source_set_enabled(t->input_source, SD_EVENT_OFF);
                else
                        source_set(t->input_source, input);
                source_set(t->output_source, output);
        }
        if (needs_turn)
                line_schedule(t);
}

/* Returns true when the transport is over, and then t may be gone. */
static bool line_check_end(LineTransport *t) {
        if (t->is_input_ended && !t->is_failed && t->peer && !t->has_line) {
                line_input_finish(t);
                line_drop_peer(t);
        }
        if (t->is_input_ended && t->out.n_bytes > 0 && !t->is_failed)
                line_begin_flush(t);

        if (!t->is_failed && !(t->out.n_bytes == 0 && !t->peer)) {
                if (!t->is_draining || t->out.n_bytes > 0 || t->has_line || t->n_in_flight > 0)
                        return false;
                if (!t->is_drained) {
                        /* From here on the client's writes fail. What it wrote before is still read, up to
                         * the end of file that this makes, and answered. */
                        (void) shutdown(t->p.input_fd, SHUT_RD);
                        t->is_shut = true;
                        return false;
                }
        }

        line_drop_peer(t);
        t->is_closed = true;
        t->turn_source = sd_event_source_disable_unref(t->turn_source);
        t->input_source = sd_event_source_disable_unref(t->input_source);
        t->output_source = sd_event_source_disable_unref(t->output_source);
        t->flush_source = sd_event_source_disable_unref(t->flush_source);
        t->p.on_closed(t, t->p.userdata);
        return true;
}

static void line_turn(LineTransport *t) {
        t->is_in_turn = true;
        if (t->peer && !t->is_failed)
                line_input_process(t);
        if (t->peer && t->is_draining)
                mcp_peer_drain(t->peer);
        t->is_in_turn = false;
        if (t->out.n_bytes > 0)
                line_write(t);
        if (line_check_end(t))
                return;
        line_update(t);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        LineTransport *t = userdata;

        (void) source;
        (void) usec;
        if (!t->input_source && wants_input(t))
                line_input_read(t);
        line_turn(t);
        return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        LineTransport *t = userdata;

        (void) source;
        if (fd == t->p.output_fd && (revents & EPOLLERR))
                t->is_failed = true;
        else if (fd == t->p.output_fd && !line_is_one_fd(t) && (revents & EPOLLHUP))
                t->is_failed = true; /* a socket's, which nobody reads any more */
        else if (line_is_one_fd(t) && (revents & EPOLLHUP) && !(revents & EPOLLIN))
                t->is_failed = true; /* both directions are closed and everything is read */
        else if (fd == t->p.input_fd && wants_input(t) && (revents & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                line_input_read(t);
        else if (fd == t->p.input_fd && t->is_draining && (revents & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
                t->is_input_ended = true;
        line_turn(t);
        return 0;
}

/* Descriptors 0..2 were there before us and stay after us, and a terminal is shared with a shell that
 * would not thank us for O_NONBLOCK; reading what epoll calls readable does not block there. Returns the
 * flags to restore or -1. */
static int make_nonblocking(int fd, int *ret_flags) {
        int flags;

        *ret_flags = -1;
        if (isatty(fd))
                return 0;
        flags = fcntl(fd, F_GETFL);
        if (flags < 0)
                return -errno;
        if (flags & O_NONBLOCK)
                return 0;
        if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        *ret_flags = flags;
        return 0;
}

/* NULL in *ret for what epoll refuses: a regular file, /dev/null. */
static int watch(LineTransport *t, int fd, uint32_t events, sd_event_source **ret) {
        int r;

        r = sd_event_add_io(t->p.event, ret, fd, events, on_io, t);
        return r == -EPERM ? 0 : r;
}

static int line_start(LineTransport *t) {
        int r;

        /* A timer long due, not a defer source: that one counts as waiting since its creation, so that one
         * client who always has more to do would keep all others from their turn. */
        r = sd_event_add_time(t->p.event, &t->turn_source, CLOCK_MONOTONIC, 0, 1, on_turn, t);
        if (r < 0)
                return r;
        r = make_nonblocking(t->p.input_fd, &t->input_flags);
        if (r < 0)
                return r;
        if (!line_is_one_fd(t)) {
                r = make_nonblocking(t->p.output_fd, &t->output_flags);
                if (r < 0)
                        return r;
                r = watch(t, t->p.output_fd, 0, &t->output_source);
                if (r < 0)
                        return r;
        }
        r = watch(t, t->p.input_fd, EPOLLIN, &t->input_source);
        if (r < 0)
                return r;
        return mcp_peer_new(t->p.server, MCP_PEER_PIPE, t->principal, &t->peer);
}

static void give_back(int fd, int flags) {
        if (fd < 0)
                return;
        if (fd <= STDERR_FILENO) {
                if (flags >= 0)
                        (void) fcntl(fd, F_SETFL, flags);
                return;
        }
        (void) safe_close(fd);
}

LineTransport* line_transport_free(LineTransport *t) {
        if (!t)
                return NULL;

        line_drop_peer(t);
        (void) sd_event_source_disable_unref(t->turn_source);
        (void) sd_event_source_disable_unref(t->input_source);
        (void) sd_event_source_disable_unref(t->output_source);
        (void) sd_event_source_disable_unref(t->flush_source);
        if (!line_is_one_fd(t))
                give_back(t->p.output_fd, t->output_flags);
        give_back(t->p.input_fd, t->input_flags);
        skipped_done(&t->skipped);
        buffer_done(&t->in);
        buffer_done(&t->out);
        line_charge(t);
        free(t->principal);
        free(t);
        return NULL;
}

int line_transport_new(const LineTransportParameters *p, LineTransport **ret) {
        _cleanup_(line_transport_freep) LineTransport *t = NULL;
        int input_fd, output_fd, r;

        assert(p);
        assert(p->event && p->server && p->principal && p->on_closed);
        assert(p->input_fd >= 0 && p->output_fd >= 0);
        assert(ret);

        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->p = *p;
        t->input_flags = t->output_flags = -1;
        t->sink.ops = &line_sink_ops;
        t->out.max_bytes = LINE_OUTPUT_BYTES_MAX;
        r = str_copy(&t->principal, p->principal);
        if (r >= 0)
                r = line_start(t);
        if (r < 0) {
                /* The descriptors are still the caller's. */
                input_fd = TAKE_FD(t->p.input_fd);
                output_fd = TAKE_FD(t->p.output_fd);
                if (t->input_flags >= 0)
                        (void) fcntl(input_fd, F_SETFL, t->input_flags);
                if (t->output_flags >= 0)
                        (void) fcntl(output_fd, F_SETFL, t->output_flags);
                return r;
        }
        *ret = TAKE_PTR(t);
        return 0;
}

void line_transport_drain(LineTransport *t) {
        assert(t);

        if (t->is_draining || t->is_closed)
                return;
        t->is_draining = true;
        /* Nobody can be kept from writing to a pipe, so there would be no end. */
        t->is_drained = !line_is_one_fd(t);
        line_schedule(t);
}

void line_transport_dismiss(LineTransport *t) {
        assert(t);

        if (t->is_closed)
                return;
        t->is_draining = t->is_drained = true;
        buffer_done(&t->in);
        t->n_scanned = 0;
        t->has_line = false;
        line_schedule(t);
}
