/* SPDX-License-Identifier: MIT */

#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/run-record.h"
#include "test.h"

static void fill(Capture *c, size_t budget, const char *text) {
        capture_init(c, budget);
        ASSERT_EQ_INT(capture_push(c, text, strlen(text)), 0);
}

#define DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static RunRecord* record_new_with_files(size_t max_stream_bytes, size_t max_files_bytes) {
        static const ExecFile items[] = {
                { "a", 3, "a\0b", DIGEST, EXEC_FILE_COMPLETE },
                { "b/c", 4, "four", DIGEST, EXEC_FILE_COMPLETE },
                { .path = "link", .reason = EXEC_FILE_LINK },
                { "x", 0, "", DIGEST, EXEC_FILE_COMPLETE },
        };
        static const ExecFiles files = { items, ELEMENTSOF(items), 8, 9, EXEC_FILES_GAP_TIME };
        char *hints[] = { (char*) "try this", (char*) "or that", NULL };
        Capture out, err;
        ExecResult result = {
                .run_id = "0123456789abcdef0123456789abcdef", .status = EXEC_SIGNAL, .exit_code = 139,
                .signal = 11, .queued_usec = 1, .duration_usec = 2, .cpu_usec = 3, .memory_peak_bytes = 4,
                .out = &out, .err = &err, .files = max_files_bytes > 0 ? &files : NULL,
                .message = (char*) "It crashed.", .hints = hints, .did_run = true,
                .presentation = 3,
        };
        RunRecord *r = NULL;

        fill(&out, 16, "abcdefghijklmnopqrstuvwxyz");
        fill(&err, 100, "short");
        ASSERT_EQ_INT(run_record_new(&(const RunRecordParameters) { .principal = "uid:1",
                                                                    .created_usec = 5,
                                                                    .ended_usec = 6,
                                                                    .expires_usec = 7,
                                                                    .result = &result,
                                                                    .max_stream_bytes = max_stream_bytes,
                                                                    .max_files_bytes = max_files_bytes },
                                     &r),
                      0);
        capture_done(&out);
        capture_done(&err);
        return r;
}

static RunRecord* record_new(size_t max_stream_bytes) {
        return record_new_with_files(max_stream_bytes, 0);
}

static void check(const RunRecord *r, const char *head, const char *ring) {
        const ExecResult *e = &r->result;

        ASSERT_EQ_STR(r->principal, "uid:1");
        ASSERT_EQ_UINT(r->created_usec, 5);
        ASSERT_EQ_UINT(r->ended_usec, 6);
        ASSERT_EQ_UINT(r->expires_usec, 7);
        ASSERT_EQ_STR(e->run_id, "0123456789abcdef0123456789abcdef");
        ASSERT_EQ_INT(e->status, EXEC_SIGNAL);
        ASSERT_EQ_INT(e->exit_code, 139);
        ASSERT_EQ_INT(e->signal, 11);
        ASSERT_EQ_UINT(e->queued_usec, 1);
        ASSERT_EQ_UINT(e->duration_usec, 2);
        ASSERT_EQ_UINT(e->cpu_usec, 3);
        ASSERT_EQ_UINT(e->memory_peak_bytes, 4);
        ASSERT_TRUE(e->did_run);
        ASSERT_EQ_UINT(e->presentation, 3);
        ASSERT_EQ_STR(e->message, "It crashed.");
        ASSERT_EQ_STR(e->hints[0], "try this");
        ASSERT_EQ_STR(e->hints[1], "or that");
        ASSERT_TRUE(e->hints[2] == NULL);
        ASSERT_EQ_UINT(e->out->n_total, 26);
        ASSERT_EQ_UINT(e->out->n_head, strlen(head));
        ASSERT_TRUE(memcmp(e->out->head, head, strlen(head)) == 0);
        ASSERT_EQ_UINT(e->out->n_ring, strlen(ring));
        ASSERT_TRUE(memcmp(e->out->ring, ring, strlen(ring)) == 0);
}

TEST(what_was_written_is_read_in_another_process) {
        RunRecord *r = record_new(1000), *again = NULL;
        int fd = dup(r->fd);

        ASSERT_TRUE(fd >= 0);
        check(r, "abcdefgh", "stuvwxyz");
        run_record_free(r);
        ASSERT_EQ_INT(run_record_open(fd, &again), 0);
        check(again, "abcdefgh", "stuvwxyz");
        ASSERT_EQ_UINT(again->err.n_total, 5);
        ASSERT_TRUE(memcmp(again->err.head, "short", 5) == 0);
        run_record_free(again);
}

TEST(streams_that_are_too_long_keep_beginning_and_end) {
        RunRecord *r = record_new(6);

        check(r, "abc", "xyz");
        ASSERT_EQ_UINT(capture_omitted(&r->out), 20);
        run_record_free(r);
}

static void check_file(const RunRecord *r, size_t i, const char *path, uint64_t n_bytes, const char *data,
                       ExecFileReason reason) {
        const ExecFile *f = r->result.files->items + i;

        ASSERT_EQ_STR(f->path, path);
        ASSERT_EQ_UINT(f->n_bytes, n_bytes);
        ASSERT_EQ_INT(f->reason, reason);
        ASSERT_EQ_STR(f->sha256, reason == EXEC_FILE_LINK ? "" : DIGEST);
        if (data)
                ASSERT_EQ_MEM(f->data, f->n_bytes, data, n_bytes);
        else
                ASSERT_TRUE(!f->data);
}

TEST(files_are_kept) {
        RunRecord *r = record_new_with_files(1000, 100);
        const ExecFiles *f = r->result.files;

        check(r, "abcdefgh", "stuvwxyz");
        ASSERT_TRUE(f != NULL);
        ASSERT_EQ_UINT(f->n_items, 4);
        ASSERT_EQ_UINT(f->n_more, 8);
        ASSERT_EQ_UINT(f->n_bytes, 9);
        ASSERT_EQ_UINT(f->gaps, EXEC_FILES_GAP_TIME);
        check_file(r, 0, "a", 3, "a\0b", EXEC_FILE_COMPLETE);
        check_file(r, 1, "b/c", 4, "four", EXEC_FILE_COMPLETE);
        check_file(r, 2, "link", 0, NULL, EXEC_FILE_LINK);
        check_file(r, 3, "x", 0, "", EXEC_FILE_COMPLETE);
        run_record_free(r);
}

TEST(files_beyond_the_budget_lose_their_content) {
        RunRecord *r = record_new_with_files(1000, 6);

        check_file(r, 0, "a", 3, "a\0b", EXEC_FILE_COMPLETE);
        check_file(r, 1, "b/c", 4, NULL, EXEC_FILE_NOT_KEPT);
        check_file(r, 3, "x", 0, "", EXEC_FILE_COMPLETE);
        run_record_free(r);
}

TEST(a_result_without_files_has_none) {
        RunRecord *r = record_new(1000);

        ASSERT_TRUE(!r->result.files);
        run_record_free(r);
}

TEST(what_could_still_change_is_refused) {
        RunRecord *r = record_new(1000), *again = NULL;
        int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ_INT(fd_write_all(fd, r->map, r->n_bytes), 0);
        ASSERT_EQ_INT(run_record_open(fd, &again), -EBADMSG);
        ASSERT_EQ_INT(run_record_open(STDIN_FILENO, &again), -EBADMSG);
        (void) close(fd);
        run_record_free(r);
}

/* Touches everything that a reader would. */
static uint64_t sum(const RunRecord *r) {
        const Capture *streams[] = { r->result.out, r->result.err };
        uint64_t n = strlen(r->principal) + (r->result.message ? strlen(r->result.message) : 0);

        for (size_t i = 0; r->result.hints && r->result.hints[i]; i++)
                n += strlen(r->result.hints[i]);
        for (size_t i = 0; i < 2; i++) {
                for (size_t k = 0; k < streams[i]->n_head; k++)
                        n += (unsigned char) streams[i]->head[k];
                for (size_t k = 0; k < streams[i]->n_ring; k++)
                        n += (unsigned char) streams[i]->ring[k];
        }
        for (size_t i = 0; r->result.files && i < r->result.files->n_items; i++) {
                const ExecFile *f = r->result.files->items + i;

                n += strlen(f->path) + strlen(f->sha256);
                for (size_t k = 0; f->data && k < f->n_bytes; k++)
                        n += (unsigned char) f->data[k];
        }
        return n;
}

TEST(any_damage_is_refused_or_harmless) {
        RunRecord *r = record_new_with_files(1000, 100);
        unsigned n_refused = 0;
        char *copy = malloc(r->n_bytes);

        ASSERT_TRUE(copy != NULL);
        for (size_t n = 0; n < r->n_bytes; n++)
                for (int value = 0; value < 256; value += value == 1 ? 126 : value == 127 ? 128 : 1) {
                        RunRecord *damaged = NULL;
                        int fd, error;

                        memcpy(copy, r->map, r->n_bytes);
                        copy[n] = (char) value;
                        fd = memfd_new_sealed("damaged", copy, r->n_bytes - (value == 127));
                        ASSERT_TRUE(fd >= 0);
                        error = run_record_open(fd, &damaged);
                        if (error < 0) {
                                ASSERT_EQ_INT(error, -EBADMSG);
                                n_refused++;
                                (void) close(fd);
                                continue;
                        }
                        ASSERT_TRUE(sum(damaged) > 0);
                        run_record_free(damaged);
                }
        ASSERT_TRUE(n_refused > 300);
        free(copy);
        run_record_free(r);
}
