/* SPDX-License-Identifier: MIT */
#pragma once

/* Sessions of the handshake era over HTTP: Mcp-Session-Id -> McpPeer.
 *
 * An id carries its own proof: when it expires, the negotiated revision, a random part, and a MAC over
 * these and the principal, with a key that a restart does not change. So an id of ours is known again after
 * the daemon exited (on idle, at an upgrade) or forgot it for want of room, and nobody has to shake hands
 * anew; clients are bad at that. Unknown are ids that we never issued to this principal, expired ones, and
 * ids that were DELETEd. It is no credential: every request is authenticated besides. */

#include <stdbool.h>

#include "mcp/mcp.h"
#include "transport/session-store.h"

/* 8 hex digits of time, 2 of revision, 22 at random, 32 of MAC. */
#define HTTP_SESSION_ID_CHARS SESSION_ID_CHARS
#define HTTP_SESSION_SEC_MAX (30 * 86400)
/* Remembered at once. Each holds a peer, some hundred bytes. */
#define HTTP_SESSIONS_MAX 1024

enum {
        _HTTP_SESSION_E_SUCCESS,
        HTTP_SESSION_E_UNKNOWN, /* not an id of ours for this principal, or ended */
        HTTP_SESSION_E_FULL,    /* HTTP_SESSIONS_MAX sessions with requests in flight; not at a handshake */
};

typedef struct HttpSessions HttpSessions;
typedef struct HttpSession {
        char id[HTTP_SESSION_ID_CHARS + 1]; /* "" for the one that all requests without a session share */
        char *principal;
        McpPeer *peer;
        unsigned n_users;                   /* HTTP requests that refer to it */
        struct HttpSession *next;           /* most recently used first */
} HttpSession;

/* The store must outlive it; the sessions of several listeners have one in common. */
int http_sessions_new(McpServer *server, SessionStore *store, HttpSessions **ret);
HttpSessions* http_sessions_free(HttpSessions *s); /* no users may be left */
DEFINE_CLEANUP(HttpSessions*, http_sessions_free);

/* For an initialize request, with the revision that will be answered. Each returns 0, a code above or
 * -errno, and counts as a user of *ret. */
int http_sessions_create(HttpSessions *s, const char *principal, McpVersion version, HttpSession **ret);
/* For every other request; id NULL: the shared one of this principal. */
int http_sessions_acquire(HttpSessions *s, const char *principal, const char *id, HttpSession **ret);
void http_session_release(HttpSession *session);

/* Those with an id that are remembered. */
size_t http_sessions_n(const HttpSessions *s);

/* For a graceful stop: ends what would never end by itself. */
void http_sessions_drain(HttpSessions *s);

/* DELETE, or a handshake that failed: cancels what is in flight, without answers. is_deleted: the client
 * knows the id, which is unknown to us from now on, over every listener and after a restart. The caller is
 * still a user and releases it afterwards; the session has no peer any more. */
void http_sessions_end(HttpSessions *s, HttpSession *session, bool is_deleted);
