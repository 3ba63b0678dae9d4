/* SPDX-License-Identifier: MIT */

#include "tool/result-files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "exec/size-text.h"
#include "tool/file-kind.h"

/* In both forms, of everything but content: what a program prints is worth more than its files' names. */
#define LIST_BYTES_MAX (128 * KIB)
#define IMAGE_BLOCK_BYTES 100 /* around the base64 */

/* A constant, or a sentence that needs a number. */
static const char* reason_of(const ExecFile *f, const Settings *s, char ret_buffer[static 96]) {
        switch (f->reason) {
        case EXEC_FILE_TOO_LARGE:
                (void) snprintf(ret_buffer, 96, "Larger than %s, the most that is taken of one file.",
                                size_text_bytes(s->max_file_bytes).text);
                return ret_buffer;
        case EXEC_FILE_TOTAL:
                (void) snprintf(ret_buffer, 96, "The files before it took the %s there are for all of them.",
                                size_text_bytes(s->max_files_bytes).text);
                return ret_buffer;
        case EXEC_FILE_TOO_DEEP:
                (void) snprintf(ret_buffer, 96, "Not looked into: more than %u directories deep.",
                                s->max_files_depth);
                return ret_buffer;
        case EXEC_FILE_UNREADABLE:
                return "Private: a program that is killed leaves files of mode 0600 (tempfile) unreadable.";
        case EXEC_FILE_LINK:
                return "A symbolic link, which is not followed.";
        case EXEC_FILE_SPECIAL:
                return "Not a regular file.";
        case EXEC_FILE_NAME:
                return "Its name is not UTF-8, or too long.";
        case EXEC_FILE_CHANGED:
                return "It changed while it was read.";
        case EXEC_FILE_TIME:
                return "There was no time left to read it.";
        case EXEC_FILE_NOT_KEPT:
                return "Too large to be kept with the result.";
        case EXEC_FILE_COMPLETE:
        case EXEC_FILE_FAILED:
        case _EXEC_FILE_REASON_MAX:
        default:
                return "The server could not read it.";
        }
}

static size_t count_chars(const char *s, size_t n_bytes) {
        size_t n = 0;

        for (size_t i = 0; i < n_bytes; i++)
                n += ((unsigned char) s[i] & 0xc0) != 0x80;
        return n;
}

/* What the file is and why it is not shown, unless it is going to be. */
static void classify(const ExecFile *f, const Settings *settings, size_t max_chars, size_t *left_chars,
                     ShownFile *shown) {
        static const char no_room[] = "The answer has no room for it.";
        size_t n_chars;

        if (f->reason != EXEC_FILE_COMPLETE) {
                shown->reason = reason_of(f, settings, shown->reason_buffer);
                return;
        }
        switch (file_kind(f->path, f->data, (size_t) f->n_bytes, &shown->mime_type)) {
        case FILE_KIND_TEXT:
                n_chars = count_chars(f->data, (size_t) f->n_bytes);
                if (n_chars > *left_chars) {
                        (void) snprintf(shown->reason_buffer, sizeof(shown->reason_buffer),
                                        "Too long: %zu characters of all files together are shown.",
                                        max_chars);
                        shown->reason = shown->reason_buffer;
                        return;
                }
                *left_chars -= n_chars;
                shown->is_text = true;
                shown->reason = no_room;
                return;
        case FILE_KIND_IMAGE:
                shown->image = 1; /* the number comes when it is chosen */
                shown->reason = no_room;
                return;
        case FILE_KIND_BROKEN_IMAGE:
                shown->reason = "Not shown: the image is not complete, or has more than 8000 pixels a side.";
                return;
        case FILE_KIND_OTHER:
        default:
                shown->reason = "Not shown: neither text nor a PNG, JPEG, GIF or WebP image.";
        }
}

static void write_file(const ExecFile *f, const ShownFile *shown, JsonWriter *w) {
        json_begin_object(w);
        json_key(w, "path");
        json_string(w, f->path);
        json_key(w, "bytes");
        json_unsigned(w, f->n_bytes);
        if (shown->mime_type) {
                json_key(w, "mime_type");
                json_string(w, shown->mime_type);
        }
        if (shown->is_shown && shown->is_text) {
                json_key(w, "text");
                json_string_n(w, f->data, (size_t) f->n_bytes);
        } else if (shown->is_shown) {
                json_key(w, "image");
                json_unsigned(w, shown->image);
        } else {
                if (f->reason == EXEC_FILE_COMPLETE) {
                        json_key(w, "sha256");
                        json_string(w, f->sha256);
                }
                json_key(w, "reason");
                json_string(w, shown->reason);
        }
        json_end_object(w);
}

/* What the file takes in both forms: the list is there as an object, and as that object's text. */
static int measure(const ExecFile *f, const ShownFile *shown, size_t *ret) {
        _cleanup_buffer_ Buffer object = BUFFER_INIT(0), text = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&object), again = JSON_WRITER_INIT(&text);
        int r;

        write_file(f, shown, &w);
        r = json_writer_finish(&w);
        if (r < 0)
                return r;
        json_string_n(&again, object.data, object.n_bytes);
        r = json_writer_finish(&again);
        if (r < 0)
                return r;
        *ret = object.n_bytes + text.n_bytes;
        if (shown->is_shown && shown->image > 0)
                *ret += (size_t) (f->n_bytes + 2) / 3 * 4 + IMAGE_BLOCK_BYTES;
        return 0;
}

int shown_files_init(ShownFiles *s, const ExecFiles *files, const Settings *settings, size_t max_chars) {
        size_t left_chars = max_chars, n_bytes, left_bytes = LIST_BYTES_MAX;
        int r;

        assert(s);
        assert(settings);

        *s = (ShownFiles) { .files = files, .settings = settings };
        if (!files || files->n_items == 0)
                return 0;
        s->items = calloc(files->n_items, sizeof(ShownFile));
        if (!s->items)
                return -ENOMEM;
        for (size_t i = 0; i < files->n_items; i++) {
                classify(files->items + i, settings, max_chars, &left_chars, s->items + i);
                r = measure(files->items + i, s->items + i, &n_bytes);
                if (r < 0)
                        return r;
                if (n_bytes > left_bytes)
                        return 0;
                left_bytes -= n_bytes;
                s->n_items++;
        }
        return 0;
}

void shown_files_done(ShownFiles *s) {
        free(s->items);
        *s = (ShownFiles) {};
}

int shown_files_choose(ShownFiles *s, size_t max_bytes) {
        unsigned n_images = 0;
        int n_shown = 0, r;

        assert(s);

        for (size_t i = 0; i < s->n_items; i++) {
                ShownFile *shown = s->items + i;
                size_t before, after;

                if (!shown->is_text && shown->image == 0)
                        continue;
                r = measure(s->files->items + i, shown, &before);
                if (r < 0)
                        return r;
                shown->is_shown = true;
                if (shown->image > 0)
                        shown->image = n_images + 1;
                r = measure(s->files->items + i, shown, &after);
                if (r < 0)
                        return r;
                if (after > max_bytes + before) {
                        shown->is_shown = false;
                        continue;
                }
                max_bytes = max_bytes + before - after;
                n_images += shown->image > 0;
                n_shown++;
        }
        return n_shown;
}

static int describe_rest(const ShownFiles *s, uint64_t n_more, Buffer *b) {
        unsigned gaps = s->files->gaps;
        int r = 0;

        if (n_more > 0)
                r = buffer_printf(b, "%" PRIu64 " more of what it left is not listed. ", n_more);
        if (r >= 0 && gaps & EXEC_FILES_GAP_ENTRIES)
                r = buffer_append_str(b, "There are too many entries to look at all of them. ");
        if (r >= 0 && gaps & EXEC_FILES_GAP_TIME)
                r = buffer_append_str(b, "There was no time to look at all of its files. ");
        if (r >= 0 && gaps & EXEC_FILES_GAP_FAILED)
                r = buffer_append_str(b, "The server could not read all of its files. ");
        if (r >= 0 && gaps & EXEC_FILES_GAP_ALIVE)
                r = buffer_append_str(b, "Its files were not collected: its sandbox did not end in time. ");
        return r;
}

void shown_files_write(const ShownFiles *s, JsonWriter *w) {
        _cleanup_buffer_ Buffer note = BUFFER_INIT(0);
        uint64_t n_more;
        int r;

        assert(s);
        assert(w);

        if (!s->files)
                return;
        if (s->n_items > 0) {
                json_key(w, "files");
                json_begin_array(w);
                for (size_t i = 0; i < s->n_items; i++)
                        write_file(s->files->items + i, s->items + i, w);
                json_end_array(w);
        }
        n_more = s->files->n_more + (s->files->n_items - s->n_items);
        r = describe_rest(s, n_more, &note);
        if (r < 0 && w->error == 0)
                w->error = r;
        if (note.n_bytes > 0) {
                json_key(w, "files_note");
                json_string_n(w, note.data, note.n_bytes - 1); /* without its last space */
        }
}

static void write_image(const ExecFile *f, const char *mime_type, JsonWriter *w) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r = base64_append(&b, f->data, (size_t) f->n_bytes);

        if (r < 0 && w->error == 0)
                w->error = r;
        json_begin_object(w);
        json_key(w, "type");
        json_string(w, "image");
        json_key(w, "data");
        json_string_n(w, b.data ? b.data : "", b.n_bytes);
        json_key(w, "mimeType");
        json_string(w, mime_type);
        json_end_object(w);
}

void shown_files_write_images(const ShownFiles *s, JsonWriter *w) {
        assert(s);
        assert(w);

        for (size_t i = 0; i < s->n_items; i++)
                if (s->items[i].is_shown && s->items[i].image > 0)
                        write_image(s->files->items + i, s->items[i].mime_type, w);
}
