/* SPDX-License-Identifier: MIT */

/* What outlives the process of HTTP sessions. */

#include <signal.h>
#include <sys/resource.h>

#include "base/timeutil.h"
#include "files.h"
#include "transport/ended-sessions.h"
#include "transport/session-store.h"

/* Ids that expire in 2100, and differ in their last digits. */
#define HEAD "f4865700" "00000000000000000000000000000000000000"
#define ID_A HEAD "0000000000000000aa"
#define ID_B HEAD "0000000000000000bb"
#define ID_C HEAD "0000000000000000cc"

typedef struct Store {
        char *tree, key[SHA256_HEX_CHARS + 1];
        Settings *settings;
        SessionStore *store;
} Store;

static void store_open(Store *s) {
        if (!s->settings)
                ASSERT_EQ_INT(settings_new_default(&s->settings), 0);
        if (!s->tree)
                s->tree = make_tree();
        ASSERT_EQ_INT(session_store_new(s->tree, s->settings, &s->store), 0);
        memcpy(s->key, session_store_key(s->store), sizeof(s->key));
}

/* Returns true when ids of before are known still. */
static bool store_reopen(Store *s) {
        char old[SHA256_HEX_CHARS + 1];

        memcpy(old, s->key, sizeof(old));
        s->store = session_store_free(s->store);
        store_open(s);
        return streq(old, s->key);
}

static void store_done(Store *s) {
        s->store = session_store_free(s->store);
        s->settings = settings_free(s->settings);
        remove_treep(&s->tree);
}
#define _cleanup_store_ _cleanup_(store_done)

static bool has_file(const Store *s, const char *name, mode_t mode) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", s->tree, name), 0);
        return lstat(path, &st) >= 0 && (st.st_mode & 07777) == mode;
}

static void set_disk_is_full(bool is_full) {
        struct rlimit limit;

        (void) signal(SIGXFSZ, SIG_IGN);
        ASSERT_EQ_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = is_full ? 0 : limit.rlim_max;
        ASSERT_EQ_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(ended_session_stays_ended_after_a_restart) {
        _cleanup_store_ Store s = {};

        store_open(&s);
        ASSERT_TRUE(has_file(&s, "session-key", 0600));
        ASSERT_TRUE(!session_store_is_ended(s.store, "token:a", ID_A));
        session_store_end(s.store, "token:a", ID_A);
        session_store_end(s.store, "token:b", ID_B);
        ASSERT_TRUE(has_file(&s, "ended-sessions", 0600));
        for (unsigned i = 0; i < 3; i++) {
                ASSERT_TRUE(session_store_is_ended(s.store, "token:a", ID_A));
                ASSERT_TRUE(session_store_is_ended(s.store, "token:b", ID_B));
                ASSERT_TRUE(!session_store_is_ended(s.store, "token:a", ID_C));
                ASSERT_TRUE(store_reopen(&s));
        }
}

TEST(a_key_that_is_not_ours_is_replaced) {
        _cleanup_store_ Store s = {};

        store_open(&s);
        put_file(s.tree, "session-key", "0123");
        ASSERT_TRUE(!store_reopen(&s));
        put_file(s.tree, "session-key", "0123456789abcdef0123456789abcdefX");
        ASSERT_TRUE(!store_reopen(&s));
        ASSERT_TRUE(store_reopen(&s));
}

TEST(damaged_list_ends_all_sessions) {
        static const char *const texts[] = {
                "f4865700 00000001 00000000000000aa",
                "f4865700 00000001 00000000000000aa\nf4865700",
                "F4865700 00000001 00000000000000aa\n",
                "f4865700-00000001 00000000000000aa\n",
                "\n",
        };
        _cleanup_store_ Store s = {};

        store_open(&s);
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                put_file(s.tree, "ended-sessions", texts[i]);
                ASSERT_TRUE(!store_reopen(&s));
                ASSERT_TRUE(store_reopen(&s));
        }
        put_file(s.tree, "ended-sessions", "f4865700 00000001 00000000000000aa\n");
        ASSERT_TRUE(store_reopen(&s));
}

TEST(full_disk_ends_all_sessions_rather_than_none) {
        _cleanup_store_ Store s = {};

        store_open(&s);
        set_disk_is_full(true);
        session_store_end(s.store, "p", ID_A);
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_A));
        ASSERT_TRUE(!has_file(&s, "session-key", 0600));
        ASSERT_TRUE(!store_reopen(&s));
        set_disk_is_full(false);
        ASSERT_TRUE(!store_reopen(&s));
}

TEST(full_disk_is_caught_up_with) {
        _cleanup_store_ Store s = {};

        store_open(&s);
        session_store_end(s.store, "p", ID_A);
        set_disk_is_full(true);
        session_store_end(s.store, "p", ID_B);
        set_disk_is_full(false);
        session_store_end(s.store, "p", ID_C);
        ASSERT_TRUE(has_file(&s, "session-key", 0600));
        ASSERT_TRUE(store_reopen(&s));
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_A));
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_B));
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_C));

        /* At the end, too. */
        set_disk_is_full(true);
        session_store_end(s.store, "q", ID_A);
        set_disk_is_full(false);
        ASSERT_TRUE(store_reopen(&s));
        ASSERT_TRUE(session_store_is_ended(s.store, "q", ID_A));
}

TEST(without_a_directory_ended_sessions_are_in_memory) {
        _cleanup_store_ Store s = {};

        ASSERT_EQ_INT(settings_new_default(&s.settings), 0);
        ASSERT_EQ_INT(session_store_new(NULL, s.settings, &s.store), 0);
        session_store_end(s.store, "p", ID_A);
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_A));
        s.store = session_store_free(s.store);

        ASSERT_EQ_INT(session_store_new("/nonexistent/mcp-exec", s.settings, &s.store), 0);
        session_store_end(s.store, "p", ID_A);
        ASSERT_TRUE(session_store_is_ended(s.store, "p", ID_A));
        ASSERT_TRUE(!session_store_is_ended(s.store, "p", ID_B));
}

TEST(expired_ones_leave_the_list_and_the_file) {
        _cleanup_(ended_sessions_done) EndedSessions l = {};
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int dir_fd = -EBADF;
        _cleanup_tree_ char *tree = make_tree();

        put_file(tree, "ended-sessions", "00000064 00000001 0000000000000001\n"
                                         "000000c8 00000001 0000000000000002\n");
        dir_fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_TRUE(dir_fd >= 0);
        ASSERT_EQ_INT(ended_sessions_read(&l, dir_fd, 200), ENDED_E_CONDENSED);
        ASSERT_EQ_UINT(l.n_entries, 1);
        ASSERT_EQ_UINT(l.entries[0].tag, 2);
        ASSERT_EQ_INT(ended_sessions_write(&l, dir_fd), 0);
        ASSERT_EQ_INT(file_read(dir_fd, "ended-sessions", 4096, &text, NULL), 0);
        ASSERT_EQ_STR(text, "000000c8 00000001 0000000000000002\n");
}

/* None is forgotten; who ends many may lose a session of its own that is as old, and nobody else does. */
TEST(who_ends_many_sessions_loses_only_its_own_older_ones) {
        _cleanup_(ended_sessions_done) EndedSessions l = {};
        const EndedSession other = { .tag = 7, .expires_sec = 5, .owner = 9 };
        const EndedSession never_ended = { .tag = 8, .expires_sec = 5, .owner = 1 };
        const EndedSession newer = { .tag = 8, .expires_sec = 2 * ENDED_OWN_MAX, .owner = 1 };

        for (uint32_t i = 1; i <= ENDED_OWN_MAX; i++)
                ASSERT_EQ_INT(ended_sessions_add(&l, &(EndedSession) { i + 100, i, 1 }, 0), 0);
        ASSERT_TRUE(!ended_sessions_contain(&l, &never_ended));
        ASSERT_EQ_INT(ended_sessions_add(&l, &(EndedSession) { 1, 9999, 1 }, 0), ENDED_E_CONDENSED);
        ASSERT_EQ_UINT(l.n_entries, ENDED_OWN_MAX / 2 + 2);
        for (uint32_t i = 1; i <= ENDED_OWN_MAX; i++)
                ASSERT_TRUE(ended_sessions_contain(
                        &l, &(EndedSession) { .tag = i + 100, .expires_sec = i, .owner = 1 }));
        ASSERT_TRUE(ended_sessions_contain(&l, &never_ended));
        ASSERT_TRUE(!ended_sessions_contain(&l, &newer));
        ASSERT_TRUE(!ended_sessions_contain(&l, &other));

        /* Nothing to note: it has ended. */
        ASSERT_EQ_INT(ended_sessions_add(&l, &never_ended, 0), 0);
        ASSERT_EQ_UINT(l.n_entries, ENDED_OWN_MAX / 2 + 2);
}

TEST(list_is_bounded_in_all) {
        _cleanup_(ended_sessions_done) EndedSessions l = {};

        for (uint32_t i = 0; i < 3 * ENDED_MAX; i++) {
                const EndedSession e = { .tag = i + 1, .expires_sec = i + 1, .owner = i % 64 + 1 };

                ASSERT_TRUE(ended_sessions_add(&l, &e, 0) >= 0);
                ASSERT_TRUE(l.n_entries <= ENDED_MAX);
        }
        for (uint32_t i = 0; i < 3 * ENDED_MAX; i += 97)
                ASSERT_TRUE(ended_sessions_contain(
                        &l, &(EndedSession) { .tag = i + 1, .expires_sec = i + 1, .owner = i % 64 + 1 }));
        ASSERT_TRUE(!ended_sessions_contain(
                &l, &(EndedSession) { .tag = 1, .expires_sec = 4 * ENDED_MAX, .owner = 1 }));
}

TEST(those_who_end_thousands_of_sessions_do_not_end_those_of_others) {
        _cleanup_(ended_sessions_done) EndedSessions l = {};
        const EndedSession other = { .tag = 1, .expires_sec = 5, .owner = 1000 },
                           others_live = { .tag = 2, .expires_sec = 6, .owner = 1000 };

        ASSERT_TRUE(ended_sessions_add(&l, &other, 0) >= 0);
        for (uint32_t i = 0; i < 3 * ENDED_MAX; i++) {
                const EndedSession e = { .tag = i + 1, .expires_sec = i + 10, .owner = i % 64 + 1 };

                ASSERT_TRUE(ended_sessions_add(&l, &e, 0) >= 0);
                ASSERT_TRUE(l.n_entries <= ENDED_MAX);
        }
        ASSERT_TRUE(ended_sessions_contain(&l, &other));
        ASSERT_TRUE(!ended_sessions_contain(&l, &others_live));
}

/* Where nobody has many, none may be forgotten all the same. */
TEST(sessions_that_thousands_have_ended_stay_ended) {
        _cleanup_(ended_sessions_done) EndedSessions l = {};

        for (uint32_t i = 1; i < 3 * ENDED_MAX; i++) {
                const EndedSession e = { .tag = i, .expires_sec = i, .owner = i };

                ASSERT_TRUE(ended_sessions_add(&l, &e, 0) >= 0);
                ASSERT_TRUE(l.n_entries <= ENDED_MAX);
        }
        for (uint32_t i = 1; i < 3 * ENDED_MAX; i += 97)
                ASSERT_TRUE(ended_sessions_contain(
                        &l, &(EndedSession) { .tag = i, .expires_sec = i, .owner = i }));
}
