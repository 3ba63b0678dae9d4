/* SPDX-License-Identifier: MIT */

/* A list, most recently used first: a thousand short strings are searched in microseconds. */

#include "transport/http-session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/digest.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strv.h"
#include "base/timeutil.h"

struct HttpSessions {
        McpServer *server;
        HttpSession *first;
        size_t n_sessions;
        SessionStore *store;
};

static HttpSession* session_free(HttpSession *session) {
        if (!session)
                return NULL;

        assert(session->n_users == 0);
        (void) mcp_peer_free(session->peer);
        free(session->principal);
        free(session);
        return NULL;
}
DEFINE_CLEANUP(HttpSession*, session_free);

/* The keyed digest of (principal, random part), as many digits as the id has for it. Hashed twice with
 * the key, as HMAC does, so that no longer text can be appended to a known digest. */
static int make_mac(const HttpSessions *s, const char *principal, const char *nonce, char ret[static 33]) {
        _cleanup_free_ char *text = NULL;
        char inner[SHA256_HEX_CHARS + 1], outer[2 * SHA256_HEX_CHARS + 1], digest[SHA256_HEX_CHARS + 1];
        const char *key = session_store_key(s->store);
        int r;

        r = str_printf(&text, "%s%.32s%s", key, nonce, principal);
        if (r < 0)
                return r;
        sha256_hex(text, strlen(text), inner);
        (void) snprintf(outer, sizeof(outer), "%s%s", key, inner);
        sha256_hex(outer, strlen(outer), digest);
        memcpy(ret, digest, 32);
        ret[32] = 0;
        return 0;
}

/* The parts of an id that are numbers. The id is checked already. */
static uint64_t id_expires_sec(const char *id) {
        uint64_t n = 0;

        (void) parse_hex(id, 8, &n);
        return n;
}

static bool id_is_expired(const char *id) {
        return id_expires_sec(id) < now_realtime_usec() / USEC_PER_SEC;
}

static McpVersion id_version(const char *id) {
        uint64_t n = 0;

        (void) parse_hex(id + 8, 2, &n);
        return (McpVersion) n;
}

/* Returns 1, 0 or -errno. */
static int is_ours(const HttpSessions *s, const char *principal, const char *id) {
        char mac[33];
        int r;

        if (strlen(id) != HTTP_SESSION_ID_CHARS || !is_hex(id, HTTP_SESSION_ID_CHARS) ||
            id_is_expired(id) ||
            id_version(id) > MCP_VERSION_NEWEST_LEGACY || session_store_is_ended(s->store, principal, id))
                return 0;
        r = make_mac(s, principal, id, mac);
        if (r < 0)
                return r;
        return secret_equal(mac, id + 32);
}

static void unlink_session(HttpSessions *s, HttpSession *session) {
        for (HttpSession **p = &s->first; *p; p = &(*p)->next)
                if (*p == session) {
                        *p = session->next;
                        session->next = NULL;
                        s->n_sessions--;
                        return;
                }
}

static void link_session(HttpSessions *s, HttpSession *session) {
        session->next = s->first;
        s->first = session;
        s->n_sessions++;
}

/* Forgets the least recently used session that nobody waits for. */
static bool make_room(HttpSessions *s) {
        HttpSession *victim = NULL;

        if (s->n_sessions < HTTP_SESSIONS_MAX)
                return true;
        for (HttpSession *i = s->first; i; i = i->next)
                if (i->n_users == 0 && mcp_peer_n_in_flight(i->peer) == 0)
                        victim = i;
        if (!victim)
                return false;
        unlink_session(s, victim);
        session_free(victim);
        return true;
}

static int session_new(HttpSessions *s, const char *principal, const char *id, bool is_opening,
                       HttpSession **ret) {
        _cleanup_(session_freep) HttpSession *session = NULL;
        int r;

        /* A handshake is never refused; what comes after it may be. */
        if (!make_room(s) && !is_opening)
                return HTTP_SESSION_E_FULL;
        session = calloc(1, sizeof(*session));
        if (!session)
                return -ENOMEM;
        (void) snprintf(session->id, sizeof(session->id), "%s", id);
        r = str_copy(&session->principal, principal);
        if (r < 0)
                return r;
        r = mcp_peer_new(s->server, MCP_PEER_HTTP, principal, &session->peer);
        if (r < 0)
                return r;
        session->n_users = 1;
        link_session(s, session);
        *ret = TAKE_PTR(session);
        return 0;
}

int http_sessions_create(HttpSessions *s, const char *principal, McpVersion version, HttpSession **ret) {
        char id[HTTP_SESSION_ID_CHARS + 1], mac[33], head[11];
        int r;

        assert(s);
        assert(principal);
        assert(version >= 0 && !mcp_version_is_modern(version));
        assert(ret);

        r = random_hex_id(id);
        if (r < 0)
                return r;
        (void) snprintf(head, sizeof(head), "%08" PRIx32 "%02x",
                        (uint32_t) (now_realtime_usec() / USEC_PER_SEC + HTTP_SESSION_SEC_MAX),
                        (unsigned) version & 0xff);
        memcpy(id, head, sizeof(head) - 1);
        r = make_mac(s, principal, id, mac);
        if (r < 0)
                return r;
        memcpy(id + 32, mac, sizeof(mac));
        return session_new(s, principal, id, /* is_opening= */ true, ret);
}

int http_sessions_acquire(HttpSessions *s, const char *principal, const char *id, HttpSession **ret) {
        int r;

        assert(s);
        assert(principal);
        assert(ret);

        for (HttpSession *i = s->first; i; i = i->next)
                if (streq(i->id, id ?: "") && streq(i->principal, principal)) {
                        /* Over another listener, which has its own list. */
                        if (id && (id_is_expired(id) || session_store_is_ended(s->store, principal, id)))
                                return HTTP_SESSION_E_UNKNOWN;
                        unlink_session(s, i);
                        link_session(s, i);
                        i->n_users++;
                        *ret = i;
                        return 0;
                }
        if (id) {
                r = is_ours(s, principal, id);
                if (r < 0)
                        return r;
                if (r == 0)
                        return HTTP_SESSION_E_UNKNOWN;
        }
        r = session_new(s, principal, id ?: "", /* is_opening= */ false, ret);
        if (r == 0 && id)
                mcp_peer_resume((*ret)->peer, id_version(id));
        return r;
}

void http_session_release(HttpSession *session) {
        if (!session)
                return;
        assert(session->n_users > 0);
        if (--session->n_users == 0 && !session->peer)
                session_free(session); /* ended */
}

void http_sessions_end(HttpSessions *s, HttpSession *session, bool is_deleted) {
        assert(s);
        assert(session);
        assert(session->n_users > 0);

        if (!session->peer)
                return;
        unlink_session(s, session);
        session->peer = mcp_peer_free(session->peer);
        if (is_deleted && session->id[0] != 0)
                session_store_end(s->store, session->principal, session->id);
}

size_t http_sessions_n(const HttpSessions *s) {
        size_t n = 0;

        assert(s);

        for (const HttpSession *i = s->first; i; i = i->next)
                n += i->id[0] != 0;
        return n;
}

void http_sessions_drain(HttpSessions *s) {
        assert(s);

        for (HttpSession *i = s->first; i; i = i->next)
                mcp_peer_drain(i->peer);
}

int http_sessions_new(McpServer *server, SessionStore *store, HttpSessions **ret) {
        HttpSessions *s;

        assert(server);
        assert(store);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->server = server;
        s->store = store;
        *ret = s;
        return 0;
}

HttpSessions* http_sessions_free(HttpSessions *s) {
        if (!s)
                return NULL;

        while (s->first) {
                HttpSession *session = s->first;

                unlink_session(s, session);
                session_free(session);
        }
        free(s);
        return NULL;
}
