/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecRequest: one program as it was asked for, and the words for how it can end. */

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/macro.h"

typedef enum ExecStatus {
        EXEC_RUNNING,
        EXEC_OK,
        EXEC_ERROR,
        EXEC_SIGNAL,
        EXEC_TIMEOUT,
        EXEC_OOM,
        EXEC_OUTPUT_LIMIT,
        EXEC_CANCELLED,
        EXEC_INFRA_ERROR,
        _EXEC_STATUS_MAX,
} ExecStatus;

const char* exec_status_to_string(ExecStatus s);

/* Small ones: all of them are sent to a sandbox whose /tmp is limited, and held until the run is over. */
#define EXEC_INPUT_FILES_MAX 64
#define EXEC_INPUT_BYTES_MAX (64 * MIB)
#define EXEC_INPUT_NAME_BYTES_MAX 255

/* A file for the program's working directory. */
typedef struct ExecInputFile {
        char *name;
        char *data;
        size_t n_bytes;
} ExecInputFile;

/* All strings and buffers are owned by the request. Immutable after submission. */
typedef struct ExecRequest {
        char *tool;            /* "exec" */
        char *principal;       /* who asks, as shown in the journal: "uid:1000", "token:ci", "local" */
        char *client_name, *client_version, *traceparent; /* may be NULL; sanitised by the journal writer */
        char *code;
        size_t code_bytes;
        char *stdin_data;      /* may be NULL */
        size_t stdin_bytes;
        ExecInputFile *files;  /* see exec_request_add_file() */
        size_t n_files;
        uint64_t timeout_usec; /* clamped already */
        char code_sha256[SHA256_HEX_CHARS + 1];
        PrincipalLimits limits; /* of this principal, as admission found them; set by the engine */
} ExecRequest;

int exec_request_new(ExecRequest **ret);
ExecRequest* exec_request_free(ExecRequest *r);
DEFINE_CLEANUP(ExecRequest*, exec_request_free);

/* Before submission: a file (copied) that the program finds in its working directory. Returns 0, -ENOMEM,
 * -EINVAL for a name that is none (a path, "." or "..", too long, main.py), -EEXIST, or -E2BIG beyond the
 * limits above. */
int exec_request_add_file(ExecRequest *r, const char *name, const void *data, size_t n_bytes);
