/* SPDX-License-Identifier: MIT */

/* No memory: each scenario runs with its first allocation failing, then its second, and so on until none
 * fails. Every time it must say -ENOMEM, keep what it had, and leak nothing (which a sanitizer sees). The
 * linker directs base's allocations here, see meson.build. */

#include "base/capture.h"
#include "base/conf-file.h"
#include "base/settings.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "failing-allocations.h"
#include "files.h"
#include "test.h"

static void run_with_faults(int (*scenario)(const char *tree), const char *tree) {
        for (unsigned n = 1; n <= 10000; n++) {
                int r;

                has_failed = false;
                failing_allocation = n;
                r = scenario(tree);
                failing_allocation = 0;
                if (r != (has_failed ? -ENOMEM : 0))
                        FAIL("allocation %u fails: %d", n, r);
                if (has_failed)
                        continue;
                if (n == 1)
                        SKIP("this linker does not redirect allocations (link-time optimization?)");
                if (n < 5) /* each scenario makes many */
                        FAIL("only %u allocations", n);
                return;
        }
        FAIL("no end of allocations");
}

static int use_buffer(const char *tree) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_free_ char *text = NULL;
        int r = 0;

        (void) tree;
        for (int i = 0; i < 300 && r >= 0; i++) {
                size_t n = b.n_bytes;

                r = i % 2 ? buffer_printf(&b, "%d", i) : buffer_append(&b, "0123456789", 10);
                if (r < 0)
                        ASSERT_EQ_UINT(b.n_bytes, n);
                if (r >= 0 && i % 50 == 0)
                        buffer_consume(&b, 7);
        }
        return r < 0 ? r : buffer_steal(&b, &text, NULL);
}

static int use_capture(const char *tree) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0), line = BUFFER_INIT(0);
        _cleanup_(capture_done) Capture c;
        bool is_truncated;
        int r;

        (void) tree;
        capture_init(&c, 20000);
        for (int i = 0; i < 500; i++) {
                uint64_t n_total = c.n_total;

                r = capture_push(&c, "what a program may print, with \xff in it\n", 40);
                if (r < 0) {
                        ASSERT_EQ_UINT(c.n_total, n_total);
                        return r;
                }
        }
        r = capture_last_line(&c, /* wants_end= */ false, 100, &line);
        if (r < 0)
                return r;
        return capture_text(&c, 15000, &text, &is_truncated);
}

static int use_settings(const char *tree) {
        _cleanup_(settings_freep) Settings *s = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = settings_load_from((const char*[]) { tree, NULL }, &s, &message);
        if (r < 0) {
                ASSERT_TRUE(!s);
                ASSERT_EQ_STR(message, NULL);
        }
        return r;
}

/* No memory for the message must not turn a bad file into a good one, nor the error into -EBADMSG without a
 * message. */
static int use_bad_settings(const char *tree) {
        _cleanup_(settings_freep) Settings *s = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = settings_load_from((const char*[]) { tree, NULL }, &s, &message);
        ASSERT_TRUE(!s);
        if (r == -EBADMSG) {
                ASSERT_CONTAINS(message, "QueueMax");
                return 0;
        }
        return r;
}

static int use_strings(const char *tree) {
        _cleanup_strv_ char **l = NULL, **words = NULL;
        _cleanup_free_ char *s = NULL;
        int r;

        (void) tree;
        r = strv_split("a b c d", &words);
        if (r >= 0)
                r = strv_extend(&l, "one");
        if (r >= 0)
                r = strv_extendf(&l, "%d", 2);
        if (r >= 0)
                r = str_copy(&s, "x");
        if (r >= 0) {
                r = str_copy(&s, "y");
                ASSERT_EQ_STR(s, r < 0 ? "x" : "y");
        }
        return r;
}

TEST(buffer_and_capture_survive_any_failed_allocation) {
        run_with_faults(use_buffer, NULL);
        run_with_faults(use_capture, NULL);
}

TEST(strings_survive_any_failed_allocation) {
        run_with_faults(use_strings, NULL);
}

TEST(settings_survive_any_failed_allocation) {
        _cleanup_tree_ char *tree = make_tree();

        put_file(tree, "mcp-exec.conf",
                 "[Server]\nAllowGroups=a \\\n b\nAllowUsers=c\n[Exec]\nQueueMax=7\n");
        put_file(tree, "mcp-exec.conf.d/10.conf",
                 "[Sandbox]\nPython=python3.12\nRequireControllers=cpu pids\n");
        (void) setenv("MCP_EXEC_AUTH_TOKEN", "token", 1);
        (void) setenv("MCP_EXEC_ADDR", ":1", 1);
        run_with_faults(use_settings, tree);
        put_file(tree, "mcp-exec.conf.d/20.conf", "[Exec]\nQueueMax=many\n");
        run_with_faults(use_bad_settings, tree);
}
