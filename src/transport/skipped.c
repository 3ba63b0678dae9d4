/* SPDX-License-Identifier: MIT */

/* Finding the id of a message of which only the ends are known. */

#include "transport/skipped.h"

#include <stdbool.h>

#include "json/json.h"
#include "mcp/mcp.h"

/* Longer ids are as good as none: they would make the reply to an oversized message large itself. */
#define ID_BYTES_MAX 256

/* As of RFC 8259 §2. */
static bool is_space(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Stores {"id":VALUE} when text has a usable id. An id that ends where the text does may be cut off. */
static bool take_id(SkippedMessage *s, const char *text, size_t n_bytes) {
        const char *value;
        size_t n_value;

        if (json_raw_member(text, n_bytes, "id", &value, &n_value) <= 0 || n_value == 0 ||
            n_value > ID_BYTES_MAX || value + n_value >= text + n_bytes || value[0] == '{' ||
            value[0] == '[')
                return false;
        s->id.max_bytes = ID_BYTES_MAX + 16;
        buffer_consume(&s->id, s->id.n_bytes);
        if (buffer_append_str(&s->id, "{\"id\":") < 0 || buffer_append(&s->id, value, n_value) < 0 ||
            buffer_append_str(&s->id, "}") < 0) {
                buffer_consume(&s->id, s->id.n_bytes);
                return false;
        }
        return true;
}

/* Nothing but the closing brace behind the value. */
static bool is_last_member(const char *text, size_t n_bytes) {
        const char *value, *p;
        size_t n_value;

        if (json_raw_member(text, n_bytes, "id", &value, &n_value) <= 0)
                return false;
        p = value + n_value;
        while (p < text + n_bytes && is_space(*p))
                p++;
        return p + 1 == text + n_bytes && *p == '}';
}

/* Looks for ,"id":VALUE} with nothing behind it: a nested object would end in two braces, and within a
 * string the quotes would be escaped. */
static void take_tail_id(SkippedMessage *s) {
        static const char key[] = "\"id\"";
        size_t n_key = sizeof(key) - 1, n = s->n_tail;

        while (n > 0 && is_space(s->tail[n - 1]))
                n--;
        if (n <= n_key || s->tail[n - 1] != '}')
                return;

        for (size_t i = n - n_key; i > 0; i--) {
                _cleanup_buffer_ Buffer text = BUFFER_INIT(SKIPPED_TAIL_BYTES + 2);
                size_t before = i;

                if (memcmp(s->tail + i, key, n_key) != 0)
                        continue;
                while (before > 0 && is_space(s->tail[before - 1]))
                        before--;
                if (before == 0 || s->tail[before - 1] != ',')
                        continue;
                if (buffer_append(&text, "{", 1) < 0 || buffer_append(&text, s->tail + i, n - i) < 0)
                        return;
                if (is_last_member(text.data, text.n_bytes))
                        (void) take_id(s, text.data, text.n_bytes);
                return; /* an earlier one cannot be the last member of the outermost object */
        }
}

void skipped_head(SkippedMessage *s, const char *head, size_t n_bytes) {
        assert(s);

        (void) take_id(s, head, n_bytes);
}

void skipped_push(SkippedMessage *s, const char *data, size_t n_bytes) {
        size_t n_keep;

        assert(s);
        assert(data || n_bytes == 0);

        if (n_bytes == 0)
                return;
        if (n_bytes >= sizeof(s->tail)) {
                memcpy(s->tail, data + n_bytes - sizeof(s->tail), sizeof(s->tail));
                s->n_tail = sizeof(s->tail);
                return;
        }
        n_keep = MIN_OF(s->n_tail, sizeof(s->tail) - n_bytes);
        memmove(s->tail, s->tail + s->n_tail - n_keep, n_keep);
        memcpy(s->tail + n_keep, data, n_bytes);
        s->n_tail = n_keep + n_bytes;
}

int skipped_error(SkippedMessage *s, int code, const char *message, Buffer *b) {
        assert(s);
        assert(message);
        assert(b);

        if (s->id.n_bytes == 0)
                take_tail_id(s);
        return mcp_error_reply(s->id.n_bytes > 0 ? s->id.data : NULL, s->id.n_bytes, code, message, b);
}

void skipped_done(SkippedMessage *s) {
        assert(s);

        buffer_done(&s->id);
        s->n_tail = 0;
}
