/* SPDX-License-Identifier: MIT */
#pragma once

/* A client's connection: http-connection.c; what passes through it: http-relay.c. */

#include "transport/http-body.h"
#include "transport/http.h"

typedef enum RelayState {
        RELAY_HEAD, /* the head of a request is awaited */
        RELAY_PASS, /* it passes to the library */
        RELAY_WAIT, /* it has passed: for its answer */
        RELAY_DROP, /* what still comes is read and dropped */
} RelayState;

struct HttpConnection {
        HttpServer *server;
        int fd;         /* the client's; -EBADF when it is over */
        int pair_fd;    /* our end of the pair */
        int library_fd; /* the other end; the library's once is_given, and then perhaps closed */
        sd_event_source *client_source, *pair_source;
        RelayState state;
        HttpBody body;
        HttpFault fault; /* what the client is still to be told; status 0: nothing */
        bool is_unpaired, is_given;
        bool is_started, was_started; /* the library has told of it, and not yet of its end */
        bool is_absolute;             /* its address, of the request that passes */
        bool was_replied;             /* to that request */
        bool is_hung_up;              /* the client sends no more, or is gone */
        bool is_gone;                 /* certainly the latter */
        bool is_ending, is_unsettled; /* settled when the library has run */
        bool is_waiting;              /* for its turn to pass a whole request */
        unsigned n_pieces;            /* of the head, and how much of it there is */
        size_t n_head_bytes, n_drained_bytes;
        uint64_t dropping_since_usec, stalled_since_usec; /* the latter 0: it takes what we send */
        struct in6_addr address; /* of the client; IPv4 mapped, zero over a Unix socket */
        unsigned limit_status; /* 503 or 429: one too many, gets its refusal (or its handshake) and goes */
        bool is_over_share;    /* … because its client has others */
        char owner[PRINCIPAL_GROUP_CHARS_MAX + 1]; /* whose request was the last one on it; "": nobody's */
        uint64_t waiting_since_usec; /* without a request whose headers are complete */
        HttpRequest *request; /* the one being read or answered */
        HttpRequest *room;    /* for it */
        HttpConnection *next, **to_this;
};

/* Takes fd on success. */
int http_connection_new(HttpServer *s, int fd, const struct sockaddr *address, bool is_over_limit);

/* What the library tells of it. */
HttpConnection* http_connection_find(HttpServer *s, int fd); /* by its end; given, and not yet told of */
void http_connection_started(HttpConnection *c);
void http_connection_ended(HttpConnection *c); /* c may be invalid afterwards */
void http_connection_next(HttpConnection *c, bool was_replied); /* it is done with a request */
void http_connection_suspended(HttpConnection *c);

void http_connection_close(HttpConnection *c); /* at once: what was not sent is lost */
void http_connection_unpair(HttpConnection *c);
void http_connection_end(HttpConnection *c); /* and that of its request */
void http_connection_end_soon(HttpConnection *c);
void http_connection_unsettle(HttpConnection *c);
void http_connections_settle(HttpServer *s); /* the library has run */
void http_connection_drain(HttpConnection *c, bool is_due);
void http_connection_rearm(HttpConnection *c); /* a turn of the event loop failed */
void http_connection_sweep(HttpConnection *c, uint64_t now_usec); /* c may be invalid afterwards */
void http_connection_displace(HttpConnection *c); /* by a new one; c may be invalid afterwards */

/* It had its turn: it, and before it all others with its owner, go to the tail of the server's list. */
void http_connection_had_turn(HttpConnection *c);

/* Whole requests that the library gets before it is run. */
#define HTTP_REQUESTS_PER_RUN 8

/* As much as there is, in each direction. */
void http_relay_input(HttpConnection *c);
void http_relay_output(HttpConnection *c);
/* The client is told, in its turn, and the connection ends. */
void http_relay_refuse(HttpConnection *c, const HttpFault *fault);
void http_relay_settle_refusal(HttpConnection *c);
void http_relay_expire(HttpConnection *c); /* no head came in time, or no end of the body */
void http_relay_last_word(HttpConnection *c); /* why it is displaced, if anybody waits for an answer */
