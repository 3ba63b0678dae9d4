/* SPDX-License-Identifier: MIT */

/* The access file. */

#include "auth/access.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "auth/auth.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/strv.h"

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define DIGEST_PREFIX "sha256:"
#define USER_PREFIX "user-"

static const char *const kinds[_ACCESS_KIND_MAX] = {
        [ACCESS_TOKEN] = "token",
        [ACCESS_USER] = "user",
        [ACCESS_GROUP] = "group",
        [ACCESS_PROXY] = "proxy",
};

static bool is_made_of(const char *s, const char *characters) {
        size_t n = strlen(s);

        return n > 0 && n <= ACCESS_NAME_CHARS_MAX && strspn(s, characters) == n;
}

bool access_is_token_name(const char *name) {
        assert(name);

        return is_made_of(name, ALPHANUMERIC "._-") && name[0] != '-' && name[0] != '.';
}

bool access_is_user_name(const char *name) {
        assert(name);

        return is_made_of(name, ALPHANUMERIC "._-@+");
}

static int set_count(unsigned *limit, const char *value, unsigned min) {
        uint64_t n;

        if (parse_uint64(value, &n) < 0 || n < min || n > 1000000)
                return -EINVAL;
        *limit = (unsigned) n;
        return 0;
}

static int set_count_limit(CountLimits *l, const char *key, const char *value) {
        if (streq(key, "parallel"))
                return set_count(&l->parallel, value, 1);
        if (streq(key, "rate"))
                return set_count(&l->rate_per_minute, value, 1);
        if (!streq(key, "queue") || set_count(&l->queue, value, 0) < 0)
                return -EINVAL;
        l->has_queue = true;
        return 0;
}

int access_set_limit(AccessEntry *e, const char *key, const char *value) {
        uint64_t n;

        assert(e);
        assert(key);
        assert(value);

        if (streq(key, "timeout")) {
                if (parse_usec(value, &n) < 0 || n < USEC_PER_SEC)
                        return -EINVAL;
                e->timeout_usec = n;
                return 0;
        }
        if (streq(key, "memory")) {
                if (parse_bytes(value, &n) < 0 || n < 32 * MIB) /* the least that the launcher takes */
                        return -EINVAL;
                e->memory_max_bytes = n;
                return 0;
        }
        if (strncmp(key, USER_PREFIX, sizeof(USER_PREFIX) - 1) == 0)
                return set_count_limit(&e->user_limits, key + sizeof(USER_PREFIX) - 1, value);
        return set_count_limit(&e->limits, key, value);
}

bool access_may_limit_users(const AccessEntry *e) {
        assert(e);

        return e->kind == ACCESS_PROXY || e->is_delegating;
}

bool access_limits_users(const AccessEntry *e) {
        const CountLimits *l = &e->user_limits;

        assert(e);

        return l->parallel > 0 || l->has_queue || l->rate_per_minute > 0;
}

/* The words after kind and name. Returns NULL or what is wrong. */
static const char* parse_words(AccessEntry *e, char *const *words) {
        STRV_FOREACH(word, words) {
                char *equals = strchr(*word, '=');

                if (e->kind == ACCESS_TOKEN && streq(*word, "delegate"))
                        e->is_delegating = true;
                else if (e->kind == ACCESS_TOKEN &&
                         strncmp(*word, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1) == 0) {
                        const char *digest = *word + sizeof(DIGEST_PREFIX) - 1;

                        if (!is_hex(digest, SHA256_HEX_CHARS))
                                return "the digest is not sha256: and 64 hexadecimal digits";
                        memcpy(e->digest, digest, sizeof(e->digest));
                } else if (equals) {
                        *equals = 0;
                        if (access_set_limit(e, *word, equals + 1) < 0)
                                return "a limit is one of parallel=N, queue=N, rate=N, user-parallel=N, "
                                       "user-queue=N, user-rate=N, timeout=TIME (from 1s) and memory=SIZE "
                                       "(from 32M)";
                } else
                        return "a word is none that belongs here";
        }
        if (e->kind == ACCESS_TOKEN && e->digest[0] == 0)
                return "the token's digest is missing";
        if (access_limits_users(e) && !access_may_limit_users(e))
                return "limits of users (user-...) are for tokens with the word delegate and for the proxy";
        return NULL;
}

/* Returns NULL or what is wrong; *ret_is_empty for a line that says nothing. */
static const char* parse_line(const Access *a, char *const *words, AccessEntry *e) {
        const char *name;

        while (e->kind < _ACCESS_KIND_MAX && !streq(words[0], kinds[e->kind]))
                e->kind++;
        if (e->kind == _ACCESS_KIND_MAX)
                return "a line begins with token, user, group or proxy";
        words++;
        if (e->kind != ACCESS_PROXY) {
                name = words[0];
                if (!name)
                        return "the name is missing";
                if (e->kind == ACCESS_TOKEN ? !access_is_token_name(name) :
                                              strlen(name) > ACCESS_NAME_CHARS_MAX || strpbrk(name, ":,/="))
                        return "the name is not one of at most 64 letters, digits, dots, dashes and "
                               "underscores";
                memcpy(e->name, name, strlen(name) + 1);
                words++;
        }
        if (access_find(a, e->kind, e->name))
                return "the same name stands in a line before";
        return parse_words(e, words);
}

static int refuse(const char *file, unsigned number, const char *what, char **reterr_message) {
        int r = str_printf(reterr_message, "%s:%u: %s", file, number, what);

        return r < 0 ? r : -EBADMSG;
}

static int add_line(Access *a, const char *file, unsigned number, const char *line, char **reterr_message) {
        _cleanup_strv_ char **words = NULL;
        AccessEntry e = {}, *entries;
        const char *what;
        int r;

        r = strv_split(line, &words);
        if (r < 0)
                return r;
        if (!words || words[0][0] == '#')
                return 0;
        what = a->n_entries >= ACCESS_ENTRIES_MAX ? "more than 4096 entries" : parse_line(a, words, &e);
        if (what)
                return refuse(file, number, what, reterr_message);

        entries = reallocarray(a->entries, a->n_entries + 1, sizeof(*entries));
        if (!entries)
                return -ENOMEM;
        a->entries = entries;
        a->entries[a->n_entries++] = e;
        a->n_tokens += e.kind == ACCESS_TOKEN;
        return 0;
}

int access_parse(const char *file, const char *text, Access **ret, char **reterr_message) {
        _cleanup_(access_freep) Access *a = NULL;
        int r;

        assert(file);
        assert(text);
        assert(ret);
        assert(reterr_message);

        a = calloc(1, sizeof(*a));
        if (!a)
                return -ENOMEM;
        for (unsigned number = 1; *text; number++) {
                size_t n = strcspn(text, "\n");
                _cleanup_free_ char *line = strndup(text, n);

                if (!line)
                        return -ENOMEM;
                r = add_line(a, file, number, line, reterr_message);
                if (r < 0)
                        return r;
                text += text[n] ? n + 1 : n;
        }
        *ret = TAKE_PTR(a);
        return 0;
}

int access_load(const char *path, Access **ret, char **reterr_message) {
        _cleanup_free_ char *text = NULL;
        struct stat st;
        int r;

        assert(path);
        assert(reterr_message);

        r = file_read(AT_FDCWD, path, ACCESS_FILE_BYTES_MAX, &text, NULL);
        if (r == -ENOENT)
                return access_parse(path, "", ret, reterr_message);
        if (r == -ENOMEM)
                return r;
        /* Fail closed: limits that cannot be read must not turn into none. */
        if (r == -EACCES || r == -EPERM) /* of a regular file alone it is known what it should be */
                return refuse(path, 1,
                              lstat(path, &st) >= 0 && S_ISREG(st.st_mode) ?
                                      "may not be read; it should belong to " ACCESS_FILE_OWNER
                                      " with mode " ACCESS_FILE_MODE :
                                      "may not be read, and is no regular file that can be looked at",
                              reterr_message);
        if (r < 0)
                return refuse(path, 1,
                              r == -EISDIR || r == -EBADF ? "is no regular file" :
                                                            "cannot be read as a text file of at most 1 MiB",
                              reterr_message);
        return access_parse(path, text, ret, reterr_message);
}

Access* access_free(Access *a) {
        if (!a)
                return NULL;
        free(a->entries);
        free(a);
        return NULL;
}

static int write_counts(const CountLimits *l, const char *prefix, Buffer *b) {
        int r = 0;

        if (l->parallel > 0)
                r = buffer_printf(b, " %sparallel=%u", prefix, l->parallel);
        if (r >= 0 && l->has_queue)
                r = buffer_printf(b, " %squeue=%u", prefix, l->queue);
        if (r >= 0 && l->rate_per_minute > 0)
                r = buffer_printf(b, " %srate=%u", prefix, l->rate_per_minute);
        return r;
}

int access_write_entry(const AccessEntry *e, Buffer *b) {
        int r;

        assert(e);
        assert(b);

        r = buffer_printf(b, "%s%s%s", kinds[e->kind], e->name[0] ? " " : "", e->name);
        if (r >= 0 && e->kind == ACCESS_TOKEN)
                r = buffer_printf(b, " " DIGEST_PREFIX "%s%s", e->digest,
                                  e->is_delegating ? " delegate" : "");
        if (r >= 0)
                r = write_counts(&e->limits, "", b);
        if (r >= 0)
                r = write_counts(&e->user_limits, USER_PREFIX, b);
        if (r >= 0 && e->timeout_usec > 0)
                r = buffer_printf(b, " timeout=%" PRIu64 "ms", e->timeout_usec / USEC_PER_MSEC);
        if (r >= 0 && e->memory_max_bytes > 0)
                r = buffer_printf(b, " memory=%" PRIu64, e->memory_max_bytes);
        return r < 0 ? r : buffer_append_str(b, "\n");
}

const AccessEntry* access_find(const Access *a, AccessKind kind, const char *name) {
        assert(a);
        assert(name);

        for (size_t i = 0; i < a->n_entries; i++)
                if (a->entries[i].kind == kind && streq(a->entries[i].name, name))
                        return a->entries + i;
        return NULL;
}

const AccessEntry* access_find_token(const Access *a, const char *token) {
        const AccessEntry *found = NULL;
        char digest[SHA256_HEX_CHARS + 1];

        assert(a);
        assert(token);

        sha256_hex(token, strlen(token), digest);
        for (size_t i = 0; i < a->n_entries; i++)
                if (a->entries[i].kind == ACCESS_TOKEN && digest_equal(a->entries[i].digest, digest))
                        found = a->entries + i;
        explicit_bzero(digest, sizeof(digest));
        return found;
}

static const AccessEntry* find_for_uid(const Access *a, uid_t uid) {
        for (size_t i = 0; i < a->n_entries; i++)
                if (a->entries[i].kind == ACCESS_USER && auth_uid_is(uid, a->entries[i].name))
                        return a->entries + i;
        for (size_t i = 0; i < a->n_entries; i++)
                if (a->entries[i].kind == ACCESS_GROUP && auth_uid_is_in(uid, a->entries[i].name))
                        return a->entries + i;
        return NULL;
}

/* "token:NAME" or "token:NAME/USER". */
static const AccessEntry* find_for_token(const Access *a, const char *rest) {
        char name[ACCESS_NAME_CHARS_MAX + 1];
        size_t n = strcspn(rest, "/");

        if (n > ACCESS_NAME_CHARS_MAX)
                return NULL;
        memcpy(name, rest, n);
        name[n] = 0;
        return access_find(a, ACCESS_TOKEN, name);
}

static CountLimits smaller_counts(const CountLimits *a, const CountLimits *b) {
        CountLimits l = *a;

        if (b->parallel > 0 && (l.parallel == 0 || b->parallel < l.parallel))
                l.parallel = b->parallel;
        if (b->has_queue && (!l.has_queue || b->queue < l.queue))
                l.queue = b->queue;
        l.has_queue = l.has_queue || b->has_queue;
        if (b->rate_per_minute > 0 && (l.rate_per_minute == 0 || b->rate_per_minute < l.rate_per_minute))
                l.rate_per_minute = b->rate_per_minute;
        return l;
}

void access_limits(const Access *a, const char *principal, PrincipalLimits *ret) {
        const AccessEntry *e = NULL;
        const char *rest;
        uint64_t uid;

        assert(a);
        assert(principal);
        assert(ret);

        *ret = (PrincipalLimits) {};
        rest = strchr(principal, ':');
        if (!rest)
                return;
        rest++;
        if (strncmp(principal, "token:", 6) == 0)
                e = find_for_token(a, rest);
        else if (strncmp(principal, "proxy:", 6) == 0)
                e = access_find(a, ACCESS_PROXY, "");
        else if (strncmp(principal, "uid:", 4) == 0 && parse_uint64(rest, &uid) == 0)
                e = find_for_uid(a, (uid_t) uid);
        if (!e)
                return;

        ret->own = e->limits;
        ret->timeout_usec = e->timeout_usec;
        ret->memory_max_bytes = e->memory_max_bytes;
        if (!access_may_limit_users(e))
                return;
        ret->whole = e->limits;
        ret->own = smaller_counts(&e->limits, &e->user_limits);
        (void) snprintf(ret->group, sizeof(ret->group), "%s%s", e->kind == ACCESS_PROXY ? "proxy" : "token:",
                        e->name);
}
