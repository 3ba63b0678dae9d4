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
        free(r);
        return NULL;
}
