/* SPDX-License-Identifier: MIT */

/* Distributions as importlib.metadata would find them: NAME-VERSION.dist-info and
 * NAME-VERSION[-pyX.Y].egg-info. */

#include "tool/packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/strv.h"

#define PACKAGES_MAX 2000 /* more would be a directory of something else */
#define NAME_CHARS_MAX 128

/* "." is a letter of a name, "_" and "-" are one character (PEP 503 and 427). */
static char fold(char c) {
        if (c >= 'A' && c <= 'Z')
                return (char) (c - 'A' + 'a');
        return c == '_' || c == '.' ? '-' : c;
}

static int compare_folded(const char *a, const char *b, char end) {
        for (;; a++, b++) {
                char x = *a == end ? '\0' : fold(*a), y = *b == end ? '\0' : fold(*b);

                if (x != y)
                        return (unsigned char) x < (unsigned char) y ? -1 : 1;
                if (x == '\0')
                        return 0;
        }
}

static int compare_entries(const void *a, const void *b) {
        return compare_folded(*(char *const*) a, *(char *const*) b, ' ');
}

/* What comes first is what an import finds; but an entry without version gives way to one with it. */
static int keep(char ***l, const char *name, size_t n_name, const char *version, size_t n_version) {
        _cleanup_free_ char *entry = NULL;
        int r;

        r = n_version > 0 ? str_printf(&entry, "%.*s %.*s", (int) n_name, name, (int) n_version, version)
                          : str_printf(&entry, "%.*s", (int) n_name, name);
        if (r < 0)
                return r;
        for (char **s = *l; s && *s; s++) {
                if (compare_folded(*s, entry, ' ') != 0)
                        continue;
                if (!strchr(*s, ' ')) {
                        free(*s);
                        *s = TAKE_PTR(entry);
                }
                return 0;
        }
        return strv_extend(l, entry);
}

static bool is_plain(const char *s, size_t n) {
        for (size_t i = 0; i < n; i++) {
                char c = s[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      strchr("._-+!", c)))
                        return false;
        }
        return n > 0 && n <= NAME_CHARS_MAX;
}

/* A directory entry; anything that is not a distribution is passed over. */
static int add_entry(char ***l, const char *entry) {
        static const char *const endings[] = { ".dist-info", ".egg-info" };
        size_t n = strlen(entry), n_name, n_version = 0;
        const char *dash;

        for (size_t i = 0;; i++) {
                size_t n_ending;

                if (i == ELEMENTSOF(endings))
                        return 0;
                n_ending = strlen(endings[i]);
                if (n > n_ending && streq(entry + n - n_ending, endings[i])) {
                        n -= n_ending;
                        break;
                }
        }
        if (!is_plain(entry, n))
                return 0;

        /* Names have their dashes replaced, so the first one ends the name; what follows a second is the
         * Python version. Older tools left dashes in names: then the version is where a digit follows. */
        for (dash = memchr(entry, '-', n); dash;
             dash = memchr(dash + 1, '-', (size_t) (entry + n - dash - 1)))
                if (dash + 1 < entry + n && dash[1] >= '0' && dash[1] <= '9')
                        break;
        n_name = dash ? (size_t) (dash - entry) : n;
        if (dash) {
                const char *end = memchr(dash + 1, '-', (size_t) (entry + n - dash - 1));

                n_version = (size_t) ((end ? end : entry + n) - dash - 1);
                /* What setuptools writes for a distribution that does not say it. */
                if (n_version == strlen("0.0.0") && strncmp(dash + 1, "0.0.0", n_version) == 0)
                        n_version = 0;
        }
        if (n_name == 0)
                return 0;
        return keep(l, entry, n_name, n_version > 0 ? dash + 1 : NULL, n_version);
}

static int scan_directory(int root_fd, const char *path, size_t *n_left, char ***l) {
        _cleanup_close_ int fd = -EBADF;
        DIR *d;
        int r = 0;

        fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return 0;
        d = fdopendir(fd);
        if (!d)
                return errno == ENOMEM ? -ENOMEM : 0;
        TAKE_FD(fd);
        for (struct dirent *e; r >= 0 && *n_left > 0 && (e = readdir(d)); ) {
                size_t n = strlen(e->d_name);

                if (n <= strlen(".egg-info") || !streq(e->d_name + n - strlen("-info"), "-info"))
                        continue;
                r = add_entry(l, e->d_name);
                (*n_left)--;
        }
        (void) closedir(d);
        return r;
}

/* python3.11, but neither python3 (Debian's own directory has another layout) nor python3-something. */
static bool is_versioned_python(const char *name) {
        size_t n = strlen("python3.");

        return strncmp(name, "python3.", n) == 0 && name[n] != '\0' &&
               strspn(name + n, "0123456789") == strlen(name + n);
}

static int scan_pythons(int root_fd, const char *parent, size_t *n_left, char ***l) {
        static const char *const kinds[] = { "site-packages", "dist-packages" };
        _cleanup_close_ int fd = -EBADF;
        DIR *d;
        int r = 0;

        fd = openat(root_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return 0;
        d = fdopendir(fd);
        if (!d)
                return errno == ENOMEM ? -ENOMEM : 0;
        TAKE_FD(fd);
        for (struct dirent *e; r >= 0 && (e = readdir(d)); ) {
                if (!is_versioned_python(e->d_name))
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(kinds) && r >= 0; i++) {
                        _cleanup_free_ char *path = NULL;

                        r = str_printf(&path, "%s/%s", e->d_name, kinds[i]);
                        if (r >= 0)
                                r = scan_directory(dirfd(d), path, n_left, l);
                }
        }
        (void) closedir(d);
        return r;
}

int tool_packages_scan_at(int root_fd, char ***ret) {
        static const char *const parents[] = { "usr/lib", "usr/lib64" };
        _cleanup_strv_ char **l = NULL;
        size_t n_left = PACKAGES_MAX;
        int r;

        assert(ret);

        /* In the order of sys.path. */
        r = scan_pythons(root_fd, "usr/local/lib", &n_left, &l);
        if (r >= 0)
                r = scan_directory(root_fd, "usr/lib/python3/dist-packages", &n_left, &l);
        for (size_t i = 0; i < ELEMENTSOF(parents) && r >= 0; i++)
                r = scan_pythons(root_fd, parents[i], &n_left, &l);
        if (r < 0)
                return r;

        if (l)
                qsort(l, strv_length(l), sizeof(*l), compare_entries);
        *ret = TAKE_PTR(l);
        return 0;
}

int tool_packages_scan(char ***ret) {
        _cleanup_close_ int fd = -EBADF;

        assert(ret);

        fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return tool_packages_scan_at(fd, ret);
}
