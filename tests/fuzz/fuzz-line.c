/* SPDX-License-Identifier: MIT */

/* Any bytes to a client's end of newline framing: the same answers whether they come at once or in
 * pieces, whole lines, each an object or an array, and an end. */

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"
#include "mcp/mcp.h"
#include "transport/transport.h"

static int tools_list(void *userdata, McpVersion version, JsonWriter *w) {
        (void) userdata;
        (void) version;
        json_begin_array(w);
        json_end_array(w);
        return 0;
}

static bool tool_exists(void *userdata, const char *name) {
        (void) userdata;
        return streq(name, "t");
}

static int tool_call(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        (void) userdata;
        (void) name;
        (void) arguments;
        mcp_call_finish(call, "[]", NULL, false);
        return 0;
}

static void tool_cancel(void *userdata, void *tool_data) {
        (void) userdata;
        (void) tool_data;
}

static const McpToolOps tools = {
        .list = tools_list, .exists = tool_exists, .call = tool_call, .cancel = tool_cancel
};

static void on_closed(LineTransport *t, void *userdata) {
        bool *is_closed = userdata;

        (void) t;
        *is_closed = true;
}

static void receive(int fd, Buffer *b) {
        void *p = NULL;
        ssize_t n;

        do {
                FUZZ_CHECK(buffer_reserve(b, 4096, &p) == 0);
                n = recv(fd, p, 4096, MSG_DONTWAIT);
                if (n > 0)
                        buffer_commit(b, (size_t) n);
        } while (n > 0);
}

/* Everything that comes back for these bytes, sent n_piece at a time. */
static void converse(const uint8_t *data, size_t n_bytes, size_t n_piece, Buffer *b) {
        McpServerParameters parameters = { .name = "t", .title = "t", .version = "1", .tools = &tools };
        sd_event *event = NULL;
        McpServer *server = NULL;
        LineTransport *t = NULL;
        bool is_closed = false;
        int fds[2];

        FUZZ_CHECK(sd_event_new(&event) >= 0);
        FUZZ_CHECK(mcp_server_new(&parameters, &server) == 0);
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        FUZZ_CHECK(line_transport_new(&(LineTransportParameters) {
                                .event = event,
                                .server = server,
                                .principal = "p",
                                .input_fd = fds[1],
                                .output_fd = fds[1],
                                .on_closed = on_closed,
                                .userdata = &is_closed,
                        }, &t) == 0);
        for (size_t i = 0; i < n_bytes; i += n_piece) {
                FUZZ_CHECK(write(fds[0], data + i, MIN_OF(n_piece, n_bytes - i)) > 0);
                while (sd_event_run(event, 0) > 0)
                        ;
                receive(fds[0], b);
        }
        FUZZ_CHECK(shutdown(fds[0], SHUT_WR) == 0);
        for (unsigned i = 0; i < 1000 && !is_closed; i++) {
                (void) sd_event_run(event, 1000);
                receive(fds[0], b);
        }
        FUZZ_CHECK(is_closed);
        t = line_transport_free(t);
        (void) safe_close(fds[0]);
        server = mcp_server_free(server);
        event = sd_event_unref(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_buffer_ Buffer once = BUFFER_INIT(0), pieces = BUFFER_INIT(0);
        const char *line, *end;
        size_t n_piece;

        (void) signal(SIGPIPE, SIG_IGN);
        n_piece = 1 + fuzz_byte(&data, &n_bytes) % 64U;
        n_bytes = MIN_OF(n_bytes, (size_t) 16384); /* one write takes it */
        converse(data, n_bytes, MAX_OF(n_bytes, (size_t) 1), &once);
        converse(data, n_bytes, n_piece, &pieces);
        FUZZ_CHECK(once.n_bytes == pieces.n_bytes);
        FUZZ_CHECK(once.n_bytes == 0 || memcmp(once.data, pieces.data, once.n_bytes) == 0);

        for (line = once.data; once.n_bytes > 0 && line < once.data + once.n_bytes; line = end + 1) {
                end = memchr(line, '\n', once.n_bytes - (size_t) (line - once.data));
                FUZZ_CHECK(end);
                FUZZ_CHECK(json_check(line, (size_t) (end - line)) == 0);
        }
        return 0;
}
