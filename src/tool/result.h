/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecResult -> the two forms in which MCP wants it: a JSON object, and the same as text. */

#include "base/buffer.h"
#include "base/settings.h"
#include "exec/exec.h"

/* Desktop clients refuse messages of 1 MB. What stands around the result (id of at most 1 KiB, server's
 * name, framing) has room in the difference. */
#define RESULT_BYTES_MAX 990000

typedef enum ResultPart {
        RESULT_WHOLE, /* of each stream its beginning and its end */
        RESULT_PAGE,  /* the bytes from an offset on, the same one for both streams */
        RESULT_NEWS,  /* what came after the last look; of much only the newest */
} ResultPart;

/* ExecRequest.presentation and ExecResult.presentation: a run is told of in one way, whoever asks for it. */
typedef enum ResultLayout {
        RESULT_JSON, /* the object again */
        RESULT_SECTIONS, /* "--- stdout ---" and so on: the predecessor's execute_python, with our lines
                          * after its own */
} ResultLayout;

typedef struct ResultView {
        ResultPart part;
        uint64_t from[2];   /* by stream; a page has one offset for both */
        bool is_truncated;  /* returned: something is not shown that is or was there */
} ResultView;

/* *content: the array of content blocks; *structured: the object. Together at most RESULT_BYTES_MAX: where
 * the output is too large for that (some characters take 13 bytes in both), less of it is shown, and the
 * content of files (result-files.h) has what then is left. Files are in a whole result only. Returns 0 or
 * -ENOMEM. */
int result_write(const ExecResult *result, const Settings *settings, Buffer *content, Buffer *structured);
int result_write_view(const ExecResult *result, const Settings *settings, ResultView *view, Buffer *content,
                      Buffer *structured);
