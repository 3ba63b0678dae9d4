/* SPDX-License-Identifier: MIT */

/* The journal's record of a run.
 *
 * Clients choose their names and trace ids, so these are cleaned before they are logged: a name with a
 * newline must not be able to forge a line of text, and an escape sequence must not reach the
 * administrator's terminal. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "server/audit.h"

#define CLIENT_TEXT_BYTES_MAX 128
#define REASON_BYTES_MAX 1000
#define TRACEPARENT_CHARS 55 /* 00-<32>-<16>-<2> */

/* The fields of one record; the first failed allocation sticks. */
typedef struct Record {
        char **fields;
        int error;
} Record;

static void record_add(Record *r, const char *format, ...) _printf_(2, 3);

static void record_add(Record *r, const char *format, ...) {
        _cleanup_free_ char *field = NULL;
        va_list ap;
        int n;

        if (r->error < 0)
                return;
        va_start(ap, format);
        n = vasprintf(&field, format, ap);
        va_end(ap);
        if (n < 0) {
                field = NULL;
                r->error = -ENOMEM;
                return;
        }
        r->error = strv_extend(&r->fields, field);
}

/* Printable UTF-8 of at most n_max bytes; anything else becomes '?'. Returns "" for NULL. */
static const char* clean_n(const char *s, char *ret, size_t n_max) {
        size_t n = 0, left = s ? strlen(s) : 0;

        while (left > 0) {
                size_t k = utf8_sequence(s, left);
                bool is_plain = k > 0 && utf8_is_plain(s, k);
                size_t step = k > 0 ? k : 1, n_out = is_plain ? k : 1;

                if (n + n_out > n_max)
                        break;
                if (is_plain)
                        memcpy(ret + n, s, k);
                else
                        ret[n] = '?';
                n += n_out;
                s += step;
                left -= step;
        }
        ret[n] = 0;
        return ret;
}

static const char* clean(const char *s, char ret[static CLIENT_TEXT_BYTES_MAX + 1]) {
        return clean_n(s, ret, CLIENT_TEXT_BYTES_MAX);
}

/* Our own sentence about our own failure, or about packages. Others may quote what a program printed, ours
 * too. NULL: none. */
static const char* reason_of(const ExecResult *result) {
        static const char prefix[] = "This is not the program's fault. ";
        const char *s = result->is_unprepared                ? result->journal :
                        result->status == EXEC_INFRA_ERROR ? result->message :
                                                               NULL;

        return s && strncmp(s, prefix, strlen(prefix)) == 0 ? s + strlen(prefix) : s;
}

/* W3C trace context, version 00: two, 32, 16 and two hex digits between dashes. */
static bool traceparent_is_valid(const char *s) {
        if (!s || strlen(s) != TRACEPARENT_CHARS)
                return false;
        for (size_t i = 0; i < TRACEPARENT_CHARS; i++) {
                bool is_dash = i == 2 || i == 35 || i == 52;

                if (is_dash ? s[i] != '-' : !strchr("0123456789abcdef", s[i]))
                        return false;
        }
        return true;
}

static void add_message(Record *record, const ExecRequest *request, const ExecResult *result) {
        char name[CLIENT_TEXT_BYTES_MAX + 1], version[CLIENT_TEXT_BYTES_MAX + 1];
        char outcome[64] = "", cpu[64] = "", reason[REASON_BYTES_MAX + 1];

        if (!result->did_run)
                (void) snprintf(outcome, sizeof(outcome), ", never ran");
        else if (result->signal > 0)
                (void) snprintf(outcome, sizeof(outcome), ", signal %d", result->signal);
        else if (result->exit_code >= 0)
                (void) snprintf(outcome, sizeof(outcome), ", exit %d", result->exit_code);
        if (result->cpu_usec != WIRE_UNKNOWN)
                (void) snprintf(cpu, sizeof(cpu), ", %" PRIu64 " ms CPU", result->cpu_usec / USEC_PER_MSEC);

        clean(request->client_name, name);
        clean(request->client_version, version);
        clean_n(reason_of(result), reason, REASON_BYTES_MAX);
        record_add(record, "MESSAGE=Run %s of %s for %s (%s%s%s): %s%s, %" PRIu64 " ms%s%s%s",
                   result->run_id, request->tool, request->principal, *name ? name : "unknown client",
                   *version ? " " : "", version, exec_status_to_string(result->status), outcome,
                   result->duration_usec / USEC_PER_MSEC, cpu, *reason ? ": " : "", reason);
}

static void add_request(Record *record, const ExecRequest *request) {
        char text[CLIENT_TEXT_BYTES_MAX + 1];

        record_add(record, "MCP_EXEC_TOOL=%s", request->tool);
        record_add(record, "MCP_EXEC_PRINCIPAL=%s", request->principal);
        if (request->client_name)
                record_add(record, "MCP_EXEC_CLIENT=%s", clean(request->client_name, text));
        if (request->client_version)
                record_add(record, "MCP_EXEC_CLIENT_VERSION=%s", clean(request->client_version, text));
        if (traceparent_is_valid(request->traceparent))
                record_add(record, "MCP_EXEC_TRACEPARENT=%s", request->traceparent);
        record_add(record, "MCP_EXEC_CODE_SHA256=%s", request->code_sha256);
        record_add(record, "MCP_EXEC_CODE_BYTES=%zu", request->code_bytes);
        record_add(record, "MCP_EXEC_STDIN_BYTES=%zu", request->stdin_bytes);
}

static void add_result(Record *record, const ExecResult *result) {
        char reason[REASON_BYTES_MAX + 1];

        record_add(record, "MCP_EXEC_RUN_ID=%s", result->run_id);
        record_add(record, "MCP_EXEC_STATUS=%s", exec_status_to_string(result->status));
        record_add(record, "MCP_EXEC_EXIT_CODE=%d", result->exit_code);
        if (result->signal > 0)
                record_add(record, "MCP_EXEC_SIGNAL=%d", result->signal);
        if (result->preparation_usec > 0)
                record_add(record, "MCP_EXEC_PREPARATION_USEC=%" PRIu64, result->preparation_usec);
        record_add(record, "MCP_EXEC_QUEUED_USEC=%" PRIu64, result->queued_usec);
        record_add(record, "MCP_EXEC_DURATION_USEC=%" PRIu64, result->duration_usec);
        if (result->cpu_usec != WIRE_UNKNOWN)
                record_add(record, "MCP_EXEC_CPU_USEC=%" PRIu64, result->cpu_usec);
        if (result->memory_peak_bytes != WIRE_UNKNOWN)
                record_add(record, "MCP_EXEC_MEMORY_PEAK=%" PRIu64, result->memory_peak_bytes);
        record_add(record, "MCP_EXEC_STDOUT_BYTES=%" PRIu64, result->out ? result->out->n_total : 0);
        record_add(record, "MCP_EXEC_STDERR_BYTES=%" PRIu64, result->err ? result->err->n_total : 0);
        if (result->files) {
                record_add(record, "MCP_EXEC_FILES=%" PRIu64,
                           result->files->n_items + result->files->n_more);
                record_add(record, "MCP_EXEC_FILES_BYTES=%" PRIu64, result->files->n_bytes);
        }
        clean_n(reason_of(result), reason, REASON_BYTES_MAX);
        if (*reason)
                record_add(record, "MCP_EXEC_REASON=%s", reason);
        if (*result->unit)
                record_add(record, "MCP_EXEC_UNIT=%s", result->unit);
}

void audit_run_finished(const ExecRequest *request, const ExecResult *result) {
        Record record = {};
        int r;

        assert(request);
        assert(result);

        add_message(&record, request, result);
        record_add(&record, "MESSAGE_ID=" AUDIT_MESSAGE_ID_RUN_FINISHED);
        add_request(&record, request);
        add_result(&record, result);

        r = record.error;
        if (r >= 0)
                r = log_struct(result->status == EXEC_INFRA_ERROR ? LOG_ERR : LOG_INFO,
                               (const char *const*) record.fields, strv_length(record.fields));
        (void) strv_free(record.fields);
        if (r < 0)
                log_error_errno(r, "Cannot write the journal's record of run %s", result->run_id);
}

bool audit_has_journal(void) {
        const char *e = getenv("JOURNAL_STREAM");
        char expected[64];
        struct stat st;

        /* The variable is inherited by programs whose stderr is not the journal any more: compare. */
        if (!e || fstat(STDERR_FILENO, &st) < 0)
                return false;
        (void) snprintf(expected, sizeof(expected), "%ju:%ju", (uintmax_t) st.st_dev, (uintmax_t) st.st_ino);
        return streq(e, expected);
}
