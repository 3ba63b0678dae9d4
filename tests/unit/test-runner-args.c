/* SPDX-License-Identifier: MIT */

#include "base/macro.h"
#include "runner/runner.h"
#include "test.h"

#define NS_SYSTEM "net=1,mnt=2,ipc=3"
#define NS_USER NS_SYSTEM ",user=4,pid=5"
#define PYTHON "/usr/bin/python3"
#define SYSTEM(ns) "init", "run", "--mode", "system", "--ns", ns

typedef struct Line {
        const char *words[12];
} Line;

static int parse(const Line *line, RunnerFacts *ret) {
        char *argv[ELEMENTSOF(line->words) + 1] = {};
        int argc = 0, r;

        for (; argc < (int) ELEMENTSOF(line->words) && line->words[argc]; argc++)
                argv[argc] = strdup(line->words[argc]);
        r = facts_parse(argc, argv, ret);
        if (r == RUNNER_CHECK_OK)
                ret->python = streq(ret->python, PYTHON) ? PYTHON : NULL;
        for (int i = 0; i < argc; i++)
                free(argv[i]);
        return r;
}

TEST(args_of_a_system_run) {
        const Line line = { { "init", "run", "--mode", "system", "--ns", NS_SYSTEM, PYTHON } };
        RunnerFacts facts;

        ASSERT_EQ_INT(parse(&line, &facts), RUNNER_CHECK_OK);
        ASSERT_FALSE(facts.is_user);
        ASSERT_FALSE(facts.is_selftest);
        ASSERT_EQ_UINT(facts.namespaces[RUNNER_NS_NET], 1);
        ASSERT_EQ_UINT(facts.namespaces[RUNNER_NS_MNT], 2);
        ASSERT_EQ_UINT(facts.namespaces[RUNNER_NS_IPC], 3);
        ASSERT_EQ_UINT(facts.tmpfs_bytes, 0);
        ASSERT_EQ_STR(facts.python, PYTHON);
}

TEST(args_of_a_user_self_test) {
        const Line line = { { "init", "selftest", "--tmpfs", "67108864:16384", "--ns",
                              "pid=4026531836,user=4026531837,ipc=9,mnt=8,net=18446744073709551609",
                              "--mode", "user", PYTHON } };
        RunnerFacts facts;

        ASSERT_EQ_INT(parse(&line, &facts), RUNNER_CHECK_OK);
        ASSERT_TRUE(facts.is_user);
        ASSERT_TRUE(facts.is_selftest);
        ASSERT_EQ_UINT(facts.namespaces[RUNNER_NS_NET], UINT64_C(18446744073709551609));
        ASSERT_EQ_UINT(facts.namespaces[RUNNER_NS_PID], 4026531836);
        ASSERT_EQ_UINT(facts.tmpfs_bytes, 67108864);
        ASSERT_EQ_UINT(facts.tmpfs_inodes, 16384);
}

TEST(args_of_the_profiles) {
        const Line fetch = { { SYSTEM(NS_SYSTEM ",user=4"), "--profile", "fetch", PYTHON } },
                   install = { { "init", "run", "--mode", "user", "--ns", NS_USER, "--profile", "install",
                                 PYTHON } },
                   set = { { SYSTEM(NS_SYSTEM), "--set", "/env", PYTHON } };
        RunnerFacts facts;

        ASSERT_EQ_INT(parse(&fetch, &facts), RUNNER_CHECK_OK);
        ASSERT_EQ_INT(facts.profile, RUNNER_PROFILE_FETCH);
        ASSERT_EQ_UINT(facts_n_namespaces(&facts), RUNNER_NS_USER + 1);
        ASSERT_TRUE(facts.set == NULL);
        ASSERT_EQ_INT(parse(&install, &facts), RUNNER_CHECK_OK);
        ASSERT_EQ_INT(facts.profile, RUNNER_PROFILE_INSTALL);
        ASSERT_EQ_UINT(facts_n_namespaces(&facts), _RUNNER_NS_MAX);
        ASSERT_EQ_INT(parse(&set, &facts), RUNNER_CHECK_OK);
        ASSERT_EQ_INT(facts.profile, RUNNER_PROFILE_RUN);
        ASSERT_EQ_UINT(facts_n_namespaces(&facts), RUNNER_NS_IPC + 1);
        ASSERT_TRUE(facts.set != NULL);
}

TEST(args_that_are_not_understood_are_refused) {
        static const Line lines[] = {
                /* The users' namespace is what keeps units of preparation apart. */
                { { SYSTEM(NS_SYSTEM), "--profile", "fetch", PYTHON } },
                { { SYSTEM(NS_USER), "--profile", "run", PYTHON } },
                { { SYSTEM(NS_USER), "--profile", "", PYTHON } },
                { { SYSTEM(NS_USER), "--profile", "fetch", "--profile", "install", PYTHON } },
                { { SYSTEM(NS_USER), "--profile", "fetch", "--set", "/env", PYTHON } },
                { { "init", "selftest", "--mode", "user", "--ns", NS_USER, "--profile", "fetch", PYTHON } },
                { { SYSTEM(NS_SYSTEM), "--set", "env", PYTHON } },
                { { SYSTEM(NS_SYSTEM), "--set", "/a", "--set", "/b", PYTHON } },
                { { "init" } },
                { { "init", "run" } },
                { { "init", PYTHON, "run" } },
                { { "init", "walk", "--mode", "system", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--mode", "system", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", NS_SYSTEM } },
                { { "init", "run", "--mode", "system", "--ns", NS_SYSTEM, "python3" } },
                { { "init", "run", "--mode", "system", "--ns", NS_SYSTEM, PYTHON, "more" } },
                { { "init", "run", "--mode", "system", "--mode", "system", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--mode", "other", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--no-checks", "1", "--mode", "system", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=1,mnt=2", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=0,mnt=2,ipc=3", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=01,mnt=2,ipc=3", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=-1,mnt=2,ipc=3", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=1,mnt=2,ipc=3,", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=1,mnt=2,ipc=3 ", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=1,net=7,mnt=2,ipc=3", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", NS_SYSTEM ",uts=3", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", "net=18446744073709551616,mnt=2,ipc=3",
                    PYTHON } },
                { { "init", "run", "--mode", "user", "--ns", NS_SYSTEM, PYTHON } },
                { { "init", "run", "--mode", "user", "--ns", NS_SYSTEM ",user=4", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", NS_USER, "--tmpfs", "1", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", NS_USER, "--tmpfs", "1:0", PYTHON } },
                { { "init", "run", "--mode", "system", "--ns", NS_USER, "--tmpfs", "1:2:3", PYTHON } },
        };
        RunnerFacts facts = {};

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (parse(&lines[i], &facts) != RUNNER_CHECK_ARGUMENTS)
                        FAIL("line %zu was accepted", i);
}
