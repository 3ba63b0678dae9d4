/* SPDX-License-Identifier: MIT */

#include "server/env-file.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "python/python.h"

#define FILE_BYTES_MAX (4 * MIB)

static const char* next_line(const char *line, size_t n_line) {
        return line[n_line] == '\n' ? line + n_line + 1 : line + n_line;
}

/* The comments of a script: all that its block can be in, and nothing that would run. Every line keeps its
 * number, for messages. */
static int keep_comments(const char *text, char **ret) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r;

        r = buffer_append_str(&b, "");
        for (const char *line = text; *line && r >= 0;) {
                size_t n = strcspn(line, "\n");

                if (*line == '#')
                        r = buffer_append(&b, line, n);
                if (r >= 0)
                        r = buffer_append_str(&b, "\n");
                line = next_line(line, n);
        }
        return r < 0 ? r : buffer_steal(&b, ret, NULL);
}

int env_file_read(const char *path, EnvFile *ret, char **reterr_message) {
        _cleanup_(env_file_done) EnvFile f = {};
        _cleanup_free_ char *text = NULL;
        size_t n_bytes;
        int r;

        assert(path);
        assert(ret);
        assert(reterr_message);

        r = file_read(AT_FDCWD, path, FILE_BYTES_MAX, &text, &n_bytes);
        if (r == -EBADF || r == -EBADMSG || r == -EFBIG) {
                r = str_printf(reterr_message, "%s is no text file of packages", path);
                return r < 0 ? r : -EBADMSG;
        }
        if (r < 0)
                return r;
        if (!utf8_is_valid(text, n_bytes)) {
                r = str_printf(reterr_message, "%s is not UTF-8 text", path);
                return r < 0 ? r : -EBADMSG;
        }
        if (python_has_block(text, n_bytes)) {
                r = keep_comments(text, &f.script);
                f.has_packages = true;
        } else {
                r = str_copy(&f.script, "# Only for its packages.\n");
                if (r >= 0)
                        r = python_read_requirements(path, &f.requirements, &f.lines, reterr_message);
                f.has_packages = strv_length(f.requirements) > 0;
        }
        if (r < 0)
                return r;
        *ret = f;
        f = (EnvFile) {};
        return 0;
}

void env_file_done(EnvFile *f) {
        assert(f);

        free(f->script);
        strv_free(f->requirements);
        free(f->lines);
        *f = (EnvFile) {};
}
