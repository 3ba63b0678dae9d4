/* SPDX-License-Identifier: MIT */

/* Checks of the files that the service reads: a mistake in one of them is found now, and not when it starts
 * again. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/access.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "config.h"
#include "server/check.h"
#include "server/reload.h"
#include "server/resource-metadata.h"

#define SERVICE_USER "mcp-exec"

/* It runs, with what it read before; not while it only tells that it cannot start. */
static bool is_serving(const CheckContext *c) {
        const char *active = c->units.states[SYSTEM_UNIT_SERVICE].active;

        return streq(active, "active") || streq(active, "reloading");
}

static bool is_user(const char *name) {
        uint64_t uid;

        return getpwnam(name) || parse_uint64(name, &uid) >= 0;
}

/* ---- As the service sees it ---- */

/* Of its own groups root has no need. */
static void become_root_again(CheckContext *c) {
        if (seteuid(0) < 0 || setegid(0) < 0 || setgroups(0, NULL) < 0)
                check_report_break(&c->report, -errno);
}

/* root reads what the service may not, and would find nothing wrong with it. */
static bool become_service(CheckContext *c) {
        const struct passwd *p = getpwnam(SERVICE_USER);

        if (geteuid() != 0 || !p)
                return false;
        if (initgroups(p->pw_name, p->pw_gid) < 0) /* as in some containers */
                return false;
        if (setegid(p->pw_gid) >= 0 && seteuid(p->pw_uid) >= 0)
                return true;
        become_root_again(c);
        return false;
}

/* ---- Mistakes ---- */

static int write_protection(const char *path, const char *owner, const char *mode, char **ret) {
        _cleanup_free_ char *word = NULL;
        int r;

        r = str_quote_for_shell(path, &word);
        return r < 0 ? r : str_printf(ret, "chown %s %s && chmod %s %s", owner, word, mode, word);
}

/* "PATH: Permission denied" or "PATH:1: may not be read", where PATH may be a directory, or below one that
 * is shut. */
static int open_up(CheckContext *c, const char *message, char **ret) {
        const char *end = strstr(message, ": ");
        _cleanup_free_ char *path = NULL;
        bool is_service;
        char *line;
        struct stat st;

        path = strndup(message, end ? (size_t) (end - message) : strlen(message));
        if (!path)
                return -ENOMEM;
        line = strrchr(path, ':');
        if (line && streq(line, ":1"))
                *line = 0;
        is_service = become_service(c);
        for (char *slash = *path ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
                        break;
                *slash = '/';
        }
        if (is_service)
                become_root_again(c);
        if (stat(path, &st) >= 0 && S_ISDIR(st.st_mode))
                return write_protection(path, "root:root", "755", ret);
        if (streq(path, MCP_EXEC_TOKEN_FILE))
                return write_protection(path, ACCESS_FILE_OWNER, ACCESS_FILE_MODE, ret);
        return write_protection(path, "root:root", "644", ret);
}

/* In a file of the service's. */
static void add_mistake(CheckContext *c, const char *name, const char *message) {
        _cleanup_free_ char *first = NULL, *remedy = NULL, *other = NULL;
        int r = 0;

        if (strstr(message, strerrordesc_np(EACCES)) || strstr(message, "should belong to"))
                r = open_up(c, message, &first);
        if (r >= 0 && first)
                r = str_printf(&remedy, "%s%s", first,
                               is_serving(c) ? " && systemctl reload mcp-exec.service" : "");
        else if (r >= 0)
                r = str_printf(&remedy, "Correct it%s",
                               is_serving(c) ? ", then \"systemctl reload mcp-exec.service\"." :
                               system_unit_is_up(&c->units, SYSTEM_UNIT_SOCKET) ?
                                               "; the next client then starts the service." :
                                               ".");
        if (r < 0)
                check_report_break(&c->report, r);
        check_add(&c->report, CHECK_FAIL, name, remedy, "%s%s", message,
                  is_serving(c) ? " (the service goes on with what it read before; once it ends, it cannot "
                                  "start again)" :
                                  " (the service cannot start)");

        /* One cause, one remedy. */
        if (c->is_service_broken &&
            str_printf(&other, "First what is named for the %s.", name) >= 0)
                check_set_remedy(&c->report, "service", other);
        c->is_service_broken = false;
}

bool check_mistake_is_of_service(const CheckContext *c) {
        static const char *const directories[] = { MCP_EXEC_SYSCONFDIR "/", MCP_EXEC_LIBDIR "/" };

        assert(c);

        for (size_t i = 0; i < ELEMENTSOF(directories) && c->mistake; i++)
                if (strncmp(c->mistake, directories[i], strlen(directories[i])) == 0)
                        return true;
        return false;
}

static void add_mistake_of_settings(CheckContext *c) {
        if (c->uid == 0 && check_mistake_is_of_service(c)) {
                system_units_read(&c->units);
                add_mistake(c, "settings", c->mistake);
        } else if (*c->mistake == '/')
                check_add(&c->report, CHECK_FAIL, "settings", "Correct it.",
                          "%s (no server that reads it can start)", c->mistake);
        else
                check_add(&c->report, CHECK_FAIL, "settings", "Correct this variable, or unset it.",
                          "%s (the system service does not read this variable; a server that does runs "
                          "no program)", c->mistake);
}

int check_configuration(CheckContext *c, Settings **ret) {
        bool is_service;
        int r;

        assert(c);
        assert(ret);

        is_service = become_service(c);
        r = settings_load(/* is_user= */ c->uid != 0, ret, &c->mistake);
        if (is_service)
                become_root_again(c);
        if (!c->mistake)
                return r;
        add_mistake_of_settings(c);
        return settings_new_default(ret);
}

#define SINGLE_TOKEN_FILE MCP_EXEC_SYSCONFDIR "/auth-token"

/* Of the single token without a name, which only root can read. */
static bool has_single_token(void) {
        struct stat st;

        return stat(SINGLE_TOKEN_FILE, &st) >= 0 && st.st_size > 0;
}

static void check_secret(CheckContext *c, const char *path, const char *owner, const char *mode) {
        _cleanup_free_ char *remedy = NULL;
        const struct passwd *service = getpwnam(SERVICE_USER), *user;
        bool is_group, is_owner;
        const struct group *group;
        struct stat st;

        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        is_group = st.st_mode & S_IRGRP && st.st_gid != 0;
        is_owner = st.st_uid != 0 && !(service && st.st_uid == service->pw_uid);
        if (!(st.st_mode & S_IROTH) && !is_group && !is_owner)
                return;
        if (write_protection(path, owner, mode, &remedy) < 0)
                check_report_break(&c->report, -ENOMEM);
        group = is_group ? getgrgid(st.st_gid) : NULL;
        user = is_owner ? getpwuid(st.st_uid) : NULL;
        check_add(&c->report, CHECK_WARN, "secrets", remedy, "%s may be read by %s%s", path,
                  st.st_mode & S_IROTH ? "everybody on this machine" :
                  is_group             ? "the group " : "the user ",
                  st.st_mode & S_IROTH ? "" :
                  group                ? group->gr_name :
                  user                 ? user->pw_name : "that it has");
}

static bool check_tokens(CheckContext *c) {
        _cleanup_(access_freep) Access *access = NULL;
        _cleanup_free_ char *message = NULL;
        bool is_service;
        int r;

        is_service = become_service(c);
        r = access_load(MCP_EXEC_TOKEN_FILE, &access, &message);
        if (is_service)
                become_root_again(c);
        if (r < 0) {
                if (message)
                        add_mistake(c, "tokens", message);
                else
                        check_report_break(&c->report, r);
                return false;
        }
        for (size_t i = 0; i < access->n_entries; i++) {
                const AccessEntry *e = &access->entries[i];

                if ((e->kind == ACCESS_USER && !is_user(e->name)) ||
                    (e->kind == ACCESS_GROUP && !getgrnam(e->name)))
                        check_add(&c->report, CHECK_WARN, "limits",
                                  "Correct it, then \"systemctl try-reload-or-restart mcp-exec.service\".",
                                  "%s has limits of \"%s\", which is no %s here", MCP_EXEC_TOKEN_FILE,
                                  e->name, e->kind == ACCESS_USER ? "user" : "group");
        }
        if (system_unit_is_up(&c->units, SYSTEM_UNIT_HTTP_SOCKET) && access->n_tokens == 0 &&
            !has_single_token())
                check_add(&c->report, CHECK_WARN, "tokens",
                          "mcp-exec token add NAME",
                          "mcp-exec-http.socket listens, and there is no token: HTTP clients are answered "
                          "503 (%s)", MCP_EXEC_TOKEN_FILE);
        return true;
}

static bool check_metadata(CheckContext *c) {
        _cleanup_free_ char *message = NULL;
        ResourceMetadata m = {};
        bool is_service;
        int r;

        is_service = become_service(c);
        r = resource_metadata_load(MCP_EXEC_METADATA_FILE, &m, &message);
        if (is_service)
                become_root_again(c);
        if (r >= 0) {
                resource_metadata_done(&m);
                return true;
        }
        if (message)
                add_mistake(c, "metadata", message);
        else
                check_report_break(&c->report, r);
        return false;
}

/* Who is never let in, for a slip of the pen. */
static void check_name(CheckContext *c, const char *key, const char *name) {
        _cleanup_free_ char *remedy = NULL;

        if (str_printf(&remedy,
                       "Correct it (grep -r %s /etc/mcp-exec finds it), then \"systemctl "
                       "try-reload-or-restart mcp-exec.service\".", key) < 0)
                check_report_break(&c->report, -ENOMEM);
        check_add(&c->report, CHECK_WARN, "admission", remedy, "%s= names \"%s\", which is no %s here", key,
                  name, streq(key, "AllowUsers") ? "user" : "group");
}

static void check_admission(CheckContext *c) {
        if (c->mistake)
                return;
        STRV_FOREACH(u, c->settings->allow_users)
                if (!is_user(*u))
                        check_name(c, "AllowUsers", *u);
        STRV_FOREACH(g, c->settings->allow_groups)
                if (!getgrnam(*g))
                        check_name(c, "AllowGroups", *g);
}

void check_files(CheckContext *c) {
        _cleanup_free_ char *remedy = NULL;
        const char *where;
        bool is_good;

        assert(c);

        is_good = !check_mistake_is_of_service(c);
        if (c->uid == 0) {
                is_good = check_tokens(c) && is_good;
                is_good = check_metadata(c) && is_good;
                check_secret(c, MCP_EXEC_TOKEN_FILE, ACCESS_FILE_OWNER, ACCESS_FILE_MODE);
                check_secret(c, SINGLE_TOKEN_FILE, "root:root", "0600");
                check_admission(c);
        }
        where = is_serving(c) ? strstr(c->units.status, RELOAD_FAILED_TEXT) : NULL;
        if (!where || !is_good)
                return;
        where += strlen(RELOAD_FAILED_TEXT);
        if (str_printf(&remedy, "Correct it, then \"%ssystemctl reload mcp-exec.service\".",
                       c->uid == 0 ? "" : "sudo ") < 0)
                check_report_break(&c->report, -ENOMEM);
        check_add(&c->report, CHECK_WARN, "reload", remedy,
                  RELOAD_FAILED_TEXT "%s", where);
}
