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

/* What stands for this byte, or NULL when it stands for itself. unicode has room for one \u escape. */
static const char* escape(unsigned char c, char unicode[static 7]) {
        switch (c) {
        case '"':
                return "\\\"";
        case '\\':
                return "\\\\";
        case '\n':
                return "\\n";
        case '\r':
                return "\\r";
        case '\t':
                return "\\t";
        default:
                if (c >= 0x20)
                        return NULL;
                (void) snprintf(unicode, 7, "\\u%04x", c);
                return unicode;
        }
}

void json_string_n(JsonWriter *w, const char *s, size_t n_bytes) {
        size_t start = 0;

        assert(s || n_bytes == 0);

        before_value(w);
        append(w, "\"", 1);
        for (size_t i = 0; i < n_bytes; i++) {
                unsigned char c = (unsigned char) s[i];
                char unicode[7];
                const char *e;

                if (c >= 0x20 && c != '"' && c != '\\')
                        continue;
                e = escape(c, unicode);
                append(w, s + start, i - start);
                append(w, e, strlen(e));
                start = i + 1;
        }
        if (n_bytes > start)
                append(w, s + start, n_bytes - start);
        append(w, "\"", 1);
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
