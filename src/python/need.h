/* SPDX-License-Identifier: MIT */
#pragma once

/* Need: from a script to a ready set. */

#include "python/internal.h"

typedef struct NeedHandlers {
        void (*on_phase)(Need *n, const char *phase, void *userdata); /* may be NULL */
        /* One of them, once; also from within need_start(). With an environment ("": none is needed) the set
         * is in use until need_free(). */
        void (*on_ready)(Need *n, unsigned interpreter, const char *environment, char *const *warnings,
                         void *userdata);
        void (*on_failed)(Need *n, ExecStatus status, const char *message, void *userdata);
} NeedHandlers;

/* principal: whose turn it takes; "" for the administrator. */
int need_new(Python *p, const PythonScript *script, const char *principal, const NeedHandlers *handlers,
             void *userdata, Need **ret);
Need* need_free(Need *n);
DEFINE_CLEANUP(Need*, need_free);
void need_start(Need *n);
const char* need_journal(const Need *n); /* during on_failed(): why, in our own words only */
void need_stop(Need *n); /* waits for nothing any more; nothing is called */
void need_orphan_all(Python *p); /* the room goes, needs may stay until their owners go */
bool need_any_asks(const Python *p);
/* The launcher has spoken, or will not, and why. */
void need_continue_all(Python *p, const char *why);

/* The key of what was parsed, and the ready set that it is known to lead to, or NULL. */
int need_key(const Python *p, const Parsed *parsed, const WireHello *hello,
             char ret[static SHA256_HEX_CHARS + 1]);
SetEntry* need_find_set(Python *p, const char *key);

/* Why no set can be made here, and what to do, or NULL. Borrowed from the settings and hello. */
const char* need_find_problem(const Python *p, const WireHello *hello);
