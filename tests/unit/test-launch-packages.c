/* SPDX-License-Identifier: MIT */

/* What a machine has for installing packages. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launch/packages.h"
#include "launch/profile.h"
#include "test.h"

static Packages find(bool is_user, const char *key, const char *value) {
        _cleanup_(settings_freep) Settings *s = NULL;
        Packages p = {};

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "UvPath", "/usr/bin/env", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", key, value, &(char*) { NULL }), 0);
        ASSERT_EQ_INT(packages_find(&p, s, is_user), 0);
        return p;
}

static void write_file(char path[static 64], mode_t mode) {
        int fd;

        (void) snprintf(path, 64, "/tmp/test-packages-XXXXXX");
        fd = mkostemp(path, O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(fchmod(fd, mode), 0);
        safe_close(fd);
}

TEST(uv_below_usr_keeps_its_path_and_another_is_mounted) {
        _cleanup_free_ char *env = realpath("/usr/bin/env", NULL);
        Packages p = find(false, "UvPath", "/usr/bin/env");
        char path[64];

        ASSERT_FALSE(p.has_problem);
        ASSERT_EQ_STR(p.uv, env);
        ASSERT_EQ_STR(p.uv_inside, env);
        packages_done(&p);
        p = find(false, "UvPath", "env"); /* found by name */
        ASSERT_CONTAINS(p.uv, "env");
        packages_done(&p);

        write_file(path, 0755);
        p = find(true, "UvPath", path);
        ASSERT_FALSE(p.has_problem);
        ASSERT_EQ_STR(p.uv, path);
        ASSERT_EQ_STR(p.uv_inside, "/var/lib/mcp-exec/uv");
        packages_done(&p);
        ASSERT_EQ_INT(chmod(path, 0757), 0);
        p = find(true, "UvPath", path);
        ASSERT_CONTAINS(p.problem.reason, "could be replaced");
        packages_done(&p);
        ASSERT_EQ_INT(chmod(path, 0755), 0);
        p = find(false, "UvPath", path); /* /tmp is everybody's */
        ASSERT_TRUE(p.has_problem && !p.uv);
        ASSERT_CONTAINS(p.problem.reason, "could be replaced");
        packages_done(&p);
        ASSERT_EQ_INT(chmod(path, 0644), 0);
        p = find(true, "UvPath", path);
        ASSERT_CONTAINS(p.problem.reason, "(UvPath=) is no program that can be executed");
        ASSERT_CONTAINS(p.problem.remedy, "UvPath=");
        packages_done(&p);
        ASSERT_EQ_INT(unlink(path), 0);
}

TEST(files_of_settings_have_the_right_mode_or_nothing_is_fetched) {
        Packages p;
        char path[64];

        write_file(path, 0600);
        p = find(true, "IndexCredentials", path);
        ASSERT_FALSE(p.has_problem);
        ASSERT_EQ_STR(p.index_credentials, path);
        packages_done(&p);
        ASSERT_EQ_INT(chmod(path, 0640), 0);
        p = find(true, "IndexCredentials", path);
        ASSERT_TRUE(p.has_problem && !p.index_credentials && p.uv);
        ASSERT_CONTAINS(p.problem.reason, "IndexCredentials=");
        ASSERT_CONTAINS(p.problem.remedy, "0600");
        packages_done(&p);

        ASSERT_EQ_INT(chmod(path, 0644), 0);
        p = find(true, "CaBundle", path);
        ASSERT_EQ_STR(p.ca_bundle, path);
        packages_done(&p);
        ASSERT_EQ_INT(chmod(path, 0666), 0);
        p = find(true, "CaBundle", path);
        ASSERT_CONTAINS(p.problem.reason, "CaBundle=");
        ASSERT_CONTAINS(p.problem.reason, "can be written to by others");
        ASSERT_CONTAINS(p.problem.remedy, "name another file");
        packages_done(&p);
        ASSERT_EQ_INT(unlink(path), 0);
        p = find(false, "CaBundle", path);
        ASSERT_CONTAINS(p.problem.reason, "cannot be looked at");
        packages_done(&p);
}

/* Who obeyed "root's, with mode 0644" made the directory unusable for the whole machine, and the file of
 * passwords everybody's. */
TEST(no_remedy_changes_what_a_setting_names_by_mistake) {
        static const struct {
                const char *key, *value, *reason;
        } rows[] = {
                { "CaBundle", "/etc", "/etc (CaBundle=) is a directory, and no regular file" },
                { "CaBundle", "/etc/shadow", "/etc/shadow (CaBundle=) cannot be read by everybody" },
                { "CaBundle", "/dev/null", "/dev/null (CaBundle=) is no regular file" },
                { "IndexCredentials", "/etc", "/etc (IndexCredentials=) is a directory" },
                { "IndexCredentials", "/etc/passwd", "(IndexCredentials=) can be read by others" },
                { "UvPath", "/usr/bin", "/usr/bin (UvPath=) is a directory, and no program" },
                { "UvPath", "/etc/passwd", "/etc/passwd (UvPath=) is no program that can be executed" },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                Packages p = find(false, rows[i].key, rows[i].value);

                ASSERT_TRUE(p.has_problem && p.is_setting_wrong);
                ASSERT_CONTAINS(p.problem.reason, rows[i].reason);
                ASSERT_TRUE(!strstr(p.problem.remedy, "belong to") && !strstr(p.problem.remedy, "0644"));
                ASSERT_CONTAINS(p.problem.remedy, rows[i].key);
                packages_done(&p);
        }
}

TEST(interpreters_keep_their_numbers) {
        Packages p = find(false, "ExtraPythons", "/usr/bin/env /nonexistent/python env");

        ASSERT_TRUE(!p.pythons[0] && !p.pythons[2] && !p.pythons[4]);
        ASSERT_EQ_STR(p.pythons[1], "/usr/bin/env");
        ASSERT_CONTAINS(p.pythons[3], "/env");
        ASSERT_FALSE(p.has_problem);
        packages_done(&p);
}

TEST(what_was_missing_for_packages_is_found_when_it_has_come) {
        _cleanup_(settings_freep) Settings *s = NULL;
        Packages p = {};
        char path[64];

        write_file(path, 0644);
        ASSERT_EQ_INT(settings_new_default(&s), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "UvPath", path, &(char*) { NULL }), 0);
        ASSERT_EQ_INT(packages_find(&p, s, /* is_user= */ true), 0);
        ASSERT_CONTAINS(p.problem.reason, "is no program that can be executed");
        packages_look_again(&p, s, true);
        ASSERT_TRUE(p.has_problem && !p.uv);
        ASSERT_EQ_INT(chmod(path, 0757), 0);
        packages_look_again(&p, s, true);
        ASSERT_CONTAINS(p.problem.reason, "could be replaced");
        ASSERT_EQ_INT(chmod(path, 0755), 0);
        packages_look_again(&p, s, true);
        ASSERT_FALSE(p.has_problem || p.is_setting_wrong);
        ASSERT_EQ_STR(p.problem.reason, "");
        ASSERT_EQ_STR(p.uv, path);
        ASSERT_EQ_INT(unlink(path), 0);
        packages_look_again(&p, s, true);
        ASSERT_CONTAINS(p.problem.reason, "is not installed");
        packages_done(&p);

        write_file(path, 0644);
        ASSERT_EQ_INT(settings_set(s, "Packages", "UvPath", "/usr/bin/env", &(char*) { NULL }), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "CaBundle", path, &(char*) { NULL }), 0);
        ASSERT_EQ_INT(packages_find(&p, s, /* is_user= */ true), 0);
        ASSERT_FALSE(p.has_problem);
        ASSERT_EQ_INT(unlink(path), 0);
        packages_look_again(&p, s, true); /* but a file of the settings is */
        ASSERT_CONTAINS(p.problem.reason, "(CaBundle=) cannot be looked at");
        packages_done(&p);
}

TEST(uv_whose_link_leads_to_another_one_is_found_without_a_restart) {
        _cleanup_(settings_freep) Settings *s = NULL;
        Packages p = {};
        char path[64];

        write_file(path, 0644);
        ASSERT_EQ_INT(unlink(path), 0);
        ASSERT_EQ_INT(symlink("/usr/bin/true", path), 0);
        ASSERT_EQ_INT(settings_new_default(&s), 0);
        ASSERT_EQ_INT(settings_set(s, "Packages", "UvPath", path, &(char*) { NULL }), 0);
        ASSERT_EQ_INT(packages_find(&p, s, /* is_user= */ true), 0);
        ASSERT_EQ_STR(p.uv, "/usr/bin/true");
        ASSERT_EQ_INT(unlink(path), 0);
        ASSERT_EQ_INT(symlink("/usr/bin/env", path), 0);
        packages_look_again(&p, s, true);
        ASSERT_EQ_STR(p.uv, "/usr/bin/env");
        ASSERT_EQ_STR(p.uv_inside, "/usr/bin/env");
        ASSERT_FALSE(p.has_problem);
        ASSERT_EQ_INT(unlink(path), 0);
        packages_done(&p);
}
