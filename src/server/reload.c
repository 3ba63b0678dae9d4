/* SPDX-License-Identifier: MIT */

/* What programs may use is constant for the life of a process, and runs in flight were admitted under it. So
 * a reload puts into effect who may connect, and names what else has changed; a restart loses no client's
 * connection attempt, for systemd holds the sockets. */

#include <stdio.h>

#include "base/digest.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "server/reload.h"

static int collect(const char *section, const char *key, const char *value, void *userdata) {
        char ***list = userdata;
        return strv_extendf(list, "[%s] %s=%s", section, key, value);
}

static bool is_of(const char *assignment, const char *section) {
        return strncmp(assignment, section, strlen(section)) == 0;
}

static void report_change(const char *assignment) {
        if (is_of(assignment, "[Server]"))
                log_notice("Changed, in effect now: %s", assignment);
        else
                log_notice("Changed, in effect after \"systemctl restart mcp-exec%s.service\": %s",
                           is_of(assignment, "[Sandbox]") ? " mcp-exec-launcher" : "", assignment);
}

void reload_complain(char **problem, int error, const char *message, const char *what) {
        const char *end = message && *message == '/' ? strstr(message, ": ") : NULL;

        assert(problem);
        assert(what);

        if (message)
                log_error("%s has a mistake, so what was in use stays: %s", what, message);
        else
                (void) log_error_errno(error, "%s cannot be read, so what was in use stays", what);
        if (*problem)
                return;
        if (end)
                *problem = strndup(message, (size_t) (end - message));
        else
                (void) str_copy(problem, what);
}

void reload_settings(const Settings *current, bool is_user, Settings **ret, char **problem) {
        _cleanup_(settings_freep) Settings *fresh = NULL;
        _cleanup_strv_ char **before = NULL, **after = NULL;
        _cleanup_free_ char *message = NULL;
        size_t n_changed = 0;
        int r;

        assert(current);
        assert(ret);

        *ret = NULL;

        r = settings_load(is_user, &fresh, &message);
        if (r < 0) {
                reload_complain(problem, r, message, "The configuration");
                return;
        }

        r = settings_foreach(current, collect, &before);
        if (r >= 0)
                r = settings_foreach(fresh, collect, &after);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot compare the configurations");
                return;
        }

        /* Both lists follow the same table. */
        for (size_t i = 0; i < strv_length(after); i++)
                if (!streq(before[i], after[i])) {
                        report_change(after[i]);
                        n_changed++;
                }
        /* Which token it is stays unsaid. */
        if (!current->auth_token != !fresh->auth_token ||
            (current->auth_token && fresh->auth_token &&
             !secret_equal(current->auth_token, fresh->auth_token))) {
                log_notice("The token has changed, in effect now");
                n_changed++;
        }
        if (n_changed == 0)
                log_info("The configuration is unchanged");
        *ret = TAKE_PTR(fresh);
}
