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

/* Its packages are not there, so programs that name none get the system's. */
static void default_failed(Python *p, const char *why) {
        (void) str_copy(&p->default_problem, why);
        p->default_failed_usec = now_monotonic_usec();
}

/* ---- A run that waits ---- */

typedef struct Attachment {
        Python *python; /* may be gone but in start() and in the need's handlers */
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
                          "run. %s check_environment tells what can be imported instead; what else a "
                          "program needs, it can declare itself.",
                          why);
        exec_job_prepared(j, 0, "", (char *const[]){ warning, NULL });
}

static void attachment_on_failed(Need *n, ExecStatus status, const char *message, void *userdata) {
        Attachment *a = userdata;

        if (a->is_default) {
                /* It was there and is not any more: what the next are told of it is told at once. */
                if (status != EXEC_INFRA_ERROR)
                        default_failed(a->python, message);
                prepared_without(a->job, message);
        } else
                exec_job_prepare_failed(a->job, status, message, need_journal(n));
}

static int attachment_start(void *data, ExecJob *j) {
        Attachment *a = data;
        const Python *p = a->python;

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

#define DEFAULT_SCRIPT(p)                                               \
        { .text = "", .dependencies = (p)->default_requirements,        \
          .lines = (p)->default_lines, .is_prepared_ahead = true }

/* A line of the file: without comment, and without the blanks around it. Returns 1 when something is left,
 * 0, or -errno. */
static int add_line(char *line, char ***l) {
        size_t n;
        int r;

        line += strspn(line, " \t\r\f\v");
        for (char *s = line; *s; s++)
                if (*s == '#' && (s == line || s[-1] == ' ' || s[-1] == '\t')) {
                        *s = 0;
                        break;
                }
        for (n = strlen(line); n > 0 && strchr(" \t\r\f\v", line[n - 1]);)
                line[--n] = 0;
        if (!*line)
                return 0;
        r = strv_extend(l, line);
        return r < 0 ? r : 1;
}

static bool add_number(unsigned **numbers, size_t n, unsigned number) {
        unsigned *grown = reallocarray(*numbers, n, sizeof(*grown));

        if (!grown)
                return false;
        grown[n - 1] = number;
        *numbers = grown;
        return true;
}

int python_read_requirements(const char *path, char ***ret, unsigned **ret_lines, char **reterr_message) {
        _cleanup_free_ unsigned *lines = NULL;
        _cleanup_free_ char *text = NULL;
        _cleanup_strv_ char **l = NULL;
        unsigned n_line = 0;
        char *next;
        int r;

        assert(path && ret && ret_lines && reterr_message);

        r = file_read(AT_FDCWD, path, REQUIREMENTS_FILE_BYTES_MAX, &text, NULL);
        if (r == -EBADMSG || r == -EFBIG) {
                (void) str_printf(reterr_message, "%s is no text file of requirements.", path);
                return -EBADMSG;
        }
        if (r == -EISDIR || r == -EBADF) {
                (void) str_printf(reterr_message, "%s is %s.", path,
                                  r == -EISDIR ? "a directory, and no file" : "no regular file");
                return -EBADMSG;
        }
        if (r < 0)
                return r;
        for (char *line = text; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                n_line++;
                r = add_line(line, &l);
                if (r < 0)
                        return r;
                if (r > 0 && !add_number(&lines, strv_length(l), n_line))
                        return -ENOMEM;
        }
        if (strv_length(l) > REQUIREMENTS_MAX) {
                (void) str_printf(reterr_message, "%s has more than %d requirements.", path,
                                  REQUIREMENTS_MAX);
                return -EBADMSG;
        }
        *ret = TAKE_PTR(l);
        *ret_lines = TAKE_PTR(lines);
        return 0;
}

static void default_on_done(const PythonOutcome *outcome, void *userdata) {
        Python *p = userdata;

        p->default_query = NULL;
        if (!outcome->error) {
                (void) str_copy(&p->default_problem, NULL);
                memcpy(p->default_set, outcome->environment, strlen(outcome->environment) + 1);
                STRV_FOREACH(w, outcome->warnings)
                        log_warning("DefaultRequirements=: %s", *w);
                return;
        }
        default_failed(p, outcome->error);
        log_warning("The packages of DefaultRequirements= cannot be had: %s", outcome->error);
}

static int default_prepare(Python *p) {
        if (p->default_query)
                return 0;
        return python_prepare(p, &(const PythonScript) DEFAULT_SCRIPT(p), NULL, default_on_done, p,
                              &p->default_query);
}

/* "numpy 2.3.1" for "numpy==2.3.1; …", "numpy" for everything else: what is told of the set before it is
 * made, when its versions are not known. */
static int describe_requirements(char *const *requirements, char ***ret) {
        _cleanup_strv_ char **l = NULL;
        int r;

        STRV_FOREACH(s, requirements) {
                size_t n = strcspn(*s, " \t[<>=!~;@(");
                const char *version = *s + n + strspn(*s + n, " \t");

                if (strncmp(version, "==", 2) == 0)
                        r = strv_extendf(&l, "%.*s %.*s", (int) n, *s, (int) strcspn(version + 2, " \t,;*"),
                                         version + 2);
                else
                        r = strv_extendf(&l, "%.*s", (int) n, *s);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

/* Reads the file and makes its set, now and whenever it is time to try again: who corrects the file need not
 * start anything anew. */
static int default_begin(Python *p, char **reterr_message) {
        _cleanup_strv_ char **l = NULL, **described = NULL;
        _cleanup_free_ unsigned *lines = NULL;
        int r;

        r = python_read_requirements(p->default_path, &l, &lines, reterr_message);
        if (r >= 0)
                r = describe_requirements(l, &described);
        if (r < 0) {
                if (!*reterr_message && r != -ENOMEM)
                        (void) str_printf(reterr_message,
                                          r == -EACCES ? "%s may not be read by this server." :
                                                         "%s cannot be read.",
                                          p->default_path);
                default_failed(p, *reterr_message ?: "The daemon is out of memory.");
                return r;
        }
        strv_free(p->default_requirements);
        strv_free(p->default_described);
        free(p->default_lines);
        p->default_requirements = TAKE_PTR(l);
        p->default_described = TAKE_PTR(described);
        p->default_lines = TAKE_PTR(lines);
        *p->default_set = 0;
        if (p->default_requirements)
                return default_prepare(p);
        (void) str_copy(&p->default_problem, NULL);
        return 0;
}

int python_set_default(Python *p, const char *path, char **reterr_message) {
        int r;

        assert(p && path && reterr_message);

        r = str_copy(&p->default_path, path);
        return r < 0 ? r : default_begin(p, reterr_message);
}

static void default_retry(Python *p) {
        _cleanup_free_ char *message = NULL;

        if (p->default_problem && !p->default_query &&
            now_monotonic_usec() - p->default_failed_usec >= RETRY_USEC)
                (void) default_begin(p, &message);
}

int python_attach_default(Python *p, ExecRequest *request) {
        assert(p && request);

        default_retry(p);
        /* A file that cannot be read leads to a run that waits for nothing, and is told why. */
        if (!p->default_requirements && !p->default_problem)
                return 0;
        return attach(p, request, &(const PythonScript) DEFAULT_SCRIPT(p), /* is_default= */ true);
}

void default_facts(const Python *p, PythonFacts *ret) {
        ret->default_problem = p->default_problem;
        /* A set of nothing, for no requirement is meant for this interpreter, is none. */
        if (p->default_problem || !p->default_requirements || (!*p->default_set && !p->default_query))
                return;
        ret->default_asked = p->default_described;
        for (const SetEntry *e = *p->default_set ? p->index.sets.first : NULL; e; e = e->sets.next)
                if (streq(e->name, p->default_set) && !e->is_retiring) {
                        ret->default_packages = e->facts.set.packages;
                        ret->is_default_ready = true;
                        return;
                }
        ret->default_packages = p->default_described;
}
