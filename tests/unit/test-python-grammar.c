/* SPDX-License-Identifier: MIT */

/* What may go from PARSE to FETCH. */

#include "base/macro.h"
#include "python/grammar.h"
#include "test.h"

static const GrammarPolicy strict = {}, urls = { .allows_urls = true },
                           all = { .allows_urls = true, .allows_vcs = true };

TEST(requirements_as_parse_writes_them) {
        static const char *const fine[] = {
                "a",
                "numpy",
                "grep-ast==0.9.0",
                "a1-b2-c3",
                "pandas[excel,plot]>=2,<3",
                "x===1.0+local",
                "x~=1.4.2",
                "x!=1.*",
                "x==1.0 ; python_version < \"3.12\"",
                "x ; sys_platform == \"linux\" and (os_name == \"posix\" or extra == \"a b\")",
                "x[a]>=1,!=1.5,<2 ; python_full_version >= \"3.11.2\"",
        };

        for (size_t i = 0; i < ELEMENTSOF(fine); i++)
                if (!grammar_is_requirement(fine[i], &strict))
                        FAIL("%s", fine[i]);
}

TEST(everything_else_is_refused) {
        static const char *const bad[] = {
                "",
                " ",
                "-",
                "-r file",
                "--index-url=https://x",
                "a b",
                "A",
                "a_b",
                "a--b",
                "a-",
                "-a",
                "a.b",
                "a/b",
                "../a",
                "a\n",
                "a\nb",
                "a#b",
                "a;b",
                "a ;b",
                "a ; ",
                "a ; x;y",
                "a ; $HOME",
                "a ; 'x'",
                "a ; x\n",
                "a ; x\\y",
                "a==",
                "a==1.0,",
                "a=1",
                "a==1 .0",
                "a>1;",
                "a==${HOME}",
                "a[",
                "a[]",
                "a[x",
                "a[x,]",
                "a[X]",
                "a[x]y",
                "a @ file:///etc/passwd",
                "a @ /etc/passwd",
                "a@https://x/y",
                "a\t",
                "a==1.0 --hash=sha256:0",
                "a==1.0 \\",
                "\xc3\xa4",
                "a==1.\xc3\xa4",
                "a\x7f",
                "a==1.0 # x",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (grammar_is_requirement(bad[i], &all))
                        FAIL("case %zu: %s", i, bad[i]);
}

TEST(urls_only_where_policy_allows_them) {
        static const char url[] = "a @ https://example.org/a-1.0-py3-none-any.whl",
                          vcs[] = "a @ git+https://example.org/a.git@main ; os_name == \"posix\"";

        ASSERT_TRUE(!grammar_is_requirement(url, &strict));
        ASSERT_TRUE(grammar_is_requirement(url, &urls));
        ASSERT_TRUE(!grammar_is_requirement(vcs, &strict));
        ASSERT_TRUE(!grammar_is_requirement(vcs, &urls));
        ASSERT_TRUE(grammar_is_requirement(vcs, &all));
        ASSERT_TRUE(!grammar_is_requirement("a @ http://example.org/a.whl", &all));
        ASSERT_TRUE(!grammar_is_requirement("a @ https://", &all));
        ASSERT_TRUE(!grammar_is_requirement("a @ git+ssh://x/y", &all));
        ASSERT_TRUE(!grammar_is_requirement("a @ https://x/$HOME", &all));
}

TEST(requirements_have_an_end) {
        char text[REQUIREMENT_BYTES_MAX + 2];

        memset(text, 'a', sizeof(text));
        text[REQUIREMENT_BYTES_MAX] = 0;
        ASSERT_TRUE(grammar_is_requirement(text, &strict));
        text[REQUIREMENT_BYTES_MAX] = 'a';
        text[REQUIREMENT_BYTES_MAX + 1] = 0;
        ASSERT_TRUE(!grammar_is_requirement(text, &strict));
}

TEST(specifier_sets_and_versions) {
        ASSERT_TRUE(grammar_is_specifier_set(""));
        ASSERT_TRUE(grammar_is_specifier_set(">=3.11"));
        ASSERT_TRUE(grammar_is_specifier_set(">=3.11,<4"));
        ASSERT_TRUE(!grammar_is_specifier_set("3.11"));
        ASSERT_TRUE(!grammar_is_specifier_set(">=3.11,"));
        ASSERT_TRUE(!grammar_is_specifier_set(">=3.11 ; x"));
        ASSERT_TRUE(grammar_is_version("3.13.5"));
        ASSERT_TRUE(grammar_is_version("3.14.0rc2"));
        ASSERT_TRUE(!grammar_is_version(""));
        ASSERT_TRUE(!grammar_is_version("3"));
        ASSERT_TRUE(!grammar_is_version("3.13/.."));
        ASSERT_TRUE(!grammar_is_version("3.13\n"));
}

TEST(names) {
        ASSERT_TRUE(grammar_is_name("a-b", 3));
        ASSERT_TRUE(!grammar_is_name("a-b", 2));
        ASSERT_TRUE(!grammar_is_name("a-", 2));
        ASSERT_TRUE(!grammar_is_name("", 0));
}

TEST(lines_are_for_people) {
        ASSERT_TRUE(grammar_is_line("all is \xe2\x80\xa6 fine", 15, 15));
        ASSERT_TRUE(!grammar_is_line("all is \xe2\x80\xa6 fine", 15, 14));
        ASSERT_TRUE(!grammar_is_line("a\nb", 3, 10));
        ASSERT_TRUE(!grammar_is_line("a\033[31m", 6, 10));
        ASSERT_TRUE(!grammar_is_line("a\0b", 3, 10));
        ASSERT_TRUE(!grammar_is_line("\xff", 1, 10));
        ASSERT_TRUE(!grammar_is_line("\xe2\x80\xae", 3, 10)); /* turns the direction */
}
