/* SPDX-License-Identifier: MIT */

/* The file is not synchronised: an orderly reboot keeps all of it, a power cut may lose the last seconds,
 * and waiting for a disk would keep every client waiting. */

#include "transport/ended-sessions.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/parse.h"

#define FILE_NAME "ended-sessions"
#define NEW_FILE_NAME "ended-sessions.new"
/* "EXPIRES OWNER TAG\n" in hexadecimal digits */
#define LINE_CHARS 35
/* Floors, too, may come on top of what is dropped. */
#define FILE_BYTES_MAX (2 * (size_t) ENDED_MAX * LINE_CHARS)

void ended_sessions_done(EndedSessions *l) {
        assert(l);

        free(l->entries);
        *l = (EndedSessions) {};
}

bool ended_sessions_contain(const EndedSessions *l, const EndedSession *e) {
        assert(l);
        assert(e);

        for (size_t k = 0; k < l->n_entries; k++) {
                const EndedSession *i = l->entries + k;

                if (i->tag == 0) {
                        if (e->expires_sec <= i->expires_sec &&
                            (i->owner == e->owner || i->owner == ENDED_EVERYBODY))
                                return true;
                } else if (i->tag == e->tag && i->expires_sec == e->expires_sec && i->owner == e->owner)
                        return true;
        }
        return false;
}

static int push(EndedSessions *l, const EndedSession *e) {
        if (l->n_entries == l->n_allocated) {
                size_t n = l->n_allocated > 0 ? l->n_allocated * 2 : 64;
                EndedSession *entries = reallocarray(l->entries, n, sizeof(*entries));

                if (!entries)
                        return -ENOMEM;
                l->entries = entries;
                l->n_allocated = n;
        }
        l->entries[l->n_entries++] = *e;
        return 0;
}

static int by_expiry(const void *a, const void *b) {
        const EndedSession *x = a, *y = b;

        return x->expires_sec < y->expires_sec ? -1 : x->expires_sec > y->expires_sec;
}

static bool is_of(const EndedSession *e, uint32_t owner) {
        return owner == ENDED_EVERYBODY || e->owner == owner;
}

static size_t count_of(const EndedSessions *l, uint32_t owner) {
        size_t n = 0;

        for (size_t i = 0; i < l->n_entries; i++)
                n += is_of(l->entries + i, owner);
        return n;
}

static int by_owner(const void *a, const void *b) {
        const EndedSession *x = a, *y = b;

        return x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* Whoever filled the list pays for it, as long as that are few. */
static uint32_t largest_owner(EndedSessions *l) {
        uint32_t owner = ENDED_EVERYBODY;
        size_t most = ENDED_LARGE_MIN - 1, n = 0;

        qsort(l->entries, l->n_entries, sizeof(*l->entries), by_owner);
        for (size_t i = 0; i < l->n_entries; i++) {
                n = i > 0 && l->entries[i].owner == l->entries[i - 1].owner ? n + 1 : 1;
                if (n > most && l->entries[i].owner != ENDED_EVERYBODY) {
                        most = n;
                        owner = l->entries[i].owner;
                }
        }
        return owner;
}

/* There is room for the floor: it stands for one entry at least. */
static void condense(EndedSessions *l, uint32_t owner) {
        EndedSession floor = { .owner = owner };
        size_t n_half = (count_of(l, owner) + 1) / 2, n = 0;

        qsort(l->entries, l->n_entries, sizeof(*l->entries), by_expiry);
        for (size_t i = 0, n_seen = 0; i < l->n_entries && n_seen < n_half; i++)
                if (is_of(l->entries + i, owner)) {
                        floor.expires_sec = l->entries[i].expires_sec;
                        n_seen++;
                }
        for (size_t i = 0; i < l->n_entries; i++)
                if (!is_of(l->entries + i, owner) || l->entries[i].expires_sec > floor.expires_sec)
                        l->entries[n++] = l->entries[i];
        l->entries[n++] = floor;
        l->n_entries = n;
}

static bool drop_expired(EndedSessions *l, uint32_t now_sec) {
        size_t n = 0, n_before = l->n_entries;

        for (size_t i = 0; i < l->n_entries; i++)
                if (l->entries[i].expires_sec >= now_sec)
                        l->entries[n++] = l->entries[i];
        l->n_entries = n;
        return n < n_before;
}

int ended_sessions_add(EndedSessions *l, const EndedSession *e, uint32_t now_sec) {
        bool has_changed = false;
        int r;

        assert(l);
        assert(e);

        if (ended_sessions_contain(l, e))
                return 0;
        if (l->n_entries >= ENDED_MAX)
                has_changed = drop_expired(l, now_sec);
        if (count_of(l, e->owner) >= ENDED_OWN_MAX) {
                condense(l, e->owner);
                has_changed = true;
        }
        if (l->n_entries >= ENDED_MAX) {
                condense(l, largest_owner(l));
                has_changed = true;
        }
        r = push(l, e);
        if (r < 0)
                return r;
        return has_changed ? ENDED_E_CONDENSED : 0;
}

/* ---- The file ---- */

static void line_of(const EndedSession *e, char ret[static LINE_CHARS + 1]) {
        (void) snprintf(ret, LINE_CHARS + 1, "%08" PRIx32 " %08" PRIx32 " %016" PRIx64 "\n", e->expires_sec,
                        e->owner, e->tag);
}

static bool parse_line(const char *line, EndedSession *ret) {
        uint64_t expires_sec, owner, tag;

        if (parse_hex(line, 8, &expires_sec) < 0 || line[8] != ' ' || parse_hex(line + 9, 8, &owner) < 0 ||
            line[17] != ' ' || parse_hex(line + 18, 16, &tag) < 0 || line[34] != '\n')
                return false;
        *ret = (EndedSession) {
                .tag = tag,
                .expires_sec = (uint32_t) expires_sec,
                .owner = (uint32_t) owner,
        };
        return true;
}

int ended_sessions_read(EndedSessions *l, int dir_fd, uint32_t now_sec) {
        _cleanup_free_ char *text = NULL;
        int r;

        assert(l);
        assert(dir_fd >= 0);

        r = file_read(dir_fd, FILE_NAME, FILE_BYTES_MAX, &text, NULL);
        if (r < 0)
                return r == -EFBIG ? -EBADMSG : r;
        for (const char *line = text; *line; line += LINE_CHARS) {
                EndedSession e;

                if (!parse_line(line, &e))
                        return -EBADMSG;
                r = push(l, &e);
                if (r < 0)
                        return r;
        }
        return drop_expired(l, now_sec) ? ENDED_E_CONDENSED : 0;
}

int ended_sessions_append(int dir_fd, const EndedSession *e) {
        _cleanup_close_ int fd = -EBADF;
        char line[LINE_CHARS + 1];
        off_t n_bytes;
        int r;

        assert(dir_fd >= 0);
        assert(e);

        fd = openat(dir_fd, FILE_NAME, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        n_bytes = lseek(fd, 0, SEEK_END);
        if (n_bytes < 0)
                return -errno;
        line_of(e, line);
        r = fd_write_all(fd, line, LINE_CHARS);
        if (r < 0) /* half a line would spoil the file; the caller writes it anew then */
                (void) ftruncate(fd, n_bytes);
        return r;
}

int ended_sessions_write(const EndedSessions *l, int dir_fd) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_close_ int fd = -EBADF;
        char line[LINE_CHARS + 1];
        int r;

        assert(l);
        assert(dir_fd >= 0);

        for (size_t i = 0; i < l->n_entries; i++) {
                line_of(l->entries + i, line);
                r = buffer_append(&b, line, LINE_CHARS);
                if (r < 0)
                        return r;
        }
        (void) unlinkat(dir_fd, NEW_FILE_NAME, 0);
        fd = openat(dir_fd, NEW_FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = fd_write_all(fd, b.data, b.n_bytes);
        if (r >= 0 && renameat(dir_fd, NEW_FILE_NAME, dir_fd, FILE_NAME) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(dir_fd, NEW_FILE_NAME, 0);
        return r;
}
