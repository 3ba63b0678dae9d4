/* SPDX-License-Identifier: MIT */

#include "fake-sets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"

#define PATH_BYTES 4096

static bool has_set(const WireStart *start) {
        return start->environment[0] != 0;
}

static bool has_leaf(const WireStart *start) {
        return start->profile == WIRE_PROFILE_FETCH || start->profile == WIRE_PROFILE_INSTALL;
}

/* The path of a set or of a leaf. */
static const char* set_path(char path[static PATH_BYTES], const FakeScript *script,
                            const char name[static WIRE_SET_NAME_CHARS], bool is_leaf) {
        (void) snprintf(path, PATH_BYTES, "%s/%.64s%s", script->sets_directory, name, is_leaf ? ".tmp" : "");
        return path;
}

void fake_sets_say_hello(const FakeScript *script, bool has_looked, WireHello *hello) {
        const char *uv;

        hello->n_interpreters = 1;
        for (const char *const *p = script->extra_interpreters; *p; p++, hello->n_interpreters++)
                wire_set_text(hello->interpreters[hello->n_interpreters], sizeof(hello->interpreters[0]),
                              *p);
        wire_set_text(hello->sets_directory, sizeof(hello->sets_directory), script->sets_directory ?: "");
        uv = script->uv ?: has_looked ? script->late_uv : NULL;
        wire_set_text(hello->sets_reason, sizeof(hello->sets_reason),
                      !script->sets_directory     ? "This launcher has no sets" :
                      script->late_uv && !uv ? "The program uv is not installed. Install it." :
                                               script->sets_reason ?: "");
        wire_set_text(hello->uv, sizeof(hello->uv), uv ?: "");
        wire_set_text(hello->uv_on_host, sizeof(hello->uv_on_host), uv ?: "");
}

bool fake_sets_may_start(const FakeScript *script, const WireStart *start, bool is_leaf_in_use) {
        char path[PATH_BYTES];

        if (has_leaf(start) != has_set(start) && start->profile != WIRE_PROFILE_RUN)
                abort(); /* the launcher would close the connection */
        if (!has_set(start))
                return true;
        if (!script->sets_directory)
                return false;
        if (!has_leaf(start))
                return access(set_path(path, script, start->environment, false), F_OK) == 0;
        if (is_leaf_in_use)
                return false;
        return mkdir(set_path(path, script, start->environment, true), 0755) == 0 || errno == EEXIST;
}

int fake_sets_change(const FakeScript *script, const WireSet *set) {
        char leaf[PATH_BYTES], other[PATH_BYTES];
        int r;

        if (!script->sets_directory)
                return -EOPNOTSUPP;
        (void) set_path(leaf, script, set->environment, true);
        switch ((WireSetAction) set->action) {
        case WIRE_SET_COMMIT:
                r = renameat2(AT_FDCWD, leaf, AT_FDCWD, set_path(other, script, set->to, false),
                              RENAME_NOREPLACE);
                break;
        case WIRE_SET_RETIRE:
                r = renameat2(AT_FDCWD, set_path(other, script, set->environment, false), AT_FDCWD, leaf,
                              RENAME_NOREPLACE);
                break;
        case WIRE_SET_DROP:
                r = rmdir(leaf);
                break;
        case _WIRE_SET_ACTION_MAX:
        default:
                abort();
        }
        return r < 0 ? -errno : 0;
}

bool fake_sets_is_leaf_of(const WireStart *start, const char *environment) {
        return has_leaf(start) && memcmp(start->environment, environment, WIRE_SET_NAME_CHARS) == 0;
}

bool fake_sets_is_used_by(const WireStart *start, const WireSet *set) {
        return has_set(start) && memcmp(start->environment, set->environment, WIRE_SET_NAME_CHARS) == 0 &&
               has_leaf(start) == (set->action != WIRE_SET_RETIRE);
}

const char* fake_sets_interpreter(const FakeScript *script, const WireStart *start) {
        if (start->profile != WIRE_PROFILE_RUN)
                return script->python ?: "/usr/bin/python3";
        if (has_set(start))
                return WIRE_SET_PATH "/bin/python3";
        if (start->interpreter > 0)
                return script->extra_interpreters[start->interpreter - 1];
        return script->interpreter ?: "/bin/sh";
}

static bool write_text(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool is_done = fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;

        (void) safe_close(fd);
        return is_done;
}

static bool leave_mount_namespace(void) {
        unsigned uid = (unsigned) geteuid(), gid = (unsigned) getegid();
        char uids[64], gids[64];

        if (unshare(CLONE_NEWNS) < 0) {
                if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                        return false;
                (void) snprintf(uids, sizeof(uids), "%u %u 1", uid, uid);
                (void) snprintf(gids, sizeof(gids), "%u %u 1", gid, gid);
                if (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", uids) ||
                    !write_text("/proc/self/gid_map", gids))
                        return false;
        }
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* The entries of / once more, in a directory that has room for another one. */
static bool copy_root(const char *root) {
        char path[PATH_BYTES], from[PATH_BYTES], target[PATH_BYTES];
        const struct dirent *e;
        bool is_done = true;
        DIR *d = opendir("/");

        while (d && is_done && (e = readdir(d))) {
                struct stat st;

                (void) snprintf(from, sizeof(from), "/%s", e->d_name);
                (void) snprintf(path, sizeof(path), "%.2000s/%.255s", root, e->d_name);
                if (e->d_name[0] == '.' || lstat(from, &st) < 0)
                        continue;
                if (S_ISLNK(st.st_mode)) {
                        ssize_t n = readlink(from, target, sizeof(target) - 1);

                        target[n < 0 ? 0 : n] = 0;
                        is_done = symlink(target, path) == 0;
                } else if (S_ISDIR(st.st_mode))
                        is_done = mkdir(path, 0755) == 0 &&
                                  mount(from, path, NULL, MS_BIND | MS_REC, NULL) == 0;
        }
        if (!d)
                return false;
        (void) closedir(d);
        return is_done;
}

bool fake_sets_enter(const FakeScript *script, const WireStart *start, const char *directory) {
        char root[PATH_BYTES], env[PATH_BYTES + 8], set[PATH_BYTES];

        if (start->profile == WIRE_PROFILE_FETCH && script->credentials)
                (void) setenv("CREDENTIALS_DIRECTORY", script->credentials, true);
        if (!has_set(start))
                return true;

        (void) snprintf(root, sizeof(root), "%s.root", directory);
        (void) snprintf(env, sizeof(env), "%s%s", root, WIRE_SET_PATH);
        (void) set_path(set, script, start->environment, has_leaf(start));
        if (!leave_mount_namespace() || mkdir(root, 0755) < 0 ||
            mount("tmpfs", root, "tmpfs", 0, "mode=0755") < 0 || !copy_root(root) || mkdir(env, 0755) < 0 ||
            mount(set, env, NULL, MS_BIND, NULL) < 0)
                return false;
        if (!has_leaf(start)) {
                struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };

                if (mount_setattr(AT_FDCWD, env, 0, &read_only, sizeof(read_only)) < 0)
                        return false;
                (void) setenv("PATH", WIRE_SET_PATH "/bin:/usr/local/bin:/usr/bin:/bin", true);
                (void) setenv("VIRTUAL_ENV", WIRE_SET_PATH, true);
        }
        return chroot(root) == 0 && chdir(directory) == 0;
}
