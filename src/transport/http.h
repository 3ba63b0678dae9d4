/* SPDX-License-Identifier: MIT */
#pragma once

/* HTTP: its insides.
 *
 *   http.c          libmicrohttpd on our event loop, connections, the listener
 *   http-connection.c  a client's connection, and the pair of sockets by which the library has it
 *   http-relay.c    what passes between them, judged by http-head.c and http-body.c
 *   http-request.c  one request: headers, body, what is refused, dispatch, hang-ups
 *   http-reply.c    the sink: JSON body or event stream
 *   http-no-memory.c  what is said when there is no memory for anything else
 *   http-site.c     health, metrics and the like
 *   http-events.c   the transport of 2024-11-05: a stream on /sse, messages to /messages
 *
 * A request that waits for its answer is suspended, and so invisible to the library: it neither times out
 * nor is a disconnect noticed. The connection watches the client's socket all the while. */

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

/* How often slow connections are looked for in that time. */
#define HTTP_SWEEPS_PER_DEADLINE 6

/* During a graceful stop, for the first request of a connection that was just accepted. */
#define HTTP_FRESH_USEC (200 * USEC_PER_MSEC)

typedef struct HttpServer {
        Listener listener;
        struct MHD_Daemon *daemon;
        struct MHD_Response *no_memory, *accepted; /* prepared: their time has no memory */
        sd_event_source *epoll_source, *timeout_source;
        HttpSessions *sessions;
        HttpConnection *connections;
        size_t n_unpaired;  /* connections that wait for descriptors */
        bool is_unsettled;  /* one of the connections is */
        unsigned n_passed;  /* whole requests, since the library has run */
        bool has_waiting;   /* other connections have whole requests and wait for their turn, … */
        HttpConnection *turn; /* … which this one has */
        HttpRequest *requests;
        HttpEvents *events;
        size_t body_bytes_max;
        uint64_t headers_usec; /* HTTP_HEADERS_USEC_MAX; tests shorten it */
        sd_event_source *sweep_source, *drain_source;
        bool is_kicked; /* run the library again, whatever it says of its timeouts */
        bool is_closing;
} HttpServer;

void http_server_kick(HttpServer *s); /* run the library soon */

/* http-no-memory.c */
int http_no_memory_prepare(HttpServer *s);
void http_no_memory_done(HttpServer *s);
void http_no_memory_send(HttpServer *s, int fd); /* the last word to one that the library does not have */
/* The same to one that is closed next, for there is no memory to remember it: waits a moment for what it is
 * still sending, or a reset would overtake the answer. */
void http_no_memory_refuse(HttpServer *s, int fd);

/* http-limits.c */
void http_limits_admit(HttpConnection *c, const struct sockaddr *address, bool is_over_limit); /* when new */
size_t http_limits_make_room(Listener *l);
void http_limits_own(HttpConnection *c, const char *principal); /* each time it is known who asks */
const char* http_limits_message(const HttpConnection *c);
int http_limits_start(HttpServer *s); /* watches for slow headers */

/* http-revoke.c */
void http_reloaded(Listener *l, const ListenerParameters *before);
