/* SPDX-License-Identifier: MIT */
#pragma once

/* Auth: raw facts about a peer -> principal. Unix sockets by peer credentials, HTTP by token. */

#include <stdbool.h>
#include <sys/types.h>

#include "auth/access.h"
#include "base/settings.h"

enum {
        _AUTH_E_SUCCESS,
        AUTH_E_DENIED, /* *reterr_message (allocated): who was refused, and the administrator's remedy */
        AUTH_E_USER, /* X-MCP-User: not allowed, missing where it is needed, or not a name */
};

/* A connected AF_UNIX socket: root, or a user in AllowUsers=, or whose groups *now* (from the group
 * database, not those of the process) include one of AllowGroups=. *ret_principal: "uid:1000"
 * (allocated). Returns 0, AUTH_E_DENIED, -errno. */
int auth_unix_peer(const Settings *s, int fd, char **ret_principal, char **reterr_message);

/* The decision itself, for tests. */
int auth_uid(const Settings *s, uid_t uid, char **ret_principal, char **reterr_message);

/* Is it this user (a name or a number)? Is one of its groups this one? False also when nobody knows. */
bool auth_uid_is(uid_t uid, const char *user);
bool auth_uid_is_in(uid_t uid, const char *group);

/* What an HTTP request tells of its sender; NULL for a header that is absent, or came more than once. */
typedef struct AuthHttp {
        const Settings *settings;
        const Access *access; /* NULL: no named tokens */
        bool is_open; /* --no-auth */
        bool is_proxy; /* it came over the proxy socket: whoever may open that vouches for user */
        const char *authorization; /* "Authorization" */
        const char *x_mcp_auth; /* "X-MCP-AUTH" */
        const char *user; /* "X-MCP-User": for whom it is asked */
        unsigned n_user; /* how often that came */
} AuthHttp;

/* "token" (the single one), "token:NAME", "token:NAME/USER" (a delegating one), "proxy:USER", "anonymous".
 * Returns 0 with *ret_principal, AUTH_E_DENIED, AUTH_E_USER or -errno. No message: it would tell a guesser
 * something. */
int auth_http(const AuthHttp *facts, char **ret_principal);

/* After a reload: whether what let this principal in before does so no longer. A token that has another
 * secret now is another token. */
bool auth_http_is_revoked(const AuthHttp *before, const AuthHttp *now, const char *principal);
