/* SPDX-License-Identifier: MIT */

/* What is remembered across restarts, and what a file is that is none. */

#include "files.h"
#include "python/memory.h"
#include "test.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

TEST(what_was_noted_is_found_again) {
        _cleanup_tree_ char *tree = make_tree();
        Memory m;

        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        ASSERT_TRUE(memory_find(&m, A) == NULL);
        ASSERT_EQ_INT(memory_note(&m, A, B, true), 0);
        ASSERT_EQ_INT(memory_note(&m, C, B, true), 0);
        ASSERT_EQ_INT(memory_note(&m, C, A, true), 0);
        ASSERT_EQ_INT(memory_note(&m, B, B, false), 0);
        ASSERT_EQ_STR(memory_find(&m, B), B);
        ASSERT_EQ_INT(memory_note_use(&m, B, 123), 0);
        ASSERT_EQ_INT(memory_note_use(&m, B, 456), 0);
        ASSERT_EQ_INT(memory_save(&m), 0);
        memory_done(&m);

        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        ASSERT_TRUE(!m.is_changed);
        ASSERT_EQ_STR(memory_find(&m, A), B);
        ASSERT_EQ_STR(memory_find(&m, C), A);
        ASSERT_EQ_UINT(m.n_requests, 2);
        ASSERT_EQ_UINT(memory_used_usec(&m, B), 456);
        ASSERT_EQ_UINT(memory_used_usec(&m, C), 0);

        memory_forget_set(&m, B);
        ASSERT_TRUE(memory_find(&m, A) == NULL);
        ASSERT_EQ_UINT(memory_used_usec(&m, B), 0);
        ASSERT_EQ_STR(memory_find(&m, C), A);
        memory_done(&m);
}

TEST(file_that_is_none_is_an_empty_one) {
        static const char *const bad[] = {
                "",
                "something else\nrequest " A " " B "\n",
                "mcp-exec sets 1",
                "mcp-exec sets 1\nrequest " A "\n",
                "mcp-exec sets 1\nrequest " A " " B " x\n",
                "mcp-exec sets 1\nrequest ../" A " " B "\n",
                "mcp-exec sets 1\nrequest " A " ../../etc\n",
                "mcp-exec sets 1\nrequest " A " " B, /* cut */
                "mcp-exec sets 1\nuse " A " -1\n",
                "mcp-exec sets 1\nbroken\nrequest " A " " B "\n",
        };
        _cleanup_tree_ char *tree = make_tree();

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                Memory m;

                put_file(tree, "known-sets", bad[i]);
                ASSERT_EQ_INT(memory_init(&m, tree), 0);
                if (memory_find(&m, A) || m.n_requests > 0 || m.n_uses > 0)
                        FAIL("case %zu", i);
                memory_done(&m);
        }
}

TEST(lines_before_a_bad_one_hold) {
        _cleanup_tree_ char *tree = make_tree();
        Memory m;

        put_file(tree, "known-sets", "mcp-exec sets 1\nrequest " A " " B "\nuse " B " 5\nrequ");
        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        ASSERT_EQ_STR(memory_find(&m, A), B);
        ASSERT_EQ_UINT(memory_used_usec(&m, B), 5);
        memory_done(&m);
}

static void make_name(char ret[static SHA256_HEX_CHARS + 1], unsigned i) {
        (void) snprintf(ret, SHA256_HEX_CHARS + 1, "%064x", i);
}

TEST(memory_is_bounded_and_the_oldest_goes) {
        char name[SHA256_HEX_CHARS + 1];
        _cleanup_tree_ char *tree = make_tree();
        Memory m;

        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        for (unsigned i = 0; i < MEMORY_ENTRIES_MAX + 10; i++) {
                make_name(name, i);
                ASSERT_EQ_INT(memory_note(&m, name, A, true), 0);
                ASSERT_EQ_INT(memory_note_use(&m, name, i), 0);
        }
        ASSERT_EQ_UINT(m.n_requests, MEMORY_ENTRIES_MAX);
        ASSERT_EQ_UINT(m.n_uses, MEMORY_ENTRIES_MAX);
        make_name(name, 9);
        ASSERT_TRUE(memory_find(&m, name) == NULL);
        make_name(name, 10);
        ASSERT_EQ_STR(memory_find(&m, name), A);
        ASSERT_EQ_INT(memory_save(&m), 0);
        memory_done(&m);
        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        ASSERT_EQ_UINT(m.n_requests, MEMORY_ENTRIES_MAX);
        memory_done(&m);
}

TEST(directory_is_made_with_the_first_thing_to_remember) {
        _cleanup_free_ char *directory = NULL;
        _cleanup_tree_ char *tree = make_tree();
        Memory m;

        ASSERT_EQ_INT(str_printf(&directory, "%s/state/mcp-exec", tree), 0);
        ASSERT_EQ_INT(memory_init(&m, directory), 0);
        ASSERT_EQ_INT(memory_save(&m), 0);
        ASSERT_TRUE(access(directory, F_OK) < 0);
        ASSERT_EQ_INT(memory_note(&m, A, B, true), 0);
        ASSERT_EQ_INT(memory_save(&m), 0);
        memory_done(&m);
        ASSERT_EQ_INT(memory_init(&m, directory), 0);
        ASSERT_EQ_STR(memory_find(&m, A), B);
        memory_done(&m);
}

TEST(directory_that_cannot_be_made_is_an_error_of_saving_alone) {
        Memory m;

        ASSERT_EQ_INT(memory_init(&m, "/dev/null/mcp-exec"), 0);
        ASSERT_EQ_INT(memory_note(&m, A, B, true), 0);
        ASSERT_EQ_INT(memory_save(&m), -ENOTDIR);
        ASSERT_EQ_STR(memory_find(&m, A), B);
        memory_done(&m);
        ASSERT_EQ_INT(memory_init(&m, NULL), 0);
        ASSERT_EQ_INT(memory_note(&m, A, B, true), 0);
        ASSERT_EQ_INT(memory_save(&m), 0);
        memory_done(&m);
}

TEST(nothing_is_left_beside_the_file) {
        _cleanup_free_ char *path = NULL;
        _cleanup_tree_ char *tree = make_tree();
        Memory m;

        ASSERT_EQ_INT(str_printf(&path, "%s/known-sets.%d", tree, (int) getpid()), 0);
        ASSERT_EQ_INT(memory_init(&m, tree), 0);
        ASSERT_EQ_INT(memory_note(&m, A, B, true), 0);
        put_file(tree, "known-sets/x", ""); /* a directory: it cannot be replaced */
        ASSERT_TRUE(memory_save(&m) < 0);
        ASSERT_TRUE(access(path, F_OK) < 0);
        memory_done(&m);
}
