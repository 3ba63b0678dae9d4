/* SPDX-License-Identifier: MIT */

/* The command line of init. It comes from the launcher, not from a client, and is still read strictly: a
 * fact that is not understood is a check that is not made. */

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "runner/runner.h"

static const char *const namespace_names[_RUNNER_NS_MAX] = {
        [RUNNER_NS_NET] = "net",
        [RUNNER_NS_MNT] = "mnt",
        [RUNNER_NS_IPC] = "ipc",
        [RUNNER_NS_USER] = "user",
        [RUNNER_NS_PID] = "pid",
};

/* Reads decimal digits at *p and moves it behind them. Returns 0 or -EINVAL; zero is not a valid fact. */
static int number_parse(const char **p, uint64_t *ret) {
        uint64_t n = 0;
        const char *s = *p;

        if (*s < '1' || *s > '9')
                return -EINVAL;

        for (; *s >= '0' && *s <= '9'; s++) {
                if (n > (UINT64_MAX - 9) / 10)
                        return -EINVAL;
                n = n * 10 + (uint64_t) (*s - '0');
        }

        *p = s;
        *ret = n;
        return 0;
}

/* One "net=4026531840" at *p; moves it behind. Returns 0 or -EINVAL. */
static int namespace_parse(const char **p, uint64_t namespaces[static _RUNNER_NS_MAX]) {
        for (size_t i = 0; i < _RUNNER_NS_MAX; i++) {
                size_t n = strlen(namespace_names[i]);

                if (strncmp(*p, namespace_names[i], n) != 0 || (*p)[n] != '=')
                        continue;
                if (namespaces[i] != 0)
                        return -EINVAL; /* twice: which one is true? */
                *p += n + 1;
                return number_parse(p, &namespaces[i]);
        }

        return -EINVAL;
}

static int namespaces_parse(const char *list, uint64_t namespaces[static _RUNNER_NS_MAX]) {
        const char *p = list;
        int r;

        for (;;) {
                r = namespace_parse(&p, namespaces);
                if (r < 0)
                        return r;
                if (*p == '\0')
                        return 0;
                if (*p++ != ',')
                        return -EINVAL;
        }
}

/* "BYTES:INODES" */
static int tmpfs_parse(const char *text, RunnerFacts *facts) {
        const char *p = text;
        int r;

        r = number_parse(&p, &facts->tmpfs_bytes);
        if (r < 0)
                return r;
        if (*p++ != ':')
                return -EINVAL;
        r = number_parse(&p, &facts->tmpfs_inodes);
        if (r < 0)
                return r;

        return *p == '\0' ? 0 : -EINVAL;
}

static int option_parse(const char *name, const char *value, RunnerFacts *facts, bool *has_mode) {
        if (streq(name, "--ns"))
                return namespaces_parse(value, facts->namespaces);
        if (streq(name, "--tmpfs"))
                return tmpfs_parse(value, facts);
        if (streq(name, "--profile") && facts->profile == RUNNER_PROFILE_RUN) {
                if (streq(value, "fetch"))
                        facts->profile = RUNNER_PROFILE_FETCH;
                else if (streq(value, "install"))
                        facts->profile = RUNNER_PROFILE_INSTALL;
                return facts->profile == RUNNER_PROFILE_RUN ? -EINVAL : 0;
        }
        if (streq(name, "--set") && !facts->set && value[0] == '/') {
                facts->set = value;
                return 0;
        }
        if (streq(name, "--mode") && !*has_mode && (streq(value, "system") || streq(value, "user"))) {
                *has_mode = true;
                facts->is_user = streq(value, "user");
                return 0;
        }

        return -EINVAL;
}

size_t facts_n_namespaces(const RunnerFacts *facts) {
        if (facts->is_user)
                return _RUNNER_NS_MAX;
        return facts->profile == RUNNER_PROFILE_RUN ? RUNNER_NS_USER : RUNNER_NS_PID;
}

int facts_parse(int argc, char *const argv[], RunnerFacts *ret) {
        RunnerFacts facts = {};
        bool has_mode = false;
        size_t n_needed;
        int i;

        assert(argv);
        assert(ret);

        if (argc < 3 || (!streq(argv[1], "run") && !streq(argv[1], "selftest")))
                return RUNNER_CHECK_ARGUMENTS;
        facts.is_selftest = streq(argv[1], "selftest");

        for (i = 2; i + 1 < argc && argv[i][0] == '-'; i += 2)
                if (option_parse(argv[i], argv[i + 1], &facts, &has_mode) < 0)
                        return RUNNER_CHECK_ARGUMENTS;

        if (!has_mode || i != argc - 1 || argv[i][0] != '/')
                return RUNNER_CHECK_ARGUMENTS;
        facts.python = argv[i];

        if (facts.profile != RUNNER_PROFILE_RUN && (facts.set || facts.is_selftest))
                return RUNNER_CHECK_ARGUMENTS;

        /* A run of the system manager has the host's user and process namespace: there DynamicUser= and
         * the hidden /proc do that work. What has the user of all sets has a namespace of users instead.
         * Net, mnt and ipc come first in the enumeration. */
        n_needed = facts_n_namespaces(&facts);
        for (size_t n = 0; n < n_needed; n++)
                if (facts.namespaces[n] == 0)
                        return RUNNER_CHECK_ARGUMENTS;

        *ret = facts;
        return RUNNER_CHECK_OK;
}
