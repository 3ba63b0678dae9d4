/* SPDX-License-Identifier: MIT */
#pragma once

/* The OAuth protected resource metadata (RFC 9728) that a site may want us to show, for an OAuth proxy that
 * stands in front. A file; without it there is none, which is what static tokens want. */

#include "base/macro.h"

typedef struct ResourceMetadata {
        char *text; /* the file, a JSON object; NULL: no file */
        char *url;  /* where clients find it, made from its member "resource" */
} ResourceMetadata;

/* A missing file gives NULLs. Returns 0, -EBADMSG with a message, or -errno. */
int resource_metadata_load(const char *path, ResourceMetadata *ret, char **reterr_message);
void resource_metadata_done(ResourceMetadata *m);
