/* SPDX-License-Identifier: MIT */

#include "files.h"
#include "json/json.h"
#include "test.h"
#include "tool/clean.h"
#include "tool/packages.h"
#include "tool/result.h"

typedef struct Setup {
        Settings *settings;
        Capture out, err;
        ExecResult result;
        Buffer content, structured;
} Setup;

static Setup* setup_new(void) {
        static Setup s;

        s = (Setup) { .content = BUFFER_INIT(0), .structured = BUFFER_INIT(0) };
        ASSERT_EQ_INT(settings_new_default(&s.settings), 0);
        capture_init(&s.out, MIB);
        capture_init(&s.err, MIB);
        s.result = (ExecResult){
                .run_id = "r",
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = &s.out,
                .err = &s.err,
                .status = EXEC_OK,
                .did_run = true,
                .duration_usec = 5000000,
        };
        return &s;
}

static void setup_free(Setup *s) {
        settings_free(s->settings);
        capture_done(&s->out);
        capture_done(&s->err);
        buffer_done(&s->content);
        buffer_done(&s->structured);
}

static const char* written(Setup *s) {
        buffer_done(&s->content);
        buffer_done(&s->structured);
        ASSERT_EQ_INT(result_write(&s->result, s->settings, &s->content, &s->structured), 0);
        return s->structured.data;
}

TEST(every_key_is_written_when_it_is_known) {
        char *hints[] = { (char*) "one", (char*) "two", NULL };
        Setup *s = setup_new();

        ASSERT_EQ_INT(capture_push(&s->err, "e", 1), 0);
        s->result.status = EXEC_SIGNAL;
        s->result.signal = 11;
        s->result.exit_code = 139;
        s->result.cpu_usec = 12999;
        s->result.memory_peak_bytes = UINT64_C(5000000000);
        s->result.message = (char*) "It crashed.";
        s->result.hints = hints;
        ASSERT_EQ_STR(written(s),
                      "{\"stdout\":\"\",\"stderr\":\"e\",\"exit_code\":139,\"duration_ms\":5000,"
                      "\"truncated\":false,"
                      "\"timed_out\":false,\"status\":\"signal\",\"signal\":\"SIGSEGV\",\"message\":\"It "
                      "crashed.\","
                      "\"hints\":[\"one\",\"two\"],\"run_id\":\"r\",\"stdout_bytes\":0,\"stderr_bytes\":1,"
                      "\"usage\":{\"cpu_ms\":12,\"memory_peak_bytes\":5000000000}}");
        setup_free(s);
}

TEST(timeout_is_told_twice_and_a_nameless_signal_by_number) {
        Setup *s = setup_new();

        s->result.status = EXEC_TIMEOUT;
        s->result.exit_code = -1;
        ASSERT_CONTAINS(written(s), "\"exit_code\":-1,\"duration_ms\":5000,\"truncated\":false,\"timed_"
                                    "out\":true,\"status\":\"timeout\"");
        s->result.status = EXEC_SIGNAL;
        s->result.signal = 40;
        ASSERT_CONTAINS(written(s), "\"signal\":\"signal 40\"");
        setup_free(s);
}

TEST(text_is_the_same_json) {
        Setup *s = setup_new();
        JsonValue *content = NULL;
        const char *text;

        ASSERT_EQ_INT(capture_push(&s->out, "a\0\x1b\xff\"\\\n", 7), 0);
        (void) written(s);
        ASSERT_EQ_INT(json_parse(s->content.data, s->content.n_bytes, &content), 0);
        ASSERT_TRUE(json_get_string(json_member(json_element(content, 0), "text"), &text, NULL));
        ASSERT_EQ_STR(text, s->structured.data);
        ASSERT_CONTAINS(text, "\"stdout\":\"a\\u0000\\u001b\xef\xbf\xbd\\\"\\\\\\n\"");
        json_free(content);
        setup_free(s);
}

TEST(long_output_shows_head_and_tail_and_says_how_much_is_missing) {
        Setup *s = setup_new();
        const char *text;

        s->settings->max_reply_chars = 200;
        for (int i = 0; i < 1000; i++) {
                char line[16];

                ASSERT_EQ_INT(
                        capture_push(&s->out, line, (size_t) snprintf(line, sizeof(line), "%04d\n", i)), 0);
        }
        text = written(s);
        ASSERT_CONTAINS(text, "{\"stdout\":\"0000\\n0001\\n");
        ASSERT_CONTAINS(text, " bytes left out …]\\n");
        ASSERT_CONTAINS(text, "0998\\n0999\\n\",\"stderr\":\"\"");
        ASSERT_CONTAINS(text, "\"truncated\":true");
        ASSERT_CONTAINS(text, "\"stdout_bytes\":5000");
        setup_free(s);
}

TEST(a_flood_on_one_stream_leaves_the_other_whole) {
        Setup *s = setup_new();
        static char big[300000];

        memset(big, 'e', sizeof(big));
        ASSERT_EQ_INT(capture_push(&s->err, big, sizeof(big)), 0);
        ASSERT_EQ_INT(capture_push(&s->out, "still here\n", 11), 0);
        ASSERT_CONTAINS(written(s), "{\"stdout\":\"still here\\n\",\"stderr\":\"eee");
        setup_free(s);
}

TEST(reply_stays_below_its_limit_whatever_the_bytes_and_settings) {
        static const char *const fillers[] = { "\x01",
                                               "\xff",
                                               "\377a",
                                               "\xf0\x9f\x98\x80",
                                               "\"",
                                               "\\",
                                               "x",
                                               "\n",
                                               "é" };
        static const uint64_t shown[] = { 100, 40000, 240000 };

        for (size_t i = 0; i < ELEMENTSOF(fillers); i++)
                for (size_t k = 0; k <= ELEMENTSOF(shown); k++) {
                        Setup *s = setup_new();
                        size_t n = strlen(fillers[i]), total;

                        if (k < ELEMENTSOF(shown))
                                s->settings->max_reply_chars = shown[k];
                        else
                                s->settings->has_output_limit_override = true;
                        for (size_t m = 0; m < MIB; m += n) {
                                ASSERT_EQ_INT(capture_push(&s->out, fillers[i], n), 0);
                                ASSERT_EQ_INT(capture_push(&s->err, fillers[i], n), 0);
                        }
                        (void) written(s);
                        total = s->content.n_bytes + s->structured.n_bytes;
                        ASSERT_TRUE(total <= RESULT_BYTES_MAX);
                        ASSERT_EQ_INT(json_check(s->structured.data, s->structured.n_bytes),
                                      json_check("\"\"", 2));
                        /* Nor is it cut to nothing. */
                        if (k >= 2)
                                ASSERT_TRUE(total >
                                            (streq(fillers[i], "\xff") ? 100 : RESULT_BYTES_MAX / 3));
                        setup_free(s);
                }
}

TEST(explicit_output_limit_bounds_what_is_shown_in_bytes) {
        Setup *s = setup_new();
        JsonValue *v = NULL;
        const char *text;
        size_t n;

        s->settings->has_output_limit_override = true;
        s->settings->max_output_bytes = 1024;
        for (int i = 0; i < 50000; i++)
                ASSERT_EQ_INT(capture_push(&s->out, "é", 2), 0);
        (void) written(s);
        ASSERT_EQ_INT(json_parse(s->structured.data, s->structured.n_bytes, &v), 0);
        ASSERT_TRUE(json_get_string(json_member(v, "stdout"), &text, &n));
        ASSERT_TRUE(n <= 1024 && n > 900);
        json_free(v);
        setup_free(s);
}

TEST(endless_sentences_are_cut) {
        char *hints[20] = {}, *long_text = malloc(100001);
        Setup *s = setup_new();

        ASSERT_TRUE(long_text != NULL);
        memset(long_text, 1, 100000);
        long_text[100000] = '\0';
        for (size_t i = 0; i < 19; i++)
                hints[i] = long_text;
        s->result.message = long_text;
        s->result.hints = hints;
        ASSERT_TRUE(strlen(written(s)) < 20000);
        free(long_text);
        setup_free(s);
}

TEST(clean_words_have_no_control_characters_and_are_whole) {
        static const struct {
                const char *text;
                size_t max;
                const char *clean;
        } cases[] = {
                { "plain é 😀", 100, "plain é 😀" },
                { "a\nb\x1b[0m\x7f\t", 100, "a b [0m  " },
                { "\xc2\x85\xc2\x9f\xc2\xa0", 100, "  \xc2\xa0" },
                { "\xff\xc3", 100, "\xef\xbf\xbd\xef\xbf\xbd" },
                { "aé", 2, "a" },
                { "aé", 3, "aé" },
                { "", 5, "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *s = NULL;

                ASSERT_EQ_INT(clean_copy(cases[i].text, cases[i].max, &s), 0);
                ASSERT_EQ_STR(s, cases[i].clean);
        }
}

/* ---- Packages ---- */

static void make_directories(int fd, const char *path) {
        char copy[200];

        (void) snprintf(copy, sizeof(copy), "%s", path);
        for (char *p = strchr(copy, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                (void) mkdirat(fd, copy, 0700);
                *p = '/';
        }
        ASSERT_TRUE(mkdirat(fd, copy, 0700) == 0);
}

TEST(packages_are_found_where_pythons_keep_them_each_once_and_sorted) {
        static const char *const directories[] = {
                "usr/lib/python3/dist-packages/PyYAML-6.0.dist-info",
                "usr/lib/python3/dist-packages/six-1.16.0.egg-info",
                "usr/lib/python3/dist-packages/cryptography.egg-info",
                "usr/lib/python3/dist-packages/cryptography-38.0.4.dist-info",
                "usr/lib/python3/dist-packages/zope.interface-5.5.2.egg-info",
                "usr/lib/python3/dist-packages/old-name-2.0-py3.11.egg-info",
                "usr/lib/python3/dist-packages/noversion.egg-info",
                "usr/lib/python3/dist-packages/kiwisolver-0.0.0.dist-info",
                "usr/lib/python3/dist-packages/not_a_package",
                "usr/lib/python3/dist-packages/.dist-info",
                "usr/lib/python3/dist-packages/bad name-1.0.dist-info",
                "usr/lib/python3.11/site-packages/numpy-1.24.2.dist-info",
                "usr/lib/python3.11-config/site-packages/hidden-1.dist-info",
                "usr/lib64/python3.13/site-packages/Pillow-9.4.0.egg-info",
                "usr/local/lib/python3.11/dist-packages/pyyaml-5.4.dist-info",
                "usr/local/lib/python2.7/dist-packages/ancient-1.dist-info",
        };
        _cleanup_tree_ char *root = make_tree();
        _cleanup_close_ int fd = -EBADF;
        _cleanup_strv_ char **l = NULL;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_EQ_INT(tool_packages_scan_at(fd, &l), 0);
        ASSERT_TRUE(l == NULL);
        for (size_t i = 0; i < ELEMENTSOF(directories); i++)
                make_directories(fd, directories[i]);
        ASSERT_EQ_INT(tool_packages_scan_at(fd, &l), 0);
        STRV_FOREACH(s, l)
                ASSERT_EQ_INT(buffer_printf(&b, "%s;", *s), 0);
        ASSERT_EQ_STR(b.data, "cryptography 38.0.4;kiwisolver;noversion;numpy 1.24.2;old-name 2.0;Pillow "
                                      "9.4.0;pyyaml 5.4;six 1.16.0;"
                                      "zope.interface 5.5.2;");
}
