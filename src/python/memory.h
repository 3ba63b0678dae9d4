/* SPDX-License-Identifier: MIT */
#pragma once

/* Memory: which request led to which set, and when each set was last used, also across restarts.
 *
 * A request is known by a hash (of what was asked for and of all settings that decide what is found). What
 * is remembered is a short cut only: without it a request is resolved again and finds the same set. So a
 * file that cannot be read, or is not what it should be, is an empty one, and a full disk costs nothing
 * else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "exec/list.h"

#define MEMORY_ENTRIES_MAX 2048

typedef struct MemoryEntry MemoryEntry;

typedef struct Memory {
        char *path; /* NULL: nothing is kept on disk */
        LIST_HEAD(MemoryEntry) requests, uses; /* oldest first */
        size_t n_requests, n_uses;
        bool is_changed;
} Memory;

/* directory: NULL, or where the file is; what it says is read now. Returns 0 or -ENOMEM. */
int memory_init(Memory *m, const char *directory);
void memory_done(Memory *m); /* does not save */

/* The set that a request led to, or NULL. */
const char* memory_find(const Memory *m, const char *request);
int memory_note(Memory *m, const char *request, const char *set, bool is_lasting); /* 0 or -ENOMEM */
void memory_forget_set(Memory *m, const char *set);

uint64_t memory_used_usec(const Memory *m, const char *set); /* 0: not known */
int memory_note_use(Memory *m, const char *set, uint64_t usec);

/* Writes it if anything changed. Returns 0 or -errno. */
int memory_save(Memory *m);
