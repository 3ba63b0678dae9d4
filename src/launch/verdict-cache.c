/* SPDX-License-Identifier: MIT */

/* Verdict cache: remembers that the self-test was passed.
 *
 * The file holds the verdict's two results and then the whole fingerprint, compared byte by byte: no hash
 * that could collide, and readable for a person who wonders. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/strv.h"
#include "launch/verdict-cache.h"

#define VERDICT_FILE "verdict"
#define VERDICT_BYTES_MAX (64 * KIB)

/* $RUNTIME_DIRECTORY is made by PID 1 for our service. A user's is made here. */
static int open_directory(bool is_user) {
        _cleanup_free_ char *base = NULL, *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        int r;

        if (is_user) {
                r = user_runtime_directory(&base);
                if (r >= 0)
                        r = str_printf(&path, "%s/mcp-exec", base);
                if (r < 0)
                        return r;
                if (mkdir(path, 0700) < 0 && errno != EEXIST)
                        return -errno;
        } else {
                r = str_copy(&path, getenv("RUNTIME_DIRECTORY"));
                if (r < 0)
                        return r;
                if (!path)
                        return -ENOENT;
        }

        fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* Whoever else may write here could forge a verdict. */
        if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return -EPERM;
        return TAKE_FD(fd);
}

bool verdict_cache_read(Sandbox *s) {
        _cleanup_buffer_ Buffer expected = BUFFER_INIT(VERDICT_BYTES_MAX);
        _cleanup_close_ int directory = -EBADF, fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_ char **without = NULL;
        unsigned controllers;
        struct stat st;
        char *end;

        assert(s);

        directory = open_directory(s->is_user);
        if (directory < 0)
                return false;
        fd = openat(directory, VERDICT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
            fd_read_all(fd, VERDICT_BYTES_MAX, &text, NULL) < 0 || sandbox_fingerprint(s, &expected) < 0)
                return false;

        /* First line: "N NAME NAME…"; the rest must be the fingerprint. */
        end = strchr(text, '\n');
        if (!end || !streq(end + 1, expected.data) || text[0] < '0' || text[0] > '7')
                return false;
        *end = '\0';
        controllers = (unsigned) (text[0] - '0');
        if (strv_split(text + 1, &without) < 0)
                return false;

        s->controllers = controllers;
        strv_free(s->without);
        s->without = TAKE_PTR(without);
        return true;
}

int verdict_cache_write(const Sandbox *s) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(VERDICT_BYTES_MAX);
        _cleanup_close_ int directory = -EBADF, fd = -EBADF;
        char temporary[sizeof("verdict.") + RANDOM_HEX_ID_CHARS], id[RANDOM_HEX_ID_CHARS + 1];
        int r;

        assert(s);

        r = buffer_printf(&b, "%u", s->controllers & 7u);
        STRV_FOREACH(name, s->without)
                if (r >= 0)
                        r = buffer_printf(&b, " %s", *name);
        if (r >= 0)
                r = buffer_append_str(&b, "\n");
        if (r >= 0)
                r = sandbox_fingerprint(s, &b);
        if (r >= 0)
                r = random_hex_id(id);
        if (r < 0)
                return r;

        directory = open_directory(s->is_user);
        if (directory < 0)
                return directory;
        (void) snprintf(temporary, sizeof(temporary), "verdict.%s", id);
        fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = fd_write_all(fd, b.data, b.n_bytes);
        if (r >= 0 && renameat(directory, temporary, directory, VERDICT_FILE) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(directory, temporary, 0);
        return r;
}
