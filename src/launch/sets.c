/* SPDX-License-Identifier: MIT */

/* Sets: the directory with the sets of packages. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strv.h"
#include "launch/profile.h"
#include "launch/sets.h"

#define LOCK_FILE ".lock"

/* The launcher's unit lets it write only to what is there when it starts. */
#define RESTART_LAUNCHER "systemctl restart mcp-exec-launcher.service"
#define MAKE_DIRECTORY "Run systemd-tmpfiles --create mcp-exec.conf, and " RESTART_LAUNCHER

SetName set_name_from_field(const char field[static WIRE_SET_NAME_CHARS], bool is_leaf) {
        SetName name = { .is_leaf = is_leaf };

        wire_get_set_name(field, name.digits);
        (void) snprintf(name.text, sizeof(name.text), "%s%s", name.digits, is_leaf ? SET_LEAF_SUFFIX : "");
        return name;
}

static int sets_open(Sets *s, bool may_make, Problem *p) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        int r = 0;

        if (s->has_problem) {
                *p = s->problem;
                return -EOPNOTSUPP;
        }
        /* It may have been removed since, with everything above it. */
        if (s->fd >= 0 && fstat(s->fd, &st) >= 0 && st.st_nlink > 0)
                return 0;
        s->fd = safe_close(s->fd);
        if (may_make && s->is_user)
                r = path_make_directories(s->directory, 0700);
        if (r >= 0) {
                fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                r = fd < 0 ? -errno : 0;
        }
        if ((r == -ELOOP || r == -ENOTDIR) && lstat(s->directory, &st) >= 0)
                return problem_set(p, -r, s->is_user ? "Remove it" : "Remove it. " MAKE_DIRECTORY,
                                   "%s is to be the directory for packages, and is none (nor may it be a "
                                   "link to one; another disk can be mounted there)", s->directory);
        if (r < 0)
                return problem_set(p, -r, s->is_user ? "Let the user write there" : MAKE_DIRECTORY,
                                   "The directory for packages, %s, cannot be opened: %s", s->directory,
                                   strerror(-r));
        /* Whoever else may write here could put a set of theirs under a name of ours. */
        if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return problem_set(p, EPERM, s->is_user ? "Remove it" : "Remove it. " MAKE_DIRECTORY,
                                   "The directory for packages, %s, can be written to by others",
                                   s->directory);
        /* Made after the launcher was started, it is not among what the launcher's unit may write to. */
        if (!s->is_user && faccessat(fd, ".", W_OK, AT_EACCESS) < 0 && errno == EROFS)
                return problem_set(p, EROFS, "Run " RESTART_LAUNCHER,
                                   "The directory for packages, %s, cannot be written to by the launcher",
                                   s->directory);
        s->fd = TAKE_FD(fd);
        return 0;
}

/* One file, of which each name locks a byte of its own: no file per set that somebody would have to remove.
 * The digits are a cryptographic hash, so 60 bits of them tell sets apart. */
static struct flock lock_range(const SetName *name, short type) {
        uint64_t number = 0;

        for (size_t i = 0; i < 15; i++) {
                char c = name->digits[i];

                number = number * 16 + (uint64_t) (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        return (struct flock) {
                .l_type = type,
                .l_whence = SEEK_SET,
                .l_start = (off_t) (2 * number + name->is_leaf),
                .l_len = 1,
        };
}

/* The lock of an open file description: it ends with the descriptor, however this process ends. */
static int sets_lock(const Sets *s, const SetName *name, short type, int *ret_fd) {
        struct flock range = lock_range(name, type);
        _cleanup_close_ int fd = -EBADF;

        fd = openat(s->fd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        if (fcntl(fd, F_OFD_SETLK, &range) < 0)
                return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* A directory that only its owner can have put something into. Returns 0, -ENOENT, or -EPERM. */
static int sets_look(const Sets *s, const SetName *name) {
        struct stat st;

        if (fstatat(s->fd, name->text, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode) || st.st_uid != s->owner || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return -EPERM;
        return 0;
}

/* Said here in plain words; later it would be a unit that cannot be set up, for a reason that only the
 * journal has. */
static bool is_full(const Sets *s) {
        struct statvfs v;

        return fstatvfs(s->fd, &v) >= 0 && (v.f_bavail == 0 || (v.f_files > 0 && v.f_favail == 0));
}

int sets_path(const Sets *s, const SetName *name, char **ret) {
        assert(s && name && ret);

        return str_printf(ret, "%s/%s", s->directory, name->text);
}

int sets_use(Sets *s, const SetName *name, int *ret_lock, Problem *p) {
        _cleanup_close_ int lock = -EBADF;
        int r;

        assert(s && name && ret_lock);

        r = sets_open(s, /* may_make= */ name->is_leaf, p);
        if (r < 0)
                return r;
        r = sets_lock(s, name, name->is_leaf ? F_WRLCK : F_RDLCK, &lock);
        if (r == -EBUSY)
                return problem_set(p, EBUSY, "Try again", "The set of packages is being %s",
                                   name->is_leaf ? "prepared by another sandbox" : "removed");
        if (r < 0)
                return problem_set(p, -r, "Make room on the disk", "No set can be reserved in %s: %s",
                                   s->directory, strerror(-r));
        if (name->is_leaf && sets_look(s, name) == -ENOENT && is_full(s))
                return problem_set(p, ENOSPC, "Make room on it, or remove sets (mcp-exec env remove)",
                                   "The disk with %s is full", s->directory);
        if (name->is_leaf && s->is_user && mkdirat(s->fd, name->text, 0755) < 0 && errno != EEXIST)
                return problem_set(p, errno, "Make room on the disk, and let the user write to it",
                                   "A directory for packages cannot be made in %s", s->directory);
        r = sets_look(s, name);
        if (r == -ENOENT && name->is_leaf)
                r = 0; /* PID 1 makes it */
        if (r == -ENOENT)
                return problem_set(p, ENOENT, "Prepare it first", "The set of packages does not exist");
        if (r < 0)
                return problem_set(p, -r, "Remove it, and look how it came there",
                                   "%s/%s is not a directory that mcp-exec made", s->directory, name->text);

        *ret_lock = TAKE_FD(lock);
        return 0;
}

static int rename_locked(const Sets *s, const SetName *from, const SetName *to) {
        _cleanup_close_ int lock = -EBADF;
        int r;

        r = sets_lock(s, from, F_WRLCK, &lock);
        if (r >= 0)
                r = sets_look(s, from);
        if (r < 0)
                return r;
        return renameat2(s->fd, from->text, s->fd, to->text, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int remove_locked(const Sets *s, const SetName *leaf) {
        _cleanup_close_ int lock = -EBADF;
        int r;

        r = sets_lock(s, leaf, F_WRLCK, &lock);
        if (r < 0)
                return r;
        return unlinkat(s->fd, leaf->text, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int sets_change(Sets *s, const WireSet *set, Problem *p) {
        SetName ready, leaf;
        int r;

        assert(s && set);

        r = sets_open(s, /* may_make= */ false, p);
        if (r < 0)
                return r;
        leaf = set_name_from_field(set->environment, /* is_leaf= */ true);
        switch ((WireSetAction) set->action) {
        case WIRE_SET_COMMIT:
                ready = set_name_from_field(set->to, /* is_leaf= */ false);
                r = rename_locked(s, &leaf, &ready);
                break;
        case WIRE_SET_RETIRE:
                ready = set_name_from_field(set->environment, /* is_leaf= */ false);
                r = rename_locked(s, &ready, &leaf);
                break;
        case WIRE_SET_DROP:
                r = remove_locked(s, &leaf);
                break;
        case _WIRE_SET_ACTION_MAX:
        default:
                r = -EINVAL;
                break;
        }
        if (r < 0)
                return problem_set(p, -r, "", "The set of packages cannot be %s: %s",
                                   set->action == WIRE_SET_COMMIT ? "made ready" : "removed", strerror(-r));
        return 0;
}

void sets_sweep(Sets *s) {
        const struct dirent *e;
        int fd, n = 0;
        DIR *d;

        assert(s);

        if (s->fd < 0)
                return;
        fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                (void) safe_close(fd);
                return;
        }
        while ((e = readdir(d))) {
                SetName leaf;

                if (strlen(e->d_name) != sizeof(leaf.text) - 1)
                        continue;
                leaf = set_name_from_field(e->d_name, /* is_leaf= */ true);
                if (streq(leaf.text, e->d_name) && is_hex(leaf.digits, WIRE_SET_NAME_CHARS))
                        n += remove_locked(s, &leaf) == 0;
        }
        (void) closedir(d);
        if (n > 0)
                log_info("Removed %d empty directories of packages that were never finished", n);
}

void sets_look_again(Sets *s) {
        Problem problem = {};
        int r;

        assert(s);

        /* Without an owner there is another problem, for which somebody has to restart this. */
        if (s->owner == (uid_t) -1)
                return;
        s->has_problem = false;
        r = sets_open(s, /* may_make= */ false, &problem);
        s->has_problem = r < 0 && !(s->is_user && r == -ENOENT);
        s->problem = s->has_problem ? problem : (Problem) {};
}

int sets_new_at(const char *directory, bool is_user, uid_t owner, Sets **ret) {
        _cleanup_(sets_freep) Sets *s = NULL;

        assert(directory && ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->is_user = is_user;
        s->owner = owner;
        s->fd = -EBADF;
        if (str_copy(&s->directory, directory) < 0)
                return -ENOMEM;

        s->has_problem = true;
        sets_look_again(s);
        *ret = TAKE_PTR(s);
        return 0;
}

int sets_new(bool is_user, Sets **ret) {
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        _cleanup_free_ char *directory = NULL;
        const struct passwd *user;
        int r;

        assert(ret);

        if (is_user) {
                bool has_state = state && state[0] == '/';

                r = str_printf(&directory, "%s%s/mcp-exec/sets", has_state ? state : home ?: "",
                               has_state ? "" : "/.local/state");
                return r < 0 ? r : sets_new_at(directory, true, geteuid(), ret);
        }

        /* Blocking look-up, before the event loop runs. */
        user = getpwnam(PREPARE_USER);
        r = sets_new_at(SETS_DIRECTORY, false, user ? user->pw_uid : (uid_t) -1, ret);
        if (r >= 0 && !user) {
                (*ret)->has_problem = true;
                (void) problem_set(&(*ret)->problem, ENOENT,
                                   "Run systemd-sysusers mcp-exec.conf, and " RESTART_LAUNCHER,
                                   "There is no user " PREPARE_USER ", who installs packages");
        }
        return r;
}

Sets* sets_free(Sets *s) {
        if (!s)
                return NULL;

        safe_close(s->fd);
        free(s->directory);
        free(s);
        return NULL;
}
