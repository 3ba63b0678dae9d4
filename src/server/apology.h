/* SPDX-License-Identifier: MIT */
#pragma once

/* Apology: what clients get while the service cannot start. */

#include "server/service-sockets.h"

/* Answers connections on the sockets that are still there with one error, until none has come for five
 * seconds. Without it systemd would start a service that cannot start again and again, as fast as it can,
 * for as long as one client waits, and that client would wait for ever. SIGTERM and SIGINT end the process
 * meanwhile. */
void apologise(const ServiceSockets *sockets);
