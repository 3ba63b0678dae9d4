/* SPDX-License-Identifier: MIT */

#include "json/json.h"
#include "test.h"

static int parse(const char *text, size_t n_bytes) {
        JsonValue *v = NULL;
        int r = json_parse(text, n_bytes, &v);

        json_free(v);
        return r;
}

#define S(text) { text, sizeof(text) - 1 }

TEST(valid_texts_are_accepted) {
        static const struct {
                const char *text;
                size_t n;
        } cases[] = {
                S("null"),
                S(" true\r\n"),
                S("false"),
                S("0"),
                S("-0"),
                S("12.50e+3"),
                S("1E-2"),
                S("\"\""),
                S("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\""),
                S("\"\\ud83d\\ude00\""),
                S("\"é€😀\x7f\""),
                S("[]"),
                S("[ ]"),
                S("[1,[2,{\"a\":[]}]]"),
                S("{}"),
                S("{ \"a\" : 1 , \"b\" : null }"),
                S("{\"\":1}"),
                S("{\"a\":{\"x\":1},\"b\":{\"x\":1}}"),
                S("{\"a\":1,\"A\":1}"),
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ASSERT_EQ_INT(json_check(cases[i].text, cases[i].n), 0);
                ASSERT_EQ_INT(parse(cases[i].text, cases[i].n), 0);
        }
}

TEST(invalid_texts_are_syntax_errors) {
        static const struct {
                const char *text;
                size_t n;
        } cases[] = {
                S(""),
                S(" "),
                S("nul"),
                S("nulll"),
                S("True"),
                S("'a'"),
                S("01"),
                S("-"),
                S("+1"),
                S("1."),
                S(".5"),
                S("1e"),
                S("0x10"),
                S("NaN"),
                S("Infinity"),
                S("\""),
                S("\"\\\""),
                S("\"\\x41\""),
                S("\"\\u12\""),
                S("\"\\u12g4\""),
                S("\"\n\""),
                S("\"\t\""),
                S("\"\0\""),
                S("null\0"),
                S("\0"),
                S("["),
                S("[1"),
                S("[1,]"),
                S("[,1]"),
                S("[1 2]"),
                S("]"),
                S("{"),
                S("{\"a\"}"),
                S("{\"a\":}"),
                S("{\"a\":1,}"),
                S("{a:1}"),
                S("{1:1}"),
                S("{\"a\":1]"),
                S("[1}"),
                S("1 1"),
                S("{}{}"),
                S("// c\n1"),
                S("\xef\xbb\xbf"
                  "1"),
                S("\"\x80\""),
                S("\"\xc0\x80\""),
                S("\"\xed\xa0\x80\""),
                S("\"\xf4\x90\x80\x80\""),
                S("\"\xe2\x82\""),
                S("\"\\ud83d\\u"),
                S("\"\\"),
                S("\"\\u"),
                S("-a"),
                S("\x0b"
                  "1"),
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                int r = parse(cases[i].text, cases[i].n);

                if (r != JSON_E_SYNTAX)
                        FAIL("case %zu, \"%s\", gives %d", i, cases[i].text, r);
        }
}

TEST(text_that_cannot_be_carried_is_reported_and_replaced) {
        static const struct {
                const char *text, *string;
        } cases[] = {
                { "\"a\\u0000b\"", "a\xef\xbf\xbd""b" },
                { "\"\\ud800\"", "\xef\xbf\xbd" },
                { "\"\\udc00x\"", "\xef\xbf\xbdx" },
                { "\"\\ud800\\ud800\\udc00\"", "\xef\xbf\xbd\xf0\x90\x80\x80" },
                { "\"\\ud800\\u0041\"", "\xef\xbf\xbd""A" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                JsonValue *v = NULL;
                const char *s;
                size_t n;

                ASSERT_EQ_INT(json_check(cases[i].text, strlen(cases[i].text)), JSON_E_TEXT);
                ASSERT_EQ_INT(json_parse(cases[i].text, strlen(cases[i].text), &v), JSON_E_TEXT);
                ASSERT_TRUE(json_get_string(v, &s, &n));
                ASSERT_EQ_MEM(s, n, cases[i].string, strlen(cases[i].string));
                json_free(v);
        }
}

TEST(duplicate_keys_are_found_also_when_spelled_differently) {
        static const char *const cases[] = { "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}",
                                             "[{\"x\":{\"k\":1,\"b\":2,\"k\":3}}]" };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_EQ_INT(parse(cases[i], strlen(cases[i])), JSON_E_DUPLICATE);
}

TEST(depth_is_limited_without_eating_the_stack) {
        char *text = malloc(2000001);

        ASSERT_TRUE(text != NULL);
        memset(text, '[', 64);
        memset(text + 64, ']', 64);
        ASSERT_EQ_INT(parse(text, 128), 0);
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        ASSERT_EQ_INT(parse(text, 130), JSON_E_DEPTH);
        memset(text, '[', 2000000);
        ASSERT_EQ_INT(parse(text, 2000000), JSON_E_DEPTH);
        free(text);
}

TEST(size_values_and_digits_are_limited) {
        char *text = malloc(JSON_BYTES_MAX + 2);
        size_t n = 0;

        ASSERT_TRUE(text != NULL);
        text[n++] = '[';
        for (int i = 0; i < JSON_VALUES_MAX - 2; i++) {
                text[n++] = '0';
                text[n++] = ',';
        }
        text[n++] = '0';
        text[n++] = ']';
        ASSERT_EQ_INT(parse(text, n), 0);
        text[n - 1] = ',';
        text[n++] = '0';
        text[n++] = ']';
        ASSERT_EQ_INT(parse(text, n), JSON_E_SIZE);

        memset(text, ' ', JSON_BYTES_MAX + 1);
        text[0] = '1';
        ASSERT_EQ_INT(json_check(text, JSON_BYTES_MAX), 0);
        ASSERT_EQ_INT(json_check(text, JSON_BYTES_MAX + 1), JSON_E_SIZE);

        memset(text, '7', 70);
        ASSERT_EQ_INT(parse(text, JSON_NUMBER_CHARS_MAX), 0);
        ASSERT_EQ_INT(parse(text, JSON_NUMBER_CHARS_MAX + 1), JSON_E_SIZE);
        free(text);
}

TEST(every_prefix_of_a_text_is_refused_and_every_changed_byte_survived) {
        static const char text[] = "{\"a\":[1,-2.5e3,\"x\\n\\ud83d\\ude00é\",true,null],\"b\":{\"c\":{}}}";
        char copy[sizeof(text)];

        for (size_t n = 0; n < sizeof(text) - 1; n++)
                ASSERT_EQ_INT(parse(text, n), JSON_E_SYNTAX);
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                for (int c = 0; c < 256; c++) {
                        memcpy(copy, text, sizeof(text));
                        copy[i] = (char) c;
                        ASSERT_TRUE(parse(copy, sizeof(text) - 1) >= 0);
                }
}

TEST(each_code_has_its_sentence) {
        for (int code = JSON_E_SYNTAX; code <= JSON_E_DUPLICATE; code++)
                for (int other = JSON_E_SYNTAX; other < code; other++)
                        ASSERT_FALSE(streq(json_error_to_string(code), json_error_to_string(other)));
}
