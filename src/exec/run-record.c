/* SPDX-License-Identifier: MIT */

/* The memfd: a header, strings (each with its NUL), the four pieces of both captures, and of each file a
 * header of its own and its content.
 *
 * What comes back from the service manager was written by this program, maybe by an older version of it, so
 * everything is checked before it is believed. */

#include "exec/run-record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strv.h"

#define RECORD_VERSION 2
#define HINTS_MAX 16
#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char record_magic[8] = "MXRUN\n\r";

typedef struct RecordStream {
        uint64_t n_total, n_head, n_ring;
} RecordStream;

typedef struct RecordFile {
        uint64_t n_bytes;
        uint32_t reason;
        char sha256[SHA256_HEX_CHARS + 1];
        uint8_t padding[3];
} RecordFile;

typedef struct RecordHeader {
        char magic[8];
        uint32_t version, n_hints;
        char run_id[RANDOM_HEX_ID_CHARS + 1];
        uint8_t did_run, has_message, presentation, padding[4]; /* 0: also of a version before it was here */
        int32_t status, exit_code, signal, padding2;
        uint64_t created_usec, ended_usec, expires_usec;
        uint64_t queued_usec, duration_usec, cpu_usec, memory_peak_bytes;
        uint64_t text_bytes;
        RecordStream streams[2];
        uint64_t has_files, n_files, n_more_files, all_files_bytes, file_gaps;
} RecordHeader;

/* What is taken of a capture: its whole head and ring, or less of both. */
static RecordStream measure(const Capture *c, size_t max_bytes) {
        RecordStream s = { .n_total = c->n_total, .n_head = c->n_head, .n_ring = c->n_ring };

        if (s.n_head + s.n_ring > max_bytes) {
                s.n_head = MIN_OF(s.n_head, (uint64_t) (s.n_ring > 0 ? max_bytes / 2 : max_bytes));
                s.n_ring = MIN_OF(s.n_ring, (uint64_t) max_bytes - s.n_head);
        }
        return s;
}

static int append_stream(const Capture *c, const RecordStream *s, Buffer *b) {
        size_t at, n_first;
        int r;

        r = buffer_append(b, c->head, (size_t) s->n_head);
        if (r < 0 || s->n_ring == 0)
                return r;
        at = (c->ring_start + (c->n_ring - (size_t) s->n_ring)) % c->n_ring;
        n_first = MIN_OF((size_t) s->n_ring, c->n_ring - at);
        r = buffer_append(b, c->ring + at, n_first);
        return r < 0 ? r : buffer_append(b, c->ring, (size_t) s->n_ring - n_first);
}

static int append_string(Buffer *b, const char *s) {
        return buffer_append(b, s, strlen(s) + 1);
}

static int append_text(const RunRecordParameters *p, Buffer *b) {
        const ExecResult *result = p->result;
        int r;

        r = append_string(b, p->principal);
        if (r >= 0 && result->message)
                r = append_string(b, result->message);
        for (size_t i = 0; i < HINTS_MAX && result->hints && result->hints[i] && r >= 0; i++)
                r = append_string(b, result->hints[i]);
        for (size_t i = 0; result->files && i < result->files->n_items && r >= 0; i++)
                r = append_string(b, result->files->items[i].path);
        return r;
}

static int append_files(const ExecFiles *files, size_t max_bytes, Buffer *b) {
        int r = 0;

        for (size_t i = 0; i < files->n_items && r >= 0; i++) {
                const ExecFile *f = files->items + i;
                RecordFile h = { .n_bytes = f->n_bytes, .reason = (uint32_t) f->reason };

                memcpy(h.sha256, f->sha256, sizeof(h.sha256));
                if (f->reason == EXEC_FILE_COMPLETE && f->n_bytes > max_bytes)
                        h.reason = EXEC_FILE_NOT_KEPT;
                r = buffer_append(b, &h, sizeof(h));
                if (r < 0 || h.reason != EXEC_FILE_COMPLETE)
                        continue;
                max_bytes -= (size_t) f->n_bytes;
                r = buffer_append(b, f->data, (size_t) f->n_bytes);
        }
        return r;
}

int run_record_new(const RunRecordParameters *p, RunRecord **ret) {
        static const Capture nothing = {};
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0), text = BUFFER_INIT(0);
        _cleanup_close_ int fd = -EBADF;
        const Capture *out, *err;
        const ExecResult *result;
        RecordHeader h = {};
        int r;

        assert(p && p->principal && p->result);
        assert(ret);

        result = p->result;
        out = result->out ?: &nothing;
        err = result->err ?: &nothing;
        r = append_text(p, &text);
        if (r < 0)
                return r;

        h.version = RECORD_VERSION;
        memcpy(h.magic, record_magic, sizeof(h.magic));
        memcpy(h.run_id, result->run_id, sizeof(h.run_id));
        h.n_hints = (uint32_t) MIN_OF(strv_length(result->hints), (size_t) HINTS_MAX);
        h.did_run = result->did_run;
        h.presentation = result->presentation;
        h.has_message = result->message != NULL;
        h.status = (int32_t) result->status;
        h.exit_code = result->exit_code;
        h.signal = result->signal;
        h.created_usec = p->created_usec;
        h.ended_usec = p->ended_usec;
        h.expires_usec = p->expires_usec;
        h.queued_usec = result->queued_usec;
        h.duration_usec = result->duration_usec;
        h.cpu_usec = result->cpu_usec;
        h.memory_peak_bytes = result->memory_peak_bytes;
        h.text_bytes = text.n_bytes;
        h.streams[0] = measure(out, p->max_stream_bytes);
        h.streams[1] = measure(err, p->max_stream_bytes);
        if (result->files) {
                h.has_files = 1;
                h.n_files = result->files->n_items;
                h.n_more_files = result->files->n_more;
                h.all_files_bytes = result->files->n_bytes;
                h.file_gaps = result->files->gaps;
        }

        r = buffer_append(&b, &h, sizeof(h));
        if (r >= 0)
                r = buffer_append(&b, text.data, text.n_bytes);
        if (r >= 0)
                r = append_stream(out, &h.streams[0], &b);
        if (r >= 0)
                r = append_stream(err, &h.streams[1], &b);
        if (r >= 0 && result->files)
                r = append_files(result->files, p->max_files_bytes, &b);
        if (r < 0)
                return r;

        fd = memfd_new_sealed("mcp-exec-result", b.data, b.n_bytes);
        if (fd < 0)
                return fd;
        buffer_done(&b);
        r = run_record_open(fd, ret);
        if (r >= 0)
                TAKE_FD(fd);
        return r;
}

static bool header_is_valid(const RecordHeader *h, uint64_t n_bytes) {
        uint64_t left = n_bytes - sizeof(*h);

        if (memcmp(h->magic, record_magic, sizeof(h->magic)) != 0 || h->version != RECORD_VERSION ||
            h->n_hints > HINTS_MAX || h->status <= EXEC_RUNNING || h->status >= _EXEC_STATUS_MAX ||
            strnlen(h->run_id, sizeof(h->run_id)) != RANDOM_HEX_ID_CHARS || h->text_bytes > left ||
            h->has_files > 1 || h->n_files > (h->has_files ? EXEC_FILES_MAX : 0))
                return false;
        left -= h->text_bytes;
        for (size_t i = 0; i < ELEMENTSOF(h->streams); i++) {
                const RecordStream *s = &h->streams[i];

                if (s->n_head > left || s->n_ring > left - s->n_head ||
                    s->n_total < s->n_head + s->n_ring)
                        return false;
                left -= s->n_head + s->n_ring;
        }
        return left >= h->n_files * sizeof(RecordFile); /* read_files() looks at the rest */
}

/* The next string of the text, or NULL when there is none. */
static char* next_string(char **p, char *end) {
        char *s = *p, *nul = memchr(s, 0, (size_t) (end - s));

        if (nul)
                *p = nul + 1;
        return nul ? s : NULL;
}

static int read_text(RunRecord *record, const RecordHeader *h) {
        char *p = (char*) record->map + sizeof(*h), *end = p + h->text_bytes;

        record->principal = next_string(&p, end);
        if (!record->principal)
                return -EBADMSG;
        if (h->has_message) {
                record->result.message = next_string(&p, end);
                if (!record->result.message)
                        return -EBADMSG;
        }
        if (h->n_hints > 0) {
                record->result.hints = calloc(h->n_hints + 1, sizeof(char*));
                if (!record->result.hints)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < h->n_hints; i++) {
                record->result.hints[i] = next_string(&p, end);
                if (!record->result.hints[i])
                        return -EBADMSG;
        }
        for (size_t i = 0; i < h->n_files; i++) {
                record->file_items[i].path = next_string(&p, end);
                if (!record->file_items[i].path)
                        return -EBADMSG;
        }
        return 0;
}

/* p: behind the captures. Up to the last byte. */
static int read_files(RunRecord *record, const RecordHeader *h, const char *p) {
        size_t left = record->n_bytes - (size_t) (p - (const char*) record->map);

        for (size_t i = 0; i < h->n_files; i++) {
                ExecFile *f = record->file_items + i;
                RecordFile fh;

                if (left < sizeof(fh))
                        return -EBADMSG;
                memcpy(&fh, p, sizeof(fh));
                p += sizeof(fh);
                left -= sizeof(fh);
                if (fh.reason >= _EXEC_FILE_REASON_MAX || memchr(fh.sha256, 0, sizeof(fh.sha256)) == NULL)
                        return -EBADMSG;
                f->n_bytes = fh.n_bytes;
                f->reason = (ExecFileReason) fh.reason;
                memcpy(f->sha256, fh.sha256, sizeof(f->sha256));
                if (f->reason != EXEC_FILE_COMPLETE)
                        continue;
                if (f->n_bytes > left)
                        return -EBADMSG;
                f->data = p;
                p += f->n_bytes;
                left -= f->n_bytes;
        }
        if (left > 0)
                return -EBADMSG;
        if (h->has_files) {
                record->files = (ExecFiles) { record->file_items, (size_t) h->n_files, h->n_more_files,
                                              h->all_files_bytes, (unsigned) h->file_gaps };
                record->result.files = &record->files;
        }
        return 0;
}

static char* view_stream(Capture *c, const RecordStream *s, char *p) {
        *c = (Capture) {
                .max_bytes = (size_t) (s->n_head + s->n_ring),
                .n_total = s->n_total,
                .head = p,
                .n_head = (size_t) s->n_head,
                .ring = p + s->n_head,
                .n_ring = (size_t) s->n_ring,
        };
        return p + s->n_head + s->n_ring;
}

static int map_sealed(int fd, void **ret, size_t *ret_bytes) {
        struct stat st;
        int seals;
        void *map;

        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED) /* else it could change while we read it */
                return -EBADMSG;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size < (off_t) sizeof(RecordHeader))
                return -EBADMSG;
        map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        *ret = map;
        *ret_bytes = (size_t) st.st_size;
        return 0;
}

int run_record_open(int take_fd, RunRecord **ret) {
        _cleanup_(run_record_freep) RunRecord *record = NULL;
        const RecordHeader *h;
        char *p;
        int r;

        assert(take_fd >= 0);
        assert(ret);

        record = malloc(sizeof(*record));
        if (!record)
                return -ENOMEM;
        *record = (RunRecord) { .fd = -EBADF };
        r = map_sealed(take_fd, &record->map, &record->n_bytes);
        if (r < 0)
                return r;
        h = record->map;
        if (!header_is_valid(h, record->n_bytes))
                return -EBADMSG;
        record->file_items = calloc((size_t) h->n_files + 1, sizeof(ExecFile));
        if (!record->file_items)
                return -ENOMEM;
        r = read_text(record, h);
        if (r < 0)
                return r;

        p = (char*) record->map + sizeof(*h) + h->text_bytes;
        p = view_stream(&record->out, &h->streams[0], p);
        p = view_stream(&record->err, &h->streams[1], p);
        r = read_files(record, h, p);
        if (r < 0)
                return r;
        record->created_usec = h->created_usec;
        record->ended_usec = h->ended_usec;
        record->expires_usec = h->expires_usec;
        memcpy(record->result.run_id, h->run_id, sizeof(record->result.run_id));
        record->result.did_run = h->did_run;
        record->result.presentation = h->presentation;
        record->result.status = (ExecStatus) h->status;
        record->result.exit_code = h->exit_code;
        record->result.signal = h->signal;
        record->result.queued_usec = h->queued_usec;
        record->result.duration_usec = h->duration_usec;
        record->result.cpu_usec = h->cpu_usec;
        record->result.memory_peak_bytes = h->memory_peak_bytes;
        record->result.out = &record->out;
        record->result.err = &record->err;

        record->fd = take_fd;
        *ret = TAKE_PTR(record);
        return 0;
}

RunRecord* run_record_free(RunRecord *r) {
        if (!r)
                return NULL;
        free(r->result.hints);
        free(r->file_items);
        if (r->map)
                (void) munmap(r->map, r->n_bytes);
        (void) safe_close(r->fd);
        free(r);
        return NULL;
}
