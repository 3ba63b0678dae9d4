/* SPDX-License-Identifier: MIT */
#pragma once

/* Transports: bytes from clients to McpPeers and back. One sd-event loop, nothing blocks. */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "auth/access.h"
#include "base/macro.h"
#include "base/settings.h"
#include "mcp/mcp.h"

/* ---- Newline framing over a pair of fds (stdio) or one socket (Unix) ---- */

/* Longest line accepted; a longer one is answered with an error (id, if readable) and skipped, the stream
 * goes on. */
#define LINE_BYTES_MAX (12 * MIB)

typedef struct LineTransport LineTransport;
struct MemoryBudget;

typedef struct LineTransportParameters {
        sd_event *event;
        McpServer *server;
        const char *principal;
        int input_fd, output_fd;  /* may be one fd; regular files work too (epoll refuses them) */
        /* End of input and everything answered or cancelled, or an output error: the owner frees the
         * transport (in here or later, never from within another call of it). */
        void (*on_closed)(LineTransport *t, void *userdata);
        void *userdata;
        /* Shared by the connections of one listener; NULL: only the limits of this file. */
        struct MemoryBudget *budget;
} LineTransportParameters;

/* Takes the fds on success only. 0..2 are not closed at the end but given back as they were: not
 * non-blocking for whoever shares them. At the end of input whatever still runs is cancelled: nobody is
 * left who could wait for it. */
int line_transport_new(const LineTransportParameters *p, LineTransport **ret);
LineTransport* line_transport_free(LineTransport *t);
DEFINE_CLEANUP(LineTransport*, line_transport_free);

/* What is in flight is answered, and on a socket what else the client has sent until then; then on_closed.
 * For a graceful stop. */
void line_transport_drain(LineTransport *t);

/* For a client who may no longer be one: what is in flight is answered, nothing more is begun. */
void line_transport_dismiss(LineTransport *t);

/* ---- Listeners: accept, check who it is, make a transport; own all connections ---- */

typedef struct Listener Listener;

/* What HTTP listeners tell beside MCP, asked for at each request. */
typedef struct HttpSite {
        bool (*is_ready)(void *userdata); /* the sandbox is verified */
        int (*write_metrics)(void *userdata, Buffer *b);
        void *userdata;
        const char *metadata;     /* RFC 9728, JSON text; NULL: none */
        const char *metadata_url; /* for 401 replies, with metadata */
} HttpSite;

typedef struct ListenerParameters {
        sd_event *event;
        McpServer *server;
        const Settings *settings;
        int fd;                   /* listening socket */
        const Access *access;     /* HTTP only: named tokens; may be NULL */
        struct SessionStore *sessions; /* HTTP only: what outlives the process of its sessions */
        const HttpSite *site;     /* HTTP only; NULL: nothing beside MCP. Its members may change */
        bool is_open;             /* HTTP only: --no-auth */
        bool is_proxy;            /* HTTP only: a Unix socket, whose one client tells X-MCP-User */
        void (*on_idle_changed)(Listener *l, bool is_idle, void *userdata); /* number of connections */
        void *userdata;
} ListenerParameters;

/* AF_UNIX: newline framing, peers by auth_unix_peer(); a refused peer gets one JSON-RPC error line. Takes
 * fd on success. */
int unix_listener_new(const ListenerParameters *p, Listener **ret);

/* AF_INET, AF_INET6, and AF_UNIX with is_proxy: HTTP with /mcp, by libmicrohttpd on our event loop. Without
 * any token and without is_open or is_proxy every request is refused with 503 and the reason. Takes fd on
 * success. */
int http_listener_new(const ListenerParameters *p, Listener **ret);

/* Opens a listening socket for HOST:PORT, [V6]:PORT or :PORT (every address, as the predecessor did).
 * Names are looked up: for use before the loop runs. Returns 0 or -errno with *reterr_message (allocated)
 * naming the address and the remedy. */
int listen_tcp(const char *address, int *ret_fd, char **reterr_message);

/* Who may connect and what is offered is asked of these from now on; they must live as long as the listener.
 * Requests under way go on as they began. */
void listener_reload(Listener *l, const Settings *settings, const Access *access);

/* After a turn of the event loop that failed: what it had been told of connections is told again. */
void listener_rearm(Listener *l);

Listener* listener_free(Listener *l);
DEFINE_CLEANUP(Listener*, listener_free);
void listener_drain(Listener *l); /* stop accepting, answer what is in flight, close idle connections */
size_t listener_n_connections(const Listener *l);
size_t listener_n_sessions(const Listener *l); /* of HTTP clients, see http-session.h */
