/* SPDX-License-Identifier: MIT */

/* Both directions of a unit's control socket, byte by byte. */

#include "exec/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "base/macro.h"
#include "exec/code-frame.h"
#include "test.h"

static void say(int fd, const void *data, size_t n_bytes, const int *fds, size_t n_fds) {
        union {
                struct cmsghdr header;
                char buffer[CMSG_SPACE(8 * sizeof(int))];
        } control = {};
        struct iovec part = { (void*) data, n_bytes };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

        if (n_fds > 0) {
                struct cmsghdr *c;

                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
        }
        ASSERT_EQ_INT(sendmsg(fd, &m, MSG_NOSIGNAL), n_bytes);
}

TEST(control_ready_needs_exactly_one_directory) {
        static const struct {
                const char *paths[6];
                int expected;
        } cases[] = {
                { { "/tmp" }, 0 },
                { { "/dev/null" }, -EBADMSG },
                { { NULL }, -EBADMSG },
                { { "/tmp", "/tmp" }, -EBADMSG },
                { { "/tmp", "/tmp", "/tmp", "/tmp", "/tmp", "/tmp" }, -EBADMSG },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ControlWord w = { .directory_fd = -EBADF };
                int pair[2], fds[6], probe, n_fds = 0;

                ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                for (; n_fds < 6 && cases[i].paths[n_fds]; n_fds++)
                        fds[n_fds] = open(cases[i].paths[n_fds], O_RDONLY | O_CLOEXEC);
                say(pair[1], "MXREADY\n", 8, fds, (size_t) n_fds);
                ASSERT_EQ_INT(control_receive_word(pair[0], &w), cases[i].expected);
                ASSERT_EQ_INT(w.directory_fd >= 0, cases[i].expected == 0);

                /* Whatever came and was not taken is closed again. */
                safe_close(w.directory_fd);
                for (int k = 0; k < n_fds; k++)
                        safe_close(fds[k]);
                safe_close(pair[0]);
                safe_close(pair[1]);
                probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
                ASSERT_EQ_INT(probe, pair[0]);
                safe_close(probe);
        }
}

TEST(control_words_come_in_any_pieces) {
        static const uint8_t failed[12] = { 'M', 'X', 'F', 'A', 'I', 'L', 'E', 'D', 0x11, 0x22, 0x33, 0x44 };

        for (size_t cut = 0; cut <= sizeof(failed); cut++) {
                ControlWord w = { .directory_fd = -EBADF };
                int pair[2];

                ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                ASSERT_EQ_INT(control_receive_word(pair[0], &w), CONTROL_E_INCOMPLETE);
                if (cut > 0)
                        say(pair[1], failed, cut, NULL, 0);
                ASSERT_EQ_INT(control_receive_word(pair[0], &w),
                              cut < sizeof(failed) ? CONTROL_E_INCOMPLETE : CONTROL_E_FAILED);
                if (cut < sizeof(failed)) {
                        say(pair[1], failed + cut, sizeof(failed) - cut, NULL, 0);
                        ASSERT_EQ_INT(control_receive_word(pair[0], &w), CONTROL_E_FAILED);
                }
                ASSERT_EQ_UINT(control_word_check(&w), 0x44332211);
                safe_close(pair[0]);
                safe_close(pair[1]);
        }
}

TEST(control_refuses_any_other_word) {
        static const char *const words[] = {
                "MXREADY\nx", "MXREADY ", "mxready\n", "MXFAILEX", "MXSTAT\n\n", "GET / HT" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                ControlWord w = { .directory_fd = -EBADF };
                int pair[2];

                ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                say(pair[1], words[i], strlen(words[i]), NULL, 0);
                ASSERT_EQ_INT(control_receive_word(pair[0], &w), -EBADMSG);
                safe_close(pair[0]);
                safe_close(pair[1]);
        }
}

TEST(control_tells_the_end) {
        ControlWord w = { .directory_fd = -EBADF };
        int pair[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        say(pair[1], "MXREA", 5, NULL, 0);
        safe_close(pair[1]);
        ASSERT_EQ_INT(control_receive_word(pair[0], &w), CONTROL_E_END);
        safe_close(pair[0]);
}

TEST(control_status_is_exactly_one_record) {
        static const struct {
                const char *bytes;
                size_t n_bytes;
                bool is_fine;
                int status;
        } cases[] = {
                { "MXSTAT\0\0\3\0", 10, true, 3 },
                { "MXSTAT\0\0\13\1", 10, true, CONTROL_STATUS_SIGNAL + 11 },
                { "MXSTAT\0\0\3", 9, false, 0 },
                { "MXSTAT\n\n\3\0", 10, false, 0 },
                { "", 0, false, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint16_t status = 0;
                int pair[2];

                ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                if (cases[i].n_bytes > 0)
                        say(pair[1], cases[i].bytes, cases[i].n_bytes, NULL, 0);
                ASSERT_EQ_INT(control_receive_status(pair[0], &status), cases[i].is_fine);
                ASSERT_EQ_INT(status, cases[i].status);
                safe_close(pair[0]);
                safe_close(pair[1]);
        }
}

TEST(code_frame_is_what_the_runner_reads) {
        static const uint8_t expected[] = "MXCODE2\n"
                                          "\5\0\0\0\0\0\0\0" "\2\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0"
                                          "print" "in";
        uint8_t bytes[100];
        CodeFrame f;
        int pair[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, &(const ExecRequest) { .code = (char*) "print", .code_bytes = 5,
                                                   .stdin_data = (char*) "in", .stdin_bytes = 2 });
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1);
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1); /* nothing twice */
        safe_close(pair[0]);
        ASSERT_EQ_MEM(bytes, (size_t) read(pair[1], bytes, sizeof(bytes)), expected, sizeof(expected) - 1);
        safe_close(pair[1]);
}

TEST(code_frame_without_code_or_stdin_is_a_header) {
        CodeFrame f;
        char bytes[100];
        int pair[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, &(const ExecRequest) {});
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1);
        ASSERT_EQ_INT(read(pair[1], bytes, sizeof(bytes)), CODE_FRAME_HEADER_BYTES);
        safe_close(pair[0]);
        safe_close(pair[1]);
}

TEST(code_frame_waits_and_goes_on_where_it_stopped) {
        static char code[700000], input[300001], got[1000100];
        size_t n = 0;
        int pair[2], r = 0, n_waits = 0;
        CodeFrame f;

        for (size_t i = 0; i < sizeof(code); i++)
                code[i] = (char) (i * 7);
        for (size_t i = 0; i < sizeof(input); i++)
                input[i] = (char) (i * 13);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, &(const ExecRequest) { .code = code, .code_bytes = sizeof(code),
                                                   .stdin_data = input, .stdin_bytes = sizeof(input) });
        while (r == 0) {
                r = code_frame_send(&f, pair[0]);
                ASSERT_TRUE(r >= 0);
                n_waits += r == 0;
                for (;;) {
                        ssize_t k = recv(pair[1], got + n, 7777, MSG_DONTWAIT);

                        if (k <= 0)
                                break;
                        n += (size_t) k;
                }
        }
        ASSERT_TRUE(n_waits > 0);
        ASSERT_EQ_UINT(n, CODE_FRAME_HEADER_BYTES + sizeof(code) + sizeof(input));
        ASSERT_EQ_MEM(got + CODE_FRAME_HEADER_BYTES, sizeof(code), code, sizeof(code));
        ASSERT_EQ_MEM(got + CODE_FRAME_HEADER_BYTES + sizeof(code), sizeof(input), input, sizeof(input));
        safe_close(pair[1]);
        ASSERT_EQ_INT(control_was_read(pair[0]), 1);
        safe_close(pair[0]);
}

TEST(code_frame_carries_files) {
        static const uint8_t expected[] = "MXCODE2\n"
                                          "\1\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "\2\0\0\0\0\0\0\0"
                                          "x"
                                          "\5\0\0\0" "\3\0\0\0\0\0\0\0" "a.csv" "1\0002"
                                          "\1\0\0\0" "\0\0\0\0\0\0\0\0" "e";
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        uint8_t bytes[200];
        CodeFrame f;
        int pair[2];

        ASSERT_EQ_INT(exec_request_new(&q), 0);
        ASSERT_EQ_INT(str_copy(&q->code, "x"), 0);
        q->code_bytes = 1;
        ASSERT_EQ_INT(exec_request_add_file(q, "a.csv", "1\0002", 3), 0);
        ASSERT_EQ_INT(exec_request_add_file(q, "e", NULL, 0), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, q);
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1);
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1); /* nothing twice */
        safe_close(pair[0]);
        ASSERT_EQ_MEM(bytes, (size_t) read(pair[1], bytes, sizeof(bytes)), expected, sizeof(expected) - 1);
        safe_close(pair[1]);
}

TEST(code_frame_waits_within_a_file) {
        static char data[2][500001], got[1000200];
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        size_t n = 0, head = CODE_FRAME_HEADER_BYTES + 1 + CODE_FRAME_FILE_BYTES + 1;
        int pair[2], r = 0, n_waits = 0;
        CodeFrame f;

        for (size_t i = 0; i < sizeof(data); i++)
                data[i / sizeof(data[0])][i % sizeof(data[0])] = (char) (i * 11);
        ASSERT_EQ_INT(exec_request_new(&q), 0);
        ASSERT_EQ_INT(str_copy(&q->code, "x"), 0);
        q->code_bytes = 1;
        ASSERT_EQ_INT(exec_request_add_file(q, "a", data[0], sizeof(data[0])), 0);
        ASSERT_EQ_INT(exec_request_add_file(q, "b", data[1], sizeof(data[1])), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, q);
        while (r == 0) {
                r = code_frame_send(&f, pair[0]);
                ASSERT_TRUE(r >= 0);
                n_waits += r == 0;
                for (;;) {
                        ssize_t k = recv(pair[1], got + n, 7777, MSG_DONTWAIT);

                        if (k <= 0)
                                break;
                        n += (size_t) k;
                }
        }
        ASSERT_TRUE(n_waits > 0);
        ASSERT_EQ_UINT(n, head + sizeof(data[0]) + CODE_FRAME_FILE_BYTES + 1 + sizeof(data[1]));
        ASSERT_EQ_MEM(got + head, sizeof(data[0]), data[0], sizeof(data[0]));
        ASSERT_EQ_MEM(got + n - sizeof(data[1]), sizeof(data[1]), data[1], sizeof(data[1]));
        safe_close(pair[0]);
        safe_close(pair[1]);
}

TEST(files_of_a_request_are_checked) {
        static const char *const bad[] = { "", ".", "..", "a/b", "/", "main.py" };
        static char large[MIB];
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        char name[EXEC_INPUT_NAME_BYTES_MAX + 2];

        ASSERT_EQ_INT(exec_request_new(&q), 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ_INT(exec_request_add_file(q, bad[i], "x", 1), -EINVAL);
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        ASSERT_EQ_INT(exec_request_add_file(q, name, "x", 1), -EINVAL);
        name[EXEC_INPUT_NAME_BYTES_MAX] = '\0';
        ASSERT_EQ_INT(exec_request_add_file(q, name, "x", 1), 0);
        ASSERT_EQ_INT(exec_request_add_file(q, name, "y", 1), -EEXIST);
        for (int i = 1; i < EXEC_INPUT_FILES_MAX; i++) {
                (void) snprintf(name, sizeof(name), "file%d", i);
                ASSERT_EQ_INT(exec_request_add_file(q, name, large, sizeof(large)), 0);
        }
        ASSERT_EQ_INT(exec_request_add_file(q, "one more", "", 0), -E2BIG);
        ASSERT_EQ_UINT(q->n_files, EXEC_INPUT_FILES_MAX);
        q = exec_request_free(q);
        ASSERT_EQ_INT(exec_request_new(&q), 0);
        for (uint64_t n = 0; n < EXEC_INPUT_BYTES_MAX / 2; n += EXEC_INPUT_BYTES_MAX / 4) {
                _cleanup_free_ char *quarter = calloc(1, EXEC_INPUT_BYTES_MAX / 4);

                (void) snprintf(name, sizeof(name), "part%d", (int) (n / MIB));
                ASSERT_EQ_INT(exec_request_add_file(q, name, quarter, EXEC_INPUT_BYTES_MAX / 4), 0);
        }
        q->files[0].n_bytes *= 3; /* what was added counts */
        ASSERT_EQ_INT(exec_request_add_file(q, "last", "x", 1), -E2BIG);
        ASSERT_EQ_INT(exec_request_add_file(q, "last", "", 0), 0);
}

TEST(code_that_was_not_read_is_known) {
        CodeFrame f;
        char byte;
        int pair[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        code_frame_init(&f, &(const ExecRequest) { .code = (char*) "x", .code_bytes = 1 });
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), 1);
        ASSERT_EQ_INT(control_was_read(pair[0]), 0);
        ASSERT_EQ_INT(read(pair[1], &byte, 1), 1);
        ASSERT_EQ_INT(control_was_read(pair[0]), 0);
        safe_close(pair[1]);
        ASSERT_EQ_INT(control_was_read(pair[0]), -ECONNRESET);

        code_frame_init(&f, &(const ExecRequest) { .code = (char*) "x", .code_bytes = 1 });
        ASSERT_EQ_INT(code_frame_send(&f, pair[0]), -EPIPE); /* and no SIGPIPE */
        safe_close(pair[0]);
}
