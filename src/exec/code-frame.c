/* SPDX-License-Identifier: MIT */

#include "exec/code-frame.h"

#include <endian.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/macro.h"

static void put_uint32(uint8_t *p, uint32_t value) {
        value = htole32(value);
        memcpy(p, &value, sizeof(value));
}

static void put_uint64(uint8_t *p, uint64_t value) {
        value = htole64(value);
        memcpy(p, &value, sizeof(value));
}

void code_frame_init(CodeFrame *f, const ExecRequest *q) {
        assert(f);
        assert(q);
        assert(q->code || q->code_bytes == 0);
        assert(q->stdin_data || q->stdin_bytes == 0);
        assert(q->n_files <= EXEC_INPUT_FILES_MAX);

        *f = (CodeFrame) { .files = q->files, .n_files = q->n_files };

        memcpy(f->header, CODE_FRAME_MAGIC, strlen(CODE_FRAME_MAGIC));
        put_uint64(f->header + 8, q->code_bytes);
        put_uint64(f->header + 16, q->stdin_bytes);
        put_uint64(f->header + 24, q->n_files);

        f->parts[0] = (struct iovec) { f->header, sizeof(f->header) };
        f->parts[1] = (struct iovec) { q->code, q->code_bytes };
        f->parts[2] = (struct iovec) { q->stdin_data, q->stdin_bytes };
}

/* The parts of the next file take the place of those that were sent. Returns false when there is none. */
static bool code_frame_next_file(CodeFrame *f) {
        const ExecInputFile *file;

        if (f->i_file == f->n_files) /* without any, files is NULL */
                return false;
        file = f->files + f->i_file++;
        put_uint32(f->file_header, (uint32_t) strlen(file->name));
        put_uint64(f->file_header + 4, file->n_bytes);
        f->parts[0] = (struct iovec) { f->file_header, sizeof(f->file_header) };
        f->parts[1] = (struct iovec) { file->name, strlen(file->name) };
        f->parts[2] = (struct iovec) { file->data, file->n_bytes };
        f->i_part = 0;
        return true;
}

static void code_frame_advance(CodeFrame *f, size_t n_bytes) {
        while (f->i_part < ELEMENTSOF(f->parts)) {
                struct iovec *part = f->parts + f->i_part;
                size_t n = MIN_OF(n_bytes, part->iov_len);

                if (n > 0) /* an empty part may be a null pointer, which even + 0 may not touch */
                        part->iov_base = (char*) part->iov_base + n;
                part->iov_len -= n;
                n_bytes -= n;
                if (part->iov_len > 0)
                        return;
                f->i_part++;
        }
}

int code_frame_send(CodeFrame *f, int fd) {
        assert(f);
        assert(fd >= 0);

        while (f->i_part < ELEMENTSOF(f->parts) || code_frame_next_file(f)) {
                struct msghdr message = {
                        .msg_iov = f->parts + f->i_part,
                        .msg_iovlen = ELEMENTSOF(f->parts) - f->i_part,
                };
                ssize_t n;

                n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return 0;
                if (n < 0)
                        return -errno;

                code_frame_advance(f, (size_t) n);
        }

        return 1;
}
