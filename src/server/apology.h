/* SPDX-License-Identifier: MIT */
#pragma once

/* Apology: what clients get while the service cannot start. */

#include "server/service-sockets.h"

/* Answers connections on the inherited sockets with one error, until none has come for five seconds. Without
 * it systemd would start a service with a broken configuration again and again, as fast as it can, for as
 * long as one client waits, and that client would wait for ever. */
void apologise(const ServiceSockets *sockets, const char *message);
