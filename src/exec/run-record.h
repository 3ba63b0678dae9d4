/* SPDX-License-Identifier: MIT */
#pragma once

/* RunRecord: the end of one run, with all that was captured of its output and files, in one sealed memfd.
 *
 * One form for both lives it has: read in place by this process, and kept by the service manager while a new
 * process takes over. */

#include "exec/exec.h"

typedef struct RunRecord {
        int fd;                 /* may be closed once it was passed on: the mapping stays */
        void *map;
        size_t n_bytes;
        const char *principal;
        uint64_t created_usec, ended_usec; /* CLOCK_REALTIME */
        uint64_t expires_usec;  /* CLOCK_MONOTONIC, which goes on while we are not there */
        Capture out, err;       /* read only, into the mapping */
        ExecFile *file_items;   /* the same */
        ExecFiles files;
        ExecResult result;      /* borrows from the record */
} RunRecord;

typedef struct RunRecordParameters {
        const char *principal;
        uint64_t created_usec, ended_usec, expires_usec;
        const ExecResult *result;
        size_t max_stream_bytes; /* of each stream at most so much is taken: its beginning and its end */
        size_t max_files_bytes;  /* of all files; those that are beyond it are listed only */
} RunRecordParameters;

int run_record_new(const RunRecordParameters *p, RunRecord **ret);

/* Takes fd on success only. -EBADMSG: it is none of ours, or of another version. */
int run_record_open(int take_fd, RunRecord **ret);

RunRecord* run_record_free(RunRecord *r);
DEFINE_CLEANUP(RunRecord*, run_record_free);
