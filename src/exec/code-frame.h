/* SPDX-License-Identifier: MIT */
#pragma once

/* CodeFrame: the one message that gives a runner its program. The protocol is described in
 * runner/README.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define CODE_FRAME_HEADER_BYTES 40
#define CODE_FRAME_MAGIC "MXCODE1\n"
#define CODE_FRAME_UNBUFFERED (UINT32_C(1) << 0) /* what was printed survives a kill */

typedef struct CodeFrame {
        uint8_t header[CODE_FRAME_HEADER_BYTES];
        struct iovec parts[3]; /* header, code, stdin; shortened while it is sent */
        size_t i_part;
} CodeFrame;

/* code and stdin_data are borrowed until the frame is sent. */
void code_frame_init(CodeFrame *f, const char *code, size_t code_bytes, const char *stdin_data,
                     size_t stdin_bytes);

/* Sends as much as fits. Returns 1 when all of it is sent, 0 when the rest must wait, or -errno. */
int code_frame_send(CodeFrame *f, int fd);
