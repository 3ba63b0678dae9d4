/* SPDX-License-Identifier: MIT */

#include "json/json.h"
#include "test.h"

/* NULL: not found. */
static const char* member(const char *text, const char *name) {
        static char copy[256];
        const char *raw;
        size_t n;

        if (json_raw_member(text, strlen(text), name, &raw, &n) == 0)
                return NULL;
        (void) snprintf(copy, sizeof(copy), "%.*s", (int) n, raw);
        return copy;
}

TEST(member_is_found_byte_for_byte) {
        ASSERT_EQ_STR(member("{\"id\":1}", "id"), "1");
        ASSERT_EQ_STR(member(" {\t\"x\" : [1,{\"id\":2}] ,\n\"id\" :  \"a \\\" }\" , \"y\":3}", "id"),
                      "\"a \\\" }\"");
        ASSERT_EQ_STR(member("{\"id\":9223372036854775807,\"a\":1}", "id"), "9223372036854775807");
        ASSERT_EQ_STR(member("{\"\\u0069\\u0064\":7}", "id"), "7");
        ASSERT_EQ_STR(member("{\"a/b\":1}", "a/b"), "1");
        ASSERT_EQ_STR(member("{\"a\\/b\":1}", "a/b"), "1");
        ASSERT_EQ_STR(member("{\"id\":{\"a\":[1,2]}}", "id"), "{\"a\":[1,2]}");
        ASSERT_EQ_STR(member("{\"id\":1,\"id\":2}", "id"), "1");
}

TEST(member_is_not_found_where_there_is_none) {
        static const char *const cases[] = {
                "",
                "{",
                "{}",
                "[]",
                "[{\"id\":1}]",
                "\"id\"",
                "{\"x\":{\"id\":1}}",
                "{\"ID\":1}",
                "{\"id2\":1}",
                "{\"i\":1}",
                "{\"id\":}",
                "{\"id\":,\"a\":1}",
                "{\"id\" 1}",
                "{id:1}",
                "{\"x\":\"id\"}",
                "{\"x\":\",\\\"id\\\":1\"}",
                "{\"\\u0069\":1}",
                "{\"\\n\":1}",
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_EQ_STR(member(cases[i], "id"), NULL);
}

TEST(member_is_found_in_broken_text_as_far_as_it_can_be_read) {
        ASSERT_EQ_STR(member("{\"id\":5,\"method\":", "id"), "5");
        ASSERT_EQ_STR(member("{\"method\":oops,\"id\":5,", "id"), "5");
        ASSERT_EQ_STR(member("{\"params\":{\"a\":,,},\"id\":5}", "id"), "5");
        ASSERT_EQ_STR(member("{\"x\":\"\xff\xfe\",\"id\":5}", "id"), "5");
        ASSERT_EQ_STR(member("{\"id\":5", "id"), NULL); /* 5 of 57? */
        ASSERT_EQ_STR(member("{\"id\":\"abc", "id"), NULL);
        ASSERT_EQ_STR(member("{\"params\":{\"code\":\"unfinished, \\\"id\\\":5}", "id"), NULL);
}

static const char* elements(const char *text) {
        static char all[256];
        size_t pos = 0, n, at = 0;
        const char *raw;
        int r;

        all[0] = '\0';
        while ((r = json_raw_next_element(text, strlen(text), &pos, &raw, &n)) > 0)
                at += (size_t) snprintf(all + at, sizeof(all) - at, "<%.*s>", (int) n, raw);
        if (r < 0)
                (void) snprintf(all + at, sizeof(all) - at, "!%d", -r);
        return all;
}

TEST(array_is_split_into_its_elements) {
        ASSERT_EQ_STR(elements("[]"), "");
        ASSERT_EQ_STR(elements(" [ ] "), "");
        ASSERT_EQ_STR(elements("[1]"), "<1>");
        ASSERT_EQ_STR(elements(" [ {\"a\":[1,2]} , \"x,]\",[ ] ,null]"),
                      "<{\"a\":[1,2]}><\"x,]\"><[ ]><null>");
        ASSERT_EQ_STR(elements("{}"), "!74");
        ASSERT_EQ_STR(elements(""), "!74");
        ASSERT_EQ_STR(elements("[1"), "!74");
        ASSERT_EQ_STR(elements("[1,]"), "<1>!74");
        ASSERT_EQ_STR(elements("[,1]"), "!74");
        ASSERT_EQ_STR(elements("[1}"), "!74");
}

TEST(any_bytes_are_survived) {
        static const char letters[] = "{}[]\",:\\idu0 1";
        uint64_t state = 1;
        char text[40];

        for (int round = 0; round < 200000; round++) {
                size_t n = test_random(&state) % sizeof(text), pos = 0, n_raw;
                const char *raw;

                for (size_t i = 0; i < n; i++)
                        text[i] = letters[test_random(&state) % (sizeof(letters) - 1)];
                if (json_raw_member(text, n, "id", &raw, &n_raw) > 0)
                        ASSERT_TRUE(raw >= text && n_raw > 0 && raw + n_raw <= text + n);
                while (json_raw_next_element(text, n, &pos, &raw, &n_raw) > 0)
                        ASSERT_TRUE(raw >= text && n_raw > 0 && raw + n_raw <= text + n);
        }
}

TEST(raw_and_parsed_members_agree_on_valid_text) {
        static const char letters[] = "{}[]\",:1a ";
        uint64_t state = 2;
        char text[24];
        unsigned n_valid = 0;

        for (int round = 0; round < 3000000 && n_valid < 300; round++) {
                size_t n = 7 + test_random(&state) % (sizeof(text) - 8), n_raw;
                JsonValue *v = NULL;
                const char *raw;

                memcpy(text, "{\"a\":", 5);
                for (size_t i = 5; i < n - 1; i++)
                        text[i] = letters[test_random(&state) % (sizeof(letters) - 1)];
                text[n - 1] = '}';
                if (json_parse(text, n, &v) != 0)
                        continue;
                n_valid++;
                ASSERT_EQ_INT(json_raw_member(text, n, "a", &raw, &n_raw), 1);
                ASSERT_EQ_INT(json_check(raw, n_raw), 0);
                json_free(v);
        }
        ASSERT_EQ_UINT(n_valid, 300);
}
