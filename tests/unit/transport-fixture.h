/* SPDX-License-Identifier: MIT */
#pragma once

/* An event loop, the real protocol engine, and tools that do what a test tells them: "now" answers at once,
 * "wait" when the test says so (or never), "big" when the test says so, with a megabyte. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/settings.h"
#include "base/timeutil.h"
#include "mcp/mcp.h"
#include "test.h"
#include "transport/transport.h"

#define CALLS_MAX 64

typedef struct Fixture {
        sd_event *event;
        McpServer *server;
        McpCall *calls[CALLS_MAX]; /* waiting */
        bool is_big[CALLS_MAX];
        unsigned n_waiting, n_cancelled, n_closed;
} Fixture;

static int tools_list(void *userdata, McpVersion version, JsonWriter *w) {
        (void) userdata;
        (void) version;
        json_begin_array(w);
        json_end_array(w);
        return 0;
}

static bool tool_exists(void *userdata, const char *name) {
        (void) userdata;
        return streq(name, "now") || streq(name, "wait") || streq(name, "big");
}

static int tool_call(void *userdata, const char *name, const JsonValue *arguments, McpCall *call) {
        Fixture *f = userdata;

        (void) arguments;
        if (streq(name, "now")) {
                mcp_call_finish(call, "[]", NULL, false);
                return 0;
        }
        for (unsigned i = 0; i < CALLS_MAX; i++)
                if (!f->calls[i]) {
                        f->calls[i] = call;
                        f->is_big[i] = streq(name, "big");
                        f->n_waiting++;
                        mcp_call_set_data(call, &f->calls[i]);
                        return 0;
                }
        return -ENOMEM;
}

static void tool_cancel(void *userdata, void *tool_data) {
        Fixture *f = userdata;
        McpCall **slot = tool_data;

        *slot = NULL;
        f->n_waiting--;
        f->n_cancelled++;
}

static const McpToolOps fixture_tools = {
        .list = tools_list,
        .exists = tool_exists,
        .call = tool_call,
        .cancel = tool_cancel,
};

/* Answers every call that waits. */
__attribute__((__unused__)) static void fixture_release(Fixture *f) {
        for (unsigned i = 0; i < CALLS_MAX; i++) {
                McpCall *call = TAKE_PTR(f->calls[i]);
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                if (!call)
                        continue;
                f->n_waiting--;
                if (!f->is_big[i]) {
                        mcp_call_finish(call, "[]", NULL, false);
                        continue;
                }
                (void) buffer_append_str(&b, "[\"");
                for (unsigned k = 0; k < 1024; k++)
                        (void) buffer_printf(&b, "%01024u", k);
                (void) buffer_append_str(&b, "\"]");
                mcp_call_finish(call, b.data, NULL, false);
        }
}

static inline void fixture_init(Fixture *f) {
        *f = (Fixture) {};
        (void) signal(SIGPIPE, SIG_IGN);
        ASSERT_TRUE(sd_event_new(&f->event) >= 0);
        ASSERT_EQ_INT(mcp_server_new(&(McpServerParameters) {
                                .name = "test",
                                .title = "Test",
                                .version = "1",
                                .tools = &fixture_tools,
                                .tools_userdata = f,
                        }, &f->server), 0);
}

static inline void fixture_done(Fixture *f) {
        f->server = mcp_server_free(f->server);
        f->event = sd_event_unref(f->event);
}

/* Runs the loop for as long as there is something to do at once. Returns the number of rounds. */
static unsigned fixture_run(Fixture *f) {
        unsigned n = 0;

        while (n < 100000 && sd_event_run(f->event, 0) > 0)
                n++;
        ASSERT_TRUE(n < 100000);
        return n;
}

/* Runs the loop, timers too, until *value is not zero. */
__attribute__((__unused__)) static void fixture_wait(Fixture *f, const unsigned *value, unsigned at_least) {
        uint64_t deadline = now_monotonic_usec() + 20 * USEC_PER_SEC;

        while (*value < at_least) {
                ASSERT_TRUE(now_monotonic_usec() < deadline);
                (void) sd_event_run(f->event, 100 * USEC_PER_MSEC);
        }
}

/* Sends everything, running the loop whenever the other end must read first. */
static void fixture_send(Fixture *f, int fd, const void *data, size_t n_bytes) {
        const char *p = data;

        while (n_bytes > 0) {
                ssize_t n = write(fd, p, n_bytes);

                if (n < 0) {
                        ASSERT_EQ_INT(errno, EAGAIN);
                        (void) sd_event_run(f->event, USEC_PER_SEC);
                        continue;
                }
                p += n;
                n_bytes -= (size_t) n;
        }
        (void) fixture_run(f);
}

__attribute__((__unused__)) static void fixture_send_str(Fixture *f, int fd, const char *s) {
        fixture_send(f, fd, s, strlen(s));
}

/* What has arrived, appended to b; false at the end of the stream. */
__attribute__((__unused__)) static bool fixture_receive(Fixture *f, int fd, Buffer *b) {
        for (;;) {
                void *p = NULL;
                ssize_t n;

                (void) fixture_run(f);
                ASSERT_EQ_INT(buffer_reserve(b, 65536, &p), 0);
                n = read(fd, p, 65536);
                if (n < 0) {
                        if (errno == ECONNRESET)
                                return false;
                        ASSERT_EQ_INT(errno, EAGAIN);
                        return true;
                }
                if (n == 0)
                        return false;
                buffer_commit(b, (size_t) n);
        }
}

__attribute__((__unused__)) static size_t count(const Buffer *b, char c) {
        size_t n = 0;

        for (size_t i = 0; i < b->n_bytes; i++)
                n += b->data[i] == c;
        return n;
}
