/* SPDX-License-Identifier: MIT */

#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/fd.h"
#include "test.h"

/* Debian's fixed ones: nobody is 65534 with the group nogroup, daemon is 1 with the group daemon. */
#define UID_NOBODY 65534
#define UID_DAEMON 1
#define UID_UNKNOWN 3999999999U

/* The principal, or the refusal. */
static const char* who(uid_t uid, const char *users, const char *groups) {
        static char answer[1024];
        _cleanup_free_ char *principal = NULL, *message = NULL, *error = NULL;
        _cleanup_(settings_freep) Settings *s = NULL;
        int r;

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowUsers", users, &error), 0);
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", "", &error), 0);
        if (groups[0])
                ASSERT_EQ_INT(settings_set(s, "Server", "AllowGroups", groups, &error), 0);
        r = auth_uid(s, uid, &principal, &message);
        ASSERT_TRUE(r == 0 || r == AUTH_E_DENIED);
        ASSERT_EQ_INT(message != NULL, r == AUTH_E_DENIED);
        (void) snprintf(answer, sizeof(answer), "%s", r == 0 ? principal : message);
        return answer;
}

static void need_users(void) {
        if (!getpwnam("nobody") || getpwnam("nobody")->pw_uid != UID_NOBODY || !getgrnam("nogroup") ||
            !getpwuid(UID_DAEMON) || getpwuid(UID_UNKNOWN))
                SKIP("needs Debian's nobody, nogroup and daemon");
}

TEST(root_is_always_allowed) {
        ASSERT_EQ_STR(who(0, "", ""), "uid:0");
}

TEST(member_of_an_allowed_group_is_allowed) {
        need_users();
        ASSERT_EQ_STR(who(UID_NOBODY, "", "nosuchgroup nogroup"), "uid:65534");
        ASSERT_EQ_STR(who(UID_DAEMON, "", "daemon"), "uid:1");
}

TEST(others_are_told_what_the_administrator_does) {
        need_users();
        ASSERT_EQ_STR(who(UID_NOBODY, "", "daemon"),
                      "user nobody (uid 65534) may not use this mcp-exec service. The administrator can "
                      "allow it with "
                      "\"gpasswd -a nobody daemon\"; no new login is needed.");
        ASSERT_CONTAINS(who(UID_NOBODY, "", ""), "AllowUsers=");
        ASSERT_CONTAINS(who(UID_NOBODY, "daemon", "daemon"), "may not use");
}

TEST(a_group_that_does_not_exist_is_named_and_not_recommended) {
        need_users();
        ASSERT_EQ_STR(who(UID_NOBODY, "", "nosuchgroup"),
                      "user nobody (uid 65534) may not use this mcp-exec service. Its AllowGroups= names "
                      "\"nosuchgroup\", and there is no such group.");
}

TEST(allowed_user_by_name_or_number) {
        need_users();
        ASSERT_EQ_STR(who(UID_NOBODY, "nobody", ""), "uid:65534");
        ASSERT_EQ_STR(who(UID_NOBODY, "daemon 65534", ""), "uid:65534");
        ASSERT_CONTAINS(who(UID_NOBODY, "nobod", ""), "may not use");
}

TEST(uid_without_an_entry_is_in_no_group) {
        need_users();
        ASSERT_EQ_STR(who(UID_UNKNOWN, "", "nogroup"), "uid 3999999999 may not use this mcp-exec service. "
                                                       "The administrator can allow it with AllowUsers= "
                                                       "or AllowGroups= in /etc/mcp-exec/mcp-exec.conf.");
        ASSERT_EQ_STR(who(UID_UNKNOWN, "3999999999", ""), "uid:3999999999");
}

TEST(peer_is_the_process_at_the_other_end) {
        _cleanup_free_ char *principal = NULL, *message = NULL, *error = NULL;
        _cleanup_(settings_freep) Settings *s = NULL;
        char number[32], expected[40];
        int fds[2];

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        (void) snprintf(number, sizeof(number), "%u", (unsigned) getuid());
        (void) snprintf(expected, sizeof(expected), "uid:%u", (unsigned) getuid());
        ASSERT_EQ_INT(settings_set(s, "Server", "AllowUsers", number, &error), 0);
        ASSERT_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        ASSERT_EQ_INT(auth_unix_peer(s, fds[0], &principal, &message), 0);
        ASSERT_EQ_STR(principal, expected);
        (void) safe_close(fds[0]);
        (void) safe_close(fds[1]);
}

TEST(socket_without_peer_credentials_is_nobody) {
        _cleanup_free_ char *principal = NULL, *message = NULL;
        _cleanup_(settings_freep) Settings *s = NULL;
        int fd;

        ASSERT_EQ_INT(settings_new_default(&s), 0);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ_INT(auth_unix_peer(s, fd, &principal, &message), -ENOTSOCK);
        (void) safe_close(fd);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* not connected: pid 0, uid -1 */
        ASSERT_EQ_INT(auth_unix_peer(s, fd, &principal, &message), -ENODATA);
        (void) safe_close(fd);
        ASSERT_EQ_STR(principal, NULL);
}
