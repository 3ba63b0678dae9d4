/* SPDX-License-Identifier: MIT */

/* Any text to the JSON room: both readers give the same verdict, and what was taken is written so that it
 * reads back the same. */

#include "base/buffer.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "json/json.h"

static int write_value(const JsonValue *v, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        json_value(&w, v);
        return json_writer_finish(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_buffer_ Buffer once = BUFFER_INIT(0), twice = BUFFER_INIT(0), escaped = BUFFER_INIT(0);
        JsonWriter writer = JSON_WRITER_INIT(&escaped);
        _cleanup_json_ JsonValue *v = NULL, *again = NULL, *string = NULL;
        const char *text = (const char*) data, *span, *s;
        size_t pos = 0, n_span, n_s;
        int r, verdict;

        r = json_parse(text, n_bytes, &v);
        verdict = json_check(text, n_bytes);
        FUZZ_CHECK(r == verdict || r == JSON_E_DUPLICATE);
        FUZZ_CHECK((v != NULL) == (r == 0 || r == JSON_E_TEXT));
        if (r != 0)
                FUZZ_CHECK(json_error_to_string(r));
        if (r == 0) {
                FUZZ_CHECK(write_value(v, &once) == 0);
                FUZZ_CHECK(json_parse(once.data, once.n_bytes, &again) == 0);
                FUZZ_CHECK(write_value(again, &twice) == 0);
                FUZZ_CHECK(streq(once.data, twice.data));
        }

        /* The raw readers stay within the text, whatever it is. */
        if (json_raw_member(text, n_bytes, "id", &span, &n_span))
                FUZZ_CHECK(span >= text && n_span > 0 && span + n_span <= text + n_bytes);
        while (json_raw_next_element(text, n_bytes, &pos, &span, &n_span) == 1)
                FUZZ_CHECK(span >= text && n_span > 0 && span + n_span <= text + n_bytes);

        /* Any valid text survives as a string. */
        if (utf8_is_valid(data, n_bytes) && n_bytes > 0 && !memchr(data, 0, n_bytes)) {
                json_string_n(&writer, text, n_bytes);
                FUZZ_CHECK(json_writer_finish(&writer) == 0);
                FUZZ_CHECK(json_parse(escaped.data, escaped.n_bytes, &string) == 0);
                FUZZ_CHECK(json_get_string(string, &s, &n_s) && n_s == n_bytes && memcmp(s, text, n_s) == 0);
        }
        return 0;
}
