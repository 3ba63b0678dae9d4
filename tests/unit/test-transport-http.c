/* SPDX-License-Identifier: MIT */

/* HTTP: statuses, headers, bodies, limits. */

#include "http-fixture.h"

TEST(request_is_answered_with_json) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post(&h, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b.data, "Content-Type: application/json\r\n");
        ASSERT_EQ_STR(reply_body(&b), PONG);
        http_done(&h);
}

/* RFC 9112 §3.2.2: clients that were told of a proxy write it so. */
TEST(address_in_its_absolute_form_is_answered_like_its_path) {
        static const struct {
                const char *request, *status, *part;
        } table[] = {
                { "POST http://127.0.0.1:8080/mcp HTTP/1.1\r\n" H J BODY, "200", PONG },
                { "POST https://MCP.example/mcp?a=b HTTP/1.1\r\nHost: mcp.example\r\n" J BODY, "200", PONG },
                { "GET http://127.0.0.1:8080/mcp HTTP/1.1\r\n" H "\r\n", "405", "Allow: POST\r\n" },
                { "POST http://127.0.0.1:8080/ HTTP/1.1\r\n" H J BODY, "404", "not_found" },
                { "POST http://127.0.0.1:8080 HTTP/1.1\r\n" H J BODY, "404", "not_found" },
                { "POST http://127.0.0.1:8080?/mcp HTTP/1.1\r\n" H J BODY, "404", "not_found" },
                { "POST http:%2F%2F127.0.0.1:8080/mcp HTTP/1.1\r\n" H J BODY, "404", "not_found" },
                { "POST ftp://127.0.0.1:8080/mcp HTTP/1.1\r\n" H J BODY, "404", "not_found" },
                { "POST http://evil.example/mcp HTTP/1.1\r\nHost: evil.example\r\n" J BODY, "403",
                  "AllowedHosts=" },
                { "POST http://127.0.0.1:8080/mcp HTTP/1.1\r\nHost: mcp.example\r\n" J BODY, "400",
                  "The address names no host, or another one than the Host header." },
                { "POST http://127.0.0.1:8080/mcp HTTP/1.0\r\n" J BODY, "403", "AllowedHosts=" },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                exchange(&h, table[i].request, &b);
                if (b.n_bytes < 12 || memcmp(b.data + 9, table[i].status, 3) != 0 ||
                    !strstr(b.data, table[i].part))
                        FAIL("%s\ngot:\n%s\nexpected %s with %s", table[i].request, b.data, table[i].status,
                             table[i].part);
        }
        http_done(&h);
}

/* It would be taken for broken JSON. */
TEST(compressed_body_is_refused_by_its_header) {
        static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31000,\"message\":"
                                   "\"The body must come as it is, without a Content-Encoding.\"}}";
        static const struct {
                const char *headers;
                bool is_taken;
        } table[] = {
                { "Content-Encoding: gzip\r\n", false },
                { "Content-Encoding: identity, br\r\n", false },
                { "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", false },
                { "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", false },
                { "content-encoding: \tIdentity \r\n", true },
                { "Content-Encoding:\r\n", true },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                post(&h, table[i].headers, PING, &b);
                ASSERT_EQ_STR(reply_body(&b), table[i].is_taken ? PONG : body);
                if (table[i].is_taken)
                        continue;
                ASSERT_CONTAINS(b.data, "HTTP/1.1 415 ");
                ASSERT_CONTAINS(b.data, "Accept-Encoding: identity\r\n");
        }
        http_done(&h);
}

/* What is refused, with which status and what in it. */
TEST(refusals_have_their_status_and_a_json_body) {
        static const struct {
                const char *request, *status, *part;
        } table[] = {
                { "GET /mcp HTTP/1.1\r\n" H "\r\n", "405", "Allow: POST\r\n" },
                { "GET /mcp HTTP/1.1\r\n" H "\r\n", "405", "\"code\":-31000" },
                { "PUT /mcp HTTP/1.1\r\n" H BODY, "405", "\"id\":1," },
                { "DELETE /mcp HTTP/1.1\r\n" H "\r\n", "405", "Allow: POST\r\n" },
                { "GET / HTTP/1.1\r\n" H "\r\n", "404",
                  "{\"error\":\"not_found\",\"error_description\":\"" },
                { "GET /.well-known/oauth-protected-resource HTTP/1.1\r\n" H "\r\n", "404", "\"error\"" },
                { "POST /register HTTP/1.1\r\n" H J BODY, "404", "\"error_description\"" },
                { "POST /mcp/ HTTP/1.1\r\n" H J BODY, "404", "\"error\"" },
                { "POST /mcp HTTP/1.1\r\n" H "Content-Type: text/plain\r\n" BODY, "415", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\n" H BODY, "415", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\n" H J "Accept: text/html\r\n" BODY, "406", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\nHost: evil.example\r\n" J BODY, "403", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\nHost: localhost.evil.example\r\n" J BODY, "403",
                  "\"code\":-31000" },
                { "POST /mcp HTTP/1.0\r\n" J BODY, "403", "\"code\":-31000" },
                { "POST /mcp HTTP/1.1\r\n" H "Origin: http://evil.example\r\n" J BODY, "403", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\n" H "Origin: null\r\n" J BODY, "403", "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\n" H J "Content-Length: 3\r\n\r\n{]x", "400", "\"code\":-32700" },
                { "POST /mcp HTTP/1.1\r\n" H J "Content-Length: 0\r\n\r\n", "400", "\"code\":-32" },
                { "POST /mcp HTTP/1.1\r\n" H J "MCP-Protocol-Version: 1999-01-01\r\n" BODY, "400",
                  "\"id\":1," },
                { "POST /mcp HTTP/1.1\r\n" H J "Mcp-Session-Id: nonsense\r\n" BODY, "404", "\"id\":1," },
                { "DELETE /mcp HTTP/1.1\r\n" H "Mcp-Session-Id: nonsense\r\n\r\n", "404",
                  "\"code\":-31000" },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                exchange(&h, table[i].request, &b);
                if (b.n_bytes < 12 || memcmp(b.data + 9, table[i].status, 3) != 0 ||
                    !strstr(b.data, table[i].part))
                        FAIL("request %zu:\n%s\ngot:\n%s\nexpected %s with %s", i, table[i].request, b.data,
                             table[i].status, table[i].part);
        }
        http_done(&h);
}

TEST(what_is_allowed_is_allowed) {
        static const char *const requests[] = {
                "POST /mcp HTTP/1.1\r\n" H J BODY,
                "POST /mcp HTTP/1.1\r\nHost: mcp.example\r\n" J BODY,
                "POST /mcp HTTP/1.1\r\nHost: MCP.example:99\r\n" J BODY,
                "POST /mcp HTTP/1.1\r\n" H "Origin: http://localhost:3000\r\n" J BODY,
                "POST /mcp HTTP/1.1\r\n" H "Origin: https://mcp.example\r\n" J BODY,
                "POST /mcp HTTP/1.1\r\n" H "content-type: Application/JSON; charset=utf-8\r\n" BODY,
                "POST /mcp HTTP/1.1\r\n" H J "Accept: */*\r\n" BODY,
                "POST /mcp HTTP/1.1\r\n" H J
                "Accept: application/json\r\nAccept: text/event-stream\r\n" BODY,
                "POST /mcp HTTP/1.1\r\n" H J "MCP-Protocol-Version: 2025-11-25\r\n" BODY,
                "POST /mcp HTTP/1.1\r\n" H J "Transfer-Encoding: chunked\r\n\r\n28\r\n" PING "\r\n0\r\n\r\n",
                "POST /mcp HTTP/1.0\r\n" H J BODY,
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(requests); i++) {
                exchange(&h, requests[i], &b);
                if (b.n_bytes < 12 || memcmp(b.data + 9, "200", 3) != 0 || !streq(reply_body(&b), PONG))
                        FAIL("request %zu:\n%s\ngot:\n%s", i, requests[i], b.data);
        }
        http_done(&h);
}

TEST(expectation_is_answered_with_continue) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        fixture_send_str(&h.f, fd,
                         "POST /mcp HTTP/1.1\r\n" H J "Expect: 100-continue\r\nContent-Length: 40\r\n\r\n");
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 100 ");
        fixture_send_str(&h.f, fd, PING);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        (void) safe_close(fd);
        exchange(&h,
                 "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\nContent-Length: "
                 "40\r\n\r\n",
                 &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 403 ");
        http_done(&h);
}

TEST(token_opens_by_either_header_and_nothing_else_does) {
        static const struct {
                const char *header, *status;
        } table[] = {
                { "", "401" },
                { "Authorization: Bearer wrong\r\n", "401" },
                { "Authorization: Basic " TOKEN "\r\n", "401" },
                { "Authorization: Bearer " TOKEN "x\r\n", "401" },
                { "X-MCP-AUTH: \r\n", "401" },
                { "Authorization: Bearer " TOKEN "\r\nAuthorization: Bearer wrong\r\n", "401" },
                { "Authorization: Bearer " TOKEN "\r\n", "200" },
                { "authorization: bearer " TOKEN "\r\n", "200" },
                { "X-MCP-AUTH: " TOKEN "\r\n", "200" },
        };
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, false, TOKEN);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                post(&h, table[i].header, PING, &b);
                if (memcmp(b.data + 9, table[i].status, 3) != 0)
                        FAIL("%s got:\n%s\nexpected %s", table[i].header, b.data, table[i].status);
                if (streq(table[i].status, "401")) {
                        ASSERT_CONTAINS(b.data, "WWW-Authenticate: Bearer\r\n");
                        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31000,");
                }
        }
        http_done(&h);
}

TEST(without_token_nobody_is_served) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, false, NULL);
        post(&h, "Authorization: Bearer \r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        ASSERT_CONTAINS(reply_body(&b), "no token set");
        http_done(&h);
}

TEST(notification_is_accepted_without_a_body) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post(&h, "", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 202 ");
        ASSERT_EQ_STR(reply_body(&b), "");
        http_done(&h);
}

TEST(requests_follow_each_other_on_one_connection) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        for (unsigned i = 0; i < 5; i++) {
                buffer_consume(&b, b.n_bytes);
                post_on(&h, fd, "", PING);
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_STR(reply_body(&b), PONG);
        }
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 1);
        (void) safe_close(fd);
        (void) fixture_run(&h.f);
        http_done(&h);
}

/* n_letters in a member of a ping, by one POST. */
static void post_long(Http *h, size_t n_letters, Buffer *b) {
        static const char head[] = "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"x\":\"",
                          tail[] = "\",\"id\":1}";
        _cleanup_free_ char *letters = malloc(65536);
        char start[200];
        int fd = http_connect(h);

        ASSERT_TRUE(letters);
        memset(letters, 'a', 65536);
        (void) snprintf(start, sizeof(start), "POST /mcp HTTP/1.1\r\n" H J "Content-Length: %zu\r\n\r\n%s",
                        sizeof(head) - 1 + n_letters + sizeof(tail) - 1, head);
        fixture_send_str(&h->f, fd, start);
        for (size_t n; n_letters > 0; n_letters -= n) {
                n = MIN_OF(n_letters, (size_t) 65536);
                fixture_send(&h->f, fd, letters, n);
        }
        fixture_send_str(&h->f, fd, tail);
        for (unsigned i = 0; i < 1000 && b->n_bytes == 0; i++) {
                (void) fixture_receive(&h->f, fd, b);
                (void) sd_event_run(h->f.event, 10 * USEC_PER_MSEC);
        }
        (void) safe_close(fd);
        (void) fixture_run(&h->f);
}

TEST(body_within_the_limit_is_read) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post_long(&h, 12 * MIB, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        http_done(&h);
}

TEST(body_too_large_is_refused_under_its_id) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post_long(&h, 64 * MIB, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 413 ");
        ASSERT_CONTAINS(reply_body(&b), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,");
        http_done(&h);
}

TEST(connection_beyond_the_limit_is_told_so) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        h.settings->max_connections = 1;
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("wait"));
        fixture_wait(&h.f, &h.f.n_waiting, 1);
        post(&h, "", PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        ASSERT_CONTAINS(reply_body(&b), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31001,");
        buffer_consume(&b, b.n_bytes);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_EQ_STR(reply_body(&b), RESULT);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(drain_closes_the_idle_and_answers_the_busy) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), none = BUFFER_INIT(0);
        Http h;
        int idle, busy;

        http_init(&h, true, NULL);
        idle = http_connect(&h);
        busy = http_connect(&h);
        (void) fixture_run(&h.f);
        post_on(&h, busy, "", CALL("wait"));
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 2);
        listener_drain(h.listener);
        while (listener_n_connections(h.listener) > 1) /* until HTTP_FRESH_USEC */
                ASSERT_TRUE(sd_event_run(h.f.event, UINT64_MAX) >= 0);
        ASSERT_FALSE(settle(&h, idle, &none));
        fixture_release(&h.f);
        ASSERT_FALSE(settle(&h, busy, &b) && fixture_receive(&h.f, busy, &b));
        ASSERT_EQ_STR(reply_body(&b), RESULT);
        ASSERT_CONTAINS(b.data, "Connection: close\r\n");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        (void) safe_close(idle);
        (void) safe_close(busy);
        http_done(&h);
}

TEST(request_of_a_connection_that_was_taken_just_before_a_drain_is_answered) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        (void) fixture_run(&h.f);
        listener_drain(h.listener);
        post_on(&h, fd, "", PING);
        (void) (settle(&h, fd, &b) && fixture_receive(&h.f, fd, &b));
        ASSERT_CONTAINS(b.data, "HTTP/1.1 503 ");
        ASSERT_CONTAINS(b.data, "Connection: close\r\n");
        ASSERT_CONTAINS(reply_body(&b), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-31001,");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(garbage_does_no_harm) {
        uint64_t seed = 1;
        Http h;

        http_init(&h, true, NULL);
        for (unsigned i = 0; i < 200; i++) {
                char text[512];
                int fd = http_connect(&h);

                for (size_t k = 0; k < sizeof(text); k++)
                        text[k] = (char) test_random(&seed);
                if (i % 2)
                        memcpy(text, "POST /mcp HTTP/1.1\r\nHost: ", 26);
                fixture_send(&h.f, fd, text, sizeof(text));
                (void) safe_close(fd);
        }
        for (unsigned i = 0; i < 100 && listener_n_connections(h.listener) > 0; i++)
                (void) sd_event_run(h.f.event, 10 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        http_done(&h);
}
