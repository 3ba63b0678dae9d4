/* SPDX-License-Identifier: MIT */
#pragma once

/* LauncherClient: the daemon's end of the seam. One connection, made when it is needed, shared by all units.
 *
 *      DISCONNECTED --connect()--> GREETING --HELLO--> READY
 *            ^                        |                  |
 *            +------- lost -----------+------- lost -----+
 *
 * Packets are routed by job id. When the connection is lost, the launcher stops all jobs of it, so every job
 * is told on_lost and is over; the next connect() starts anew. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/macro.h"
#include "exec/list.h"
#include "wire/wire.h"

typedef struct LauncherClient LauncherClient;
typedef struct LauncherJob LauncherJob;

typedef enum LauncherState {
        LAUNCHER_DISCONNECTED,
        LAUNCHER_GREETING, /* connected, the launcher has not said HELLO yet: its self-test is running */
        LAUNCHER_READY,
} LauncherState;

/* One started unit or change of a set, embedded in its owner. Registered from launcher_client_start() until
 * its last message (FINISHED, REFUSED or SET_DONE), on_lost or launcher_client_forget(). Handlers may not
 * destroy the client. */
struct LauncherJob {
        uint64_t id; /* 0: not registered */
        bool is_set_change;
        void (*on_message)(LauncherJob *j, const WireMessage *m);
        void (*on_lost)(LauncherJob *j);
        LIST_LINK(LauncherJob) jobs;
};

typedef struct LauncherOrder {
        WireProfile profile;
        unsigned interpreter;
        const char *environment; /* 64 hex digits; NULL or "": none */
        WireLimits limits;
} LauncherOrder;

typedef struct LauncherClientParameters {
        sd_event *event;
        int (*connect)(void *userdata, char **reterr_message);
        void (*on_hello)(const WireHello *hello, void *userdata);
        /* was_ready: HELLO had been received. why: a sentence. All jobs have been told before. */
        void (*on_lost)(bool was_ready, const char *why, void *userdata);
        void *connect_userdata;
        void *userdata;
        uint64_t hello_timeout_usec;
} LauncherClientParameters;

int launcher_client_new(const LauncherClientParameters *p, LauncherClient **ret);

/* Closes the connection, at which the launcher kills all units of it. No handler is called. */
LauncherClient* launcher_client_free(LauncherClient *c);
DEFINE_CLEANUP(LauncherClient*, launcher_client_free);

/* Connects unless connected. on_hello or on_lost follows on success. *reterr_message (may stay NULL) says
 * why not. */
int launcher_client_connect(LauncherClient *c, char **reterr_message);
LauncherState launcher_client_state(const LauncherClient *c);

/* Closes the connection from the event loop, with on_lost: the launcher no longer does what it must. */
void launcher_client_break(LauncherClient *c, const char *why);

/* Sends START, or queues it. The client must be READY. Takes the fds on success only. */
int launcher_client_start(LauncherClient *c, LauncherJob *j, const LauncherOrder *order,
                          const int take_fds[static _WIRE_FD_MAX]);

/* Asks for another HELLO, for which the launcher looks anew for what packages lack. on_hello follows, or
 * on_lost. The client must be READY; nothing happens while one is on its way. */
void launcher_client_look(LauncherClient *c);
bool launcher_client_is_looking(const LauncherClient *c);

/* Sends SET; its answer is the job's only message. As launcher_client_start() otherwise. */
int launcher_client_set(LauncherClient *c, LauncherJob *j, WireSetAction action, const char *environment,
                        const char *to);

/* Sends STOP: the job's whole cgroup is killed. FINISHED follows. */
void launcher_client_stop(LauncherClient *c, const LauncherJob *j);

/* Sends ASSIGN: new limits for a unit that waits, after its STARTED. The launcher kills a unit that cannot
 * be limited. */
void launcher_client_assign(LauncherClient *c, const LauncherJob *j, const WireLimits *limits);

void launcher_client_forget(LauncherClient *c, LauncherJob *j);
