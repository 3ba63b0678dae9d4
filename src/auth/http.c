/* SPDX-License-Identifier: MIT */

/* Who sends an HTTP request: the holder of a token, a user whom the holder of a delegating token or a proxy
 * names, or nobody in particular where the administrator said --no-auth. */

#include "auth/auth.h"

#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/strv.h"

/* "Bearer" is compared without case (RFC 9110 §11.1), one or more spaces follow; the token68 after it is
 * exact. NULL for another scheme. */
static const char* bearer_token(const char *authorization) {
        static const char scheme[] = "Bearer";
        const char *p;

        if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
                return NULL;
        p = authorization + sizeof(scheme) - 1;
        if (*p != ' ')
                return NULL;
        return p + strspn(p, " ");
}

/* Both headers are always looked at, so that the time tells nothing about which one was sent. */
static const AccessEntry* find_named(const AuthHttp *facts, const char *bearer) {
        const AccessEntry *by_bearer, *by_header;

        if (!facts->access)
                return NULL;
        by_bearer = access_find_token(facts->access, bearer ?: "");
        by_header = access_find_token(facts->access, facts->x_mcp_auth ?: "");
        return by_bearer ?: by_header;
}

static bool is_single_token(const AuthHttp *facts, const char *bearer) {
        const char *token = facts->settings->auth_token;
        bool is_bearer, is_header;

        if (!token || token[0] == 0)
                return false;
        is_bearer = secret_equal(bearer ?: "", token);
        is_header = secret_equal(facts->x_mcp_auth ?: "", token);
        return is_bearer || is_header;
}

/* The proxy has authenticated the user; that the header is its own and not its client's is its business. */
static int auth_proxy(const AuthHttp *facts, char **ret_principal) {
        if (facts->n_user != 1 || !access_is_user_name(facts->user))
                return AUTH_E_USER;
        return str_printf(ret_principal, "proxy:%s", facts->user);
}

int auth_http(const AuthHttp *facts, char **ret_principal) {
        const char *bearer;
        const AccessEntry *named;
        bool is_single;

        assert(facts);
        assert(facts->settings);
        assert(ret_principal);

        if (facts->is_proxy)
                return auth_proxy(facts, ret_principal);

        bearer = bearer_token(facts->authorization);
        named = find_named(facts, bearer);
        is_single = is_single_token(facts, bearer);
        if (named && named->is_delegating && facts->n_user > 0) {
                if (facts->n_user != 1 || !access_is_user_name(facts->user))
                        return AUTH_E_USER;
                return str_printf(ret_principal, "token:%s/%s", named->name, facts->user);
        }
        if (!named && !is_single && !facts->is_open)
                return AUTH_E_DENIED;
        /* Ignoring it would run one user's programs as another's, in limits and journal. */
        if (facts->n_user > 0)
                return AUTH_E_USER;
        if (named)
                return str_printf(ret_principal, "token:%s", named->name);
        return str_printf(ret_principal, "%s", is_single ? "token" : "anonymous");
}

/* Returns the user behind "token:NAME/", or "". */
static const char* split_named(const char *principal, char name[static ACCESS_NAME_CHARS_MAX + 1]) {
        const char *p = principal + strlen("token:");
        size_t n = strcspn(p, "/");

        if (n > ACCESS_NAME_CHARS_MAX)
                n = 0; /* no token is called so */
        memcpy(name, p, n);
        name[n] = 0;
        return p[n] == '/' ? p + n + 1 : "";
}

static bool is_named_revoked(const AuthHttp *before, const AuthHttp *now, const char *principal) {
        char name[ACCESS_NAME_CHARS_MAX + 1];
        const char *user = split_named(principal, name);
        const AccessEntry *old = before->access ? access_find(before->access, ACCESS_TOKEN, name) : NULL,
                          *new = now->access ? access_find(now->access, ACCESS_TOKEN, name) : NULL;

        return !old || !new || !digest_equal(old->digest, new->digest) ||
               (user[0] != 0 && !new->is_delegating);
}

bool auth_http_is_revoked(const AuthHttp *before, const AuthHttp *now, const char *principal) {
        const char *old, *new;

        assert(before && before->settings);
        assert(now && now->settings);
        assert(principal);

        if (strncmp(principal, "token:", strlen("token:")) == 0)
                return is_named_revoked(before, now, principal);
        if (!streq(principal, "token"))
                return false;
        old = before->settings->auth_token;
        new = now->settings->auth_token;
        return !old || !new || !secret_equal(old, new);
}
