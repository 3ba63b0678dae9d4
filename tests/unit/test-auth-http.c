/* SPDX-License-Identifier: MIT */

#include "auth/auth.h"
#include "test.h"

/* The principal, "" when denied. */
static const char* who(bool is_open, const char *token, const char *authorization, const char *x_mcp_auth) {
        static char principal[64];
        _cleanup_free_ char *p = NULL;
        Settings s = { .auth_token = (char*) token };
        int r;

        r = auth_http(&(AuthHttp) {
                        .settings = &s,
                        .is_open = is_open,
                        .authorization = authorization,
                        .x_mcp_auth = x_mcp_auth,
                }, &p);
        ASSERT_TRUE(r == 0 || r == AUTH_E_DENIED);
        ASSERT_EQ_INT(p != NULL, r == 0);
        (void) snprintf(principal, sizeof(principal), "%s", p ? p : "");
        return principal;
}

TEST(token_by_either_header) {
        ASSERT_EQ_STR(who(false, "secret", "Bearer secret", NULL), "token");
        ASSERT_EQ_STR(who(false, "secret", "bearer   secret", NULL), "token");
        ASSERT_EQ_STR(who(false, "secret", NULL, "secret"), "token");
        ASSERT_EQ_STR(who(false, "secret", "Bearer wrong", "secret"), "token");
}

TEST(anything_else_is_denied) {
        ASSERT_EQ_STR(who(false, "secret", NULL, NULL), "");
        ASSERT_EQ_STR(who(false, "secret", "", ""), "");
        ASSERT_EQ_STR(who(false, "secret", "secret", NULL), "");
        ASSERT_EQ_STR(who(false, "secret", "Bearersecret", NULL), "");
        ASSERT_EQ_STR(who(false, "secret", "Bearer secret ", NULL), "");
        ASSERT_EQ_STR(who(false, "secret", "Basic secret", NULL), "");
        ASSERT_EQ_STR(who(false, "secret", NULL, "Secret"), "");
}

TEST(no_token_is_not_the_empty_token) {
        ASSERT_EQ_STR(who(false, NULL, "Bearer ", ""), "");
        ASSERT_EQ_STR(who(false, "", "Bearer ", ""), "");
        ASSERT_EQ_STR(who(false, "", NULL, NULL), "");
}

TEST(open_server_takes_everybody_and_still_knows_the_token) {
        ASSERT_EQ_STR(who(true, NULL, NULL, NULL), "anonymous");
        ASSERT_EQ_STR(who(true, "secret", "Bearer wrong", NULL), "anonymous");
        ASSERT_EQ_STR(who(true, "secret", "Bearer secret", NULL), "token");
}
