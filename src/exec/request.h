/* SPDX-License-Identifier: MIT */
#pragma once

/* ExecRequest: one program as it was asked for, and the words for how it can end. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/macro.h"
#include "wire/wire.h"

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

typedef struct ExecJob ExecJob;

/* What a run waits for before it queues for a slot: somebody else makes its packages. data belongs to the
 * request. After start() exactly one of exec_job_prepared(), exec_job_prepare_failed() and cancel() ends the
 * wait; the first two also from within start(). */
typedef struct ExecPreparationOps {
        int (*start)(void *data, ExecJob *j); /* 0 or -errno, which ends the run */
        void (*cancel)(void *data);           /* nobody waits any more */
        void (*free)(void *data);             /* the run is over and its unit dead; data is in use no more */
} ExecPreparationOps;

typedef struct ExecPreparation {
        const ExecPreparationOps *ops;        /* NULL: waits for nothing */
        void *data;
        uint64_t timeout_usec;
} ExecPreparation;

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
        uint8_t presentation;  /* how the result is shown: a word of the tool's, handed back with it */
        char *principal;       /* who asks, as shown in the journal: "uid:1000", "token:ci", "local" */
        char *client_name, *client_version, *traceparent; /* may be NULL; sanitised by the journal writer */
        char *code;
        size_t code_bytes;
        char *stdin_data;      /* may be NULL */
        size_t stdin_bytes;
        ExecInputFile *files;  /* see exec_request_add_file() */
        size_t n_files;
        uint64_t timeout_usec; /* clamped already */
        uint64_t asked_timeout_sec; /* before that, for the words about it; 0: none was asked for */
        ExecPreparation preparation;
        WireProfile profile;   /* other than RUN: a step of a preparation, which waits in no queue */
        unsigned interpreter;  /* index into HELLO's list */
        char environment[SHA256_HEX_CHARS + 1]; /* a set, or a preparation's leaf; "": none */
        WireLimits resources;  /* in place of the settings', where not 0; runtime_max_usec is ignored */
        uint64_t max_output_bytes;              /* kept of each stream; 0: as the settings say */
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
