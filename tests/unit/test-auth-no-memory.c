/* SPDX-License-Identifier: MIT */

/* Who may use the Unix socket, asked again and again while the first allocation of the whole process fails,
 * the C library's own among them, then the second, and so on. Nobody is refused for that. */

#include <grp.h>
#include <pwd.h>

#include "auth/auth.h"
#include "no-memory.h"
#include "test.h"

#if defined(IS_SANITIZED)
TEST(member_of_a_group_is_not_refused_for_want_of_memory) {
        SKIP("the allocators are the sanitizer's");
}
#else

/* Debian's fixed one, with the group nogroup. */
#define UID_NOBODY 65534

static void check(const char *users, const char *groups, bool is_for_good) {
        _cleanup_(settings_freep) Settings *s = NULL;
        _cleanup_free_ char *error = NULL;
        unsigned n_failed = 0;
        bool has_failed = true;
        int r = 0;

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowUsers", users, &error), 0);
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", groups, &error), 0);
        for (unsigned n = 0; has_failed; n++) {
                _cleanup_free_ char *principal = NULL, *message = NULL;

                fault_begin(n, is_for_good);
                r = auth_uid(s, UID_NOBODY, &principal, &message);
                has_failed = fault_end();
                if (r != 0)
                        ASSERT_EQ_INT(r, -ENOMEM);
                if (r == 0)
                        ASSERT_EQ_STR(principal, "uid:65534");
                ASSERT_TRUE(!message);
                n_failed += r == -ENOMEM;
        }
        ASSERT_EQ_INT(r, 0);
        ASSERT_TRUE(n_failed >= 2);
}

TEST(member_of_a_group_is_not_refused_for_want_of_memory) {
        if (!getpwnam("nobody") || getpwnam("nobody")->pw_uid != UID_NOBODY || !getgrnam("nogroup"))
                SKIP("needs Debian's nobody and nogroup");
        for (int is_for_good = 0; is_for_good < 2; is_for_good++) {
                check("", "nogroup", is_for_good);
                check("", "nosuchgroup nogroup", is_for_good);
                check("nobody", "daemon", is_for_good);
        }
}
#endif
