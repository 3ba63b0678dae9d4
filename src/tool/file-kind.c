/* SPDX-License-Identifier: MIT */

#include "tool/file-kind.h"

#include <stdbool.h>
#include <strings.h>

#include "base/macro.h"
#include "base/utf8.h"

#define IMAGE_PIXELS_MAX 8000 /* a side; model APIs refuse more */

static const struct {
        const char *extension, *mime_type;
        bool is_text;
} types[] = {
        { "csv", "text/csv", true },
        { "css", "text/css", true },
        { "htm", "text/html", true },
        { "html", "text/html", true },
        { "js", "text/javascript", true },
        { "json", "application/json", true },
        { "md", "text/markdown", true },
        { "py", "text/x-python", true },
        { "svg", "image/svg+xml", true },
        { "tsv", "text/tab-separated-values", true },
        { "xml", "application/xml", true },
        { "yaml", "application/yaml", true },
        { "yml", "application/yaml", true },
        { "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false },
        { "gif", "image/gif", false },
        { "gz", "application/gzip", false },
        { "jpeg", "image/jpeg", false },
        { "jpg", "image/jpeg", false },
        { "parquet", "application/vnd.apache.parquet", false },
        { "pdf", "application/pdf", false },
        { "png", "image/png", false },
        { "pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false },
        { "sqlite", "application/vnd.sqlite3", false },
        { "webp", "image/webp", false },
        { "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false },
        { "zip", "application/zip", false },
};

static const char* mime_type_of(const char *path, bool is_text) {
        const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

        for (size_t i = 0; dot && i < ELEMENTSOF(types); i++)
                if (types[i].is_text == is_text && strcasecmp(dot + 1, types[i].extension) == 0)
                        return types[i].mime_type;
        return is_text ? "text/plain" : "application/octet-stream";
}

static bool begins_with(const unsigned char *p, size_t n_bytes, const char *magic, size_t n_magic) {
        return n_bytes >= n_magic && memcmp(p, magic, n_magic) == 0;
}

static bool ends_with(const unsigned char *p, size_t n_bytes, const char *magic, size_t n_magic) {
        return n_bytes >= n_magic && memcmp(p + n_bytes - n_magic, magic, n_magic) == 0;
}

static bool is_side(uint32_t n_pixels) {
        return n_pixels > 0 && n_pixels <= IMAGE_PIXELS_MAX;
}

static uint32_t big_endian(const unsigned char *p) {
        return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static uint32_t little_endian(const unsigned char *p) {
        return (uint32_t) p[3] << 24 | (uint32_t) p[2] << 16 | (uint32_t) p[1] << 8 | p[0];
}

/* Segment by segment up to the one with the picture's sides, which stands before the picture. */
static bool jpeg_is_fine(const unsigned char *p, size_t n) {
        size_t at = 2, n_segment;

        while (n - at >= 4 && p[at] == 0xff) {
                unsigned char marker = p[at + 1];

                if (marker == 0xff) { /* fill */
                        at++;
                        continue;
                }
                n_segment = (size_t) p[at + 2] << 8 | p[at + 3];
                if (marker < 0xc0 || (marker >= 0xd0 && marker <= 0xda) || n_segment < 2 ||
                    n_segment > n - at - 2)
                        return false;
                if (marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc)
                        return n_segment >= 7 && is_side((uint32_t) p[at + 5] << 8 | p[at + 6]) &&
                                is_side((uint32_t) p[at + 7] << 8 | p[at + 8]);
                at += 2 + n_segment;
        }
        return false;
}

/* The first chunk says it, in one of three ways. */
static bool webp_is_fine(const unsigned char *p, size_t n) {
        uint32_t bits;

        if (n < 30)
                return false;
        if (memcmp(p + 12, "VP8 ", 4) == 0)
                return memcmp(p + 23, "\x9d\x01\x2a", 3) == 0 &&
                        is_side((p[26] | (uint32_t) p[27] << 8) & 0x3fff) &&
                        is_side((p[28] | (uint32_t) p[29] << 8) & 0x3fff);
        if (memcmp(p + 12, "VP8L", 4) == 0) {
                bits = little_endian(p + 21);
                return p[20] == 0x2f && is_side((bits & 0x3fff) + 1) && is_side((bits >> 14 & 0x3fff) + 1);
        }
        return memcmp(p + 12, "VP8X", 4) == 0 && is_side((little_endian(p + 24) & 0xffffff) + 1) &&
                is_side((little_endian(p + 26) >> 8) + 1);
}

static FileKind whole_image(bool is_whole) {
        return is_whole ? FILE_KIND_IMAGE : FILE_KIND_BROKEN_IMAGE;
}

/* A program that is killed leaves half an image, with the right beginning: the end is looked at as well. */
static FileKind image_kind(const char *mime_type, const unsigned char *p, size_t n) {
        if (streq(mime_type, "image/png") && begins_with(p, n, "\x89PNG\r\n\x1a\n", 8))
                return whole_image(n >= 45 && memcmp(p + 12, "IHDR", 4) == 0 &&
                                   is_side(big_endian(p + 16)) && is_side(big_endian(p + 20)) &&
                                   ends_with(p, n, "\0\0\0\0IEND\xae\x42\x60\x82", 12));
        if (streq(mime_type, "image/jpeg") && begins_with(p, n, "\xff\xd8\xff", 3))
                return whole_image(ends_with(p, n, "\xff\xd9", 2) && jpeg_is_fine(p, n));
        if (streq(mime_type, "image/gif") &&
            (begins_with(p, n, "GIF87a", 6) || begins_with(p, n, "GIF89a", 6)))
                return whole_image(n >= 14 && is_side(p[6] | (uint32_t) p[7] << 8) &&
                                   is_side(p[8] | (uint32_t) p[9] << 8) && p[n - 1] == ';');
        if (streq(mime_type, "image/webp") && begins_with(p, n, "RIFF", 4) && n >= 12 &&
            memcmp(p + 8, "WEBP", 4) == 0)
                return whole_image(little_endian(p + 4) == n - 8 && webp_is_fine(p, n));
        return FILE_KIND_OTHER;
}

FileKind file_kind(const char *path, const void *data, size_t n_bytes, const char **ret_mime_type) {
        FileKind kind;

        assert(path);
        assert(data || n_bytes == 0);
        assert(ret_mime_type);

        if (n_bytes == 0 || (!memchr(data, 0, n_bytes) && utf8_is_valid(data, n_bytes))) {
                *ret_mime_type = mime_type_of(path, /* is_text= */ true);
                return FILE_KIND_TEXT;
        }
        *ret_mime_type = mime_type_of(path, /* is_text= */ false);
        kind = image_kind(*ret_mime_type, data, n_bytes);
        /* A name alone proves nothing. */
        if (kind == FILE_KIND_OTHER && strncmp(*ret_mime_type, "image/", 6) == 0)
                *ret_mime_type = "application/octet-stream";
        return kind;
}
