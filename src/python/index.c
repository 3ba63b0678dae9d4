/* SPDX-License-Identifier: MIT */

#include "python/index.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/strv.h"
#include "base/timeutil.h"

#define SET_FACTS_FILE "mcp-exec-set.json"
#define SET_FACTS_BYTES_MAX (1 * MIB)
#define SETS_MAX 8192 /* more than any limit allows; beyond it the directory is not believed */
/* A user's other server may be between two steps of its preparation. */
#define SHARED_LEAF_AGE_SEC 3600

static SetEntry* set_entry_free(SetEntry *e) {
        if (!e)
                return NULL;
        set_facts_done(&e->facts);
        strv_free(e->warnings);
        safe_close(e->lock_fd);
        free(e);
        return NULL;
}
DEFINE_CLEANUP(SetEntry*, set_entry_free);

void set_index_remove(SetIndex *x, SetEntry *e) {
        assert(x && e);
        assert(e->n_users == 0);

        LIST_REMOVE(&x->sets, sets, e);
        x->n_sets--;
        set_entry_free(e);
}

void set_index_done(SetIndex *x) {
        assert(x);
        while (x->sets.first) {
                x->sets.first->n_users = 0;
                set_index_remove(x, x->sets.first);
        }
}

void set_index_set_directory(SetIndex *x, const char *directory, bool is_shared) {
        assert(x && directory);
        assert(strlen(directory) < sizeof(x->directory));

        x->is_shared = is_shared;
        if (streq(x->directory, directory))
                return;
        /* Runs may use sets of the one before: those stay, and are found to be missing by the next scan. */
        memcpy(x->directory, directory, strlen(directory) + 1);
}

static int open_sets(const SetIndex *x) {
        int fd;

        if (!*x->directory)
                return -ENOENT;
        fd = open(x->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* One set or leaf. The parent is the launcher's, so nobody else can have put a link there; within it
 * anything may be. */
static int open_one(int sets_fd, const char *name) {
        int fd;

        fd = openat(sets_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int read_facts(int set_fd, SetFacts *ret) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t n;
        int r;

        /* No waiting for the writer of a FIFO, no following of a link to something else. */
        fd = openat(set_fd, SET_FACTS_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADMSG;
        r = fd_read_all(fd, SET_FACTS_BYTES_MAX, &text, &n);
        if (r < 0)
                return r;
        return answer_read_set(text, n, ret);
}

static bool is_what_its_name_says(const SetEntry *e) {
        char name[SHA256_HEX_CHARS + 1];

        return set_name(e->facts.python, e->facts.python_version, e->facts.lock, name) >= 0 &&
               streq(name, e->name);
}

static int load(SetIndex *x, int sets_fd, const char *name, SetEntry **ret) {
        _cleanup_(set_entry_freep) SetEntry *e = NULL;
        _cleanup_close_ int fd = -EBADF;
        int r;

        fd = open_one(sets_fd, name);
        if (fd < 0)
                return fd;
        e = calloc(1, sizeof(SetEntry));
        if (!e)
                return -ENOMEM;
        e->lock_fd = -EBADF;
        memcpy(e->name, name, SHA256_HEX_CHARS + 1);
        r = read_facts(fd, &e->facts);
        if (r < 0)
                return r == -ENOMEM ? r : -EBADMSG;
        if (!is_what_its_name_says(e))
                return -EBADMSG;
        e->used_usec = MIN_OF(e->facts.set.created_usec, now_realtime_usec());

        LIST_APPEND(&x->sets, sets, e);
        x->n_sets++;
        *ret = TAKE_PTR(e);
        return 0;
}

static SetEntry* find_any(SetIndex *x, const char *name) {
        for (SetEntry *e = x->sets.first; e; e = e->sets.next)
                if (streq(e->name, name))
                        return e;
        return NULL;
}

static void forget_unseen(SetIndex *x) {
        for (SetEntry *e = x->sets.first, *next; e; e = next) {
                next = e->sets.next;
                if (!e->is_seen && e->n_users == 0 && !e->is_retiring)
                        set_index_remove(x, e);
        }
}

static void scan_one(SetIndex *x, int sets_fd, const char *name, SetIndexVisitor on_leaf,
                     SetIndexVisitor on_broken, void *userdata) {
        char plain[SHA256_HEX_CHARS + 1];
        SetEntry *e;
        int r;

        if (strlen(name) == SHA256_HEX_CHARS + strlen(".tmp") && streq(name + SHA256_HEX_CHARS, ".tmp")) {
                memcpy(plain, name, SHA256_HEX_CHARS);
                plain[SHA256_HEX_CHARS] = 0;
                if (on_leaf && is_hex(plain, SHA256_HEX_CHARS))
                        on_leaf(plain, userdata);
                return;
        }
        if (strlen(name) != SHA256_HEX_CHARS || !is_hex(name, SHA256_HEX_CHARS) || x->n_sets >= SETS_MAX)
                return;

        e = find_any(x, name);
        r = e ? 0 : load(x, sets_fd, name, &e);
        if (r >= 0)
                e->is_seen = true;
        else if (r == -EBADMSG && on_broken)
                on_broken(name, userdata);
}

int set_index_scan(SetIndex *x, SetIndexVisitor on_leaf, SetIndexVisitor on_broken, void *userdata) {
        const struct dirent *entry;
        int fd, r;
        DIR *d;

        assert(x);

        for (SetEntry *e = x->sets.first; e; e = e->sets.next)
                e->is_seen = false;
        fd = open_sets(x);
        if (fd == -ENOENT) {
                forget_unseen(x);
                return 0; /* none was made yet */
        }
        if (fd < 0)
                return fd;
        d = fdopendir(fd);
        if (!d) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        while ((entry = readdir(d)))
                scan_one(x, dirfd(d), entry->d_name, on_leaf, on_broken, userdata);
        (void) closedir(d);
        forget_unseen(x);
        return 0;
}

SetEntry* set_index_find(SetIndex *x, const char *name) {
        SetEntry *e;

        assert(x && name);

        e = find_any(x, name);
        return e && !e->is_retiring ? e : NULL;
}

SetEntry* set_index_look(SetIndex *x, const char *name) {
        _cleanup_close_ int fd = -EBADF, set_fd = -EBADF;
        SetEntry *e;

        assert(x && name);

        fd = open_sets(x);
        if (fd < 0)
                return NULL;
        e = find_any(x, name);
        if (!e)
                return load(x, fd, name, &e) < 0 ? NULL : e;
        if (e->is_retiring)
                return NULL;
        /* Another server, or an administrator, may have removed it. */
        set_fd = open_one(fd, name);
        if (set_fd == -ENOENT) {
                if (e->n_users == 0)
                        set_index_remove(x, e);
                return NULL;
        }
        return e;
}

void set_entry_acquire(SetIndex *x, SetEntry *e, uint64_t now_usec) {
        _cleanup_close_ int fd = -EBADF;

        assert(x && e);

        e->used_usec = MAX_OF(e->used_usec, now_usec);
        if (e->n_users++ > 0 || !x->is_shared || e->lock_fd >= 0)
                return;
        fd = open_sets(x);
        if (fd >= 0)
                e->lock_fd = open_one(fd, e->name);
        /* A program may hold this lock as well as we can, so nothing depends on getting it. */
        if (e->lock_fd >= 0)
                (void) flock(e->lock_fd, LOCK_SH | LOCK_NB);
}

void set_entry_release(SetEntry *e) {
        assert(e && e->n_users > 0);

        if (--e->n_users == 0)
                e->lock_fd = safe_close(e->lock_fd);
}

bool set_index_may_retire(const SetIndex *x, const SetEntry *e) {
        _cleanup_close_ int fd = -EBADF, set_fd = -EBADF;

        assert(x && e);

        if (e->n_users > 0 || e->is_retiring)
                return false;
        if (!x->is_shared)
                return true;
        fd = open_sets(x);
        set_fd = fd < 0 ? fd : open_one(fd, e->name);
        return set_fd < 0 || flock(set_fd, LOCK_EX | LOCK_NB) == 0;
}

SetEntry* set_index_choose_victim(const SetIndex *x, const SetLimits *limits, const char *keep,
                                  uint64_t now_usec) {
        SetEntry *oldest = NULL;
        uint64_t n_bytes = 0;
        size_t n = 0;

        assert(x && limits);

        for (SetEntry *e = x->sets.first; e; e = e->sets.next) {
                if (e->is_retiring)
                        continue;
                n++;
                n_bytes += MIN_OF(e->facts.set.size_bytes, UINT64_MAX - n_bytes);
                if (e->n_users > 0 || (keep && streq(e->name, keep)) || !set_index_may_retire(x, e))
                        continue;
                if (!oldest || e->used_usec < oldest->used_usec)
                        oldest = e;
        }
        if (!oldest)
                return NULL;
        if (n > limits->n_max || n_bytes > limits->max_bytes)
                return oldest;
        if (limits->max_age_usec > 0 && now_usec > oldest->used_usec &&
            now_usec - oldest->used_usec > limits->max_age_usec)
                return oldest;
        return NULL;
}

static int open_leaf(const SetIndex *x, const char *name) {
        char leaf[SHA256_HEX_CHARS + sizeof(".tmp")];
        _cleanup_close_ int fd = -EBADF;

        (void) snprintf(leaf, sizeof(leaf), "%s.tmp", name);
        fd = open_sets(x);
        return fd < 0 ? fd : open_one(fd, leaf);
}

bool set_index_leaf_is_busy(const SetIndex *x, const char *name) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        assert(x && name);

        fd = open_leaf(x, name);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return true;
        if (!x->is_shared)
                return false;
        return fstat(fd, &st) < 0 ||
               now_realtime_usec() / USEC_PER_SEC < (uint64_t) st.st_mtim.tv_sec + SHARED_LEAF_AGE_SEC;
}

int set_index_lock_leaf(const SetIndex *x, const char *name) {
        _cleanup_close_ int fd = -EBADF;

        assert(x && name);

        fd = open_leaf(x, name);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -EBADF;
        return fd < 0 ? -EBADF : TAKE_FD(fd);
}
