/* SPDX-License-Identifier: MIT */

/* Settings: files, then variables, then what must hold between keys. The variables are the predecessor's
 * eight, with its names, units and meaning; an empty one counts as not set. */

#include "base/settings.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/conf-file.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/strv.h"
#include "config.h"

#define CONF_NAME "mcp-exec.conf"
#define TOKEN_BYTES_MAX 4096
#define TOKEN_CREDENTIAL "auth-token"
/* What mcp-exec.service loads it from: the path that the administrator knows. */
#define TOKEN_SUBJECT MCP_EXEC_SYSCONFDIR "/auth-token (credential auth-token)"
#define ADDRESS_DEFAULT ":8080"

/* A number of the seam (wire/wire.h, which this room may not include; a unit test compares). */
#define SEAM_RUNTIME_USEC_MAX (UINT64_C(24) * 3600 * USEC_PER_SEC)

#define START_SPARE_USEC (60 * USEC_PER_SEC) /* to start and end a warm unit within its RuntimeMaxSec */
#define CPUS_MAX 128                         /* for MaxParallel=0 */

static const char *const transports[_TRANSPORT_MAX] = {
        [TRANSPORT_STDIO] = "stdio",
        [TRANSPORT_HTTP] = "http",
        [TRANSPORT_SSE] = "sse",
};

const char* transport_to_string(Transport t) {
        return (unsigned) t < _TRANSPORT_MAX ? transports[t] : "unknown";
}

/* Returns -EBADMSG with "SUBJECT: what". The subject is a variable's or a credential's name. */
static int fail(char **reterr_message, const char *subject, const char *what) {
        int r = str_printf(reterr_message, "%s: %s", subject, what);

        return r < 0 ? r : -EBADMSG;
}

typedef struct Loading {
        Settings *settings;
        char **places; /* "KEY=: PLACE", the newest last: for what is only wrong beside another key */
} Loading;

static void loading_done(Loading *l) {
        (void) strv_free(l->places);
}

static int assign(const char *section, const char *key, const char *value, const char *place, void *userdata,
                  char **reterr_reason) {
        Loading *l = userdata;
        int r;

        r = settings_set(l->settings, section, key, value, reterr_reason);
        return r < 0 ? r : strv_extendf(&l->places, "%s=: %s", key, place);
}

/* Puts the place of the key that a message is about in front of it. Returns -EBADMSG or -ENOMEM. */
static int fail_at_place(const Loading *l, char **message) {
        const char *end = strstr(*message, "=: "), *place = NULL;
        char *text = NULL;
        int r;

        STRV_FOREACH(p, l->places)
                if (end && strncmp(*p, *message, (size_t) (end - *message) + 3) == 0)
                        place = *p + (end - *message) + 3;
        if (!place)
                return -EBADMSG;
        r = str_printf(&text, "%s: %s", place, *message);
        if (r < 0)
                return r;
        free(*message);
        *message = text;
        return -EBADMSG;
}

static const char* variable(const char *name) {
        const char *value = getenv(name);

        return value && *value ? value : NULL;
}

static int set_transport(Settings *s, const char *value, char **reterr_message) {
        for (size_t i = 0; i < ELEMENTSOF(transports); i++)
                if (streq(value, transports[i])) {
                        s->transport = (Transport) i;
                        return 0;
                }
        return fail(reterr_message, "MCP_EXEC_TRANSPORT", "must be stdio, http or sse");
}

static int set_address(Settings *s, const char *value, char **reterr_message) {
        const char *colon = strrchr(value, ':');
        uint64_t port;

        if (!colon || parse_uint64(colon + 1, &port) < 0 || port > UINT16_MAX)
                return fail(reterr_message, "MCP_EXEC_ADDR", "must be HOST:PORT, [IPv6]:PORT or :PORT");
        return str_copy(&s->listen_address, value);
}

/* subject names where it came from; the token itself is in no message. */
static int set_token(Settings *s, const char *value, const char *subject, char **reterr_message) {
        static const char white[] = " \t\r\n";
        size_t n;
        char *token;

        value += strspn(value, white);
        n = strlen(value);
        while (n > 0 && strchr(white, value[n - 1]))
                n--;
        if (n == 0)
                return 0;
        if (n > TOKEN_BYTES_MAX)
                return fail(reterr_message, subject, "the token is longer than 4096 bytes");
        for (size_t i = 0; i < n; i++) /* a header could never carry another, so nobody could ever log in */
                if (value[i] <= 0x20 || value[i] >= 0x7f)
                        return fail(reterr_message, subject,
                                    "the token has characters other than visible ASCII");
        token = strndup(value, n);
        if (!token)
                return -ENOMEM;
        if (s->auth_token)
                explicit_bzero(s->auth_token, strlen(s->auth_token));
        free(s->auth_token);
        s->auth_token = token;
        return 0;
}

static int load_credential(Settings *s, char **reterr_message) {
        const char *directory = variable("CREDENTIALS_DIRECTORY");
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        if (!directory)
                return 0;
        r = str_printf(&path, "%s/%s", directory, TOKEN_CREDENTIAL);
        if (r < 0)
                return r;
        r = file_read(AT_FDCWD, path, TOKEN_BYTES_MAX + KIB, &text, NULL);
        if (r == -ENOENT)
                return 0;
        if (r == -ENOMEM)
                return r;
        /* Fail closed: a token that cannot be read must not turn into "no token". */
        if (r < 0)
                return fail(reterr_message, TOKEN_SUBJECT,
                            "cannot be read as a text file of at most 4096 bytes");
        r = set_token(s, text, TOKEN_SUBJECT, reterr_message);
        explicit_bzero(text, strlen(text));
        return r;
}

/* Variables that stand for a key. suffix makes the variable's plain number a value of that key. */
static const struct {
        const char *name, *section, *key, *suffix;
} variables[] = {
        /* The maximum first, so that a default above it is judged by the new one. */
        { "MCP_EXEC_MAX_TIMEOUT_S", "Exec", "MaxTimeoutSec", "s" },
        { "MCP_EXEC_DEFAULT_TIMEOUT_S", "Exec", "DefaultTimeoutSec", "s" },
        { "MCP_EXEC_MAX_OUTPUT_BYTES", "Exec", "MaxOutputBytes", "" },
        { "MCP_EXEC_MAX_STDIN_BYTES", "Exec", "MaxStdinBytes", "" },
        { "MCP_EXEC_PYTHON", "Sandbox", "Python", NULL },
};

static int load_variables(Loading *l, char **reterr_message) {
        Settings *s = l->settings;
        const char *value;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(variables); i++) {
                _cleanup_free_ char *text = NULL, *reason = NULL;
                uint64_t number;

                value = variable(variables[i].name);
                if (!value)
                        continue;
                if (variables[i].suffix && parse_uint64(value, &number) == -EINVAL)
                        return fail(reterr_message, variables[i].name, "not a whole number");
                r = str_printf(&text, "%s%s", value, variables[i].suffix ? variables[i].suffix : "");
                if (r < 0)
                        return r;
                r = settings_set(s, variables[i].section, variables[i].key, text, &reason);
                if (r == -EINVAL)
                        return fail(reterr_message, variables[i].name,
                                    reason ? reason : "not a valid value");
                if (r >= 0)
                        r = strv_extendf(&l->places, "%s=: %s", variables[i].key, variables[i].name);
                if (r < 0)
                        return r;
        }
        if (variable("MCP_EXEC_MAX_OUTPUT_BYTES"))
                s->has_output_limit_override = true;

        value = variable("MCP_EXEC_TRANSPORT");
        if (value) {
                r = set_transport(s, value, reterr_message);
                if (r < 0)
                        return r;
                if (s->transport == TRANSPORT_SSE)
                        s->endpoints |= ENDPOINT_SSE;
        }
        value = variable("MCP_EXEC_ADDR");
        r = set_address(s, value ? value : ADDRESS_DEFAULT, reterr_message);
        if (r < 0)
                return r;
        r = load_credential(s, reterr_message);
        if (r < 0)
                return r;
        value = variable("MCP_EXEC_AUTH_TOKEN");
        return value ? set_token(s, value, "MCP_EXEC_AUTH_TOKEN", reterr_message) : 0;
}

int settings_load_from(const char *const dirs[], Settings **ret, char **reterr_message) {
        _cleanup_(settings_freep) Settings *s = NULL;
        _cleanup_(loading_done) Loading l = {};
        int r;

        assert(dirs);
        assert(ret);
        assert(reterr_message);

        r = settings_new_default(&s);
        if (r < 0)
                return r;
        l.settings = s;
        r = conf_read(dirs, CONF_NAME, assign, &l, reterr_message);
        if (r < 0)
                return r;
        r = load_variables(&l, reterr_message);
        if (r < 0)
                return r;
        r = settings_verify(s, reterr_message);
        if (r < 0)
                return r == -EBADMSG ? fail_at_place(&l, reterr_message) : r;
        *ret = TAKE_PTR(s);
        return 0;
}

int settings_load(bool is_user, Settings **ret, char **reterr_message) {
        const char *config_home = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        _cleanup_free_ char *user_dir = NULL;
        const char *dirs[4] = {};
        size_t n = 0;
        int r = 0;

        if (is_user) {
                if (config_home && config_home[0] == '/')
                        r = str_printf(&user_dir, "%s/mcp-exec", config_home);
                else if (home && home[0] == '/')
                        r = str_printf(&user_dir, "%s/.config/mcp-exec", home);
                if (r < 0)
                        return r;
                if (user_dir)
                        dirs[n++] = user_dir;
        }
        dirs[n++] = MCP_EXEC_SYSCONFDIR;
        dirs[n++] = MCP_EXEC_LIBDIR;
        return settings_load_from(dirs, ret, reterr_message);
}

/* uv starts threads by the number of CPUs and gives up (it aborts) where it gets none. */
static uint64_t prepare_tasks_min(void) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);

        return 64 + (uint64_t) (n < 1 ? 1 : n);
}

int settings_verify(const Settings *s, char **reterr_message) {
        assert(s);
        assert(reterr_message);

        if (s->default_timeout_usec > s->max_timeout_usec) {
                char what[128];

                (void) snprintf(what, sizeof(what),
                                "%g s is more than MaxTimeoutSec=, which is %g s: lower the one or raise "
                                "the other",
                                (double) s->default_timeout_usec / USEC_PER_SEC,
                                (double) s->max_timeout_usec / USEC_PER_SEC);
                return fail(reterr_message, "DefaultTimeoutSec=", what);
        }
        /* RuntimeMaxSec of a warm unit covers both its waiting and its run. */
        if (s->pool_idle_usec + s->max_timeout_usec > SEAM_RUNTIME_USEC_MAX - START_SPARE_USEC)
                return fail(reterr_message, "MaxTimeoutSec=",
                            "must not be more than one day together with PoolIdleSec=");
        if (settings_prepare_tasks_max(s) < prepare_tasks_min()) {
                char what[128];

                (void) snprintf(what, sizeof(what),
                                "%" PRIu64 " is less than uv needs here, which is %" PRIu64
                                " (64, and one for each CPU)",
                                s->packages.prepare_tasks_max, prepare_tasks_min());
                return fail(reterr_message, "PrepareTasksMax=", what);
        }
        return 0;
}

uint64_t settings_prepare_tasks_max(const Settings *s) {
        uint64_t n;

        assert(s);

        /* The default is no mistake of anybody's, so that a large machine gets what it needs. */
        n = s->packages.prepare_tasks_max;
        return n == SETTINGS_PREPARE_TASKS_DEFAULT ? MAX_OF(n, prepare_tasks_min()) : n;
}

unsigned settings_parallel(const Settings *s) {
        cpu_set_t set;
        long n;

        assert(s);

        if (s->max_parallel > 0)
                return s->max_parallel;
        /* What this process may use, which is less than the machine has in a container or under
         * AllowedCPUs=. The call fails on more than 1024 CPUs, where any number is above our own limit. */
        n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
        return n < 1 ? 1 : n > CPUS_MAX ? CPUS_MAX : (unsigned) n;
}
