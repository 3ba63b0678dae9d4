/* SPDX-License-Identifier: MIT */

#include "json/json.h"
#include "test.h"

static JsonValue* parsed(const char *text) {
        JsonValue *v = NULL;

        ASSERT_EQ_INT(json_parse(text, strlen(text), &v), 0);
        return v;
}

TEST(integers_are_integral_and_within_what_doubles_hold) {
        static const struct {
                const char *text;
                bool is_ok;
                int64_t value;
        } cases[] = {
                { "0", true, 0 },
                { "-5", true, -5 },
                { "5.0", true, 5 },
                { "1e3", true, 1000 },
                { "9007199254740992", true, INT64_C(9007199254740992) },
                { "-9007199254740992", true, INT64_C(-9007199254740992) },
                { "9007199254740994", false, 0 },
                { "1e300", false, 0 },
                { "1e999", false, 0 },
                { "-1e999", false, 0 },
                { "1.5", false, 0 },
                { "\"5\"", false, 0 },
                { "true", false, 0 },
                { "null", false, 0 },
                { "[5]", false, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                JsonValue *v = parsed(cases[i].text);
                int64_t n = 77;

                ASSERT_EQ_INT(json_get_integer(v, &n), cases[i].is_ok);
                ASSERT_EQ_INT(n, cases[i].is_ok ? cases[i].value : 77);
                json_free(v);
        }
}

TEST(members_and_elements) {
        JsonValue *v = parsed("{\"a\":[1,\"x\"],\"A\":true,\"n\":null}");
        const char *s;
        size_t n;
        bool b;

        ASSERT_EQ_UINT(json_length(v), 3);
        ASSERT_EQ_UINT(json_length(json_member(v, "a")), 2);
        ASSERT_EQ_UINT(json_length(json_member(v, "A")), 0);
        ASSERT_EQ_UINT(json_length(NULL), 0);
        ASSERT_TRUE(json_member(v, "b") == NULL);
        ASSERT_TRUE(json_member(NULL, "b") == NULL);
        ASSERT_TRUE(json_member(json_member(v, "a"), "0") == NULL);
        ASSERT_TRUE(json_element(v, 0) == NULL);
        ASSERT_TRUE(json_element(json_member(v, "a"), 2) == NULL);
        ASSERT_TRUE(json_get_string(json_element(json_member(v, "a"), 1), &s, &n) && streq(s, "x") &&
                    n == 1);
        ASSERT_TRUE(json_get_bool(json_member(v, "A"), &b) && b);
        ASSERT_FALSE(json_get_bool(json_member(v, "n"), &b));
        ASSERT_FALSE(json_get_string(NULL, &s, &n));
        ASSERT_EQ_STR(json_member_name(v, 2), "n");
        ASSERT_EQ_STR(json_member_name(v, 3), NULL);
        ASSERT_EQ_INT(json_type(json_member(v, "n")), JSON_NULL);
        json_free(v);
}

TEST(reader_names_the_argument_what_was_expected_and_what_came) {
        static const struct {
                const char *text, *path, *message;
        } cases[] = {
                { "{}", NULL, "argument \"code\" is missing" },
                { "{\"code\":null}", NULL, "argument \"code\" must be a string, not null" },
                { "{\"code\":5}", NULL, "argument \"code\" must be a string, not a number" },
                { "{\"code\":\"x\",\"timeout_s\":\"5\"}", NULL,
                  "argument \"timeout_s\" must be an integer, not a string" },
                { "{\"code\":\"x\",\"timeout_s\":1.5}", NULL,
                  "argument \"timeout_s\" must be an integer, not a fraction" },
                { "{\"code\":\"x\",\"timeout_s\":1e300}", NULL,
                  "argument \"timeout_s\" must be an integer within ±2^53" },
                { "{\"code\":\"x\",\"timeout_s\":[]}", NULL,
                  "argument \"timeout_s\" must be an integer, not an array" },
                { "{\"code\":\"x\",\"timout\":3}", NULL,
                  "unknown argument \"timout\"; there are code and timeout_s" },
                { "{\"a\\nb\":3}", NULL, "unknown argument \"a?b\"; there are code and timeout_s" },
                { "[]", NULL, "argument \"arguments\" must be an object, not an array" },
                { "{\"code\":{}}", "files[0]",
                  "argument \"files[0].code\" must be a string, not an object" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const JsonValue *code = NULL, *timeout = NULL;
                const JsonField fields[] = {
                        { "code", JSON_STRING, .is_required = true, .ret = &code },
                        { "timeout_s", JSON_NUMBER, .accepts_null = true, .ret = &timeout },
                };
                JsonValue *v = parsed(cases[i].text);
                char *message = NULL;

                ASSERT_EQ_INT(json_read_object(v, cases[i].path, fields, 2, &message), -EBADMSG);
                ASSERT_EQ_STR(message, cases[i].message);
                free(message);
                json_free(v);
        }
}

TEST(reader_fills_present_fields_and_clears_absent_ones) {
        JsonValue *v = parsed("{\"timeout_s\":null,\"code\":\"x\"}");
        const JsonValue *code = NULL, *timeout = v;
        const JsonField fields[] = {
                { "code", JSON_STRING, .is_required = true, .ret = &code },
                { "timeout_s", JSON_NUMBER, .accepts_null = true, .ret = &timeout },
        };
        char *message = NULL;

        ASSERT_EQ_INT(json_read_object(v, NULL, fields, 2, &message), 0);
        ASSERT_TRUE(code == json_member(v, "code") && timeout == NULL && message == NULL);
        json_free(v);
}

TEST(reader_quotes_long_names_short) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char *message = NULL;
        JsonValue *v;

        ASSERT_EQ_INT(buffer_append_str(&b, "{\""), 0);
        for (int i = 0; i < 1000; i++)
                ASSERT_EQ_INT(buffer_append_str(&b, "é"), 0);
        ASSERT_EQ_INT(buffer_append_str(&b, "\":1}"), 0);
        v = parsed(b.data);
        ASSERT_EQ_INT(json_read_object(v, NULL, NULL, 0, &message), -EBADMSG);
        ASSERT_CONTAINS(message, "éé…\"; there are no arguments");
        ASSERT_TRUE(strlen(message) < 150);
        free(message);
        json_free(v);
}

TEST(writer_puts_commas_and_escapes) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        JsonValue *v = parsed("{\"z\":[1,\"é\"]}");

        json_begin_object(&w);
        json_key(&w, "a\"b");
        json_begin_array(&w);
        json_end_array(&w);
        json_key(&w, "s");
        json_string_n(&w, "x\0\x1f\x7f\"\\/\n\r\t\b😀", 15);
        json_key(&w, "n");
        json_string(&w, NULL);
        json_key(&w, "l");
        json_begin_array(&w);
        json_integer(&w, INT64_MIN);
        json_unsigned(&w, UINT64_MAX);
        json_boolean(&w, true);
        json_boolean(&w, false);
        json_null(&w);
        json_begin_object(&w);
        json_end_object(&w);
        json_raw(&w, "1.50", 4);
        json_value(&w, v);
        json_end_array(&w);
        json_end_object(&w);
        ASSERT_EQ_INT(json_writer_finish(&w), 0);
        ASSERT_EQ_STR(
                b.data,
                "{\"a\\\"b\":[],\"s\":\"x\\u0000\\u001f\x7f\\\"\\\\/\\n\\r\\t\\u0008😀\",\"n\":null,\"l\":"
                "[-9223372036854775808,18446744073709551615,true,false,null,{},1.50,{\"z\":[1,\"é\"]}]}");
        json_free(v);
}

TEST(writer_keeps_its_first_error) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(10);
        JsonWriter w = JSON_WRITER_INIT(&b);

        json_begin_array(&w);
        json_string(&w, "0123456789");
        json_integer(&w, 1);
        json_end_array(&w);
        ASSERT_EQ_INT(json_writer_finish(&w), -EMSGSIZE);
}

TEST(every_ascii_string_survives_writing_and_parsing) {
        for (int first = 1; first < 128; first++) {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
                JsonWriter w = JSON_WRITER_INIT(&b);
                char text[4] = { (char) first, 'x', (char) (128 - first), '\0' };
                JsonValue *v = NULL;
                const char *s;

                json_string(&w, text);
                ASSERT_EQ_INT(json_writer_finish(&w), 0);
                ASSERT_EQ_INT(json_parse(b.data, b.n_bytes, &v), 0);
                ASSERT_TRUE(json_get_string(v, &s, NULL));
                ASSERT_EQ_STR(s, text);
                json_free(v);
        }
}
