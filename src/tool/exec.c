/* SPDX-License-Identifier: MIT */

/* exec {code, timeout_s?, stdin?}: arguments and semantics are the predecessor's. */

#include "tool/exec.h"

#include <errno.h>
#include <inttypes.h>

#include "base/strv.h"
#include "tool/clean.h"
#include "tool/progress.h"
#include "tool/result.h"

/* What a client says about itself goes to the journal. */
#define CLIENT_WORD_BYTES_MAX 128

typedef struct ExecToolCall {
        ToolCall head;
        ToolRegistry *registry;
        McpCall *call;
        ExecJob *job;
        Progress progress;
} ExecToolCall;

typedef struct ExecArguments {
        const JsonValue *code, *timeout_s, *stdin_data;
} ExecArguments;

static ExecToolCall* exec_tool_call_free(ExecToolCall *c) {
        if (!c)
                return NULL;
        progress_done(&c->progress);
        free(c);
        return NULL;
}
DEFINE_CLEANUP(ExecToolCall*, exec_tool_call_free);

/* 0 and absent mean the default; everything else is clamped, as the predecessor does it. */
static uint64_t pick_timeout(const Settings *s, const JsonValue *v) {
        int64_t seconds = 0;

        if (v)
                (void) json_get_integer(v, &seconds);
        if (seconds == 0)
                return s->default_timeout_usec;
        if (seconds < 1)
                seconds = 1;
        if ((uint64_t) seconds > s->max_timeout_usec / USEC_PER_SEC)
                return s->max_timeout_usec;
        return (uint64_t) seconds * USEC_PER_SEC;
}

static bool is_blank(const char *s) {
        return s[strspn(s, " \t\r\n\v\f")] == '\0';
}

static int check_size(const char *name, size_t n_bytes, uint64_t max_bytes, char **reterr_message) {
        int r;

        if (n_bytes <= max_bytes)
                return 0;
        r = str_printf(reterr_message, "%s exceeds limit of %" PRIu64 " bytes (it has %zu)", name, max_bytes,
                       n_bytes);
        return r < 0 ? r : -EBADMSG;
}

/* -EBADMSG: *reterr_message tells the caller what to change. */
static int read_arguments(const Settings *s, const JsonValue *arguments, ExecRequest *q,
                          char **reterr_message) {
        ExecArguments a = {};
        const JsonField fields[] = {
                { "code", JSON_STRING, .is_required = true, .ret = &a.code },
                { "timeout_s", JSON_NUMBER, .accepts_null = true, .ret = &a.timeout_s },
                { "stdin", JSON_STRING, .accepts_null = true, .ret = &a.stdin_data },
        };
        const char *code, *input;
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), reterr_message);
        if (r < 0)
                return r;

        (void) json_get_string(a.code, &code, &q->code_bytes);
        if (is_blank(code)) {
                r = str_copy(reterr_message, "code must not be empty");
                return r < 0 ? r : -EBADMSG;
        }
        r = check_size("code", q->code_bytes, s->max_code_bytes, reterr_message);
        if (r < 0)
                return r;
        r = str_copy(&q->code, code);
        if (r < 0)
                return r;
        if (a.stdin_data) {
                (void) json_get_string(a.stdin_data, &input, &q->stdin_bytes);
                r = check_size("stdin", q->stdin_bytes, s->max_stdin_bytes, reterr_message);
                if (r < 0)
                        return r;
                r = str_copy(&q->stdin_data, input);
                if (r < 0)
                        return r;
        }
        q->timeout_usec = pick_timeout(s, a.timeout_s);
        sha256_hex(q->code, q->code_bytes, q->code_sha256);
        return 0;
}

static int read_caller(const McpCall *call, ExecRequest *q) {
        int r;

        r = str_copy(&q->tool, tool_exec.name);
        if (r < 0)
                return r;
        r = str_copy(&q->principal, mcp_call_principal(call));
        if (r < 0)
                return r;
        r = clean_copy(mcp_call_client_name(call), CLIENT_WORD_BYTES_MAX, &q->client_name);
        if (r < 0)
                return r;
        r = clean_copy(mcp_call_client_version(call), CLIENT_WORD_BYTES_MAX, &q->client_version);
        if (r < 0)
                return r;
        return clean_copy(mcp_call_traceparent(call), CLIENT_WORD_BYTES_MAX, &q->traceparent);
}

static void on_output(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata) {
        ExecToolCall *c = userdata;

        (void) j;
        progress_note_output(&c->progress, stream);
        (void) mcp_call_output(c->call, stream, data,
                               n_bytes); /* a client that is gone is the transport's business */
}

static void on_done(ExecJob *j, const ExecResult *result, void *userdata) {
        _cleanup_(exec_tool_call_freep) ExecToolCall *c = userdata;
        _cleanup_buffer_ Buffer content = BUFFER_INIT(0), structured = BUFFER_INIT(0);

        (void) j;
        if (!result->did_run)
                mcp_call_fail(c->call,
                              result->message ? result->message : "The sandbox could not be started.");
        else if (result_write(result, c->registry->settings, &content, &structured) >= 0)
                mcp_call_finish(c->call, content.data, structured.data, /* is_error= */ false);
        else
                mcp_call_fail(c->call,
                              "The server is out of memory: the program ran, but its result is lost.");
}

static void cancel(ToolCall *head) {
        _cleanup_(exec_tool_call_freep) ExecToolCall *c = (ExecToolCall*) head;

        exec_job_cancel(c->job);
}

/* Takes the request on success only. Returns 0, EXEC_E_BUSY with a message, or -errno. */
static int start(ToolRegistry *registry, McpCall *call, ExecRequest *take_request, char **reterr_message) {
        static const ExecJobHandlers handlers = { .on_output = on_output, .on_done = on_done };
        _cleanup_(exec_tool_call_freep) ExecToolCall *c = NULL;
        int r;

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->head.cancel = cancel;
        c->registry = registry;
        c->call = call;
        r = exec_engine_submit(registry->engine, take_request, &handlers, c, &c->job, reterr_message);
        if (r != 0)
                return r;

        /* Without progress the run is still worth having. */
        (void) progress_init(&c->progress, registry->event, call, c->job);
        mcp_call_set_data(call, &TAKE_PTR(c)->head);
        return 0;
}

static int call_exec(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = exec_request_new(&q);
        if (r < 0)
                return r;
        r = read_arguments(registry->settings, arguments, q, &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        r = read_caller(call, q);
        if (r < 0)
                return r;

        r = start(registry, call, q, &message);
        if (r == EXEC_E_BUSY) {
                mcp_call_fail(call,
                              message ? message : "busy: too many programs are running; try again later");
                return 0;
        }
        if (r < 0)
                return r;
        TAKE_PTR(q);
        return 0;
}

const Tool tool_exec = {
        .name = "exec",
        .write = exec_tool_write,
        .call = call_exec,
};
