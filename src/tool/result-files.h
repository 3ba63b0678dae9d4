/* SPDX-License-Identifier: MIT */
#pragma once

/* The files of a run in its result: what is shown of which, and the list of all.
 *
 * Text stands in the list, images are content blocks of their own, and everything else is told by name, size
 * and digest. Other binary content is not sent: clients put base64 that they do not know before the model as
 * text, or refuse the whole result. */

#include "base/buffer.h"
#include "base/settings.h"
#include "exec/files.h"
#include "json/json.h"

typedef struct ShownFile {
        const char *mime_type; /* NULL: not known */
        const char *reason;    /* why its content is not shown, where it is not */
        char reason_buffer[96];
        unsigned image;        /* its number among the images; 0: none */
        bool is_text, is_shown;
} ShownFile;

typedef struct ShownFiles {
        const ExecFiles *files;
        const Settings *settings;
        ShownFile *items;
        size_t n_items; /* of files->items; the list itself is bounded */
} ShownFiles;

/* What each file is. Nothing is shown yet: that is how little the files may take. max_chars: of all text.
 * files may be NULL. Returns 0 or -ENOMEM. */
int shown_files_init(ShownFiles *s, const ExecFiles *files, const Settings *settings, size_t max_chars);
void shown_files_done(ShownFiles *s);
#define _cleanup_shown_files_ _cleanup_(shown_files_done)

/* Chooses what fits into max_bytes more, in both forms of the result. Returns how many files are shown, or
 * -ENOMEM. */
int shown_files_choose(ShownFiles *s, size_t max_bytes);

/* The members of the structured result. */
void shown_files_write(const ShownFiles *s, JsonWriter *w);
/* The content blocks. */
void shown_files_write_images(const ShownFiles *s, JsonWriter *w);
