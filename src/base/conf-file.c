/* SPDX-License-Identifier: MIT */

/* Configuration files. Reading fails closed: a file that exists but cannot be read, or a line that is not
 * understood, stops the start, for a protection may be written there. */

#include "base/conf-file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/strv.h"
#include "base/utf8.h"

#define CONF_FILE_BYTES_MAX MIB /* far more than every key once with its longest value */
#define WHITE " \t\r"

typedef struct Parser {
        const char *file;
        char *section;
        ConfAssign assign;
        void *userdata;
        char **reterr_message;
} Parser;

static void parser_done(Parser *p) {
        free(p->section);
}

static int fail(char **reterr_message, const char *file, size_t line, const char *what) {
        int r;

        /* No memory for the message must not turn into success. */
        r = line > 0 ? str_printf(reterr_message, "%s:%zu: %s", file, line, what)
                     : str_printf(reterr_message, "%s: %s", file, what);
        return r < 0 ? r : -EBADMSG;
}

/* Cuts white space at both ends, in place. */
static char* strip(char *s) {
        size_t n;

        s += strspn(s, WHITE);
        n = strlen(s);
        while (n > 0 && strchr(WHITE, s[n - 1]))
                n--;
        s[n] = 0;
        return s;
}

static bool has_control_characters(const char *s) {
        for (; *s; s++)
                if (((unsigned char) *s < 0x20 && *s != '\t') || *s == 0x7f)
                        return true;
        return false;
}

static int parse_section(Parser *p, char *s, size_t line) {
        size_t n = strlen(s);

        if (n < 3 || s[n - 1] != ']')
                return fail(p->reterr_message, p->file, line, "a section header looks like [Section]");
        s[n - 1] = 0;
        return str_copy(&p->section, s + 1);
}

static int parse_line(Parser *p, char *s, size_t line) {
        _cleanup_free_ char *reason = NULL, *place = NULL;
        char *equals, *key, *value;
        int r;

        s = strip(s);
        if (!*s)
                return 0;
        if (!utf8_is_valid(s, strlen(s)) || has_control_characters(s))
                return fail(p->reterr_message, p->file, line, "the line contains bytes that are not text");
        if (*s == '[')
                return parse_section(p, s, line);

        equals = strchr(s, '=');
        if (!equals)
                return fail(p->reterr_message, p->file, line, "expected Key=value, [Section] or # comment");
        *equals = 0;
        key = strip(s);
        value = strip(equals + 1);
        if (!*key)
                return fail(p->reterr_message, p->file, line, "there is no key before '='");
        if (!p->section)
                return fail(p->reterr_message, p->file, line,
                            "an assignment must follow a [Section] header");

        r = str_printf(&place, "%s:%zu", p->file, line);
        if (r < 0)
                return r;
        r = p->assign(p->section, key, value, place, p->userdata, &reason);
        if (r == -EINVAL)
                return fail(p->reterr_message, p->file, line, reason ? reason : "the value is not valid");
        return r;
}

int conf_parse(const char *file, const char *text, ConfAssign assign, void *userdata,
               char **reterr_message) {
        _cleanup_(parser_done) Parser p = {
                .file = file, .assign = assign, .userdata = userdata, .reterr_message = reterr_message,
        };
        _cleanup_buffer_ Buffer logical = BUFFER_INIT(0);
        size_t line = 0, first_line = 0;
        int r;

        assert(file);
        assert(text);
        assert(assign);
        assert(reterr_message);

        while (*text) {
                size_t n = strcspn(text, "\n"), n_raw = n;
                size_t n_indent = MIN_OF(strspn(text, WHITE), n);
                bool is_continued;

                line++;
                /* A comment between the parts of a continued line does not end it; its own backslash means
                 * nothing. */
                if (text[n_indent] == '#' || text[n_indent] == ';') {
                        text += n_raw + (text[n_raw] == '\n');
                        continue;
                }
                if (n > 0 && text[n - 1] == '\r')
                        n--;
                is_continued = n > 0 && text[n - 1] == '\\';
                if (logical.n_bytes == 0)
                        first_line = line;
                r = buffer_append(&logical, text, n - is_continued);
                if (r < 0)
                        return r;
                text += n_raw + (text[n_raw] == '\n');
                if (is_continued) {
                        r = buffer_append(&logical, " ", 1);
                        if (r < 0)
                                return r;
                        continue;
                }
                r = parse_line(&p, logical.data, first_line);
                if (r < 0)
                        return r;
                buffer_consume(&logical, logical.n_bytes);
        }
        return logical.n_bytes > 0 ? parse_line(&p, logical.data, first_line) : 0;
}

/* Returns 1 when there was such a file, 0 when not. */
static int read_one(const char *path, ConfAssign assign, void *userdata, char **reterr_message) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        int r;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) {
                if (errno == ENOENT || errno == ENOTDIR)
                        return 0;
                return fail(reterr_message, path, 0, strerrordesc_np(errno));
        }
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) /* a link to /dev/null: masked */
                return 1;
        if (!S_ISREG(st.st_mode))
                return fail(reterr_message, path, 0, "not a regular file");
        r = fd_read_all(fd, CONF_FILE_BYTES_MAX, &text, NULL);
        if (r == -EBADMSG)
                return fail(reterr_message, path, 0, "the file contains a NUL byte");
        if (r == -EFBIG)
                return fail(reterr_message, path, 0, "the file is larger than 1M");
        if (r < 0)
                return r;
        r = conf_parse(path, text, assign, userdata, reterr_message);
        return r < 0 ? r : 1;
}

/* Adds the names of DIR's *.conf files that are not in names yet; paths gets the path of each at the same
 * index. */
static int collect_drop_ins(const char *dir, char ***names, char ***paths, char **reterr_message) {
        static const char suffix[] = ".conf";
        int r = 0;
        DIR *d;

        d = opendir(dir);
        if (!d) {
                if (errno == ENOENT || errno == ENOTDIR)
                        return 0;
                return fail(reterr_message, dir, 0, strerrordesc_np(errno));
        }
        while (r >= 0) {
                const struct dirent *entry;
                size_t n;

                errno = 0;
                entry = readdir(d);
                if (!entry) {
                        r = -errno;
                        break;
                }
                n = strlen(entry->d_name);
                if (entry->d_name[0] == '.' || n <= strlen(suffix) ||
                    !streq(entry->d_name + n - strlen(suffix), suffix) ||
                    strv_contains(*names, entry->d_name))
                        continue;
                r = strv_extend(names, entry->d_name);
                if (r >= 0)
                        r = strv_extendf(paths, "%s/%s", dir, entry->d_name);
        }
        (void) closedir(d);
        return r;
}

/* Drop-ins apply in the order of their names, whatever directory they come from. */
static int compare_by_file_name(const void *a, const void *b) {
        const char *const *x = a, *const *y = b;

        return strcmp(strrchr(*x, '/'), strrchr(*y, '/'));
}

int conf_read(const char *const dirs[], const char *name, ConfAssign assign, void *userdata,
              char **reterr_message) {
        _cleanup_strv_ char **names = NULL, **paths = NULL;
        int r;

        assert(dirs);
        assert(name);
        assert(assign);
        assert(reterr_message);

        for (const char *const *dir = dirs; *dir; dir++) {
                _cleanup_free_ char *path = NULL;

                r = str_printf(&path, "%s/%s", *dir, name);
                if (r < 0)
                        return r;
                r = read_one(path, assign, userdata, reterr_message);
                if (r < 0)
                        return r;
                if (r > 0)
                        break;
        }

        for (const char *const *dir = dirs; *dir; dir++) {
                _cleanup_free_ char *drop_in_dir = NULL;

                r = str_printf(&drop_in_dir, "%s/%s.d", *dir, name);
                if (r < 0)
                        return r;
                r = collect_drop_ins(drop_in_dir, &names, &paths, reterr_message);
                if (r < 0)
                        return r;
        }
        if (paths)
                qsort(paths, strv_length(paths), sizeof(char*), compare_by_file_name);
        STRV_FOREACH(path, paths) {
                r = read_one(*path, assign, userdata, reterr_message);
                if (r < 0)
                        return r;
        }
        return 0;
}
