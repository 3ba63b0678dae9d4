/* SPDX-License-Identifier: MIT */
#pragma once

/* FileWalk: reads the files that a dead run left in its working directory.
 *
 * Everything in there was made by hostile code: links out of it, fifos, sparse monsters, names that are no
 * text, thousands of entries. So only regular files are opened, below the directory and never through a
 * link, and everything is bounded: entries, depth, files, bytes, and the time that one turn of the event
 * loop spends on it. */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "base/settings.h"
#include "exec/files.h"
#include "exec/request.h"

typedef struct FileWalk FileWalk;

typedef struct FileWalkParameters {
        sd_event *event;
        int directory_fd;            /* borrowed, as all of these */
        const Settings *settings;
        const ExecRequest *request;  /* its files are not listed while they are what they were */
        void (*on_done)(void *userdata); /* once, from the event loop; the walk may be freed in it */
        void *userdata;
} FileWalkParameters;

int file_walk_new(const FileWalkParameters *p, FileWalk **ret);
FileWalk* file_walk_free(FileWalk *w);
DEFINE_CLEANUP(FileWalk*, file_walk_free);

/* Ends it now: what was not reached is told in the result. on_done does not follow. */
void file_walk_stop(FileWalk *w);

/* When it is over. Borrows from the walk. */
const ExecFiles* file_walk_result(const FileWalk *w);
