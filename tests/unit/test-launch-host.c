/* SPDX-License-Identifier: MIT */

/* What the launcher reads from the machine: cgroup limits, the interpreter. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launch/controllers.h"
#include "launch/sandbox.h"
#include "test.h"

static const WireLimits limits = {
        .runtime_max_usec = USEC_PER_SEC,
        .memory_max_bytes = 64 * MIB,
        .tasks_max = 32,
        .cpu_quota_per_sec_usec = USEC_PER_SEC / 2,
};

static void write_file(const char *directory, const char *name, const char *text) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;

        ASSERT_EQ_INT(str_printf(&path, "%s/%s", directory, name), 0);
        (void) unlink(path);
        if (!text)
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(fd_write_all(fd, text, strlen(text)), 0);
}

TEST(a_limit_counts_only_when_the_kernel_has_it_as_tight) {
        static const struct {
                const char *memory, *pids, *cpu;
                unsigned expected;
        } table[] = {
                { "67108864\n", "32\n", "50000 100000\n",
                  CONTROLLER_MEMORY | CONTROLLER_PIDS | CONTROLLER_CPU },
                { "67108864\n", "32\n", NULL, CONTROLLER_MEMORY | CONTROLLER_PIDS },
                { NULL, NULL, NULL, 0 },
                { "max\n", "max\n", "max 100000\n", 0 },
                { "67108865\n", "33\n", "51000 100000\n", 0 },
                { "67104768\n", "8\n", "50400 100000\n",
                  CONTROLLER_MEMORY | CONTROLLER_PIDS | CONTROLLER_CPU },
                { "", "32 32\n", "50000\n", 0 },
                { "-1\n", "x\n", "50000 0\n", 0 },
                { "67108864", "32", "18446744073709551615 100000\n", CONTROLLER_MEMORY | CONTROLLER_PIDS },
        };
        char directory[] = "/tmp/test-launch-host-XXXXXX";

        ASSERT_TRUE(mkdtemp(directory) != NULL);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                write_file(directory, "memory.max", table[i].memory);
                write_file(directory, "pids.max", table[i].pids);
                write_file(directory, "cpu.max", table[i].cpu);
                if (controllers_enforced(directory, &limits) != table[i].expected)
                        FAIL("row %zu: %u, expected %u", i, controllers_enforced(directory, &limits),
                             table[i].expected);
        }
        write_file(directory, "memory.max", NULL);
        write_file(directory, "pids.max", NULL);
        write_file(directory, "cpu.max", NULL);
        (void) rmdir(directory);
        ASSERT_EQ_UINT(controllers_enforced("/nonexistent", &limits), 0);
}

TEST(controllers_have_names) {
        char text[32];

        controllers_to_string(0, text);
        ASSERT_EQ_STR(text, "");
        controllers_to_string(CONTROLLER_MEMORY | CONTROLLER_PIDS | CONTROLLER_CPU, text);
        ASSERT_EQ_STR(text, "memory pids cpu");
        controllers_to_string(CONTROLLER_CPU, text);
        ASSERT_EQ_STR(text, "cpu");
}

TEST(a_bare_name_is_looked_up_under_usr) {
        _cleanup_free_ char *path = NULL;
        Problem p = {};

        ASSERT_EQ_INT(interpreter_resolve("env", NULL, &path, &p), 0);
        ASSERT_EQ_STR(path, "/usr/bin/env");
}

TEST(an_interpreter_that_is_not_there_is_named) {
        _cleanup_free_ char *path = NULL;
        Problem p = {};

        ASSERT_EQ_INT(interpreter_resolve("python3.99", NULL, &path, &p), -ENOENT);
        ASSERT_CONTAINS(p.reason, "python3.99");
        ASSERT_CONTAINS(p.remedy, "Python=");
        ASSERT_EQ_INT(interpreter_resolve("/usr/bin", NULL, &path, &p), -ENOENT);
        ASSERT_EQ_INT(interpreter_resolve("/etc/passwd", NULL, &path, &p), -ENOENT);
        ASSERT_EQ_STR(path, NULL);
}

TEST(an_interpreter_outside_of_the_sandbox_is_refused) {
        char directory[] = "/tmp/test-launch-host-XXXXXX";
        _cleanup_free_ char *program = NULL, *link = NULL, *path = NULL, *optional = NULL;
        char *binds[2] = {};
        Problem p = {};

        ASSERT_TRUE(mkdtemp(directory) != NULL);
        ASSERT_EQ_INT(str_printf(&program, "%s/python3", directory), 0);
        ASSERT_EQ_INT(str_printf(&link, "%s/link", directory), 0);
        ASSERT_EQ_INT(str_printf(&optional, "-%s", directory), 0);
        write_file(directory, "python3", "#!/bin/sh\n");
        ASSERT_EQ_INT(chmod(program, 0755), 0);
        ASSERT_EQ_INT(symlink("/usr/bin/env", link), 0);

        ASSERT_EQ_INT(interpreter_resolve(program, NULL, &path, &p), -EXDEV);
        ASSERT_CONTAINS(p.reason, directory);
        ASSERT_CONTAINS(p.remedy, "BindReadOnlyPaths=");
        /* The link leads to /usr, but is itself not there inside. */
        ASSERT_EQ_INT(interpreter_resolve(link, NULL, &path, &p), -EXDEV);
        binds[0] = directory;
        ASSERT_EQ_INT(interpreter_resolve(program, binds, &path, &p), 0);
        ASSERT_EQ_STR(path, program);
        path = (free(path), NULL);
        binds[0] = optional;
        ASSERT_EQ_INT(interpreter_resolve(program, binds, &path, &p), 0);
        path = (free(path), NULL);
        binds[0] = (char*) "/tmp/test-launch"; /* a prefix of the name is not a directory above it */
        ASSERT_EQ_INT(interpreter_resolve(program, binds, &path, &p), -EXDEV);
        ASSERT_EQ_INT(chmod(program, 0750), 0);
        ASSERT_EQ_INT(interpreter_resolve(program, binds, &path, &p), -ENOENT);

        (void) unlink(program);
        (void) unlink(link);
        (void) rmdir(directory);
}
