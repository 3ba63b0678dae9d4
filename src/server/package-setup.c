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

/* "numpy 2.3.1" for "numpy==2.3.1; …", "numpy" for everything else: what descriptions say of the set that
 * programs get which name none. Its versions are not known before it is made. */
static int describe_requirements(char *const *requirements, char ***ret) {
        _cleanup_strv_ char **l = NULL;
        int r;

        STRV_FOREACH(s, requirements) {
                size_t n = strcspn(*s, " \t[<>=!~;@(");
                const char *version = *s + n + strspn(*s + n, " \t");

                if (strncmp(version, "==", 2) == 0)
                        r = strv_extendf(&l, "%.*s %.*s", (int) n, *s, (int) strcspn(version + 2, " \t,;*"),
                                         version + 2);
                else
                        r = strv_extendf(&l, "%.*s", (int) n, *s);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

int packages_use_default(Python *python, const Settings *settings, char ***ret_described) {
        const char *path = settings->packages.default_requirements;
        _cleanup_strv_ char **requirements = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        assert(python);
        assert(ret_described);

        if (!*path)
                return 0;
        r = python_set_default(python, path, &message);
        if (r >= 0)
                r = python_read_requirements(path, &requirements, &message);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                if (message)
                        log_error("DefaultRequirements=: %s", message);
                else
                        (void) log_error_errno(r, "DefaultRequirements=: %s cannot be read", path);
                return 0;
        }
        return describe_requirements(requirements, ret_described);
}
