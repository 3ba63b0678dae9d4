/* SPDX-License-Identifier: MIT */

#include "server/file-saver.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "base/utf8.h"

#define PATH_BYTES_MAX 1024

static bool is_empty_directory(int dir_fd) {
        bool is_empty = true;
        DIR *d;
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return false;
        d = fdopendir(fd);
        if (!d) {
                (void) close(fd);
                return false;
        }
        for (const struct dirent *e; is_empty && (e = readdir(d));)
                is_empty = streq(e->d_name, ".") || streq(e->d_name, "..");
        (void) closedir(d);
        return is_empty;
}

void file_saver_init(FileSaver *s, int dir_fd) {
        assert(s);

        *s = (FileSaver) {
                .dir_fd = dir_fd,
                .fd = -EBADF,
                .takes_hidden = dir_fd >= 0 && is_empty_directory(dir_fd),
        };
}

void file_saver_done(FileSaver *s) {
        assert(s);

        s->fd = safe_close(s->fd);
        free(s->path);
        s->path = NULL;
        s->seen = strv_free(s->seen);
}

bool file_saver_accepts(const char *path) {
        size_t n_bytes, n;

        assert(path);

        n_bytes = strlen(path);
        if (n_bytes == 0 || n_bytes > PATH_BYTES_MAX)
                return false;
        for (size_t i = 0; i < n_bytes; i += n) {
                n = utf8_sequence(path + i, n_bytes - i);
                if (n == 0 || !utf8_is_plain(path + i, n))
                        return false;
        }
        for (const char *p = path;; p += n + 1) {
                n = strcspn(p, "/");
                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                if (p[n] == '\0')
                        return true;
        }
}

/* The directory of the file, made where it is not there, and the file's name in it. */
static int open_parent(int dir_fd, char *path, const char **ret_name) {
        _cleanup_close_ int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char *name = path;

        if (fd < 0)
                return -errno;
        for (char *slash; (slash = strchr(name, '/')); name = slash + 1) {
                int next;

                *slash = '\0';
                if (mkdirat(fd, name, 0777) < 0 && errno != EEXIST)
                        return -errno;
                next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno;
                safe_close(fd);
                fd = next;
        }
        *ret_name = name;
        return TAKE_FD(fd);
}

static int begin(FileSaver *s, const char *path) {
        _cleanup_free_ char *copy = NULL;
        _cleanup_close_ int parent = -EBADF;
        const char *name = NULL;
        int r;

        s->fd = safe_close(s->fd);
        r = str_copy(&s->path, path);
        if (r >= 0)
                r = strv_extend(&s->seen, path);
        if (r >= 0)
                r = str_copy(&copy, path);
        if (r < 0)
                return r;
        if (!file_saver_accepts(path))
                return -EINVAL;
        if (!s->takes_hidden && (path[0] == '.' || strstr(path, "/.")))
                return -EPERM;
        parent = open_parent(s->dir_fd, copy, &name);
        if (parent < 0)
                return parent;
        s->fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        return s->fd < 0 ? -errno : 0;
}

int file_saver_take(FileSaver *s, const char *path, uint64_t n_total, const void *data, size_t n_bytes) {
        int r;

        assert(s);
        assert(path);
        assert(data || n_bytes == 0);

        if (!s->path || !streq(s->path, path)) {
                s->n_left = n_total;
                r = begin(s, path);
                if (r < 0)
                        return r;
        }
        if (s->fd < 0)
                return 0;
        r = n_bytes > s->n_left ? -EMSGSIZE : 0;
        if (r >= 0 && n_bytes > 0)
                r = fd_write_all(s->fd, data, n_bytes);
        s->n_left -= r < 0 ? 0 : n_bytes;
        if (r < 0 || s->n_left == 0)
                s->fd = safe_close(s->fd);
        return r;
}

bool file_saver_has_seen(const FileSaver *s, const char *path) {
        assert(s);
        assert(path);
        return strv_contains(s->seen, path);
}
