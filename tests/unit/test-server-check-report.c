/* SPDX-License-Identifier: MIT */

/* What `mcp-exec check` prints. */

#include <sys/mman.h>
#include <unistd.h>

#include "base/macro.h"
#include "server/check-report.h"
#include "test.h"

/* What goes to standard output meanwhile. */
static const char* printed(int (*print)(const CheckReport *r), const CheckReport *r) {
        static char text[1024];
        int fd = memfd_create("report", 0), old = dup(STDOUT_FILENO), result;
        ssize_t n;

        ASSERT_TRUE(fd >= 0 && old >= 0);
        (void) fflush(stdout);
        ASSERT_TRUE(dup2(fd, STDOUT_FILENO) >= 0);
        result = print(r);
        ASSERT_TRUE(dup2(old, STDOUT_FILENO) >= 0);
        (void) close(old);
        ASSERT_EQ_INT(result, 0);
        n = pread(fd, text, sizeof(text) - 1, 0);
        (void) close(fd);
        ASSERT_TRUE(n >= 0);
        text[n] = 0;
        return text;
}

TEST(names_of_others_cannot_write_to_the_terminal) {
        CheckReport r = {};

        check_add(&r, CHECK_FAIL, "settings", "Correct \x1b[2Jit.", "/etc/x\xff.conf:1: \"a\nok    b\"");
        ASSERT_EQ_STR(printed(check_report_print_text, &r),
                      "FAIL  settings      /etc/x\xef\xbf\xbd.conf:1: \"a ok    b\"\n"
                      "                    -> Correct  [2Jit.\n");
        ASSERT_EQ_STR(printed(check_report_print_json, &r),
                      "[{\"name\":\"settings\",\"verdict\":\"fail\",\"detail\":\"/etc/x\xef\xbf\xbd.conf:1: "
                      "\\\"a ok    b\\\"\",\"remedy\":\"Correct  [2Jit.\"}]\n");
        check_set_remedy(&r, "settings", "do\tthis");
        ASSERT_EQ_STR(check_remedy_of(&r, "settings"), "do this");
        check_report_done(&r);
}

TEST(a_check_that_broke_off_says_of_what_and_is_not_a_good_one) {
        CheckReport r = {};

        check_add(&r, CHECK_OK, "systemd", NULL, "is process 1");
        ASSERT_FALSE(check_report_has_failed(&r));
        check_report_break(&r, -EMFILE);
        check_report_break(&r, -ENOMEM);
        ASSERT_TRUE(check_report_has_failed(&r));
        ASSERT_EQ_STR(printed(check_report_print_text, &r),
                      "ok    systemd       is process 1\n"
                      "FAIL  check         could not be finished: Too many open files\n"
                      "                    -> Repair that (this is not yet what mcp-exec needs), then check "
                      "again.\n");
        ASSERT_CONTAINS(printed(check_report_print_json, &r),
                        "{\"name\":\"check\",\"verdict\":\"fail\",\"detail\":\"could not be finished: Too "
                        "many open files\",\"remedy\":\"");
        check_report_done(&r);
}
