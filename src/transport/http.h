/* SPDX-License-Identifier: MIT */
#pragma once

/* HTTP: its insides.
 *
 *   http.c          libmicrohttpd on our event loop, connections, the listener
 *   http-request.c  one request: headers, body, what is refused, dispatch, hang-ups
 *   http-reply.c    the sink: JSON body or event stream
 *   http-events.c   the transport of 2024-11-05: a stream on /sse, messages to /messages
 *
 * A request that waits for its answer is suspended, and so invisible to the library: it neither times out
 * nor is its disconnect noticed, so we watch the socket ourselves meanwhile. */

#include <microhttpd.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

#include "transport/http-session.h"
#include "transport/listener.h"

typedef struct HttpRequest HttpRequest;
typedef struct HttpConnection HttpConnection;
typedef struct HttpEvents HttpEvents;

typedef struct HttpServer {
        Listener listener;
        struct MHD_Daemon *daemon;
        sd_event_source *epoll_source, *timeout_source;
        HttpSessions *sessions;
        HttpConnection *connections;
        HttpRequest *requests;
        HttpEvents *events;
        size_t body_bytes_max;
        bool is_kicked; /* run the library again, whatever it says of its timeouts */
        bool is_closing;
} HttpServer;

struct HttpConnection {
        HttpServer *server;
        int fd;
        bool is_over_limit;   /* gets its refusal only */
        HttpRequest *request; /* the one being read or answered */
        HttpConnection *next, **to_this;
};

void http_server_kick(HttpServer *s); /* run the library soon */
