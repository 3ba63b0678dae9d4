/* SPDX-License-Identifier: MIT */
#pragma once

/* FileSaver: writes the files that a program left into a directory of a person's choice.
 *
 * Their paths and content are a hostile program's: nothing is written outside of the directory, through a
 * link, over a file that is there, or under a name that a terminal could take for more than a name; and
 * nothing hidden into a directory in use, where shells, version control and others obey such files. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

typedef struct FileSaver {
        int dir_fd;  /* borrowed */
        bool takes_hidden;
        char *path;  /* of the file that came last */
        int fd;      /* -EBADF: it is complete, or was given up */
        uint64_t n_left;
        char **seen; /* every path, saved or refused */
} FileSaver;

/* dir_fd < 0: nothing is to be saved. */
void file_saver_init(FileSaver *s, int dir_fd);
void file_saver_done(FileSaver *s);

/* The next piece, in order, of a file of n_total bytes. Returns 0, or -errno once where the file cannot be
 * saved: -EEXIST, -EINVAL for its name, -EPERM because it is hidden, or why it cannot be written. */
int file_saver_take(FileSaver *s, const char *path, uint64_t n_total, const void *data, size_t n_bytes);

bool file_saver_has_seen(const FileSaver *s, const char *path);

/* Whether a path may be written to, and shown to a terminal. */
bool file_saver_accepts(const char *path);
