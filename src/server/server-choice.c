/* SPDX-License-Identifier: MIT */

#include "server/server-choice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
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

int server_choice_find_cause(int code, const char *reason, char **ret) {
        _cleanup_free_ char *remedy = NULL;
        bool as_root = geteuid() == 0;
        SystemUnits units;
        int r;

        assert(reason);
        assert(ret);

        *ret = NULL;
        /* A machine without the service, or a user whom it does not admit, has other ways. root has not: its
         * own service manager runs only while somebody is logged in as root. */
        if (!as_root && code == SYSTEM_SOCKET_E_REFUSED)
                return 0;
        /* Most desktops: the own manager serves, and nothing need be asked. */
        if (!as_root && code == SYSTEM_SOCKET_E_ABSENT && has_user_manager())
                return 0;
        system_units_read(&units);
        if (!as_root && code == SYSTEM_SOCKET_E_ABSENT && !system_units_are_wanted(&units))
                return 0;
        if (has_user_manager() && sandbox_of_user_is_good())
                return 0;

        r = system_units_remedy(&units, code, as_root, &remedy);
        if (r < 0)
                return r;
        return str_printf(ret, "%s%s%s", reason, remedy ? ". To repair this: " : "", remedy ?: "");
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
                if (reason && server_choice_find_cause(r, reason, &cause) >= 0 && cause) {
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
