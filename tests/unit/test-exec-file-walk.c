/* SPDX-License-Identifier: MIT */

/* Which files of a run are found, which are kept, and what is said of the others. */

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "file-walk-fixture.h"

TEST(an_empty_directory_has_no_files) {
        Setup *s = setup_new();
        const ExecFiles *f = walk(s);

        ASSERT_EQ_UINT(f->n_items, 0);
        ASSERT_EQ_UINT(f->n_more, 0);
        ASSERT_EQ_UINT(f->n_bytes, 0);
        ASSERT_EQ_UINT(f->gaps, 0);
        setup_free(s);
}

TEST(files_come_level_by_level_and_by_name) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(s->tree, "z.txt", "z\n");
        put_file(s->tree, "a/b/deep", "deep");
        put_file(s->tree, "a/y", "");
        put_file(s->tree, "b/x", "x");
        put_bytes(s->tree, "bin", "\0\xff", 2);
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 5);
        ASSERT_EQ_STR(f->items[0].path, "bin");
        ASSERT_EQ_MEM(f->items[0].data, f->items[0].n_bytes, "\0\xff", 2);
        check(f, 1, "z.txt", 2, EXEC_FILE_COMPLETE, "z\n");
        ASSERT_EQ_STR(f->items[1].sha256,
                      "c865f6c5ab8d1b0bcd383a5e1e3879d22681c96bf462c269b7581d523fbe70ab");
        check(f, 2, "a/y", 0, EXEC_FILE_COMPLETE, "");
        check(f, 3, "b/x", 1, EXEC_FILE_COMPLETE, "x");
        check(f, 4, "a/b/deep", 4, EXEC_FILE_COMPLETE, "deep");
        ASSERT_EQ_UINT(f->n_bytes, 9);
        ASSERT_EQ_UINT(f->gaps, 0);
        setup_free(s);
}

TEST(the_program_itself_is_no_output) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(s->tree, "main.py", "print()");
        put_file(s->tree, "__pycache__/helper.cpython-311.pyc", "x");
        put_file(s->tree, "package/__pycache__/other.pyc", "x");
        put_file(s->tree, "package/main.py", "other");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 1);
        check(f, 0, "package/main.py", 5, EXEC_FILE_COMPLETE, "other");
        setup_free(s);
}

TEST(a_program_replaced_by_something_else_is_told) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_link(s->tree, "main.py", "/etc/passwd");
        put_file(s->tree, "__pycache__", "a file");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "__pycache__", 6, EXEC_FILE_COMPLETE, "a file");
        check(f, 1, "main.py", 0, EXEC_FILE_LINK, NULL);
        setup_free(s);
}

TEST(inputs_are_outputs_only_when_changed) {
        static char large[MIB], changed[MIB];
        Setup *s = setup_new();
        const ExecFiles *f;

        changed[MIB - 1] = 'c';
        ASSERT_EQ_INT(exec_request_add_file(s->request, "changed", "before", 6), 0);
        ASSERT_EQ_INT(exec_request_add_file(s->request, "large", large, sizeof(large)), 0);
        ASSERT_EQ_INT(exec_request_add_file(s->request, "large changed", large, sizeof(large)), 0);
        ASSERT_EQ_INT(exec_request_add_file(s->request, "longer", "before", 6), 0);
        ASSERT_EQ_INT(exec_request_add_file(s->request, "same", "before", 6), 0);
        ASSERT_EQ_INT(exec_request_add_file(s->request, "gone", "before", 6), 0);
        put_file(s->tree, "changed", "behind");
        put_bytes(s->tree, "large", large, sizeof(large));
        put_bytes(s->tree, "large changed", changed, sizeof(changed));
        put_file(s->tree, "longer", "before and after");
        put_file(s->tree, "same", "before");
        put_file(s->tree, "below/same", "before");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 4);
        check(f, 0, "changed", 6, EXEC_FILE_COMPLETE, "behind");
        check(f, 1, "large changed", MIB, EXEC_FILE_TOO_LARGE, NULL);
        check(f, 2, "longer", 16, EXEC_FILE_COMPLETE, "before and after");
        check(f, 3, "below/same", 6, EXEC_FILE_COMPLETE, "before");
        ASSERT_EQ_UINT(f->n_more, 0);
        setup_free(s);
}

TEST(inputs_take_no_places_of_outputs) {
        Setup *s = setup_new();
        const ExecFiles *f;

        s->settings->max_files = 2;
        for (char name[] = "a"; name[0] <= 'e'; name[0]++) {
                ASSERT_EQ_INT(exec_request_add_file(s->request, name, "in", 2), 0);
                put_file(s->tree, name, "in");
        }
        put_file(s->tree, "x", "out");
        put_file(s->tree, "y", "out");
        put_file(s->tree, "z", "out");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "x", 3, EXEC_FILE_COMPLETE, "out");
        check(f, 1, "y", 3, EXEC_FILE_COMPLETE, "out");
        ASSERT_EQ_UINT(f->n_more, 1);
        setup_free(s);
}

TEST(links_are_never_followed) {
        _cleanup_tree_ char *outside = make_tree();
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(outside, "secret", "secret");
        put_link(s->tree, "directory", outside);
        put_link(s->tree, "loop", "loop");
        put_link(s->tree, "passwd", "/etc/passwd");
        put_link(s->tree, "self", ".");
        put_link(s->tree, "up", "..");
        put_file(s->tree, "real/file", "x");
        put_link(s->tree, "real/back", "../real");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 7);
        check(f, 0, "directory", 0, EXEC_FILE_LINK, NULL);
        check(f, 1, "loop", 0, EXEC_FILE_LINK, NULL);
        check(f, 2, "passwd", 0, EXEC_FILE_LINK, NULL);
        check(f, 3, "self", 0, EXEC_FILE_LINK, NULL);
        check(f, 4, "up", 0, EXEC_FILE_LINK, NULL);
        check(f, 5, "real/back", 0, EXEC_FILE_LINK, NULL);
        check(f, 6, "real/file", 1, EXEC_FILE_COMPLETE, "x");
        setup_free(s);
}

TEST(what_is_no_file_is_not_opened) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        Setup *s = setup_new();
        _cleanup_close_ int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        _cleanup_free_ char *path = path_of(s, "socket");
        const ExecFiles *f;

        ASSERT_TRUE(strlen(path) < sizeof(address.sun_path));
        memcpy(address.sun_path, path, strlen(path));
        ASSERT_EQ_INT(bind(socket_fd, (const struct sockaddr*) &address, sizeof(address)), 0);
        put_node(s, "fifo", S_IFIFO | 0644, 0); /* opening it would wait for a writer */
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "fifo", 0, EXEC_FILE_SPECIAL, NULL);
        check(f, 1, "socket", 0, EXEC_FILE_SPECIAL, NULL);
        setup_free(s);
}

TEST(devices_are_not_opened) {
        Setup *s = setup_new();
        _cleanup_free_ char *path = path_of(s, "zero");
        const ExecFiles *f;

        if (mknod(path, S_IFCHR | 0666, makedev(1, 5)) < 0) {
                /* SKIP() leaves by a jump, which frees nothing. */
                free(TAKE_PTR(path));
                setup_free(s);
                SKIP("mknod needs a capability");
        }
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 1);
        check(f, 0, "zero", 0, EXEC_FILE_SPECIAL, NULL);
        setup_free(s);
}

TEST(hard_links_are_listed_each_and_all_count) {
        Setup *s = setup_new();
        _cleanup_free_ char *one = path_of(s, "one"), *two = path_of(s, "two");
        const ExecFiles *f;

        s->settings->max_files_bytes = 5;
        put_file(s->tree, "one", "four");
        ASSERT_EQ_INT(link(one, two), 0);
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "one", 4, EXEC_FILE_COMPLETE, "four");
        check(f, 1, "two", 4, EXEC_FILE_TOTAL, NULL);
        ASSERT_EQ_UINT(f->n_bytes, 8);
        setup_free(s);
}

TEST(limits_of_bytes_are_exact) {
        Setup *s = setup_new();
        const ExecFiles *f;

        s->settings->max_file_bytes = 4;
        s->settings->max_files_bytes = 9;
        put_file(s->tree, "a", "four");
        put_file(s->tree, "b", "fives");
        put_file(s->tree, "c", "four");
        put_file(s->tree, "d", "to");
        put_file(s->tree, "e", "1");
        put_file(s->tree, "f", "");
        put_file(s->tree, "g", "1");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 7);
        check(f, 0, "a", 4, EXEC_FILE_COMPLETE, "four");
        check(f, 1, "b", 5, EXEC_FILE_TOO_LARGE, NULL);
        check(f, 2, "c", 4, EXEC_FILE_COMPLETE, "four");
        check(f, 3, "d", 2, EXEC_FILE_TOTAL, NULL);
        check(f, 4, "e", 1, EXEC_FILE_COMPLETE, "1");
        check(f, 5, "f", 0, EXEC_FILE_COMPLETE, "");
        check(f, 6, "g", 1, EXEC_FILE_TOTAL, NULL);
        setup_free(s);
}

TEST(sparse_monsters_are_refused_by_their_size) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_sparse(s, "monster", (off_t) MIB * MIB); /* 1 TiB, of no blocks */
        put_sparse(s, "small", 3);
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "monster", MIB * MIB, EXEC_FILE_TOO_LARGE, NULL);
        ASSERT_EQ_MEM(f->items[1].data, f->items[1].n_bytes, "\0\0\0", 3);
        ASSERT_EQ_UINT(f->n_bytes, MIB * MIB + 3);
        setup_free(s);
}

TEST(many_files_are_counted_and_the_first_ones_kept) {
        Setup *s = setup_new();
        const ExecFiles *f;
        char name[32];

        s->settings->max_files = 3;
        for (int i = 0; i < 10000; i++) {
                (void) snprintf(name, sizeof(name), "%s%04d", i % 2 ? "" : "below/", 9999 - i);
                put_file(s->tree, name, "");
        }
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 3);
        check(f, 0, "0000", 0, EXEC_FILE_COMPLETE, "");
        check(f, 1, "0002", 0, EXEC_FILE_COMPLETE, "");
        check(f, 2, "0004", 0, EXEC_FILE_COMPLETE, "");
        ASSERT_EQ_UINT(f->n_more, 9997);
        ASSERT_EQ_UINT(f->gaps, 0);
        setup_free(s);
}

TEST(ten_thousand_files_take_many_turns_of_the_loop) {
        Setup *s = setup_new();
        uint64_t n_turns = 0;
        char name[32];

        for (int i = 0; i < 10000; i++) {
                (void) snprintf(name, sizeof(name), "%04d", i);
                put_file(s->tree, name, "");
        }
        for (begin(s); s->n_done == 0; n_turns++)
                ASSERT_TRUE(sd_event_run(s->event, 10 * USEC_PER_SEC) > 0);
        ASSERT_TRUE(n_turns > 2);
        setup_free(s);
}
