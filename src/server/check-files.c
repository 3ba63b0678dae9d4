/* SPDX-License-Identifier: MIT */

/* Checks of the files that the service reads: a mistake in one of them is found now, and not when it starts
 * again. */

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/access.h"
#include "base/macro.h"
#include "base/strv.h"
#include "config.h"
#include "server/check.h"
#include "server/reload.h"
#include "server/resource-metadata.h"

/* It runs, with what it read before; not while it only tells that it cannot start. */
static bool is_serving(const CheckContext *c) {
        const char *active = c->units.states[SYSTEM_UNIT_SERVICE].active;

        return streq(active, "active") || streq(active, "reloading");
}

static void add_mistake(CheckContext *c, const char *name, const char *message) {
        if (is_serving(c))
                check_add(&c->report, CHECK_FAIL, name,
                          "Correct it, then \"systemctl reload mcp-exec.service\".",
                          "%s (the service goes on with what it read before)", message);
        else
                check_add(&c->report, CHECK_FAIL, name,
                          "Correct it; the next client then starts the service.", "%s", message);
}

void check_configuration(CheckContext *c, const char *message) {
        assert(c);
        assert(message);

        if (c->uid == 0)
                add_mistake(c, "settings", message);
        else
                check_add(&c->report, CHECK_FAIL, "settings", "Correct it.", "%s", message);
}

/* Of the single token without a name, which only root can read. */
static bool has_single_token(void) {
        struct stat st;

        return stat(MCP_EXEC_SYSCONFDIR "/auth-token", &st) >= 0 && st.st_size > 0;
}

static bool check_tokens(CheckContext *c) {
        _cleanup_(access_freep) Access *access = NULL;
        _cleanup_free_ char *message = NULL;

        if (access_load(MCP_EXEC_TOKEN_FILE, &access, &message) < 0) {
                if (message)
                        add_mistake(c, "tokens", message);
                else
                        c->report.is_incomplete = true;
                return false;
        }
        if (system_unit_is_up(&c->units, SYSTEM_UNIT_HTTP_SOCKET) && access->n_tokens == 0 &&
            !has_single_token())
                check_add(&c->report, CHECK_WARN, "tokens",
                          "mcp-exec token add NAME, then systemctl try-reload-or-restart mcp-exec.service",
                          "mcp-exec-http.socket listens, and there is no token: HTTP clients are answered "
                          "503 (%s)", MCP_EXEC_TOKEN_FILE);
        return true;
}

static bool check_metadata(CheckContext *c) {
        _cleanup_free_ char *message = NULL;
        ResourceMetadata m = {};

        if (resource_metadata_load(MCP_EXEC_METADATA_FILE, &m, &message) >= 0) {
                resource_metadata_done(&m);
                return true;
        }
        if (message)
                add_mistake(c, "metadata", message);
        else
                c->report.is_incomplete = true;
        return false;
}

void check_files(CheckContext *c) {
        _cleanup_free_ char *remedy = NULL;
        const char *where;
        bool is_good = true;

        assert(c);

        if (c->uid == 0) {
                is_good = check_tokens(c);
                is_good = check_metadata(c) && is_good;
        }
        where = is_serving(c) ? strstr(c->units.status, RELOAD_FAILED_TEXT) : NULL;
        if (!where || !is_good)
                return;
        where += strlen(RELOAD_FAILED_TEXT);
        if (str_printf(&remedy, "Correct it, then \"%ssystemctl reload mcp-exec.service\".",
                       c->uid == 0 ? "" : "sudo ") < 0)
                c->report.is_incomplete = true;
        check_add(&c->report, CHECK_WARN, "reload", remedy,
                  RELOAD_FAILED_TEXT "%s", where);
}
