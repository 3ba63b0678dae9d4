/* SPDX-License-Identifier: MIT */

/* Who may use the Unix socket. The kernel names the peer's uid; its groups are looked up in the group
 * database at each connect, so that `gpasswd -a alice mcp-exec` works at once: the supplementary groups of a
 * running session are those of its login. */

#include "auth/auth.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"

/* Largest entry of the user or group database we read: a group with some ten thousand members. */
#define DATABASE_ENTRY_BYTES_MAX MIB
/* More groups than a user can have on Linux (NGROUPS_MAX). */
#define GROUPS_MAX 65536

typedef struct UserEntry {
        struct passwd entry;
        char *storage;
        bool is_known;
} UserEntry;

static void user_entry_done(UserEntry *u) {
        free(u->storage);
}

/* 0 also for a uid without an entry (a container's, a deleted user's): it is simply in no group. */
static int user_entry_get(uid_t uid, UserEntry *u) {
        struct passwd *found = NULL;
        size_t n_bytes = 4096;
        int error;

        for (;;) {
                free(u->storage);
                u->storage = malloc(n_bytes);
                if (!u->storage)
                        return -ENOMEM;
                error = getpwuid_r(uid, &u->entry, u->storage, n_bytes, &found);
                if (error != ERANGE)
                        break;
                n_bytes *= 2;
                if (n_bytes > DATABASE_ENTRY_BYTES_MAX)
                        return -ERANGE;
        }
        if (error == ENOMEM)
                return -ENOMEM;
        u->is_known = error == 0 && found;
        return 0;
}

/* The gid of a group by name. Returns 1, 0 when there is none, or -ENOMEM. */
static int group_gid(const char *name, gid_t *ret) {
        _cleanup_free_ char *storage = NULL;
        struct group entry, *found = NULL;
        size_t n_bytes = 4096;
        int error;

        do {
                free(storage);
                storage = malloc(n_bytes);
                if (!storage)
                        return -ENOMEM;
                error = getgrnam_r(name, &entry, storage, n_bytes, &found);
                n_bytes *= 2;
        } while (error == ERANGE && n_bytes <= DATABASE_ENTRY_BYTES_MAX);

        if (error == ENOMEM)
                return -ENOMEM;
        if (error != 0 || !found)
                return 0;
        *ret = entry.gr_gid;
        return 1;
}

static int user_groups(const UserEntry *u, gid_t **ret, size_t *ret_n) {
        _cleanup_free_ gid_t *groups = NULL;
        int n_allocated = 64, n, r;

        for (;;) {
                free(groups);
                groups = calloc((size_t) n_allocated, sizeof(*groups));
                if (!groups)
                        return -ENOMEM;
                n = n_allocated;
                errno = 0;
                r = getgrouplist(u->entry.pw_name, u->entry.pw_gid, groups, &n);
                /* It also succeeds with those groups that it could read. */
                if (errno == ENOMEM)
                        return -ENOMEM;
                if (r >= 0)
                        break;
                /* n is what it would take now; the database may change meanwhile, so at least double. */
                n_allocated = MAX_OF(n_allocated * 2, n);
                if (n_allocated > GROUPS_MAX)
                        return -ERANGE;
        }
        *ret = TAKE_PTR(groups);
        *ret_n = (size_t) n;
        return 0;
}

static bool is_allowed_user(const Settings *s, uid_t uid, const UserEntry *u) {
        char number[32];

        (void) snprintf(number, sizeof(number), "%lu", (unsigned long) uid);
        for (char **name = s->allow_users; name && *name; name++)
                if (streq(*name, number) || (u->is_known && streq(*name, u->entry.pw_name)))
                        return true;
        return false;
}

/* Returns 1, 0 or -errno. */
static int is_in_allowed_group(const Settings *s, const UserEntry *u) {
        _cleanup_free_ gid_t *groups = NULL;
        size_t n_groups = 0;
        int r;

        if (!u->is_known || !s->allow_groups || !s->allow_groups[0])
                return 0;
        r = user_groups(u, &groups, &n_groups);
        if (r < 0)
                return r;

        for (char **name = s->allow_groups; *name; name++) {
                gid_t gid;

                r = group_gid(*name, &gid);
                if (r < 0)
                        return r;
                for (size_t i = 0; r > 0 && i < n_groups; i++)
                        if (groups[i] == gid)
                                return 1;
        }
        return 0;
}

bool auth_uid_is(uid_t uid, const char *user) {
        _cleanup_(user_entry_done) UserEntry u = {};
        char number[32];

        assert(user);

        (void) snprintf(number, sizeof(number), "%lu", (unsigned long) uid);
        if (streq(user, number))
                return true;
        return user_entry_get(uid, &u) >= 0 && u.is_known && streq(user, u.entry.pw_name);
}

bool auth_uid_is_in(uid_t uid, const char *group) {
        _cleanup_(user_entry_done) UserEntry u = {};
        char *groups[] = { (char*) (uintptr_t) group, NULL };
        const Settings s = { .allow_groups = groups };

        assert(group);

        return user_entry_get(uid, &u) >= 0 && is_in_allowed_group(&s, &u) > 0;
}

static int refusal(const Settings *s, uid_t uid, const UserEntry *u, char **reterr_message) {
        const char *group = s->allow_groups ? s->allow_groups[0] : NULL;
        _cleanup_free_ char *user_word = NULL, *group_word = NULL;
        char name[280];
        gid_t gid;
        int r;

        if (u->is_known)
                (void) snprintf(name, sizeof(name), "user %.200s (uid %lu)", u->entry.pw_name,
                                (unsigned long) uid);
        else
                (void) snprintf(name, sizeof(name), "uid %lu", (unsigned long) uid);

        r = u->is_known && group ? group_gid(group, &gid) : 0;
        if (r < 0)
                return r;
        if (r > 0) {
                r = str_quote_for_shell(u->entry.pw_name, &user_word);
                if (r >= 0)
                        r = str_quote_for_shell(group, &group_word);
                if (r >= 0)
                        r = str_printf(reterr_message,
                                       "%s may not use this mcp-exec service. The administrator can allow "
                                       "it with \"gpasswd -a %s %s\"; no new login is needed.",
                                       name, user_word, group_word);
        } else if (u->is_known && group)
                r = str_printf(reterr_message,
                               "%s may not use this mcp-exec service. Its AllowGroups= names \"%s\", and "
                               "there is no such group.",
                               name, group);
        else
                r = str_printf(reterr_message,
                               "%s may not use this mcp-exec service. The administrator can allow it with "
                               "AllowUsers= or AllowGroups= in /etc/mcp-exec/mcp-exec.conf.",
                               name);
        return r < 0 ? r : AUTH_E_DENIED;
}

int auth_uid(const Settings *s, uid_t uid, char **ret_principal, char **reterr_message) {
        _cleanup_(user_entry_done) UserEntry u = {};
        int r;

        assert(s);
        assert(ret_principal);
        assert(reterr_message);

        if (uid != 0) {
                r = user_entry_get(uid, &u);
                if (r < 0)
                        return r;
                if (!is_allowed_user(s, uid, &u)) {
                        r = is_in_allowed_group(s, &u);
                        if (r < 0)
                                return r;
                        if (r == 0)
                                return refusal(s, uid, &u, reterr_message);
                }
        }
        return str_printf(ret_principal, "uid:%lu", (unsigned long) uid);
}

int auth_unix_peer(const Settings *s, int fd, char **ret_principal, char **reterr_message) {
        struct ucred peer = { .uid = (uid_t) -1 };
        socklen_t n = sizeof(peer);

        assert(fd >= 0);

        /* An Internet socket has credentials too, all zero bytes or all ones: never root by accident. */
        if (!fd_is_socket(fd, AF_UNIX, SOCK_STREAM))
                return -ENOTSOCK;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return -errno;
        if (n != sizeof(peer) || peer.uid == (uid_t) -1)
                return -ENODATA;
        return auth_uid(s, peer.uid, ret_principal, reterr_message);
}
