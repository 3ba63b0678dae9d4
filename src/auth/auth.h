/* SPDX-License-Identifier: MIT */
#pragma once

/* Auth: raw facts about a peer -> principal. Unix sockets by peer credentials, HTTP by token. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/settings.h"

enum {
        _AUTH_E_SUCCESS,
        AUTH_E_DENIED, /* *reterr_message (allocated): who was refused and what the administrator does about
                          it */
};

/* A connected AF_UNIX socket: root, or a user in AllowUsers=, or whose groups *now* (from the group
 * database, not those of the process) include one of AllowGroups=. *ret_principal: "uid:1000"
 * (allocated). Returns 0, AUTH_E_DENIED, -errno. */
int auth_unix_peer(const Settings *s, int fd, char **ret_principal, char **reterr_message);

/* The decision itself, for tests. */
int auth_uid(const Settings *s, uid_t uid, char **ret_principal, char **reterr_message);

/* HTTP: authorization is the header "Authorization", x_mcp_auth "X-MCP-AUTH"; NULL when absent. is_open:
 * --no-auth. Returns 0 with *ret_principal, or AUTH_E_DENIED. No message: it would tell a guesser
 * something. */
int auth_http(const Settings *s, bool is_open, const char *authorization, const char *x_mcp_auth,
              char **ret_principal);
