/* SPDX-License-Identifier: MIT */

/* Lines both ways until the client has had enough.
 *
 *   stdin  ──► input ──────► socket     at its end: shutdown(SHUT_WR), then the service cancels
 *   stdout ◄── to_client ◄── replies ◄── socket     at its end: see service_lost()
 *
 * A service that stops reads and answers what was written to it, and then ends the connection; one that is
 * killed does not. Either way nothing that it has read whole is ever sent again: it may have run. While no
 * service is there, the socket leads to a stand-in (stand-in.h), and back as soon as a call finds one. */

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
#include "mcp/mcp.h"
#include "mcp/message.h"
#include "server/bridge-handshake.h"
#include "server/bridge.h"
#include "server/client-lines.h"
#include "server/command.h"
#include "server/out-queue.h"
#include "server/pending-calls.h"
#include "server/system-socket.h"
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

/* A look that takes longer met with silence. The calls that follow in the pause are told what it saw. */
#define LOOK_USEC (2 * USEC_PER_SEC)
#define LOOK_PAUSE_USEC (1 * USEC_PER_SEC)

/* So many servers may end, one after the other, without having answered anything of the same lines. */
#define FRUITLESS_MAX 3
#define LOST_MESSAGE(server) \
        "The " server " ended the conversation before it answered. Whether the call was carried out is " \
        "not known; send it again if that does no harm."

enum { POLL_STDIN, POLL_STDOUT, POLL_SERVICE, POLL_SIGNALS, _POLL_MAX };

typedef struct Bridge {
        const char *path;
        const BridgeServers *servers;
        BridgePeer peer;     /* to which service_fd leads, or led */
        unsigned n_fruitless; /* servers in a row that answered nothing */
        uint64_t next_look_usec;
        int service_fd, signal_fd;
        bool has_shut_down;
        bool is_gone;        /* the service takes no more */
        bool is_stopping;    /* it takes no more calls */
        bool is_absent;      /* it was not there when last asked */
        bool has_looked;     /* for somebody who takes the first line */
        uint64_t end_usec;   /* after the client's end of file */
        ClientLines input;
        size_t n_sent;       /* of the first line */
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

static void consume_line(Bridge *b, size_t n_bytes) {
        client_lines_consume(&b->input, n_bytes);
        b->n_sent = 0;
        b->has_looked = false;
}

static bool wants_input(const Bridge *b) {
        return !b->input.has_ended &&
               (b->input.bytes.n_bytes < QUEUE_BYTES_MAX ||
                (b->input.n_first == 0 && !b->input.is_overlong));
}

static bool wants_replies(const Bridge *b) {
        return b->service_fd >= 0 && out_queue_n_bytes(&b->to_client) < QUEUE_BYTES_MAX;
}

/* A service that stops still hears of its calls. Another one is made again with the next, if it is kept. */
static bool must_wait(const Bridge *b) {
        return b->is_gone ||
               (b->is_stopping && b->n_sent == 0 &&
                (b->input.n_first == 0 || client_lines_is_batch(&b->input) ||
                 (client_lines_is_call(&b->input) &&
                  !pending_calls_have_room(&b->calls, b->input.n_first))));
}

static bool has_output(const Bridge *b) {
        return b->service_fd >= 0 && !must_wait(b) &&
               (b->handshake.replay.n_bytes > 0 || b->input.n_first > 0 ||
                (b->input.is_overlong && b->input.bytes.n_bytes > 0));
}

static void input_ended(Bridge *b) {
        b->end_usec = now_monotonic_usec() + GOODBYE_USEC;
        client_lines_end(&b->input);
}

/* The beginning of a line is lost, which no server would have taken. */
static int drop_line(Bridge *b, const char *message) {
        int r;

        client_lines_skip(&b->input);
        b->n_sent = 0;
        r = mcp_error_reply(NULL, 0, MCP_ERROR_UNAVAILABLE, message, &b->to_client.buffer);
        return r < 0 ? r : buffer_append_str(&b->to_client.buffer, "\n");
}

/* A call that was perhaps carried out gets an error. All else goes to the next, unless it ends them all. */
static int settle_calls(Bridge *b) {
        _cleanup_buffer_ Buffer again = BUFFER_INIT(0);
        const char *message = b->peer == BRIDGE_SERVICE ? LOST_MESSAGE("system service") :
                                                          LOST_MESSAGE("server");
        int r;

        if (b->n_fruitless < FRUITLESS_MAX)
                pending_calls_retry(&b->calls, /* all= */ b->peer == BRIDGE_STAND_IN);
        r = pending_calls_end(&b->calls, message, &again, &b->to_client.buffer);
        return r >= 0 && again.n_bytes > 0 ? client_lines_put_back(&b->input, &again) : r;
}

/* A line that was not sent whole goes to the next one. */
static int service_lost(Bridge *b) {
        int r = 0;

        b->service_fd = safe_close(b->service_fd);
        buffer_done(&b->replies);
        handshake_lost(&b->handshake);
        b->n_sent = 0;
        if (b->input.has_ended) {
                (void) out_queue_drain(&b->to_client, GOODBYE_USEC);
                b->exit_status = COMMAND_OK;
                return 0;
        }
        log_info("%s ended the conversation; the next request starts another",
                 b->peer == BRIDGE_SERVICE ? "The system service" : "Our own server");
        b->n_fruitless += b->calls.n > 0;
        if (b->input.is_overlong)
                r = drop_line(b, "A message is longer than any server takes. Send less at once.");
        return r < 0 ? r : settle_calls(b);
}

static int lead_to(Bridge *b, int fd, BridgePeer peer) {
        b->service_fd = fd;
        b->peer = peer;
        b->is_gone = b->is_stopping = b->has_shut_down = false;
        b->is_absent = peer != BRIDGE_SERVICE;
        return handshake_replay(&b->handshake);
}

static bool is_ping(const Bridge *b, const char **ret_id, size_t *ret_bytes) {
        return handshake_is_done(&b->handshake) && client_lines_has_method(&b->input, "\"ping\"") &&
               mcp_message_raw_id(b->input.bytes.data, b->input.n_first, ret_id, ret_bytes);
}

static bool is_time_to_look(const Bridge *b) {
        return b->peer == BRIDGE_STAND_IN && b->service_fd >= 0 && b->n_sent == 0 && !b->has_looked &&
               !b->input.is_overlong && now_monotonic_usec() >= b->next_look_usec &&
               (client_lines_is_call(&b->input) || client_lines_is_batch(&b->input));
}

/* A stand-in has carried out nothing, so what it has not answered yet can be sent to the next one. */
static int look(Bridge *b) {
        uint64_t start = now_monotonic_usec(), now;
        BridgePeer peer;
        int fd, r;

        fd = b->servers->look(b->servers->userdata, &peer);
        now = now_monotonic_usec();
        b->next_look_usec = now - start > LOOK_USEC ? now + LOOK_PAUSE_USEC : 0;
        b->has_looked = true;
        if (fd < 0)
                return 0;
        b->service_fd = safe_close(b->service_fd);
        buffer_done(&b->replies);
        handshake_lost(&b->handshake);
        r = settle_calls(b);
        if (r < 0) {
                (void) safe_close(fd);
                return r;
        }
        return lead_to(b, fd, peer);
}

/* Clients ask now and then whether we live, which is no reason to start a service that was stopped, nor to
 * tell that it cannot be reached. */
static int answer_ping(Bridge *b, const char *id, size_t n_bytes) {
        int r;

        r = buffer_printf(&b->to_client.buffer, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{}}\n",
                          (int) n_bytes, id);
        consume_line(b, b->input.n_first);
        return r;
}

/* Nobody takes these lines, not even a stand-in: each request among them is answered in its place. */
static int refuse_lines(Bridge *b, const char *reason) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = str_printf(&message, "The system service cannot be reached: %s. Send the request again when it "
                                 "can.", reason);
        while (r >= 0 && b->input.n_first > 0) {
                _cleanup_(pending_calls_done) PendingCalls calls = {};
                _cleanup_buffer_ Buffer none = BUFFER_INIT(0);

                r = pending_calls_sent(&calls, b->input.bytes.data, b->input.n_first);
                if (r >= 0)
                        r = pending_calls_end(&calls, message, &none, &b->to_client.buffer);
                consume_line(b, b->input.n_first);
        }
        return r >= 0 && b->input.is_overlong ? drop_line(b, message) : r;
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
        BridgePeer peer;
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
        if (r == 0) {
                log_info("Connected to the system service again");
                return lead_to(b, fd, BRIDGE_SERVICE);
        }
        b->is_absent = true;
        fd = b->servers->replace(b->servers->userdata, r, reason ?: strerror(-r), &peer);
        b->has_looked = true;
        return fd < 0 ? refuse_lines(b, reason ?: strerror(-r)) : lead_to(b, fd, peer);
}

/* Where the line that comes is what takes the memory, it is dropped; else what waits goes first. */
static int take_without_memory(Bridge *b) {
        if (b->input.n_first > 0 || b->input.is_overlong || b->input.bytes.n_bytes < CHUNK_BYTES)
                return -ENOMEM;
        log_oom();
        return drop_line(b, MCP_NO_MEMORY);
}

static int handle_client(Bridge *b, const struct pollfd *fds) {
        size_t n_before = b->input.bytes.n_bytes;
        ssize_t n;
        int r = 0;

        if (fds[POLL_STDIN].revents) {
                n = fill(&b->input.bytes, STDIN_FILENO);
                if (n == -ENOMEM)
                        r = take_without_memory(b);
                else if (n <= 0 && n != -EAGAIN)
                        input_ended(b);
                else
                        client_lines_added(&b->input, n_before);
        }
        if ((fds[POLL_STDOUT].revents & POLLOUT) && out_queue_flush(&b->to_client) < 0)
                b->exit_status = COMMAND_OK; /* the client is gone */
        else if (!(fds[POLL_STDOUT].revents & POLLOUT) &&
                 (fds[POLL_STDOUT].revents & (POLLERR | POLLHUP | POLLNVAL)))
                b->exit_status = COMMAND_OK;
        return r;
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
                size_t n_line = b->input.n_first > 0 ? b->input.n_first : b->input.bytes.n_bytes;
                ssize_t n = is_replay ? send_some(b, replay->data, replay->n_bytes) :
                                        send_some(b, b->input.bytes.data + b->n_sent, n_line - b->n_sent);

                if (n == 0)
                        return 0;
                if (n < 0) { /* what it said last is still there to be read, and then its end */
                        b->is_gone = true;
                        return 0;
                }
                if (is_replay) {
                        buffer_consume(replay, (size_t) n);
                        continue;
                }
                b->n_sent += (size_t) n;
                if (b->n_sent < n_line)
                        continue;
                if (!b->input.is_overlong) {
                        r = pending_calls_sent(&b->calls, b->input.bytes.data, n_line);
                        if (r >= 0)
                                r = handshake_sent(&b->handshake, b->input.bytes.data, n_line);
                }
                b->input.is_overlong = b->input.is_overlong && b->input.n_first == 0;
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
        b->n_fruitless = 0;
        request = pending_calls_find(&b->calls, line, n_bytes);
        r = request ? handshake_answered(&b->handshake, request, line, n_bytes) : 0;
        if (r < 0)
                return r;
        if (!pending_calls_answered(&b->calls, line, n_bytes))
                return out_queue_push(&b->to_client, line, n_bytes);
        b->is_stopping = true;
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
        if (b->input.has_ended && !b->has_shut_down && !b->is_gone && !b->is_stopping && !has_output(b)) {
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
        int r;

        if (is_time_to_look(b))
                return look(b);
        /* Which takes its time: the client hears first what was lost with the old one. */
        if (b->service_fd < 0 && !b->input.has_ended && out_queue_n_bytes(&b->to_client) == 0 &&
            (b->input.n_first > 0 || b->input.is_overlong))
                return is_ping(b, &id, &n_id) ? answer_ping(b, id, n_id) : reconnect(b);
        if (wants_replies(b))
                fds[POLL_SERVICE].events |= POLLIN;
        else if (!fds[POLL_SERVICE].events)
                fds[POLL_SERVICE].fd = -1; /* or a hang-up that we are not ready to read would spin */

        if (b->input.has_ended) {
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
        r = handle_client(b, fds);
        return r >= 0 && b->exit_status < 0 ? handle_service(b, fds) : r;
}

int bridge_run(int take_fd, BridgePeer peer, const char *path, const BridgeServers *servers) {
        _cleanup_close_ int signal_fd = -EBADF;
        Bridge b = { .path = path, .servers = servers, .exit_status = -1 };
        int r;

        assert(take_fd >= 0);
        assert(path);
        assert(servers);

        r = lead_to(&b, take_fd, peer);

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
        client_lines_done(&b.input);
        buffer_done(&b.replies);
        pending_calls_done(&b.calls);
        handshake_done(&b.handshake);
        return b.exit_status;
}
