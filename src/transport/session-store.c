/* SPDX-License-Identifier: MIT */

#include "transport/session-store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "transport/ended-sessions.h"

#define KEY_FILE "session-key"
#define NEW_KEY_FILE "session-key.new"
#define SESSION_APP_ID SD_ID128_MAKE(5e,0c,3d,29,4b,8f,4a,17,9a,61,d7,f2,38,c0,55,e4)

struct SessionStore {
        int dir_fd;                          /* -EBADF: nothing is kept */
        char secret[RANDOM_HEX_ID_CHARS + 1]; /* as in the file; "" for none */
        char key[SHA256_HEX_CHARS + 1];
        EndedSessions ended;
        bool is_behind; /* the list could not be written, so the key is away */
        bool has_lost;  /* one is not even in the list */
        bool has_warned;
};

static uint32_t now_sec(void) {
        return (uint32_t) (now_realtime_usec() / USEC_PER_SEC);
}

/* ---- The key ---- */

/* All of it or none, also after a power cut: else every session would end twice. */
static int write_secret(int dir_fd, const char *secret) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        (void) unlinkat(dir_fd, NEW_KEY_FILE, 0);
        fd = openat(dir_fd, NEW_KEY_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = fd_write_all(fd, secret, RANDOM_HEX_ID_CHARS);
        if (r >= 0 && (fsync(fd) < 0 || renameat(dir_fd, NEW_KEY_FILE, dir_fd, KEY_FILE) < 0))
                r = -errno;
        if (r < 0)
                (void) unlinkat(dir_fd, NEW_KEY_FILE, 0);
        else
                (void) fsync(dir_fd);
        return r;
}

/* Returns 1 with the secret that is there, 0 when there is none of ours, or -errno. */
static int read_secret(SessionStore *s) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = file_read(s->dir_fd, KEY_FILE, RANDOM_HEX_ID_CHARS, &text, NULL);
        if (r == -ENOENT || r == -EBADMSG || r == -EFBIG)
                return 0;
        if (r < 0)
                return r;
        if (!is_hex(text, RANDOM_HEX_ID_CHARS))
                return 0;
        memcpy(s->secret, text, sizeof(s->secret));
        explicit_bzero(text, strlen(text));
        return 1;
}

/* A new one, and sessions begin anew. */
static int make_secret(SessionStore *s) {
        char secret[RANDOM_HEX_ID_CHARS + 1];
        int r;

        r = random_hex_id(secret);
        if (r >= 0)
                r = write_secret(s->dir_fd, secret);
        if (r >= 0)
                memcpy(s->secret, secret, sizeof(s->secret));
        explicit_bzero(secret, sizeof(secret));
        return r;
}

/* The same after a restart: from the secret and this machine's id, mixed with the token so that it is no
 * secret of the machine that leaks. With neither secret nor machine id a random one: then sessions end with
 * the process. */
static int make_key(SessionStore *s, const Settings *settings) {
        _cleanup_free_ char *text = NULL;
        char machine[SD_ID128_STRING_MAX];
        sd_id128_t id;
        int r;

        /* Without a machine id (a container, a chroot) the secret's key still outlives a restart. */
        r = sd_id128_get_machine_app_specific(SESSION_APP_ID, &id);
        if (r < 0 && s->secret[0])
                id = SD_ID128_NULL;
        else if (r < 0) {
                (void) log_debug_errno(r, "No machine id; HTTP sessions will end with this process");
                r = sd_id128_randomize(&id);
                if (r < 0)
                        return r;
        }
        r = str_printf(&text, "mcp-exec session key %s %s %s", sd_id128_to_string(id, machine), s->secret,
                       settings->auth_token ?: "");
        if (r < 0)
                return r;
        sha256_hex(text, strlen(text), s->key);
        explicit_bzero(text, strlen(text));
        return 0;
}

const char* session_store_key(const SessionStore *s) {
        assert(s);
        return s->key;
}

/* ---- Ended sessions ---- */

static EndedSession ended_from(const char *principal, const char *id) {
        char digest[SHA256_HEX_CHARS + 1];
        uint64_t expires_sec = 0, owner = 0, tag = 0;

        sha256_hex(principal, strlen(principal), digest);
        (void) parse_hex(digest, 8, &owner);
        (void) parse_hex(id, 8, &expires_sec);
        (void) parse_hex(id + SESSION_ID_CHARS - 16, 16, &tag); /* of the MAC: nobody chooses it */
        return (EndedSession) {
                .tag = tag ?: 1,
                .expires_sec = (uint32_t) expires_sec,
                .owner = owner == ENDED_EVERYBODY ? 1 : (uint32_t) owner,
        };
}

bool session_store_is_ended(const SessionStore *s, const char *principal, const char *id) {
        EndedSession e;

        assert(s);
        assert(principal);
        assert(id && strlen(id) == SESSION_ID_CHARS);

        if (s->ended.n_entries == 0)
                return false;
        e = ended_from(principal, id);
        return ended_sessions_contain(&s->ended, &e);
}

/* A key that cannot be removed now may be at the next try; it is told once. */
static void set_behind(SessionStore *s, int error) {
        bool is_removed = unlinkat(s->dir_fd, KEY_FILE, 0) >= 0 || errno == ENOENT;

        s->is_behind = true;
        if (s->has_warned)
                return;
        s->has_warned = true;
        (void) log_warning_errno(error, "Cannot note that an HTTP session was ended; %s",
                                 is_removed ? "unless that works later, all of them end with this process" :
                                              "it may be known again after a restart");
}

/* First the list, then the key that makes it matter. */
static void catch_up(SessionStore *s) {
        int r = s->has_lost ? -ENOMEM : ended_sessions_write(&s->ended, s->dir_fd);

        if (r >= 0 && s->is_behind)
                r = write_secret(s->dir_fd, s->secret);
        if (r < 0)
                set_behind(s, r);
        else
                s->is_behind = false;
}

void session_store_end(SessionStore *s, const char *principal, const char *id) {
        EndedSession e;
        int r;

        assert(s);
        assert(principal);
        assert(id && strlen(id) == SESSION_ID_CHARS);

        e = ended_from(principal, id);
        r = ended_sessions_add(&s->ended, &e, now_sec());
        if (s->dir_fd < 0 ||
            (r == 0 && !s->is_behind && ended_sessions_append(s->dir_fd, &e) >= 0))
                return;
        s->has_lost = s->has_lost || r == -ENOMEM;
        catch_up(s);
}

/* ---- Starting ---- */

/* Returns 1 when what was there is in use, 0 when sessions have to begin anew, or -errno. */
static int load_old(SessionStore *s, const char *directory) {
        int r;

        r = read_secret(s);
        if (r <= 0)
                return r;
        r = ended_sessions_read(&s->ended, s->dir_fd, now_sec());
        /* The list is written before the key. */
        if (r == -EBADMSG || r == -ENOENT) {
                log_warning("%s/ended-sessions is %s, so all HTTP sessions have ended", directory,
                            r == -ENOENT ? "missing" : "damaged");
                return 0;
        }
        if (r < 0)
                return r;
        /* Else the file would grow with what has expired. Unless this works, it is only too long. */
        if (r == ENDED_E_CONDENSED)
                (void) ended_sessions_write(&s->ended, s->dir_fd);
        return 1;
}

static int load(SessionStore *s, const char *directory) {
        int r;

        s->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->dir_fd < 0)
                return -errno;
        r = load_old(s, directory);
        if (r != 0)
                return r;
        /* In this order: an old key never meets an empty list. */
        ended_sessions_done(&s->ended);
        if (unlinkat(s->dir_fd, KEY_FILE, 0) < 0 && errno != ENOENT)
                return -errno;
        r = ended_sessions_write(&s->ended, s->dir_fd);
        return r < 0 ? r : make_secret(s);
}

int session_store_new(const char *directory, const Settings *settings, SessionStore **ret) {
        _cleanup_(session_store_freep) SessionStore *s = NULL;
        int r;

        assert(settings);
        assert(ret);

        s = calloc(1, sizeof(*s));
        if (!s)
                return -ENOMEM;
        s->dir_fd = -EBADF;
        if (directory && directory[0] == '/') {
                r = load(s, directory);
                if (r < 0) {
                        (void) log_warning_errno(r, "Cannot keep the key of HTTP sessions in %s%s; one that "
                                                    "was ended may be known again after a restart",
                                                 directory,
                                                 r == -ENOENT ? " (\"systemd-tmpfiles --create\" makes it)" :
                                                                "");
                        s->dir_fd = safe_close(s->dir_fd);
                        s->secret[0] = 0;
                        ended_sessions_done(&s->ended);
                }
        }
        r = make_key(s, settings);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

SessionStore* session_store_free(SessionStore *s) {
        if (!s)
                return NULL;

        if (s->is_behind)
                catch_up(s);
        (void) safe_close(s->dir_fd);
        ended_sessions_done(&s->ended);
        explicit_bzero(s->secret, sizeof(s->secret));
        explicit_bzero(s->key, sizeof(s->key));
        free(s);
        return NULL;
}
