/* SPDX-License-Identifier: MIT */

/* A list, most recently used first: a thousand short strings are searched in microseconds. */

#include "transport/http-session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strv.h"
#include "base/timeutil.h"

/* Ids that were DELETEd; an older one is merely accepted again. */
#define ENDED_MAX 256

#define KEY_FILE "session-key"
#define SESSION_APP_ID SD_ID128_MAKE(5e,0c,3d,29,4b,8f,4a,17,9a,61,d7,f2,38,c0,55,e4)

struct HttpSessions {
        McpServer *server;
        HttpSession *first;
        size_t n_sessions;
        char key[SHA256_HEX_CHARS + 1];
        char ended[ENDED_MAX][HTTP_SESSION_ID_CHARS + 1];
        size_t n_ended; /* ever; the next one goes to n_ended % ENDED_MAX */
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

/* Where the service manager gives us a directory, a random key of our own in it. Returns 1 with the key, 0
 * without such a directory, or -errno. */
static int read_state_key(char ret[static RANDOM_HEX_ID_CHARS + 1]) {
        const char *directory = getenv("STATE_DIRECTORY");
        _cleanup_close_ int dir_fd = -EBADF, fd = -EBADF;
        _cleanup_free_ char *text = NULL;
        int r;

        if (!directory || directory[0] != '/')
                return 0;
        dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return -errno;
        r = file_read(dir_fd, KEY_FILE, RANDOM_HEX_ID_CHARS + 1, &text, NULL);
        if (r >= 0 && is_hex(text, RANDOM_HEX_ID_CHARS)) {
                memcpy(ret, text, RANDOM_HEX_ID_CHARS + 1);
                explicit_bzero(text, strlen(text));
                return 1;
        }
        /* Missing, or not what we wrote: a new one, and sessions begin anew. */
        r = random_hex_id(ret);
        if (r < 0)
                return r;
        (void) unlinkat(dir_fd, KEY_FILE, 0);
        fd = openat(dir_fd, KEY_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = fd_write_all(fd, ret, RANDOM_HEX_ID_CHARS);
        return r < 0 ? r : 1;
}

/* The same after a restart: from a secret file and this machine's id, mixed with the token so that it is
 * no secret of the machine that leaks. With neither file nor machine id a random one: then sessions end
 * with the process. */
static int make_key(const Settings *settings, char ret[static SHA256_HEX_CHARS + 1]) {
        _cleanup_free_ char *text = NULL;
        char machine[SD_ID128_STRING_MAX], secret[RANDOM_HEX_ID_CHARS + 1] = "";
        bool has_secret;
        sd_id128_t id;
        int r;

        r = read_state_key(secret);
        if (r < 0)
                (void) log_debug_errno(r, "The session key in the state directory cannot be used");
        has_secret = r > 0;

        /* Without a machine id (a container, a chroot) the secret file's key still outlives a restart. */
        r = sd_id128_get_machine_app_specific(SESSION_APP_ID, &id);
        if (r < 0 && has_secret)
                id = SD_ID128_NULL;
        else if (r < 0) {
                (void) log_debug_errno(r, "No machine id; HTTP sessions will end with this process");
                r = sd_id128_randomize(&id);
                if (r < 0)
                        return r;
        }
        r = str_printf(&text, "mcp-exec session key %s %s %s", sd_id128_to_string(id, machine),
                       has_secret ? secret : "", settings->auth_token ?: "");
        explicit_bzero(secret, sizeof(secret));
        if (r < 0)
                return r;
        sha256_hex(text, strlen(text), ret);
        explicit_bzero(text, strlen(text));
        return 0;
}

/* The keyed digest of (principal, random part), as many digits as the id has for it. Hashed twice with
 * the key, as HMAC does, so that no longer text can be appended to a known digest. */
static int make_mac(const HttpSessions *s, const char *principal, const char *nonce, char ret[static 33]) {
        _cleanup_free_ char *text = NULL;
        char inner[SHA256_HEX_CHARS + 1], outer[2 * SHA256_HEX_CHARS + 1], digest[SHA256_HEX_CHARS + 1];
        int r;

        r = str_printf(&text, "%s%.32s%s", s->key, nonce, principal);
        if (r < 0)
                return r;
        sha256_hex(text, strlen(text), inner);
        (void) snprintf(outer, sizeof(outer), "%s%s", s->key, inner);
        sha256_hex(outer, strlen(outer), digest);
        memcpy(ret, digest, 32);
        ret[32] = 0;
        return 0;
}

/* The part of an id that is a number. The id is checked already. */
static uint32_t id_number(const char *id, size_t first, size_t n_digits) {
        static const char digits[] = "0123456789abcdef";
        uint32_t value = 0;

        for (size_t i = first; i < first + n_digits; i++)
                value = value << 4 | (uint32_t) (strchr(digits, id[i]) - digits);
        return value;
}

/* Returns 1, 0 or -errno. */
static int is_ours(const HttpSessions *s, const char *principal, const char *id) {
        char mac[33];
        int r;

        if (strlen(id) != HTTP_SESSION_ID_CHARS || !is_hex(id, HTTP_SESSION_ID_CHARS) ||
            id_number(id, 0, 8) < now_realtime_usec() / USEC_PER_SEC ||
            id_number(id, 8, 2) > MCP_VERSION_NEWEST_LEGACY)
                return 0;
        for (size_t i = 0; i < MIN_OF(s->n_ended, (size_t) ENDED_MAX); i++)
                if (streq(s->ended[i], id))
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
                mcp_peer_resume((*ret)->peer, (McpVersion) id_number(id, 8, 2));
        return r;
}

void http_session_release(HttpSession *session) {
        if (!session)
                return;
        assert(session->n_users > 0);
        if (--session->n_users == 0 && !session->peer)
                session_free(session); /* ended */
}

void http_sessions_end(HttpSessions *s, HttpSession *session) {
        assert(s);
        assert(session);
        assert(session->n_users > 0);

        if (!session->peer)
                return;
        unlink_session(s, session);
        session->peer = mcp_peer_free(session->peer);
        if (session->id[0] != 0) {
                (void) snprintf(s->ended[s->n_ended % ENDED_MAX], sizeof(s->ended[0]), "%s", session->id);
                s->n_ended++;
        }
}

void http_sessions_drain(HttpSessions *s) {
        assert(s);

        for (HttpSession *i = s->first; i; i = i->next)
                mcp_peer_drain(i->peer);
}

int http_sessions_new(McpServer *server, const Settings *settings, HttpSessions **ret) {
        _cleanup_free_ HttpSessions *s = NULL;
        int r;

        assert(server);
        assert(settings);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->server = server;
        r = make_key(settings, s->key);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
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
        explicit_bzero(s->key, sizeof(s->key));
        free(s);
        return NULL;
}
