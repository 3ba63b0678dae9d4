/* SPDX-License-Identifier: MIT */
#pragma once

/* FileList: the first few of many files, in the order in which they are told of. */

#include <stdbool.h>
#include <sys/types.h>

#include "exec/files.h"

typedef struct FileCandidate {
        ExecFile file;     /* its path and data are set at the end */
        char *path, *data; /* owned */
        unsigned depth;
        dev_t device;
        ino_t inode;
        bool is_unread;    /* a regular file whose content is wanted */
        bool is_input;     /* … and may be what the request brought, as it was */
} FileCandidate;

typedef struct FileList {
        FileCandidate *items;
        size_t n_items, max_items;
} FileList;

int file_list_init(FileList *l, size_t max_items);
void file_list_done(FileList *l);

/* Takes what c owns. Returns how many files found no place by this: 0, or 1 (c, or a later one). */
unsigned file_list_insert(FileList *l, FileCandidate take_c);
