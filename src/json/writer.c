/* SPDX-License-Identifier: MIT */

/* Writing JSON straight into a Buffer; big strings are copied once, in runs between the characters to
 * escape. */

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "json/json.h"

static void append(JsonWriter *w, const void *data, size_t n_bytes) {
        if (w->error == 0)
                w->error = buffer_append(w->buffer, data, n_bytes);
}

static void before_value(JsonWriter *w) {
        assert(w);
        assert(w->buffer);

        if (w->needs_comma)
                append(w, ",", 1);
        w->needs_comma = true;
}

static void begin(JsonWriter *w, const char *bracket) {
        before_value(w);
        append(w, bracket, 1);
        w->depth++;
        w->needs_comma = false;
}

static void end(JsonWriter *w, const char *bracket) {
        assert(w);
        assert(w->depth > 0);

        append(w, bracket, 1);
        w->depth--;
        w->needs_comma = true;
}

void json_begin_object(JsonWriter *w) {
        begin(w, "{");
}

void json_end_object(JsonWriter *w) {
        end(w, "}");
}

void json_begin_array(JsonWriter *w) {
        begin(w, "[");
}

void json_end_array(JsonWriter *w) {
        end(w, "]");
}

void json_key(JsonWriter *w, const char *key) {
        assert(w->depth > 0);

        json_string(w, key);
        append(w, ":", 1);
        w->needs_comma = false;
}

void json_string(JsonWriter *w, const char *s) {
        if (s)
                json_string_n(w, s, strlen(s));
        else
                json_null(w);
}

/* What stands for this byte, which cannot stand for itself; returns its length. */
static size_t escape(unsigned char c, char ret[static 6]) {
        static const char short_ones[] = "\"\"\\\\\nn\rr\tt", digits[] = "0123456789abcdef";

        ret[0] = '\\';
        for (size_t i = 0; i + 1 < sizeof(short_ones); i += 2)
                if ((unsigned char) short_ones[i] == c) {
                        ret[1] = short_ones[i + 1];
                        return 2;
                }
        memcpy(ret + 1, "u00", 3);
        ret[4] = digits[c >> 4];
        ret[5] = digits[c & 0xf];
        return 6;
}

/* Appends what is short together with what follows: of hostile text each byte has to be escaped. */
typedef struct Chunk {
        char data[1024];
        size_t n_bytes;
} Chunk;

static void chunk_flush(JsonWriter *w, Chunk *c) {
        append(w, c->data, c->n_bytes);
        c->n_bytes = 0;
}

static void chunk_push(JsonWriter *w, Chunk *c, const char *s, size_t n_bytes) {
        if (c->n_bytes + n_bytes > sizeof(c->data))
                chunk_flush(w, c);
        if (n_bytes > sizeof(c->data) / 2) {
                chunk_flush(w, c);
                append(w, s, n_bytes);
                return;
        }
        if (n_bytes > 0)
                memcpy(c->data + c->n_bytes, s, n_bytes);
        c->n_bytes += n_bytes;
}

void json_string_n(JsonWriter *w, const char *s, size_t n_bytes) {
        Chunk chunk;
        size_t start = 0;

        assert(s || n_bytes == 0);

        chunk.n_bytes = 0;
        before_value(w);
        chunk_push(w, &chunk, "\"", 1);
        for (size_t i = 0; i < n_bytes; i++) {
                unsigned char c = (unsigned char) s[i];
                char escaped[6];
                size_t n;

                if (c >= 0x20 && c != '"' && c != '\\')
                        continue;
                n = escape(c, escaped);
                chunk_push(w, &chunk, s + start, i - start);
                chunk_push(w, &chunk, escaped, n);
                start = i + 1;
        }
        if (n_bytes > start)
                chunk_push(w, &chunk, s + start, n_bytes - start);
        chunk_push(w, &chunk, "\"", 1);
        chunk_flush(w, &chunk);
}

void json_integer(JsonWriter *w, int64_t i) {
        char text[24];

        before_value(w);
        append(w, text, (size_t) snprintf(text, sizeof(text), "%" PRIi64, i));
}

void json_unsigned(JsonWriter *w, uint64_t i) {
        char text[24];

        before_value(w);
        append(w, text, (size_t) snprintf(text, sizeof(text), "%" PRIu64, i));
}

void json_boolean(JsonWriter *w, bool b) {
        before_value(w);
        append(w, b ? "true" : "false", b ? 4 : 5);
}

void json_null(JsonWriter *w) {
        before_value(w);
        append(w, "null", 4);
}

void json_raw(JsonWriter *w, const char *text, size_t n_bytes) {
        assert(text);

        before_value(w);
        append(w, text, n_bytes);
}

void json_value(JsonWriter *w, const JsonValue *v) {
        _cleanup_free_ char *text = NULL;

        assert(v);

        text = cJSON_PrintUnformatted(v);
        if (!text) {
                if (w->error == 0)
                        w->error = -ENOMEM;
                return;
        }
        json_raw(w, text, strlen(text));
}

int json_writer_finish(const JsonWriter *w) {
        assert(w);
        assert(w->error != 0 || w->depth == 0);

        return w->error;
}
