/* SPDX-License-Identifier: MIT */

/* Newline framing without memory: each message is sent again and again while the first allocation of the
 * whole process fails, then the second, and so on. Every time it is answered or refused under its id, and
 * the connection serves the next one. */

#include "base/log.h"
#include "no-memory.h"
#include "transport-fixture.h"

#if defined(IS_SANITIZED)
TEST(every_message_is_answered_whichever_allocation_fails) {
        SKIP("the allocators are the sanitizer's");
}
#else

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}\n"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}\n"
#define REFUSED(id) \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":-31001,\"message\":\"The server is out of " \
        "memory; try again later.\"}}\n"
/* Longer than what is left from the answer before it. */
#define FIFTY "12345678901234567890123456789012345678901234567890"
#define LONG_ID "\"" FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY "\""
#define BIG_BYTES ((size_t) 300 * 1024)

static char message[BIG_BYTES + 256], reply[64 * KIB];
static size_t n_reply;

static void on_closed(LineTransport *t, void *userdata) {
        unsigned *n = userdata;

        (void) t;
        (*n)++;
}

/* Sends text and runs the loop until a line has come, or the connection is over. */
static void ask(Fixture *f, int fd, const char *text) {
        size_t n_bytes = strlen(text), n_sent = 0;
        uint64_t deadline = now_monotonic_usec() + 20 * USEC_PER_SEC;

        n_reply = 0;
        while ((n_reply == 0 || reply[n_reply - 1] != '\n') && f->n_closed == 0) {
                ssize_t n = send(fd, text + n_sent, n_bytes - n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n > 0)
                        n_sent += (size_t) n;
                if (sd_event_run(f->event, USEC_PER_MSEC) < 0 || now_monotonic_usec() > deadline) {
                        (void) fault_end();
                        FAIL("no answer");
                }
                n = recv(fd, reply + n_reply, sizeof(reply) - 1 - n_reply, MSG_DONTWAIT);
                if (n > 0)
                        n_reply += (size_t) n;
        }
        reply[n_reply] = '\0';
}

static unsigned n_right, n_refused;

static bool fails_well(const char *text, const char *right, const char *refused, unsigned n) {
        LineTransport *t = NULL;
        bool has_failed;
        Fixture f;
        int fds[2];

        fixture_init(&f);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        ASSERT_EQ_INT(line_transport_new(&(LineTransportParameters) {
                                .event = f.event,
                                .server = f.server,
                                .principal = "uid:1",
                                .input_fd = fds[0],
                                .output_fd = fds[0],
                                .on_closed = on_closed,
                                .userdata = &f.n_closed,
                        }, &t), 0);
        ask(&f, fds[1], PING("1"));
        ASSERT_EQ_STR(reply, PONG("1"));

        fault_begin(n, /* is_for_good= */ false);
        ask(&f, fds[1], text);
        has_failed = fault_end();
        n_right += streq(reply, right);
        n_refused += streq(reply, refused);
        if (!streq(reply, right))
                ASSERT_EQ_STR(reply, refused);

        ask(&f, fds[1], PING("2"));
        ASSERT_EQ_STR(reply, PONG("2"));
        ASSERT_EQ_UINT(f.n_closed, 0);
        line_transport_free(t);
        (void) safe_close(fds[1]);
        fixture_done(&f);
        return has_failed;
}

static void check(const char *text, const char *right, const char *refused) {
        unsigned n = 0;

        log_open("test", LOG_ERR);
        n_right = n_refused = 0;
        while (fails_well(text, right, refused, n))
                n++;
        printf("# %u allocations, %u answered, %u refused\n", n, n_right, n_refused);
        ASSERT_TRUE(n_right >= 2);
        ASSERT_TRUE(n_refused >= 2);
        ASSERT_EQ_UINT(n_right + n_refused, n + 1);
}

TEST(every_message_is_answered_whichever_allocation_fails) {
        check(PING("7"), PONG("7"), REFUSED("7"));
        check(PING(LONG_ID), PONG(LONG_ID), REFUSED(LONG_ID));
        check("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"now\"}}\n",
              "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}\n", REFUSED("7"));
}

TEST(long_message_that_finds_no_memory_is_refused_under_its_id) {
        static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"",
                          end[] = "\"}}\n";

        memset(message, 'x', sizeof(message));
        memcpy(message, begin, sizeof(begin) - 1);
        memcpy(message + BIG_BYTES, end, sizeof(end));
        check(message, PONG("7"), REFUSED("7"));

        /* The id at the end of it. */
        (void) snprintf(message, sizeof(message),
                        "{\"a\":\"%0*d\",\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":7}\n",
                        (int) BIG_BYTES, 0);
        check(message, PONG("7"), REFUSED("7"));
}
#endif
