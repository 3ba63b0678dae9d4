/* SPDX-License-Identifier: MIT */

/* exec {code, timeout_s?, stdin?, files?, background?}: arguments and semantics are the predecessor's, but
 * for the last two. */

#include "tool/exec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/strv.h"
#include "exec/size-text.h"
#include "tool/clean.h"
#include "tool/input-files.h"
#include "tool/run-call.h"
#include "tool/task.h"

/* What a client says about itself goes to the journal. */
#define CLIENT_WORD_BYTES_MAX 128

typedef struct ExecArguments {
        const JsonValue *code, *timeout_s, *stdin_data, *files, *background;
} ExecArguments;

/* 0 and absent mean the default; everything else is clamped, as the predecessor does it. */
uint64_t exec_pick_timeout(const Settings *s, const JsonValue *v) {
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

static int check_size(const char *name, size_t n_bytes, uint64_t max_bytes, const char *setting,
                      char **reterr_message) {
        int r;

        if (n_bytes <= max_bytes)
                return 0;
        r = str_printf(reterr_message, "%s exceeds limit of %" PRIu64 " bytes (it has %zu; the server's "
                                       "setting is %s=)", name, max_bytes, n_bytes, setting);
        return r < 0 ? r : -EBADMSG;
}

int exec_take_program(const Settings *s, const char *name, const JsonValue *v, ExecRequest *q,
                      char **reterr_message) {
        const char *program;
        int r;

        (void) json_get_string(v, &program, &q->code_bytes);
        if (is_blank(program)) {
                r = str_printf(reterr_message, "%s must not be empty", name);
                return r < 0 ? r : -EBADMSG;
        }
        r = check_size(name, q->code_bytes, s->max_code_bytes, "MaxCodeBytes", reterr_message);
        if (r < 0)
                return r;
        r = str_copy(&q->code, program);
        if (r < 0)
                return r;
        sha256_hex(q->code, q->code_bytes, q->code_sha256);
        return 0;
}

/* Those who look for packages here are told where they are named. Returns -EBADMSG or -ENOMEM. */
static int complain_of_arguments(char **message) {
        static const char *const names[] = { "dependencies", "packages", "requirements" };
        char *text = NULL;
        int r;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char beginning[64];

                (void) snprintf(beginning, sizeof(beginning), "unknown argument \"%s\"", names[i]);
                if (strncmp(*message, beginning, strlen(beginning)) != 0)
                        continue;
                r = str_printf(&text, "%s. Packages are named in a PEP 723 block at the top of the code "
                                      "(\"# /// script\"), or in \"dependencies\" of the tool "
                                      "execute_python.", *message);
                if (r < 0)
                        return r;
                free(*message);
                *message = text;
                break;
        }
        return -EBADMSG;
}

/* -EBADMSG: *reterr_message tells the caller what to change. */
static int read_arguments(const Settings *s, const JsonValue *arguments, ExecRequest *q,
                          ExecCallParameters *ret, char **reterr_message) {
        ExecArguments a = {};
        const JsonField fields[] = {
                { "code", JSON_STRING, .is_required = true, .ret = &a.code },
                { "timeout_s", JSON_NUMBER, .accepts_null = true, .ret = &a.timeout_s },
                { "stdin", JSON_STRING, .accepts_null = true, .ret = &a.stdin_data },
                { "files", JSON_ARRAY, .accepts_null = true, .ret = &a.files },
                { "background", JSON_BOOL, .accepts_null = true, .ret = &a.background },
        };
        const char *input;
        int r;

        r = json_read_object(arguments, NULL, fields, ELEMENTSOF(fields), reterr_message);
        if (r == -EBADMSG)
                r = complain_of_arguments(reterr_message);
        if (r < 0)
                return r;

        r = exec_take_program(s, "code", a.code, q, reterr_message);
        if (r < 0)
                return r;
        if (a.stdin_data) {
                (void) json_get_string(a.stdin_data, &input, &q->stdin_bytes);
                r = check_size("stdin", q->stdin_bytes, s->max_stdin_bytes, "MaxStdinBytes",
                               reterr_message);
                if (r < 0)
                        return r;
                r = str_copy(&q->stdin_data, input);
                if (r < 0)
                        return r;
        }
        r = input_files_take(s, a.files, q, reterr_message);
        if (r < 0)
                return r;
        (void) json_get_bool(a.background, &ret->is_background);
        q->timeout_usec = exec_pick_timeout(s, a.timeout_s);
        ret->timeout = a.timeout_s;
        return 0;
}

static int read_caller(const McpCall *call, const char *tool, ExecRequest *q) {
        int r;

        r = str_copy(&q->tool, tool);
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

/* How long the call may stay without an answer. */
static uint64_t pick_wait(const ToolRegistry *registry, const McpCall *call, bool is_background) {
        uint64_t sync_limit_usec = registry->settings->sync_limit_usec;

        if (mcp_call_wants_output(call)) /* it reads the output from this call to its end */
                return RUN_CALL_FOR_EVER;
        if (is_background)
                return 0;
        if (mcp_call_takes_task(call))
                return TASK_AFTER_USEC;
        /* Progress keeps a client waiting; without it most give up, which would end the program. */
        if (mcp_call_wants_progress(call) || sync_limit_usec == 0)
                return RUN_CALL_FOR_EVER;
        return sync_limit_usec;
}

/* Packages, or an interpreter, that the program may want. Most programs want none and pay nothing. */
static int want_packages(ToolRegistry *registry, ExecRequest *q, const ExecCallParameters *p) {
        PythonScript script = {
                .text = q->code,
                .text_bytes = q->code_bytes,
                .dependencies = p->dependencies,
                .lines = p->lines,
                .is_prepared_ahead = p->is_prepared_ahead,
                .python_version = registry->settings->python_version,
        };

        if (strv_length(p->dependencies) == 0 && !script.python_version &&
            !python_has_block(q->code, q->code_bytes))
                return python_attach_default(registry->python, q);
        return python_attach(registry->python, q, &script);
}

static uint64_t asked_seconds(const JsonValue *asked) {
        int64_t seconds = 0;

        if (asked)
                (void) json_get_integer(asked, &seconds);
        return seconds > 0 ? (uint64_t) seconds : 0;
}

/* Nobody's program should end early without a word. Models are told in the result. */
static void tell_shorter_timeout(const ToolRegistry *registry, McpCall *call, const Run *run) {
        uint64_t limit_usec = run_timeout_usec(run), seconds = run_asked_timeout_sec(run);
        _cleanup_free_ char *message = NULL;

        if (seconds <= limit_usec / USEC_PER_SEC ||
            str_printf(&message,
                       "The time limit is %s, the most that is allowed here%s, and not %" PRIu64 " s.",
                       size_text_usec(limit_usec).text,
                       limit_usec == registry->settings->max_timeout_usec ? " (MaxTimeoutSec=)" : "",
                       seconds) < 0)
                return;
        (void) mcp_call_note(call, message); /* a client that is gone is the transport's business */
}

/* Takes the request and answers in every case but -errno. */
static int run_request(ToolRegistry *registry, McpCall *call, const char *tool, ExecRequest *take_request,
                       const ExecCallParameters *p) {
        _cleanup_free_ char *message = NULL;
        RunCallParameters run_call = {
                .registry = registry,
                .call = call,
                .is_beginner = true,
                .wait_usec = pick_wait(registry, call, p->is_background),
        };
        int r;

        r = read_caller(call, tool, take_request);
        if (r < 0)
                return r;
        take_request->asked_timeout_sec = asked_seconds(p->timeout);
        r = want_packages(registry, take_request, p);
        if (r < 0)
                return r;
        r = run_table_submit(registry->runs, take_request, &run_call.run, &message);
        if (r == EXEC_E_STOPPING && message) {
                (void) exec_request_free(take_request);
                mcp_call_fail_stopping(call, message);
                return 0;
        }
        if (r > 0) {
                (void) exec_request_free(take_request);
                mcp_call_fail(call,
                              message ? message : "busy: too many programs are running; try again later");
                return 0;
        }
        if (r < 0)
                return r;
        tell_shorter_timeout(registry, call, run_call.run);
        r = run_call_new(&run_call);
        if (r < 0) { /* the request is the run's by now, so the answer is ours to give */
                run_abandon(run_call.run);
                mcp_call_fail(call, "The server is out of memory. Try again later.");
        }
        return 0;
}

static void parameters_done(ExecCallParameters *p) {
        (void) strv_free(p->dependencies);
        free(p->lines);
}

int exec_call(ToolRegistry *registry, const char *tool, ExecReadArguments read,
              const JsonValue *arguments, McpCall *call) {
        _cleanup_(parameters_done) ExecCallParameters p = {};
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = exec_request_new(&q);
        if (r < 0)
                return r;
        r = read(registry->settings, arguments, q, &p, &message);
        if (r == -EBADMSG) {
                mcp_call_fail(call, message);
                return 0;
        }
        if (r < 0)
                return r;
        r = run_request(registry, call, tool, q, &p);
        if (r < 0)
                return r;
        TAKE_PTR(q);
        return 0;
}

static int call_exec(ToolRegistry *registry, const JsonValue *arguments, McpCall *call) {
        return exec_call(registry, tool_exec.name, read_arguments, arguments, call);
}

const Tool tool_exec = {
        .name = "exec",
        .write = exec_tool_write,
        .call = call_exec,
};
