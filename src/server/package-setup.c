/* SPDX-License-Identifier: MIT */

#include "server/package-setup.h"

#include <errno.h>

#include "base/log.h"
#include "base/strv.h"

int packages_find_state_directory(bool is_user, char **ret) {
        const char *directory = getenv("STATE_DIRECTORY"), *state_home = getenv("XDG_STATE_HOME"),
                   *home = getenv("HOME");
        _cleanup_free_ char *path = NULL;
        int r;

        if (directory && *directory) /* systemd's, separated by colons */
                r = str_printf(&path, "%.*s", (int) strcspn(directory, ":"), directory);
        else if (!is_user) /* a server by hand has none of its own */
                return 0;
        else if (state_home && state_home[0] == '/')
                r = str_printf(&path, "%s/mcp-exec", state_home);
        else if (home && home[0] == '/')
                r = str_printf(&path, "%s/.local/state/mcp-exec", home);
        else
                return 0;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(path);
        return 0;
}

int packages_use_default(Python *python, const Settings *settings) {
        const char *path = settings->packages.default_requirements;
        _cleanup_free_ char *message = NULL;
        int r;

        assert(python);

        if (!*path)
                return 0;
        if (settings->python_version) {
                /* Every program gets the interpreter that was asked for, with what is installed for it. */
                log_warning("DefaultRequirements= has no effect on a server with --python-version");
                return 0;
        }
        r = python_set_default(python, path, &message);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                log_error("DefaultRequirements=: %s", message);
        return 0;
}
