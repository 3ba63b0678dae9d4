/* SPDX-License-Identifier: MIT */
#pragma once

/* Access: the file of tokens, and of limits for tokens, users and groups.
 *
 *   token NAME sha256:HEX [delegate] [LIMIT=…]   who sends this token is token:NAME
 *   user NAME LIMIT=…                            limits of a user of the Unix socket (name or number)
 *   group NAME LIMIT=…                           of the members of a group, unless a user line says more
 *   proxy LIMIT=…                                of the proxy of the proxy socket
 *
 * LIMIT is parallel, queue, rate (programs a minute), timeout or memory. The first three are those of all
 * users together whom a delegating token or the proxy names; user-parallel, user-queue and user-rate those
 * of each of them. Tokens are random and long, so a plain digest is as good as a slow one: there is nothing
 * to guess. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/limits.h"
#include "base/macro.h"

#define ACCESS_NAME_CHARS_MAX 64
#define ACCESS_ENTRIES_MAX 4096
#define ACCESS_FILE_BYTES_MAX MIB

/* Of the service's file of tokens. Its group would be the users': whoever has a digest can guess at what it
 * is of. */
#define ACCESS_FILE_OWNER "mcp-exec:root"
#define ACCESS_FILE_MODE "0400"

typedef enum AccessKind {
        ACCESS_TOKEN,
        ACCESS_USER,
        ACCESS_GROUP,
        ACCESS_PROXY,
        _ACCESS_KIND_MAX,
} AccessKind;

typedef struct AccessEntry {
        AccessKind kind;
        char name[ACCESS_NAME_CHARS_MAX + 1]; /* "" for a proxy */
        char digest[SHA256_HEX_CHARS + 1];    /* tokens */
        bool is_delegating;                   /* tokens: may name the user it asks for */
        CountLimits limits;
        CountLimits user_limits; /* of each user that is named; at most limits */
        uint64_t timeout_usec, memory_max_bytes;
} AccessEntry;

typedef struct Access {
        AccessEntry *entries;
        size_t n_entries, n_tokens;
} Access;

/* A missing file is an empty one. Returns 0, -EBADMSG with *reterr_message "FILE:LINE: what is wrong"
 * (allocated), or another -errno. */
int access_load(const char *path, Access **ret, char **reterr_message);
int access_parse(const char *file, const char *text, Access **ret, char **reterr_message);
Access* access_free(Access *a);
DEFINE_CLEANUP(Access*, access_free);

/* One assignment of a limit, as in the file. Returns 0 or -EINVAL (which limit, or which value). */
int access_set_limit(AccessEntry *e, const char *key, const char *value);
/* Users are named by delegating tokens and the proxy only. */
bool access_may_limit_users(const AccessEntry *e);
bool access_limits_users(const AccessEntry *e);

/* The entry as a line of the file, with its newline. */
int access_write_entry(const AccessEntry *e, Buffer *b);

/* Letters, digits, dot, dash, underscore; not longer than ACCESS_NAME_CHARS_MAX. */
bool access_is_token_name(const char *name);
/* The name of a user whom a delegating token or a proxy names: the same and "@", "+". */
bool access_is_user_name(const char *name);

const AccessEntry* access_find(const Access *a, AccessKind kind, const char *name);
/* Every entry is compared, in a time that does not depend on which one it is. */
const AccessEntry* access_find_token(const Access *a, const char *token);

/* Limits of a principal as auth_…() name them; all zero for one without any. Looks up users and groups in
 * their databases: cache it. */
void access_limits(const Access *a, const char *principal, PrincipalLimits *ret);
