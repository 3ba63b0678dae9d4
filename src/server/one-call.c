/* SPDX-License-Identifier: MIT */

#include "server/one-call.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/timeutil.h"

#define REPLY_BYTES_MAX (16 * MIB)

static int send_all(int fd, const char *data, size_t n_bytes) {
        while (n_bytes > 0) {
                ssize_t n = send(fd, data, n_bytes, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                n_bytes -= (size_t) n;
        }
        return 0;
}

/* Returns 1 when this line is the reply. */
static int take_line(const OneCall *c, const char *line, size_t n_bytes, JsonValue **ret) {
        _cleanup_json_ JsonValue *message = NULL;
        const char *text;
        int64_t id = 0;
        int r;

        r = json_parse(line, n_bytes, &message);
        if (r != 0)
                return r < 0 ? r : 0;
        if (json_member(message, "method")) {
                if (c->on_progress &&
                    json_get_string(json_member(json_member(message, "params"), "message"), &text, NULL))
                        c->on_progress(text);
                return 0;
        }
        if (!json_member(message, "error") &&
            !(json_get_integer(json_member(message, "id"), &id) && id == CLIENT_CALL_ID))
                return 0;
        *ret = TAKE_PTR(message);
        return 1;
}

static int read_reply(int fd, const OneCall *c, JsonValue **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(REPLY_BYTES_MAX);
        uint64_t end = c->timeout_usec > 0 ? now_monotonic_usec() + c->timeout_usec : UINT64_MAX;

        for (;;) {
                const char *newline = b.n_bytes > 0 ? memchr(b.data, '\n', b.n_bytes) : NULL;
                struct pollfd p = { .fd = fd, .events = POLLIN };
                char chunk[4096];
                ssize_t n;
                int r;

                if (newline) {
                        size_t n_line = (size_t) (newline - b.data);

                        r = take_line(c, b.data, n_line, ret);
                        if (r != 0)
                                return r;
                        buffer_consume(&b, n_line + 1);
                        continue;
                }
                if (now_monotonic_usec() >= end)
                        return 0;
                if (poll(&p, 1, 1000) <= 0)
                        continue;
                n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (n <= 0)
                        return 0;
                r = buffer_append(&b, chunk, (size_t) n);
                if (r < 0)
                        return r;
        }
}

int one_call(int fd, const OneCall *c, JsonValue **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        assert(fd >= 0);
        assert(c);
        assert(ret);

        r = client_call_write(&c->call, &b);
        if (r < 0)
                return r;
        if (send_all(fd, b.data, b.n_bytes) < 0)
                return 0; /* gone already: no answer */
        return read_reply(fd, c, ret);
}
