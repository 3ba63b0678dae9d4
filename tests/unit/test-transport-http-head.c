/* SPDX-License-Identifier: MIT */

/* The first head of a connection: its grammar, and what becomes of the connection. */

#include "http-fixture.h"
#include "transport/http-head.h"
#include "transport/http.h"

#define LINE "POST /mcp HTTP/1.1\r\n"

TEST(heads_are_judged_by_the_grammar) {
        static const struct {
                const char *text;
                unsigned status; /* 0: good, 1: incomplete so far */
        } table[] = {
                { "", 1 },
                { "\r\n", 1 },
                { "POST", 1 },
                { "POST /mcp HTTP/1.1", 1 },
                { LINE, 1 },
                { LINE H, 1 },
                { LINE H "\r", 1 },
                { LINE H "\r\n", 0 },
                { "\r\n\r\n" LINE H "\r\n", 0 },
                { LINE H "\r\n\1\2 a body", 0 },
                { "GET /a?b=%20#c HTTP/1.0\r\n\r\n", 0 },
                { "x-y /\xc3\xbc HTTP/1.7\r\n" H "\r\n", 0 },
                { LINE H "A:\r\nB: \t \r\nC: a\tb\xff \r\n\r\n", 0 },
                { LINE H "content-length: 40 \r\n\r\n", 0 },
                { LINE H "Transfer-Encoding:\tChunked\r\n\r\n", 0 },

                { "\x16\x03\x01", 400 },
                { "\1", 400 },
                { " /mcp HTTP/1.1\r\n", 400 },
                { "POST\t/mcp\tHTTP/1.1\r\n", 400 },
                { "POST /mcp\r\n", 400 },
                { "POST  /mcp HTTP/1.1\r\n", 400 },
                { "POST /mcp  HTTP/1.1\r\n", 400 },
                { "POST /mcp HTTP/1.1 \r\n", 400 },
                { "POST /m cp HTTP/1.1\r\n", 400 },
                { "POST /m\tcp HTTP/1.1\r\n", 400 },
                { "POST /mcp%00 HTTP/1.1\r\n", 400 },
                { "POST /mcp http/1.1\r\n", 400 },
                { "POST /mcp HTTP/1.10\r\n", 400 },
                { "POST /mcp HTTP/a.1\r\n", 400 },
                { "POST /mcp HTTP/2.0\r\n", 505 },
                { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
                { "POST /mcp HTTP/1.1\n", 400 },
                { LINE "Host: a\n", 400 },
                { LINE "Host: a\r\n\n", 400 },
                { LINE "\r\n", 400 },
                { LINE H H, 400 },
                { LINE H "no colon\r\n", 400 },
                { LINE H ": a\r\n", 400 },
                { LINE H "A : a\r\n", 400 },
                { LINE H " A: a\r\n", 400 },
                { LINE H "A: a\r\n b\r\n", 400 },
                { LINE H "A: a\rb\r\n", 400 },
                { LINE H "A: \x7f\r\n", 400 },
                { LINE H "A\1: a\r\n", 400 },
                { LINE H "Content-Length:\r\n", 400 },
                { LINE H "Content-Length: -1\r\n", 400 },
                { LINE H "Content-Length: +1\r\n", 400 },
                { LINE H "Content-Length: 0x1\r\n", 400 },
                { LINE H "Content-Length: 1, 1\r\n", 400 },
                { LINE H "Content-Length: 1\r\nContent-Length: 1\r\n", 400 },
                { LINE H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400 },
                { LINE H "Transfer-Encoding: chunked\r\ncontent-length: 1\r\n", 400 },
                { LINE H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400 },
                { LINE H "Content-Length: 1000000000000000000\r\n", 413 },
                { LINE H "Transfer-Encoding: gzip, chunked\r\n", 501 },
                { LINE H "Transfer-Encoding:\r\n", 501 },
                { "POST /mcp HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                HttpHeadFault fault = {};
                int r = http_head_check(table[i].text, strlen(table[i].text), &fault);
                unsigned status = r == HTTP_HEAD_E_BAD ? fault.status : r == HTTP_HEAD_E_INCOMPLETE ? 1 : 0;

                if (status != table[i].status)
                        FAIL("%s: %u, expected %u", table[i].text, status, table[i].status);
        }
}

TEST(nul_in_a_head_is_no_end_of_it) {
        static const char name[] = LINE H "A\0: b\r\n", value[] = LINE H "A: a\0b\r\n",
                          method[] = "POST\0 /mcp HTTP/1.1\r\n", target[] = "POST /\0 HTTP/1.1\r\n";
        static const struct {
                const char *data;
                size_t n_bytes;
        } table[] = {
                { name, sizeof(name) - 1 },
                { value, sizeof(value) - 1 },
                { method, sizeof(method) - 1 },
                { target, sizeof(target) - 1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                HttpHeadFault fault = {};

                ASSERT_EQ_INT(http_head_check(table[i].data, table[i].n_bytes, &fault), HTTP_HEAD_E_BAD);
                ASSERT_EQ_UINT(fault.status, 400);
        }
}

TEST(long_heads_are_refused_at_the_limit) {
        static char text[HTTP_HEAD_BYTES_MAX];
        HttpHeadFault fault;

        memset(text, 'a', sizeof(text));
        memcpy(text, "POST /", 6);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text) - 1, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &fault), HTTP_HEAD_E_BAD);
        ASSERT_EQ_UINT(fault.status, 414);
        memcpy(text, LINE H "A: ", strlen(LINE H "A: "));
        ASSERT_EQ_INT(http_head_check(text, sizeof(text) - 1, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &fault), HTTP_HEAD_E_BAD);
        ASSERT_EQ_UINT(fault.status, 431);
        memcpy(text + sizeof(text) - 4, "\r\n\r\n", 4);
        ASSERT_EQ_INT(http_head_check(text, sizeof(text), &fault), 0);
}

/* Every byte is a reason to look again; the last one decides. */
TEST(head_in_pieces_is_judged_like_one_in_one_piece) {
        static const char good[] = LINE H J "Content-Length: 40\r\n\r\n";
        HttpHeadFault fault;

        for (size_t n = 0; n < sizeof(good) - 1; n++)
                ASSERT_EQ_INT(http_head_check(good, n, &fault), HTTP_HEAD_E_INCOMPLETE);
        ASSERT_EQ_INT(http_head_check(good, sizeof(good) - 1, &fault), 0);
}

/* The whole reply to what is not even a request: the status, an end, and a body that a client can read. */
TEST(bad_first_head_gets_a_json_rpc_error_and_the_end_of_its_connection) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd, "POST /mcp HTTP/2.0\r\n" H J BODY);
        for (unsigned i = 0; i < 100 && settle(&h, fd, &b); i++)
                ;
        ASSERT_EQ_STR(b.data, "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                              "Content-Length: 97\r\n\r\n"
                              "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,\"message\":"
                              "\"Only HTTP/1.1 and HTTP/1.0 are spoken here.\"}}");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 1); /* until the client goes, or some seconds */
        (void) safe_close(fd);
        (void) fixture_run(&h.f);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);

        /* What is still on its way does not reset the answer away. */
        ASSERT_EQ_INT(buffer_append_str(&request, "POST /"), 0);
        for (unsigned i = 0; i < 3000; i++)
                ASSERT_EQ_INT(buffer_append_str(&request, "0123456789abcdef0123456789abcdef"), 0);
        fd = http_connect(&h);
        fixture_send(&h.f, fd, request.data, request.n_bytes);
        buffer_consume(&b, b.n_bytes);
        for (unsigned i = 0; i < 100 && settle(&h, fd, &b); i++)
                ;
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
        for (unsigned i = 0; i < 100 && settle(&h, fd, &b); i++)
                ;
        ASSERT_CONTAINS(b.data, "HTTP/1.1 400 ");
        ASSERT_CONTAINS(b.data, "The request ends within its head.");
        (void) safe_close(fd);
        (void) fixture_run(&h.f);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
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

/* Neither the library's leniency nor its page for people: what it lets through we refuse. */
TEST(later_heads_of_a_connection_are_refused_by_header) {
        static const struct {
                const char *text, *status;
        } table[] = {
                { LINE H J "A : b\r\n" BODY, "HTTP/1.1 400 " },
                { LINE H J "Content-Length: 40\r\nContent-Length: 40\r\n\r\n" PING, "HTTP/1.1 400 " },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int fd = http_connect(&h);

                fixture_send_str(&h.f, fd, LINE H J BODY);
                buffer_consume(&b, b.n_bytes);
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_STR(reply_body(&b), PONG);
                fixture_send_str(&h.f, fd, table[i].text);
                buffer_consume(&b, b.n_bytes);
                (void) settle(&h, fd, &b);
                ASSERT_CONTAINS(b.data, table[i].status);
                ASSERT_TRUE(!strstr(b.data, "\"result\""));
                (void) safe_close(fd);
                (void) fixture_run(&h.f);
        }
        http_done(&h);
}

/* The rest that the library answers by itself, with a page for people: see mcp-exec(8). */
TEST(malformed_chunks_get_a_status_and_the_end_of_the_connection) {
        static const struct {
                const char *body, *status;
        } table[] = {
                { "zz\r\n", "HTTP/1.1 400 " },
                { "28\r\n" PING "xx", "HTTP/1.1 400 " },
                { "fffffffffffffffff\r\n", "HTTP/1.1 413 " },
                { "28\r\n" PING "\r\n0\r\nno trailer\r\n\r\n", "HTTP/1.1 400 " },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char request[512];
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int fd = http_connect(&h);
                bool is_open = true;

                (void) snprintf(request, sizeof(request), LINE H J "Transfer-Encoding: chunked\r\n\r\n%s",
                                table[i].body);
                fixture_send_str(&h.f, fd, request);
                buffer_consume(&b, b.n_bytes);
                for (unsigned k = 0; k < 100 && is_open; k++)
                        is_open = settle(&h, fd, &b);
                ASSERT_FALSE(is_open);
                ASSERT_CONTAINS(b.data, table[i].status);
                ASSERT_TRUE(!strstr(b.data, "\"result\""));
                (void) safe_close(fd);
                (void) fixture_run(&h.f);
        }
        http_done(&h);
}

TEST(held_connections_end_with_the_listener_and_when_it_drains) {
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

/* Held is nobody for long: the library's limits go on from there. Who was refused and stays is cut off. */
TEST(held_connections_are_left_to_the_library_and_refused_ones_end) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), none = BUFFER_INIT(0);
        int slow, refused;
        HttpServer *s;
        Http h;

        http_init(&h, true, NULL);
        s = (HttpServer*) h.listener;
        slow = http_connect(&h);
        refused = http_connect(&h);
        fixture_send_str(&h.f, slow, "POST /mcp HT");
        fixture_send_str(&h.f, refused, "\1");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 2);
        for (const HttpConnection *c = s->connections; c; c = c->next)
                ASSERT_TRUE(c->is_held);
        for (HttpConnection *c = s->connections, *next; c; c = next) {
                next = c->next;
                http_hold_sweep(c, c->held_since_usec + 1, 2);
        }
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 2);
        for (HttpConnection *c = s->connections, *next; c; c = next) {
                next = c->next;
                http_hold_sweep(c, c->held_since_usec + 2, 2);
        }
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 1);
        ASSERT_FALSE(s->connections->is_held);
        ASSERT_FALSE(settle(&h, refused, &none) && settle(&h, refused, &none));
        fixture_send_str(&h.f, slow, "TP/1.1\r\n" H J BODY);
        (void) settle(&h, slow, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        (void) safe_close(slow);
        (void) safe_close(refused);
        http_done(&h);
}
