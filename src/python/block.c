/* SPDX-License-Identifier: MIT */

#include "python/block.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "python/python.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* One line, as Python divides its source: up to "\n", "\r" or "\r\n". */
typedef struct Line {
        const char *text;
        size_t n_bytes; /* without its end */
        const char *end;
        size_t n_end_bytes;
} Line;

/* False behind the last line. A text without an end of line is one line. */
static bool next_line(const char *text, size_t text_bytes, size_t *at, Line *ret) {
        size_t i = *at;

        if (i >= text_bytes)
                return false;
        while (i < text_bytes && text[i] != '\n' && text[i] != '\r')
                i++;
        *ret = (Line){ .text = text + *at, .n_bytes = i - *at, .end = text + i };
        if (i < text_bytes) {
                bool is_pair = text[i] == '\r' && i + 1 < text_bytes && text[i + 1] == '\n';

                ret->n_end_bytes = is_pair ? 2 : 1;
        }
        *at = i + ret->n_end_bytes;
        return true;
}

static size_t skip_mark(const char *text, size_t text_bytes) {
        size_t n = strlen(BYTE_ORDER_MARK);

        return text_bytes >= n && memcmp(text, BYTE_ORDER_MARK, n) == 0 ? n : 0;
}

static bool is_comment(const Line *l) {
        return l->n_bytes > 0 && l->text[0] == '#';
}

static bool has_slashes(const Line *l) {
        return memmem(l->text, l->n_bytes, "//", 2) != NULL;
}

static bool is_blank(const Line *l) {
        for (size_t i = 0; i < l->n_bytes; i++)
                if (l->text[i] != ' ' && l->text[i] != '\t')
                        return false;
        return true;
}

static size_t skip(const Line *l, size_t at, const char *characters) {
        while (at < l->n_bytes && strchr(characters, l->text[at]) && l->text[at] != 0)
                at++;
        return at;
}

/* "# /// script", give or take blanks and slashes. */
static bool looks_like_opening(const Line *l) {
        size_t at, slashes;

        if (!is_comment(l))
                return false;
        slashes = skip(l, 1, " \t");
        at = skip(l, slashes, "/");
        if (at < slashes + 2 || at > slashes + 4)
                return false;
        at = skip(l, at, " \t");
        return l->n_bytes - at >= strlen("script") &&
               strncasecmp(l->text + at, "script", strlen("script")) == 0;
}

/* "  # ///", which ends a block in its author's eyes, and is what parse tells of then. */
static bool looks_like_closing(const Line *l) {
        size_t at = skip(l, 0, " \t"), slashes;

        if (at >= l->n_bytes || l->text[at] != '#')
                return false;
        slashes = skip(l, at + 1, " \t");
        at = skip(l, slashes, "/");
        return at >= slashes + 2 && at <= slashes + 4 && skip(l, at, " \t") == l->n_bytes;
}

bool python_has_block(const char *text, size_t text_bytes) {
        size_t at = skip_mark(text, text_bytes);
        Line l;

        while (next_line(text, text_bytes, &at, &l))
                if (looks_like_opening(&l))
                        return true;
        return false;
}

/* The end of a line of which nothing is left. Behind a lone "\r" a "\n" would end the same line. */
static int append_end(Buffer *b) {
        bool is_behind_cr = b->n_bytes > 0 && b->data[b->n_bytes - 1] == '\r';

        return buffer_append_str(b, is_behind_cr ? "\r" : "\n");
}

int block_reduce(const char *text, size_t text_bytes, Buffer *b) {
        size_t at = skip_mark(text, text_bytes), n_useful = b->n_bytes;
        bool is_behind = false; /* the line before was kept */
        Line l;
        int r;

        for (size_t start = at; next_line(text, text_bytes, &at, &l); start = at) {
                size_t end = start, n = 0;
                bool is_kept = false;

                if (!is_comment(&l)) {
                        r = !is_behind || is_blank(&l) ? 0 :
                            looks_like_closing(&l)     ? buffer_append(b, l.text, l.n_bytes) :
                                                         buffer_append_str(b, "x");
                        if (r < 0)
                                return r;
                        n_useful = is_behind ? b->n_bytes : n_useful;
                        is_behind = false;
                        r = l.n_end_bytes > 0 ? append_end(b) : 0;
                        if (r < 0)
                                return r;
                        continue;
                }

                /* All comments that stand together, for a block is among them or not at all. */
                for (size_t next = start; next_line(text, text_bytes, &next, &l) && is_comment(&l);
                     end = next) {
                        is_kept |= has_slashes(&l);
                        n += l.n_end_bytes > 0;
                }
                at = end;
                if (is_kept)
                        r = buffer_append(b, text + start, end - start);
                else
                        for (r = 0; n > 0 && r >= 0; n--)
                                r = append_end(b);
                if (r < 0)
                        return r;
                if (is_kept)
                        n_useful = b->n_bytes;
                is_behind = is_kept;
        }

        /* Blank lines at the end say nothing. */
        if (b->n_bytes > n_useful) {
                b->n_bytes = n_useful;
                b->data[n_useful] = 0;
        }
        return 0;
}
