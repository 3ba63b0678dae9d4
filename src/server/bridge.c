/* SPDX-License-Identifier: MIT */

/* Lines both ways until the client has had enough.
 *
 *   stdin  ──► input ──────► socket     at its end: shutdown(SHUT_WR), then the service cancels
 *   stdout ◄── to_client ◄── replies ◄── socket     at its end: see service_lost()
 *
 * A service that stops reads and answers what was written to it, and then ends the connection; one that is
 * killed does not. Either way nothing that it has read whole is ever sent again: it may have run. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "json/json.h"
#include "server/bridge-handshake.h"
#include "server/bridge.h"
#include "server/command.h"
#include "server/out-queue.h"
#include "server/pending-calls.h"
#include "server/system-socket.h"
#include "server/system-units.h"
#include "transport/transport.h"

/* Reading stops while this much waits for the other side: memory is bounded, and pressure reaches the
 * sender. A line may be longer. */
#define QUEUE_BYTES_MAX (256 * KIB)
#define CHUNK_BYTES (64 * KIB)

/* After the client's end of file the service has this long to end the conversation. */
#define GOODBYE_USEC (2 * USEC_PER_SEC)

/* A service that is being restarted answers first what runs, and its socket may be restarted as well. */
#define RECONNECT_USEC (90 * USEC_PER_SEC)
#define ABSENT_USEC (5 * USEC_PER_SEC)
#define RETRY_MSEC 200

/* So far apart a stand-in's calls make us look for a server. */
#define LOOK_USEC (1 * USEC_PER_SEC)

#define LOST_MESSAGE \
        "The system service ended before it answered. Whether the call was carried out is not known; send " \
        "it again if that does no harm."

enum { POLL_STDIN, POLL_STDOUT, POLL_SERVICE, POLL_SIGNALS, _POLL_MAX };

typedef struct Bridge {
        const char *path;
        const BridgeStandIn *stand_in; /* where service_fd leads to it */
        uint64_t next_look_usec;
        int service_fd, signal_fd;
        bool has_input_ended, has_shut_down;
        bool is_refused;     /* the service takes no more: it is stopping */
        bool is_absent;      /* it was not there when last asked */
        uint64_t end_usec;   /* after the client's end of file */
        Buffer input;        /* lines, and the begin of one */
        size_t n_line_bytes; /* of the first line; 0: it is not whole, and n_scanned bytes of it were seen */
        size_t n_scanned, n_sent;
        bool is_overlong;    /* the first line is no longer kept whole */
        Buffer replies;      /* the begin of a line */
        OutQueue to_client;
        PendingCalls calls;
        Handshake handshake;
        int exit_status; /* < 0: go on */
} Bridge;

/* Returns the number of bytes read, 0 at the end of file, -EAGAIN or another -errno. */
static ssize_t fill(Buffer *b, int fd) {
        void *room;
        ssize_t n;
        int r;

        r = buffer_reserve(b, CHUNK_BYTES, &room);
        if (r < 0)
                return r;
        n = read(fd, room, CHUNK_BYTES);
        if (n < 0)
                return errno == EINTR ? -EAGAIN : -errno;
        buffer_commit(b, (size_t) n);
        return n;
}

static void find_line(Bridge *b) {
        const char *newline;

        if (b->n_line_bytes > 0)
                return;
        newline = b->n_scanned < b->input.n_bytes ?
                          memchr(b->input.data + b->n_scanned, '\n', b->input.n_bytes - b->n_scanned) : NULL;
        if (newline)
                b->n_line_bytes = (size_t) (newline + 1 - b->input.data);
        else if (b->has_input_ended)
                b->n_line_bytes = b->input.n_bytes;
        b->n_scanned = b->input.n_bytes;
        if (!newline && b->input.n_bytes > LINE_BYTES_MAX)
                b->is_overlong = true;
}

static void consume_line(Bridge *b, size_t n_bytes) {
        buffer_consume(&b->input, n_bytes);
        b->n_line_bytes = b->n_scanned = b->n_sent = 0;
        find_line(b);
}

static bool wants_input(const Bridge *b) {
        return !b->has_input_ended &&
               (b->input.n_bytes < QUEUE_BYTES_MAX || (b->n_line_bytes == 0 && !b->is_overlong));
}

static bool wants_replies(const Bridge *b) {
        return b->service_fd >= 0 && out_queue_n_bytes(&b->to_client) < QUEUE_BYTES_MAX;
}

static bool has_output(const Bridge *b) {
        return b->service_fd >= 0 && !b->is_refused &&
               (b->handshake.replay.n_bytes > 0 || b->n_line_bytes > 0 ||
                (b->is_overlong && b->input.n_bytes > 0));
}

static void input_ended(Bridge *b) {
        b->has_input_ended = true;
        b->end_usec = now_monotonic_usec() + GOODBYE_USEC;
        find_line(b);
}

/* Lines that come before all others. */
static int put_back(Bridge *b, Buffer *lines) {
        Buffer input = b->input;
        int r;

        r = buffer_append(lines, input.data ?: "", input.n_bytes);
        if (r < 0)
                return r;
        b->input = *lines;
        *lines = input;
        b->n_line_bytes = b->n_scanned = 0;
        find_line(b);
        return 0;
}

/* The beginning of the line is lost. */
static void fail_overlong(Bridge *b) {
        log_error("The system service ended while it was sent a message that is longer than it takes");
        b->exit_status = COMMAND_FAILED;
}

/* A line that was not sent whole goes to the next one. */
static int service_lost(Bridge *b) {
        _cleanup_buffer_ Buffer again = BUFFER_INIT(0);
        int r;

        b->service_fd = safe_close(b->service_fd);
        buffer_done(&b->replies);
        handshake_lost(&b->handshake);
        b->is_refused = b->has_shut_down = false;
        b->n_sent = 0;
        if (b->has_input_ended) {
                (void) out_queue_drain(&b->to_client, GOODBYE_USEC);
                b->exit_status = COMMAND_OK;
                return 0;
        }
        log_info("The system service ended the conversation; the next request starts another");
        r = pending_calls_end(&b->calls, LOST_MESSAGE, &again, &b->to_client.buffer);
        if (r >= 0 && again.n_bytes > 0)
                r = put_back(b, &again);
        if (b->is_overlong)
                fail_overlong(b);
        return r;
}

/* Whether the next line is of this method, as JSON writes it. */
static bool is_next(const Bridge *b, const char *quoted) {
        const char *method;
        size_t n;

        return b->n_line_bytes > 0 &&
               json_raw_member(b->input.data, b->n_line_bytes, "method", &method, &n) > 0 &&
               n == strlen(quoted) && memcmp(method, quoted, n) == 0;
}

static bool is_ping(const Bridge *b, const char **ret_id, size_t *ret_bytes) {
        return handshake_is_done(&b->handshake) && is_next(b, "\"ping\"") &&
               json_raw_member(b->input.data, b->n_line_bytes, "id", ret_id, ret_bytes) > 0;
}

/* Not between a request and its answer, which the stand-in has, too. */
static bool is_time_to_look(const Bridge *b) {
        return b->stand_in && b->service_fd >= 0 && b->calls.n == 0 && b->n_sent == 0 &&
               (is_next(b, "\"tools/call\"") || is_next(b, "\"tools\\/call\"")) &&
               now_monotonic_usec() >= b->next_look_usec;
}

static int look(Bridge *b) {
        int fd = b->stand_in->find(b->stand_in->userdata);

        b->next_look_usec = now_monotonic_usec() + LOOK_USEC;
        if (fd < 0)
                return 0;
        log_info("Programs can be run from now on");
        (void) safe_close(b->service_fd);
        b->service_fd = fd;
        b->stand_in = NULL;
        buffer_done(&b->replies);
        handshake_lost(&b->handshake);
        return handshake_replay(&b->handshake);
}

/* Clients ask now and then whether we live, which is no reason to start a service that was stopped, nor to
 * tell that it cannot be reached. */
static int answer_ping(Bridge *b, const char *id, size_t n_bytes) {
        int r;

        r = buffer_printf(&b->to_client.buffer, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{}}\n",
                          (int) n_bytes, id);
        consume_line(b, b->n_line_bytes);
        return r;
}

/* Nobody takes these lines: each request among them is answered in its place. */
static int refuse_lines(Bridge *b, int code, const char *reason) {
        _cleanup_free_ char *message = NULL, *remedy = NULL;
        int r;

        r = system_units_remedy(/* units= */ NULL, code, geteuid() == 0, &remedy);
        if (r >= 0)
                r = str_printf(&message, "The system service cannot be reached: %s. %s%s", reason,
                               remedy ? "To repair this: " : "Send the request again when it can.",
                               remedy ?: "");
        while (r >= 0 && b->n_line_bytes > 0) {
                _cleanup_(pending_calls_done) PendingCalls calls = {};
                _cleanup_buffer_ Buffer none = BUFFER_INIT(0);

                r = pending_calls_sent(&calls, b->input.data, b->n_line_bytes);
                if (r >= 0)
                        r = pending_calls_end(&calls, message, &none, &b->to_client.buffer);
                consume_line(b, b->n_line_bytes);
        }
        return r;
}

/* Before the next attempt. Returns true when there shall be none. */
static bool wait_to_retry(Bridge *b, bool *is_left, uint64_t passed_usec) {
        struct pollfd p[] = {
                { .fd = b->signal_fd, .events = POLLIN },
                { .fd = *is_left ? -1 : STDIN_FILENO, .events = POLLRDHUP },
        };

        if (poll(p, ELEMENTSOF(p), RETRY_MSEC) > 0 && p[1].revents)
                *is_left = true; /* the client, whose lines may still be read */
        if (!p[0].revents && !(*is_left && passed_usec > GOODBYE_USEC))
                return false;
        b->exit_status = COMMAND_OK;
        return true;
}

static int reconnect(Bridge *b) {
        uint64_t start = now_monotonic_usec();
        _cleanup_free_ char *reason = NULL;
        bool is_left = false;
        int fd, r;

        for (;;) {
                uint64_t passed;

                free(TAKE_PTR(reason));
                r = system_socket_connect(b->path, &fd, &reason);
                passed = now_monotonic_usec() - start;
                if (r != SYSTEM_SOCKET_E_ABSENT && r != SYSTEM_SOCKET_E_SILENT)
                        break;
                if (b->is_absent || passed > (r == SYSTEM_SOCKET_E_ABSENT ? ABSENT_USEC : RECONNECT_USEC))
                        break;
                if (wait_to_retry(b, &is_left, passed))
                        return 0;
        }
        b->is_absent = r != 0;
        if (r != 0) {
                if (b->is_overlong)
                        fail_overlong(b);
                return refuse_lines(b, r, reason ?: strerror(-r));
        }
        log_info("Connected to the system service again");
        b->service_fd = fd;
        b->stand_in = NULL;
        return handshake_replay(&b->handshake);
}

static void handle_client(Bridge *b, const struct pollfd *fds) {
        ssize_t n;

        if (fds[POLL_STDIN].revents) {
                n = fill(&b->input, STDIN_FILENO);
                if (n <= 0 && n != -EAGAIN)
                        input_ended(b);
                find_line(b);
        }
        if ((fds[POLL_STDOUT].revents & POLLOUT) && out_queue_flush(&b->to_client) < 0)
                b->exit_status = COMMAND_OK; /* the client is gone */
        else if (!(fds[POLL_STDOUT].revents & POLLOUT) && (fds[POLL_STDOUT].revents & (POLLERR | POLLNVAL)))
                b->exit_status = COMMAND_OK;
}

/* Returns the number of bytes sent, 0 for none at present, or -errno. */
static ssize_t send_some(const Bridge *b, const char *data, size_t n_bytes) {
        ssize_t n = send(b->service_fd, data, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        return n;
}

/* Sends what goes without waiting. Returns 0 or -errno. */
static int send_lines(Bridge *b) {
        int r = 0;

        while (r >= 0 && has_output(b) && !is_time_to_look(b)) {
                Buffer *replay = &b->handshake.replay;
                bool is_replay = replay->n_bytes > 0;
                size_t n_line = b->n_line_bytes > 0 ? b->n_line_bytes : b->input.n_bytes;
                ssize_t n = is_replay ? send_some(b, replay->data, replay->n_bytes) :
                                        send_some(b, b->input.data + b->n_sent, n_line - b->n_sent);

                if (n == 0)
                        return 0;
                if (n < 0) { /* what it said last is still there to be read, and then its end */
                        b->is_refused = true;
                        return 0;
                }
                if (is_replay) {
                        buffer_consume(replay, (size_t) n);
                        continue;
                }
                b->n_sent += (size_t) n;
                if (b->n_sent < n_line)
                        continue;
                if (!b->is_overlong) {
                        r = pending_calls_sent(&b->calls, b->input.data, n_line);
                        if (r >= 0)
                                r = handshake_sent(&b->handshake, b->input.data, n_line);
                }
                b->is_overlong = b->is_overlong && b->n_line_bytes == 0;
                consume_line(b, n_line);
        }
        return r;
}

/* Returns 0 or -ENOMEM. */
static int take_reply(Bridge *b, const char *line, size_t n_bytes) {
        const Buffer *request;
        int r;

        if (handshake_is_ours(&b->handshake, line, n_bytes))
                return 0;
        request = pending_calls_find(&b->calls, line, n_bytes);
        r = request ? handshake_answered(&b->handshake, request, line, n_bytes) : 0;
        if (r < 0)
                return r;
        if (!pending_calls_answered(&b->calls, line, n_bytes))
                return out_queue_push(&b->to_client, line, n_bytes);
        b->is_refused = true; /* the rest waits, too, for the next one */
        return 0;
}

static int take_replies(Bridge *b) {
        const char *newline;
        int r = 0;

        while (r >= 0 && b->replies.n_bytes > 0 &&
               (newline = memchr(b->replies.data, '\n', b->replies.n_bytes))) {
                size_t n = (size_t) (newline + 1 - b->replies.data);

                r = take_reply(b, b->replies.data, n);
                buffer_consume(&b->replies, n);
        }
        return r;
}

static int handle_service(Bridge *b, const struct pollfd *fds) {
        ssize_t n;
        int r = 0;

        if (b->service_fd < 0)
                return 0;
        if (fds[POLL_SERVICE].revents & POLLOUT)
                r = send_lines(b);
        if (r >= 0 && wants_replies(b) && (fds[POLL_SERVICE].revents & (POLLIN | POLLHUP | POLLERR))) {
                n = fill(&b->replies, b->service_fd);
                r = n == -ENOMEM ? -ENOMEM : take_replies(b);
                if (r >= 0 && n <= 0 && n != -EAGAIN)
                        return service_lost(b);
        }
        if (b->has_input_ended && !b->has_shut_down && !b->is_refused && !has_output(b)) {
                (void) shutdown(b->service_fd, SHUT_WR);
                b->has_shut_down = true;
        }
        return r;
}

static int turn(Bridge *b) {
        struct pollfd fds[_POLL_MAX] = {
                [POLL_STDIN] = { .fd = wants_input(b) ? STDIN_FILENO : -1, .events = POLLIN },
                [POLL_STDOUT] = { .fd = STDOUT_FILENO, .events = out_queue_events(&b->to_client) },
                [POLL_SERVICE] = { .fd = b->service_fd, .events = has_output(b) ? POLLOUT : 0 },
                [POLL_SIGNALS] = { .fd = b->signal_fd, .events = POLLIN },
        };
        int timeout_msec = -1;
        const char *id;
        size_t n_id;

        if (is_time_to_look(b))
                return look(b);
        /* Which takes its time: the client hears first what was lost with the old one. */
        if (b->service_fd < 0 && !b->has_input_ended && out_queue_n_bytes(&b->to_client) == 0 &&
            (b->n_line_bytes > 0 || b->is_overlong))
                return is_ping(b, &id, &n_id) ? answer_ping(b, id, n_id) : reconnect(b);
        if (wants_replies(b))
                fds[POLL_SERVICE].events |= POLLIN;
        else if (!fds[POLL_SERVICE].events)
                fds[POLL_SERVICE].fd = -1; /* or a hang-up that we are not ready to read would spin */

        if (b->has_input_ended) {
                uint64_t now = now_monotonic_usec();
                if (now >= b->end_usec || b->service_fd < 0) {
                        b->exit_status = COMMAND_OK;
                        return 0;
                }
                timeout_msec = (int) ((b->end_usec - now) / USEC_PER_MSEC + 1);
        }

        if (poll(fds, ELEMENTSOF(fds), timeout_msec) < 0)
                return errno == EINTR ? 0 : -errno;

        if (fds[POLL_SIGNALS].revents) {
                b->exit_status = COMMAND_OK;
                return 0;
        }
        handle_client(b, fds);
        return b->exit_status < 0 ? handle_service(b, fds) : 0;
}

int bridge_run(int take_fd, const char *path, const BridgeStandIn *stand_in) {
        _cleanup_close_ int signal_fd = -EBADF;
        Bridge b = { .path = path, .service_fd = take_fd, .stand_in = stand_in, .exit_status = -1 };
        int r = 0;

        assert(take_fd >= 0);
        assert(path);

        signal_fd = command_signal_fd();
        if (signal_fd < 0) {
                (void) log_error_errno(signal_fd, "Cannot watch for signals");
                b.exit_status = COMMAND_FAILED;
        }
        b.signal_fd = signal_fd;
        out_queue_init(&b.to_client, STDOUT_FILENO, 0);

        while (r >= 0 && b.exit_status < 0)
                r = turn(&b);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot copy between the client and the system service");
                b.exit_status = COMMAND_FAILED;
        }

        if (b.exit_status == COMMAND_FAILED)
                (void) out_queue_drain(&b.to_client, GOODBYE_USEC);
        (void) safe_close(b.service_fd);
        out_queue_done(&b.to_client);
        buffer_done(&b.input);
        buffer_done(&b.replies);
        pending_calls_done(&b.calls);
        handshake_done(&b.handshake);
        return b.exit_status;
}
