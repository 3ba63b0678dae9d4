/* SPDX-License-Identifier: MIT */

#include "tool/interpreters.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/strv.h"

/* Where the launcher looks as well. */
static bool find(const char *name, char *ret, size_t ret_bytes) {
        static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin" };
        int n;

        if (name[0] == '/') {
                n = snprintf(ret, ret_bytes, "%s", name);
                return n > 0 && (size_t) n < ret_bytes && access(ret, X_OK) == 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                n = snprintf(ret, ret_bytes, "%s/%s", dirs[i], name);
                if (n > 0 && (size_t) n < ret_bytes && access(ret, X_OK) == 0)
                        return true;
        }
        return false;
}

/* "3.13" out of /usr/bin/python3.13, where a link from python3 leads; "3" where the name tells no more. */
static int version_of(const char *path, char **ret) {
        _cleanup_free_ char *real = realpath(path, NULL);
        const char *name, *version;
        size_t n;

        if (!real && errno == ENOMEM)
                return -ENOMEM;
        name = strrchr(real ?: path, '/');
        version = name ? strstr(name, "python3.") : NULL;
        if (!version)
                return str_copy(ret, "3");
        version += strlen("python");
        n = strspn(version, "0123456789.");
        return str_printf(ret, "%.*s", (int) n, version);
}

static bool has_version(char *const *l, const char *version) {
        size_t n = strlen(version);

        STRV_FOREACH(s, l)
                if (strncmp(*s, version, n) == 0 && (*s)[n] == ' ')
                        return true;
        return false;
}

int tool_interpreters_add(const char *path, const char *version, char ***l) {
        _cleanup_free_ char *guessed = NULL;
        int r = 0;

        assert(path);
        assert(l);

        if (!version || !*version) {
                r = version_of(path, &guessed);
                version = guessed;
        }
        if (r < 0 || has_version(*l, version))
                return r;
        return strv_extendf(l, "%s (%s)", version, path);
}

static int add(const char *name, char ***l) {
        char path[512];

        return find(name, path, sizeof(path)) ? tool_interpreters_add(path, NULL, l) : 0;
}

int tool_interpreters_scan(const Settings *s, char ***ret) {
        _cleanup_strv_ char **l = NULL;
        int r;

        assert(s);
        assert(ret);

        r = add(s->python, &l);
        if (r < 0)
                return r;
        STRV_FOREACH(name, s->packages.extra_pythons) {
                r = add(*name, &l);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}
