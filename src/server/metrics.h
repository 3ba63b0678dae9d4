/* SPDX-License-Identifier: MIT */
#pragma once

/* Metrics: counters of finished runs, as OpenMetrics text. No name, principal or anything else that a client
 * chooses is in it, so its size is bounded and it tells nobody's business. */

#include "base/buffer.h"
#include "exec/exec.h"

typedef struct Metrics Metrics;

/* What is true now and not counted. */
typedef struct MetricsGauges {
        size_t n_running, n_queued, n_warm, n_connections, n_sessions, n_kept;
        uint64_t kept_bytes;
        bool is_sandbox_ok;
} MetricsGauges;

int metrics_new(Metrics **ret);
Metrics* metrics_free(Metrics *m);
DEFINE_CLEANUP(Metrics*, metrics_free);

void metrics_count(Metrics *m, const ExecRequest *request, const ExecResult *result);
int metrics_write(const Metrics *m, const MetricsGauges *gauges, Buffer *b);
