/* SPDX-License-Identifier: MIT */

#include "server/server-choice.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/settings.h"
#include "base/strv.h"
#include "server/own-server.h"
#include "server/sandbox-query.h"
#include "server/system-socket.h"
#include "server/system-units.h"

bool server_choice_take(ServerChoice *c, int option, const char *value) {
        assert(c);

        switch (option) {
        case SERVER_CHOICE_BASE:
                c->no_bridge = true;
                return true;
        case SERVER_CHOICE_BASE + 1:
                c->socket_path = value;
                return true;
        case SERVER_CHOICE_BASE + 2:
                c->launcher_socket_path = value;
                c->no_bridge = true;
                return true;
        default:
                return false;
        }
}

static bool has_user_manager(void) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/run/user/%u/systemd/private", (unsigned) geteuid());
        return access(path, F_OK) == 0;
}

/* What the user's own manager has to say, allocated; NULL where it runs programs. */
static int find_fault_of_manager(char **ret) {
        if (has_user_manager())
                return sandbox_of_user_find_fault(ret);
        return str_copy(ret, "this user has none running");
}

/* What follows once the socket listens: it admits the groups of AllowGroups=. */
static int extend_by_admission(char **remedy) {
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_free_ char *user = NULL, *group = NULL, *first = NULL, *message = NULL;
        const struct passwd *p = getpwuid(geteuid());
        const struct group *g = NULL;
        int r;

        r = settings_load(/* is_user= */ false, &settings, &message);
        if (r == -ENOMEM)
                return r;
        if (r >= 0 && settings->allow_groups && settings->allow_groups[0])
                g = getgrnam(settings->allow_groups[0]);
        /* What cannot be known here the service will tell. */
        if (!p || !g || !*remedy || strv_contains(g->gr_mem, p->pw_name))
                return 0;
        r = str_quote_for_shell(p->pw_name, &user);
        if (r >= 0)
                r = str_quote_for_shell(settings->allow_groups[0], &group);
        if (r < 0)
                return r;
        first = TAKE_PTR(*remedy);
        return str_printf(remedy, strncmp(first, "sudo ", 5) == 0 ? "%s && sudo gpasswd -a %s %s" :
                                                                   "%s Then: sudo gpasswd -a %s %s",
                          first, user, group);
}

int server_choice_find_cause(int code, const char *reason, char **ret) {
        _cleanup_free_ char *fault = NULL, *remedy = NULL;
        bool as_root = geteuid() == 0, is_second_way;
        SystemUnits units;
        int r;

        assert(reason);
        assert(ret);

        *ret = NULL;
        /* A service that is there and does not answer yet is waited for. */
        if (code != SYSTEM_SOCKET_E_SILENT) {
                r = find_fault_of_manager(&fault);
                if (r < 0 || !fault)
                        return r;
        }
        system_units_read(&units);
        r = code == SYSTEM_SOCKET_E_REFUSED ? system_socket_admission(reason, &remedy) :
                                              system_units_remedy(&units, code, as_root, &remedy);
        if (r < 0)
                return r;
        /* A service that should have served is the one thing to be repaired. root's own manager runs only
         * while somebody is logged in as root, and is no way. */
        is_second_way = code == SYSTEM_SOCKET_E_REFUSED ||
                        (code == SYSTEM_SOCKET_E_ABSENT && !system_units_are_wanted(&units));
        if (as_root || !fault || !is_second_way)
                return str_printf(ret, "%s%s%s", reason, remedy ? ". To repair this: " : "", remedy ?: "");
        r = code == SYSTEM_SOCKET_E_ABSENT ? extend_by_admission(&remedy) : 0;
        if (r < 0)
                return r;
        return str_printf(ret, "%s. Nor does this user's own service manager run programs: %s%s%s", reason,
                          fault, remedy ? ". To repair this: " : "", remedy ?: "");
}

/* For one call, which tells by itself what its server cannot do. */
static int find_cause_of_one(int code, const char *reason, char **ret) {
        bool as_root = geteuid() == 0;
        SystemUnits units;

        *ret = NULL;
        if (!as_root && code == SYSTEM_SOCKET_E_REFUSED)
                return 0;
        if (!as_root && code == SYSTEM_SOCKET_E_ABSENT && has_user_manager())
                return 0;
        system_units_read(&units);
        if (!as_root && code == SYSTEM_SOCKET_E_ABSENT && !system_units_are_wanted(&units))
                return 0;
        return server_choice_find_cause(code, reason, ret);
}

int server_choice_connect(const ServerChoice *c, bool is_verbose, char **ret_reason) {
        _cleanup_free_ char *reason = NULL, *cause = NULL;
        int fd, r;

        assert(c);
        assert(ret_reason);

        *ret_reason = NULL;
        if (!c->no_bridge) {
                r = system_socket_connect(c->socket_path, &fd, &reason);
                if (r == 0)
                        return fd;
                if (r < 0)
                        (void) str_printf(&reason, "its socket cannot be used: %s", strerror(-r));
                if (reason && find_cause_of_one(r, reason, &cause) >= 0 && cause) {
                        log_error("Nothing was done: %s", cause);
                        return -ENOTCONN;
                }
        }
        fd = own_server_start(c->launcher_socket_path, is_verbose ? OWN_SERVER_VERBOSE : OWN_SERVER_NORMAL);
        if (fd < 0)
                return log_error_errno(fd, "Cannot start a server");
        *ret_reason = TAKE_PTR(reason);
        return fd;
}
