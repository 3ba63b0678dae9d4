/* SPDX-License-Identifier: MIT */

/* Between client and library: what is malformed gets an answer that a client can read, whenever it comes,
 * after all that is due before it. */

#include "http-fixture.h"
#include "transport/http-connection.h"
#include "transport/http-request.h"

#define LINE "POST /mcp HTTP/1.1\r\n"
#define CHUNKED LINE H J "Transfer-Encoding: chunked\r\n\r\n"

/* Until the server ends the connection. */
static void read_to_end(Http *h, int fd, Buffer *b) {
        bool is_open = true;

        for (unsigned i = 0; i < 100 && is_open; i++)
                is_open = settle(h, fd, b);
        ASSERT_FALSE(is_open);
}

/* How often something stands in a reply. */
static unsigned n_times(const Buffer *b, const char *what) {
        unsigned n = 0;

        for (const char *p = b->data; p && (p = strstr(p, what)); p++)
                n++;
        return n;
}

/* Nothing of the connection is left. */
static void hang_up(Http *h, int fd) {
        (void) safe_close(fd);
        (void) fixture_run(&h->f);
        ASSERT_EQ_UINT(listener_n_connections(h->listener), 0);
}

/* The last thing that comes, after n_before answers, and the end. */
static void expect_refusal(Http *h, int fd, Buffer *b, unsigned n_before, const char *status,
                           const char *message) {
        _cleanup_buffer_ Buffer body = BUFFER_INIT(0);

        read_to_end(h, fd, b);
        ASSERT_EQ_INT(buffer_printf(&body,
                                    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,\"message\":\"%s\"}}",
                                    message), 0);
        ASSERT_EQ_UINT(n_times(b, "Content-Length: "), n_before + 1);
        ASSERT_CONTAINS(b->data, status);
        ASSERT_TRUE(b->n_bytes > body.n_bytes);
        ASSERT_EQ_STR(b->data + b->n_bytes - body.n_bytes, body.data);
        ASSERT_EQ_UINT(n_times(b, "html"), 0);
        hang_up(h, fd);
}

/* The whole reply to what is not even a request: the status, an end, and a body that a client can read. */
TEST(bad_first_head_gets_a_json_rpc_error_and_the_end_of_its_connection) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, "POST /mcp HTTP/2.0\r\n" H J BODY);
        read_to_end(&h, fd, &b);
        ASSERT_EQ_STR(b.data, "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                              "Content-Length: 97\r\n\r\n"
                              "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,\"message\":"
                              "\"Only HTTP/1.1 and HTTP/1.0 are spoken here.\"}}");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 1); /* until the client goes, or some seconds */
        hang_up(&h, fd);

        /* What is still on its way does not reset the answer away. */
        ASSERT_EQ_INT(buffer_append_str(&request, "POST /"), 0);
        for (unsigned i = 0; i < 3000; i++)
                ASSERT_EQ_INT(buffer_append_str(&request, "0123456789abcdef0123456789abcdef"), 0);
        fd = http_connect(&h);
        fixture_send(&h.f, fd, request.data, request.n_bytes);
        buffer_consume(&b, b.n_bytes);
        read_to_end(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 414 ");
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(half_a_head_and_the_end_is_told_too) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, LINE H);
        ASSERT_TRUE(settle(&h, fd, &b));
        ASSERT_EQ_UINT(b.n_bytes, 0);
        ASSERT_EQ_INT(shutdown(fd, SHUT_WR), 0);
        read_to_end(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 400 ");
        ASSERT_CONTAINS(b.data, "The request ends within its head.");
        hang_up(&h, fd);
        http_done(&h);
}

TEST(request_by_single_bytes_is_answered) {
        static const char request[] = LINE H J BODY;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        for (size_t i = 0; i < sizeof(request) - 1; i++)
                fixture_send(&h.f, fd, request + i, 1);
        (void) settle(&h, fd, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        (void) safe_close(fd);
        http_done(&h);
}

/* Like the first one. */
TEST(bad_later_head_gets_a_json_rpc_error_and_the_end_of_its_connection) {
        static const struct {
                const char *text, *status, *message;
        } table[] = {
                { LINE H J "A : b\r\n" BODY, "HTTP/1.1 400 ",
                  "A header is not a name, a colon and a value on one line." },
                { LINE H J "Content-Length: 40\r\nContent-Length: 40\r\n\r\n" PING, "HTTP/1.1 400 ",
                  "Where the body ends is ambiguous: send one Content-Length, or \\\"Transfer-Encoding: "
                  "chunked\\\"." },
                { LINE H J "Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n" PING, "HTTP/1.1 400 ",
                  "Where the body ends is ambiguous: send one Content-Length, or \\\"Transfer-Encoding: "
                  "chunked\\\"." },
                { "garbage\r\n\r\n", "HTTP/1.1 400 ",
                  "This is no HTTP request. TLS is the business of a reverse proxy." },
                { "POST /mcp\r\n\r\n", "HTTP/1.1 400 ",
                  "The request line is not METHOD, one space, address, one space, HTTP/1.1." },
                { "\x16\x03\x01", "HTTP/1.1 400 ",
                  "This is no HTTP request. TLS is the business of a reverse proxy." },
                { LINE H J "Content-Length: 40 \r\n\r\n" PING, "HTTP/1.1 400 ",
                  "Where the body ends is ambiguous: send one Content-Length, or \\\"Transfer-Encoding: "
                  "chunked\\\"." },
                { "\r\r\n" LINE H J BODY, "HTTP/1.1 400 ",
                  "This is no HTTP request. TLS is the business of a reverse proxy." },
                { "GET / HTTP/3.0\r\n" H "\r\n", "HTTP/1.1 505 ",
                  "Only HTTP/1.1 and HTTP/1.0 are spoken here." },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), both = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int fd = http_connect(&h);

                fixture_send_str(&h.f, fd, LINE H J BODY);
                buffer_consume(&b, b.n_bytes);
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_STR(reply_body(&b), PONG);
                fixture_send_str(&h.f, fd, table[i].text);
                expect_refusal(&h, fd, &b, 1, table[i].status, table[i].message);

                /* And in the same packet as the good one. */
                fd = http_connect(&h);
                buffer_consume(&both, both.n_bytes);
                ASSERT_EQ_INT(buffer_printf(&both, "%s%s", LINE H J BODY, table[i].text), 0);
                fixture_send(&h.f, fd, both.data, both.n_bytes);
                buffer_consume(&b, b.n_bytes);
                expect_refusal(&h, fd, &b, 1, table[i].status, table[i].message);
                ASSERT_EQ_UINT(n_times(&b, PONG), 1);
        }
        http_done(&h);
}

TEST(bad_head_behind_a_request_that_runs_is_refused_after_its_answer) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("wait"));
        fixture_send_str(&h.f, fd, "\1\2\3");
        ASSERT_TRUE(settle(&h, fd, &b));
        ASSERT_EQ_UINT(b.n_bytes, 0);
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        fixture_release(&h.f);
        expect_refusal(&h, fd, &b, 1, "HTTP/1.1 400 ",
                       "This is no HTTP request. TLS is the business of a reverse proxy.");
        ASSERT_EQ_UINT(n_times(&b, RESULT), 1);
        http_done(&h);
}

TEST(malformed_chunks_get_a_json_rpc_error_and_the_end_of_the_connection) {
        static const struct {
                const char *body, *status, *message;
        } table[] = {
                { "zz\r\n", "HTTP/1.1 400 ",
                  "A chunk of the body is not its size in hexadecimal, CR LF, that many bytes, CR LF." },
                { "28\r\n" PING "xx", "HTTP/1.1 400 ",
                  "A chunk of the body is not its size in hexadecimal, CR LF, that many bytes, CR LF." },
                /* Of which version 1.0 of the library takes the end for content. */
                { "28;a\r\n" PING "\r\n0\r\n\r\n", "HTTP/1.1 400 ",
                  "Chunks with extensions are not taken." },
                { "fffffffffffffffff\r\n", "HTTP/1.1 413 ",
                  "A chunk of the body is longer than the server takes." },
                { "28\r\n" PING "\r\n0\r\nno trailer\r\n\r\n", "HTTP/1.1 400 ",
                  "A trailer of the body is not a name, a colon and a value on one line." },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char request[1024];
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table) * 2; i++) {
                unsigned n_before = i % 2;
                int fd = http_connect(&h);

                /* As the first request of its connection, and as a later one. */
                (void) snprintf(request, sizeof(request), "%s" CHUNKED "%s", n_before ? LINE H J BODY : "",
                                table[i / 2].body);
                fixture_send_str(&h.f, fd, request);
                buffer_consume(&b, b.n_bytes);
                expect_refusal(&h, fd, &b, n_before, table[i / 2].status, table[i / 2].message);
                ASSERT_EQ_UINT(n_times(&b, PONG), n_before);
                ASSERT_TRUE(!((HttpServer*) h.listener)->requests);
        }
        http_done(&h);
}

TEST(whole_chunks_and_trailers_are_taken) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        for (unsigned i = 0; i < 2; i++) {
                buffer_consume(&b, b.n_bytes);
                fixture_send_str(&h.f, fd, CHUNKED "028\r\n" PING "\r\n0\r\nA: b\r\n\r\n");
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        (void) safe_close(fd);
        http_done(&h);
}

/* The answer is not waited for the end of the body, nor is there a second one. */
TEST(bad_chunk_after_an_early_refusal_is_answered_once) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, false, TOKEN);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, LINE H J "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nzz");
        read_to_end(&h, fd, &b);
        /* Some versions of the library have not judged the head by then. */
        ASSERT_EQ_UINT(n_times(&b, "HTTP/1.1 401 ") + n_times(&b, "HTTP/1.1 400 "), 1);
        ASSERT_EQ_UINT(n_times(&b, "HTTP/1.1 "), 1);
        hang_up(&h, fd);
        http_done(&h);
}

TEST(half_a_body_and_the_end_is_told) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, LINE H J "Content-Length: 41\r\n\r\n" PING);
        ASSERT_TRUE(settle(&h, fd, &b));
        ASSERT_EQ_UINT(b.n_bytes, 0);
        ASSERT_EQ_INT(shutdown(fd, SHUT_WR), 0);
        expect_refusal(&h, fd, &b, 0, "HTTP/1.1 400 ", "The request ends within its body.");
        http_done(&h);
}

/* The largest head, trailers to their limit: the library has room for what passes. */
TEST(largest_head_with_the_largest_trailers_is_answered) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
        static const char start[] = LINE H J "Transfer-Encoding: chunked\r\nA: ",
                          body[] = "\r\n\r\n28\r\n" PING "\r\n0\r\nB: ";
        Http h;
        int fd;

        ASSERT_EQ_INT(buffer_append_str(&request, start), 0);
        while (request.n_bytes < HTTP_HEAD_BYTES_MAX - 4)
                ASSERT_EQ_INT(buffer_append(&request, "a", 1), 0);
        ASSERT_EQ_INT(buffer_append_str(&request, body), 0);
        for (unsigned i = 0; i < HTTP_TRAILERS_BYTES_MAX - 7; i++)
                ASSERT_EQ_INT(buffer_append(&request, "b", 1), 0);
        ASSERT_EQ_INT(buffer_append_str(&request, "\r\n\r\n"), 0);
        http_init(&h, true, NULL);
        fd = http_connect(&h);
        for (unsigned i = 0; i < 2; i++) {
                buffer_consume(&b, b.n_bytes);
                fixture_send(&h.f, fd, request.data, request.n_bytes);
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        (void) safe_close(fd);
        http_done(&h);
}

static void append_times(Buffer *b, unsigned n, const char *text) {
        for (unsigned i = 0; i < n; i++)
                ASSERT_EQ_INT(buffer_append_str(b, text), 0);
}

/* As many as there may be, in the largest head; and one more than that. */
TEST(many_headers_cookies_and_parameters_are_answered_or_refused_in_json) {
        static const char parameter[] = "a&", cookie[] = "a=b;", header[] = "a:\r\n";
        const char *parts[] = { parameter, cookie, header };
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < 2 * ELEMENTSOF(parts); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
                const char *part = parts[i / 2];
                unsigned n = HTTP_PARTS_MAX - 6 + i % 2; /* besides those that are always there */
                int fd = http_connect(&h);

                append_times(&request, 1, "POST /mcp?");
                append_times(&request, part == parameter ? n : 0, part);
                append_times(&request, 1, " HTTP/1.1\r\n" H J "Content-Length: 40\r\nCookie: ");
                append_times(&request, part == cookie ? n : 0, part);
                append_times(&request, 1, "\r\n");
                append_times(&request, part == header ? n : 0, part);
                append_times(&request, 1, "B: ");
                append_times(&request, (unsigned) (HTTP_HEAD_BYTES_MAX - 4 - request.n_bytes), "b");
                append_times(&request, 1, "\r\n\r\n" PING);
                fixture_send(&h.f, fd, request.data, request.n_bytes);
                if (i % 2 == 0) {
                        ASSERT_TRUE(settle(&h, fd, &b));
                        ASSERT_EQ_STR(reply_body(&b), PONG);
                        hang_up(&h, fd);
                } else
                        expect_refusal(&h, fd, &b, 0, "HTTP/1.1 431 ",
                                       "The request has more headers, cookies and parameters of its address "
                                       "than the server takes.");
        }
        http_done(&h);
}

/* Neither content nor silence: the library would let it go on for hours. */
TEST(trailers_that_trickle_have_a_deadline) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        HttpServer *s;
        Http h;
        int fd;

        http_init(&h, true, NULL);
        s = (HttpServer*) h.listener;
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, CHUNKED "28\r\n" PING "\r\n0\r\nA: b");
        ASSERT_TRUE(settle(&h, fd, &b));
        ASSERT_EQ_UINT(b.n_bytes, 0);
        http_connection_sweep(s->connections, s->requests->started_usec + HTTP_BODY_USEC_MAX);
        ASSERT_TRUE(settle(&h, fd, &b));
        http_connection_sweep(s->connections, s->requests->started_usec + HTTP_BODY_USEC_MAX + 1);
        expect_refusal(&h, fd, &b, 0, "HTTP/1.1 408 ", "The body of the request comes too slowly.");
        http_done(&h);
}

/* What the library wrote is in nobody's memory but the kernel's, and goes out as the client reads. */
TEST(large_answer_comes_whole_to_a_client_that_reads_late) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t deadline = now_monotonic_usec() + 20 * USEC_PER_SEC;
        int fd, small = 32768;
        Http h;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        ASSERT_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        post_on(&h, fd, "", CALL("big"));
        (void) fixture_run(&h.f);
        fixture_release(&h.f);
        (void) fixture_run(&h.f);
        post_on(&h, fd, "", PING);
        while (!strstr(b.data ?: "", PONG)) {
                ASSERT_TRUE(fixture_receive(&h.f, fd, &b));
                ASSERT_TRUE(now_monotonic_usec() < deadline);
                (void) sd_event_run(h.f.event, 5 * USEC_PER_MSEC);
        }
        ASSERT_EQ_UINT(n_times(&b, "HTTP/1.1 200 "), 2);
        ASSERT_EQ_UINT(n_times(&b, PONG), 1);
        ASSERT_TRUE(b.n_bytes > MIB);
        (void) safe_close(fd);
        http_done(&h);
}

/* The library is done with it long before the client has it, and nobody may end the connection meanwhile. */
TEST(answer_is_not_cut_short_by_the_end_of_input_or_a_drain_or_a_sweep) {
        enum { END_OF_INPUT, DRAIN, SWEEP, _WHAT_MAX };

        for (unsigned what = 0; what < _WHAT_MAX; what++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                uint64_t deadline = now_monotonic_usec() + 20 * USEC_PER_SEC;
                int fd, small = 32768;
                HttpConnection *c;
                bool is_open = true;
                Http h;

                http_init(&h, true, NULL);
                ((HttpServer*) h.listener)->headers_usec = 1;
                fd = http_connect(&h);
                ASSERT_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
                post_on(&h, fd, "Accept: application/json\r\n", CALL("big"));
                c = ((HttpServer*) h.listener)->connections;
                ASSERT_EQ_INT(setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
                fixture_release(&h.f);
                for (void *room; c->state != RELAY_HEAD || c->stalled_since_usec == 0;) {
                        ssize_t n;

                        ASSERT_TRUE(now_monotonic_usec() < deadline);
                        ASSERT_EQ_INT(buffer_reserve(&b, 4096, &room), 0);
                        n = read(fd, room, 4096);
                        buffer_commit(&b, n > 0 ? (size_t) n : 0);
                        (void) sd_event_run(h.f.event, n > 0 ? 0 : USEC_PER_MSEC);
                }
                if (what == END_OF_INPUT)
                        ASSERT_EQ_INT(shutdown(fd, SHUT_WR), 0);
                else if (what == DRAIN)
                        listener_drain(h.listener);
                else
                        http_connection_sweep(c, now_monotonic_usec());
                (void) fixture_run(&h.f);
                while (is_open && !strstr(b.data + b.n_bytes - 4, "\"]}}")) {
                        ASSERT_TRUE(now_monotonic_usec() < deadline);
                        is_open = fixture_receive(&h.f, fd, &b);
                        (void) sd_event_run(h.f.event, USEC_PER_MSEC);
                }
                ASSERT_TRUE(strstr(b.data + b.n_bytes - 4, "\"]}}"));
                ASSERT_TRUE(b.n_bytes > MIB);
                if (what != SWEEP)
                        read_to_end(&h, fd, &b);
                (void) safe_close(fd);
                http_done(&h);
        }
}

TEST(waiting_connections_end_with_the_listener_and_when_it_drains) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int silent, half, refused;
        Http h;

        for (unsigned i = 0; i < 2; i++) {
                http_init(&h, true, NULL);
                silent = http_connect(&h);
                half = http_connect(&h);
                refused = http_connect(&h);
                fixture_send_str(&h.f, half, "POST /m");
                fixture_send_str(&h.f, refused, "\1");
                ASSERT_EQ_UINT(listener_n_connections(h.listener), 3);
                if (i == 0) {
                        listener_drain(h.listener);
                        while (listener_n_connections(h.listener) > 0) /* until HTTP_FRESH_USEC */
                                ASSERT_TRUE(sd_event_run(h.f.event, UINT64_MAX) >= 0);
                        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
                        ASSERT_FALSE(settle(&h, silent, &b));
                }
                http_done(&h);
                (void) safe_close(silent);
                (void) safe_close(half);
                (void) safe_close(refused);
        }
}

/* Half a head is told when its time is over; silence and a refusal that nobody reads to its end just end. */
TEST(slow_heads_are_told_and_silent_connections_end) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), none = BUFFER_INIT(0);
        int slow, silent, refused;
        HttpServer *s;
        Http h;

        http_init(&h, true, NULL);
        s = (HttpServer*) h.listener;
        slow = http_connect(&h);
        silent = http_connect(&h);
        refused = http_connect(&h);
        fixture_send_str(&h.f, slow, "POST /mcp HT");
        fixture_send_str(&h.f, refused, "\1");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 3);
        for (unsigned i = 0; i < 3; i++) {
                uint64_t now = now_monotonic_usec() + s->headers_usec / (i == 0 ? 7 : i == 1 ? 6 : 1);

                for (HttpConnection *c = s->connections, *next; c; c = next) {
                        next = c->next;
                        http_connection_sweep(c, now);
                }
                (void) fixture_run(&h.f);
                ASSERT_EQ_UINT(listener_n_connections(h.listener), i == 0 ? 3 : i == 1 ? 2 : 1);
        }
        ASSERT_FALSE(settle(&h, silent, &none));
        expect_refusal(&h, slow, &b, 0, "HTTP/1.1 408 ", "The head of the request comes too slowly.");
        (void) safe_close(silent);
        (void) safe_close(refused);
        http_done(&h);
}
