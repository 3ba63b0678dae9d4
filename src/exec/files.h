/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecFiles: what a program left in its working directory. */

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

#define EXEC_FILES_MAX 256           /* listed of one run, whatever the settings say */
#define EXEC_FILE_PATH_BYTES_MAX 512 /* of a path that is listed */

/* Why there is no content. */
typedef enum ExecFileReason {
        EXEC_FILE_COMPLETE,   /* there is */
        EXEC_FILE_TOO_LARGE,  /* larger than one file may be */
        EXEC_FILE_TOTAL,      /* the files before it took what all of them may have */
        EXEC_FILE_UNREADABLE, /* a mode that keeps the daemon out; paths of directories end with a slash */
        EXEC_FILE_TOO_DEEP,   /* a directory below the last one that is looked into */
        EXEC_FILE_LINK,       /* a symbolic link: never followed */
        EXEC_FILE_SPECIAL,    /* a fifo, a socket, a device */
        EXEC_FILE_NAME,       /* not UTF-8 (repaired here), or too long (cut here) */
        EXEC_FILE_CHANGED,    /* not what it was a moment ago: never seen of a dead unit */
        EXEC_FILE_TIME,       /* no time was left to read it */
        EXEC_FILE_FAILED,     /* no memory or no descriptor of ours */
        EXEC_FILE_NOT_KEPT,   /* it was there, and the result was kept without it */
        _EXEC_FILE_REASON_MAX,
} ExecFileReason;

/* What was not looked at. */
typedef enum ExecFilesGap {
        EXEC_FILES_GAP_ENTRIES = 1 << 0, /* too many entries or directories */
        EXEC_FILES_GAP_TIME = 1 << 1,
        EXEC_FILES_GAP_FAILED = 1 << 2,  /* no memory, or the directory cannot be read */
        EXEC_FILES_GAP_ALIVE = 1 << 3,   /* the unit was not dead in time: its files could still change */
} ExecFilesGap;

typedef struct ExecFile {
        const char *path;            /* UTF-8, relative to the working directory */
        uint64_t n_bytes;            /* of a regular file */
        const char *data;            /* n_bytes of it when reason is EXEC_FILE_COMPLETE */
        char sha256[SHA256_HEX_CHARS + 1]; /* with data */
        ExecFileReason reason;
} ExecFile;

/* Those of the working directory itself come first, then those one level below, and so on; by name within a
 * level. */
typedef struct ExecFiles {
        const ExecFile *items;
        size_t n_items;
        uint64_t n_more;  /* found as well and not listed */
        uint64_t n_bytes; /* of all regular files found, as far as the number goes */
        unsigned gaps;    /* mask of ExecFilesGap */
} ExecFiles;
