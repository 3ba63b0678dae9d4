/* SPDX-License-Identifier: MIT */

#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timeutil.h"
#include "test.h"

/* Points stderr at a pipe for the time of a case. */
static struct {
        int saved, reader;
} redirect;

static void redirect_begin(void) {
        int fds[2];

        (void) unsetenv("JOURNAL_STREAM");
        ASSERT_EQ_INT(pipe_new(fds), 0);
        redirect.saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        ASSERT_TRUE(dup2(fds[1], STDERR_FILENO) >= 0);
        safe_close(fds[1]);
        redirect.reader = fds[0];
        ASSERT_EQ_INT(fd_set_nonblock(redirect.reader, true), 0);
}

static void redirect_end(char *ret, size_t ret_bytes) {
        ssize_t n;

        (void) dup2(redirect.saved, STDERR_FILENO);
        safe_close(redirect.saved);
        n = read(redirect.reader, ret, ret_bytes - 1);
        ret[n > 0 ? n : 0] = 0;
        safe_close(redirect.reader);
}

TEST(log_writes_one_line_with_name_and_error) {
        char text[4096];
        int r;

        redirect_begin();
        log_open("prog", LOG_INFO);
        r = log_error_errno(-ENOENT, "Cannot open %s", "x");
        log_info("plain");
        redirect_end(text, sizeof(text));
        ASSERT_EQ_INT(r, -ENOENT);
        ASSERT_EQ_STR(text, "prog: Cannot open x: No such file or directory\nprog: plain\n");
}

TEST(log_respects_its_level_and_still_returns_the_error) {
        char text[4096];
        int r;

        redirect_begin();
        log_open("prog", LOG_WARNING);
        log_info("not shown");
        r = log_debug_errno(EIO, "not shown");
        redirect_end(text, sizeof(text));
        ASSERT_EQ_INT(r, -EIO);
        ASSERT_EQ_STR(text, "");
}

TEST(log_lets_nobody_forge_a_line_or_a_terminal_sequence) {
        char text[4096];

        redirect_begin();
        log_open("prog", LOG_INFO);
        log_info("%s", "a\nprog: forged\r\x1b[2J\x7f\xff\xc2\x9b\xc3\xbc");
        log_info("%s", "a\xe2\x80\xa8prog: forged\xe2\x80\xae");
        redirect_end(text, sizeof(text));
        ASSERT_EQ_STR(text, "prog: a?prog: forged??[2J???" "?\xc3\xbc\n"
                            "prog: a???" "prog: forged???" "\n");
}

TEST(log_place_is_the_journal_only_where_that_has_the_log) {
        static const char in_journal[] = "the journal (journalctl -u x)";
        char text[64], stream[64];
        struct stat st;

        redirect_begin();
        log_open("prog", LOG_INFO);
        ASSERT_EQ_STR(log_place(in_journal), "what the server writes to its standard error");
        ASSERT_EQ_INT(fstat(STDERR_FILENO, &st), 0);
        (void) snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t) st.st_dev, (uintmax_t) st.st_ino);
        ASSERT_EQ_INT(setenv("JOURNAL_STREAM", stream, 1), 0);
        log_open("prog", LOG_INFO);
        ASSERT_EQ_STR(log_place(in_journal), in_journal);
        (void) unsetenv("JOURNAL_STREAM");
        redirect_end(text, sizeof(text));
        log_open("prog", LOG_INFO);
}

TEST(log_cuts_endless_messages) {
        static char endless[100000];
        char text[8192];

        memset(endless, 'x', sizeof(endless) - 1);
        redirect_begin();
        log_open("prog", LOG_INFO);
        log_info("%s", endless);
        log_error_errno(EIO, "%s", endless);
        redirect_end(text, sizeof(text));
        ASSERT_TRUE(strlen(text) > 4000 && strlen(text) < 4200);
        ASSERT_EQ_INT(text[strlen(text) - 1], '\n');
}

TEST(log_does_not_wait_for_a_reader_that_never_comes) {
        static char text[1 << 20];
        uint64_t begin;

        redirect_begin();
        log_open("prog", LOG_INFO);
        begin = now_monotonic_usec();
        for (int i = 0; i < 70; i++) /* 64 KiB fit into the pipe; the rest is lost, a bounded wait each */
                log_info("%01000d", i);
        ASSERT_TRUE(now_monotonic_usec() - begin < 30 * USEC_PER_SEC);
        redirect_end(text, sizeof(text));
        ASSERT_TRUE(strlen(text) >= 60000);
}

TEST(log_struct_shows_the_message_only_without_a_journal) {
        static const char *const fields[] = { "MESSAGE=Run 1 ended", "MCP_EXEC_STATUS=ok" };
        char text[4096];

        redirect_begin();
        log_open("prog", LOG_INFO);
        ASSERT_EQ_INT(log_struct(LOG_INFO, fields, 2), 0);
        ASSERT_EQ_INT(log_struct(LOG_INFO, fields, 1000), -E2BIG);
        redirect_end(text, sizeof(text));
        ASSERT_EQ_STR(text, "prog: Run 1 ended\n");
}

TEST(log_trusts_journal_stream_only_if_it_is_stderr) {
        char text[4096];

        redirect_begin();
        (void) setenv("JOURNAL_STREAM", "1:1", 1);
        log_open("prog", LOG_INFO);
        log_info("to stderr");
        (void) unsetenv("JOURNAL_STREAM");
        redirect_end(text, sizeof(text));
        ASSERT_EQ_STR(text, "prog: to stderr\n");
}

TEST(log_level_from_string_knows_systemds_names) {
        ASSERT_EQ_INT(log_level_from_string("debug"), LOG_DEBUG);
        ASSERT_EQ_INT(log_level_from_string("info"), LOG_INFO);
        ASSERT_EQ_INT(log_level_from_string("notice"), LOG_NOTICE);
        ASSERT_EQ_INT(log_level_from_string("warning"), LOG_WARNING);
        ASSERT_EQ_INT(log_level_from_string("err"), LOG_ERR);
        ASSERT_EQ_INT(log_level_from_string("loud"), -EINVAL);
        ASSERT_EQ_INT(log_level_from_string(""), -EINVAL);
}
