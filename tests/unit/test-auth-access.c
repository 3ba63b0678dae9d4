/* SPDX-License-Identifier: MIT */

#include "auth/access.h"

#include <unistd.h>

#include "auth/auth.h"
#include "test.h"

/* Of "secret" and "other". */
#define SECRET "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
#define OTHER "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"

static Access* parse(const char *text) {
        char *error = NULL;
        Access *a = NULL;

        if (access_parse("tokens", text, &a, &error) < 0)
                FAIL("%s", error ? error : "no memory");
        return a;
}

TEST(entries_are_read_and_written_alike) {
        static const char text[] =
                "token ci " SECRET " parallel=2 queue=0 rate=60 timeout=5000ms memory=67108864\n"
                "token front " OTHER " delegate parallel=8 user-parallel=2 user-queue=0 user-rate=3\n"
                "user alice parallel=1\n"
                "group students memory=33554432\n"
                "proxy rate=10 user-rate=2\n";
        _cleanup_(access_freep) Access *a = parse("# a comment\n\n");
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_UINT(a->n_entries, 0);
        (void) access_free(a);
        a = parse(text);
        ASSERT_EQ_UINT(a->n_entries, 5);
        ASSERT_EQ_UINT(a->n_tokens, 2);
        for (size_t i = 0; i < a->n_entries; i++)
                ASSERT_EQ_INT(access_write_entry(a->entries + i, &b), 0);
        ASSERT_EQ_STR(b.data, text);
}

TEST(mistakes_are_named_with_file_and_line) {
        static const struct {
                const char *text, *part;
        } table[] = {
                { "tokens x\n", "tokens:1: a line begins with" },
                { "\ntoken\n", "tokens:2: the name is missing" },
                { "token ci\n", "digest is missing" },
                { "token ci sha256:12\n", "not sha256:" },
                { "token c/i " SECRET "\n", "the name is not" },
                { "token ci " SECRET "\ntoken ci " OTHER "\n", "tokens:2: the same name" },
                { "token ci " SECRET " paralel=2\n", "a limit is one of" },
                { "token ci " SECRET " parallel=0\n", "a limit is one of" },
                { "token ci " SECRET " timeout=0\n", "a limit is one of" },
                { "token ci " SECRET " memory=1M\n", "a limit is one of" },
                { "token ci " SECRET " whatever\n", "a word is none" },
                { "user alice delegate\n", "a word is none" },
                { "user alice " SECRET "\n", "a word is none" },
                { "proxy parallel=-1\n", "a limit is one of" },
                { "proxy user-parallel=0\n", "a limit is one of" },
                { "proxy user-timeout=2s\n", "a limit is one of" },
                { "token ci " SECRET " user-parallel=1\n", "for tokens with the word delegate" },
                { "user alice user-queue=0\n", "for tokens with the word delegate" },
                { "group staff user-rate=1\n", "for tokens with the word delegate" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_free_ char *error = NULL;
                Access *a = NULL;

                ASSERT_EQ_INT(access_parse("tokens", table[i].text, &a, &error), -EBADMSG);
                ASSERT_CONTAINS(error, table[i].part);
        }
}

TEST(missing_file_is_empty_and_an_unreadable_one_is_an_error) {
        _cleanup_free_ char *error = NULL;
        _cleanup_(access_freep) Access *a = NULL;

        ASSERT_EQ_INT(access_load("/nonexistent/tokens", &a, &error), 0);
        ASSERT_EQ_UINT(a->n_entries, 0);
        a = access_free(a);
        ASSERT_EQ_INT(access_load("/", &a, &error), -EBADMSG);
        ASSERT_CONTAINS(error, "is no regular file");
        ASSERT_TRUE(!strstr(error, "mode"));
}

TEST(token_is_found_by_what_it_is_only) {
        _cleanup_(access_freep) Access *a = parse("token ci " SECRET "\ntoken front " OTHER " delegate\n");

        ASSERT_EQ_STR(access_find_token(a, "secret")->name, "ci");
        ASSERT_EQ_STR(access_find_token(a, "other")->name, "front");
        ASSERT_TRUE(!access_find_token(a, ""));
        ASSERT_TRUE(!access_find_token(a, "Secret"));
        ASSERT_TRUE(!access_find_token(a, SECRET));
}

static const char* who(const Access *a, const char *token, const char *user, bool is_proxy) {
        static char principal[200];
        _cleanup_free_ char *p = NULL;
        const Settings s = {};
        int r;

        r = auth_http(
                &(AuthHttp) {
                        .settings = &s,
                        .access = a,
                        .x_mcp_auth = token,
                        .user = user,
                        .n_user = user ? 1 : 0,
                        .is_proxy = is_proxy,
                },
                &p);
        (void) snprintf(principal, sizeof(principal), "%s",
                        r == AUTH_E_DENIED ? "denied" :
                        r == AUTH_E_USER   ? "user" :
                                             p);
        return principal;
}

TEST(only_delegating_tokens_may_name_a_user) {
        _cleanup_(access_freep) Access *a = parse("token ci " SECRET "\ntoken front " OTHER " delegate\n");

        ASSERT_EQ_STR(who(a, "secret", NULL, false), "token:ci");
        ASSERT_EQ_STR(who(a, "secret", "alice", false), "user");
        ASSERT_EQ_STR(who(a, "other", NULL, false), "token:front");
        ASSERT_EQ_STR(who(a, "other", "alice@example.org", false), "token:front/alice@example.org");
        ASSERT_EQ_STR(who(a, "other", "", false), "user");
        ASSERT_EQ_STR(who(a, "other", "a/b", false), "user");
        ASSERT_EQ_STR(who(a, "other", "a b", false), "user");
        ASSERT_EQ_STR(who(a, "wrong", "alice", false), "denied");
        ASSERT_EQ_STR(who(a, NULL, NULL, false), "denied");
}

TEST(proxy_must_name_a_user) {
        _cleanup_(access_freep) Access *a = parse("token ci " SECRET "\n");

        ASSERT_EQ_STR(who(a, NULL, "alice", true), "proxy:alice");
        ASSERT_EQ_STR(who(a, "secret", NULL, true), "user");
        ASSERT_EQ_STR(who(a, NULL, "", true), "user");
}

TEST(limits_belong_to_principals) {
        _cleanup_(access_freep) Access *a = parse("token front " OTHER " delegate parallel=3\n"
                                                  "user 4294967290 parallel=4\n"
                                                  "user root parallel=5\n"
                                                  "group root parallel=6\n"
                                                  "proxy parallel=7\n");
        static const struct {
                const char *principal;
                unsigned parallel;
        } table[] = {
                { "token:front", 3 },  { "token:front/alice", 3 }, { "token:fron", 0 },
                { "token:front2", 0 }, { "uid:4294967290", 4 },    { "uid:0", 5 },
                { "uid:9", 0 },        { "proxy:alice", 7 },       { "token", 0 },
                { "local", 0 },        { "anonymous", 0 },
        };

        PrincipalLimits l;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                access_limits(a, table[i].principal, &l);
                if (l.own.parallel != table[i].parallel)
                        FAIL("%s: %u, expected %u", table[i].principal, l.own.parallel, table[i].parallel);
        }
        (void) access_free(a);
        a = parse("group root parallel=6\n");
        access_limits(a, "uid:0", &l);
        ASSERT_EQ_UINT(l.own.parallel, 6);
}

TEST(users_share_what_their_client_may) {
        _cleanup_(access_freep) Access *a =
                parse("token ci " SECRET " parallel=9\n"
                      "token front " OTHER " user-parallel=2 user-queue=5 parallel=3 queue=4 rate=7 "
                      "delegate\n"
                      "proxy user-rate=6 timeout=2s\n");
        PrincipalLimits l;

        for (unsigned i = 0; i < 2; i++) {
                access_limits(a, i == 0 ? "token:front" : "token:front/alice", &l);
                ASSERT_EQ_STR(l.group, "token:front");
                ASSERT_EQ_UINT(l.whole.parallel, 3);
                ASSERT_EQ_UINT(l.whole.queue, 4);
                ASSERT_EQ_UINT(l.whole.rate_per_minute, 7);
                /* Of one user never more than of all of them. */
                ASSERT_EQ_UINT(l.own.parallel, 2);
                ASSERT_EQ_UINT(l.own.queue, 4);
                ASSERT_EQ_UINT(l.own.rate_per_minute, 7);
        }
        access_limits(a, "proxy:alice", &l);
        ASSERT_EQ_STR(l.group, "proxy");
        ASSERT_EQ_UINT(l.whole.rate_per_minute, 0);
        ASSERT_EQ_UINT(l.own.rate_per_minute, 6);
        ASSERT_TRUE(!l.own.has_queue);
        ASSERT_EQ_UINT(l.timeout_usec, 2 * USEC_PER_SEC);
        access_limits(a, "token:ci", &l);
        ASSERT_EQ_STR(l.group, "");
        ASSERT_EQ_UINT(l.own.parallel, 9);
        ASSERT_EQ_UINT(l.whole.parallel, 0);
}

TEST(group_of_a_principal_ends_where_its_name_does) {
        ASSERT_TRUE(principal_is_of("token:front", "token:front"));
        ASSERT_TRUE(principal_is_of("token:front/alice", "token:front"));
        ASSERT_TRUE(!principal_is_of("token:front2", "token:front"));
        ASSERT_TRUE(!principal_is_of("token:fron", "token:front"));
        ASSERT_TRUE(principal_is_of("proxy:alice", "proxy"));
        ASSERT_TRUE(!principal_is_of("proxy:alice", ""));
}
