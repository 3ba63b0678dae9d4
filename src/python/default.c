/* SPDX-License-Identifier: MIT */

/* The administrator's set: exec's environment where a program names none. And how runs wait for theirs. */

#include <fcntl.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/timeutil.h"
#include "exec/preparation.h"
#include "python/internal.h"
#include "python/need.h"

#define REQUIREMENTS_FILE_BYTES_MAX (256 * KIB)
#define RETRY_USEC (300 * USEC_PER_SEC) /* what failed a moment ago fails again, and costs time */
/* Waiting for other preparations, and the ends of units. */
#define BUDGET_SLACK_USEC (30 * USEC_PER_SEC)

/* ---- A run that waits ---- */

typedef struct Attachment {
        Python *python; /* until start() only */
        Need *need;
        ExecJob *job;
        bool is_default;
} Attachment;

static void attachment_on_phase(Need *n, const char *phase, void *userdata) {
        Attachment *a = userdata;

        (void) n;
        exec_job_set_phase(a->job, phase);
}

static void attachment_on_ready(Need *n, unsigned interpreter, const char *environment,
                                char *const *warnings, void *userdata) {
        Attachment *a = userdata;

        (void) n;
        exec_job_prepared(a->job, interpreter, environment, a->is_default ? NULL : warnings);
}

static void prepared_without(ExecJob *j, const char *why) {
        _cleanup_free_ char *warning = NULL;

        (void) str_printf(&warning,
                          "The packages that this server offers to all programs were missing in this "
                          "run. %s",
                          why);
        exec_job_prepared(j, 0, "", (char *const[]){ warning, NULL });
}

static void attachment_on_failed(Need *n, ExecStatus status, const char *message, void *userdata) {
        Attachment *a = userdata;

        if (a->is_default)
                prepared_without(a->job, message);
        else
                exec_job_prepare_failed(a->job, status, message, need_journal(n));
}

static int attachment_start(void *data, ExecJob *j) {
        Attachment *a = data;
        const Python *p = TAKE_PTR(a->python);

        a->job = j;
        if (a->is_default && p->default_problem && !p->default_query)
                prepared_without(j, p->default_problem);
        else
                need_start(a->need);
        return 0;
}

static void attachment_cancel(void *data) {
        Attachment *a = data;

        need_stop(a->need);
}

static void attachment_free(void *data) {
        Attachment *a = data;

        need_free(a->need);
        free(a);
}

static int attach(Python *p, ExecRequest *request, const PythonScript *script, bool is_default) {
        static const NeedHandlers handlers = { attachment_on_phase, attachment_on_ready,
                                               attachment_on_failed };
        static const ExecPreparationOps ops = { attachment_start, attachment_cancel, attachment_free };
        Attachment *a;
        int r;

        assert(!request->preparation.ops);

        a = calloc(1, sizeof(Attachment));
        if (!a)
                return -ENOMEM;
        a->python = p;
        a->is_default = is_default;
        r = need_new(p, script, request->principal ?: "", &handlers, a, &a->need);
        if (r < 0) {
                free(a);
                return r;
        }
        request->preparation = (ExecPreparation){
                .ops = &ops,
                .data = a,
                .timeout_usec = p->settings->packages.prepare_timeout_usec + BUDGET_SLACK_USEC,
        };
        return 0;
}

int python_attach(Python *p, ExecRequest *request, const PythonScript *script) {
        assert(p && request && script);
        return attach(p, request, script, /* is_default= */ false);
}

/* ---- The default ---- */

/* A line of the file: without comment, and without the blanks around it. */
static int add_line(char *line, char ***l) {
        size_t n;

        line += strspn(line, " \t\r\f\v");
        for (char *s = line; *s; s++)
                if (*s == '#' && (s == line || s[-1] == ' ' || s[-1] == '\t'))
                        *s-- = 0;
        for (n = strlen(line); n > 0 && strchr(" \t\r\f\v", line[n - 1]);)
                line[--n] = 0;
        return *line ? strv_extend(l, line) : 0;
}

int python_read_requirements(const char *path, char ***ret, char **reterr_message) {
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_ char **l = NULL;
        char *next;
        int r;

        assert(path && ret && reterr_message);

        r = file_read(AT_FDCWD, path, REQUIREMENTS_FILE_BYTES_MAX, &text, NULL);
        if (r == -EBADMSG || r == -EFBIG) {
                (void) str_printf(reterr_message, "%s is no text file of requirements.", path);
                return -EBADMSG;
        }
        if (r < 0)
                return r;
        for (char *line = text; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                r = add_line(line, &l);
                if (r < 0)
                        return r;
        }
        if (strv_length(l) > REQUIREMENTS_MAX) {
                (void) str_printf(reterr_message, "%s has more than %d requirements.", path,
                                  REQUIREMENTS_MAX);
                return -EBADMSG;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static void default_on_done(const PythonOutcome *outcome, void *userdata) {
        Python *p = userdata;

        p->default_query = NULL;
        (void) str_copy(&p->default_problem, outcome->error);
        if (!outcome->error) {
                memcpy(p->default_set, outcome->environment, strlen(outcome->environment) + 1);
                STRV_FOREACH(w, outcome->warnings)
                        log_warning("DefaultRequirements=: %s", *w);
                return;
        }
        p->default_failed_usec = now_monotonic_usec();
        log_warning("The packages of DefaultRequirements= cannot be had: %s", outcome->error);
}

static int default_prepare(Python *p) {
        if (p->default_query)
                return 0;
        return python_prepare(p,
                              &(const PythonScript){ .text = "", .dependencies = p->default_requirements },
                              NULL, default_on_done, p, &p->default_query);
}

int python_set_default(Python *p, const char *path, char **reterr_message) {
        _cleanup_strv_ char **l = NULL;
        int r;

        assert(p && path && reterr_message);

        r = python_read_requirements(path, &l, reterr_message);
        if (r < 0) {
                (void) str_copy(&p->default_problem, *reterr_message ?: "The file cannot be read.");
                return r;
        }
        strv_free(p->default_requirements);
        p->default_requirements = TAKE_PTR(l);
        *p->default_set = 0;
        return p->default_requirements ? default_prepare(p) : 0;
}

int python_attach_default(Python *p, ExecRequest *request) {
        assert(p && request);

        if (!p->default_requirements)
                return 0;
        if (p->default_problem && !p->default_query &&
            now_monotonic_usec() - p->default_failed_usec >= RETRY_USEC)
                (void) default_prepare(p);
        return attach(p, request,
                      &(const PythonScript){ .text = "", .dependencies = p->default_requirements },
                      /* is_default= */ true);
}
