/* SPDX-License-Identifier: MIT */
#pragma once

/* A directory of its own for a test case, removed with everything in it. */

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "test.h"

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

static void remove_treep(char **path) {
        if (*path) {
                (void) nftw(*path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
                free(*path);
        }
}
#define _cleanup_tree_ _cleanup_(remove_treep)

static char* make_tree(void) {
        const char *base = getenv("TMPDIR");
        char *path = NULL;

        ASSERT_EQ_INT(str_printf(&path, "%s/mcp-exec-test-XXXXXX", base && *base ? base : "/tmp"), 0);
        ASSERT_TRUE(mkdtemp(path));
        return path;
}

/* Creates the directories on the way as well. */
__attribute__((__unused__)) static void put_bytes(const char *tree, const char *name, const void *data,
                                                  size_t n_bytes) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", tree, name), 0);
        for (char *slash = path + strlen(tree) + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = 0;
                ASSERT_TRUE(mkdir(path, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(fd_write_all(fd, data, n_bytes), 0);
}

__attribute__((__unused__)) static void put_file(const char *tree, const char *name, const char *text) {
        put_bytes(tree, name, text, strlen(text));
}

__attribute__((__unused__)) static void put_link(const char *tree, const char *name, const char *target) {
        _cleanup_free_ char *path = NULL;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", tree, name), 0);
        ASSERT_EQ_INT(symlink(target, path), 0);
}
