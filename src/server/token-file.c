/* SPDX-License-Identifier: MIT */

#include "server/token-file.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strv.h"
#include "config.h"
#include "server/command.h"

#define SERVICE_USER "mcp-exec"

void token_file_done(TokenFile *f) {
        if (f->lock_fd >= 0)
                (void) unlinkat(f->dir_fd, f->lock_name, 0);
        f->lock_fd = safe_close(f->lock_fd);
        f->dir_fd = safe_close(f->dir_fd);
        free(f->lock_name);
        free(f->text);
        f->access = access_free(f->access);
}

int token_complain(int error, const char *what, const char *path) {
        if (error == -EACCES || error == -EPERM)
                log_error("%s %s: permission denied; tokens are the administrator's, try it with sudo", what,
                          path);
        else
                (void) log_error_errno(error, "%s %s", what, path);
        return COMMAND_FAILED;
}

int token_file_parse(const char *path, const char *text, Access **ret) {
        _cleanup_free_ char *message = NULL;

        if (access_parse(path, text, ret, &message) >= 0)
                return COMMAND_OK;
        if (message)
                log_error("%s", message);
        else
                log_oom();
        return COMMAND_FAILED;
}

/* Locked is a file beside it that only its owner may open, and that is gone afterwards: a directory could be
 * locked by whoever may read it, and the file itself is another one after each change. */
static int lock(TokenFile *f) {
        struct stat st;

        if (str_printf(&f->lock_name, ".%s.lock", f->name) < 0)
                return -ENOMEM;
        for (;;) {
                _cleanup_close_ int fd = -EBADF;

                fd = openat(f->dir_fd, f->lock_name,
                            O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
                if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
                        return -errno;
                if (st.st_nlink == 0)
                        continue; /* whoever had it took it away */
                f->lock_fd = TAKE_FD(fd);
                return 0;
        }
}

/* A link is not followed: its owner would get what it leads to. */
static int read_file(TokenFile *f) {
        _cleanup_close_ int fd = -EBADF;

        fd = openat(f->dir_fd, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return str_copy(&f->text, "# Made by mcp-exec token, see mcp-exec(8).\n");
        if (fd < 0 || fstat(fd, &f->st) < 0)
                return -errno;
        if (!S_ISREG(f->st.st_mode))
                return -ELOOP;
        f->exists = true;
        return fd_read_all(fd, ACCESS_FILE_BYTES_MAX, &f->text, NULL);
}

int token_file_open(TokenFile *f, const char *path, bool is_for_change) {
        _cleanup_free_ char *directory = NULL;
        const char *slash = strrchr(path, '/');
        int r;

        r = slash ? str_printf(&directory, "%.*s/", (int) (slash - path), path) : str_copy(&directory, ".");
        if (r < 0)
                return log_oom(), COMMAND_FAILED;
        f->path = path;
        f->name = slash ? slash + 1 : path;
        f->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->dir_fd < 0)
                return token_complain(-errno, "Cannot open", directory);
        r = is_for_change ? lock(f) : 0;
        if (r < 0)
                return token_complain(r, "Cannot lock", path);
        r = read_file(f);
        if (r == -ELOOP)
                log_error("%s is no regular file; name the file itself, for a link is not followed", path);
        else if (r < 0)
                return token_complain(r, "Cannot read", path);
        return r < 0 ? COMMAND_FAILED : token_file_parse(path, f->text, &f->access);
}

/* The service's own file is readable for it and for nobody else, whatever it was before. Another one stays
 * its owner's, and its group's where that could read it. */
static int set_owner(const TokenFile *f, int fd) {
        const struct passwd *service = NULL;

        if (geteuid() == 0 && streq(f->path, MCP_EXEC_TOKEN_FILE))
                service = getpwnam(SERVICE_USER);
        if (service)
                return fchmod(fd, 0400) < 0 || fchown(fd, service->pw_uid, 0) < 0 ? -errno : 0;
        if (!f->exists)
                return 0;
        if (fchown(fd, f->st.st_uid, f->st.st_gid) < 0 || fchmod(fd, f->st.st_mode & 0640) < 0)
                return -errno;
        return 0;
}

/* Everything that may fail, but for giving the file its name. */
int token_file_write_beside(const TokenFile *f, const Buffer *text, char **ret_temporary) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *temporary = NULL;
        char id[RANDOM_HEX_ID_CHARS + 1];
        int r;

        r = random_hex_id(id);
        if (r >= 0)
                r = str_printf(&temporary, ".%s.%s", f->name, id);
        if (r < 0)
                return r;
        fd = openat(f->dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = set_owner(f, fd);
        if (r >= 0)
                r = fd_write_all(fd, text->data, text->n_bytes);
        if (r >= 0 && fsync(fd) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(f->dir_fd, temporary, 0);
        else
                *ret_temporary = TAKE_PTR(temporary);
        return r;
}

int token_file_put_in_place(const TokenFile *f, const char *temporary) {
        int r = 0;

        if (renameat(f->dir_fd, temporary, f->dir_fd, f->name) < 0) {
                r = -errno;
                (void) unlinkat(f->dir_fd, temporary, 0);
        } else
                (void) fsync(f->dir_fd); /* it is in place all the same */
        return r;
}
