/* SPDX-License-Identifier: MIT */
#pragma once

/* CodeFrame: the one message that gives a runner its program. The protocol is described in
 * runner/README.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "exec/request.h"

#define CODE_FRAME_HEADER_BYTES 32
#define CODE_FRAME_FILE_BYTES 12 /* before each file: the lengths of its name and of its content */
#define CODE_FRAME_MAGIC "MXCODE2\n"

typedef struct CodeFrame {
        uint8_t header[CODE_FRAME_HEADER_BYTES];
        uint8_t file_header[CODE_FRAME_FILE_BYTES];
        struct iovec parts[3]; /* header, code, stdin; then of each file header, name, content */
        size_t i_part;         /* parts become shorter while they are sent */
        const ExecInputFile *files;
        size_t n_files, i_file;
} CodeFrame;

/* The request is borrowed until the frame is sent. */
void code_frame_init(CodeFrame *f, const ExecRequest *q);

/* Sends as much as fits. Returns 1 when all of it is sent, 0 when the rest must wait, or -errno. */
int code_frame_send(CodeFrame *f, int fd);
