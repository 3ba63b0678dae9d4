/* SPDX-License-Identifier: MIT */

/* The small files of base: strv, random, timeutil, digest. */

#include "base/digest.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "test.h"

TEST(strv_functions_take_null_as_the_empty_array) {
        _cleanup_strv_ char **l = NULL;

        ASSERT_EQ_UINT(strv_length(l), 0);
        ASSERT_FALSE(strv_contains(l, "a"));
        ASSERT_TRUE(strv_free(NULL) == NULL);
        STRV_FOREACH(s, l)
                FAIL("visited %s", *s);
}

TEST(strv_extend_appends_copies_in_order) {
        _cleanup_strv_ char **l = NULL;
        char text[] = "one";

        ASSERT_EQ_INT(strv_extend(&l, text), 0);
        text[0] = 'X';
        ASSERT_EQ_INT(strv_extendf(&l, "%s-%d", "two", 2), 0);
        ASSERT_EQ_UINT(strv_length(l), 2);
        ASSERT_EQ_STR(l[0], "one");
        ASSERT_EQ_STR(l[1], "two-2");
        ASSERT_EQ_STR(l[2], NULL);
        ASSERT_TRUE(strv_contains(l, "two-2"));
        ASSERT_FALSE(strv_contains(l, "two"));
}

TEST(strv_split_ignores_white_space_around_words) {
        _cleanup_strv_ char **l = NULL, **none = NULL;

        ASSERT_EQ_INT(strv_split(" a \t b\nc ", &l), 0);
        ASSERT_EQ_UINT(strv_length(l), 3);
        ASSERT_EQ_STR(l[0], "a");
        ASSERT_EQ_STR(l[2], "c");
        ASSERT_EQ_INT(strv_split(" \t ", &none), 0);
        ASSERT_EQ_UINT(strv_length(none), 0);
}

TEST(str_copy_replaces_also_by_null) {
        _cleanup_free_ char *s = NULL;

        ASSERT_EQ_INT(str_copy(&s, "a"), 0);
        ASSERT_EQ_STR(s, "a");
        ASSERT_EQ_INT(str_copy(&s, s), 0);
        ASSERT_EQ_STR(s, "a");
        ASSERT_EQ_INT(str_copy(&s, NULL), 0);
        ASSERT_EQ_STR(s, NULL);
}

TEST(a_word_is_quoted_for_a_shell_only_where_it_must_be) {
        static const struct {
                const char *word, *expected;
        } cases[] = {
                { "alice",               "alice"                          },
                { "/run/a-b_c.sock",     "/run/a-b_c.sock"                },
                { "",                    "''"                             },
                { "domain users",        "'domain users'"                 },
                { "DOM\\alice",          "'DOM\\alice'"                   },
                { "it's; rm -rf $HOME",  "'it'\\''s; rm -rf $HOME'"       },
                { "`id`",                "'`id`'"                         },
                { "~root",               "'~root'"                        },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;

                ASSERT_EQ_INT(str_quote_for_shell(cases[i].word, &s), 0);
                ASSERT_EQ_STR(s, cases[i].expected);
        }
}

TEST(random_ids_are_hex_and_differ) {
        char a[RANDOM_HEX_ID_CHARS + 1], b[RANDOM_HEX_ID_CHARS + 1];

        ASSERT_EQ_INT(random_hex_id(a), 0);
        ASSERT_EQ_INT(random_hex_id(b), 0);
        ASSERT_TRUE(is_hex(a, RANDOM_HEX_ID_CHARS));
        ASSERT_TRUE(is_hex(b, RANDOM_HEX_ID_CHARS));
        ASSERT_TRUE(strcmp(a, b) != 0);
}

TEST(monotonic_clock_does_not_run_backwards) {
        uint64_t before = now_monotonic_usec(), after = now_monotonic_usec();

        ASSERT_TRUE(before > 0 && after >= before);
        ASSERT_TRUE(now_realtime_usec() > UINT64_C(1600000000) * USEC_PER_SEC);
}

/* FIPS 180-4's examples. */
TEST(sha256_hex_gives_the_published_digests) {
        char hex[SHA256_HEX_CHARS + 1];

        sha256_hex(NULL, 0, hex);
        ASSERT_EQ_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        sha256_hex("abc", 3, hex);
        ASSERT_EQ_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(secret_equal_compares_whole_strings) {
        ASSERT_TRUE(secret_equal("", ""));
        ASSERT_TRUE(secret_equal("token", "token"));
        ASSERT_FALSE(secret_equal("token", "token2"));
        ASSERT_FALSE(secret_equal("token", "tokem"));
        ASSERT_FALSE(secret_equal("token", ""));
}
