/* SPDX-License-Identifier: MIT */

#include "server/server-choice.h"

#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/strv.h"
#include "server/own-server.h"
#include "server/system-socket.h"

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

int server_choice_connect(const ServerChoice *c, bool is_verbose, char **ret_reason) {
        int fd, r;

        assert(c);
        assert(ret_reason);

        *ret_reason = NULL;
        if (!c->no_bridge) {
                r = system_socket_connect(c->socket_path, &fd, ret_reason);
                if (r == 0)
                        return fd;
                if (r < 0)
                        (void) str_printf(ret_reason, "its socket cannot be used: %s", strerror(-r));
        }
        fd = own_server_start(c->launcher_socket_path, is_verbose);
        return fd < 0 ? log_error_errno(fd, "Cannot start a server") : fd;
}
