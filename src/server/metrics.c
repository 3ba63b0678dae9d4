/* SPDX-License-Identifier: MIT */

#include "server/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "config.h"

/* Upper bounds; the last bucket has none. As labels they have the one form of OpenMetrics for numbers. */
static const struct {
        unsigned msec;
        const char *seconds;
} bounds[] = {
        { 10,     "0.01"  },
        { 25,     "0.025" },
        { 50,     "0.05"  },
        { 100,    "0.1"   },
        { 250,    "0.25"  },
        { 500,    "0.5"   },
        { 1000,   "1.0"   },
        { 2500,   "2.5"   },
        { 5000,   "5.0"   },
        { 10000,  "10.0"  },
        { 30000,  "30.0"  },
        { 60000,  "60.0"  },
        { 300000, "300.0" },
};

typedef struct Histogram {
        uint64_t n[ELEMENTSOF(bounds) + 1], n_all, sum_usec;
} Histogram;

struct Metrics {
        uint64_t n_by_status[_EXEC_STATUS_MAX];
        Histogram duration, queued;
        uint64_t cpu_usec, code_bytes, stdin_bytes, stdout_bytes, stderr_bytes;
};

int metrics_new(Metrics **ret) {
        assert(ret);

        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

Metrics* metrics_free(Metrics *m) {
        free(m);
        return NULL;
}

static void histogram_count(Histogram *h, uint64_t usec) {
        size_t i = 0;

        while (i < ELEMENTSOF(bounds) && usec > bounds[i].msec * USEC_PER_MSEC)
                i++;
        h->n[i]++;
        h->n_all++;
        h->sum_usec += usec;
}

void metrics_count(Metrics *m, const ExecRequest *request, const ExecResult *result) {
        assert(m);
        assert(request);
        assert(result);

        m->n_by_status[result->status]++;
        m->code_bytes += request->code_bytes;
        m->stdin_bytes += request->stdin_bytes;
        histogram_count(&m->queued, result->queued_usec);
        if (!result->did_run)
                return;
        histogram_count(&m->duration, result->duration_usec);
        if (result->cpu_usec != WIRE_UNKNOWN)
                m->cpu_usec += result->cpu_usec;
        m->stdout_bytes += result->out ? result->out->n_total : 0;
        m->stderr_bytes += result->err ? result->err->n_total : 0;
}

/* The first failure sticks. */
typedef struct Page {
        Buffer *b;
        int error;
} Page;

_printf_(2, 3) static void page_add(Page *p, const char *format, ...) {
        va_list ap;

        if (p->error < 0)
                return;
        va_start(ap, format);
        p->error = buffer_vprintf(p->b, format, ap);
        va_end(ap);
}

static void page_head(Page *p, const char *name, const char *type, const char *unit, const char *help) {
        page_add(p, "# TYPE %s %s\n", name, type);
        if (unit)
                page_add(p, "# UNIT %s %s\n", name, unit);
        page_add(p, "# HELP %s %s\n", name, help);
}

#define SECONDS_FORMAT "%" PRIu64 ".%06" PRIu64
#define SECONDS(usec) (usec) / USEC_PER_SEC, (usec) % USEC_PER_SEC

static void page_histogram(Page *p, const char *name, const char *help, const Histogram *h) {
        uint64_t n = 0;

        page_head(p, name, "histogram", "seconds", help);
        for (size_t i = 0; i < ELEMENTSOF(bounds); i++) {
                n += h->n[i];
                page_add(p, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, bounds[i].seconds, n);
        }
        page_add(p, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->n_all);
        page_add(p, "%s_sum " SECONDS_FORMAT "\n", name, SECONDS(h->sum_usec));
        page_add(p, "%s_count %" PRIu64 "\n", name, h->n_all);
}

static void page_gauge(Page *p, const char *name, const char *unit, const char *help, uint64_t value) {
        page_head(p, name, "gauge", unit, help);
        page_add(p, "%s %" PRIu64 "\n", name, value);
}

int metrics_write(const Metrics *m, const MetricsGauges *gauges, Buffer *b) {
        Page p = { .b = b };

        assert(m);
        assert(gauges);
        assert(b);

        page_head(&p, "mcp_exec_build", "info", NULL, "The version of the server.");
        page_add(&p, "mcp_exec_build_info{version=\"%s\"} 1\n", MCP_EXEC_VERSION);

        page_head(&p, "mcp_exec_runs", "counter", NULL, "Finished programs by how they ended.");
        for (int s = EXEC_OK; s < _EXEC_STATUS_MAX; s++)
                page_add(&p, "mcp_exec_runs_total{status=\"%s\"} %" PRIu64 "\n", exec_status_to_string(s),
                         m->n_by_status[s]);
        page_histogram(&p, "mcp_exec_run_duration_seconds", "How long programs ran.", &m->duration);
        page_histogram(&p, "mcp_exec_queue_duration_seconds", "How long calls waited for a free place.",
                       &m->queued);

        page_head(&p, "mcp_exec_cpu_seconds", "counter", "seconds", "CPU time of programs.");
        page_add(&p, "mcp_exec_cpu_seconds_total " SECONDS_FORMAT "\n", SECONDS(m->cpu_usec));
        page_head(&p, "mcp_exec_input_bytes", "counter", "bytes", "What programs were given.");
        page_add(&p, "mcp_exec_input_bytes_total{kind=\"code\"} %" PRIu64 "\n", m->code_bytes);
        page_add(&p, "mcp_exec_input_bytes_total{kind=\"stdin\"} %" PRIu64 "\n", m->stdin_bytes);
        page_head(&p, "mcp_exec_output_bytes", "counter", "bytes", "What programs wrote, kept or not.");
        page_add(&p, "mcp_exec_output_bytes_total{stream=\"stdout\"} %" PRIu64 "\n", m->stdout_bytes);
        page_add(&p, "mcp_exec_output_bytes_total{stream=\"stderr\"} %" PRIu64 "\n", m->stderr_bytes);

        page_gauge(&p, "mcp_exec_running", NULL, "Programs that run.", gauges->n_running);
        page_gauge(&p, "mcp_exec_queued", NULL, "Calls that wait for a free place.", gauges->n_queued);
        page_gauge(&p, "mcp_exec_results", NULL, "Results that can still be asked for.", gauges->n_kept);
        page_gauge(&p, "mcp_exec_results_bytes", "bytes", "Memory that these results take.",
                   gauges->kept_bytes);
        page_gauge(&p, "mcp_exec_pool", NULL, "Sandboxes that are kept ready.", gauges->n_warm);
        page_gauge(&p, "mcp_exec_connections", NULL, "Clients' connections.", gauges->n_connections);
        page_gauge(&p, "mcp_exec_sessions", NULL, "Sessions of HTTP clients that are remembered.",
                   gauges->n_sessions);
        page_gauge(&p, "mcp_exec_sandbox_ok", NULL,
                   "1: the sandbox was verified; 0: refused, or not known yet.", gauges->is_sandbox_ok);
        page_add(&p, "# EOF\n");
        return p.error;
}
