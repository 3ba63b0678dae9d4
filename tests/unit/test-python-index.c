/* SPDX-License-Identifier: MIT */

/* What the index takes for a set, and which one goes first. Others write into sets. */

#include "files.h"
#include "python/index.h"
#include "test.h"

#include <sys/file.h>

#define LOCK "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

typedef struct Seen {
        unsigned n_leaves, n_broken;
        char leaf[65], broken[65];
} Seen;

static void on_leaf(const char *name, void *userdata) {
        Seen *s = userdata;

        s->n_leaves++;
        memcpy(s->leaf, name, sizeof(s->leaf));
}

static void on_broken(const char *name, void *userdata) {
        Seen *s = userdata;

        s->n_broken++;
        memcpy(s->broken, name, sizeof(s->broken));
}

static void make_facts(char ret[static 1024], unsigned i, unsigned size, unsigned created) {
        (void) snprintf(ret, 1024,
                        "{\"version\": 1, \"python\": \"/usr/bin/python3\", \"python_version\": \"3.13.5\", "
                        "\"requirements\": [], \"lock_sha256\": \"" LOCK
                        "%x\", \"packages\": [], \"size_bytes\": %u, "
                        "\"n_files\": 1, \"console_scripts\": [], \"created_usec\": %u}",
                        i, size, created);
}

/* The name that it must have. */
static void name_of(unsigned i, char ret[static 65]) {
        char lock[80];

        (void) snprintf(lock, sizeof(lock), LOCK "%x", i);
        ASSERT_EQ_INT(set_name("/usr/bin/python3", "3.13.5", lock, ret), 0);
}

static void put_set(const char *tree, unsigned i, unsigned size, unsigned created) {
        char facts[1024], name[65], path[128];

        name_of(i, name);
        make_facts(facts, i, size, created);
        (void) snprintf(path, sizeof(path), "%s/mcp-exec-set.json", name);
        put_file(tree, path, facts);
}

static SetIndex index_of(const char *tree, bool is_shared) {
        SetIndex x = {};

        set_index_set_directory(&x, tree, is_shared);
        return x;
}

TEST(sets_are_found_by_name) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        char name[65];
        Seen seen = {};

        put_set(tree, 1, 10, 100);
        put_set(tree, 2, 10, 200);
        ASSERT_EQ_INT(set_index_scan(&x, on_leaf, on_broken, &seen), 0);
        ASSERT_EQ_UINT(x.n_sets, 2);
        ASSERT_EQ_UINT(seen.n_leaves + seen.n_broken, 0);
        name_of(1, name);
        ASSERT_TRUE(set_index_find(&x, name));
        ASSERT_EQ_UINT(set_index_find(&x, name)->used_usec, 100);
        name_of(3, name);
        ASSERT_TRUE(set_index_find(&x, name) == NULL);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
        put_set(tree, 3, 10, 300);
        ASSERT_TRUE(set_index_look(&x, name));
        ASSERT_EQ_UINT(x.n_sets, 3);
}

TEST(what_is_not_as_its_name_says_is_no_set) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        char name[65], other[65], path[160];
        Seen seen = {};

        name_of(1, name);
        name_of(2, other);

        /* another one's facts under this name */
        put_set(tree, 2, 10, 100);
        ASSERT_TRUE(chdir(tree) == 0 && rename(other, name) == 0 && chdir("/") == 0);
        ASSERT_EQ_INT(set_index_scan(&x, NULL, on_broken, &seen), 0);
        ASSERT_EQ_UINT(seen.n_broken, 1);
        ASSERT_EQ_STR(seen.broken, name);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);

        /* no facts, facts that are no file, a link to a good one */
        (void) snprintf(path, sizeof(path), "%s/%s/mcp-exec-set.json", tree, name);
        ASSERT_EQ_INT(unlink(path), 0);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
        ASSERT_EQ_INT(mkfifo(path, 0666), 0);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
        ASSERT_EQ_INT(unlink(path), 0);
        put_set(tree, 1, 10, 100);
        ASSERT_TRUE(set_index_look(&x, name));
        set_index_done(&x);
        x = index_of(tree, false);
        (void) snprintf(other, sizeof(other), "%s", "good");
        (void) snprintf(path, sizeof(path), "%s/mcp-exec-set.json", name);
        ASSERT_TRUE(chdir(tree) == 0 && rename(path, other) == 0 && symlink("../good", path) == 0 &&
                    chdir("/") == 0);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
}

TEST(facts_of_any_size_are_not_read) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        char name[65], path[160];

        name_of(1, name);
        put_set(tree, 1, 10, 100);
        (void) snprintf(path, sizeof(path), "%s/%s/mcp-exec-set.json", tree, name);
        ASSERT_EQ_INT(truncate(path, 2 << 20), 0);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
}

TEST(leaves_and_other_names) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        char name[65], path[160];
        Seen seen = {};

        name_of(1, name);
        (void) snprintf(path, sizeof(path), "%s.tmp/x", name);
        put_file(tree, path, "");
        put_file(tree, "lost+found/x", "");
        put_file(tree, "XYZ.tmp/x", "");
        put_file(tree, "README", "");
        ASSERT_EQ_INT(set_index_scan(&x, on_leaf, on_broken, &seen), 0);
        ASSERT_EQ_UINT(seen.n_leaves, 1);
        ASSERT_EQ_STR(seen.leaf, name);
        ASSERT_EQ_UINT(seen.n_broken, 0);
        ASSERT_EQ_UINT(x.n_sets, 0);
        /* without visitors as well */
        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
}

TEST(directory_that_is_not_there_yet_is_empty) {
        SetIndex x = index_of("/nonexistent", false);

        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
        ASSERT_TRUE(set_index_look(&x, LOCK "0") == NULL);
}

TEST(set_that_was_removed_behind_our_back_is_forgotten) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        char name[65];
        SetEntry *e;

        put_set(tree, 1, 10, 100);
        name_of(1, name);
        e = set_index_look(&x, name);
        ASSERT_TRUE(e);
        set_entry_acquire(&x, e, 5);
        ASSERT_TRUE(chdir(tree) == 0 && rename(name, "gone") == 0 && chdir("/") == 0);
        ASSERT_TRUE(set_index_look(&x, name) == NULL);
        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
        ASSERT_EQ_UINT(x.n_sets, 1); /* a run has it */
        set_entry_release(e);
        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
        ASSERT_EQ_UINT(x.n_sets, 0);
}

static const char* victim(SetIndex *x, const SetLimits *limits, const char *keep, uint64_t now_usec) {
        const SetEntry *e = set_index_choose_victim(x, limits, keep, now_usec);

        return e ? e->name : "none";
}

TEST(longest_unused_goes_first_and_only_beyond_a_limit) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        const SetLimits wide = { .n_max = 3, .max_bytes = 30 }, few = { .n_max = 2, .max_bytes = 1000 },
                        small = { .n_max = 10, .max_bytes = 29 },
                        young = { .n_max = 10, .max_bytes = 1000, .max_age_usec = 50 };
        char names[4][65];
        SetEntry *e;

        for (unsigned i = 1; i <= 3; i++) {
                put_set(tree, i, 10, i * 100);
                name_of(i, names[i]);
        }
        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
        ASSERT_EQ_STR(victim(&x, &wide, NULL, 300), "none");
        ASSERT_EQ_STR(victim(&x, &few, NULL, 300), names[1]);
        ASSERT_EQ_STR(victim(&x, &small, NULL, 300), names[1]);
        ASSERT_EQ_STR(victim(&x, &young, NULL, 150), "none");
        ASSERT_EQ_STR(victim(&x, &young, NULL, 151), names[1]);
        ASSERT_EQ_STR(victim(&x, &few, names[1], 300), names[2]);

        /* used again: the next one */
        e = set_index_find(&x, names[1]);
        set_entry_acquire(&x, e, 400);
        ASSERT_EQ_STR(victim(&x, &few, NULL, 400), names[2]);
        set_entry_release(e);
        ASSERT_EQ_STR(victim(&x, &few, NULL, 400), names[2]);

        /* in use: not at all */
        for (unsigned i = 1; i <= 3; i++)
                set_entry_acquire(&x, set_index_find(&x, names[i]), 500);
        ASSERT_EQ_STR(victim(&x, &few, NULL, 10000), "none");
        for (unsigned i = 1; i <= 3; i++)
                set_entry_release(set_index_find(&x, names[i]));

        /* on its way out: it counts no more */
        e = set_index_find(&x, names[2]);
        e->is_retiring = true;
        ASSERT_EQ_STR(victim(&x, &few, NULL, 500), "none");
        ASSERT_TRUE(set_index_find(&x, names[2]) == NULL);
}

TEST(sizes_cannot_overflow) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false);
        const SetLimits limits = { .n_max = 10, .max_bytes = 1000 };

        for (unsigned i = 1; i <= 2; i++)
                put_set(tree, i, 10, i);
        ASSERT_EQ_INT(set_index_scan(&x, NULL, NULL, NULL), 0);
        for (SetEntry *e = x.sets.first; e; e = e->sets.next)
                e->facts.set.size_bytes = UINT64_MAX - 5;
        ASSERT_TRUE(set_index_choose_victim(&x, &limits, NULL, 10));
}

TEST(set_that_another_server_uses_stays) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, true), other = index_of(tree, true);
        const SetLimits none = { .n_max = 0, .max_bytes = 0 };
        char name[65];
        SetEntry *e;

        put_set(tree, 1, 10, 100);
        name_of(1, name);
        ASSERT_TRUE(set_index_look(&x, name));
        e = set_index_look(&other, name);
        ASSERT_TRUE(e);
        set_entry_acquire(&other, e, 5);
        ASSERT_EQ_STR(victim(&x, &none, NULL, 10), "none");
        set_entry_release(e);
        ASSERT_EQ_STR(victim(&x, &none, NULL, 10), name);
}

TEST(leaf_that_is_being_written_is_no_leftover) {
        _cleanup_tree_ char *tree = make_tree();
        _cleanup_(set_index_done) SetIndex x = index_of(tree, false), shared = index_of(tree, true);
        char name[65], path[160];
        int fd;

        name_of(1, name);
        (void) snprintf(path, sizeof(path), "%s.tmp/x", name);
        put_file(tree, path, "");
        ASSERT_TRUE(!set_index_leaf_is_busy(&x, name));
        ASSERT_TRUE(set_index_leaf_is_busy(&shared, name)); /* so young that it may be another server's */
        fd = set_index_lock_leaf(&x, name);
        ASSERT_TRUE(fd >= 0);
        ASSERT_TRUE(set_index_leaf_is_busy(&x, name));
        ASSERT_EQ_INT(set_index_lock_leaf(&x, name), -EBADF);
        (void) safe_close(fd);
        ASSERT_TRUE(!set_index_leaf_is_busy(&x, name));
        ASSERT_TRUE(set_index_leaf_is_busy(&x, LOCK "0")); /* there is none */
}
