/* SPDX-License-Identifier: MIT */

#include "server/stdio-options.h"

#include <errno.h>
#include <getopt.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/strv.h"
#include "server/command.h"

enum {
        PYTHON_VERSION,
        MAX_TIMEOUT,
        DEFAULT_TIMEOUT,
        MAX_OUTPUT_BYTES,
        UV_PATH,
        SANDBOX_BACKEND,
        NO_WARM_CACHE
};

/* The key that an option stands for, and what makes its plain number a value of it. */
static const struct {
        const char *option, *section, *key, *suffix;
} keys[_STDIO_OPTIONS_MAX] = {
        [PYTHON_VERSION] = { "--python-version" },
        [MAX_TIMEOUT] = { "--max-timeout", "Exec", "MaxTimeoutSec", "s" },
        [DEFAULT_TIMEOUT] = { "--default-timeout", "Exec", "DefaultTimeoutSec", "s" },
        [MAX_OUTPUT_BYTES] = { "--max-output-bytes", "Exec", "MaxOutputBytes", "" },
        [UV_PATH] = { "--uv-path", "Packages", "UvPath", NULL },
        [SANDBOX_BACKEND] = { "--sandbox-backend" },
        [NO_WARM_CACHE] = { "--no-warm-cache" },
};

/* "3.13" or "3.13.5". */
static bool is_version(const char *s) {
        size_t n_parts = 0;

        for (;;) {
                size_t n = strspn(s, "0123456789");

                if (n == 0 || n > 3)
                        return false;
                n_parts++;
                s += n;
                if (*s == '\0')
                        return n_parts == 2 || n_parts == 3;
                if (*s++ != '.')
                        return false;
        }
}

int stdio_settings_take(StdioSettings *o, int option, const char *value) {
        int i = option - STDIO_OPTION_BASE;
        uint64_t number;

        assert(o);
        assert(i >= 0 && i < _STDIO_OPTIONS_MAX);

        if (i == PYTHON_VERSION && !is_version(value))
                return command_usage_error("stdio", "--python-version is a version such as 3.13, not \"%s\"",
                                           value);
        if (keys[i].suffix && parse_uint64(value, &number) < 0)
                return command_usage_error("stdio", "%s is a whole number, not \"%s\"", keys[i].option,
                                           value);
        if (i == SANDBOX_BACKEND && streq(value, "none"))
                return command_usage_error("stdio", "--sandbox-backend none: nothing is ever run without a "
                                                    "sandbox here. Leave the option out; \"mcp-exec check\" "
                                                    "tells what is missing where sandboxes do not work");
        if (i == SANDBOX_BACKEND && !streq(value, "native") && !streq(value, "docker"))
                return command_usage_error("stdio", "--sandbox-backend is native, not \"%s\"", value);
        o->values[i] = value ?: "";
        return 0;
}

static void tell_backend(const StdioSettings *o) {
        if (o->values[SANDBOX_BACKEND] && streq(o->values[SANDBOX_BACKEND], "docker"))
                log_warning("--sandbox-backend docker: sandboxes are made by systemd here, not by docker");
}

int stdio_settings_apply(const StdioSettings *o, Settings *s, char **reterr_message) {
        int r;

        assert(o);
        assert(s);
        assert(reterr_message);

        tell_backend(o);
        for (size_t i = 0; i < _STDIO_OPTIONS_MAX; i++) {
                _cleanup_free_ char *text = NULL, *reason = NULL;

                if (!o->values[i] || !keys[i].key)
                        continue;
                r = str_printf(&text, "%s%s", o->values[i], keys[i].suffix ?: "");
                if (r < 0)
                        return r;
                r = settings_set(s, keys[i].section, keys[i].key, text, &reason);
                if (r == -EINVAL) {
                        /* Nobody wrote the key. */
                        const char *colon = reason ? strstr(reason, "=: ") : NULL;

                        r = str_printf(reterr_message, "%s: %s", keys[i].option,
                                       colon ? colon + strlen("=: ") : "not a valid value");
                        return r < 0 ? r : -EBADMSG;
                }
                if (r < 0)
                        return r;
        }
        if (o->values[MAX_OUTPUT_BYTES])
                s->has_output_limit_override = true;
        r = str_copy(&s->python_version, o->values[PYTHON_VERSION]);
        return r < 0 ? r : settings_verify(s, reterr_message);
}

const char* stdio_settings_uv_path(const StdioSettings *o) {
        assert(o);
        return o->values[UV_PATH];
}

void stdio_settings_tell_ignored(const StdioSettings *o) {
        assert(o);

        tell_backend(o);
        for (size_t i = 0; i < _STDIO_OPTIONS_MAX; i++)
                if (o->values[i] && (keys[i].key || i == PYTHON_VERSION))
                        log_warning("%s has no effect on the system service, which is used here: set %s= in "
                                    "/etc/mcp-exec/mcp-exec.conf, or start \"mcp-exec stdio --no-bridge\"",
                                    keys[i].option, keys[i].key ?: "Python");
}
