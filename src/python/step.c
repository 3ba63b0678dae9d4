/* SPDX-License-Identifier: MIT */

#include "python/step.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strv.h"
#include "python/internal.h"

#define PROGRAM_BYTES_MAX (512 * KIB)
#define LINE_BYTES_MAX 1024
#define STEP_PRINCIPAL "packages"

struct Step {
        StepParameters parameters;
        ExecJob *job; /* NULL: over */
        Buffer answer;
        bool is_too_long;
        char line[LINE_BYTES_MAX + 1]; /* of stderr, as far as it has come */
        size_t n_line;
        char words[LINE_BYTES_MAX + 1]; /* the last line that was no progress */
};

/* ASCII, and no more than a line of it: the program is ours, but it talks about others' things. */
static void make_printable(char *s) {
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || (unsigned char) *s > 0x7e)
                        *s = '?';
}

static void step_take_line(Step *s) {
        s->line[s->n_line] = 0;
        s->n_line = 0;
        make_printable(s->line);
        if (strncmp(s->line, "@ ", 2) != 0) {
                if (*s->line)
                        memcpy(s->words, s->line, sizeof(s->words));
                return;
        }
        if (strlen(s->line) > STEP_PHASE_CHARS_MAX + 2)
                s->line[STEP_PHASE_CHARS_MAX + 2] = 0;
        if (s->parameters.on_phase)
                s->parameters.on_phase(s->line + 2, s->parameters.userdata);
}

static void step_on_output(ExecJob *j, int stream, const void *data, size_t n_bytes, void *userdata) {
        const char *p = data;
        Step *s = userdata;

        (void) j;
        if (stream == 1) {
                s->is_too_long |= buffer_append(&s->answer, data, n_bytes) < 0;
                return;
        }
        for (size_t i = 0; i < n_bytes; i++)
                if (p[i] == '\n')
                        step_take_line(s);
                else if (s->n_line < LINE_BYTES_MAX)
                        s->line[s->n_line++] = p[i] ?: '?';
}

static void step_tell(Step *s, const StepOutcome *outcome) {
        s->parameters.on_done(outcome, s->parameters.userdata);
}

/* what quotes nobody. */
static void step_fail(Step *s, const char *what) {
        step_tell(s, &(const StepOutcome){ .kind = "", .message = what, .journal = what, .is_infra = true });
}

const char step_journal_policy[] =
        "Its packages are not allowed here by [Packages] of mcp-exec.conf (AllowPackages=, DenyPackages= "
        "and its other settings).";

/* Kinds of "error" that are not about what was asked for. The message that comes with one may quote uv, the
 * index or the script, which the journal must not. */
static const struct {
        const char *kind, *journal;
} infra_kinds[] = {
        { "internal", "The program that prepares packages failed." },
        { "disk-full", "There is no space left for a set of packages." },
        { "no-uv", "The program uv cannot be used." },
        { "index", "The package index cannot be reached, or gives no answer that is understood." },
        { "dns", "The name of the package index cannot be resolved." },
        { "proxy", "The proxy on the way to the package index refuses or does not answer." },
        { "tls", "The certificate of the package index is not trusted (CaBundle=)." },
        { "unauthorized", "The package index demands other credentials (IndexCredentials=)." },
        { "offline", "Nothing is fetched (Offline=yes)." },
        { "timeout", "Preparing packages took longer than it may (PrepareTimeoutSec=)." },
};

/* journal: NULL: what the kind says. */
static void step_fail_kind(Step *s, const char *kind, const char *message, const char *journal) {
        StepOutcome outcome = { .kind = kind, .message = message,
                                .journal = journal ?: streq(kind, "policy") ? step_journal_policy :
                                           "Its packages cannot be had as it names them." };

        for (size_t i = 0; i < ELEMENTSOF(infra_kinds); i++)
                if (streq(kind, infra_kinds[i].kind)) {
                        outcome.is_infra = true;
                        outcome.journal = infra_kinds[i].journal;
                }
        step_tell(s, &outcome);
}

/* Which of the index's hosts it is about is for the administrator, who alone can allow them. */
static char* step_describe_hosts(const JsonValue *answer) {
        _cleanup_buffer_ Buffer hosts = BUFFER_INIT(0);
        char *text = NULL;

        if (answer_read_internal_hosts(answer, &hosts) > 0)
                (void) str_printf(&text,
                                  "Packages would come from %s: this machine, or its network, and not "
                                  "allowed by InternalHosts=.",
                                  hosts.data);
        return text;
}

static void step_read_answer(Step *s) {
        static const char broken[] = "The program that prepares packages gave no answer that could be "
                                     "understood. Administrators: install all parts from one package.";
        _cleanup_json_ JsonValue *v = NULL;
        const char *kind, *message;
        int r = -EBADMSG;

        if (!s->is_too_long && s->answer.n_bytes > 0)
                r = json_parse(s->answer.data, s->answer.n_bytes, &v);
        if (r == 0)
                r = json_type(v) == JSON_OBJECT ? answer_read_error(v, &kind, &message) : -EBADMSG;
        if (r == 0)
                step_tell(s, &(const StepOutcome){ .answer = v });
        else if (r == 1 && v) {
                _cleanup_free_ char *hosts = step_describe_hosts(v);

                step_fail_kind(s, kind, message, hosts);
        } else
                step_fail(s, broken);
}

static void step_on_done(ExecJob *j, const ExecResult *result, void *userdata) {
        _cleanup_free_ char *message = NULL;
        Step *s = userdata;

        (void) j;
        s->job = NULL;
        if (s->n_line > 0)
                step_take_line(s);

        switch (result->status) {
        case EXEC_OK:
                step_read_answer(s);
                return;
        case EXEC_TIMEOUT:
                step_fail(s,
                          "Preparing the packages took longer than it may. Try again later, or name fewer "
                          "packages; administrators: raise PrepareTimeoutSec=.");
                return;
        case EXEC_OOM:
                step_fail(s, "There was not enough memory to prepare the packages. Administrators: raise "
                             "PrepareMemoryMax=.");
                return;
        case EXEC_INFRA_ERROR:
                step_fail(s, result->message ?: "The sandbox for preparing packages could not be started.");
                return;
        case EXEC_RUNNING:
        case EXEC_ERROR:
        case EXEC_SIGNAL:
        case EXEC_OUTPUT_LIMIT:
        case EXEC_CANCELLED:
        case _EXEC_STATUS_MAX:
                break;
        }
        /* Its own words are for whoever reads the answer; the journal gets none of them. */
        log_warning("%s ended with status %s, exit code %d.", s->parameters.program,
                    exec_status_to_string(result->status), result->exit_code);
        (void) str_printf(&message,
                          "The program that prepares packages failed%s%.200s. Administrators: see %s.",
                          *s->words ? ": " : "", s->words,
                          log_place("the journal (journalctl -u mcp-exec)"));
        step_fail_kind(s, "internal", message ?: "The program that prepares packages failed.", NULL);
}

static int step_read_program(const Python *p, const char *name, ExecRequest *q) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = str_printf(&path, "%s/%s", p->programs_directory, name);
        if (r < 0)
                return r;
        r = file_read(AT_FDCWD, path, PROGRAM_BYTES_MAX, &q->code, &q->code_bytes);
        if (r < 0)
                return log_error_errno(r, "Cannot read %s", path);
        return 0;
}

static int step_request(const StepParameters *p, ExecRequest **ret) {
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        const PackageSettings *s = &p->python->settings->packages;
        int r;

        r = exec_request_new(&q);
        if (r < 0)
                return r;
        r = str_copy(&q->tool, p->program);
        if (r < 0)
                return r;
        r = str_copy(&q->principal, STEP_PRINCIPAL);
        if (r < 0)
                return r;
        r = step_read_program(p->python, p->program, q);
        if (r < 0)
                return r;
        q->stdin_data = malloc(p->order_bytes + 1);
        if (!q->stdin_data)
                return -ENOMEM;
        memcpy(q->stdin_data, p->order, p->order_bytes);
        q->stdin_data[p->order_bytes] = 0;
        q->stdin_bytes = p->order_bytes;
        q->profile = p->profile;
        q->timeout_usec = p->timeout_usec;
        q->max_output_bytes = ANSWER_BYTES_MAX;
        if (p->leaf) {
                assert(strlen(p->leaf) < sizeof(q->environment));
                memcpy(q->environment, p->leaf, strlen(p->leaf) + 1);
                q->resources.memory_max_bytes = s->prepare_memory_max_bytes;
                q->resources.tasks_max = settings_prepare_tasks_max(p->python->settings);
        }
        *ret = TAKE_PTR(q);
        return 0;
}

int step_new(const StepParameters *p, Step **ret) {
        static const ExecJobHandlers handlers = { .on_output = step_on_output, .on_done = step_on_done };
        _cleanup_(exec_request_freep) ExecRequest *q = NULL;
        _cleanup_free_ char *message = NULL;
        _cleanup_(step_freep) Step *s = NULL;
        int r;

        assert(p && p->python && p->program && p->order && p->on_done);
        assert(ret);

        s = calloc(1, sizeof(Step));
        if (!s)
                return -ENOMEM;
        s->parameters = *p;
        s->parameters.order = s->parameters.leaf = NULL; /* borrowed */
        s->answer = BUFFER_INIT(ANSWER_BYTES_MAX);

        r = step_request(p, &q);
        if (r < 0)
                return r;
        r = exec_engine_submit(p->python->engine, q, &handlers, s, &s->job, &message);
        if (r != 0)
                return r < 0 ? r : -EBUSY;
        TAKE_PTR(q);
        *ret = TAKE_PTR(s);
        return 0;
}

Step* step_free(Step *s) {
        if (!s)
                return NULL;
        if (s->job)
                exec_job_cancel(s->job);
        buffer_done(&s->answer);
        free(s);
        return NULL;
}
