/* SPDX-License-Identifier: MIT */

/* Which lines of a script PARSE gets to see. */

#include "python/block.h"
#include "python/python.h"
#include "test.h"

TEST(block_is_seen_in_each_spelling_that_parse_reports) {
        static const struct {
                const char *text;
                bool has_block;
        } cases[] = {
                { "# /// script\n# ///\n", true },
                { "print(1)\n# /// script\n", true },
                { "# /// script", true },
                { "\xef\xbb\xbf# /// script\r\n# ///\r\n", true },
                { "x = 1\r# /// script\r# ///\r", true },
                { "# /// script  \n", true },
                { "#/// script\n", true },
                { "# //// Script\n", true },
                { "#   //script\n", true },
                { "", false },
                { "print('# /// script')\n", false },
                { " # /// script\n", false },
                { "# / script\n", false },
                { "# ///// script\n", false },
                { "# /// scrip", false },
                { "# see http://script\n", false },
                { "# /// pyproject\n", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (python_has_block(cases[i].text, strlen(cases[i].text)) != cases[i].has_block)
                        FAIL("case %zu: %s", i, cases[i].text);
}

TEST(block_may_stand_behind_a_nul) {
        static const char text[] = "x\0y\n# /// script\n";

        ASSERT_TRUE(python_has_block(text, sizeof(text) - 1));
}

static void assert_reduced(const char *text, const char *expected) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_append_str(&b, "order:"), 0);
        ASSERT_EQ_INT(block_reduce(text, strlen(text), &b), 0);
        ASSERT_EQ_STR(b.data + strlen("order:"), expected);
        ASSERT_EQ_UINT(b.n_bytes, strlen(b.data));
}

TEST(reduced_script_has_its_block_at_the_same_lines) {
        assert_reduced("import a\n\n# /// script\n# x = 1\n# ///\nprint(1)\nprint(2)\n",
                       "\n\n# /// script\n# x = 1\n# ///\nx");
        assert_reduced("# a\n# b\nx = 1\n#\n# /// script\n# ///", "\n\n\n#\n# /// script\n# ///");
        assert_reduced("# /// script\r\n# ///\r\n\r\nprint(1)\r\n# done\r\n", "# /// script\r\n# ///\r\n");
        assert_reduced("a\rb\r# /// script\r# ///\r", "\n\n# /// script\r# ///\r");
        assert_reduced("# /// a\r# ///\r\r# /// script\r# ///", "# /// a\r# ///\r\r# /// script\r# ///");
        assert_reduced("# /// a\r \n# b\n1\n# //", "# /// a\r\r\r\r# //");
        assert_reduced("\xef\xbb\xbf# /// script\n# ///\n", "# /// script\n# ///\n");
}

TEST(reduced_script_shows_what_ends_an_open_block) {
        assert_reduced("# /// script\n# x = 1\nprint(1)\n# ///\n", "# /// script\n# x = 1\nx\n# ///\n");
        assert_reduced("# /// script\n# x = 1\n\nprint(1)\n# ///\n", "# /// script\n# x = 1\n\n\n# ///\n");
        assert_reduced("# /// script\n  # ///\n", "# /// script\n  # ///");
        assert_reduced("# /// script\n  # ////\n", "# /// script\n  # ////");
        assert_reduced("# /// script\n  # ///x\n", "# /// script\nx");
        assert_reduced("# /// script\n  # x\n", "# /// script\nx");
}

TEST(scripts_without_such_comments_are_nothing) {
        assert_reduced("", "");
        assert_reduced("print(1)\n# a comment\nprint(2)\n", "");
        assert_reduced("x = 'http://'\n", "");
        assert_reduced("\n\n\n", "");
}

TEST(code_only_does_not_change_what_is_left) {
        _cleanup_buffer_ Buffer a = BUFFER_INIT(0), b = BUFFER_INIT(0);
        const char *one = "# /// script\n# dependencies = []\n# ///\nprint(1)\n# a\n",
                   *two = "# /// script\n# dependencies = []\n# ///\nimport os\n\n\nfor i in range(3):\n    "
                          "# b\n";

        ASSERT_EQ_INT(block_reduce(one, strlen(one), &a), 0);
        ASSERT_EQ_INT(block_reduce(two, strlen(two), &b), 0);
        ASSERT_EQ_STR(a.data, b.data);
}
