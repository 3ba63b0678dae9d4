/* SPDX-License-Identifier: MIT */

/* The transport of 2024-11-05: GET /sse, POST /messages. */

#include "http-fixture.h"

/* Opens a stream; the address for messages in address, and b empty again. */
static int open_stream(Http *h, const char *headers, char address[static 128], Buffer *b) {
        static const char start[] = "event: endpoint\ndata: ";
        char request[512];
        int fd = http_connect(h);
        const char *p;
        size_t n;

        (void) snprintf(request, sizeof(request), "GET /sse HTTP/1.1\r\n" H "%s\r\n", headers);
        fixture_send_str(&h->f, fd, request);
        ASSERT_TRUE(settle(h, fd, b));
        ASSERT_CONTAINS(b->data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b->data, "Content-Type: text/event-stream\r\n");
        p = strstr(b->data, start);
        ASSERT_TRUE(p);
        p += sizeof(start) - 1;
        n = strcspn(p, "\n");
        ASSERT_EQ_UINT(n, strlen("/messages?sessionId=") + 32);
        (void) snprintf(address, 128, "%.*s", (int) n, p);
        buffer_consume(b, b->n_bytes);
        return fd;
}

/* Status and reply of one message. */
static void send_to(Http *h, const char *address, const char *headers, const char *body, Buffer *b) {
        _cleanup_buffer_ Buffer request = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_printf(&request, "POST %s HTTP/1.1\r\n" H J "%sContent-Length: %zu\r\n\r\n%s",
                                    address, headers, strlen(body), body),
                      0);
        exchange(h, request.data, b);
}

TEST(answers_come_on_the_stream) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = open_stream(&h, "Accept: text/event-stream\r\n", address, &stream);
        send_to(&h, address, "MCP-Protocol-Version: 2025-11-25\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 202 ");
        ASSERT_EQ_STR(reply_body(&b), "Accepted");
        (void) settle(&h, fd, &stream);
        ASSERT_CONTAINS(stream.data, "event: message\ndata: " PONG "\n\n");

        buffer_consume(&stream, stream.n_bytes);
        send_to(&h, address, "", INITIALIZE, &b);
        (void) settle(&h, fd, &stream);
        ASSERT_CONTAINS(stream.data, "\"protocolVersion\":\"2025-06-18\"");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(end_of_the_stream_cancels_what_runs_and_forgets_the_session) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = open_stream(&h, "", address, &stream);
        send_to(&h, address, "", CALL("wait"), &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 202 ");
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        (void) safe_close(fd);
        fixture_wait(&h.f, &h.f.n_cancelled, 1);
        ASSERT_EQ_UINT(h.f.n_waiting, 0);
        send_to(&h, address, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}

TEST(streams_do_not_mix) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), one = BUFFER_INIT(0), two = BUFFER_INIT(0);
        char address_one[128], address_two[128];
        Http h;
        int fd_one, fd_two;

        http_init(&h, true, NULL);
        fd_one = open_stream(&h, "", address_one, &one);
        fd_two = open_stream(&h, "", address_two, &two);
        ASSERT_FALSE(streq(address_one, address_two));
        send_to(&h, address_one, "", CALL("wait"), &b);
        send_to(&h, address_two, "", CALL("wait"), &b);
        fixture_release(&h.f);
        (void) settle(&h, fd_one, &one);
        (void) settle(&h, fd_two, &two);
        ASSERT_EQ_STR(one.data, two.data); /* both called it 1: each has one answer, not two or none */
        ASSERT_CONTAINS(one.data, RESULT);
        (void) safe_close(fd_one);
        (void) safe_close(fd_two);
        http_done(&h);
}

TEST(refusals_of_the_old_transport) {
        static const struct {
                const char *request, *status, *part;
        } table[] = {
                { "POST /sse HTTP/1.1\r\n" H J BODY, "405", "Allow: GET\r\n" },
                { "GET /sse HTTP/1.1\r\n" H "Accept: application/json\r\n\r\n", "406", "\"code\":-31000" },
                { "GET /sse HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403", "\"code\":-31000" },
                { "GET /messages HTTP/1.1\r\n" H "\r\n", "405", "Allow: POST\r\n" },
                { "POST /messages HTTP/1.1\r\n" H J BODY, "400", "\"id\":1," },
                { "POST /messages?sessionId= HTTP/1.1\r\n" H J BODY, "404", "\"id\":1," },
                { "POST /messages?sessionId=0123456789abcdef0123456789abcdef HTTP/1.1\r\n" H J BODY, "404",
                  "\"code\":-31000" },
                { "POST /messages?sessionId=x HTTP/1.1\r\n" H BODY, "415", "\"id\":1," },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                exchange(&h, table[i].request, &b);
                if (b.n_bytes < 12 || memcmp(b.data + 9, table[i].status, 3) != 0 ||
                    !strstr(b.data, table[i].part))
                        FAIL("request %zu:\n%s\ngot:\n%s\nexpected %s with %s", i, table[i].request, b.data,
                             table[i].status, table[i].part);
        }
        fd = open_stream(&h, "", address, &stream);
        send_to(&h, address, "", "{]", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 400 ");
        ASSERT_CONTAINS(b.data, "\"code\":-32700");
        (void) safe_close(fd);

        h.settings->endpoints &= ~(unsigned) ENDPOINT_SSE;
        exchange(&h, "GET /sse HTTP/1.1\r\n" H "\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}

TEST(both_requests_need_the_token) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, false, TOKEN);
        exchange(&h, "GET /sse HTTP/1.1\r\n" H "\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        fd = open_stream(&h, "X-MCP-AUTH: " TOKEN "\r\n", address, &stream);
        send_to(&h, address, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        send_to(&h, address, "X-MCP-AUTH: " TOKEN "\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 202 ");
        (void) safe_close(fd);
        http_done(&h);
}

/* An open server knows two principals: whoever sends the token, and anybody. */
TEST(message_of_another_principal_is_refused) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, true, TOKEN);
        fd = open_stream(&h, "X-MCP-AUTH: " TOKEN "\r\n", address, &stream);
        send_to(&h, address, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(drain_ends_streams_after_their_last_answer) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), idle = BUFFER_INIT(0), busy = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd_idle, fd_busy;

        http_init(&h, true, NULL);
        fd_idle = open_stream(&h, "", address, &idle);
        fd_busy = open_stream(&h, "", address, &busy);
        send_to(&h, address, "", CALL("wait"), &b);
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        listener_drain(h.listener);
        for (unsigned i = 0; i < 200 && settle(&h, fd_idle, &idle); i++)
                ;
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 1);
        fixture_release(&h.f);
        for (unsigned i = 0; i < 200 && settle(&h, fd_busy, &busy); i++)
                ;
        ASSERT_CONTAINS(busy.data, RESULT);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        (void) safe_close(fd_idle);
        (void) safe_close(fd_busy);
        http_done(&h);
}

TEST(reader_that_stops_is_disconnected_and_memory_stays_bounded) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), stream = BUFFER_INIT(0);
        char address[128];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = open_stream(&h, "", address, &stream);
        for (unsigned i = 0; i < 40; i++) {
                send_to(&h, address, "", CALL("big"), &b);
                fixture_release(&h.f);
                (void) fixture_run(&h.f);
        }
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 "); /* after 32 of a megabyte each it is gone */
        (void) safe_close(fd);
        http_done(&h);
}

/* As the predecessor did; only where its variable says so. */
TEST(transport_by_variable_opens_a_stream_on_any_path_but_those_of_a_login) {
        static const struct {
                const char *path;
                Transport transport;
                const char *status;
        } table[] = {
                { "/", TRANSPORT_SSE, "HTTP/1.1 200 " },
                { "/mcp", TRANSPORT_SSE, "HTTP/1.1 200 " },
                { "/some/where", TRANSPORT_SSE, "HTTP/1.1 200 " },
                { "/.well-known/oauth-authorization-server", TRANSPORT_SSE, "HTTP/1.1 404 " },
                { "/", TRANSPORT_HTTP, "HTTP/1.1 404 " },
                { "/mcp", TRANSPORT_HTTP, "HTTP/1.1 405 " },
                { "/", TRANSPORT_STDIO, "HTTP/1.1 404 " },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                char request[256];
                Http h;

                http_init(&h, true, NULL);
                h.settings->transport = table[i].transport;
                (void) snprintf(request, sizeof(request),
                                "GET %s HTTP/1.1\r\n" H "Accept: text/event-stream\r\n\r\n", table[i].path);
                exchange(&h, request, &b);
                ASSERT_CONTAINS(b.data, table[i].status);
                if (strstr(table[i].status, "200"))
                        ASSERT_CONTAINS(b.data, "event: endpoint\ndata: /messages?sessionId=");
                /* Messages have their own addresses as before. */
                post(&h, "", PING, &b);
                ASSERT_EQ_STR(reply_body(&b), PONG);
                http_done(&h);
        }
}

TEST(any_path_needs_the_token) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, false, TOKEN);
        h.settings->transport = TRANSPORT_SSE;
        exchange(&h, "GET / HTTP/1.1\r\n" H "Accept: text/event-stream\r\n\r\n", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 401 ");
        http_done(&h);
}
