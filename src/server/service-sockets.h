/* SPDX-License-Identifier: MIT */
#pragma once

/* The sockets that `serve` listens on: those that systemd hands over and those of the command line. */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "base/settings.h"
#include "server/fd-store.h"

#define SERVICE_SOCKETS_MAX 16

typedef struct ServiceSockets {
        int fds[SERVICE_SOCKETS_MAX];       /* -EBADF once somebody else owns it */
        bool is_inet[SERVICE_SOCKETS_MAX];
        bool is_proxy[SERVICE_SOCKETS_MAX]; /* a Unix socket for HTTP, of a proxy that names its users */
        char *unix_paths[SERVICE_SOCKETS_MAX]; /* made by us, removed at the end; NULL for others */
        size_t n_sockets;
        StoredResults results;              /* came with the sockets, and are none */
        bool is_activated; /* systemd holds them too, and starts us again when somebody connects */
} ServiceSockets;

#define SERVICE_SOCKETS_INIT ((ServiceSockets) {})

/* Both return 0 or -errno with *reterr_message (allocated; NULL without a sentence of our own). */
int service_sockets_inherit(ServiceSockets *s, char **reterr_message);
int service_sockets_listen(ServiceSockets *s, const char *address, char **reterr_message);

static inline bool service_sockets_are_http(const ServiceSockets *s, size_t i) {
        return s->is_inet[i] || s->is_proxy[i];
}

bool service_sockets_have_inet(const ServiceSockets *s);
void service_sockets_done(ServiceSockets *s);
