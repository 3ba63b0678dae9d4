/* SPDX-License-Identifier: MIT */
#pragma once

/* ServerChoice: the server that a command speaks with, which is the system service where it admits this user
 * and one of our own otherwise; and the options of all such commands. */

#include <stdbool.h>

#include "config.h"

/* getopt_long() values from this one on are ours, and the table's entries to put among the others. */
#define SERVER_CHOICE_BASE 0x300

#define SERVER_CHOICE_OPTIONS                                                     \
        { "no-bridge",       no_argument,       NULL, SERVER_CHOICE_BASE + 0 },   \
        { "socket",          required_argument, NULL, SERVER_CHOICE_BASE + 1 },   \
        { "launcher-socket", required_argument, NULL, SERVER_CHOICE_BASE + 2 }

#define SERVER_CHOICE_HELP                                                                                  \
        "      --no-bridge             Do not use the system service\n"                                     \
        "      --socket PATH           The system service's socket (default: " MCP_EXEC_SOCKET_PATH ")\n"   \
        "      --launcher-socket PATH  Use the launcher that listens here instead of one of our own\n"

typedef struct ServerChoice {
        bool no_bridge;
        const char *socket_path;          /* of the system service */
        const char *launcher_socket_path; /* of our own server; NULL: it starts the user's own launcher */
} ServerChoice;

#define SERVER_CHOICE_INIT { .socket_path = MCP_EXEC_SOCKET_PATH }

/* One option as getopt_long() found it; value is borrowed. False: it is none of ours. */
bool server_choice_take(ServerChoice *c, int option, const char *value);

/* Whether server_choice_connect() with this result of it led to a server of our own: what it had to say
 * stands on standard error, and not in the journal. */
static inline bool server_choice_is_own(const ServerChoice *c, const char *reason) {
        return c->no_bridge || reason;
}

/* Returns the connected fd, or -errno with everything said. *ret_reason, allocated: why it is not the system
 * service that was to be tried; else NULL. Where the service is there and cannot serve, that is the one
 * cause that is said, unless the user's own service manager takes its place. */
int server_choice_connect(const ServerChoice *c, bool is_verbose, char **ret_reason);

/* Why nothing runs programs where system_socket_connect() gave this code and reason, and the remedy; NULL
 * where the user's own service manager takes the service's place. Returns 0 or -errno. */
int server_choice_find_cause(int code, const char *reason, char **ret);
