/* SPDX-License-Identifier: MIT */

/* The Unix listener: who gets in, how many, and what happens when descriptors run out. */

#include <sys/wait.h>

#include "transport-fixture.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"
#define PONG "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"

typedef struct Unix {
        Fixture f;
        Settings *settings;
        Listener *listener;
        struct sockaddr_un address;
        socklen_t n_address;
        unsigned n_busy, n_idle;
} Unix;

static void on_idle_changed(Listener *l, bool is_idle, void *userdata) {
        Unix *u = userdata;

        (void) l;
        if (is_idle)
                u->n_idle++;
        else
                u->n_busy++;
}

static void unix_init(Unix *u) {
        char number[32];
        int fd;

        *u = (Unix) {};
        fixture_init(&u->f);
        ASSERT_EQ_INT(settings_new_default(&u->settings), 0);
        (void) snprintf(number, sizeof(number), "%u", (unsigned) getuid());
        ASSERT_EQ_INT(settings_set(u->settings, "Server", "AllowUsers", number, &(char*) { NULL }), 0);

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_TRUE(fd >= 0);
        u->address.sun_family = AF_UNIX;
        u->n_address = sizeof(sa_family_t);
        ASSERT_EQ_INT(bind(fd, (struct sockaddr *) &u->address, u->n_address),
                      0); /* an abstract name of the kernel's */
        u->n_address = sizeof(u->address);
        ASSERT_EQ_INT(getsockname(fd, (struct sockaddr*) &u->address, &u->n_address), 0);
        ASSERT_EQ_INT(listen(fd, 64), 0);
        ASSERT_EQ_INT(unix_listener_new(&(ListenerParameters) {
                                .event = u->f.event,
                                .server = u->f.server,
                                .settings = u->settings,
                                .fd = fd,
                                .on_idle_changed = on_idle_changed,
                                .userdata = u,
                        }, &u->listener), 0);
}

static void unix_done(Unix *u) {
        u->listener = listener_free(u->listener);
        u->settings = settings_free(u->settings);
        fixture_done(&u->f);
}

static int unix_connect(const Unix *u) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(connect(fd, (const struct sockaddr*) &u->address, u->n_address), 0);
        return fd;
}

static void expect(Unix *u, int fd, const char *expected) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        (void) fixture_receive(&u->f, fd, &b);
        ASSERT_EQ_STR(b.data, expected);
}

TEST(connection_is_served_and_counted) {
        Unix u;
        int fd;

        unix_init(&u);
        fd = unix_connect(&u);
        fixture_send_str(&u.f, fd, PING);
        expect(&u, fd, PONG);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 1);
        ASSERT_EQ_UINT(u.n_busy, 1);
        (void) safe_close(fd);
        (void) fixture_run(&u.f);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 0);
        ASSERT_EQ_UINT(u.n_idle, 1);
        unix_done(&u);
}

/* Without rights (as another user where the test is root): one line with the reason, then the end. */
TEST(stranger_gets_one_line_with_the_reason) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[2], status;
        Unix u;
        pid_t child;

        unix_init(&u);
        ASSERT_EQ_INT(settings_set(u.settings, "Server", "AllowUsers", "", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(pipe_new(fds), 0);
        child = fork();
        ASSERT_TRUE(child >= 0);
        if (child == 0) {
                char text[4096];
                ssize_t n;
                int fd;

                if (getuid() == 0 && setuid(65534) < 0)
                        _exit(1);
                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (connect(fd, (const struct sockaddr*) &u.address, u.n_address) < 0)
                        _exit(2);
                while ((n = read(fd, text, sizeof(text))) > 0)
                        if (write(fds[1], text, (size_t) n) != n)
                                _exit(3);
                _exit(n == 0 ? 0 : 4);
        }
        (void) safe_close(fds[1]);
        ASSERT_EQ_INT(fd_set_nonblock(fds[0], true), 0);
        for (uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC; fixture_receive(&u.f, fds[0], &b);) {
                ASSERT_TRUE(now_monotonic_usec() < end);
                (void) sd_event_run(u.f.event, 10 * USEC_PER_MSEC);
        }
        ASSERT_EQ_INT(waitpid(child, &status, 0), child);
        ASSERT_EQ_INT(status, 0);
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31000,\"message\":\"");
        ASSERT_CONTAINS(b.data, "may not use this mcp-exec service");
        ASSERT_EQ_UINT(count(&b, '\n'), 1);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 0);
        (void) safe_close(fds[0]);
        unix_done(&u);
}

/* As another user where the test is root, whom nobody refuses. */
TEST(user_who_is_no_longer_allowed_is_let_go_at_a_reload) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[2], status;
        char number[32];
        Unix u;
        pid_t child;

        unix_init(&u);
        (void) snprintf(number, sizeof(number), "%u", getuid() == 0 ? 65534 : (unsigned) getuid());
        ASSERT_EQ_INT(settings_set(u.settings, "Server", "AllowUsers", number, &(char*) { NULL }), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        child = fork();
        ASSERT_TRUE(child >= 0);
        if (child == 0) { /* passes on what the server says; says what the test does */
                char c;
                int fd;

                (void) safe_close(fds[0]);
                if (getuid() == 0 && setuid(65534) < 0)
                        _exit(1);
                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (connect(fd, (const struct sockaddr*) &u.address, u.n_address) < 0)
                        _exit(2);
                while (read(fds[1], &c, 1) == 1) {
                        if (send(fd, &c, 1, MSG_NOSIGNAL) < 0)
                                break;
                        for (char answer; c == '\n' && read(fd, &answer, 1) == 1;)
                                if (write(fds[1], &answer, 1) != 1)
                                        _exit(3);
                }
                _exit(0);
        }
        (void) safe_close(fds[1]);
        ASSERT_EQ_INT(fd_set_nonblock(fds[0], true), 0);
        fixture_send_str(&u.f, fds[0], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                       "\"params\":{\"name\":\"wait\"}}\n");
        for (uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC; u.f.n_waiting == 0;) {
                ASSERT_TRUE(now_monotonic_usec() < end);
                (void) sd_event_run(u.f.event, 10 * USEC_PER_MSEC);
        }
        listener_reload(u.listener, u.settings, NULL); /* changes nothing for this one */
        ASSERT_EQ_INT(settings_set(u.settings, "Server", "AllowUsers", "", &(char*) { NULL }), 0);
        listener_reload(u.listener, u.settings, NULL);
        (void) fixture_run(&u.f);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 1);
        fixture_release(&u.f); /* what ran is answered */
        for (uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC; fixture_receive(&u.f, fds[0], &b);) {
                ASSERT_TRUE(now_monotonic_usec() < end);
                (void) sd_event_run(u.f.event, 10 * USEC_PER_MSEC);
                if (listener_n_connections(u.listener) == 0)
                        (void) shutdown(fds[0], SHUT_WR);
        }
        ASSERT_EQ_INT(waitpid(child, &status, 0), child);
        ASSERT_EQ_INT(status, 0);
        ASSERT_EQ_STR(b.data, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n");
        (void) safe_close(fds[0]);
        unix_done(&u);
}

TEST(connection_beyond_the_limit_is_told_so) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[3];
        Unix u;

        unix_init(&u);
        u.settings->max_connections = 2;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = unix_connect(&u);
        (void) fixture_run(&u.f);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 2);
        ASSERT_FALSE(fixture_receive(&u.f, fds[2], &b));
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31001,");
        ASSERT_EQ_UINT(count(&b, '\n'), 1);
        fixture_send_str(&u.f, fds[1], PING);
        expect(&u, fds[1], PONG);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i]);
        unix_done(&u);
}

TEST(one_user_cannot_lock_out_the_others) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int fds[5];
        Unix u;

        unix_init(&u);
        u.settings->max_connections = 4;
        for (size_t i = 0; i < 4; i++)
                fds[i] = unix_connect(&u);
        (void) fixture_run(&u.f);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 3);
        ASSERT_FALSE(fixture_receive(&u.f, fds[3], &b));
        ASSERT_CONTAINS(b.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-31001,");
        ASSERT_CONTAINS(b.data, "close some of them");

        (void) safe_close(fds[0]); /* and may come again when he did */
        (void) fixture_run(&u.f);
        fds[4] = unix_connect(&u);
        fixture_send_str(&u.f, fds[4], PING);
        expect(&u, fds[4], PONG);
        for (size_t i = 1; i < ELEMENTSOF(fds); i++)
                (void) safe_close(fds[i]);
        unix_done(&u);
}

TEST(hundred_connections_are_all_served) {
        int fds[100];
        Unix u;

        unix_init(&u);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = unix_connect(&u);
                if (i % 32 == 0)
                        (void) fixture_run(&u.f); /* the backlog has its own limit */
        }
        (void) fixture_run(&u.f);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fixture_send_str(&u.f, fds[i], PING);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                expect(&u, fds[i], PONG);
                (void) safe_close(fds[i]);
        }
        (void) fixture_run(&u.f);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 0);
        unix_done(&u);
}

/* The connection waits in the backlog, the loop sleeps meanwhile, and those who are connected are served. */
TEST(lack_of_descriptors_delays_a_connection_and_nothing_else) {
        struct rlimit before, low;
        int fds[2], probe;
        unsigned n = 0;
        Unix u;

        unix_init(&u);
        fds[0] = unix_connect(&u);
        (void) fixture_run(&u.f);
        fds[1] = unix_connect(&u);
        probe = dup(fds[1]);
        (void) safe_close(probe);

        ASSERT_EQ_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
        low = (struct rlimit) { .rlim_cur = (rlim_t) probe, .rlim_max = before.rlim_max };
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
        for (uint64_t end = now_monotonic_usec() + 350 * USEC_PER_MSEC; now_monotonic_usec() < end; n++)
                (void) sd_event_run(u.f.event, 350 * USEC_PER_MSEC);
        fixture_send_str(&u.f, fds[0], PING);
        expect(&u, fds[0], PONG);
        ASSERT_EQ_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_TRUE(n < 20);
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 1);

        fixture_send_str(&u.f, fds[1], PING);
        for (uint64_t end = now_monotonic_usec() + 10 * USEC_PER_SEC;
             listener_n_connections(u.listener) < 2;) {
                ASSERT_TRUE(now_monotonic_usec() < end);
                (void) sd_event_run(u.f.event, USEC_PER_SEC);
        }
        expect(&u, fds[1], PONG);
        (void) safe_close(fds[0]);
        (void) safe_close(fds[1]);
        unix_done(&u);
}

TEST(drain_closes_the_idle_and_answers_the_busy) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int idle, busy;
        Unix u;

        unix_init(&u);
        idle = unix_connect(&u);
        busy = unix_connect(&u);
        fixture_send_str(&u.f, busy, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                     "\"params\":{\"name\":\"wait\"}}\n");
        listener_drain(u.listener);
        ASSERT_FALSE(fixture_receive(&u.f, idle, &b));
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 1);
        fixture_release(&u.f);
        ASSERT_FALSE(fixture_receive(&u.f, busy, &b));
        ASSERT_EQ_STR(b.data, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n");
        ASSERT_EQ_UINT(listener_n_connections(u.listener), 0);
        ASSERT_EQ_UINT(u.n_idle, 1);
        (void) safe_close(idle);
        (void) safe_close(busy);
        unix_done(&u);
}

TEST(freeing_the_listener_cancels_everything) {
        Unix u;
        int fd;

        unix_init(&u);
        fd = unix_connect(&u);
        fixture_send_str(
                &u.f, fd,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\"}}\n");
        ASSERT_EQ_UINT(u.f.n_waiting, 1);
        u.listener = listener_free(u.listener);
        ASSERT_EQ_UINT(u.f.n_cancelled, 1);
        ASSERT_EQ_UINT(u.n_idle, 0);
        (void) safe_close(fd);
        unix_done(&u);
}
