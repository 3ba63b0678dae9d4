/* SPDX-License-Identifier: MIT */

/* The files of a run in its result: what is text, what an image, what fits, and what is said of the rest. */

#include "base/base64.h"
#include "json/json.h"
#include "test.h"
#include "tool/file-kind.h"
#include "tool/result.h"

#define DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define PNG_HEAD "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
#define PNG_TAIL "\x8\2\0\0\0\1\2\3\4\0\0\0\0IEND\xae\x42\x60\x82"
#define PNG_SIDE(n) "\0\0" n
#define JPEG_HEAD "\xff\xd8\xff\xe0\0\4JJ"
#define JPEG_SIDES(height, width) "\xff\xc0\0\x0b\x8" height width "\1\1\x11\0"
#define WEBP(chunk) "RIFF\x16\0\0\0WEBP" chunk "\0\0\0\0"
static const char png[] = PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\x1f\x40") PNG_TAIL;

typedef struct Setup {
        Settings *settings;
        Capture out, err;
        ExecFile items[EXEC_FILES_MAX];
        ExecFiles files;
        ExecResult result;
        Buffer content, structured;
} Setup;

static Setup* setup_new(void) {
        static Setup s;

        s = (Setup) { .content = BUFFER_INIT(0), .structured = BUFFER_INIT(0), .files.items = s.items };
        ASSERT_EQ_INT(settings_new_default(&s.settings), 0);
        capture_init(&s.out, MIB);
        capture_init(&s.err, MIB);
        s.result = (ExecResult) {
                .run_id = "r",
                .cpu_usec = WIRE_UNKNOWN,
                .memory_peak_bytes = WIRE_UNKNOWN,
                .out = &s.out,
                .err = &s.err,
                .files = &s.files,
                .status = EXEC_OK,
                .did_run = true,
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

static void add(Setup *s, const char *path, const void *data, size_t n_bytes) {
        s->items[s->files.n_items++] = (ExecFile) { path, n_bytes, data, DIGEST, EXEC_FILE_COMPLETE };
}

static void add_text(Setup *s, const char *path, const char *text) {
        add(s, path, text, strlen(text));
}

static void add_missing(Setup *s, const char *path, uint64_t n_bytes, ExecFileReason reason) {
        s->items[s->files.n_items++] = (ExecFile) { .path = path, .n_bytes = n_bytes, .reason = reason };
}

static void write_result(Setup *s) {
        buffer_done(&s->content);
        buffer_done(&s->structured);
        ASSERT_EQ_INT(result_write(&s->result, s->settings, &s->content, &s->structured), 0);
        ASSERT_TRUE(s->content.n_bytes + s->structured.n_bytes <= RESULT_BYTES_MAX);
}

/* The member as it stands in the structured form; NULL: there is none. Valid until the next call. */
static const char* member(Setup *s, const char *name) {
        static char text[4096];
        const char *raw;
        size_t n;

        if (json_raw_member(s->structured.data, s->structured.n_bytes, name, &raw, &n) <= 0)
                return NULL;
        (void) snprintf(text, sizeof(text), "%.*s", (int) MIN_OF(n, sizeof(text) - 1), raw);
        return text;
}

static const char* files_of(Setup *s) {
        write_result(s);
        return member(s, "files");
}

static JsonValue* content_of(Setup *s) {
        JsonValue *v = NULL;

        ASSERT_EQ_INT(json_parse(s->content.data, s->content.n_bytes, &v), 0);
        return v;
}

static const char* text_of(const JsonValue *v, const char *name) {
        const char *text = NULL;

        ASSERT_TRUE(json_get_string(json_member(v, name), &text, NULL));
        return text;
}

TEST(nothing_is_said_where_nothing_was_left) {
        Setup *s = setup_new();

        ASSERT_TRUE(!files_of(s));
        ASSERT_TRUE(!member(s, "files_note"));
        s->result.files = NULL;
        ASSERT_TRUE(!files_of(s));
        setup_free(s);
}

TEST(text_stands_in_both_forms) {
        Setup *s = setup_new();
        JsonValue *content;

        add_text(s, "a.csv", "x,y\n1,\"2\"\n");
        add_text(s, "deep/Ämpty", "");
        ASSERT_EQ_STR(files_of(s),
                      "[{\"path\":\"a.csv\",\"bytes\":10,\"mime_type\":\"text/csv\",\"text\":\"x,y\\n1,"
                      "\\\"2\\\"\\n\"},"
                      "{\"path\":\"deep/Ämpty\",\"bytes\":0,\"mime_type\":\"text/plain\",\"text\":\"\"}]");
        ASSERT_TRUE(!member(s, "files_note"));
        content = content_of(s);
        ASSERT_EQ_UINT(json_length(content), 1);
        ASSERT_EQ_STR(text_of(json_element(content, 0), "text"), s->structured.data);
        json_free(content);
        setup_free(s);
}

TEST(images_are_blocks_of_their_own) {
        _cleanup_buffer_ Buffer decoded = BUFFER_INIT(0);
        Setup *s = setup_new();
        const JsonValue *block;
        const char *data;
        JsonValue *content;
        size_t n;

        add_text(s, "a.txt", "text");
        add(s, "b.png", png, sizeof(png) - 1);
        add(s, "c.PNG", png, sizeof(png) - 1);
        ASSERT_EQ_STR(files_of(s),
                      "[{\"path\":\"a.txt\",\"bytes\":4,\"mime_type\":\"text/plain\",\"text\":\"text\"},"
                      "{\"path\":\"b.png\",\"bytes\":45,\"mime_type\":\"image/png\",\"image\":1},"
                      "{\"path\":\"c.PNG\",\"bytes\":45,\"mime_type\":\"image/png\",\"image\":2}]");
        content = content_of(s);
        ASSERT_EQ_UINT(json_length(content), 3);
        block = json_element(content, 1);
        ASSERT_EQ_STR(text_of(block, "type"), "image");
        ASSERT_EQ_STR(text_of(block, "mimeType"), "image/png");
        ASSERT_TRUE(json_get_string(json_member(block, "data"), &data, &n));
        ASSERT_EQ_INT(base64_decode(data, n, &decoded), 0);
        ASSERT_EQ_MEM(decoded.data, decoded.n_bytes, png, sizeof(png) - 1);
        json_free(content);
        setup_free(s);
}

TEST(other_files_are_told_by_size_and_digest) {
        Setup *s = setup_new();

        add(s, "t.xlsx", "PK\3\4\0", 5);
        ASSERT_EQ_STR(files_of(s),
                      "[{\"path\":\"t.xlsx\",\"bytes\":5,\"mime_type\":\"application/"
                      "vnd.openxmlformats-officedocument.spreadsheetml.sheet\",\"sha256\":\"" DIGEST "\","
                      "\"reason\":\"Not shown: neither text nor a PNG, JPEG, GIF or WebP image.\"}]");
        setup_free(s);
}

TEST(each_reason_is_told) {
        static const struct {
                ExecFileReason reason;
                const char *text;
        } rows[] = {
                { EXEC_FILE_TOO_LARGE, "Larger than 512 KiB, the most that is taken of one file." },
                { EXEC_FILE_TOTAL, "The files before it took the 4 MiB there are for all of them." },
                { EXEC_FILE_UNREADABLE, "Private: a program that is killed leaves files of mode 0600 "
                                        "(tempfile) unreadable." },
                { EXEC_FILE_TOO_DEEP, "Not looked into: more than 8 directories deep." },
                { EXEC_FILE_LINK, "A symbolic link, which is not followed." },
                { EXEC_FILE_SPECIAL, "Not a regular file." },
                { EXEC_FILE_NAME, "Its name is not UTF-8, or too long." },
                { EXEC_FILE_CHANGED, "It changed while it was read." },
                { EXEC_FILE_TIME, "There was no time left to read it." },
                { EXEC_FILE_FAILED, "The server could not read it." },
                { EXEC_FILE_NOT_KEPT, "Too large to be kept with the result." },
        };

        static_assert(ELEMENTSOF(rows) == _EXEC_FILE_REASON_MAX - 1, "one row each");
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char expected[300];
                Setup *s = setup_new();

                add_missing(s, "f", 7, rows[i].reason);
                (void) snprintf(expected, sizeof(expected),
                                "[{\"path\":\"f\",\"bytes\":7,\"reason\":\"%s\"}]", rows[i].text);
                ASSERT_EQ_STR(files_of(s), expected);
                setup_free(s);
        }
}

TEST(what_is_missing_from_the_list_is_told) {
        Setup *s = setup_new();

        s->files.n_more = 312;
        write_result(s);
        ASSERT_EQ_STR(member(s, "files_note"), "\"312 more of what it left is not listed.\"");
        s->files.gaps = EXEC_FILES_GAP_ENTRIES | EXEC_FILES_GAP_TIME;
        write_result(s);
        ASSERT_EQ_STR(member(s, "files_note"),
                      "\"312 more of what it left is not listed. There are too many entries to look at all "
                      "of them. There was no time to look at all of its files.\"");
        s->files.n_more = 0;
        s->files.gaps = EXEC_FILES_GAP_FAILED;
        write_result(s);
        ASSERT_EQ_STR(member(s, "files_note"), "\"The server could not read all of its files.\"");
        s->files.gaps = EXEC_FILES_GAP_ALIVE;
        write_result(s);
        ASSERT_EQ_STR(member(s, "files_note"),
                      "\"Its files were not collected: its sandbox did not end in time.\"");
        setup_free(s);
}

TEST(text_has_a_budget_of_characters) {
        Setup *s = setup_new();

        s->settings->max_reply_chars = 100;
        add_text(s, "a", "0123456789" "0123456789" "0123456789" "0123456789" "0123456789" "0123456789"
                         "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüä"); /* 100, in more bytes */
        add_text(s, "b", "x");
        add_text(s, "c", "");
        write_result(s);
        ASSERT_CONTAINS(member(s, "files"),
                        "äöüä\"},{\"path\":\"b\",\"bytes\":1,\"mime_type\":\"text/plain\","
                        "\"sha256\":\"" DIGEST "\",\"reason\":\"Too long: 100 characters of all files "
                        "together are shown.\"},{\"path\":\"c\",\"bytes\":0,"
                        "\"mime_type\":\"text/plain\",\"text\":\"\"}]");
        setup_free(s);
}

/* A file of 700,000 bytes has 933,336 characters in base64: it fits beside a few words, not beside much. */
TEST(images_take_what_the_output_leaves) {
        static char large[700000];
        Setup *s = setup_new();
        JsonValue *content;

        memcpy(large, png, sizeof(png) - 1);
        memcpy(large + sizeof(large) - 12, png + sizeof(png) - 1 - 12, 12);
        add(s, "large.png", large, sizeof(large));
        add(s, "small.png", png, sizeof(png) - 1);
        write_result(s);
        ASSERT_EQ_STR(member(s, "files"),
                      "[{\"path\":\"large.png\",\"bytes\":700000,\"mime_type\":\"image/png\",\"image\":1},"
                      "{\"path\":\"small.png\",\"bytes\":45,\"mime_type\":\"image/png\",\"image\":2}]");

        for (int i = 0; i < 40000; i++)
                ASSERT_EQ_INT(capture_push(&s->out, "\n", 1), 0);
        write_result(s);
        ASSERT_EQ_STR(member(s, "truncated"), "false");
        ASSERT_EQ_STR(member(s, "files"),
                      "[{\"path\":\"large.png\",\"bytes\":700000,\"mime_type\":\"image/png\","
                      "\"sha256\":\"" DIGEST "\",\"reason\":\"The answer has no room for it.\"},"
                      "{\"path\":\"small.png\",\"bytes\":45,\"mime_type\":\"image/png\",\"image\":1}]");
        content = content_of(s);
        ASSERT_EQ_UINT(json_length(content), 2);
        json_free(content);
        setup_free(s);
}

TEST(output_is_the_same_with_and_without_files) {
        static char path[EXEC_FILE_PATH_BYTES_MAX], text[40000];
        Setup *s = setup_new();
        const char *raw;
        size_t n;
        _cleanup_free_ char *before = NULL;

        memset(path, '\x1b', sizeof(path) - 1);
        memset(text, '\x1b', sizeof(text) - 1);
        s->settings->max_reply_chars = 30000;
        for (int i = 0; i < 30000; i++) {
                ASSERT_EQ_INT(capture_push(&s->out, "\x1b", 1), 0);
                ASSERT_EQ_INT(capture_push(&s->err, "\x1b", 1), 0);
        }
        write_result(s);
        ASSERT_TRUE(json_raw_member(s->structured.data, s->structured.n_bytes, "stdout", &raw, &n) > 0);
        before = strndup(raw, n);
        ASSERT_EQ_UINT(strlen(before), 2 + 6 * 30000);
        for (size_t i = 0; i < EXEC_FILES_MAX; i++)
                add_text(s, path, i % 2 ? "x" : text);
        write_result(s);
        ASSERT_TRUE(json_raw_member(s->structured.data, s->structured.n_bytes, "stdout", &raw, &n) > 0);
        ASSERT_EQ_MEM(raw, n, before, strlen(before));
        setup_free(s);
}

/* 256 paths of 511 escapes are 1.7 MB in both forms. */
TEST(the_list_itself_is_bounded) {
        static char path[EXEC_FILE_PATH_BYTES_MAX];
        Setup *s = setup_new();
        JsonValue *files = NULL;
        const char *raw;
        char note[100];
        size_t n;

        memset(path, '\x1b', sizeof(path) - 1);
        for (size_t i = 0; i < EXEC_FILES_MAX; i++)
                add_missing(s, path, 1, EXEC_FILE_LINK);
        s->files.n_more = 7;
        write_result(s);
        ASSERT_TRUE(json_raw_member(s->structured.data, s->structured.n_bytes, "files", &raw, &n) > 0);
        ASSERT_EQ_INT(json_parse(raw, n, &files), 0);
        ASSERT_TRUE(json_length(files) > 15 && json_length(files) < 25);
        (void) snprintf(note, sizeof(note), "\"%zu more of what it left is not listed.\"",
                        EXEC_FILES_MAX - json_length(files) + 7);
        ASSERT_EQ_STR(member(s, "files_note"), note);
        json_free(files);
        setup_free(s);
}

TEST(pages_have_no_files) {
        ResultView view = { .part = RESULT_PAGE };
        Setup *s = setup_new();

        add_text(s, "a", "x");
        ASSERT_EQ_INT(result_write_view(&s->result, s->settings, &view, &s->content, &s->structured), 0);
        ASSERT_TRUE(!member(s, "files"));
        setup_free(s);
}

TEST(kinds_are_told_by_name_and_content) {
#define ROW(path, data, kind, mime) { path, data, sizeof(data) - 1, kind, mime }
        static const struct {
                const char *path, *data;
                size_t n_bytes;
                FileKind kind;
                const char *mime_type;
        } rows[] = {
                ROW("a", "x", FILE_KIND_TEXT, "text/plain"),
                ROW("dir.csv/a", "x", FILE_KIND_TEXT, "text/plain"),
                ROW("a.JSON", "{}", FILE_KIND_TEXT, "application/json"),
                ROW("a.svg", "<svg/>", FILE_KIND_TEXT, "image/svg+xml"),
                ROW("a.png", "not an image", FILE_KIND_TEXT, "text/plain"),
                ROW("a.csv", "\xff\xfe", FILE_KIND_OTHER, "application/octet-stream"),
                ROW("a.txt", "a\0b", FILE_KIND_OTHER, "application/octet-stream"),
                ROW("a.pdf", "%PDF\xff", FILE_KIND_OTHER, "application/pdf"),
                ROW("a.png", "\0garbage", FILE_KIND_OTHER, "application/octet-stream"),
                ROW("a.png", PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\0\1") PNG_TAIL, FILE_KIND_IMAGE,
                    "image/png"),
                ROW("a.png", PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\x1f\x41") PNG_TAIL, FILE_KIND_BROKEN_IMAGE,
                    "image/png"),
                ROW("a.png", PNG_HEAD PNG_SIDE("\0\0") PNG_SIDE("\0\1") PNG_TAIL, FILE_KIND_BROKEN_IMAGE,
                    "image/png"),
                ROW("a.png", PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\0\1") PNG_TAIL "x", FILE_KIND_BROKEN_IMAGE,
                    "image/png"),
                ROW("a.png", PNG_HEAD, FILE_KIND_BROKEN_IMAGE, "image/png"),
                ROW("a", PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\0\1") PNG_TAIL, FILE_KIND_OTHER,
                    "application/octet-stream"),
                ROW("a.gif", PNG_HEAD PNG_SIDE("\0\1") PNG_SIDE("\0\1") PNG_TAIL, FILE_KIND_OTHER,
                    "application/octet-stream"),
                ROW("a.jpg", JPEG_HEAD JPEG_SIDES("\0\1", "\0\1") "\xff\xd9", FILE_KIND_IMAGE, "image/jpeg"),
                ROW("a.jpg", JPEG_HEAD JPEG_SIDES("\x1f\x40", "\x1f\x40") "\xff\xd9",
                    FILE_KIND_IMAGE, "image/jpeg"),
                ROW("a.jpg", JPEG_HEAD JPEG_SIDES("\x1f\x41", "\0\1") "\xff\xd9", FILE_KIND_BROKEN_IMAGE,
                    "image/jpeg"),
                ROW("a.jpg", JPEG_HEAD JPEG_SIDES("\0\1", "\xff\xff") "\xff\xd9",
                    FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpg", JPEG_HEAD JPEG_SIDES("\0\0", "\0\1") "\xff\xd9",
                    FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpg", JPEG_HEAD "\xff\xd9", FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpg", "\xff\xd8\xff\xc0\xff\xff\0\0\1\0\1\xff\xd9",
                    FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpg", "\xff\xd8\xff\xff\xff\xff\xd9", FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpg", "\xff\xd8\xff\xe0\0\xff\xd9", FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.jpeg", "\xff\xd8\xff\xe0\0\xff", FILE_KIND_BROKEN_IMAGE, "image/jpeg"),
                ROW("a.gif", "GIF89a\1\0\1\0\0\0\0;", FILE_KIND_IMAGE, "image/gif"),
                ROW("a.gif", "GIF89a\1\0\1\0\0\0\0", FILE_KIND_BROKEN_IMAGE, "image/gif"),
                ROW("a.gif", "GIF87a\1\0\0\0\0\0\0;", FILE_KIND_BROKEN_IMAGE, "image/gif"),
                ROW("a.webp", WEBP("VP8 ") "\0\0\0\x9d\1\x2a\1\0\1\0", FILE_KIND_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8 ") "\0\0\0\x9d\1\x2a\x41\x1f\1\0",
                    FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8L") "\x2f\0\0\0\0\0\0\0\0\0", FILE_KIND_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8L") "\x2f\0\0\xff\x0f\0\0\0\0\0",
                    FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8X") "\0\0\0\0\x3f\x1f\0\x3f\x1f\0", FILE_KIND_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8X") "\0\0\0\0\x3f\x1f\0\x40\x1f\0",
                    FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", WEBP("VP8Y") "\0\0\0\0\0\0\0\0\0\0", FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", "RIFF\x8\0\0\0WEBP\0\1\2\3", FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", "RIFF\x9\0\0\0WEBP\0\1\2\3", FILE_KIND_BROKEN_IMAGE, "image/webp"),
                ROW("a.webp", "RIFF\x8\0\0\0WAVE\0\1\2\3", FILE_KIND_OTHER, "application/octet-stream"),
        };
        const char *mime_type;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                ASSERT_EQ_INT(file_kind(rows[i].path, rows[i].data, rows[i].n_bytes, &mime_type),
                              rows[i].kind);
                ASSERT_EQ_STR(mime_type, rows[i].mime_type);
        }
        ASSERT_EQ_INT(file_kind("a", NULL, 0, &mime_type), FILE_KIND_TEXT);
}
