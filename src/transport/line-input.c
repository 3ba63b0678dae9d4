/* SPDX-License-Identifier: MIT */

/* From bytes to messages: newline framing that survives whatever comes. */

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/line.h"

static const char too_long_text[] =
        "This message is longer than the server takes (12 MiB, whatever MaxCodeBytes= and "
        "MaxStdinBytes= say).";

/* As of RFC 8259 §2. */
static bool is_space(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void line_refuse(LineTransport *t, const char *text, size_t n_bytes, int code, const char *message) {
        _cleanup_buffer_ Buffer reply = BUFFER_INIT(64 * KIB);
        char fallback[MCP_NO_MEMORY_BYTES];
        int r;

        if (mcp_error_reply(text, n_bytes, code, message, &reply) >= 0)
                r = line_enqueue(t, reply.data, reply.n_bytes);
        else
                r = line_enqueue(t, fallback, mcp_no_memory_reply(text, n_bytes, fallback));
        if (r < 0)
                t->is_failed =
                        true; /* an unanswered request would hang its client: a closed connection does not */
}

/* The sink's finish() counts down, possibly before this returns. */
static void line_dispatch(LineTransport *t, const char *text, size_t n_bytes) {
        McpExchange *exchange = NULL;

        while (n_bytes > 0 && is_space(text[n_bytes - 1]))
                n_bytes--;
        while (n_bytes > 0 && is_space(text[0])) {
                text++;
                n_bytes--;
        }
        if (n_bytes == 0)
                return;

        t->n_in_flight++;
        if (mcp_peer_dispatch(t->peer, text, n_bytes, /* headers= */ NULL, &t->sink, &exchange) < 0) {
                t->n_in_flight--;
                line_refuse(t, text, n_bytes, MCP_ERROR_UNAVAILABLE, MCP_NO_MEMORY);
        }
}

static void skip_begin(LineTransport *t, int code, const char *message) {
        t->is_skipping = true;
        t->skip_code = code;
        t->skip_message = message;
        skipped_head(&t->skipped, t->in.data, t->in.n_bytes);
}

static void skip_end(LineTransport *t) {
        _cleanup_buffer_ Buffer reply = BUFFER_INIT(64 * KIB);
        char fallback[MCP_NO_MEMORY_BYTES];
        int r;

        t->is_skipping = false;
        if (skipped_error(&t->skipped, t->skip_code, t->skip_message, &reply) >= 0)
                r = line_enqueue(t, reply.data, reply.n_bytes);
        else
                r = line_enqueue(t, fallback,
                                 mcp_no_memory_reply(t->skipped.id.data, t->skipped.id.n_bytes, fallback));
        if (r < 0)
                t->is_failed = true;
        skipped_done(&t->skipped);
}

/* Everything in memory belongs to a message too long to keep. */
static void skip_all(LineTransport *t) {
        skipped_push(&t->skipped, t->in.data, t->in.n_bytes);
        buffer_done(&t->in);
        t->n_scanned = 0;
}

/* Without memory the beginning of a message, which is what is kept, has to go. */
static int reserve_input(LineTransport *t, void **ret, size_t *ret_bytes) {
        /* The newline may stand behind a message of the full length. */
        t->in.max_bytes = LINE_BYTES_MAX + 2 * LINE_READ_BYTES;
        *ret_bytes = LINE_READ_BYTES;
        if (buffer_reserve(&t->in, *ret_bytes, ret) >= 0)
                return 0;
        if (t->in.n_bytes > 0) {
                if (!t->is_skipping)
                        skip_begin(t, MCP_ERROR_UNAVAILABLE, MCP_NO_MEMORY);
                skip_all(t);
        }
        *ret_bytes = LINE_READ_BYTES_MIN;
        return buffer_reserve(&t->in, *ret_bytes, ret);
}

void line_input_read(LineTransport *t) {
        void *p = NULL;
        size_t n_bytes;
        ssize_t n;
        int r;

        r = reserve_input(t, &p, &n_bytes);
        if (r < 0) {
                (void) log_debug_errno(r, "Cannot read from a client");
                t->is_failed = true;
                return;
        }

        n = read(t->p.input_fd, p, n_bytes);
        if (n < 0) {
                if (errno == EAGAIN || errno == EINTR)
                        return;
                /* A terminal that hung up says EIO, a closed connection with unread data ECONNRESET. */
                t->is_input_ended = true;
                return;
        }
        if (n == 0) {
                if (t->is_shut)
                        t->is_drained = true;
                else
                        t->is_input_ended = true;
                return;
        }
        buffer_commit(&t->in, (size_t) n);
        line_charge(t);
}

/* A piece of a message without its end: keep it while it fits. */
static void line_input_limit(LineTransport *t) {
        const MemoryBudget *budget = t->p.budget;

        if (t->is_skipping) {
                skip_all(t);
                return;
        }
        if (t->in.n_bytes > LINE_BYTES_MAX)
                skip_begin(t, MCP_ERROR_INVALID_REQUEST,
                           too_long_text);
        else if (budget && budget->used_bytes > budget->max_bytes && t->in.n_bytes > LINE_READ_BYTES)
                skip_begin(t, MCP_ERROR_UNAVAILABLE,
                           "The server is busy with other large messages; try again in a moment.");
        else
                return;
        skip_all(t);
}

void line_input_process(LineTransport *t) {
        t->has_line = false;

        for (unsigned i = 0; i < LINE_MESSAGES_PER_TURN && !t->is_failed; i++) {
                const char *newline;
                size_t n_line;

                newline = t->in.n_bytes > t->n_scanned
                          ? memchr(t->in.data + t->n_scanned, '\n', t->in.n_bytes - t->n_scanned) : NULL;
                if (!newline) {
                        t->n_scanned = t->in.n_bytes;
                        line_input_limit(t);
                        if (t->in.n_bytes == 0)
                                buffer_done(&t->in); /* a big message leaves no big allocation behind */
                        line_charge(t);
                        return;
                }
                if (line_is_congested(t))
                        break;

                n_line = (size_t) (newline - t->in.data);
                if (t->is_skipping) {
                        skipped_push(&t->skipped, t->in.data, n_line);
                        skip_end(t);
                } else if (n_line > LINE_BYTES_MAX)
                        line_refuse(t, t->in.data, n_line, MCP_ERROR_INVALID_REQUEST,
                                    too_long_text);
                else
                        line_dispatch(t, t->in.data, n_line);
                buffer_consume(&t->in, n_line + 1);
                t->n_scanned = 0;
        }
        t->has_line = true;
        line_charge(t);
}

void line_input_finish(LineTransport *t) {
        if (t->is_skipping)
                skip_end(t);
        else if (t->in.n_bytes > 0)
                line_dispatch(t, t->in.data, t->in.n_bytes);
        buffer_done(&t->in);
        t->n_scanned = 0;
        line_charge(t);
}
