/* SPDX-License-Identifier: MIT */

#include "exec/request.h"

#include <errno.h>
#include <stdbool.h>

#include "base/strv.h"

static const char *const exec_status_table[_EXEC_STATUS_MAX] = {
        [EXEC_RUNNING] = "running",
        [EXEC_OK] = "ok",
        [EXEC_ERROR] = "error",
        [EXEC_SIGNAL] = "signal",
        [EXEC_TIMEOUT] = "timeout",
        [EXEC_OOM] = "oom",
        [EXEC_OUTPUT_LIMIT] = "output_limit",
        [EXEC_CANCELLED] = "cancelled",
        [EXEC_INFRA_ERROR] = "infra_error",
};

const char* exec_status_to_string(ExecStatus s) {
        assert(s < _EXEC_STATUS_MAX);
        return exec_status_table[s];
}

int exec_request_new(ExecRequest **ret) {
        ExecRequest *r;

        assert(ret);

        r = calloc(1, sizeof(ExecRequest));
        if (!r)
                return -ENOMEM;

        *ret = r;
        return 0;
}

ExecRequest* exec_request_free(ExecRequest *r) {
        if (!r)
                return NULL;

        if (r->preparation.ops && r->preparation.data)
                r->preparation.ops->free(r->preparation.data);
        free(r->tool);
        free(r->principal);
        free(r->client_name);
        free(r->client_version);
        free(r->traceparent);
        free(r->code);
        free(r->stdin_data);
        for (size_t i = 0; i < r->n_files; i++) {
                free(r->files[i].name);
                free(r->files[i].data);
        }
        free(r->files);
        free(r);
        return NULL;
}

/* The runner checks the same: a name that is a path would write elsewhere in the sandbox. */
static bool is_file_name(const char *name) {
        size_t n = strlen(name);

        return n > 0 && n <= EXEC_INPUT_NAME_BYTES_MAX && !strchr(name, '/') && !streq(name, ".") &&
                !streq(name, "..") && !streq(name, "main.py");
}

int exec_request_add_file(ExecRequest *r, const char *name, const void *data, size_t n_bytes) {
        _cleanup_free_ char *name_copy = NULL, *data_copy = NULL;
        uint64_t n_total = n_bytes;
        ExecInputFile *files;
        int error;

        assert(r);
        assert(name);
        assert(data || n_bytes == 0);

        if (!is_file_name(name))
                return -EINVAL;
        for (size_t i = 0; i < r->n_files; i++) {
                if (streq(r->files[i].name, name))
                        return -EEXIST;
                n_total += r->files[i].n_bytes;
        }
        if (n_bytes > EXEC_INPUT_BYTES_MAX || n_total > EXEC_INPUT_BYTES_MAX ||
            r->n_files >= EXEC_INPUT_FILES_MAX)
                return -E2BIG;

        error = str_copy(&name_copy, name);
        if (error < 0)
                return error;
        data_copy = malloc(n_bytes + 1);
        if (!data_copy)
                return -ENOMEM;
        if (n_bytes > 0)
                memcpy(data_copy, data, n_bytes);
        files = reallocarray(r->files, r->n_files + 1, sizeof(*files));
        if (!files)
                return -ENOMEM;
        r->files = files;
        r->files[r->n_files++] = (ExecInputFile) { TAKE_PTR(name_copy), TAKE_PTR(data_copy), n_bytes };
        return 0;
}
