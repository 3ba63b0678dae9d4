/* SPDX-License-Identifier: MIT */
#pragma once

/* What a file is, as far as a reply cares: text, an image that clients show to models, or something else. */

#include <stddef.h>

typedef enum FileKind {
        FILE_KIND_TEXT,
        FILE_KIND_IMAGE,        /* by its name and by its content, and whole */
        FILE_KIND_BROKEN_IMAGE, /* … but cut off or too large: model APIs refuse the whole request for one */
        FILE_KIND_OTHER,
} FileKind;

/* *ret_mime_type is a constant. */
FileKind file_kind(const char *path, const void *data, size_t n_bytes, const char **ret_mime_type);
