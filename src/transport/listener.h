/* SPDX-License-Identifier: MIT */
#pragma once

/* What the listeners share: accepting within limits, counting, telling when idle. Internal to this room. */

#include "transport/transport.h"

/* Memory that all connections of one listener may hold for messages in pieces and for replies nobody
 * reads yet. */
typedef struct MemoryBudget {
        size_t used_bytes, max_bytes;
} MemoryBudget;

#define LISTENER_MEMORY_BYTES_MAX (256 * MIB)

/* Connections beyond MaxConnections= that are kept for as long as it takes to tell them so. */
#define LISTENER_EXTRA_CONNECTIONS_MAX 16

typedef struct ListenerOps {
        /* A new connection; is_over_limit: MaxConnections= are there already, it only gets its refusal.
         * Takes fd on success. Returns 0 or -errno (it is closed then, without a word). */
        int (*connected)(Listener *l, int fd, bool is_over_limit);
        /* One more came to a full listener: ends others, as far as it gets a place by that and they have
         * nothing under way. Returns how many stay. NULL: this kind never does. */
        size_t (*make_room)(Listener *l);
        void (*drain)(Listener *l);
        /* Who may no longer connect is let go: what runs for it is answered, and nothing of it stays. */
        void (*reloaded)(Listener *l, const ListenerParameters *before);
        void (*rearm)(Listener *l); /* NULL: this kind watches nothing edge-triggered */
        size_t (*n_sessions)(const Listener *l); /* NULL: this kind has none */
        Listener* (*free)(Listener *l);
} ListenerOps;

/* Embedded as the first member by each kind. */
struct Listener {
        const ListenerOps *ops;
        ListenerParameters p;
        sd_event_source *accept_source, *retry_source;
        size_t n_connections;
        /* One log line a minute while descriptors are short, or memory is. */
        uint64_t next_complaint_usec, next_memory_complaint_usec;
        uint64_t next_denial_usec; /* one log line in ten seconds about wrong tokens … */
        size_t n_denials;          /* … of which so many were not told of */
        MemoryBudget budget;
        bool is_draining;
};

/* Takes p->fd on success. */
int listener_init(Listener *l, const ListenerOps *ops, const ListenerParameters *p);
void listener_done(Listener *l);

void listener_no_memory(Listener *l); /* somebody was told so; the administrator is, too */

void listener_connection_opened(Listener *l);
void listener_connection_closed(Listener *l);
