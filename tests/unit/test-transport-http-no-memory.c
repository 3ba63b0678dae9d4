/* SPDX-License-Identifier: MIT */

/* HTTP without memory: each kind of request is made again and again, while the first allocation of the
 * whole process fails, then the second, and so on, the libraries' own among them: that one only, or that one
 * and all after it. Every time the client gets its answer or a 503 that says why not, none is left with a
 * closed connection and nothing else, nothing is leaked, and the next request is served. */

#include <stdlib.h>

#include "base/log.h"
#include "http-fixture.h"
#include "no-memory.h"
#include "transport/http.h"

#if defined(IS_SANITIZED)
TEST(every_request_is_answered_whichever_allocation_fails) {
        SKIP("the allocators are the sanitizer's");
}
#else

#define LINE "POST /mcp HTTP/1.1\r\n" H J
#define BIG_BYTES ((size_t) 300 * 1024)

typedef struct Scenario {
        const char *head;  /* without Content-Length where there is a body */
        const char *body;
        bool is_big;       /* BIG_BYTES of blanks more */
        const char *right; /* in the answer when all is well */
} Scenario;

#define SSE "Accept: text/event-stream\r\n"
#define JSON "Accept: application/json\r\n"

static const Scenario scenarios[] = {
        { LINE, PING, false, PONG },
        { LINE JSON SSE, CALL("now"), false, RESULT },
        { LINE, CALL("wait"), false, RESULT },
        { LINE JSON, CALL("big"), false, "[\"" },
        { LINE SSE, CALL("wait"), false, RESULT },
        { LINE MODERN, CALL_MODERN("wait", ",\"progressToken\":5"), false, "\"id\":1,\"result\":" },
        { LINE "Transfer-Encoding: chunked\r\n\r\n28\r\n" PING "\r\n0\r\n\r\n", NULL, false, PONG },
        { LINE, PING, true, PONG },
        { LINE, "[" PING "]", false, "[" PONG "]" },
        { LINE, INITIALIZE, false, "\"protocolVersion\":\"2025-06-18\"" },
        { "POST /mcp HTTP/1.1\r\n" H "Content-Type: text/plain\r\n", PING, false, "\"code\":-31000" },
        { "GET /nothing HTTP/1.1\r\n" H "\r\n", NULL, false, "not_found" },
        { "GET /sse HTTP/1.1\r\n" H "\r\n", NULL, false,
          "event: endpoint\ndata: /messages?sessionId=" },
        { "no request\r\n\r\n", NULL, false, "\"code\":-31000" },
};

static char reply[2 * MIB];
static size_t n_reply;

/* Whether the client need not wait any more. */
static bool is_complete(const Scenario *s) {
        const char *body, *length;

        reply[n_reply] = '\0';
        body = strstr(reply, "\r\n\r\n");
        if (!body || s->head[0] == '\0')
                return strstr(reply, s->right);
        length = strstr(reply, "Content-Length: ");
        if (length && length < body)
                return n_reply == (size_t) (body + 4 - reply) + strtoul(strchr(length, ' '), NULL, 10);
        return strstr(body, s->right) || strstr(body, "\"code\":-31001");
}

/* One round of the loop with the fault, whatever it makes of it, and what then came. */
static bool step(Http *h, int fd) {
        ssize_t n;

        if (sd_event_run(h->f.event, USEC_PER_MSEC) < 0) {
                (void) fault_end();
                FAIL("the daemon would end");
        }
        n = recv(fd, reply + n_reply, sizeof(reply) - 1 - n_reply, MSG_DONTWAIT);
        if (n > 0)
                n_reply += (size_t) n;
        return n > 0 || (n < 0 && errno == EAGAIN);
}

/* As fixture_release() does, but without any memory of its own. */
static void answer(Fixture *f) {
        static char big[MIB + 8];

        if (big[0] == '\0') {
                memset(big, '0', sizeof(big) - 1);
                memcpy(big, "[\"", 2);
                memcpy(big + sizeof(big) - 3, "\"]", 2);
        }
        for (unsigned i = 0; i < CALLS_MAX; i++) {
                McpCall *call = TAKE_PTR(f->calls[i]);

                if (!call)
                        continue;
                f->n_waiting--;
                mcp_call_finish(call, f->is_big[i] ? big : "[]", NULL, /* is_error= */ false);
        }
}

/* Nothing here allocates but the server. */
static void ask(Http *h, int fd, const Scenario *s) {
        static char blanks[BIG_BYTES];
        char request[1024];
        const char *parts[] = { request, blanks };
        size_t n_parts[] = { 0, s->is_big ? sizeof(blanks) : 0 };
        uint64_t deadline = now_monotonic_usec() + 20 * USEC_PER_SEC;
        bool is_open = true;

        memset(blanks, ' ', sizeof(blanks));
        n_reply = 0;
        if (s->body)
                (void) snprintf(request, sizeof(request), "%sContent-Length: %zu\r\n\r\n%s", s->head,
                                strlen(s->body) + n_parts[1], s->body);
        else
                (void) snprintf(request, sizeof(request), "%s", s->head);
        n_parts[0] = strlen(request);
        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                for (size_t n_sent = 0; n_sent < n_parts[i] && is_open;) {
                        ssize_t n = send(fd, parts[i] + n_sent, n_parts[i] - n_sent, MSG_NOSIGNAL);

                        if (n > 0)
                                n_sent += (size_t) n;
                        is_open = step(h, fd);
                }
        while (is_open && !is_complete(s)) {
                if (now_monotonic_usec() > deadline) {
                        (void) fault_end();
                        FAIL("no answer, but \"%s\"", reply);
                }
                if (h->f.n_waiting > 0)
                        answer(&h->f);
                is_open = step(h, fd);
        }
        reply[n_reply] = '\0';
}

static unsigned n_right, n_refused;

static void judge(const Scenario *s) {
        if (strstr(reply, s->right) && !strstr(reply, "-31001")) {
                n_right++;
                return;
        }
        /* An event stream has told its status before, a batch has one for all of its answers. */
        if (strncmp(reply, "HTTP/1.1 503 ", 13) != 0 && !strstr(reply, "text/event-stream") &&
            !strstr(reply, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":"))
                FAIL("neither answered nor refused: \"%.300s\"", reply);
        ASSERT_CONTAINS(reply, "\"error\":{\"code\":-31001,\"message\":\"The server is out of memory; ");
        n_refused++;
}

/* Returns whether there was an allocation left to fail. */
static bool fails_well(const Scenario *s, unsigned n, bool is_for_good, bool is_second) {
        static const Scenario ping = { LINE, PING, false, PONG };
        long n_live = fault.n_live;
        bool has_failed;
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        if (is_second)
                ask(&h, fd, &ping);
        else /* the loop has what it needs for a connection */
                for (unsigned i = 0; i < 2; i++) {
                        int other = http_connect(&h);

                        ask(&h, other, &ping);
                        (void) safe_close(other);
                        (void) fixture_run(&h.f);
                }

        fault_begin(n, is_for_good);
        ask(&h, fd, s);
        has_failed = fault_end();
        judge(s);
        (void) safe_close(fd);
        (void) fixture_run(&h.f);

        fd = http_connect(&h);
        ask(&h, fd, &ping);
        ASSERT_CONTAINS(reply, PONG);
        (void) safe_close(fd);
        for (unsigned i = 0; i < 1000 && listener_n_connections(h.listener) > 0; i++)
                (void) sd_event_run(h.f.event, 10 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        ASSERT_EQ_UINT(h.f.n_waiting, 0);
        http_done(&h);
        if (n > 0 || is_for_good || is_second) /* the very first round makes what stays */
                ASSERT_EQ_INT(fault.n_live, n_live);
        return has_failed;
}

static void check_all(bool is_for_good, bool is_second) {
        log_open("test", LOG_ERR);
        for (size_t i = 0; i < ELEMENTSOF(scenarios); i++) {
                unsigned n = 0;

                if (is_second && i == ELEMENTSOF(scenarios) - 1)
                        break; /* the library's business, which has its own words for it */
                n_right = n_refused = 0;
                while (fails_well(&scenarios[i], n, is_for_good, is_second))
                        n++;
                printf("# %zu: %u allocations, %u answered, %u refused\n", i, n, n_right, n_refused);
                ASSERT_TRUE(n >= 2);
                ASSERT_TRUE(n_right >= 1);
                ASSERT_TRUE(n_refused >= 1);
        }
}

TEST(every_request_is_answered_whichever_allocation_fails) {
        check_all(/* is_for_good= */ false, /* is_second= */ false);
}

TEST(every_request_is_answered_when_memory_ends_at_any_point_of_it) {
        check_all(/* is_for_good= */ true, /* is_second= */ false);
}

TEST(so_is_a_later_request_of_a_connection) {
        check_all(/* is_for_good= */ true, /* is_second= */ true);
}

/* What was accepted is answered in the stream; what was not, nowhere else. */
TEST(message_to_a_stream_is_accepted_and_answered_or_refused) {
        static const Scenario open = { "GET /sse HTTP/1.1\r\n" H "\r\n", NULL, false, "sessionId=" };
        unsigned n = 0, n_accepted = 0;
        bool has_failed = true;
        Http h;

        log_open("test", LOG_ERR);
        for (; has_failed; n++) {
                char head[256], id[33] = {};
                const Scenario post = { head, PING, false, "Accepted" };
                int stream, fd;

                http_init(&h, true, NULL);
                stream = http_connect(&h);
                ask(&h, stream, &open);
                (void) snprintf(id, sizeof(id), "%s", strstr(reply, "sessionId=") + strlen("sessionId="));
                (void) snprintf(head, sizeof(head), "POST /messages?sessionId=%s HTTP/1.1\r\n" H J, id);
                fd = http_connect(&h);
                (void) fixture_run(&h.f);
                fault_begin(n, /* is_for_good= */ true);
                ask(&h, fd, &post);
                has_failed = fault_end();
                if (!strstr(reply, "HTTP/1.1 202 ")) {
                        ASSERT_CONTAINS(reply, "HTTP/1.1 503 ");
                        ASSERT_CONTAINS(reply, "\"error\":{\"code\":-31001,\"message\":\"The server is ");
                        n_reply = 0;
                        for (unsigned i = 0; i < 10; i++)
                                ASSERT_TRUE(step(&h, stream));
                        ASSERT_EQ_UINT(n_reply, 0);
                } else {
                        const Scenario said = { "", NULL, false, "\n\n" };

                        ask(&h, stream, &said);
                        if (!strstr(reply, PONG))
                                ASSERT_CONTAINS(reply, "\"id\":1,\"error\":{\"code\":-31001,");
                        n_accepted++;
                }
                (void) safe_close(stream);
                (void) safe_close(fd);
                http_done(&h);
        }
        printf("# %u allocations, %u accepted\n", n - 1, n_accepted);
        ASSERT_TRUE(n_accepted >= 2 && n_accepted < n - 1);
}

/* A source that waits for its turn, and never gets it. */
static int hold(Http *h, sd_event_source **ret) {
        int r;

        r = sd_event_add_defer(h->f.event, ret, NULL, NULL);
        return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

/* libsystemd has room for all that it watches, and in the queue of those who wait for their turn for nobody
 * more. Returns how many hold its places. */
static size_t fill_queue(Http *h, sd_event_source **sources, size_t n_max) {
        size_t n = 0;
        int r = 0;

        while (r >= 0 && n < n_max) {
                fault_begin(1, /* is_for_good= */ true); /* after the source itself */
                r = hold(h, &sources[n]);
                (void) fault_end();
                n += r >= 0;
        }
        ASSERT_EQ_INT(r, -ENOMEM);
        return n;
}

TEST(request_is_answered_that_came_in_a_turn_without_memory) {
        const Scenario ping = { LINE, PING, false, PONG }, rest = { "", NULL, false, PONG };
        sd_event_source *sources[1024];
        size_t n = 0;
        int fd, r;
        Http h;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        ask(&h, fd, &ping);
        for (; n < 200; n++)
                ASSERT_TRUE(hold(&h, &sources[n]) >= 0);
        (void) fixture_run(&h.f);
        n += fill_queue(&h, &sources[n], ELEMENTSOF(sources) - n);

        ASSERT_EQ_INT(send(fd, LINE BODY, strlen(LINE BODY), MSG_NOSIGNAL), (ssize_t) strlen(LINE BODY));
        fault_begin(0, /* is_for_good= */ true);
        r = sd_event_run(h.f.event, 20 * USEC_PER_SEC);
        ASSERT_TRUE(fault_end());
        ASSERT_EQ_INT(r, -ENOMEM);
        while (n > 0)
                (void) sd_event_source_unref(sources[--n]);

        listener_rearm(h.listener);
        ask(&h, fd, &rest);
        ASSERT_CONTAINS(reply, PONG);
        (void) safe_close(fd);
        http_done(&h);
}
#endif
