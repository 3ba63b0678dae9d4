/* SPDX-License-Identifier: MIT */
#pragma once

/* Apology: what clients get while the service cannot start. */

#include "server/service-sockets.h"

/* Answers the clients that wait on the sockets that are still there with one error, and returns a second
 * later. Without it systemd would start a service that cannot start again and again, as fast as it can, for
 * as long as one client waits, and that client would wait for ever. Who comes after the call is answered by
 * the next start, which finds what was repaired meanwhile. SIGTERM and SIGINT end the process. */
void apologise(const ServiceSockets *sockets);
