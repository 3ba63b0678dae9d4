/* SPDX-License-Identifier: MIT */
#pragma once

/* CodeFrame: the one message that gives a runner its program, and what a runner says on the same socket.
 * The protocol is described in runner/README.md; these are the daemon's ends of it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define CODE_FRAME_HEADER_BYTES 40
#define CODE_FRAME_MAGIC "MXCODE1\n"
#define CODE_FRAME_UNBUFFERED (UINT32_C(1) << 0) /* what was printed survives a kill */

#define RUNNER_WORD_BYTES 8
#define RUNNER_WORD_READY "MXREADY\n"
#define RUNNER_WORD_FAILED "MXFAILED"      /* then a u32: number of the check */
#define RUNNER_WORD_STATUS "MXSTAT\0\0"    /* then a u16: exit code, or RUNNER_STATUS_SIGNAL + signal */
#define RUNNER_STATUS_SIGNAL 0x100

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
