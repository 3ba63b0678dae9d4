/* SPDX-License-Identifier: MIT */
#pragma once

/* A file that names packages: a script with a block of metadata, or a list of requirements. */

#include <stdbool.h>

#include "base/macro.h"

typedef struct EnvFile {
        char *script; /* what to run: only the comments of a script, line for line; of a list nothing */
        char **requirements; /* of a list */
        unsigned *lines; /* of each of them */
        bool has_packages;
} EnvFile;

/* What stands in it is judged by the server. -EBADMSG with message, or -errno. */
int env_file_read(const char *path, EnvFile *ret, char **reterr_message);
void env_file_done(EnvFile *f);
