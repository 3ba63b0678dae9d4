/* SPDX-License-Identifier: MIT */

/* The world of one run: its directories on the unit's own tmpfs, who it thinks it is, and its
 * environment. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "runner/runner.h"

/* Libraries size their thread pools by the machine's CPUs, not by the quota of the cgroup: 64 threads on
 * one CPU's worth of time. The launcher sets these in the unit. */
static const char *const thread_counts[] = {
        "BLIS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
};

static void close_dir(DIR **d) {
        if (*d)
                (void) closedir(*d);
}

static int write_file(int dir_fd, const char *name, const char *text) {
        _cleanup_fd_ int fd = -EBADF;
        size_t n = strlen(text);
        ssize_t k;

        fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        k = write(fd, text, n);
        if (k < 0)
                return -errno;

        return (size_t) k == n ? 0 : -ENOSPC;
}

/* /etc/passwd and /etc/group of the sandbox's root are links to these: getpass, pwd and expanduser must
 * work although the run's user exists nowhere and asking anybody for it would need a socket. */
static int write_accounts(int home_fd) {
        char passwd[256], group[128];
        unsigned uid = getuid(), gid = getgid();
        int r;

        (void) snprintf(passwd, sizeof(passwd),
                        "root:x:0:0:root:/:/usr/sbin/nologin\n"
                        "sandbox:x:%u:%u:sandbox:/tmp/home:/bin/sh\n"
                        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", uid, gid);
        (void) snprintf(group, sizeof(group), "root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n", gid);

        r = write_file(home_fd, ".etc/passwd", passwd);
        return r < 0 ? r : write_file(home_fd, ".etc/group", group);
}

/* matplotlib wants a cache directory it can write to and rebuilds its font list (seconds, and a line on
 * stderr) when the list is not there. So the directory is the run's own and the prepared files in it are
 * links. Without them a chart still works: failures are ignored. */
static void link_fonts(const RunnerPlaces *places, int home_fd) {
        _cleanup_(close_dir) DIR *d = NULL;
        char target[RUNNER_PATH_MAX], name[RUNNER_PATH_MAX];
        const struct dirent *e;

        d = opendir(places->fonts);
        if (!d)
                return;

        while ((e = readdir(d))) {
                int n, m;

                if (e->d_name[0] == '.')
                        continue;
                n = snprintf(target, sizeof(target), "%s/%s", places->fonts, e->d_name);
                m = snprintf(name, sizeof(name), ".config/matplotlib/%s", e->d_name);
                if (n < (int) sizeof(target) && m < (int) sizeof(name))
                        (void) symlinkat(target, home_fd, name);
        }
}

int world_prepare(const RunnerPlaces *places) {
        static const char *const below_home[] = { ".cache", ".config", ".config/matplotlib", ".etc" };
        _cleanup_fd_ int tmp_fd = -EBADF, home_fd = -EBADF;
        int r;

        assert(places);

        /* The daemon reads the finished run's files as another user, through a directory fd. */
        (void) umask(022);

        tmp_fd = open(places->tmp, O_DIRECTORY | O_CLOEXEC | O_PATH);
        if (tmp_fd < 0)
                return -errno;
        if (mkdirat(tmp_fd, "work", 0755) < 0 || mkdirat(tmp_fd, "home", 0755) < 0)
                return -errno;
        home_fd = openat(tmp_fd, "home", O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_PATH);
        if (home_fd < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(below_home); i++)
                if (mkdirat(home_fd, below_home[i], 0755) < 0)
                        return -errno;

        r = write_accounts(home_fd);
        if (r < 0)
                return r;

        link_fonts(places, home_fd);
        return 0;
}

int world_enter_nowhere(const RunnerPlaces *places) {
        char path[RUNNER_PATH_MAX];
        int n;

        assert(places);

        n = snprintf(path, sizeof(path), "%s/home/.start", places->tmp);
        if (n >= (int) sizeof(path))
                return -ENAMETOOLONG;
        if (mkdir(path, 0700) < 0 || chdir(path) < 0 || rmdir(path) < 0)
                return -errno;

        return 0;
}

_printf_(2, 3)
static int environment_add(RunnerEnvironment *e, const char *format, ...) {
        char *entry = e->text + e->n_bytes;
        size_t space = sizeof(e->text) - e->n_bytes;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(entry, space, format, ap);
        va_end(ap);

        if (n < 0 || (size_t) n >= space || e->n_entries >= RUNNER_ENVIRON_MAX)
                return -E2BIG;

        e->entries[e->n_entries++] = entry;
        e->entries[e->n_entries] = NULL;
        e->n_bytes += (size_t) n + 1;
        return 0;
}

/* Digits only, few of them: whatever else stands in such a variable of a manager's environment is
 * somebody's text. */
static bool is_thread_count(const char *entry) {
        for (size_t i = 0; i < ELEMENTSOF(thread_counts); i++) {
                size_t n = strlen(thread_counts[i]), n_digits;

                if (strncmp(entry, thread_counts[i], n) != 0 || entry[n] != '=')
                        continue;
                n_digits = strspn(entry + n + 1, "0123456789");
                return n_digits > 0 && n_digits <= 5 && entry[n + 1 + n_digits] == '\0';
        }

        return false;
}

/* Where the service manager put what FETCH alone gets. */
static bool is_credentials_directory(const char *entry) {
        return strncmp(entry, "CREDENTIALS_DIRECTORY=/run/", strlen("CREDENTIALS_DIRECTORY=/run/")) == 0;
}

/* With a set its programs go before all others. VIRTUAL_ENV tells the runner that it is in the set's
 * interpreter (runner.py). */
static int add_set(const RunnerPlaces *places, const char *set, RunnerEnvironment *e) {
        if (environment_add(e, "PATH=%s%s%s:/usr/local/bin:/usr/bin:/bin", set ?: "", set ? "/bin:" : "",
                            places->stubs) < 0)
                return -E2BIG;
        return set ? environment_add(e, "VIRTUAL_ENV=%s", set) : 0;
}

int world_environment(const RunnerPlaces *places, const RunnerFacts *facts, char *const inherited[],
                      RunnerEnvironment *ret) {
        int r = 0;

        assert(places);
        assert(facts);
        assert(ret);

        *ret = (RunnerEnvironment) {};

        /* PYTHONPATH brings the interpreter to our sitecustomize.py, which removes it again. */
        if (environment_add(ret, "PYTHONPATH=%s", places->hook) < 0 ||
            environment_add(ret, "HOME=%s/home", places->tmp) < 0 ||
            environment_add(ret, "LANG=C.UTF-8") < 0 ||
            environment_add(ret, "LOGNAME=sandbox") < 0 ||
            environment_add(ret, "MPLBACKEND=Agg") < 0 ||
            environment_add(ret, "MPLCONFIGDIR=%s/home/.config/matplotlib", places->tmp) < 0 ||
            add_set(places, facts->set, ret) < 0 ||
            environment_add(ret, "PYTHONUNBUFFERED=1") < 0 ||
            environment_add(ret, "TMPDIR=%s", places->tmp) < 0 ||
            environment_add(ret, "USER=sandbox") < 0 ||
            environment_add(ret, "XDG_CACHE_HOME=%s/home/.cache", places->tmp) < 0)
                return -E2BIG;

        for (size_t i = 0; r >= 0 && inherited && inherited[i]; i++)
                if (is_thread_count(inherited[i]) ||
                    (facts->profile == RUNNER_PROFILE_FETCH && is_credentials_directory(inherited[i])))
                        r = environment_add(ret, "%s", inherited[i]);

        return r;
}
