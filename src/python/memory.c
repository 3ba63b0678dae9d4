/* SPDX-License-Identifier: MIT */

#include "python/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/strv.h"

/* Not "sets": a user's launcher has its directory of that name beside it. */
#define FILE_NAME "known-sets"
#define FILE_BYTES_MAX (1 * MIB)
#define FIRST_LINE "mcp-exec sets 1"

struct MemoryEntry {
        char key[SHA256_HEX_CHARS + 1];
        char set[SHA256_HEX_CHARS + 1]; /* of a request */
        bool is_lasting; /* the same: also on disk */
        uint64_t usec; /* of a use */
        LIST_LINK(MemoryEntry) entries;
};

static MemoryEntry* find(MemoryEntry *first, const char *key) {
        for (MemoryEntry *e = first; e; e = e->entries.next)
                if (streq(e->key, key))
                        return e;
        return NULL;
}

static MemoryEntry* entry_new(const char *key) {
        MemoryEntry *e = calloc(1, sizeof(MemoryEntry));

        if (e)
                memcpy(e->key, key, SHA256_HEX_CHARS);
        return e;
}

static void drop_request(Memory *m, MemoryEntry *e) {
        LIST_REMOVE(&m->requests, entries, e);
        m->n_requests--;
        free(e);
}

static void drop_use(Memory *m, MemoryEntry *e) {
        LIST_REMOVE(&m->uses, entries, e);
        m->n_uses--;
        free(e);
}

const char* memory_find(const Memory *m, const char *request) {
        const MemoryEntry *e;

        assert(m && request);
        e = find(m->requests.first, request);
        return e ? e->set : NULL;
}

int memory_note(Memory *m, const char *request, const char *set, bool is_lasting) {
        MemoryEntry *e;

        assert(m && request && set);
        assert(strlen(request) == SHA256_HEX_CHARS && strlen(set) == SHA256_HEX_CHARS);

        e = find(m->requests.first, request);
        if (e)
                drop_request(m, e);
        while (m->n_requests >= MEMORY_ENTRIES_MAX)
                drop_request(m, m->requests.first);
        e = entry_new(request);
        if (!e)
                return -ENOMEM;
        memcpy(e->set, set, SHA256_HEX_CHARS);
        e->is_lasting = is_lasting;
        LIST_APPEND(&m->requests, entries, e);
        m->n_requests++;
        m->is_changed = true;
        return 0;
}

void memory_forget_set(Memory *m, const char *set) {
        MemoryEntry *use;

        assert(m && set);

        for (MemoryEntry *e = m->requests.first, *next; e; e = next) {
                next = e->entries.next;
                if (streq(e->set, set)) {
                        drop_request(m, e);
                        m->is_changed = true;
                }
        }
        use = find(m->uses.first, set);
        if (use)
                drop_use(m, use);
}

uint64_t memory_used_usec(const Memory *m, const char *set) {
        const MemoryEntry *e;

        assert(m && set);
        e = find(m->uses.first, set);
        return e ? e->usec : 0;
}

int memory_note_use(Memory *m, const char *set, uint64_t usec) {
        MemoryEntry *e;

        assert(m && set);
        assert(strlen(set) == SHA256_HEX_CHARS);

        e = find(m->uses.first, set);
        if (e)
                drop_use(m, e);
        while (m->n_uses >= MEMORY_ENTRIES_MAX)
                drop_use(m, m->uses.first);
        e = entry_new(set);
        if (!e)
                return -ENOMEM;
        e->usec = usec;
        LIST_APPEND(&m->uses, entries, e);
        m->n_uses++;
        m->is_changed = true;
        return 0;
}

/* "request HEX HEX" or "use HEX USEC" */
static int read_line(Memory *m, const char *line) {
        _cleanup_strv_ char **words = NULL;
        uint64_t usec;
        int r;

        r = strv_split(line, &words);
        if (r < 0)
                return r;
        if (strv_length(words) != 3 || strlen(words[1]) != SHA256_HEX_CHARS ||
            !is_hex(words[1], SHA256_HEX_CHARS))
                return -EBADMSG;
        if (streq(words[0], "request") && strlen(words[2]) == SHA256_HEX_CHARS &&
            is_hex(words[2], SHA256_HEX_CHARS))
                return memory_note(m, words[1], words[2], true);
        if (streq(words[0], "use") && parse_uint64(words[2], &usec) == 0)
                return memory_note_use(m, words[1], usec);
        return -EBADMSG;
}

static int memory_load(Memory *m) {
        _cleanup_free_ char *text = NULL;
        char *next;
        int r;

        r = file_read(AT_FDCWD, m->path, FILE_BYTES_MAX, &text, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        for (char *line = text; line; line = next) {
                next = strchr(line, '\n');
                if (!next) /* each line has an end, or was cut */
                        break;
                *next++ = 0;
                if (line == text)
                        r = streq(line, FIRST_LINE) ? 0 : -EBADMSG;
                else
                        r = read_line(m, line);
                if (r == -ENOMEM)
                        return r;
                /* A line that is no such line is a sign that the rest is not better. */
                if (r < 0)
                        break;
        }
        m->is_changed = false;
        return 0;
}

int memory_init(Memory *m, const char *directory) {
        int r;

        assert(m);

        *m = (Memory){};
        if (!directory)
                return 0;
        r = str_printf(&m->path, "%s/" FILE_NAME, directory);
        return r < 0 ? r : memory_load(m);
}

void memory_done(Memory *m) {
        assert(m);

        while (m->requests.first)
                drop_request(m, m->requests.first);
        while (m->uses.first)
                drop_use(m, m->uses.first);
        free(TAKE_PTR(m->path));
}

static int memory_write(const Memory *m, Buffer *b) {
        int r;

        r = buffer_append_str(b, FIRST_LINE "\n");
        for (const MemoryEntry *e = m->requests.first; e && r >= 0; e = e->entries.next)
                if (e->is_lasting)
                        r = buffer_printf(b, "request %s %s\n", e->key, e->set);
        for (const MemoryEntry *e = m->uses.first; e && r >= 0; e = e->entries.next)
                r = buffer_printf(b, "use %s %" PRIu64 "\n", e->key, e->usec);
        return r;
}

/* A user's directory is made with the first thing to remember: most users have none. */
static int make_directory_of(const char *path) {
        _cleanup_free_ char *directory = NULL;
        int r;

        r = str_printf(&directory, "%.*s", (int) (strrchr(path, '/') - path), path);
        return r < 0 ? r : path_make_directories(directory, 0700);
}

static int write_file(const char *path, const Buffer *b) {
        _cleanup_close_ int fd = -EBADF;

        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        return fd_write_all(fd, b->data, b->n_bytes);
}

int memory_save(Memory *m) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(FILE_BYTES_MAX);
        _cleanup_free_ char *temporary = NULL;
        int r;

        assert(m);

        if (!m->is_changed || !m->path)
                return 0;
        r = memory_write(m, &b);
        if (r < 0)
                return r;
        /* Several servers of one user share the file: none of them writes into another one's. */
        r = str_printf(&temporary, "%s.%d", m->path, (int) getpid());
        if (r < 0)
                return r;
        r = make_directory_of(temporary);
        if (r >= 0)
                r = write_file(temporary, &b);
        if (r >= 0 && rename(temporary, m->path) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlink(temporary);
                return r;
        }
        m->is_changed = false;
        return 0;
}
