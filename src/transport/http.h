/* SPDX-License-Identifier: MIT */
#pragma once

/* HTTP: its insides.
 *
 *   http.c          libmicrohttpd on our event loop, connections, the listener
 *   http-hold.c     a connection until the head of its first request is here (http-head.c judges it)
 *   http-request.c  one request: headers, body, what is refused, dispatch, hang-ups
 *   http-reply.c    the sink: JSON body or event stream
 *   http-no-memory.c  what is said when there is no memory for anything else
 *   http-site.c     health, metrics and the like
 *   http-events.c   the transport of 2024-11-05: a stream on /sse, messages to /messages
 *
 * A request that waits for its answer is suspended, and so invisible to the library: it neither times out
 * nor is its disconnect noticed, so we watch the socket ourselves meanwhile. */

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

#include "transport/http-session.h"
#include "transport/listener.h"

typedef struct HttpRequest HttpRequest;
typedef struct HttpConnection HttpConnection;
typedef struct HttpEvents HttpEvents;

/* From a connection's begin, or the end of its last request, to the end of the next one's headers, however
 * steadily they trickle. */
#define HTTP_HEADERS_USEC_MAX (30 * USEC_PER_SEC)

/* During a graceful stop, for the first request of a connection that was just accepted. */
#define HTTP_FRESH_USEC (200 * USEC_PER_MSEC)

typedef struct HttpServer {
        Listener listener;
        struct MHD_Daemon *daemon;
        struct MHD_Response *no_memory, *accepted; /* prepared: their time has no memory */
        sd_event_source *epoll_source, *timeout_source;
        HttpSessions *sessions;
        HttpConnection *connections;
        size_t n_given; /* to the library, which has not told of them yet */
        HttpRequest *requests;
        HttpEvents *events;
        size_t body_bytes_max;
        uint64_t headers_usec; /* HTTP_HEADERS_USEC_MAX; tests shorten it */
        sd_event_source *sweep_source, *drain_source;
        bool is_kicked; /* run the library again, whatever it says of its timeouts */
        bool is_closing;
} HttpServer;

struct HttpConnection {
        HttpServer *server;
        int fd; /* the library's, unless it is held */
        int own_fd; /* the same, while it is not known whether the library has memory for it */
        bool is_held, is_refused; /* http-hold.c */
        bool is_started;          /* the library has told of it */
        uint64_t held_since_usec; /* or refused, or given to the library, since */
        unsigned n_pieces;
        size_t n_drained_bytes;
        sd_event_source *socket_source; /* for its first head, then for the end of one with a request */
        struct in6_addr address; /* of the client; IPv4 mapped, zero over a Unix socket */
        unsigned limit_status; /* 503 or 429: one too many, gets its refusal (or its handshake) and goes */
        uint64_t waiting_since_usec; /* without a request whose headers are complete */
        HttpRequest *request; /* the one being read or answered */
        HttpRequest *room;    /* for it */
        HttpConnection *next, **to_this;
};

void http_server_kick(HttpServer *s); /* run the library soon */

/* http-hold.c: connections whose first head is not here yet. Takes fd on success. */
int http_hold(HttpServer *s, int fd, const struct sockaddr *address);
HttpConnection* http_hold_find(HttpServer *s, int fd); /* the library has it and not told of it yet */
void http_hold_release(HttpConnection *c);             /* to the library; c may be invalid afterwards */
void http_hold_started(HttpConnection *c);             /* it has told of it */
void http_hold_settle(HttpServer *s);                  /* of the others it never will */
void http_hold_sweep(HttpConnection *c, uint64_t now_usec, uint64_t max_usec); /* c may be freed */
void http_connection_free(HttpConnection *c);

/* http-no-memory.c */
int http_no_memory_prepare(HttpServer *s);
void http_no_memory_done(HttpServer *s);
void http_no_memory_send(HttpServer *s, int fd); /* the last word to one that the library does not have */

/* http-limits.c */
void http_limits_admit(HttpConnection *c, const struct sockaddr *address); /* when it is new */
const char* http_limits_message(const HttpConnection *c);
int http_limits_start(HttpServer *s); /* watches for slow headers */
