/* SPDX-License-Identifier: MIT */

/* Packages: what this machine has for installing packages. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strv.h"
#include "launch/packages.h"
#include "launch/profile.h"
#include "launch/sandbox.h"

/* By a way that every release of pipx knows, and to a place that the service sees. */
#define REMEDY_UV                                                                                           \
        "Install uv for everybody (for example with \"sudo apt install pipx\", then \"sudo "                \
        "PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install uv\"), or set UvPath= in "            \
        "mcp-exec.conf to its absolute path"

#define REMEDY_OWN_UV                                                                                       \
        "Install uv where only the user writes, such as ~/.local/bin, and let UvPath= in mcp-exec.conf "    \
        "name that one"

static int refuse(Packages *p, const Problem *problem) {
        p->has_problem = true;
        p->problem = *problem;
        return 0;
}

static int refuse_setting(Packages *p, const Problem *problem) {
        p->is_setting_wrong = true;
        return refuse(p, problem);
}

/* Whoever could replace it would run code of theirs with the network, and under everybody's scripts. A
 * user's own files are the user's affair. Returns 1, 0, or -ENOMEM. */
static int is_trusted(const char *real_path, bool is_user) {
        _cleanup_free_ char *path = NULL;
        struct stat st;
        char *slash;

        if (str_copy(&path, real_path) < 0)
                return -ENOMEM;
        if (is_user)
                return stat(path, &st) >= 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
                       !(st.st_mode & S_IWOTH);
        while (path[0]) {
                if (lstat(path, &st) < 0 || st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
                        return 0;
                slash = strrchr(path, '/');
                *slash = 0;
        }
        return 1;
}

static bool is_executable(const char *path, bool is_user) {
        struct stat st;

        return stat(path, &st) >= 0 && S_ISREG(st.st_mode) && (st.st_mode & (is_user ? S_IXUSR : S_IXOTH));
}

/* Of "directory:directory": the first with a program of this name. */
static int search(const char *name, const char *list, const char *below, bool is_user, char **ret) {
        while (list && *list && !*ret) {
                size_t n = strcspn(list, ":");
                _cleanup_free_ char *path = NULL;
                int r;

                r = str_printf(&path, "%.*s%s/%s", (int) n, list, below, name);
                if (r < 0)
                        return r;
                if (path[0] == '/' && is_executable(path, is_user))
                        *ret = TAKE_PTR(path);
                list += n + (list[n] == ':');
        }
        return 0;
}

/* *ret is the file itself, or NULL: it is not installed. Returns 0 or -ENOMEM. */
static int resolve_uv(const Settings *s, bool is_user, char **ret) {
        const char *name = s->packages.uv_path;
        _cleanup_free_ char *path = NULL;
        int r = 0;

        if (name[0] == '/') {
                if (is_executable(name, is_user))
                        r = str_copy(&path, name);
        } else {
                r = search(name, "/usr/local/bin:/usr/bin:/bin", "", is_user, &path);
                if (r >= 0 && is_user)
                        r = search(name, getenv("HOME"), "/.local/bin", is_user, &path);
                if (r >= 0 && is_user)
                        r = search(name, getenv("PATH"), "", is_user, &path);
        }
        if (r < 0)
                return r;
        *ret = path ? realpath(path, NULL) : NULL;
        return 0;
}

static int find_uv(Packages *p, const Settings *s, bool is_user) {
        const char *name = s->packages.uv_path;
        _cleanup_free_ char *real = NULL;
        Problem problem = {};
        struct stat st;
        int r;

        r = resolve_uv(s, is_user, &real);
        if (r < 0)
                return r;
        if (!real && name[0] == '/' && stat(name, &st) >= 0) {
                (void) problem_set(&problem, EACCES, REMEDY_UV, "%s (UvPath=) is %s", name,
                                   S_ISDIR(st.st_mode)  ? "a directory, and no program" :
                                   !S_ISREG(st.st_mode) ? "no regular file" :
                                                          "no program that can be executed");
                return refuse_setting(p, &problem);
        }
        if (!real) {
                (void) problem_set(&problem, ENOENT, REMEDY_UV, "The program %s (UvPath=) is not installed",
                                   name);
                return refuse(p, &problem);
        }
        r = is_trusted(real, is_user);
        if (r < 0)
                return r;
        if (r == 0) {
                /* Not to change the owner of directories above it, which may be somebody's home. */
                (void) problem_set(&problem, EPERM, is_user ? REMEDY_OWN_UV : REMEDY_UV,
                                   "The program %s (UvPath=) could be replaced by others than %s", real,
                                   is_user ? "its user" : "root");
                return refuse_setting(p, &problem);
        }
        p->uv_inside = path_is_visible(real, s->bind_read_only_paths) ? real : UV_PATH_INSIDE;
        p->uv = TAKE_PTR(real);
        return 0;
}

#define RESTART ", then systemctl restart mcp-exec-launcher.service"
#define THEN(is_user) ((is_user) ? ", then start the server anew" : RESTART)

/* What is wrong with the file of a setting, or NULL. forbidden: mode bits that it must not have. */
static const char* find_fault(const struct stat *st, mode_t required, mode_t forbidden, bool is_user) {
        if (!S_ISREG(st->st_mode))
                return S_ISDIR(st->st_mode) ? "is a directory, and no regular file" : "is no regular file";
        if (st->st_uid != 0 && !(is_user && st->st_uid == geteuid()))
                return is_user ? "belongs to another user" : "does not belong to root";
        if (st->st_mode & forbidden & (S_IWGRP | S_IWOTH))
                return "can be written to by others than its owner";
        if (st->st_mode & forbidden)
                return "can be read by others than its owner";
        if ((st->st_mode & required) != required)
                return required & S_IROTH ? "cannot be read by everybody" : "cannot be read by its owner";
        return NULL;
}

/* A file that a setting names. No remedy changes the file itself: named by mistake, it may be one that
 * others need as it is (/etc/passwd), or one that nobody may ever read (/etc/shadow). */
static int find_file(Packages *p, const char *key, const char *path, mode_t required, mode_t forbidden,
                     bool is_user, char **ret) {
        bool is_secret = forbidden & S_IROTH;
        char remedy[sizeof(p->problem.remedy)];
        Problem problem = {};
        const char *fault;
        struct stat st;

        if (!path[0])
                return 0;
        if (stat(path, &st) < 0) {
                (void) snprintf(remedy, sizeof(remedy), "Correct the setting, or remove it%s",
                                THEN(is_user));
                (void) problem_set(&problem, errno, remedy, "The file %s (%s) cannot be looked at: %s", path,
                                   key, strerror(errno));
                return refuse_setting(p, &problem);
        }
        fault = find_fault(&st, required, forbidden, is_user);
        if (!fault)
                return str_copy(ret, path);
        (void) snprintf(remedy, sizeof(remedy),
                        is_secret ? "Let %s name another file, made for this: owned by %s, mode 0600%s" :
                                    "Let %s name another file, of certificates alone, written by %s and "
                                    "readable for all%s",
                        key, is_user ? "the user" : "root", THEN(is_user));
        (void) problem_set(&problem, EPERM, remedy, "%s (%s) %s", path, key, fault);
        return refuse_setting(p, &problem);
}

static int find_pythons(Packages *p, const Settings *s, bool is_again) {
        size_t n = 1;

        STRV_FOREACH(name, s->packages.extra_pythons) {
                Problem problem = {};
                int r;

                if (n >= WIRE_INTERPRETERS_MAX) {
                        if (!is_again)
                                log_warning("ExtraPythons=: %s and what follows is left out, there may be "
                                            "%d", *name, WIRE_INTERPRETERS_MAX - 1);
                        return 0;
                }
                r = interpreter_resolve(*name, s->bind_read_only_paths, p->pythons + n, &problem);
                if (r == -ENOMEM)
                        return r;
                if (r < 0) {
                        p->is_python_missing = true;
                        if (!is_again)
                                log_warning("ExtraPythons=: %s", problem.reason);
                }
                n++;
        }
        return 0;
}

static int find_all(Packages *p, const Settings *settings, bool is_user, bool is_again) {
        int r;

        r = find_pythons(p, settings, is_again);
        if (r >= 0)
                r = find_uv(p, settings, is_user);
        if (r >= 0)
                r = find_file(p, "CaBundle=", settings->packages.ca_bundle, is_user ? S_IRUSR : S_IROTH,
                              S_IWGRP | S_IWOTH, is_user, &p->ca_bundle);
        if (r >= 0)
                r = find_file(p, "IndexCredentials=", settings->packages.index_credentials, S_IRUSR,
                              S_IRWXG | S_IRWXO, is_user, &p->index_credentials);
        return r;
}

int packages_find(Packages *p, const Settings *settings, bool is_user) {
        int r;

        assert(p && settings);

        r = find_all(p, settings, is_user, /* is_again= */ false);
        if (r >= 0 && p->is_setting_wrong)
                log_warning("Packages cannot be installed: %s. %s.", p->problem.reason, p->problem.remedy);
        return r;
}

static bool is_gone(const char *path) {
        return path && access(path, F_OK) < 0;
}

/* Installed elsewhere by now, or its link leads to another one. */
static bool has_uv_moved(const Packages *p, const Settings *settings, bool is_user) {
        _cleanup_free_ char *real = NULL;

        return p->uv && resolve_uv(settings, is_user, &real) >= 0 && (!real || !streq(real, p->uv));
}

void packages_look_again(Packages *p, const Settings *settings, bool is_user) {
        Packages found = {};

        assert(p && settings);

        if (!p->has_problem && !p->is_python_missing && !is_gone(p->ca_bundle) &&
            !is_gone(p->index_credentials) && !has_uv_moved(p, settings, is_user))
                return;
        if (find_all(&found, settings, is_user, /* is_again= */ true) < 0) {
                packages_done(&found);
                return; /* no memory: what is known will do */
        }
        if (!found.has_problem && (p->has_problem || !p->uv || !streq(found.uv, p->uv)))
                log_info("Packages can be installed now, with %s", found.uv);
        else if (found.is_setting_wrong && !streq(found.problem.reason, p->problem.reason))
                log_warning("Packages cannot be installed: %s. %s.", found.problem.reason,
                            found.problem.remedy);
        packages_done(p);
        *p = found;
}

void packages_done(Packages *p) {
        for (size_t i = 0; i < ELEMENTSOF(p->pythons); i++)
                free(p->pythons[i]);
        free(p->uv);
        free(p->ca_bundle);
        free(p->index_credentials);
        *p = (Packages) {};
}
