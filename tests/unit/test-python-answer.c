/* SPDX-License-Identifier: MIT */

/* What the programs in the units may say, and what is not believed. */

#include "base/strv.h"
#include "python/answer.h"
#include "test.h"

#define LOCK "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const GrammarPolicy strict = {};

static int read_parse(const char *text, Parsed **ret) {
        _cleanup_json_ JsonValue *v = NULL;

        ASSERT_EQ_INT(json_parse(text, strlen(text), &v), 0);
        return answer_read_parse(v, &strict, ret);
}

#define PARSE(findings, requirements, interpreter, version, tool_uv)                                        \
        "{\"findings\": [" findings "], \"requirements\": [" requirements                                   \
        "], \"requires_python\": \">=3.11\","                                                               \
        " \"interpreter\": " interpreter ", \"interpreter_version\": \"" version "\","                      \
        " \"interpreters\": [{\"index\": 0, \"version\": \"3.13.5\"}, {\"index\": 2, \"version\": "         \
        "\"3.11.2\"}],"                                                                                     \
        " \"tool_uv\": {" tool_uv "}}"
#define ERROR                                                                                               \
        "{\"severity\": \"error\", \"kind\": \"toml\", \"line\": 3, \"column\": 7, \"message\": \"No.\"}"
#define WARNING                                                                                             \
        "{\"severity\": \"warning\", \"kind\": \"metadata\", \"line\": 0, \"column\": 0, \"message\": "     \
        "\"Hm.\"}"

TEST(answer_of_parse) {
        _cleanup_(parsed_unrefp) Parsed *p = NULL;

        ASSERT_EQ_INT(read_parse(PARSE(WARNING, "\"a==1\", \"b\"", "2", "3.11.2",
                                       "\"resolution\": \"lowest\", \"constraint-dependencies\": [\"c<2\"]"),
                                 &p),
                      0);
        ASSERT_TRUE(p->is_valid);
        ASSERT_EQ_UINT(p->n_findings, 1);
        ASSERT_EQ_INT(p->findings[0].severity, PYTHON_WARNING);
        ASSERT_EQ_STR(p->findings[0].kind, "metadata");
        ASSERT_EQ_STR(p->findings[0].message, "Hm.");
        ASSERT_EQ_STR(p->requirements[0], "a==1");
        ASSERT_EQ_STR(p->requirements[1], "b");
        ASSERT_TRUE(p->requirements[2] == NULL);
        ASSERT_EQ_STR(p->requires_python, ">=3.11");
        ASSERT_EQ_INT(p->interpreter, 2);
        ASSERT_EQ_STR(p->interpreter_version, "3.11.2");
        ASSERT_EQ_STR(p->versions[0], "3.13.5");
        ASSERT_EQ_STR(p->versions[1], "");
        ASSERT_EQ_STR(p->tool_uv, "{\"resolution\":\"lowest\",\"constraint-dependencies\":[\"c<2\"]}");
}

TEST(answer_of_parse_with_an_interpreter_to_be_brought) {
        _cleanup_(parsed_unrefp) Parsed *p = NULL, *q = NULL;
        static const GrammarPolicy downloads = { .allows_python_downloads = true };
        _cleanup_json_ JsonValue *v = NULL;
        const char *text = PARSE("", "", "0", "3.13.5", "\"python\": \">=3.12,==3.12.*\"");

        ASSERT_EQ_INT(json_parse(text, strlen(text), &v), 0);
        ASSERT_EQ_INT(answer_read_parse(v, &downloads, &p), 0);
        ASSERT_TRUE(p->needs_python);
        ASSERT_EQ_STR(p->tool_uv, "{\"python\":\">=3.12,==3.12.*\"}");

        ASSERT_EQ_INT(answer_read_parse(v, &strict, &q), -EBADMSG);
        ASSERT_EQ_INT(read_parse(PARSE("", "", "0", "3.13.5", ""), &q), 0);
        ASSERT_TRUE(!q->needs_python);
}

TEST(answer_of_parse_that_refuses) {
        _cleanup_(parsed_unrefp) Parsed *p = NULL, *q = NULL;

        ASSERT_EQ_INT(read_parse(PARSE(WARNING ", " ERROR, "", "0", "3.13.5", ""), &p), 0);
        ASSERT_TRUE(!p->is_valid);
        ASSERT_EQ_UINT(p->findings[1].line, 3);
        ASSERT_EQ_UINT(p->findings[1].column, 7);
        ASSERT_EQ_INT(read_parse(PARSE(ERROR, "", "-1", "", ""), &q), 0);
        ASSERT_EQ_INT(q->interpreter, -1);
}

TEST(answer_of_parse_that_is_not_believed) {
        static const char *const bad[] = {
                "{}",
                "{\"findings\": []}",
                PARSE("", "\"--index-url=x\"", "0", "3.13.5", ""),
                PARSE("", "\"a\\nb\"", "0", "3.13.5", ""),
                PARSE("", "\"a @ https://x/y\"", "0", "3.13.5", ""),
                PARSE("", "1", "0", "3.13.5", ""),
                PARSE("", "", "-1", "", ""), /* valid without an interpreter */
                PARSE("", "", "8", "3.13.5", ""),
                PARSE("", "", "-2", "", ""),
                PARSE("", "", "0", "", ""),
                PARSE("", "", "0", "../..", ""),
                PARSE("", "", "\"0\"", "3.13.5", ""),
                PARSE("", "", "0", "3.13.5", "\"index-url\": \"https://x\""),
                PARSE("", "", "0", "3.13.5", "\"resolution\": \"--x y\""),
                PARSE("", "", "0", "3.13.5", "\"resolution\": 1"),
                PARSE("", "", "0", "3.13.5", "\"constraint-dependencies\": [\"-r x\"]"),
                PARSE("{\"severity\": \"fatal\", \"kind\": \"a\", \"line\": 1, \"column\": 1, \"message\": "
                      "\"x\"}",
                      "", "0", "3.13.5", ""),
                PARSE("{\"severity\": \"error\", \"kind\": \"A B\", \"line\": 1, \"column\": 1, "
                      "\"message\": \"x\"}",
                      "", "0", "3.13.5", ""),
                PARSE("{\"severity\": \"error\", \"kind\": \"a\", \"line\": -1, \"column\": 1, \"message\": "
                      "\"x\"}",
                      "", "0", "3.13.5", ""),
                PARSE("{\"severity\": \"error\", \"kind\": \"a\", \"line\": 1, \"column\": 1, \"message\": "
                      "\"x\\ny\"}",
                      "", "0", "3.13.5", ""),
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                Parsed *p = NULL;

                if (read_parse(bad[i], &p) != -EBADMSG)
                        FAIL("case %zu: %s", i, bad[i]);
        }
}

static int read_fetch(const char *text, Fetched *ret) {
        _cleanup_json_ JsonValue *v = NULL;

        ASSERT_EQ_INT(json_parse(text, strlen(text), &v), 0);
        return answer_read_fetch(v, ret);
}

TEST(answer_of_fetch) {
        _cleanup_(fetched_done) Fetched f = {};

        ASSERT_EQ_INT(read_fetch("{\"lock_sha256\": \"" LOCK
                                 "\", \"is_known\": true, \"warnings\": [\"Old.\"]}",
                                 &f),
                      0);
        ASSERT_EQ_STR(f.lock, LOCK);
        ASSERT_TRUE(f.is_known);
        ASSERT_EQ_STR(f.warnings[0], "Old.");
}

TEST(answer_of_fetch_that_is_not_believed) {
        static const char *const bad[] = {
                "{}",
                "{\"lock_sha256\": \"../" LOCK "\", \"is_known\": true, \"warnings\": []}",
                "{\"lock_sha256\": \"ABC\", \"is_known\": true, \"warnings\": []}",
                "{\"lock_sha256\": \"" LOCK "\", \"is_known\": 1, \"warnings\": []}",
                "{\"lock_sha256\": \"" LOCK "\", \"is_known\": true}",
                "{\"lock_sha256\": \"" LOCK "\", \"is_known\": true, \"warnings\": [\"a\\u001b[31m\"]}",
                "{\"lock_sha256\": \"" LOCK "\", \"is_known\": true, \"warnings\": {}}",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                Fetched f;

                if (read_fetch(bad[i], &f) != -EBADMSG)
                        FAIL("case %zu: %s", i, bad[i]);
        }
}

TEST(errors_have_a_kind_and_a_sentence) {
        static const char *const bad[] = {
                "{\"error\": 1}",
                "{\"error\": {}}",
                "{\"error\": {\"kind\": \"a\"}}",
                "{\"error\": {\"kind\": \"a\", \"message\": \"\"}}",
                "{\"error\": {\"kind\": \"a b\", \"message\": \"x\"}}",
                "{\"error\": {\"kind\": \"a\", \"message\": \"x\\ny\"}}",
                "{\"error\": null}",
        };
        static const char fine[] =
                "{\"error\": {\"kind\": \"no-wheel\", \"message\": \"There is no wheel.\"}}";
        const char *kind, *message;
        JsonValue *v;

        ASSERT_EQ_INT(json_parse(fine, strlen(fine), &v), 0);
        ASSERT_EQ_INT(answer_read_error(v, &kind, &message), 1);
        ASSERT_EQ_STR(kind, "no-wheel");
        ASSERT_EQ_STR(message, "There is no wheel.");
        (void) json_free(v);
        ASSERT_EQ_INT(json_parse("{\"x\": 1}", 8, &v), 0);
        ASSERT_EQ_INT(answer_read_error(v, &kind, &message), 0);
        (void) json_free(v);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                ASSERT_EQ_INT(json_parse(bad[i], strlen(bad[i]), &v), 0);
                if (answer_read_error(v, &kind, &message) != -EBADMSG)
                        FAIL("case %zu: %s", i, bad[i]);
                (void) json_free(v);
        }
}

TEST(hosts_for_the_journal_are_names_and_addresses_only) {
        static const struct {
                const char *hosts, *text;
        } cases[] = {
                { "[{\"host\": \"index.example\", \"address\": \"10.0.0.1\"}]", "index.example (10.0.0.1)" },
                { "[{\"host\": \"a_b.org\", \"address\": \"fd00::1\"},"
                  " {\"host\": \"::1\", \"address\": \"::1\"}]", "a_b.org (fd00::1), ::1" },
                { "[]", NULL },
                { "{}", NULL },
                { "[1]", NULL },
                { "[{\"host\": \"\", \"address\": \"::1\"}]", NULL },
                { "[{\"host\": \"a b\", \"address\": \"::1\"}]", NULL },
                { "[{\"host\": \"a\\n\", \"address\": \"::1\"}]", NULL },
                { "[{\"host\": \"a\"}]", NULL },
                { "[{\"host\": \"a\", \"address\": \"a\"}]", NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_buffer_ Buffer text = BUFFER_INIT(0), answer = BUFFER_INIT(0);
                JsonValue *v;
                int r;

                r = buffer_printf(&answer, "{\"error\": {\"internal_hosts\": %s}}", cases[i].hosts);
                ASSERT_EQ_INT(r, 0);
                ASSERT_EQ_INT(json_parse(answer.data, answer.n_bytes, &v), 0);
                r = answer_read_internal_hosts(v, &text);
                if (r != !!cases[i].text)
                        FAIL("case %zu: %d", i, r);
                if (r == 1)
                        ASSERT_EQ_STR(text.data, cases[i].text);
                (void) json_free(v);
        }
}

#define SET(python, version, lock, packages)                                                                \
        "{\"version\": 1, \"python\": \"" python "\", \"python_version\": \"" version                       \
        "\", \"requirements\": "                                                                            \
        "[\"a\"], \"lock_sha256\": \"" lock "\", \"packages\": [" packages                                  \
        "], \"size_bytes\": 5, \"n_files\": 6,"                                                             \
        " \"console_scripts\": [], \"created_usec\": 7}"

TEST(facts_of_a_set) {
        static const char text[] =
                SET("/usr/bin/python3", "3.13.5", LOCK, "{\"name\": \"a\", \"version\": \"1.0\"}");
        _cleanup_(set_facts_done) SetFacts f = {};

        ASSERT_EQ_INT(answer_read_set(text, strlen(text), &f), 0);
        ASSERT_EQ_STR(f.python, "/usr/bin/python3");
        ASSERT_EQ_STR(f.set.packages[0], "a 1.0");
        ASSERT_EQ_STR(f.set.requirements[0], "a");
        ASSERT_EQ_STR(f.set.interpreter_version, "3.13.5");
        ASSERT_TRUE(!f.set.has_own_interpreter);
        ASSERT_EQ_UINT(f.set.size_bytes, 5);
        ASSERT_EQ_UINT(f.set.n_files, 6);
        ASSERT_EQ_UINT(f.set.created_usec, 7);
}

TEST(set_with_an_interpreter_of_its_own) {
        static const struct {
                const char *own;
                int r;
        } cases[] = {
                { "\"3.12.8\"", 0 },
                { "\"3.12\\n\"", -EBADMSG },
                { "\"x\"", -EBADMSG },
                { "3", -EBADMSG },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(set_facts_done) SetFacts f = {};
                _cleanup_free_ char *text = NULL;

                ASSERT_EQ_INT(str_printf(&text, "{\"own_python_version\": %s, %s", cases[i].own,
                                         &SET("/usr/bin/python3", "3.13.5", LOCK, "")[1]), 0);
                ASSERT_EQ_INT(answer_read_set(text, strlen(text), &f), cases[i].r);
                if (cases[i].r == 0) {
                        ASSERT_TRUE(f.set.has_own_interpreter);
                        ASSERT_EQ_STR(f.set.interpreter_version, "3.12.8");
                        ASSERT_EQ_STR(f.python_version, "3.13.5"); /* its name is made of this one */
                }
        }
}

TEST(facts_of_a_set_that_are_not_believed) {
        static const char *const bad[] = {
                "",
                "[]",
                "null",
                "{",
                "{}",
                SET("/usr/bin/python3", "3.13.5", "x", ""),
                SET("/usr/bin/python3", "x", LOCK, ""),
                SET("/usr\\n/bin", "3.13.5", LOCK, ""),
                SET("/usr/bin/python3", "3.13.5", LOCK, "1"),
                SET("/usr/bin/python3", "3.13.5", LOCK, "{\"name\": \"a\"}"),
                SET("/usr/bin/python3", "3.13.5", LOCK, "{\"name\": \"a\\u0007\", \"version\": \"1\"}"),
                SET("/usr/bin/python3", "3.13.5", LOCK, "") " ",
                SET("/usr/bin/python3", "3.13.5", LOCK, "") "x",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                SetFacts f = {};
                int r = answer_read_set(bad[i], strlen(bad[i]), &f);

                if (i == 11 ? r != 0 : r != -EBADMSG)
                        FAIL("case %zu: %d", i, r);
                set_facts_done(&f);
        }
}

TEST(name_of_a_set_is_of_interpreter_and_lock) {
        char a[SHA256_HEX_CHARS + 1], b[SHA256_HEX_CHARS + 1];

        ASSERT_EQ_INT(set_name("/usr/bin/python3", "3.13.5", LOCK, a), 0);
        ASSERT_EQ_INT(set_name("/usr/bin/python3", "3.13.7", LOCK, b), 0);
        ASSERT_EQ_STR(a, b);
        ASSERT_EQ_INT(set_name("/usr/bin/python3", "3.14.0", LOCK, b), 0);
        ASSERT_TRUE(strcmp(a, b) != 0);
        ASSERT_EQ_INT(set_name("/usr/bin/python3.13", "3.13.5", LOCK, b), 0);
        ASSERT_TRUE(strcmp(a, b) != 0);
        ASSERT_EQ_INT(set_name("/usr/bin/python3", "3", LOCK, b), 0);
        ASSERT_TRUE(strcmp(a, b) != 0);
}
