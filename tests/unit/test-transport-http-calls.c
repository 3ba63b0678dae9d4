/* SPDX-License-Identifier: MIT */

/* HTTP: calls that take their time, event streams, hang-ups, sessions. */

#include <systemd/sd-id128.h>

#include "files.h"
#include "http-fixture.h"

TEST(call_waits_while_others_are_served) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), other = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "Accept: application/json\r\n", CALL("wait"));
        ASSERT_TRUE(fixture_receive(&h.f, fd, &b));
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        ASSERT_EQ_UINT(b.n_bytes, 0);
        post(&h, "", PING, &other);
        ASSERT_EQ_STR(reply_body(&other), PONG);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_EQ_STR(reply_body(&b), RESULT);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(waiting_request_does_not_spin) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        unsigned n = 0;
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("wait"));
        for (uint64_t end = now_monotonic_usec() + 100 * USEC_PER_MSEC; now_monotonic_usec() < end; n++)
                (void) sd_event_run(h.f.event, 100 * USEC_PER_MSEC);
        ASSERT_TRUE(n < 10);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_EQ_STR(reply_body(&b), RESULT);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(big_reply_arrives_whole) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "", CALL("big"));
        fixture_release(&h.f);
        for (unsigned i = 0; i < 1000 && b.n_bytes < MIB; i++) {
                ASSERT_TRUE(fixture_receive(&h.f, fd, &b));
                (void) sd_event_run(h.f.event, 5 * USEC_PER_MSEC);
        }
        ASSERT_EQ_UINT(strlen(reply_body(&b)),
                       MIB + sizeof("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[\"\"]}}") - 1);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(progress_makes_an_event_stream) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, MODERN, CALL_MODERN("wait", ",\"progressToken\":5"));
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
        ASSERT_CONTAINS(b.data, "Content-Type: text/event-stream\r\n");
        ASSERT_CONTAINS(b.data, "Cache-Control: no-cache\r\n");
        ASSERT_CONTAINS(b.data, "X-Accel-Buffering: no\r\n");

        buffer_consume(&b, b.n_bytes);
        ASSERT_EQ_INT(mcp_call_progress(h.f.calls[0], USEC_PER_SEC, "working"), 0);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data,
                        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",");
        ASSERT_CONTAINS(b.data, "}\n\n");

        buffer_consume(&b, b.n_bytes);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":");
        ASSERT_CONTAINS(b.data, "\r\n0\r\n\r\n");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(client_that_takes_only_streams_gets_one) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post(&h, "Accept: text/event-stream\r\n", PING, &b);
        ASSERT_CONTAINS(b.data, "Content-Type: text/event-stream\r\n");
        ASSERT_CONTAINS(b.data, "event: message\ndata: " PONG "\n\n");
        http_done(&h);
}

TEST(client_that_takes_only_json_gets_json_even_with_progress) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "Accept: application/json\r\n" MODERN, CALL_MODERN("wait", ",\"progressToken\":5"));
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        ASSERT_EQ_INT(mcp_call_progress(h.f.calls[0], USEC_PER_SEC, "working"), 0);
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "Content-Type: application/json\r\n");
        ASSERT_FALSE(strstr(b.data, "progress"));
        (void) safe_close(fd);
        http_done(&h);
}

TEST(slow_call_becomes_an_event_stream) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t start = now_monotonic_usec();
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, "Accept: application/json, text/event-stream\r\n", CALL("wait"));
        while (b.n_bytes == 0 && now_monotonic_usec() < start + 20 * USEC_PER_SEC) {
                (void) sd_event_run(h.f.event, USEC_PER_SEC);
                ASSERT_TRUE(fixture_receive(&h.f, fd, &b));
        }
        ASSERT_TRUE(now_monotonic_usec() >= start + 4 * USEC_PER_SEC);
        ASSERT_CONTAINS(b.data, "Content-Type: text/event-stream\r\n");
        fixture_release(&h.f);
        (void) settle(&h, fd, &b);
        ASSERT_CONTAINS(b.data, "event: message\ndata: " RESULT "\n\n");
        (void) safe_close(fd);
        http_done(&h);
}

static void check_hangup(const char *headers, const char *body, bool is_half, unsigned n_cancelled) {
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, headers, body);
        ASSERT_EQ_UINT(h.f.n_waiting, 1);
        ASSERT_EQ_INT(is_half ? shutdown(fd, SHUT_WR) : close(fd), 0);
        (void) fixture_run(&h.f);
        if (n_cancelled == 0) { /* it waits for the answer, and learns by sending it that nobody listens */
                ASSERT_EQ_UINT(listener_n_connections(h.listener), 1);
                fixture_release(&h.f);
        }
        for (unsigned i = 0; i < 200 && listener_n_connections(h.listener) > 0; i++)
                (void) sd_event_run(h.f.event, 10 * USEC_PER_MSEC);
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        ASSERT_EQ_UINT(h.f.n_cancelled, n_cancelled);
        ASSERT_EQ_UINT(h.f.n_waiting, 0);
        if (is_half)
                (void) safe_close(fd);
        http_done(&h);
}

TEST(hangup_cancels_a_modern_call_that_waits_for_json) {
        check_hangup("Accept: application/json\r\n" MODERN, CALL_MODERN("wait", ""), false, 1);
}

TEST(hangup_cancels_a_modern_call_that_streams) {
        check_hangup(MODERN, CALL_MODERN("wait", ",\"progressToken\":5"), false, 1);
}

/* Closing looks no different. */
TEST(half_closed_client_of_a_modern_call_has_cancelled_it) {
        check_hangup("Accept: application/json\r\n" MODERN, CALL_MODERN("wait", ""), true, 1);
        check_hangup(MODERN, CALL_MODERN("wait", ",\"progressToken\":5"), true, 1);
}

TEST(hangup_does_not_cancel_a_call_of_the_handshake_era) {
        check_hangup("", CALL("wait"), false, 0);
}

/* As one that sends its request from a file. */
TEST(half_closed_client_of_the_handshake_era_gets_its_answer) {
        static const char *const accept[] = { "application/json", "text/event-stream" };
        Http h;

        http_init(&h, true, NULL);
        for (size_t i = 0; i < ELEMENTSOF(accept); i++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                int fd = http_connect(&h);
                char header[64];
                bool is_open = true;

                (void) snprintf(header, sizeof(header), "Accept: %s\r\n", accept[i]);
                post_on(&h, fd, header, CALL("wait"));
                ASSERT_EQ_INT(shutdown(fd, SHUT_WR), 0);
                ASSERT_TRUE(settle(&h, fd, &b));
                ASSERT_EQ_UINT(h.f.n_waiting, 1);
                fixture_release(&h.f);
                for (unsigned k = 0; k < 100 && is_open; k++)
                        is_open = settle(&h, fd, &b);
                ASSERT_FALSE(is_open);
                ASSERT_CONTAINS(b.data, "HTTP/1.1 200 ");
                ASSERT_CONTAINS(b.data, RESULT);
                (void) safe_close(fd);
                (void) fixture_run(&h.f);
                ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        }
        ASSERT_EQ_UINT(h.f.n_cancelled, 0);
        http_done(&h);
}

/* The session id out of a reply. */
static void session_of(const Buffer *b, char ret[static 65]) {
        const char *p = strstr(b->data, "Mcp-Session-Id: ");

        ASSERT_TRUE(p);
        memcpy(ret, p + strlen("Mcp-Session-Id: "), 64);
        ret[64] = 0;
        ASSERT_EQ_UINT(strspn(ret, "0123456789abcdef"), 64);
}

static void with_session(const char *id, char ret[static 100]) {
        (void) snprintf(ret, 100, "Mcp-Session-Id: %s\r\n", id);
}

TEST(session_lives_until_it_is_deleted) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0);
        char id[65], header[100];
        Http h;

        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        ASSERT_CONTAINS(b.data, "\"protocolVersion\":\"2025-06-18\"");
        session_of(&b, id);
        with_session(id, header);
        post(&h, header, PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        ASSERT_FALSE(strstr(b.data, "Mcp-Session-Id"));

        ASSERT_EQ_INT(buffer_printf(&request, "DELETE /mcp HTTP/1.1\r\n" H "%s\r\n", header), 0);
        exchange(&h, request.data, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 204 ");
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        exchange(&h, request.data, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}

TEST(session_outlives_the_daemon) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char id[65], header[100];
        sd_id128_t machine;
        Http h;

        if (sd_id128_get_machine(&machine) < 0)
                SKIP("this machine has no id");
        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        http_done(&h);

        http_init(&h, true, NULL);
        with_session(id, header);
        post(&h, header, PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        id[40] = id[40] == '0' ? '1' : '0';
        with_session(id, header);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}

TEST(session_of_another_token_is_unknown) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char id[65], header[200];
        Http h;

        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        http_done(&h);

        http_init(&h, false, TOKEN);
        (void) snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\nX-MCP-AUTH: " TOKEN "\r\n", id);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
}

TEST(failed_handshake_makes_no_session) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;

        http_init(&h, true, NULL);
        post(&h, "", "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}", &b);
        ASSERT_CONTAINS(b.data, "\"error\"");
        ASSERT_FALSE(strstr(b.data, "Mcp-Session-Id"));
        http_done(&h);
}

TEST(cancel_works_within_a_session_only) {
        static const char cancel[] =
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), waiting = BUFFER_INIT(0);
        char id[65], header[100];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        with_session(id, header);
        fd = http_connect(&h);
        post_on(&h, fd, header, CALL("wait"));
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        with_session(id, header);
        post(&h, header, cancel, &b); /* another session's id 1 */
        ASSERT_CONTAINS(b.data, "HTTP/1.1 202 ");
        ASSERT_EQ_UINT(h.f.n_cancelled, 0);
        fixture_release(&h.f);
        (void) settle(&h, fd, &waiting);

        buffer_consume(&waiting, waiting.n_bytes);
        post_on(&h, fd, header, CALL("wait"));
        post(&h, header, cancel, &b);
        ASSERT_EQ_UINT(h.f.n_cancelled, 1);
        (void) settle(&h, fd, &waiting);
        ASSERT_CONTAINS(waiting.data, "HTTP/1.1 202 ");
        ASSERT_EQ_STR(reply_body(&waiting), "");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(deleted_session_answers_those_who_wait) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), request = BUFFER_INIT(0), waiting = BUFFER_INIT(0);
        char id[65], header[100];
        Http h;
        int fd;

        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        with_session(id, header);
        fd = http_connect(&h);
        post_on(&h, fd, header, CALL("wait"));
        ASSERT_EQ_INT(buffer_printf(&request, "DELETE /mcp HTTP/1.1\r\n" H "%s\r\n", header), 0);
        exchange(&h, request.data, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 204 ");
        ASSERT_EQ_UINT(h.f.n_cancelled, 1);
        (void) settle(&h, fd, &waiting);
        ASSERT_CONTAINS(waiting.data, "HTTP/1.1 404 ");
        ASSERT_CONTAINS(reply_body(&waiting), "\"code\":-31000");
        (void) safe_close(fd);
        http_done(&h);
}

TEST(drained_connection_ends_with_its_stream) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Http h;
        int fd;

        http_init(&h, true, NULL);
        fd = http_connect(&h);
        post_on(&h, fd, MODERN, CALL_MODERN("wait", ",\"progressToken\":5"));
        (void) settle(&h, fd, &b);
        listener_drain(h.listener);
        fixture_release(&h.f);
        ASSERT_FALSE(settle(&h, fd, &b) && fixture_receive(&h.f, fd, &b));
        ASSERT_CONTAINS(b.data, "\r\n0\r\n\r\n");
        ASSERT_EQ_UINT(listener_n_connections(h.listener), 0);
        (void) safe_close(fd);
        http_done(&h);
}

TEST(freeing_the_listener_ends_waiting_and_streaming_requests) {
        Http h;
        int waiting, streaming, half;

        http_init(&h, true, NULL);
        waiting = http_connect(&h);
        streaming = http_connect(&h);
        half = http_connect(&h);
        post_on(&h, waiting, "", CALL("wait"));
        post_on(&h, streaming, MODERN, CALL_MODERN("wait", ",\"progressToken\":5"));
        fixture_send_str(&h.f, half, "POST /mcp HTTP/1.1\r\n" H J "Content-Length: 100\r\n\r\n{");
        ASSERT_EQ_UINT(h.f.n_waiting, 2);
        h.listener = listener_free(h.listener);
        ASSERT_EQ_UINT(h.f.n_cancelled, 2);
        (void) safe_close(waiting);
        (void) safe_close(streaming);
        (void) safe_close(half);
        http_done(&h);
}

/* The client repeats no revision in a header; the id remembers it. */
TEST(session_remembers_its_revision_across_a_restart_and_expires) {
        static const char old[] =
                "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char id[65], header[100], path[64], now[9];
        _cleanup_tree_ char *directory = make_tree();
        Http h;

        ASSERT_EQ_INT(setenv("STATE_DIRECTORY", directory, 1), 0);
        http_init(&h, true, NULL);
        post(&h, "", old, &b);
        session_of(&b, id);
        http_done(&h);
        (void) snprintf(path, sizeof(path), "%s/session-key", directory);

        http_init(&h, true, NULL);
        with_session(id, header);
        /* A batch: allowed without a header, refused in a session of this revision. */
        post(&h, header, "[" PING "]", &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 400 ");
        post(&h, header, PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        http_done(&h);

        /* Its first digits are the time at which it ends, in about a month; an earlier one is not ours. */
        (void) snprintf(now, sizeof(now), "%08x", (unsigned) (now_realtime_usec() / USEC_PER_SEC));
        ASSERT_TRUE(memcmp(id, now, 8) > 0);
        memcpy(id, "00000001", 8);
        with_session(id, header);
        http_init(&h, true, NULL);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);

        /* Another key: not ours. */
        ASSERT_EQ_INT(unlink(path), 0);
        http_init(&h, true, NULL);
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        http_done(&h);
        ASSERT_EQ_INT(unlink(path), 0);
        http_init(&h, true, NULL);
        with_session(id, header);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
        (void) unsetenv("STATE_DIRECTORY");
}

TEST(deleted_session_is_unknown_to_every_listener_and_after_a_restart) {
        _cleanup_tree_ char *directory = make_tree();
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char id[65], header[100], request[300];
        Listener *first, *second;
        Http h;

        ASSERT_EQ_INT(setenv("STATE_DIRECTORY", directory, 1), 0);
        http_init(&h, true, NULL);
        first = h.listener;
        http_listen(&h);
        second = h.listener;
        post(&h, "", INITIALIZE, &b);
        session_of(&b, id);
        with_session(id, header);
        h.listener = first;
        http_locate(&h);
        post(&h, header, PING, &b);
        ASSERT_EQ_STR(reply_body(&b), PONG);
        (void) snprintf(request, sizeof(request), "DELETE /mcp HTTP/1.1\r\n" H "%s\r\n", header);
        exchange(&h, request, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 204 ");
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        h.listener = second;
        http_locate(&h);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        (void) listener_free(first);
        http_done(&h);

        http_init(&h, true, NULL);
        post(&h, header, PING, &b);
        ASSERT_CONTAINS(b.data, "HTTP/1.1 404 ");
        http_done(&h);
        (void) unsetenv("STATE_DIRECTORY");
}
