/* SPDX-License-Identifier: MIT */

/* Directories as hostile as a program can make them, and a few things that it cannot do. */

#include "file-walk-fixture.h"

TEST(depth_is_limited) {
        static const char path[] = "directory name/directory name/file";
        Setup *s = setup_new();
        const ExecFiles *f;
        int fd = dup(s->fd);

        for (int i = 0; i < 300; i++) { /* deeper than a path could tell */
                ASSERT_EQ_INT(mkdirat(fd, "directory name", 0755), 0);
                int next = openat(fd, "directory name", O_DIRECTORY | O_CLOEXEC);

                ASSERT_TRUE(next >= 0);
                safe_close(fd);
                fd = next;
        }
        safe_close(fd);
        put_file(s->tree, path, "reached");
        s->settings->max_files_depth = 2;
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "directory name/directory name/directory name/", 0, EXEC_FILE_TOO_DEEP, NULL);
        check(f, 1, path, 7, EXEC_FILE_COMPLETE, "reached");

        s->settings->max_files_depth = 0;
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 1);
        check(f, 0, "directory name/", 0, EXEC_FILE_TOO_DEEP, NULL);

        /* 300 levels are more than a path of the list may have. */
        s->settings->max_files_depth = 1000;
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 2);
        ASSERT_EQ_INT(f->items[1].reason, EXEC_FILE_NAME);
        ASSERT_TRUE(strlen(f->items[1].path) < EXEC_FILE_PATH_BYTES_MAX);
        ASSERT_EQ_INT(strncmp(f->items[1].path, "directory name/directory name/", 30), 0);
        setup_free(s);
}

TEST(names_are_kept_or_repaired) {
        char name[256];
        Setup *s = setup_new();
        const ExecFiles *f;

        memset(name, 'n', 255);
        name[255] = '\0';
        put_file(s->tree, "\x1b[31mred", "ansi");
        put_file(s->tree, "bad\xff\xfename", "x");
        put_file(s->tree, "bad\xff/inner", "x");
        put_file(s->tree, "line\nbreak", "line");
        put_file(s->tree, name, "long");
        f = walk(s);
        ASSERT_EQ_UINT(f->n_items, 5);
        check(f, 0, "\x1b[31mred", 4, EXEC_FILE_COMPLETE, "ansi");
        check(f, 1, "bad\xef\xbf\xbd/", 0, EXEC_FILE_NAME, NULL);
        check(f, 2, "bad\xef\xbf\xbdname", 1, EXEC_FILE_NAME, NULL);
        check(f, 3, "line\nbreak", 4, EXEC_FILE_COMPLETE, "line");
        check(f, 4, name, 4, EXEC_FILE_COMPLETE, "long");
        setup_free(s);
}

TEST(modes_that_keep_us_out_are_told) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(s->tree, "private", "secret");
        set_mode(s, "private", getuid() == 0 ? 0600 : 0);
        put_file(s->tree, "closed/file", "x");
        set_mode(s, "closed", 0);
        put_file(s->tree, "listable/file", "x");
        set_mode(s, "listable", getuid() == 0 ? 0744 : 0400);
        put_file(s->tree, "readable", "fine");
        become_stranger();
        f = walk(s);
        become_root_again();
        ASSERT_EQ_UINT(f->n_items, 4);
        check(f, 0, "closed/", 0, EXEC_FILE_UNREADABLE, NULL);
        check(f, 1, "private", 6, EXEC_FILE_UNREADABLE, NULL);
        check(f, 2, "readable", 4, EXEC_FILE_COMPLETE, "fine");
        check(f, 3, "listable/file", 0, EXEC_FILE_UNREADABLE, NULL);
        set_mode(s, "closed", 0755);
        set_mode(s, "listable", 0755);
        setup_free(s);
}

TEST(an_input_that_was_closed_is_told) {
        Setup *s = setup_new();
        const ExecFiles *f;

        ASSERT_EQ_INT(exec_request_add_file(s->request, "input", "before", 6), 0);
        put_file(s->tree, "input", "before");
        set_mode(s, "input", 0);
        become_stranger();
        f = walk(s);
        become_root_again();
        ASSERT_EQ_UINT(f->n_items, 1);
        check(f, 0, "input", 6, EXEC_FILE_UNREADABLE, NULL);
        setup_free(s);
}

TEST(a_working_directory_that_cannot_be_read_is_a_gap) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(s->tree, "file", "x");
        ASSERT_EQ_INT(chmod(s->tree, 0), 0);
        become_stranger();
        f = walk(s);
        become_root_again();
        ASSERT_EQ_UINT(f->n_items, 0);
        ASSERT_EQ_UINT(f->gaps, EXEC_FILES_GAP_FAILED);
        ASSERT_EQ_INT(chmod(s->tree, 0755), 0);
        setup_free(s);
}

/* A dead unit's files stay as they are. Should that ever be wrong, nothing else is read in their place. */
TEST(what_changes_under_the_walk_is_not_read) {
        Setup *s = setup_new();
        _cleanup_free_ char *a = path_of(s, "a"), *b = path_of(s, "b"), *c = path_of(s, "c"),
                            *moved = path_of(s, "moved");
        const ExecFiles *f;
        char name[32];

        put_file(s->tree, "a", "first");
        put_file(s->tree, "b", "second");
        put_file(s->tree, "c", "third");
        put_file(s->tree, "d", "fourth");
        /* More than one turn can look at, so the first one ends within the first pass. */
        for (int i = 0; i < 10000; i++) {
                (void) snprintf(name, sizeof(name), "z%04d", i);
                put_file(s->tree, name, "");
        }
        s->settings->max_files = 4;
        begin(s);
        while (s->n_done == 0) {
                struct stat st;

                ASSERT_TRUE(sd_event_run(s->event, 10 * USEC_PER_SEC) > 0);
                if (s->n_done > 0 || stat(moved, &st) == 0)
                        continue;
                ASSERT_EQ_INT(rename(a, moved), 0);
                ASSERT_EQ_INT(unlink(b), 0);
                ASSERT_EQ_INT(symlink("/etc/passwd", b), 0);
                ASSERT_EQ_INT(unlink(c), 0);
                ASSERT_EQ_INT(mkfifo(c, 0644), 0);
        }
        f = file_walk_result(s->walk);
        for (size_t i = 0; i < f->n_items; i++) /* seen before or after, never mixed up */
                if (streq(f->items[i].path, "b"))
                        ASSERT_TRUE(f->items[i].reason == EXEC_FILE_CHANGED ||
                                    f->items[i].reason == EXEC_FILE_LINK);
                else if (streq(f->items[i].path, "c"))
                        ASSERT_TRUE(f->items[i].reason == EXEC_FILE_CHANGED ||
                                    f->items[i].reason == EXEC_FILE_SPECIAL);
                else if (streq(f->items[i].path, "a"))
                        ASSERT_EQ_INT(f->items[i].reason, EXEC_FILE_CHANGED);
        setup_free(s);
}

TEST(a_walk_that_is_stopped_tells_what_it_has_and_what_is_missing) {
        Setup *s = setup_new();
        const ExecFiles *f;

        put_file(s->tree, "file", "x");
        begin(s);
        file_walk_stop(s->walk);
        f = file_walk_result(s->walk);
        ASSERT_EQ_UINT(f->n_items, 0);
        ASSERT_EQ_UINT(f->gaps, EXEC_FILES_GAP_TIME);
        ASSERT_EQ_INT(sd_event_run(s->event, 0), 0); /* nothing comes any more */
        ASSERT_EQ_UINT(s->n_done, 0);
        f = walk(s);
        file_walk_stop(s->walk); /* harmless */
        check(f, 0, "file", 1, EXEC_FILE_COMPLETE, "x");
        ASSERT_EQ_UINT(f->gaps, 0);
        setup_free(s);
}

TEST(a_file_that_was_not_reached_in_time_is_named) {
        static char large[16 * MIB];
        Setup *s = setup_new();
        const ExecFiles *f;

        s->settings->max_file_bytes = s->settings->max_files_bytes = sizeof(large);
        put_bytes(s->tree, "large", large, sizeof(large));
        put_file(s->tree, "next", "x");
        do { /* a turn that was held up may not even have seen both: another one */
                begin(s);
                ASSERT_TRUE(sd_event_run(s->event, 10 * USEC_PER_SEC) > 0);
                ASSERT_EQ_UINT(s->n_done, 0); /* 16 MiB are more than one turn reads */
                file_walk_stop(s->walk);
                f = file_walk_result(s->walk);
        } while (f->gaps & EXEC_FILES_GAP_TIME);
        ASSERT_EQ_UINT(f->n_items, 2);
        check(f, 0, "large", sizeof(large), EXEC_FILE_TIME, NULL);
        check(f, 1, "next", 1, EXEC_FILE_TIME, NULL);
        setup_free(s);
}
