/* SPDX-License-Identifier: MIT */
#pragma once

/* Service: a daemon behind listening sockets, from its start to an orderly end. */

#include <stdbool.h>

#include "base/settings.h"
#include "server/principals.h"
#include "server/service-sockets.h"

typedef struct ServiceParameters {
        const Settings *settings;
        ServiceSockets *sockets;          /* their fds are taken one by one */
        const char *launcher_socket_path; /* NULL: the user's own launcher */
        const char *programs_directory;   /* of those that prepare packages; NULL: the installed ones */
        bool is_user;                     /* how the settings were loaded, for a reload */
        bool no_auth;
        Principals *principals;           /* read again at a reload */
        const char *metadata_file;        /* the same; NULL: none */
} ServiceParameters;

/* Serves until told to stop or, socket-activated, until idle for ExitIdleSec=. Returns the exit status. */
int service_run(const ServiceParameters *p);
