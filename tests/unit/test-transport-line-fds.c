/* SPDX-License-Identifier: MIT */

/* Newline framing over two descriptors of any kind: pipes, files, the standard ones. */

#include "transport-fixture.h"

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define CALL(id, tool) \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\"}}"

static void on_closed(LineTransport *t, void *userdata) {
        Fixture *f = userdata;

        (void) t;
        f->n_closed++;
}

static LineTransport* open_two(Fixture *f, int input_fd, int output_fd) {
        LineTransport *t = NULL;

        ASSERT_EQ_INT(line_transport_new(&(LineTransportParameters) {
                                .event = f->event,
                                .server = f->server,
                                .principal = "local",
                                .input_fd = input_fd,
                                .output_fd = output_fd,
                                .on_closed = on_closed,
                                .userdata = f,
                        }, &t), 0);
        return t;
}

TEST(regular_files_work_as_input_and_output) {
        static const char text[] = PING("1") "\n" PING("2");
        _cleanup_free_ char *got = NULL;
        int input, output, copy;
        LineTransport *t;
        Fixture f;

        fixture_init(&f);
        input = memfd_new_sealed("input", text, strlen(text));
        output = memfd_create("output", MFD_CLOEXEC);
        copy = dup(output);
        ASSERT_TRUE(input >= 0 && output >= 0 && copy >= 0);
        t = open_two(&f, input, output);
        fixture_wait(&f, &f.n_closed, 1);
        ASSERT_EQ_INT(lseek(copy, 0, SEEK_SET), 0);
        ASSERT_EQ_INT(fd_read_all(copy, MIB, &got, NULL), 0);
        ASSERT_EQ_STR(got, PONG("1") "\n" PONG("2") "\n");
        t = line_transport_free(t);
        (void) safe_close(copy);
        fixture_done(&f);
}

TEST(closed_output_pipe_ends_the_transport_and_its_runs) {
        int input[2], output[2];
        LineTransport *t;
        Fixture f;

        fixture_init(&f);
        ASSERT_EQ_INT(pipe_new(input), 0);
        ASSERT_EQ_INT(pipe_new(output), 0);
        t = open_two(&f, input[0], output[1]);
        fixture_send_str(&f, input[1], CALL("1", "wait") "\n");
        ASSERT_EQ_UINT(f.n_waiting, 1);
        (void) safe_close(output[0]);
        (void) fixture_run(&f);
        ASSERT_EQ_UINT(f.n_cancelled, 1);
        ASSERT_EQ_UINT(f.n_closed, 1);
        t = line_transport_free(t);
        (void) safe_close(input[1]);
        fixture_done(&f);
}

TEST(idle_transport_does_not_spin) {
        int input[2], output[2];
        LineTransport *t;
        unsigned n = 0;
        Fixture f;

        fixture_init(&f);
        ASSERT_EQ_INT(pipe_new(input), 0);
        ASSERT_EQ_INT(pipe_new(output), 0);
        t = open_two(&f, input[0], output[1]);
        (void) fixture_run(&f);
        for (uint64_t end = now_monotonic_usec() + 50 * USEC_PER_MSEC; now_monotonic_usec() < end; n++)
                (void) sd_event_run(f.event, 50 * USEC_PER_MSEC);
        ASSERT_TRUE(n < 5);
        t = line_transport_free(t);
        (void) safe_close(input[1]);
        (void) safe_close(output[0]);
        fixture_done(&f);
}

TEST(standard_descriptors_are_given_back_as_they_were) {
        int input[2], output[2], saved, status;
        LineTransport *t;
        Fixture f;

        fixture_init(&f);
        ASSERT_EQ_INT(pipe_new(input), 0);
        ASSERT_EQ_INT(pipe_new(output), 0);
        saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        ASSERT_EQ_INT(dup2(input[0], STDIN_FILENO), STDIN_FILENO);
        t = open_two(&f, STDIN_FILENO, output[1]);
        ASSERT_TRUE(fcntl(input[0], F_GETFL) & O_NONBLOCK);
        t = line_transport_free(t);
        status = fcntl(STDIN_FILENO, F_GETFL);
        if (saved >= 0) {
                (void) dup2(saved, STDIN_FILENO);
                (void) safe_close(saved);
        }
        ASSERT_TRUE(status >= 0);
        ASSERT_FALSE(status & O_NONBLOCK);
        (void) safe_close(input[0]);
        (void) safe_close(input[1]);
        (void) safe_close(output[0]);
        fixture_done(&f);
}
