/* SPDX-License-Identifier: MIT */

/* Who may hold connections, for how long, and where a body ends. */

#include <poll.h>

#include "http-fixture.h"
#include "transport/http-connection.h"

#define DISCOVER                                                                                            \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{"              \
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                       \
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"

/* A connection from another loopback address than the exempt one. */
static int connect_from(const Http *h, const char *address) {
        struct sockaddr_in a = { .sin_family = AF_INET };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(inet_pton(AF_INET, address, &a.sin_addr), 1);
        ASSERT_EQ_INT(bind(fd, (const struct sockaddr*) &a, sizeof(a)), 0);
        ASSERT_EQ_INT(connect(fd, (const struct sockaddr*) &h->address, sizeof(h->address)), 0);
        ASSERT_EQ_INT(fd_set_nonblock(fd, true), 0);
        return fd;
}

TEST(body_whose_end_is_ambiguous_is_refused_and_the_connection_ends) {
        static const char *const headers[] = {
                "Content-Length: 40\r\nTransfer-Encoding: chunked\r\n",
                "Transfer-Encoding: chunked\r\nContent-Length: 40\r\n",
                "Content-Length: 40\r\nContent-Length: 40\r\n",
                "Content-Length: 40\r\nContent-Length: 4\r\n",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                "Transfer-Encoding: identity, chunked\r\n",
                "Transfer-Encoding: xchunked\r\n",
                "Content-Length: 40, 40\r\n",
                "Content-Length: +40\r\n",
                "Content-Length: 0x28\r\n",
                "Content-Length: -40\r\n",
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char request[1024];
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(headers); i++) {
                int fd = http_connect(&h);
                bool is_open;

                buffer_consume(&b, b.n_bytes);
                /* What follows would be answered by a server that believed the other header. */
                (void) snprintf(request, sizeof(request),
                                "POST /mcp HTTP/1.1\r\n" H J "%s\r\n" PING "POST /mcp HTTP/1.1\r\n" H J BODY,
                                headers[i]);
                fixture_send_str(&h.f, fd, request);
                is_open = settle(&h, fd, &b);
                for (unsigned k = 0; k < 20 && is_open; k++)
                        is_open = settle(&h, fd, &b);
                /* libmicrohttpd 1.0 says "not implemented" to codings that it does not know. */
                if (b.n_bytes > 0 && !strstr(b.data, "HTTP/1.1 400 ") && !strstr(b.data, "HTTP/1.1 501 "))
                        FAIL("%s got:\n%s", headers[i], b.data);
                if (b.n_bytes > 0 && strstr(b.data, "\"result\""))
                        FAIL("%s was answered:\n%s", headers[i], b.data);
                if (is_open)
                        FAIL("%s left the connection open", headers[i]);
                (void) safe_close(fd);
                (void) fixture_run(&h.f);
        }
        http_done(&h);
}

TEST(requests_sent_at_once_are_answered_in_their_order) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
        size_t n = 0;
        Http h;
        int fd;

        http_init(&h, true, NULL);
        for (unsigned i = 0; i < 3; i++)
                ASSERT_EQ_INT(buffer_printf(&request,
                                            "POST /mcp HTTP/1.1\r\n" H J "Content-Length: 40\r\n\r\n"
                                            "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}",
                                            i),
                              0);
        fd = http_connect(&h);
        fixture_send(&h.f, fd, request.data, request.n_bytes);
        for (unsigned i = 0; i < 20; i++)
                (void) settle(&h, fd, &b);
        for (const char *p = b.data; p && (p = strstr(p, "\"id\":")); p++)
                ASSERT_EQ_INT(p[5], (char) ('0' + n++));
        ASSERT_EQ_UINT(n, 3);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(one_address_has_its_share_of_connections_only) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[3];
        Http h;

        http_init(&h, true, NULL);
        h.settings->max_connections_per_address = 2;
        for (size_t i = 0; i < 3; i++) {
                fds[i] = connect_from(&h, "127.0.0.2");
                (void) fixture_run(&h.f);
        }
        post_on(&h, fds[2], "", PING);
        (void) settle(&h, fds[2], &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 429 ");
        ASSERT_CONTAINS(b.data, "Connection: close\r\n");
        ASSERT_CONTAINS(reply_body(&b), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31001,");

        /* Another address is served, and so is this one when it has let one go. */
        (void) safe_close(fds[2]);
        fds[2] = connect_from(&h, "127.0.0.3");
        buffer_consume(&b, b.n_bytes);
        post_on(&h, fds[2], "", PING);
        (void) settle(&h, fds[2], &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        (void) safe_close(fds[2]);
        (void) safe_close(fds[1]);
        (void) fixture_run(&h.f);
        fds[2] = connect_from(&h, "127.0.0.2");
        buffer_consume(&b, b.n_bytes);
        post_on(&h, fds[2], "", PING);
        (void) settle(&h, fds[2], &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        (void) safe_close(fds[2]);
        (void) safe_close(fds[0]);
        http_done(&h);
}

/* Of the tokens "4" and "5". */
static const char tokens_text[] =
        "token a sha256:4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a delegate\n"
        "token b sha256:ef2d127de37b942baad06145e54b0c619a1f22327b2ebbcfbec78f5564afe39d\n";

/* Whatever address they come from: behind a proxy all have one. */
TEST(one_token_cannot_lock_out_the_others) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[5];
        Http h;

        http_init(&h, false, NULL);
        h.settings->max_connections = 4;
        h.access = access_from(tokens_text);
        listener_reload(h.listener, h.settings, h.access);
        for (size_t i = 0; i < 4; i++) { /* naming users makes no difference */
                char headers[64];

                fds[i] = http_connect(&h);
                (void) snprintf(headers, sizeof(headers), "X-MCP-AUTH: 4\r\nX-MCP-User: u%zu\r\n", i);
                buffer_consume(&b, b.n_bytes);
                post_on(&h, fds[i], headers, PING);
                (void) settle(&h, fds[i], &b);
                if (i < 3)
                        ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        ASSERT_CONTAINS(b.data, "HTTP/1.1 429 ");
        ASSERT_CONTAINS(b.data, "Connection: close\r\n");
        ASSERT_CONTAINS(reply_body(&b), "close some of them");
        (void) safe_close(fds[3]);
        (void) fixture_run(&h.f);
        exchange(&h, "GET /sse HTTP/1.1\r\n" H "X-MCP-AUTH: 4\r\n\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 429 ");
        post(&h, "X-MCP-AUTH: 4\r\n", INITIALIZE, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");

        fds[3] = http_connect(&h);
        buffer_consume(&b, b.n_bytes);
        post_on(&h, fds[3], "X-MCP-AUTH: 5\r\n", PING);
        (void) settle(&h, fds[3], &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);

        (void) safe_close(fds[0]); /* and may come again when it let one go */
        (void) fixture_run(&h.f);
        fds[4] = http_connect(&h);
        buffer_consume(&b, b.n_bytes);
        post_on(&h, fds[4], "X-MCP-AUTH: 4\r\n", PING);
        (void) settle(&h, fds[4], &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        for (size_t i = 1; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i]);
        http_done(&h);
}

static bool has_input(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, 0) > 0;
}

/* Of those who wait the one whose owner was served longest ago comes next, be its connection new or not. */
TEST(many_connections_of_one_token_do_not_delay_the_request_of_another) {
        static const char request[] = "POST /mcp HTTP/1.1\r\n" H J "X-MCP-AUTH: %s\r\n" BODY;
        char busy[sizeof(request)], other[sizeof(request)];
        Http h;

        (void) snprintf(busy, sizeof(busy), request, "4");
        (void) snprintf(other, sizeof(other), request, "5");
        http_init(&h, false, NULL);
        h.access = access_from(tokens_text);
        listener_reload(h.listener, h.settings, h.access);
        for (unsigned is_new = 0; is_new < 2; is_new++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                int fds[60], fd = -EBADF;
                unsigned n_answered = 0;

                for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                        fds[i] = http_connect(&h);
                        buffer_consume(&b, b.n_bytes);
                        fixture_send_str(&h.f, fds[i], busy);
                        (void) settle(&h, fds[i], &b);
                        ASSERT_EQ_STR(reply_body(&b), PONG);
                }
                fd = http_connect(&h);
                buffer_consume(&b, b.n_bytes);
                if (!is_new) { /* the last one who was served */
                        fixture_send_str(&h.f, fd, other);
                        (void) settle(&h, fd, &b);
                        ASSERT_EQ_STR(reply_body(&b), PONG);
                }
                for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                        ASSERT_TRUE(write(fds[i], busy, strlen(busy)) > 0);
                for (unsigned i = 0; i < 10000 && !((HttpServer*) h.listener)->has_waiting; i++)
                        (void) sd_event_run(h.f.event, 10 * USEC_PER_MSEC);
                ASSERT_TRUE(write(fd, other, strlen(other)) > 0);
                for (unsigned i = 0; i < 10000 && !has_input(fd); i++)
                        (void) sd_event_run(h.f.event, 10 * USEC_PER_MSEC);
                ASSERT_TRUE(has_input(fd));
                for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                        n_answered += has_input(fds[i]);
                ASSERT_TRUE(n_answered <= 4 * HTTP_REQUESTS_PER_RUN);
                /* The rest comes, too. */
                for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                        buffer_consume(&b, b.n_bytes);
                        (void) settle(&h, fds[i], &b);
                        ASSERT_EQ_STR(reply_body(&b), PONG);
                        (void) safe_close(fds[i]);
                }
                (void) safe_close(fd);
                (void) fixture_run(&h.f);
                ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        }
        http_done(&h);
}

/* Between them a deadline may be due, which has precedence, but not over a call of the library's. */
TEST(answers_to_many_requests_come_some_in_each_turn_of_the_loop) {
        struct pollfd fds[30];
        size_t n_answered = 0;
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = (struct pollfd) { .fd = http_connect(&h), .events = POLLIN };
                ASSERT_TRUE(write(fds[i].fd, "POST /mcp HTTP/1.1\r\n" H J BODY,
                                  strlen("POST /mcp HTTP/1.1\r\n" H J BODY)) > 0);
        }
        for (uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC; n_answered < ELEMENTSOF(fds);) {
                int n;

                ASSERT_TRUE(now_monotonic_usec() < end);
                ASSERT_TRUE(sd_event_run(h.f.event, 10 * USEC_PER_MSEC) >= 0);
                n = poll(fds, ELEMENTSOF(fds), 0);
                /* Version 1.0 of the library reads from a new connection with the next call only. */
                ASSERT_TRUE(n >= (int) n_answered && n <= (int) n_answered + 2 * HTTP_REQUESTS_PER_RUN);
                n_answered = (size_t) n;
        }
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i].fd);
        http_done(&h);
}

TEST(handshakes_are_answered_beyond_every_limit) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        h.settings->max_connections = 1;
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("wait"));
        fixture_wait(&h.f, &h.f.n_waiting, 1);
        post(&h, "", INITIALIZE, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b.data, "Connection: close\r\n");
        ASSERT_CONTAINS(b.data, "\"protocolVersion\":\"2025-06-18\"");
        post(&h, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n", DISCOVER, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b.data, "supportedVersions");
        post(&h, "", CALL("now"), &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        (void) safe_close(fd);
        http_done(&h);
}

/* Whoever sends a whole request at once is served, however many others hold the beginnings of some. */
TEST(requests_that_never_become_whole_lock_nobody_out) {
        static const char *const begins[] = {
                "", "POST /mcp HTTP/1.1\r\n" H, "POST /mcp HTTP/1.1\r\n" H J "Content-Length: 40\r\n\r\n{",
                "GET /nowhere HTTP/1.1\r\n" H "\r\n", "nonsense\r\n\r\n",
        };
        static const char *const headers[] = { "X-MCP-AUTH: 4\r\n", "X-MCP-AUTH: 5\r\n" };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int stream, call, fds[290];
        Http h;

        http_init(&h, false, NULL);
        h.settings->max_connections = 20;
        h.access = access_from(tokens_text);
        listener_reload(h.listener, h.settings, h.access);
        stream = http_connect(&h);
        fixture_send_str(&h.f, stream, "GET /sse HTTP/1.1\r\n" H "X-MCP-AUTH: 4\r\n\r\n");
        call = http_connect(&h);
        post_on(&h, call, headers[0], CALL("wait"));
        fixture_wait(&h.f, &h.f.n_waiting, 1);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = http_connect(&h);
                fixture_send_str(&h.f, fds[i], begins[i % ELEMENTSOF(begins)]);
                (void) fixture_run(&h.f);
                if (i % 10 != 9)
                        continue;
                post(&h, headers[i / 10 % 2], PING, &b);
                ASSERT_EQ_STR(reply_body(&b), PONG);
                post(&h, headers[i / 10 % 2], INITIALIZE, &b);
                ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
                exchange(&h, "GET /nowhere HTTP/1.1\r\n" H "\r\n", &b); /* and who needs no token */
                ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
                ASSERT_TRUE(listener_n_connections(h.listener) <= 20);
        }
        /* The one with the first half of a head was told. */
        buffer_consume(&b, b.n_bytes);
        ASSERT_FALSE(settle(&h, fds[1], &b));
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        ASSERT_CONTAINS(reply_body(&b), "\"error\":{\"code\":-31001,");
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i]);

        buffer_consume(&b, b.n_bytes);
        ASSERT_TRUE(settle(&h, stream, &b));
        ASSERT_CONTAINS(b.data, "event: endpoint");
        fixture_release(&h.f);
        buffer_consume(&b, b.n_bytes);
        (void) settle(&h, call, &b);
        ASSERT_EQ_STR(reply_body(&b), RESULT);
        (void) safe_close(stream);
        (void) safe_close(call);
        (void) fixture_run(&h.f);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        http_done(&h);
}

TEST(idle_connections_of_known_clients_make_room_after_those_of_strangers) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int known[3], strangers[2], more[4];
        Http h;

        http_init(&h, false, NULL);
        h.settings->max_connections = 5;
        h.access = access_from(tokens_text);
        listener_reload(h.listener, h.settings, h.access);
        for (size_t i = 0; i < ELEMENTSOF(known); i++) { /* the oldest */
                known[i] = http_connect(&h);
                buffer_consume(&b, b.n_bytes);
                post_on(&h, known[i], "X-MCP-AUTH: 4\r\n", PING);
                (void) settle(&h, known[i], &b);
                ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        fixture_send_str(&h.f, known[0],
                         "POST /mcp HTTP/1.1\r\n" H J "X-MCP-AUTH: 4\r\nContent-Length: 40\r\n\r\n");
        for (size_t i = 0; i < ELEMENTSOF(strangers); i++) {
                strangers[i] = http_connect(&h);
                fixture_send_str(&h.f, strangers[i], "POST /mcp HTTP/1.1\r\n");
        }
        (void) fixture_run(&h.f);
        for (size_t i = 0; i < ELEMENTSOF(more); i++) { /* all are served at once, and stay */
                bool is_there[ELEMENTSOF(known)];

                more[i] = http_connect(&h);
                buffer_consume(&b, b.n_bytes);
                post_on(&h, more[i], "X-MCP-AUTH: 5\r\n", CALL("wait"));
                fixture_wait(&h.f, &h.f.n_waiting, (unsigned) i + 1);
                (void) fixture_run(&h.f);
                for (size_t k = 0; k < ELEMENTSOF(known); k++)
                        is_there[k] = !has_input(known[k]);
                ASSERT_EQ_INT(has_input(strangers[0]), true);
                ASSERT_EQ_INT(has_input(strangers[1]), i >= 1);
                ASSERT_EQ_INT(is_there[1], i < 2);
                ASSERT_EQ_INT(is_there[2], i < 3);
                ASSERT_EQ_INT(is_there[0], true);
        }
        fixture_send_str(&h.f, known[0], PING);
        buffer_consume(&b, b.n_bytes);
        (void) settle(&h, known[0], &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                (void) safe_close(known[i]);
        for (size_t i = 0; i < ELEMENTSOF(strangers); i++)
                (void) safe_close(strangers[i]);
        for (size_t i = 0; i < ELEMENTSOF(more); i++)
                (void) safe_close(more[i]);
        http_done(&h);
}

/* Also in a burst that comes before the library has let go of the first one. */
TEST(burst_of_connections_takes_the_places_of_idle_ones) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int idle[40], fds[40];
        Http h;

        http_init(&h, true, NULL);
        h.settings->max_connections = ELEMENTSOF(fds);
        for (size_t i = 0; i < ELEMENTSOF(idle); i++) {
                idle[i] = http_connect(&h);
                buffer_consume(&b, b.n_bytes);
                post_on(&h, idle[i], "", PING);
                (void) settle(&h, idle[i], &b);
                ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = http_connect(&h);
                ASSERT_TRUE(write(fds[i], "POST /mcp HTTP/1.1\r\n" H J BODY,
                                  strlen("POST /mcp HTTP/1.1\r\n" H J BODY)) > 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                buffer_consume(&b, b.n_bytes);
                (void) settle(&h, fds[i], &b);
                ASSERT_EQ_STR(reply_body(&b), PONG);
                ASSERT_FALSE(settle(&h, idle[i], &b));
                (void) safe_close(idle[i]);
        }
        ASSERT_EQ_UINT(listener_n_connections(h.listener), ELEMENTSOF(fds));
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i]);
        http_done(&h);
}

TEST(headers_that_trickle_have_a_deadline) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t deadline = now_monotonic_usec() + 10 * USEC_PER_SEC;
        Http h;
        HttpServer *s;
        int fd;

        http_init(&h, true, NULL);
        s = (HttpServer*) h.listener;
        s->headers_usec = 200 * USEC_PER_MSEC;
        ASSERT_TRUE(sd_event_source_set_time_relative(s->sweep_source, 0) >= 0);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, "POST /mcp HTTP/1.1\r\nX-Slow: ");
        while (fixture_receive(&h.f, fd, &b)) {
                ASSERT_TRUE(now_monotonic_usec() < deadline);
                (void) write(fd, "x", 1);
                (void) sd_event_run(h.f.event, 20 * USEC_PER_MSEC);
        }
        ASSERT_CONTAINS(b.data, "HTTP/1.1 408 ");
        (void) safe_close(fd);
        (void) fixture_run(&h.f);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);

        /* A call that runs has said what it wants. */
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("wait"));
        deadline = now_monotonic_usec() + 600 * USEC_PER_MSEC;
        while (now_monotonic_usec() < deadline)
                (void) sd_event_run(h.f.event, 20 * USEC_PER_MSEC);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(reply_body(&b), RESULT);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(named_tokens_are_taken_and_reloaded) {
        static const char one[] = "token one sha256:"
                                  "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a\n";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, false, NULL);
        post(&h, "X-MCP-AUTH: 4\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        h.access = access_from(one);
        listener_reload(h.listener, h.settings, h.access);
        post(&h, "X-MCP-AUTH: 4\r\n", PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        post(&h, "Authorization: Bearer 4\r\n", PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        post(&h, "Authorization: Bearer 5\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        post(&h, "Authorization: Bearer 4\r\nX-MCP-User: alice\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 403 ");
        http_done(&h);
}
