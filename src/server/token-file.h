/* SPDX-License-Identifier: MIT */
#pragma once

/* A file of tokens while it is read or changed by `mcp-exec token`. It is replaced as a whole, so that the
 * server never reads half of one. */

#include <sys/stat.h>

#include "auth/access.h"
#include "base/buffer.h"

typedef struct TokenFile {
        const char *path, *name; /* name: without the directory */
        int dir_fd, lock_fd;
        char *lock_name;
        char *text;
        Access *access;
        struct stat st;
        bool exists;
} TokenFile;

/* Tells an error that concerns path and returns COMMAND_FAILED. */
int token_complain(int error, const char *what, const char *path);

/* Those that follow return COMMAND_OK, or COMMAND_FAILED and have told why. is_for_change: nobody else
 * changes it until token_file_done(). */
int token_file_parse(const char *path, const char *text, Access **ret);
int token_file_open(TokenFile *f, const char *path, bool is_for_change);
void token_file_done(TokenFile *f);

/* Everything that may fail, but for giving the file its name; and that, which takes the temporary file away
 * where it fails. Both return 0 or -errno. */
int token_file_write_beside(const TokenFile *f, const Buffer *text, char **ret_temporary);
int token_file_put_in_place(const TokenFile *f, const char *temporary);
