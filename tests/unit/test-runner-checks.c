/* SPDX-License-Identifier: MIT */

#include <unistd.h>

#include "base/macro.h"
#include "runner/probes.h"
#include "runner/runner.h"
#include "test.h"

#define STATUS(prm, eff, bnd, amb, nnp, seccomp)                                                        \
        "Name:\tinit\nUid:\t61200\t61200\t61200\t61200\nCapInh:\t0000000000000000\nCapPrm:\t" prm       \
        "\nCapEff:\t" eff "\nCapBnd:\t" bnd "\nCapAmb:\t" amb "\nNoNewPrivs:\t" nnp                     \
        "\nSeccomp:\t" seccomp "\nSeccomp_filters:\t9\n"
#define NONE "0000000000000000"
#define ONE "0000000000000001"

TEST(status_of_a_locked_up_process_passes) {
        ASSERT_EQ_INT(check_status_text(STATUS(NONE, NONE, NONE, NONE, "1", "2")), RUNNER_CHECK_OK);
}

TEST(status_names_what_is_missing) {
        static const struct {
                const char *text;
                int check;
        } cases[] = {
                { STATUS(ONE, NONE, NONE, NONE, "1", "2"), RUNNER_CHECK_CAPABILITIES },
                { STATUS(NONE, ONE, NONE, NONE, "1", "2"), RUNNER_CHECK_CAPABILITIES },
                { STATUS(NONE, NONE, ONE, NONE, "1", "2"), RUNNER_CHECK_CAPABILITIES },
                { STATUS(NONE, NONE, NONE, ONE, "1", "2"), RUNNER_CHECK_CAPABILITIES },
                { STATUS(NONE, NONE, NONE, "00000000000000000", "1", "2"), RUNNER_CHECK_CAPABILITIES },
                { STATUS(NONE, NONE, NONE, NONE, "0", "2"), RUNNER_CHECK_NO_NEW_PRIVS },
                { STATUS(NONE, NONE, NONE, NONE, "1", "0"), RUNNER_CHECK_SECCOMP },
                { STATUS(NONE, NONE, NONE, NONE, "1", "1"), RUNNER_CHECK_SECCOMP },
                { STATUS(NONE, NONE, NONE, NONE, "1", "22"), RUNNER_CHECK_SECCOMP },
                { "", RUNNER_CHECK_CAPABILITIES },
                { "Name:\tCapPrm:\t0\n", RUNNER_CHECK_CAPABILITIES },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (check_status_text(cases[i].text) != cases[i].check)
                        FAIL("case %zu: %d, expected %d", i, check_status_text(cases[i].text),
                             cases[i].check);
}

#define HEADING "Inter-|   Receive             |  Transmit\n face |bytes    packets errs|bytes   packets\n"

TEST(loopback_alone_passes) {
        ASSERT_TRUE(is_loopback_only(HEADING "    lo:       0       0    0    0\n"));
        ASSERT_TRUE(is_loopback_only(HEADING "    lo: 1 2 3"));
}

TEST(any_other_interface_is_seen) {
        ASSERT_FALSE(is_loopback_only(HEADING "    lo: 0 0\n  eth0: 0 0\n"));
        ASSERT_FALSE(is_loopback_only(HEADING "  eth0: 0 0\n    lo: 0 0\n"));
        ASSERT_FALSE(is_loopback_only(HEADING "   lo2: 0 0\n"));
        ASSERT_FALSE(is_loopback_only(HEADING "     l: 0 0\n"));
        ASSERT_FALSE(is_loopback_only(HEADING "    lo: 0 0\n    lo: 0 0\n"));
}

TEST(no_interface_at_all_is_not_taken_for_loopback) {
        ASSERT_FALSE(is_loopback_only(HEADING));
        ASSERT_FALSE(is_loopback_only(""));
}

#define MOUNT(point, type, options) "36 35 0:55 / " point " rw,nosuid - " type " tmpfs rw," options "\n"
#define LIMITS "size=1k,nr_inodes=5"

TEST(limited_tmpfs_is_recognised) {
        ASSERT_TRUE(is_limited_tmpfs(MOUNT("/tmp", "tmpfs", "size=65536k,nr_inodes=16384"), "/tmp"));
        ASSERT_TRUE(is_limited_tmpfs(MOUNT("/", "ext4", "x") "36 35 0:55 / /tmp rw shared:7 master:2 - "
                                     "tmpfs tmpfs rw,size=1k,nr_inodes=9,inode64", "/tmp"));
}

TEST(tmpfs_without_both_limits_is_refused) {
        ASSERT_FALSE(is_limited_tmpfs(MOUNT("/tmp", "tmpfs", "size=65536k"), "/tmp"));
        ASSERT_FALSE(is_limited_tmpfs(MOUNT("/tmp", "tmpfs", "nr_inodes=5"), "/tmp"));
        ASSERT_FALSE(is_limited_tmpfs(MOUNT("/tmp", "ext4", "size=65536k,nr_inodes=16384"), "/tmp"));
        ASSERT_FALSE(is_limited_tmpfs(MOUNT("/tmp/x", "tmpfs", LIMITS), "/tmp"));
        ASSERT_FALSE(is_limited_tmpfs("", "/tmp"));
}

TEST(of_two_mounts_the_upper_one_counts) {
        ASSERT_FALSE(is_limited_tmpfs(MOUNT("/tmp", "tmpfs", LIMITS) MOUNT("/tmp", "tmpfs", "x"),
                                      "/tmp"));
        ASSERT_TRUE(is_limited_tmpfs(MOUNT("/tmp", "tmpfs", "x") MOUNT("/tmp", "tmpfs", LIMITS),
                                     "/tmp"));
}

/* The test itself stands outside of any sandbox. */
TEST(outside_of_a_sandbox_the_checks_fail) {
        RunnerFacts facts = { .namespaces = { 1, 2, 3 } };

        ASSERT_TRUE(check_quick(&facts) != RUNNER_CHECK_OK);
        ASSERT_TRUE(check_all(&facts) != RUNNER_CHECK_OK);
}

TEST(sockets_that_can_be_made_are_noticed) {
        ASSERT_EQ_INT(probe_harmless(false), RUNNER_CHECK_SOCKETS);
}

#define NUMBER(number, name, sentence, remedy) number,
#define SENTENCE(number, name, sentence, remedy) sentence, remedy,

TEST(numbers_are_unique_and_leave_room_for_systemd) {
        static const int numbers[] = { RUNNER_CHECKS(NUMBER) };

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                ASSERT_TRUE(numbers[i] > 0);
                ASSERT_TRUE(RUNNER_EXIT_CHECK + numbers[i] < 200);
                for (size_t j = 0; j < i; j++)
                        ASSERT_TRUE(numbers[i] != numbers[j]);
        }
}

/* The fields of HELLO that carry them have 512 bytes. */
TEST(sentences_fit_into_the_seam) {
        static const char *const texts[] = { RUNNER_CHECKS(SENTENCE) };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                ASSERT_TRUE(strlen(texts[i]) > 10 && strlen(texts[i]) < 512);
}

TEST(each_profile_has_its_uids) {
        static const struct {
                uid_t uid;
                bool run, prepare, user;
        } table[] = {
                { 0, false, false, false },   { 1, false, true, true },     { 999, false, true, true },
                { 61183, false, true, true }, { 61184, true, false, true }, { 65519, true, false, true },
                { 65520, false, true, true }, { 100000, false, true, true },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                RunnerFacts run = {}, fetch = { .profile = RUNNER_PROFILE_FETCH },
                            install = { .profile = RUNNER_PROFILE_INSTALL }, user = { .is_user = true };

                ASSERT_EQ_INT(is_uid_of_profile(&run, table[i].uid), table[i].run);
                ASSERT_EQ_INT(is_uid_of_profile(&fetch, table[i].uid), table[i].prepare);
                ASSERT_EQ_INT(is_uid_of_profile(&install, table[i].uid), table[i].prepare);
                ASSERT_EQ_INT(is_uid_of_profile(&user, table[i].uid), table[i].user);
        }
}
