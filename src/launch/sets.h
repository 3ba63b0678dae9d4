/* SPDX-License-Identifier: MIT */
#pragma once

/* Sets: the directory with the sets of packages. A finished set is "<64 hex>", one that is being made, or
 * emptied, is the leaf "<64 hex>.tmp". What is in them belongs to PREPARE_USER and is written by its units
 * alone; the names around it are ours, and change by renaming, which needs no capability.
 *
 * Who uses a set holds a lock as long as its unit lives, so that nothing is pulled from under it; also by
 * another launcher, for a user may have several. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/macro.h"
#include "launch/problem.h"
#include "wire/wire.h"

#define SET_LEAF_SUFFIX ".tmp"

typedef struct Sets {
        bool is_user;
        char *directory;
        int fd;      /* of the directory; -EBADF: it is not there yet */
        uid_t owner; /* of the sets */
        bool has_problem; /* there can be no sets, with problem */
        Problem problem;
} Sets;

/* A name as the file system has it. */
typedef struct SetName {
        char text[WIRE_SET_NAME_CHARS + sizeof(SET_LEAF_SUFFIX)];
        char digits[WIRE_SET_NAME_CHARS + 1];
        bool is_leaf;
} SetName;

SetName set_name_from_field(const char field[static WIRE_SET_NAME_CHARS], bool is_leaf);

/* Where they are in this mode. A user's directory is made with the first leaf: most users have no sets.
 * Never fails but for memory. */
int sets_new(bool is_user, Sets **ret);

/* In this directory, with contents of this user. Takes no ownership. */
int sets_new_at(const char *directory, bool is_user, uid_t owner, Sets **ret);

/* What kept it from being used may be gone. */
void sets_look_again(Sets *s);

/* Why the set or leaf cannot be given to a unit, or 0. Makes a user's leaf (the system's service manager
 * makes its own). *ret_lock is to be kept open as long as the unit lives. */
int sets_use(Sets *s, const SetName *name, int *ret_lock, Problem *reterr_problem);

int sets_path(const Sets *s, const SetName *name, char **ret);

/* COMMIT, RETIRE, DROP. Returns 0 or -errno with the problem's reason. */
int sets_change(Sets *s, const WireSet *set, Problem *reterr_problem);

/* Removes leaves that are empty and that nobody uses. */
void sets_sweep(Sets *s);

Sets* sets_free(Sets *s);
DEFINE_CLEANUP(Sets*, sets_free);
