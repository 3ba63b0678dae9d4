/* SPDX-License-Identifier: MIT */

/* Who sends an HTTP request: the holder of the token, or nobody in particular where the administrator
 * said --no-auth. */

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

int auth_http(const Settings *s, bool is_open, const char *authorization, const char *x_mcp_auth,
              char **ret_principal) {
        const char *bearer = bearer_token(authorization), *principal = NULL;
        bool is_bearer, is_header;

        assert(s);
        assert(ret_principal);

        if (s->auth_token && s->auth_token[0] != 0) {
                /* Both are always compared, so that the time tells nothing about which one was sent. */
                is_bearer = secret_equal(bearer ?: "", s->auth_token);
                is_header = secret_equal(x_mcp_auth ?: "", s->auth_token);
                if (is_bearer || is_header)
                        principal = "token";
        }
        if (!principal && is_open)
                principal = "anonymous";
        if (!principal)
                return AUTH_E_DENIED;

        return str_printf(ret_principal, "%s", principal);
}
