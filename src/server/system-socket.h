/* SPDX-License-Identifier: MIT */
#pragma once

/* The system service's socket as a client meets it: is it there, and does it let us in? */

#include "base/macro.h"

enum {
        _SYSTEM_SOCKET_E_SUCCESS,
        SYSTEM_SOCKET_E_ABSENT, /* nobody listens there: the service is not installed or not started */
        SYSTEM_SOCKET_E_REFUSED, /* it does not let this user in; the reason is the service's own sentence */
        SYSTEM_SOCKET_E_SILENT, /* it does not answer in time: it may be stopping, or be overwhelmed */
        SYSTEM_SOCKET_E_FAILED, /* it does not answer as it should */
};

/* Connects and asks with a ping, within 5 seconds; nothing else has been said on the connection afterwards.
 * The fd is blocking. Returns 0, a positive code with *reterr_reason (allocated, one sentence), or -errno.
 */
int system_socket_connect(const char *path, int *ret_fd, char **reterr_reason);

/* How the administrator lets this user in, a command out of a reason of SYSTEM_SOCKET_E_REFUSED: the service
 * knows its groups. *ret is NULL where it names none. Returns 0 or -ENOMEM. */
int system_socket_admission(const char *reason, char **ret);
