/* SPDX-License-Identifier: MIT */

#include "server/run-input.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "exec/size-text.h"
#include "transport/transport.h"

/* No message is longer. The server's own limits are lower as a rule, and named by it. */
#define INPUT_BYTES_MAX LINE_BYTES_MAX

/* True for what ends by itself, or is at least what a person at a terminal sees waiting: not for a FIFO in
 * the file system, to which nobody may ever write. The shell's <(…) is a pipe without a name. */
static bool may_be_waited_for(int fd, mode_t mode) {
        struct statfs fs;

        if (S_ISREG(mode) || S_ISCHR(mode))
                return true;
        return S_ISFIFO(mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

/* Returns an fd, or -errno with everything said. */
static int open_input(const char *path, bool takes_streams) {
        /* O_NONBLOCK: to open a FIFO waits for somebody who writes to it. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return log_error_errno(errno, "%s: cannot open it", path);
        if (S_ISDIR(st.st_mode)) {
                log_error("%s: it is a directory", path);
                return -EISDIR;
        }
        if (!takes_streams && !S_ISREG(st.st_mode)) {
                log_error("%s: it is not a regular file", path);
                return -EINVAL;
        }
        if (!may_be_waited_for(fd, st.st_mode)) {
                log_error("%s: it is not a regular file; what it gives can be piped to standard input",
                          path);
                return -EINVAL;
        }
        r = fd_set_nonblock(fd, false);
        return r < 0 ? log_error_errno(r, "%s: cannot open it", path) : TAKE_FD(fd);
}

static int say_too_large(const char *name, const char *what) {
        log_error("%s: %s is larger than %s, the most that one message can carry", name, what,
                  size_text_bytes(INPUT_BYTES_MAX).text);
        return -EFBIG;
}

int run_input_text(const char *path, const char *what, char **ret, size_t *ret_bytes) {
        const char *name = path ?: "standard input";
        _cleanup_close_ int opened_fd = -EBADF;
        _cleanup_free_ char *data = NULL;
        size_t n_bytes;
        int r;

        assert(what);
        assert(ret);
        assert(ret_bytes);

        if (path) {
                opened_fd = open_input(path, /* takes_streams= */ true);
                if (opened_fd < 0)
                        return opened_fd;
        }
        r = fd_read_all(path ? opened_fd : STDIN_FILENO, INPUT_BYTES_MAX, &data, &n_bytes);
        if (r == -EFBIG)
                return say_too_large(name, what);
        if (r == -EBADMSG) {
                log_error("%s: %s contains a zero byte, which MCP's text cannot carry", name, what);
                return r;
        }
        if (r < 0)
                return log_error_errno(r, "%s: cannot read it", name);
        if (!utf8_is_valid(data, n_bytes)) {
                log_error("%s: %s is not UTF-8 text, and MCP carries nothing else", name, what);
                return -EBADMSG;
        }
        *ret = TAKE_PTR(data);
        *ret_bytes = n_bytes;
        return 0;
}

int run_input_file(const char *path, RunFile *ret) {
        _cleanup_(run_file_done) RunFile f = { .path = path };
        _cleanup_close_ int fd = -EBADF;
        const char *slash, *name;
        int r;

        assert(path);
        assert(ret);

        slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        fd = open_input(path, /* takes_streams= */ false);
        if (fd < 0)
                return fd;
        if (!utf8_is_valid(name, strlen(name))) {
                log_error("%s: its name is not UTF-8 text, and MCP carries nothing else", path);
                return -EBADMSG;
        }
        r = str_copy(&f.name, name);
        if (r >= 0)
                r = fd_read_bytes(fd, INPUT_BYTES_MAX, &f.data, &f.n_bytes);
        if (r == -EFBIG)
                return say_too_large(path, "it");
        if (r < 0)
                return log_error_errno(r, "%s: cannot read it", path);
        *ret = f;
        f = (RunFile) {};
        return 0;
}
