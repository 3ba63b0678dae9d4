/* SPDX-License-Identifier: MIT */

/* Messages and descriptors over a real socket, and the checks of a START's descriptors. */

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "files.h"
#include "test.h"
#include "wire/wire.h"

typedef struct Seam {
        int daemon, launcher;
} Seam;

static void seam_done(Seam *s) {
        safe_close(s->daemon);
        safe_close(s->launcher);
}
#define _cleanup_seam_ _cleanup_(seam_done)

static Seam seam_new(void) {
        int fds[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        return (Seam) { fds[0], fds[1] };
}

/* The descriptors of a proper START, with their near ends. */
typedef struct Ends {
        int far[_WIRE_FD_MAX], near[_WIRE_FD_MAX];
} Ends;

static void ends_done(Ends *e) {
        for (int i = 0; i < _WIRE_FD_MAX; i++) {
                safe_close(e->far[i]);
                safe_close(e->near[i]);
        }
}
#define _cleanup_ends_ _cleanup_(ends_done)

static Ends ends_new(void) {
        Ends e;
        int fds[2];

        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        e.near[WIRE_FD_CONTROL] = fds[0];
        e.far[WIRE_FD_CONTROL] = fds[1];
        for (int i = WIRE_FD_STDOUT; i < _WIRE_FD_MAX; i++) {
                ASSERT_EQ_INT(pipe_new(fds), 0);
                e.near[i] = fds[0];
                e.far[i] = fds[1];
        }
        return e;
}

static WireMessage message(WireType type, uint64_t job_id) {
        WireMessage m = {};

        wire_header_init(&m, type, job_id);
        return m;
}

static unsigned n_open_fds(void) {
        unsigned n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

TEST(wire_carries_a_start_with_its_descriptors) {
        _cleanup_seam_ Seam s = seam_new();
        _cleanup_ends_ Ends e = ends_new();
        WireMessage sent = message(WIRE_START, 7), got;
        int fds[_WIRE_FD_MAX];
        char byte = 0;

        sent.start.limits.tasks_max = 99;
        ASSERT_EQ_INT(wire_send(s.daemon, &sent, e.far, _WIRE_FD_MAX), 0);
        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), 1);
        ASSERT_EQ_MEM(&got.start, sizeof(got.start), &sent.start, sizeof(sent.start));
        for (int i = 0; i < _WIRE_FD_MAX; i++) {
                ASSERT_EQ_INT(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
                ASSERT_EQ_INT(write(fds[i], &"abc"[i], 1), 1);
                ASSERT_EQ_INT(read(e.near[i], &byte, 1), 1);
                ASSERT_EQ_INT(byte, "abc"[i]); /* each in its place */
        }
        ASSERT_EQ_INT(wire_check_start_fds(fds), 0);
        for (int i = 0; i < _WIRE_FD_MAX; i++)
                safe_close(fds[i]);
}

TEST(wire_keeps_messages_apart_and_in_order) {
        _cleanup_seam_ Seam s = seam_new();
        int fds[_WIRE_FD_MAX];

        for (uint64_t i = 1; i <= 5; i++) {
                WireMessage m = message(i % 2 ? WIRE_STOP : WIRE_ASSIGN, i);

                ASSERT_EQ_INT(wire_send(s.daemon, &m, NULL, 0), 0);
        }
        for (uint64_t i = 1; i <= 5; i++) {
                WireMessage m;

                ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &m, fds), 1);
                ASSERT_EQ_UINT(m.header.job_id, i);
                ASSERT_EQ_INT(fds[0], -EBADF);
        }
}

TEST(wire_receive_tells_waiting_from_the_end) {
        _cleanup_seam_ Seam s = seam_new();
        int fds[_WIRE_FD_MAX];
        WireMessage m = message(WIRE_STOP, 1), got;

        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), -EAGAIN);
        ASSERT_EQ_INT(wire_send(s.daemon, &m, NULL, 0), 0);
        s.daemon = safe_close(s.daemon);
        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), 1);
        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), 0);
}

TEST(wire_receive_takes_a_peer_that_left_without_reading_for_the_end) {
        _cleanup_seam_ Seam s = seam_new();
        int fds[_WIRE_FD_MAX];
        WireMessage m = message(WIRE_STOP, 1), got;

        ASSERT_EQ_INT(wire_send(s.daemon, &m, NULL, 0), 0);
        s.launcher = safe_close(s.launcher);
        ASSERT_EQ_INT(wire_receive(s.daemon, WIRE_ROLE_DAEMON, &got, fds), 0);
}

TEST(wire_send_does_not_wait_and_reports_a_peer_that_left) {
        _cleanup_seam_ Seam s = seam_new();
        WireMessage m = message(WIRE_STOP, 1);
        int r = 0;

        for (int i = 0; i < 1000000 && r == 0; i++)
                r = wire_send(s.daemon, &m, NULL, 0);
        ASSERT_EQ_INT(r, -EAGAIN);
        s.launcher = safe_close(s.launcher);
        ASSERT_EQ_INT(wire_send(s.daemon, &m, NULL, 0), -EPIPE); /* and no SIGPIPE */
}

static void send_raw(int fd, const void *data, size_t n_bytes, const int *fds, size_t n_fds) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * 64)];
        } control = {};
        struct iovec iov = { .iov_base = (void*) (uintptr_t) data, .iov_len = n_bytes };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (n_fds > 0) {
                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS,
                        .cmsg_len = CMSG_LEN(sizeof(int) * n_fds),
                };
                memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, sizeof(int) * n_fds);
        }
        ASSERT_EQ_INT(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t) n_bytes);
}

/* Whatever is refused leaves no descriptor behind. */
static void check_violation(WireRole role, const void *data, size_t n_bytes, size_t n_fds) {
        _cleanup_seam_ Seam s = seam_new();
        unsigned n_before = n_open_fds();
        WireMessage got;
        int fds[_WIRE_FD_MAX], many[64], r;

        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = STDERR_FILENO;
        send_raw(s.daemon, data, n_bytes, many, n_fds);
        r = wire_receive(s.launcher, role, &got, fds);
        if (r != -EBADMSG)
                FAIL("%zu bytes, %zu fds: %d", n_bytes, n_fds, r);
        for (int i = 0; i < _WIRE_FD_MAX; i++)
                ASSERT_EQ_INT(fds[i], -EBADF);
        ASSERT_EQ_UINT(n_open_fds(), n_before);
}

TEST(wire_receive_refuses_violations_and_leaks_no_descriptor) {
        static char large[sizeof(WireMessage) + 1];
        WireMessage stop = message(WIRE_STOP, 1), start = message(WIRE_START, 1),
                    hello = message(WIRE_HELLO, 0);

        check_violation(WIRE_ROLE_LAUNCHER, "x", 1, 0);
        check_violation(WIRE_ROLE_LAUNCHER, "x", 1, 3);
        check_violation(WIRE_ROLE_LAUNCHER, &stop, sizeof(stop.stop) - 1, 0);
        check_violation(WIRE_ROLE_LAUNCHER, &stop, sizeof(stop.stop) + 1, 0);
        for (size_t n_fds = 1; n_fds <= 64; n_fds++)
                check_violation(WIRE_ROLE_LAUNCHER, &stop, sizeof(stop.stop), n_fds);
        for (size_t n_fds = 0; n_fds <= 64; n_fds++)
                if (n_fds != _WIRE_FD_MAX)
                        check_violation(WIRE_ROLE_LAUNCHER, &start, sizeof(start.start),
                                        n_fds); /* from 17 on MSG_CTRUNC */
        check_violation(WIRE_ROLE_LAUNCHER, &hello, sizeof(hello.hello),
                        0); /* the daemon's own messages only */

        memcpy(large, &hello, sizeof(hello));
        /* MSG_TRUNC: a valid beginning does not help. */
        check_violation(WIRE_ROLE_DAEMON, large, sizeof(large), 0);
}

/* Out of descriptors, the kernel drops them all: what arrives looks like a STOP without any. */
TEST(wire_receive_refuses_a_message_that_lost_its_descriptors) {
        WireMessage stop = message(WIRE_STOP, 1), got;
        _cleanup_seam_ Seam s = seam_new();
        int fds[_WIRE_FD_MAX], many[] = { STDERR_FILENO }, r;
        struct rlimit before, none;

        send_raw(s.daemon, &stop, sizeof(stop.stop), many, 1);
        ASSERT_EQ_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 3; /* all below are open */
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
        r = wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds);
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_EQ_INT(r, -EBADMSG);
}

TEST(wire_receive_ends_at_an_empty_packet) {
        _cleanup_seam_ Seam s = seam_new();
        int fds[_WIRE_FD_MAX];
        WireMessage got;

        send_raw(s.daemon, "", 0, NULL, 0);
        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), 0);
        check_violation(WIRE_ROLE_LAUNCHER, "", 0, 3);
}

TEST(wire_receive_refuses_other_control_messages) {
        _cleanup_seam_ Seam s = seam_new();
        WireMessage stop = message(WIRE_STOP, 1), got;
        int fds[_WIRE_FD_MAX], on = 1;

        ASSERT_EQ_INT(setsockopt(s.launcher, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
        ASSERT_EQ_INT(wire_send(s.daemon, &stop, NULL, 0), 0);
        ASSERT_EQ_INT(wire_receive(s.launcher, WIRE_ROLE_LAUNCHER, &got, fds), -EBADMSG);
}

/* Puts fd in place i of a proper set. Takes fd. */
static void check_refused(int i, int fd, const char *what) {
        _cleanup_ends_ Ends e = ends_new();

        ASSERT_TRUE(fd >= 0);
        safe_close(e.far[i]);
        e.far[i] = fd;
        if (wire_check_start_fds(e.far) != -EBADMSG)
                FAIL("%s was taken in place %d", what, i);
}

static int end_of(int domain, int type) {
        int fds[2];

        ASSERT_EQ_INT(socketpair(domain, type | SOCK_CLOEXEC, 0, fds), 0);
        safe_close(fds[1]);
        return fds[0];
}

static int pipe_end(int which) {
        int fds[2];

        ASSERT_EQ_INT(pipe_new(fds), 0);
        safe_close(fds[!which]);
        return fds[which];
}

TEST(wire_check_start_fds_refuses_what_is_no_socket_or_pipe) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_free_ char *file = NULL;

        put_file(tree, "file", "x");
        ASSERT_EQ_INT(str_printf(&file, "%s/file", tree), 0);
        for (int i = 0; i < _WIRE_FD_MAX; i++) {
                check_refused(i, open(file, O_RDWR | O_CLOEXEC), "a file");
                check_refused(i, open(file, O_WRONLY | O_CLOEXEC), "a file for writing");
                check_refused(i, open(file, O_PATH | O_CLOEXEC), "an O_PATH descriptor");
                check_refused(i, open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "a directory");
                check_refused(i, open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null");
                check_refused(i, memfd_new_sealed("test", "x", 1), "a memfd");
                check_refused(i, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "a TCP socket");
                check_refused(i, end_of(AF_UNIX, SOCK_DGRAM), "a datagram socket");
                check_refused(i, end_of(AF_UNIX, SOCK_SEQPACKET), "a packet socket");
                check_refused(i, pipe_end(0), "a pipe's reading end");
        }
        check_refused(WIRE_FD_CONTROL, pipe_end(1), "a pipe's writing end");
        check_refused(WIRE_FD_STDOUT, end_of(AF_UNIX, SOCK_STREAM), "a socket");
        check_refused(WIRE_FD_STDERR, end_of(AF_UNIX, SOCK_STREAM), "a socket");
}

TEST(wire_check_start_fds_refuses_missing_descriptors) {
        for (int i = 0; i < _WIRE_FD_MAX; i++) {
                _cleanup_ends_ Ends e = ends_new();

                e.far[i] = safe_close(e.far[i]);
                ASSERT_EQ_INT(wire_check_start_fds(e.far), -EBADMSG);
        }
}

TEST(wire_check_start_fds_refuses_surprising_flags) {
        static const int flags[] = { O_NONBLOCK, O_APPEND, O_ASYNC, O_DIRECT };

        for (int i = 0; i < _WIRE_FD_MAX; i++)
                for (size_t k = 0; k < ELEMENTSOF(flags); k++) {
                        _cleanup_ends_ Ends e = ends_new();

                        /* Not every kind of descriptor has every flag. */
                        if (fcntl(e.far[i], F_SETFL, flags[k]) == 0 && (fcntl(e.far[i], F_GETFL) & flags[k]))
                                ASSERT_EQ_INT(wire_check_start_fds(e.far), -EBADMSG);
                }
}

/* A service of the host behind a named socket, as the bus is. */
TEST(wire_check_start_fds_refuses_listeners_and_connections_to_services) {
        _cleanup_tree_ char *tree = make_tree();
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int listener, client, server;

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", tree);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ_INT(bind(listener, (struct sockaddr*) &address, sizeof(address)), 0);
        ASSERT_EQ_INT(listen(listener, 1), 0);
        client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ_INT(connect(client, (struct sockaddr*) &address, sizeof(address)), 0);
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        check_refused(WIRE_FD_CONTROL, client, "a connection to a service");
        check_refused(WIRE_FD_CONTROL, server, "a service's end of a connection");
        check_refused(WIRE_FD_CONTROL, listener, "a listening socket");
        check_refused(WIRE_FD_CONTROL, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                      "an unconnected socket");
}
