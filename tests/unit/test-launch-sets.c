/* SPDX-License-Identifier: MIT */

/* Sets of packages as names in a directory. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "launch/profile.h"
#include "launch/sets.h"
#include "test.h"

static char directory[32];

static Sets* open_sets(bool is_user) {
        Sets *s = NULL;

        ASSERT_EQ_INT(sets_new_at(directory, is_user, geteuid(), &s), 0);
        return s;
}

static Sets* setup(void) {
        (void) snprintf(directory, sizeof(directory), "/tmp/test-sets-XXXXXX");
        ASSERT_TRUE(mkdtemp(directory) != NULL);
        return open_sets(/* is_user= */ true);
}

static SetName name_of(char digit, bool is_leaf) {
        char field[WIRE_SET_NAME_CHARS];

        memset(field, digit, sizeof(field));
        return set_name_from_field(field, is_leaf);
}

static int change(Sets *s, WireSetAction action, char from, char to) {
        WireSet set = { .action = action };
        Problem p = {};
        int r;

        memset(set.environment, from, sizeof(set.environment));
        memset(set.to, to, sizeof(set.to));
        r = sets_change(s, &set, &p);
        ASSERT_EQ_INT(p.reason[0] != 0, r < 0);
        return r;
}

/* Returns the lock, or an error. */
static int use(Sets *s, char digit, bool is_leaf) {
        SetName name = name_of(digit, is_leaf);
        int lock = -EBADF, r;
        Problem p = {};

        r = sets_use(s, &name, &lock, &p);
        ASSERT_EQ_INT(p.reason[0] != 0, r < 0);
        ASSERT_EQ_INT(lock >= 0, r == 0);
        return r < 0 ? r : lock;
}

static bool exists(Sets *s, char digit, bool is_leaf) {
        SetName name = name_of(digit, is_leaf);

        return faccessat(s->fd, name.text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make(Sets *s, char digit) {
        safe_close(use(s, digit, true));
        ASSERT_EQ_INT(change(s, WIRE_SET_COMMIT, digit, digit), 0);
}

static void done(Sets *s) {
        (void) unlinkat(s->fd, ".lock", 0);
        sets_free(s);
        ASSERT_EQ_INT(rmdir(directory), 0); /* nothing was left */
}

TEST(names_are_digits_and_a_leaf_says_so) {
        SetName set = name_of('a', false), leaf = name_of('0', true);

        ASSERT_EQ_STR(set.text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        ASSERT_EQ_STR(leaf.text, "0000000000000000000000000000000000000000000000000000000000000000.tmp");
        ASSERT_EQ_STR(leaf.digits, "0000000000000000000000000000000000000000000000000000000000000000");
}

TEST(a_set_is_made_used_and_removed) {
        Sets *s = setup();
        int lock;

        ASSERT_EQ_INT(use(s, 'a', false), -ENOENT);
        safe_close(use(s, 'b', true));
        ASSERT_TRUE(exists(s, 'b', true));
        ASSERT_EQ_INT(change(s, WIRE_SET_COMMIT, 'b', 'a'), 0);
        ASSERT_TRUE(exists(s, 'a', false) && !exists(s, 'b', true));
        lock = use(s, 'a', false);
        ASSERT_TRUE(lock >= 0);
        safe_close(lock);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), 0);
        ASSERT_TRUE(!exists(s, 'a', false) && exists(s, 'a', true));
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), -ENOENT);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), -ENOENT);
        ASSERT_EQ_INT(change(s, WIRE_SET_COMMIT, 'a', 'b'), -ENOENT);
        done(s);
}

TEST(a_finished_set_is_never_replaced) {
        Sets *s = setup();
        SetName leaf = name_of('b', true);

        make(s, 'a'); /* empty: a plain rename would replace it */
        safe_close(use(s, 'b', true));
        ASSERT_EQ_INT(change(s, WIRE_SET_COMMIT, 'b', 'a'), -EEXIST);
        ASSERT_EQ_INT(mkdirat(s->fd, "x", 0755), 0);
        ASSERT_EQ_INT(renameat(s->fd, "x", s->fd, name_of('a', true).text), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), -EEXIST);
        ASSERT_TRUE(exists(s, 'a', false) && exists(s, 'b', true));
        ASSERT_EQ_INT(unlinkat(s->fd, leaf.text, AT_REMOVEDIR), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), 0);
        done(s);
}

TEST(what_is_in_use_stays_also_for_another_launcher) {
        Sets *s = setup(), *other = open_sets(/* is_user= */ true);
        Sets *const both[] = { s, other };
        int first, second, writer;

        make(s, 'a');
        first = use(s, 'a', false);
        second = use(other, 'a', false); /* many may read */
        ASSERT_TRUE(first >= 0 && second >= 0);
        for (size_t i = 0; i < ELEMENTSOF(both); i++)
                ASSERT_EQ_INT(change(both[i], WIRE_SET_RETIRE, 'a', 0), -EBUSY);
        safe_close(first);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), -EBUSY);
        safe_close(second);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), 0);

        writer = use(s, 'a', true);
        ASSERT_TRUE(writer >= 0);
        for (size_t i = 0; i < ELEMENTSOF(both); i++) {
                ASSERT_EQ_INT(use(both[i], 'a', true), -EBUSY);
                ASSERT_EQ_INT(change(both[i], WIRE_SET_COMMIT, 'a', 'b'), -EBUSY);
                ASSERT_EQ_INT(change(both[i], WIRE_SET_DROP, 'a', 0), -EBUSY);
                sets_sweep(both[i]);
        }
        ASSERT_TRUE(exists(s, 'a', true));
        safe_close(writer);
        ASSERT_EQ_INT(change(other, WIRE_SET_DROP, 'a', 0), 0);
        sets_free(other);
        done(s);
}

TEST(names_that_differ_late_are_locked_apart) {
        Sets *s = setup();
        char field[WIRE_SET_NAME_CHARS];
        int locks[3];

        memset(field, 'f', sizeof(field));
        for (size_t i = 0; i < ELEMENTSOF(locks); i++) {
                SetName name;
                Problem p;

                field[14] = "0ef"[i];
                name = set_name_from_field(field, true);
                ASSERT_EQ_INT(sets_use(s, &name, &locks[i], &p), 0);
                ASSERT_EQ_INT(unlinkat(s->fd, name.text, AT_REMOVEDIR), 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(locks); i++)
                safe_close(locks[i]);
        done(s);
}

TEST(what_others_put_there_is_not_taken) {
        Sets *s = setup();
        SetName set = name_of('a', false), leaf = name_of('a', true);

        ASSERT_EQ_INT(symlinkat("/tmp", s->fd, set.text), 0);
        ASSERT_EQ_INT(symlinkat("/tmp", s->fd, leaf.text), 0);
        ASSERT_EQ_INT(use(s, 'a', false), -EPERM);
        ASSERT_EQ_INT(use(s, 'a', true), -EPERM);
        ASSERT_EQ_INT(change(s, WIRE_SET_COMMIT, 'a', 'b'), -EPERM);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), -EPERM);
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), -ENOTDIR);
        ASSERT_EQ_INT(unlinkat(s->fd, set.text, 0), 0);
        ASSERT_EQ_INT(unlinkat(s->fd, leaf.text, 0), 0);

        ASSERT_EQ_INT(mkdirat(s->fd, set.text, 0755), 0);
        ASSERT_EQ_INT(fchmodat(s->fd, set.text, 0775, 0), 0);
        ASSERT_EQ_INT(use(s, 'a', false), -EPERM);
        ASSERT_EQ_INT(fchmodat(s->fd, set.text, 0755, 0), 0);
        safe_close(use(s, 'a', false));
        s->owner++; /* now it is somebody else's */
        ASSERT_EQ_INT(use(s, 'a', false), -EPERM);
        ASSERT_EQ_INT(unlinkat(s->fd, set.text, AT_REMOVEDIR), 0);
        done(s);
}

TEST(the_systems_leaf_is_made_by_its_service_manager) {
        Sets *s = setup(), *system = open_sets(/* is_user= */ false);

        safe_close(use(system, 'a', true));
        ASSERT_FALSE(exists(s, 'a', true));
        sets_free(system);
        done(s);
}

TEST(the_sweep_takes_empty_leaves_and_nothing_else) {
        Sets *s = setup();
        SetName full = name_of('b', true);
        _cleanup_free_ char *inside = NULL;

        make(s, 'a');
        safe_close(use(s, 'b', true));
        safe_close(use(s, 'c', true));
        ASSERT_EQ_INT(str_printf(&inside, "%s/%s/x", directory, full.text), 0);
        ASSERT_EQ_INT(mkdir(inside, 0755), 0);
        ASSERT_EQ_INT(mkdirat(s->fd, "other.tmp", 0755), 0);
        sets_sweep(s);
        ASSERT_TRUE(exists(s, 'a', false) && exists(s, 'b', true) && !exists(s, 'c', true));
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'b', 0), -ENOTEMPTY);
        ASSERT_EQ_INT(rmdir(inside), 0);
        ASSERT_EQ_INT(unlinkat(s->fd, "other.tmp", AT_REMOVEDIR), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'b', 0), 0);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), 0);
        sets_sweep(s);
        ASSERT_FALSE(exists(s, 'a', true));
        done(s);
}

TEST(a_directory_that_others_can_write_to_is_none) {
        Sets *s = setup(), *none = NULL;

        ASSERT_EQ_INT(chmod(directory, 0777), 0);
        ASSERT_EQ_INT(sets_new_at(directory, true, geteuid(), &none), 0);
        ASSERT_EQ_INT(none->fd, -EBADF);
        ASSERT_CONTAINS(none->problem.reason, "can be written to by others");
        ASSERT_EQ_INT(use(none, 'a', true), -EOPNOTSUPP);
        ASSERT_EQ_INT(change(none, WIRE_SET_DROP, 'a', 0), -EOPNOTSUPP);
        sets_sweep(none);
        sets_free(none);
        ASSERT_EQ_INT(sets_new_at("/nonexistent/sets", false, 0, &none), 0);
        ASSERT_CONTAINS(none->problem.reason, "/nonexistent/sets, cannot be opened");
        sets_free(none);
        done(s);
}

TEST(a_link_or_a_file_in_the_place_of_the_directory_is_no_reason_to_make_one_behind_it) {
        Sets *s = setup(), *none = NULL;
        char link[64];

        (void) snprintf(link, sizeof(link), "%s.link", directory);
        ASSERT_EQ_INT(symlink(directory, link), 0);
        ASSERT_EQ_INT(sets_new_at(link, false, 0, &none), 0);
        ASSERT_CONTAINS(none->problem.reason, "nor may it be a link");
        ASSERT_CONTAINS(none->problem.remedy, "Remove it. Run systemd-tmpfiles --create mcp-exec.conf");
        sets_free(none);
        ASSERT_EQ_INT(unlink(link), 0);
        safe_close(open(link, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        ASSERT_EQ_INT(sets_new_at(link, true, geteuid(), &none), 0);
        ASSERT_CONTAINS(none->problem.reason, "is none");
        ASSERT_EQ_STR(none->problem.remedy, "Remove it");
        sets_free(none);
        ASSERT_EQ_INT(unlink(link), 0);
        done(s);
}

TEST(a_users_sets_are_in_the_state_directory) {
        _cleanup_free_ char *path = NULL;
        Sets *s = setup();

        ASSERT_EQ_INT(setenv("XDG_STATE_HOME", directory, true), 0);
        sets_free(s);
        ASSERT_EQ_INT(sets_new(/* is_user= */ true, &s), 0);
        ASSERT_EQ_INT(unsetenv("XDG_STATE_HOME"), 0);
        ASSERT_EQ_INT(str_printf(&path, "%s/mcp-exec/sets", directory), 0);
        ASSERT_EQ_STR(s->directory, path);
        ASSERT_EQ_INT(s->fd, -EBADF); /* not there before somebody needs it */
        sets_sweep(s);
        ASSERT_EQ_INT(use(s, 'a', false), -ENOENT);
        ASSERT_EQ_INT(change(s, WIRE_SET_RETIRE, 'a', 0), -ENOENT);
        ASSERT_TRUE(access(path, F_OK) < 0);
        safe_close(use(s, 'a', true));
        ASSERT_EQ_INT(change(s, WIRE_SET_DROP, 'a', 0), 0);
        (void) unlinkat(s->fd, ".lock", 0);
        sets_free(s);
        ASSERT_EQ_INT(rmdir(path), 0);
        *strrchr(path, '/') = 0;
        ASSERT_EQ_INT(rmdir(path), 0);
        ASSERT_EQ_INT(rmdir(directory), 0);
}

TEST(directory_of_sets_that_is_made_later_is_used) {
        Sets *s = setup(), *later = NULL;
        char path[256];

        (void) snprintf(path, sizeof(path), "%s/later", directory);
        ASSERT_EQ_INT(sets_new_at(path, false, geteuid(), &later), 0);
        ASSERT_CONTAINS(later->problem.reason, "cannot be opened");
        ASSERT_CONTAINS(later->problem.remedy, "systemd-tmpfiles --create");
        sets_look_again(later);
        ASSERT_TRUE(later->has_problem);
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        sets_look_again(later);
        ASSERT_FALSE(later->has_problem);
        ASSERT_EQ_STR(later->problem.reason, "");
        safe_close(use(later, 'a', true));
        /* Removed with what is in it, which is told, and made again. */
        ASSERT_EQ_INT(unlinkat(later->fd, ".lock", 0), 0);
        ASSERT_EQ_INT(rmdir(path), 0);
        sets_look_again(later);
        ASSERT_TRUE(later->has_problem);
        ASSERT_CONTAINS(later->problem.remedy, "systemd-tmpfiles --create");
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        sets_look_again(later);
        ASSERT_FALSE(later->has_problem);
        ASSERT_EQ_INT(rmdir(path), 0);
        ASSERT_EQ_INT(use(later, 'a', true), -ENOENT);
        ASSERT_EQ_INT(mkdir(path, 0755), 0);
        safe_close(use(later, 'a', true));
        ASSERT_EQ_INT(unlinkat(later->fd, ".lock", 0), 0);
        ASSERT_EQ_INT(rmdir(path), 0);
        sets_free(later);
        done(s);
}
