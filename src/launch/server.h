/* SPDX-License-Identifier: MIT */
#pragma once

/* Server: the launcher's side of the seam. Accepts connections, greets them once the self-test has a
 * verdict, turns START, ASSIGN and STOP into jobs, and ends a connection's jobs with it. */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "launch/sandbox.h"

typedef struct Server Server;

/* Bounds of this process; wire.h has those of one connection. A server has one daemon, and a person's
 * `check` now and then. */
#define SERVER_CONNECTIONS_MAX 16
#define SERVER_JOBS_MAX 512

int server_new(sd_event *event, Sandbox *sandbox, Server **ret);

/* Takes a listening SOCK_SEQPACKET socket. Only peer_uid and root may connect. */
int server_take_listener(Server *s, int fd, uid_t peer_uid);

/* Takes one connected socket; the process ends with it. */
int server_take_connection(Server *s, int fd);

/* Runs the self-test, then greets. */
int server_start(Server *s);

/* Ends every run, then the event loop. */
void server_shutdown(Server *s);

Server* server_free(Server *s);
DEFINE_CLEANUP(Server*, server_free);
