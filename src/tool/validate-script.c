/* SPDX-License-Identifier: MIT */

/* validate_script {script, dependencies?}: what execute_python would do with it, without running anything of
 * it. Text as the predecessor's, with a line for each finding. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/strv.h"
#include "exec/size-text.h"
#include "tool/clean.h"
#include "tool/exec.h"
#include "tool/schema.h"
#include "tool/script.h"

#define WORDS_BYTES_MAX 1000 /* of one finding or requirement; they quote what the caller wrote */

typedef struct ValidateCall {
        ToolCall head;
        McpCall *call;
        PythonQuery *query;
} ValidateCall;

/* ---- The report as text ---- */

static const char* severity_to_string(PythonSeverity s) {
        return s == PYTHON_WARNING ? "warning" : "error";
}

static int append_words(const char *words, Buffer *b) {
        return clean_append(words ?: "", strlen(words ?: ""), WORDS_BYTES_MAX, b);
}

/* "line 3, column 5: what is wrong". */
static int append_finding(const PythonFinding *f, Buffer *b) {
        int r = 0;

        if (f->line > 0 && f->column > 0)
                r = buffer_printf(b, "line %" PRIu64 ", column %" PRIu64 ": ", f->line, f->column);
        else if (f->line > 0)
                r = buffer_printf(b, "line %" PRIu64 ": ", f->line);
        return r < 0 ? r : append_words(f->message, b);
}

static int append_findings(const PythonReport *report, PythonSeverity severity, const char *title,
                           Buffer *b) {
        bool is_first = true;
        int r;

        for (size_t i = 0; i < report->n_findings; i++) {
                if (report->findings[i].severity != severity)
                        continue;
                if (is_first) {
                        r = buffer_printf(b, "\n%s", title);
                        if (r < 0)
                                return r;
                }
                is_first = false;
                r = buffer_append_str(b, "\n  - ");
                if (r >= 0)
                        r = append_finding(&report->findings[i], b);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int append_invalid(const PythonReport *report, Buffer *b) {
        size_t n_errors = 0;
        int r;

        r = buffer_append_str(b, "INVALID: ");
        for (size_t i = 0; i < report->n_findings && r >= 0; i++) {
                if (report->findings[i].severity != PYTHON_ERROR)
                        continue;
                if (n_errors++ == 0)
                        r = append_finding(&report->findings[i], b);
        }
        if (r >= 0 && n_errors > 1)
                r = append_findings(report, PYTHON_ERROR, "errors:", b);
        return r;
}

static bool has_set(const PythonReport *report) {
        return strv_length(report->requirements) > 0 || report->has_own_interpreter;
}

static int append_valid(const PythonReport *report, Buffer *b) {
        size_t n = strv_length(report->requirements);
        int r;

        r = buffer_append_str(b, "VALID");
        if (r >= 0 && report->requires_python && *report->requires_python) {
                r = buffer_append_str(b, "\nrequires-python: ");
                if (r >= 0)
                        r = append_words(report->requires_python, b);
        }
        if (r >= 0)
                r = n == 0 ? buffer_append_str(b, "\ndependencies: none") :
                             buffer_printf(b, "\ndependencies (%zu):", n);
        STRV_FOREACH(s, report->requirements) {
                if (r >= 0)
                        r = buffer_append_str(b, "\n  - ");
                if (r >= 0)
                        r = append_words(*s, b);
        }
        if (r >= 0 && *report->interpreter) {
                r = buffer_append_str(b, "\ninterpreter: ");
                if (r >= 0)
                        r = append_words(report->interpreter, b);
                if (r >= 0 && !*report->interpreter_version)
                        r = buffer_append_str(b, " (of its own, not downloaded yet");
                else if (r >= 0)
                        r = buffer_append_str(b, " (Python ");
                if (r >= 0)
                        r = append_words(report->interpreter_version, b);
                if (r >= 0)
                        r = buffer_append_str(b, ")");
        }
        if (r >= 0 && has_set(report))
                r = buffer_append_str(b, *report->environment ?
                                                 "\nenvironment: ready" :
                                                 "\nenvironment: not made yet, the first run makes it");
        return r;
}

static int write_content(const PythonReport *report, Buffer *content) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(content);
        int r;

        r = report->is_valid ? append_valid(report, &text) : append_invalid(report, &text);
        if (r >= 0)
                r = append_findings(report, PYTHON_WARNING, "warnings:", &text);
        if (r < 0)
                return r;
        json_begin_array(&w);
        json_begin_object(&w);
        json_key(&w, "type");
        json_string(&w, "text");
        json_key(&w, "text");
        json_string_n(&w, text.data, text.n_bytes);
        json_end_object(&w);
        json_end_array(&w);
        return json_writer_finish(&w);
}

/* ---- The report as an object ---- */

static void write_words(JsonWriter *w, const char *words) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        int r = append_words(words, &b);

        if (r < 0 && w->error == 0)
                w->error = r;
        json_string_n(w, b.data ?: "", b.n_bytes);
}

static int write_structured(const PythonReport *report, Buffer *b) {
        JsonWriter w = JSON_WRITER_INIT(b);

        json_begin_object(&w);
        json_key(&w, "valid");
        json_boolean(&w, report->is_valid);
        json_key(&w, "requires_python");
        write_words(&w, report->requires_python);
        json_key(&w, "dependencies");
        json_begin_array(&w);
        STRV_FOREACH(s, report->requirements)
                write_words(&w, *s);
        json_end_array(&w);
        json_key(&w, "interpreter");
        write_words(&w, report->interpreter);
        json_key(&w, "interpreter_version");
        write_words(&w, report->interpreter_version);
        json_key(&w, "environment");
        json_string(&w, !has_set(report)     ? "none" :
                        *report->environment ? "ready" :
                                               "missing");
        json_key(&w, "findings");
        json_begin_array(&w);
        for (size_t i = 0; i < report->n_findings; i++) {
                const PythonFinding *f = &report->findings[i];

                json_begin_object(&w);
                json_key(&w, "severity");
                json_string(&w, severity_to_string(f->severity));
                json_key(&w, "kind");
                write_words(&w, f->kind);
                json_key(&w, "line");
                json_unsigned(&w, f->line);
                json_key(&w, "column");
                json_unsigned(&w, f->column);
                json_key(&w, "message");
                write_words(&w, f->message);
                json_end_object(&w);
        }
        json_end_array(&w);
        json_end_object(&w);
        return json_writer_finish(&w);
}

/* ---- The call ---- */

static void on_report(const PythonReport *report, void *userdata) {
        _cleanup_free_ ValidateCall *c = userdata;
        _cleanup_buffer_ Buffer content = BUFFER_INIT(0), structured = BUFFER_INIT(0);

        if (report->error)
                mcp_call_fail(c->call, report->error);
        else if (write_content(report, &content) >= 0 && write_structured(report, &structured) >= 0)
                mcp_call_finish(c->call, content.data, structured.data, /* is_error= */ false);
        else
                mcp_call_fail(c->call, "The server is out of memory. Try again later.");
}

static void cancel(ToolCall *head) {
        _cleanup_free_ ValidateCall *c = (ValidateCall*) head;

        python_query_cancel(c->query);
}

static int call_validate_script(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        const JsonValue *script = NULL, *dependencies = NULL;
        const JsonField fields[] = {
                { "script", JSON_STRING, .is_required = true, .ret = &script },
                { "dependencies", JSON_ARRAY, .accepts_null = true, .ret = &dependencies },
        };
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        _cleanup_strv_ char **list = NULL;
        _cleanup_free_ char *message = NULL;
        _cleanup_free_ ValidateCall *c = NULL;
        PythonScript s = { .python_version = registry->settings->python_version };
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), &message);
        if (r >= 0)
                r = exec_request_new(&q);
        if (r >= 0) /* the same limits, in the same words */
                r = exec_take_program(registry->settings, "script", script, q, &message);
        if (r >= 0)
                r = script_take_dependencies(dependencies, &list, &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;

        c = malloc(sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = (ValidateCall) { .head.cancel = cancel, .call = call };
        s.text = q->code;
        s.text_bytes = q->code_bytes;
        s.dependencies = list;
        r = python_validate(registry->python, &s, mcp_call_principal(call), on_report, c, &c->query);
        if (r < 0)
                return r;
        mcp_call_set_data(call, &TAKE_PTR(c)->head);
        return 0;
}

/* ---- What clients are told ---- */

static void write_output_schema(JsonWriter *w) {
        static const char strings[] = "\"items\":{\"type\":\"string\"}",
                          findings[] =
                                  "\"items\":{\"type\":\"object\",\"properties\":{\"severity\":{\"type\":"
                                  "\"string\",\"enum\":[\"error\",\"warning\"]},\"kind\":{\"type\":"
                                  "\"string\"},\"line\":{\"type\":\"integer\"},\"column\":{\"type\":"
                                  "\"integer\"},\"message\":{\"type\":\"string\"}}}",
                          environment[] = "\"enum\":[\"none\",\"ready\",\"missing\"]";
        const SchemaProperty properties[] = {
                { "valid", "boolean", "Whether execute_python would start it", true, NULL },
                { "requires_python", "string", "What it says of the Python version; empty: nothing", true,
                  NULL },
                { "dependencies", "array", "What it needs, from its block and from the list", true,
                  strings },
                { "interpreter", "string", "The interpreter that would run it; empty: none would", true,
                  NULL },
                { "interpreter_version", "string", "Its version", true, NULL },
                { "environment", "string",
                  "Whether its packages are there: ready, or missing until the first run; none: it needs "
                  "none", true,
                  environment },
                { "findings", "array",
                  "What is wrong, each with line and column from 1 (0: nowhere in particular)", true,
                  findings },
        };

        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ false);
}

static int write_validate_script(const ToolRegistry *registry, McpVersion version, JsonWriter *w) {
        static const char
                title[] = "Check a Python script",
                description[] = "Checks a Python script without running it: its syntax, its PEP 723 block "
                                "(# /// script), every requirement (also those in dependencies), "
                                "requires-python, and whether this server's policy admits them. Tells what "
                                "is wrong, with line and column, which interpreter would run it, "
                                "whether its packages are installed already, and what keeps them from "
                                "being installed here. Whether they exist is found out by "
                                "execute_python.";
        static const ToolHints hints = { .is_read_only = true, .is_idempotent = true };
        char script[120];
        const SchemaProperty properties[] = {
                { "script", "string", script, .is_required = true },
                SCRIPT_DEPENDENCIES_PROPERTY("Packages beside those of the script's own block."),
        };

        (void) snprintf(script, sizeof(script), "The Python script. At most %s.",
                        size_text_bytes(registry->settings->max_code_bytes).text);
        exec_tool_write_head(w, version, tool_validate_script.name, title, description,
                             strlen(description));
        schema_write(w, properties, ELEMENTSOF(properties), /* is_closed= */ true);
        if (version >= MCP_2025_06_18) {
                json_key(w, "outputSchema");
                write_output_schema(w);
        }
        exec_tool_write_annotations(w, version, title, &hints);
        json_end_object(w);
        return 0;
}

const Tool tool_validate_script = {
        .name = "validate_script",
        .write = write_validate_script,
        .call = call_validate_script,
};
