/* SPDX-License-Identifier: MIT */
#pragma once

/* LineTransport: its insides, shared by line.c (events and life) and line-input.c (bytes to messages). */

#include "base/buffer.h"
#include "transport/listener.h"
#include "transport/skipped.h"
#include "transport/transport.h"

/* More waiting than this and the peer is not read from until it has read some of it. */
#define LINE_OUTPUT_HIGH_BYTES MIB
/* More than this and it is disconnected: it asks and does not listen. */
#define LINE_OUTPUT_BYTES_MAX (32 * MIB)
/* What one connection may do before the others have their turn. */
#define LINE_READ_BYTES (64 * KIB)
#define LINE_READ_BYTES_MIN (4 * KIB) /* when there is no memory for that */
#define LINE_MESSAGES_PER_TURN 64
#define LINE_WRITE_BYTES_PER_TURN (256 * KIB)
/* After the end of input, how long a reader may take for the answers that are ready. */
#define LINE_FLUSH_USEC USEC_PER_SEC

struct LineTransport {
        LineTransportParameters p;
        char *principal;
        McpSink sink;  /* one for all messages: they share the output queue */
        McpPeer *peer; /* NULL once nothing more will be dispatched */

        Buffer in, out;
        size_t n_scanned; /* bytes of in known to hold no newline */
        SkippedMessage skipped;
        size_t charged_bytes; /* to the budget */

        sd_event_source *input_source, *output_source; /* one source, input_source, when both are one fd */
        sd_event_source *turn_source;
        sd_event_source *flush_source;
        int input_flags, output_flags; /* of fds 0..2, to restore; -1: untouched */

        uint64_t n_written, n_written_at_check; /* bytes; is the reader still reading? */
        size_t n_in_flight;
        bool is_skipping; /* a message too long to keep */
        int skip_code;
        const char *skip_message;
        bool is_input_ended, is_failed, is_draining;
        bool is_shut, is_drained; /* at the end of a drain: input ends by our will; it has ended */
        bool is_in_turn; /* what is queued now is written at the end of the turn */
        bool has_line; /* in holds a whole line that had no turn yet */
        bool is_closed;
};

static inline bool line_is_one_fd(const LineTransport *t) {
        return t->p.input_fd == t->p.output_fd;
}

static inline bool line_is_congested(const LineTransport *t) {
        return t->out.n_bytes > LINE_OUTPUT_HIGH_BYTES;
}

/* Queues one message and its newline. Returns 0 or -errno, after which the transport is on its way out. */
int line_enqueue(LineTransport *t, const char *json, size_t n_bytes);

/* Reads once. End of input and errors end up in is_input_ended. */
void line_input_read(LineTransport *t);

/* Dispatches the lines in memory, some of them; has_line tells whether there are more. */
void line_input_process(LineTransport *t);

/* What stands after the last newline once the input has ended. */
void line_input_finish(LineTransport *t);

/* Brings the budget up to date with the memory held. */
void line_charge(LineTransport *t);
