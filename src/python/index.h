/* SPDX-License-Identifier: MIT */
#pragma once

/* SetIndex: the sets that are ready, as the launcher's directory shows them.
 *
 * What stands in a set was written by the user who prepares, so a set is what its name says, or nothing: the
 * name is the hash of interpreter and lock (set_name()). */

#include <stdbool.h>
#include <stdint.h>

#include "exec/list.h"
#include "python/answer.h"

typedef struct SetEntry SetEntry;
struct SetEntry {
        char name[SHA256_HEX_CHARS + 1];
        SetFacts facts;
        char **warnings; /* of its preparation, as far as this process knows them */
        uint64_t used_usec; /* CLOCK_REALTIME */
        unsigned n_users; /* runs that have it now */
        bool is_retiring; /* the launcher was told that it is not used any more */
        bool is_seen; /* private: by the scan that is going on */
        int lock_fd; /* user mode: tells other servers of the same user that it is in use */
        LIST_LINK(SetEntry) sets;
};

typedef struct SetIndex {
        char directory[256]; /* "": none */
        bool is_shared; /* others change it, too: a user's own servers */
        LIST_HEAD(SetEntry) sets;
        size_t n_sets;
} SetIndex;

void set_index_done(SetIndex *x);

/* The sets of another directory than before go with the next scan, for runs may use them. */
void set_index_set_directory(SetIndex *x, const char *directory, bool is_shared);

/* Looks what is there. on_leaf (may be NULL) is called for each "NAME.tmp", on_broken for each set that is
 * not what its name says. Returns 0 or -errno. */
typedef void (*SetIndexVisitor)(const char *name, void *userdata);
int set_index_scan(SetIndex *x, SetIndexVisitor on_leaf, SetIndexVisitor on_broken, void *userdata);

/* A set that may be used, or NULL. */
SetEntry* set_index_find(SetIndex *x, const char *name);

/* The same, and looks into the directory when it is not known. */
SetEntry* set_index_look(SetIndex *x, const char *name);

void set_entry_acquire(SetIndex *x, SetEntry *e, uint64_t now_usec);
void set_entry_release(SetEntry *e);

/* Whether nobody else has it in use, as far as that can be told. */
bool set_index_may_retire(const SetIndex *x, const SetEntry *e);

void set_index_remove(SetIndex *x, SetEntry *e);

/* The set that is to go next, or NULL: whatever is beyond the limits, longest unused first, never one in
 * use. keep (may be NULL): never this one. */
typedef struct SetLimits {
        size_t n_max;
        uint64_t max_bytes, max_age_usec; /* 0: no limit of age */
} SetLimits;

SetEntry* set_index_choose_victim(const SetIndex *x, const SetLimits *limits, const char *keep,
                                  uint64_t now_usec);

/* Whether a leaf of this name is somebody else's work; false: it is a leftover. */
bool set_index_leaf_is_busy(const SetIndex *x, const char *name);

/* For the time in which one leaf is ours: -EBADF when it cannot be had. */
int set_index_lock_leaf(const SetIndex *x, const char *name);
