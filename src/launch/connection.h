/* SPDX-License-Identifier: MIT */
#pragma once

/* Connection: one daemon on the seam, and its runs. */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "launch/sandbox.h"

typedef struct Connection Connection;
typedef struct Run Run;

typedef struct ConnectionHandlers {
        bool (*may_start)(void *userdata); /* false: this process runs as many jobs as it may */
        void (*on_closed)(Connection *c, void *userdata); /* frees it */
        void *userdata;
} ConnectionHandlers;

struct Connection {
        int fd;
        uid_t uid;
        pid_t pid;
        sd_event_source *source;
        Sandbox *sandbox;
        Run *runs;
        size_t n_runs;
        bool is_greeted, is_closing;
        const ConnectionHandlers *handlers;
        Connection *next;
};

/* Takes fd. Reads nothing before connection_greet(). */
int connection_new(sd_event *event, int fd, Sandbox *sandbox, const ConnectionHandlers *handlers,
                   Connection **ret);

/* Sends HELLO and begins to listen. */
void connection_greet(Connection *c);

/* Every run of it is stopped. */
Connection* connection_free(Connection *c);
DEFINE_CLEANUP(Connection*, connection_free);
