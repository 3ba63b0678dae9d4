/* SPDX-License-Identifier: MIT */

#include "base/buffer.h"
#include "base/conf-file.h"
#include "base/macro.h"
#include "files.h"
#include "test.h"

/* Notes every assignment as "[section]key=value;", that of Place by its place. The keys Bad and Memory
 * fail. */
static int note(const char *section, const char *key, const char *value, const char *place, void *userdata,
                char **reterr_reason) {
        if (streq(key, "Place"))
                return buffer_printf(userdata, "%s;", place);
        if (streq(key, "Bad"))
                return str_copy(reterr_reason, "it is bad") < 0 ? -ENOMEM : -EINVAL;
        if (streq(key, "Memory"))
                return -ENOMEM;
        return buffer_printf(userdata, "[%s]%s=%s;", section, key, value);
}

TEST(conf_parse_reads_what_systemd_would_read) {
        static const struct {
                const char *text, *notes;
        } rows[] = {
                { "", "" },
                { "\n \n", "" },
                { "[A]\nk=v\n", "[A]k=v;" },
                { "[A]\nk=v", "[A]k=v;" },
                { "[A]\r\nk=v\r\n", "[A]k=v;" },
                { "# c\n; c\n[A]\n  # c\n k = v \t\n", "[A]k=v;" },
                { "[A]\nk=\n", "[A]k=;" },
                { "[A]\nk=a=b # no comment\n", "[A]k=a=b # no comment;" },
                { "[A]\nk=1\n[B]\nk=2\n[A]\nk=3\n", "[A]k=1;[B]k=2;[A]k=3;" },
                { "[A]\nk=a\\\n  b\\\n\tc\nl=d\n", "[A]k=a   b \tc;[A]l=d;" },
                { "[A]\nk=a\\\n# between\nb\n", "[A]k=a b;" },
                { "[A]\n# comment \\\nk=v\n", "[A]k=v;" },
                { "[A]\nk=a\\", "[A]k=a;" },
                { "[A]\nk=a\\\\\nb\n", "[A]k=a\\ b;" },
                { "[A]\nk=\xc3\xbc\n", "[A]k=\xc3\xbc;" },
                { "[A B]\nk=v\n", "[A B]k=v;" },
                { "[A]\n\nPlace=\\\nv\n", "f:3;" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
                _cleanup_free_ char *message = NULL;

                ASSERT_EQ_INT(buffer_append_str(&notes, ""), 0);
                if (conf_parse("f", rows[i].text, note, &notes, &message) != 0)
                        FAIL("row %zu: %s", i, message);
                ASSERT_EQ_STR(notes.data, rows[i].notes);
        }
}

TEST(conf_parse_names_file_line_and_fault) {
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "k=v\n", "f:1: an assignment must follow a [Section] header" },
                { "\n\n[A]\n\nword\n", "f:5: expected Key=value, [Section] or # comment" },
                { "[A]\n=v\n", "f:2: there is no key before '='" },
                { "[A\n", "f:1: a section header looks like [Section]" },
                { "[]\n", "f:1: a section header looks like [Section]" },
                { "[A]x\n", "f:1: a section header looks like [Section]" },
                { "[A]\nk=1\nBad=1\n", "f:3: it is bad" },
                { "[A]\nk=1\\\n2\nBad=\\\n\\\n1\n", "f:4: it is bad" }, /* where the line begins */
                { "[A]\nBad=\\\n# c\n\\", "f:2: it is bad" },
                { "[A]\nk=\x01\n", "f:2: the line contains bytes that are not text" },
                { "[A]\nk=\xff\n", "f:2: the line contains bytes that are not text" },
                { "[A]\nk=\x7f\n", "f:2: the line contains bytes that are not text" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
                _cleanup_free_ char *message = NULL;

                ASSERT_EQ_INT(conf_parse("f", rows[i].text, note, &notes, &message), -EBADMSG);
                ASSERT_EQ_STR(message, rows[i].message);
        }
}

TEST(conf_parse_passes_other_errors_on_without_message) {
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *message = NULL;

        ASSERT_EQ_INT(conf_parse("f", "[A]\nMemory=1\n", note, &notes, &message), -ENOMEM);
        ASSERT_EQ_STR(message, NULL);
}

/* Reads from TREE/1 and TREE/2, in this order. */
static int read_tree(const char *tree, Buffer *notes, char **reterr_message) {
        _cleanup_free_ char *first = NULL, *second = NULL;

        ASSERT_EQ_INT(str_printf(&first, "%s/1", tree), 0);
        ASSERT_EQ_INT(str_printf(&second, "%s/2", tree), 0);
        ASSERT_EQ_INT(buffer_append_str(notes, ""), 0);
        return conf_read((const char*[]) { first, second, NULL }, "x.conf", note, notes, reterr_message);
}

TEST(conf_read_of_nothing_is_no_error) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *message = NULL;

        ASSERT_EQ_INT(read_tree(tree, &notes, &message), 0);
        ASSERT_EQ_STR(notes.data, "");
}

TEST(conf_read_takes_the_first_main_file_and_all_drop_ins_by_name) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *message = NULL;

        put_file(tree, "1/x.conf", "[A]\nk=main1\n");
        put_file(tree, "2/x.conf", "[A]\nk=main2\n");
        put_file(tree, "1/x.conf.d/50-b.conf", "[A]\nk=50-1\n");
        put_file(tree, "1/x.conf.d/20-a.conf", "[A]\nk=20-1\n");
        put_file(tree, "2/x.conf.d/30-c.conf", "[A]\nk=30-2\n");
        put_file(tree, "2/x.conf.d/50-b.conf", "[A]\nk=50-2\n"); /* hidden by the first directory's */
        put_file(tree, "2/x.conf.d/40-not.conf.bak", "[A]\nk=no\n");
        put_file(tree, "2/x.conf.d/.40-not.conf", "[A]\nk=no\n");
        put_file(tree, "2/x.conf.d/.conf", "[A]\nk=no\n");
        ASSERT_EQ_INT(read_tree(tree, &notes, &message), 0);
        ASSERT_EQ_STR(notes.data, "[A]k=main1;[A]k=20-1;[A]k=30-2;[A]k=50-1;");
}

TEST(conf_read_lets_null_links_and_empty_files_mask) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *message = NULL;

        put_file(tree, "2/x.conf", "[A]\nk=main2\n");
        put_file(tree, "2/x.conf.d/10.conf", "[A]\nk=10\n");
        put_file(tree, "2/x.conf.d/20.conf", "[A]\nk=20\n");
        put_file(tree, "2/x.conf.d/30.conf", "[A]\nk=30\n");
        put_file(tree, "1/x.conf.d/20.conf", "");
        put_link(tree, "1/x.conf", "/dev/null");
        put_link(tree, "1/x.conf.d/10.conf", "/dev/null");
        ASSERT_EQ_INT(read_tree(tree, &notes, &message), 0);
        ASSERT_EQ_STR(notes.data, "[A]k=30;");
}

TEST(conf_read_refuses_files_it_cannot_read_as_text) {
        static char large[1024 * 1024 + 1];
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *nul = NULL, *size = NULL, *directory = NULL, *fifo = NULL, *path = NULL;

        put_bytes(tree, "1/x.conf", "[A]\nk=\0\n", 8);
        ASSERT_EQ_INT(read_tree(tree, &notes, &nul), -EBADMSG);
        ASSERT_CONTAINS(nul, "/1/x.conf: the file contains a NUL byte");

        memset(large, '\n', sizeof(large));
        put_bytes(tree, "1/x.conf", large, sizeof(large));
        ASSERT_EQ_INT(read_tree(tree, &notes, &size), -EBADMSG);
        ASSERT_CONTAINS(size, "/1/x.conf: the file is larger than 1M");

        put_file(tree, "1/x.conf", "");
        put_file(tree, "1/x.conf.d/10.conf/file", "");
        ASSERT_EQ_INT(read_tree(tree, &notes, &directory), -EBADMSG);
        ASSERT_CONTAINS(directory, "/1/x.conf.d/10.conf: not a regular file");

        ASSERT_EQ_INT(str_printf(&path, "%s/1/x.conf.d/05.conf", tree), 0);
        ASSERT_EQ_INT(mkfifo(path, 0600), 0);
        ASSERT_EQ_INT(read_tree(tree, &notes, &fifo), -EBADMSG); /* and does not wait for a writer */
        ASSERT_CONTAINS(fifo, "/1/x.conf.d/05.conf: not a regular file");
}

TEST(conf_read_stops_at_the_fault_with_its_place) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_buffer_ Buffer notes = BUFFER_INIT(0);
        _cleanup_free_ char *message = NULL, *expected = NULL;

        put_file(tree, "2/x.conf", "[A]\nk=v\n");
        put_file(tree, "2/x.conf.d/10.conf", "[A]\n\nBad=1\n");
        ASSERT_EQ_INT(read_tree(tree, &notes, &message), -EBADMSG);
        ASSERT_EQ_INT(str_printf(&expected, "%s/2/x.conf.d/10.conf:3: it is bad", tree), 0);
        ASSERT_EQ_STR(message, expected);
}
