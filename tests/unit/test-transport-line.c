/* SPDX-License-Identifier: MIT */

/* Newline framing: exact bytes, and whatever a client may do with a stream. */

#include "transport-fixture.h"
#include "transport/listener.h"

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define CALL(id, tool) \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\"}}"
#define TOO_LONG "This message is longer than the server takes (12 MiB, whatever MaxCodeBytes= and " \
                 "MaxStdinBytes= say)."

/* A socket pair, one end of which is the transport's. */
typedef struct Pair {
        Fixture f;
        LineTransport *t;
        int fd;
        MemoryBudget budget;
} Pair;

static void on_closed(LineTransport *t, void *userdata) {
        Fixture *f = userdata;

        (void) t;
        f->n_closed++;
}

static void pair_open(Pair *p, Fixture *f, MemoryBudget *budget) {
        int fds[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        ASSERT_EQ_INT(fd_set_nonblock(fds[0], true), 0);
        p->fd = fds[0];
        ASSERT_EQ_INT(line_transport_new(&(LineTransportParameters) {
                                .event = f->event,
                                .server = f->server,
                                .principal = "uid:1",
                                .input_fd = fds[1],
                                .output_fd = fds[1],
                                .on_closed = on_closed,
                                .userdata = f,
                                .budget = budget,
                        }, &p->t), 0);
}

static void pair_init(Pair *p) {
        *p = (Pair) { .budget.max_bytes = SIZE_MAX };
        fixture_init(&p->f);
        pair_open(p, &p->f, &p->budget);
}

static void pair_done(Pair *p) {
        p->t = line_transport_free(p->t);
        (void) safe_close(p->fd);
        ASSERT_EQ_UINT(p->budget.used_bytes, 0);
        fixture_done(&p->f);
}

static void expect(Pair *p, const char *sent, const char *expected) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        fixture_send_str(&p->f, p->fd, sent);
        ASSERT_TRUE(fixture_receive(&p->f, p->fd, &b));
        ASSERT_EQ_STR(b.data, expected);
}

TEST(reply_is_one_line) {
        Pair p;

        pair_init(&p);
        expect(&p, PING("1") "\n", PONG("1") "\n");
        pair_done(&p);
}

TEST(message_in_single_bytes_is_joined) {
        static const char text[] = PING("\"x\"") "\n";
        Pair p;

        pair_init(&p);
        for (size_t i = 0; i < sizeof(text) - 2; i++)
                expect(&p, (char[]) { text[i], 0 }, "");
        expect(&p, "\n", PONG("\"x\"") "\n");
        pair_done(&p);
}

TEST(line_ends_of_windows_and_blank_lines_are_tolerated) {
        Pair p;

        pair_init(&p);
        expect(&p, "\n\r\n \t\n" PING("1") "\r\n\n" PING("2") "\n", PONG("1") "\n" PONG("2") "\n");
        pair_done(&p);
}

TEST(garbage_is_answered_and_the_stream_goes_on) {
        Pair p;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        pair_init(&p);
        fixture_send(&p.f, p.fd, "\0\xff{]\n" PING("7") "\n", 5 + sizeof(PING("7") "\n") - 1);
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,");
        ASSERT_CONTAINS(b.data, "\n" PONG("7") "\n");
        ASSERT_EQ_UINT(count(&b, '\n'), 2);
        pair_done(&p);
}

TEST(many_messages_at_once_are_all_answered_in_order) {
        _cleanup_buffer_ Buffer sent = BUFFER_INIT(0), expected = BUFFER_INIT(0), got = BUFFER_INIT(0);
        Pair p;

        for (unsigned i = 0; i < 2000; i++) {
                ASSERT_EQ_INT(buffer_printf(&sent, PING("%u") "\n", i), 0);
                ASSERT_EQ_INT(buffer_printf(&expected, PONG("%u") "\n", i), 0);
        }
        pair_init(&p);
        fixture_send(&p.f, p.fd, sent.data, sent.n_bytes);
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &got));
        ASSERT_EQ_MEM(got.data, got.n_bytes, expected.data, expected.n_bytes);
        pair_done(&p);
}

/* One client's flood is taken in pieces, so that the others have their turn. */
TEST(flood_of_one_client_does_not_delay_another) {
        _cleanup_buffer_ Buffer sent = BUFFER_INIT(0), b = BUFFER_INIT(0);
        Pair p, other = {};
        unsigned n = 0;

        for (unsigned i = 0; i < 1000; i++)
                ASSERT_EQ_INT(buffer_append_str(&sent, PING("1") "\n"), 0);
        pair_init(&p);
        pair_open(&other, &p.f, &p.budget);
        (void) fixture_run(&p.f);
        ASSERT_TRUE(write(p.fd, sent.data, sent.n_bytes) > 0);
        ASSERT_TRUE(write(other.fd, PING("2") "\n", sizeof(PING("2"))) > 0);
        while (b.n_bytes == 0 && n < 8) {
                void *room = NULL;
                ssize_t r;

                (void) sd_event_run(p.f.event, 0);
                n++;
                ASSERT_EQ_INT(buffer_reserve(&b, 100, &room), 0);
                r = read(other.fd, room, 100);
                if (r > 0)
                        buffer_commit(&b, (size_t) r);
        }
        ASSERT_EQ_STR(b.data, PONG("2") "\n");
        other.t = line_transport_free(other.t);
        (void) safe_close(other.fd);
        pair_done(&p);
}

/* n_bytes of one message: head, so many letters, tail. */
static void send_long(Pair *p, const char *head, size_t n_letters, const char *tail) {
        _cleanup_free_ char *letters = malloc(65536);

        ASSERT_TRUE(letters);
        memset(letters, 'a', 65536);
        fixture_send_str(&p->f, p->fd, head);
        for (size_t n; n_letters > 0; n_letters -= n) {
                n = MIN_OF(n_letters, (size_t) 65536);
                fixture_send(&p->f, p->fd, letters, n);
        }
        fixture_send_str(&p->f, p->fd, tail);
}

TEST(longest_line_is_still_read) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        send_long(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"", LINE_BYTES_MAX - 48,
                  "\"}\n");
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_EQ_STR(b.data, PONG("1") "\n");
        pair_done(&p);
}

/* head, tail, and the id that the refusal must carry. */
static void check_too_long(size_t n_letters, const char *head, const char *tail, const char *id) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), expected = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        send_long(&p, head, n_letters, tail);
        fixture_send_str(&p.f, p.fd, "\n" PING("2") "\n");
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_EQ_INT(
                buffer_printf(&expected,
                              "{\"jsonrpc\":\"2.0\",%s\"error\":{\"code\":-32600,\"message\":\"%s\"}}\n%s\n",
                              id, TOO_LONG, PONG("2")),
                0);
        ASSERT_EQ_STR(b.data, expected.data);
        ASSERT_TRUE(p.budget.used_bytes < MIB);
        pair_done(&p);
}

TEST(too_long_line_is_refused_under_its_leading_id) {
        check_too_long(13 * MIB, "{\"id\":\"a\\u0041\",\"method\":\"", "\"}", "\"id\":\"a\\u0041\",");
}

TEST(too_long_line_is_refused_under_its_trailing_id) {
        check_too_long(13 * MIB, "{\"method\":\"", "\", \"id\" : 17 } ", "\"id\":17,");
}

TEST(id_within_a_member_is_not_the_request_s) {
        check_too_long(13 * MIB, "{\"params\":{\"x\":\"", "\",\"id\":17}}", "");
}

TEST(id_within_a_string_is_not_the_request_s) {
        check_too_long(13 * MIB, "{\"x\":\"", "\\\",\\\"id\\\":17}", "");
}

TEST(line_of_64_mib_is_refused_in_little_memory) {
        check_too_long(64 * MIB, "", "", "");
}

TEST(line_barely_too_long_is_refused) {
        check_too_long(LINE_BYTES_MAX - 9, "{\"id\":5,\"", "\"}", "\"id\":5,");
}

TEST(unfinished_lines_of_all_clients_share_a_budget) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p, other = {};

        pair_init(&p);
        p.budget.max_bytes = 4 * MIB;
        pair_open(&other, &p.f, &p.budget);
        send_long(&p, "{\"x\":\"", 6 * MIB, "\",\"id\":3}\n");
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_CONTAINS(b.data, "\"id\":3,\"error\":{\"code\":-31001,");
        ASSERT_TRUE(p.budget.used_bytes < MIB);
        fixture_send_str(&p.f, other.fd, PING("1") "\n");
        buffer_consume(&b, b.n_bytes);
        ASSERT_TRUE(fixture_receive(&p.f, other.fd, &b));
        ASSERT_EQ_STR(b.data, PONG("1") "\n");
        other.t = line_transport_free(other.t);
        (void) safe_close(other.fd);
        pair_done(&p);
}

TEST(end_of_input_cancels_what_runs_and_answers_nothing) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "wait") "\n" PING("2") "\n");
        ASSERT_EQ_UINT(p.f.n_waiting, 1);
        ASSERT_EQ_INT(shutdown(p.fd, SHUT_WR), 0);
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_EQ_STR(b.data, PONG("2") "\n");
        ASSERT_EQ_UINT(p.f.n_cancelled, 1);
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

TEST(answer_of_a_run_does_not_wait_for_a_turn_of_the_event_loop) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char reply[256] = {};
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "wait") "\n");
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_EQ_UINT(p.f.n_waiting, 1);

        /* The loop does not run here: it may be busy with the large messages of others. */
        fixture_release(&p.f);
        ASSERT_TRUE(recv(p.fd, reply, sizeof(reply) - 1, MSG_DONTWAIT) > 0);
        ASSERT_CONTAINS(reply, "\"id\":1,\"result\":");
        pair_done(&p);
}

TEST(last_line_needs_no_newline) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, PING("1"));
        ASSERT_EQ_INT(shutdown(p.fd, SHUT_WR), 0);
        (void) fixture_receive(&p.f, p.fd, &b);
        ASSERT_EQ_STR(b.data, PONG("1") "\n");
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

TEST(half_a_message_at_the_end_is_an_error_under_its_id) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, "{\"id\":9,\"method\":\"pi");
        ASSERT_EQ_INT(shutdown(p.fd, SHUT_WR), 0);
        (void) fixture_receive(&p.f, p.fd, &b);
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32700,");
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

TEST(client_that_closes_altogether_is_noticed_while_a_tool_runs) {
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "wait") "\n");
        p.fd = safe_close(p.fd);
        (void) fixture_run(&p.f);
        ASSERT_EQ_UINT(p.f.n_cancelled, 1);
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

/* Asks without reading: is not read from any more once its replies pile up, and loses none of them. */
TEST(client_that_does_not_read_is_not_read_from) {
        _cleanup_buffer_ Buffer sent = BUFFER_INIT(0), got = BUFFER_INIT(0);
        size_t n_sent = 0, n_messages = 100000;
        Pair p;

        for (size_t i = 0; i < n_messages; i++)
                ASSERT_EQ_INT(buffer_append_str(&sent, PING("1") "\n"), 0);
        pair_init(&p);
        for (;;) {
                ssize_t n = write(p.fd, sent.data + n_sent, sent.n_bytes - n_sent);

                if (n < 0)
                        break;
                n_sent += (size_t) n;
                (void) fixture_run(&p.f);
        }
        ASSERT_TRUE(n_sent < sent.n_bytes);
        ASSERT_TRUE(p.budget.used_bytes < 4 * MIB);

        while (n_sent < sent.n_bytes || count(&got, '\n') < n_messages) {
                ssize_t n = write(p.fd, sent.data + n_sent, sent.n_bytes - n_sent);

                if (n > 0)
                        n_sent += (size_t) n;
                ASSERT_TRUE(fixture_receive(&p.f, p.fd, &got));
        }
        ASSERT_EQ_UINT(got.n_bytes, n_messages * sizeof(PONG("1")));
        pair_done(&p);
}

TEST(client_that_never_reads_big_replies_is_disconnected) {
        Pair p;

        pair_init(&p);
        for (unsigned i = 0; i < 40; i++) {
                char line[200];

                (void) snprintf(line, sizeof(line), CALL("%u", "big") "\n", i);
                fixture_send_str(&p.f, p.fd, line);
        }
        ASSERT_EQ_UINT(p.f.n_waiting, 40);
        fixture_release(&p.f);
        (void) fixture_run(&p.f);
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

TEST(reader_that_stops_at_the_end_is_given_up_after_a_second) {
        uint64_t start;
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "big") "\n");
        fixture_release(&p.f);
        (void) fixture_run(&p.f);
        start = now_monotonic_usec();
        ASSERT_EQ_INT(shutdown(p.fd, SHUT_WR), 0);
        fixture_wait(&p.f, &p.f.n_closed, 1);
        ASSERT_TRUE(now_monotonic_usec() - start >= USEC_PER_SEC);
        pair_done(&p);
}

TEST(big_reply_is_whole_before_the_next) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "big") "\n");
        fixture_release(&p.f);
        fixture_send_str(&p.f, p.fd, PING("2") "\n");
        ASSERT_TRUE(fixture_receive(&p.f, p.fd, &b));
        ASSERT_EQ_UINT(count(&b, '\n'), 2);
        ASSERT_EQ_STR(strchr(b.data, '\n') + 1, PONG("2") "\n");
        pair_done(&p);
}

TEST(drain_answers_what_runs_and_what_comes_meanwhile) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "wait") "\n");
        line_transport_drain(p.t);
        fixture_send_str(&p.f, p.fd, PING("2") "\n");
        ASSERT_EQ_UINT(p.f.n_closed, 0);
        fixture_release(&p.f);
        (void) fixture_receive(&p.f, p.fd, &b);
        ASSERT_EQ_STR(b.data, PONG("2") "\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n");
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

/* Each request gets its answer, or could not be sent. */
TEST(what_was_sent_before_the_end_of_a_drain_is_answered) {
        static const char both[] = PING("1") "\n" PING("2") "\n" "{\"jsonrpc\":";
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        Pair p;

        pair_init(&p);
        ASSERT_EQ_INT(send(p.fd, both, sizeof(both) - 1, MSG_NOSIGNAL), (int) sizeof(both) - 1);
        line_transport_drain(p.t);
        (void) fixture_receive(&p.f, p.fd, &b);
        ASSERT_EQ_STR(b.data, PONG("1") "\n" PONG("2") "\n");
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        ASSERT_EQ_INT(send(p.fd, both, sizeof(both) - 1, MSG_NOSIGNAL), -1);
        ASSERT_EQ_INT(errno, EPIPE);
        pair_done(&p);
}

TEST(drain_of_an_idle_client_closes_at_once) {
        Pair p;

        pair_init(&p);
        line_transport_drain(p.t);
        (void) fixture_run(&p.f);
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}

TEST(client_that_leaves_during_drain_is_cancelled) {
        Pair p;

        pair_init(&p);
        fixture_send_str(&p.f, p.fd, CALL("1", "wait") "\n");
        line_transport_drain(p.t);
        (void) fixture_run(&p.f);
        p.fd = safe_close(p.fd);
        (void) fixture_run(&p.f);
        ASSERT_EQ_UINT(p.f.n_cancelled, 1);
        ASSERT_EQ_UINT(p.f.n_closed, 1);
        pair_done(&p);
}
