/* SPDX-License-Identifier: MIT */

/* Query: what tools and commands ask for that is no run. */

#include "base/parse.h"
#include "base/utf8.h"
#include "python/internal.h"
#include "python/need.h"
#include "python/parse.h"
#include "python/versions.h"

#define QUERIES_MAX 64
#define QUERIES_OF_ONE_MAX 8
#define SCRIPT_BYTES_MAX (4 * MIB)

struct PythonQuery {
        Python *python;
        bool is_new, is_asking;

        /* A validation. */
        char *text, *principal, *python_version;
        size_t text_bytes;
        char **dependencies;
        ParseClient parse;
        Parsed *parsed; /* known at once, told later */
        const char *problem; /* the same, when it cannot be known */
        char *why; /* of a problem */
        void (*on_report)(const PythonReport *report, void *userdata);

        /* A question for versions; a validation may have it, too. */
        bool waits_for_versions, has_asked;
        void (*on_known)(void *userdata);

        /* A preparation. */
        Need *need;
        void (*on_phase)(const char *phase, void *userdata);
        void (*on_done)(const PythonOutcome *outcome, void *userdata);

        /* A removal. */
        char set[SHA256_HEX_CHARS + 1];
        void (*on_removed)(int error, void *userdata);

        void *userdata;
        LIST_LINK(PythonQuery) queries;
};

static PythonQuery* query_free(PythonQuery *q) {
        if (!q)
                return NULL;
        LIST_REMOVE(&q->python->queries, queries, q);
        parse_leave(&q->parse);
        need_free(q->need);
        parsed_unref(q->parsed);
        strv_free(q->dependencies);
        free(q->text);
        free(q->why);
        free(q->principal);
        free(q->python_version);
        free(q);
        return NULL;
}
DEFINE_CLEANUP(PythonQuery*, query_free);

void python_query_cancel(PythonQuery *q) {
        Python *p;

        assert(q);

        p = q->python;
        python_update_soon(p);
        query_free(q);
        for (q = p->queries.first; q && !q->waits_for_versions;)
                q = q->queries.next;
        if (!q)
                versions_leave(p);
}

static int query_new(Python *p, void *userdata, PythonQuery **ret) {
        PythonQuery *q;

        q = calloc(1, sizeof(PythonQuery));
        if (!q)
                return -ENOMEM;
        q->python = p;
        q->userdata = userdata;
        q->is_new = true;
        LIST_APPEND(&p->queries, queries, q);
        python_update_soon(p);
        *ret = q;
        return 0;
}

/* ---- Validation ---- */

/* q is gone afterwards. */
static void query_report(PythonQuery *q, const PythonReport *report) {
        q->on_report(report, q->userdata);
        python_update_soon(q->python);
        query_free(q);
}

static void query_report_problem(PythonQuery *q, const char *why) {
        query_report(q, &(const PythonReport){
                                .error = why,
                                .requires_python = "",
                                .interpreter = "",
                                .interpreter_version = "",
                                .environment = "",
                        });
}

/* Whether uv works is asked before a validation is told, unless it is known or was asked a moment ago. */
static bool query_waits_for_uv(PythonQuery *q, Parsed *parsed) {
        if (q->has_asked)
                return false;
        q->has_asked = true;
        q->waits_for_versions = versions_ask(q->python);
        if (q->waits_for_versions && !q->parsed)
                q->parsed = parsed_ref(parsed);
        return q->waits_for_versions;
}

static void query_report_parsed(PythonQuery *q, Parsed *parsed) {
        const WireHello *hello = python_hello(q->python);
        bool has_interpreter = hello && parsed->interpreter >= 0, needs_set;
        _cleanup_free_ PythonFinding *findings = NULL;
        const char *version = parsed->interpreter_version, *why = NULL;
        char key[SHA256_HEX_CHARS + 1];
        const SetEntry *e = NULL;
        size_t n_findings = parsed->n_findings;

        needs_set = has_interpreter && (strv_length(parsed->requirements) > 0 || parsed->needs_python);
        if (needs_set && need_key(q->python, parsed, hello, key) >= 0)
                e = need_find_set(q->python, key);
        if (needs_set && !e)
                why = need_find_problem(q->python, hello);
        /* A run that needs one asks uv itself; here nobody would. */
        if (needs_set && !e && !why) {
                if (query_waits_for_uv(q, parsed))
                        return;
                why = versions_find_problem(q->python, hello);
        }
        if (why && parse_add_problem(parsed, why, &findings, &n_findings) < 0) {
                query_report_problem(q, "The daemon is out of memory. Try again later.");
                return;
        }
        /* A set that brings its interpreter along: which version that is shows when it is there. */
        if (parsed->needs_python)
                version = e ? e->facts.set.interpreter_version : "";
        query_report(q,
                     &(const PythonReport){
                             .is_valid = parsed->is_valid && !why,
                             .findings = findings ?: parsed->findings,
                             .n_findings = n_findings,
                             .requirements = parsed->requirements,
                             .requires_python = parsed->requires_python,
                             .interpreter = !has_interpreter      ? "" :
                                            parsed->needs_python ? WIRE_SET_PATH "/bin/python3" :
                                                                   hello->interpreters[parsed->interpreter],
                             .interpreter_version = version,
                             .has_own_interpreter = has_interpreter && parsed->needs_python,
                             .environment = e ? e->name : "",
                     });
}

static void query_on_parsed(ParseClient *c, Parsed *parsed, const char *message) {
        PythonQuery *q = (PythonQuery *) ((char *) c - offsetof(PythonQuery, parse));

        if (parsed)
                query_report_parsed(q, parsed);
        else
                query_report_problem(q, message);
}

static void query_parse(PythonQuery *q) {
        int r;

        q->parse = (ParseClient){ .on_parsed = query_on_parsed };
        r = parse_submit(q->python,
                         &(const ParseInput){
                                 .text = q->text,
                                 .text_bytes = q->text_bytes,
                                 .dependencies = q->dependencies,
                                 .python_version = q->python_version,
                                 .principal = q->principal,
                                 .wants_syntax = true,
                         },
                         &q->parse, &q->parsed);
        if (r < 0)
                q->problem = r == -EMSGSIZE ? "The script is too large to be checked." :
                                              "The daemon is out of memory. Try again later.";
}

static size_t n_queries_of(const Python *p, const char *principal, size_t *ret_all) {
        size_t n = 0;

        *ret_all = 0;
        for (const PythonQuery *q = p->queries.first; q; q = q->queries.next)
                if (q->principal) {
                        n += streq(q->principal, principal);
                        (*ret_all)++;
                }
        return n;
}

int python_validate(Python *p, const PythonScript *script, const char *principal,
                    void (*on_report)(const PythonReport *report, void *userdata), void *userdata,
                    PythonQuery **ret) {
        _cleanup_(query_freep) PythonQuery *q = NULL;
        size_t n_own, n_all;
        int r;

        assert(p && script && principal && on_report);

        n_own = n_queries_of(p, principal, &n_all);
        r = query_new(p, userdata, &q);
        if (r < 0)
                return r;
        q->on_report = on_report;
        if (n_own >= QUERIES_OF_ONE_MAX || n_all >= QUERIES_MAX)
                q->problem = "The service is busy with other scripts. Try again in some seconds.";
        else if (script->text_bytes > SCRIPT_BYTES_MAX)
                q->problem = "The script is too large to be checked.";
        else if (!utf8_is_valid(script->text, script->text_bytes))
                q->problem = "The script is not valid UTF-8.";
        r = str_copy(&q->principal, principal);
        if (r >= 0)
                r = str_copy(&q->python_version, script->python_version);
        if (r < 0)
                return r;
        if (!q->problem) {
                q->text = malloc(script->text_bytes + 1);
                if (!q->text)
                        return -ENOMEM;
                memcpy(q->text, script->text, script->text_bytes);
                q->text[script->text_bytes] = 0;
                q->text_bytes = script->text_bytes;
        }
        STRV_FOREACH(s, script->dependencies) {
                r = strv_extend(&q->dependencies, *s);
                if (r < 0)
                        return r;
        }
        if (ret)
                *ret = q;
        TAKE_PTR(q);
        return 0;
}

/* ---- Versions ---- */

/* q is gone afterwards. */
static void query_end_versions(PythonQuery *q) {
        q->on_known(q->userdata);
        python_update_soon(q->python);
        query_free(q);
}

void query_tell_versions(Python *p) {
        PythonQuery *q;

        do {
                for (q = p->queries.first; q && !q->waits_for_versions;)
                        q = q->queries.next;
                if (!q)
                        break;
                q->waits_for_versions = false;
                if (q->on_known)
                        query_end_versions(q);
                else
                        query_report_parsed(q, q->parsed);
        } while (q);
}

int python_ask_versions(Python *p, const char *principal, void (*on_known)(void *userdata), void *userdata,
                        PythonQuery **ret) {
        _cleanup_(query_freep) PythonQuery *q = NULL;
        size_t n_own, n_all;
        int r;

        assert(p && principal && on_known && ret);

        n_own = n_queries_of(p, principal, &n_all);
        r = query_new(p, userdata, &q);
        if (r < 0)
                return r;
        q->on_known = on_known;
        if (n_own >= QUERIES_OF_ONE_MAX || n_all >= QUERIES_MAX)
                q->problem = "busy"; /* what is known will do */
        r = str_copy(&q->principal, principal);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);
        return 0;
}

/* ---- Preparation ---- */

static void query_on_phase(Need *n, const char *phase, void *userdata) {
        PythonQuery *q = userdata;

        (void) n;
        if (q->on_phase)
                q->on_phase(phase, q->userdata);
}

/* q is gone afterwards. */
static void query_end(PythonQuery *q, const PythonOutcome *outcome) {
        q->on_done(outcome, q->userdata);
        python_update_soon(q->python);
        query_free(q);
}

static void query_on_ready(Need *n, unsigned interpreter, const char *environment, char *const *warnings,
                           void *userdata) {
        (void) n;
        (void) interpreter;
        query_end(userdata, &(const PythonOutcome){ .environment = environment, .warnings = warnings });
}

static void query_on_failed(Need *n, ExecStatus status, const char *message, void *userdata) {
        (void) n;
        (void) status;
        query_end(userdata, &(const PythonOutcome){ .error = message, .environment = "" });
}

int python_prepare(Python *p, const PythonScript *script,
                   void (*on_phase)(const char *phase, void *userdata),
                   void (*on_done)(const PythonOutcome *outcome, void *userdata), void *userdata,
                   PythonQuery **ret) {
        static const NeedHandlers handlers = { query_on_phase, query_on_ready, query_on_failed };
        _cleanup_(query_freep) PythonQuery *q = NULL;
        int r;

        assert(p && script && on_done);

        r = query_new(p, userdata, &q);
        if (r < 0)
                return r;
        q->on_phase = on_phase;
        q->on_done = on_done;
        r = need_new(p, script, "", &handlers, q, &q->need);
        if (r < 0)
                return r;
        if (ret)
                *ret = q;
        TAKE_PTR(q);
        return 0;
}

/* ---- Removal ---- */

/* q is gone afterwards. */
static void query_removed(PythonQuery *q, int error) {
        q->on_removed(error, q->userdata);
        query_free(q);
}

static void query_on_removed(int error, void *userdata) {
        query_removed(userdata, -error);
}

/* Returns whether q is gone. */
static bool query_remove(PythonQuery *q) {
        Python *p = q->python;
        const SetEntry *e;
        int r;

        e = set_index_look(&p->index, q->set);
        if (!e)
                r = -ENOENT;
        else if (!set_index_may_retire(&p->index, e) || streq(e->name, p->default_set))
                r = -EBUSY;
        else
                r = removal_new(p, q->set, /* is_set= */ true, query_on_removed, q);
        if (r < 0)
                query_removed(q, r);
        return r < 0;
}

int python_remove_set(Python *p, const char *name, void (*on_done)(int error, void *userdata),
                      void *userdata) {
        PythonQuery *q;
        int r;

        assert(p && name && on_done);

        r = query_new(p, userdata, &q);
        if (r < 0)
                return r;
        q->on_removed = on_done;
        if (strlen(name) == SHA256_HEX_CHARS && is_hex(name, SHA256_HEX_CHARS))
                memcpy(q->set, name, sizeof(q->set));
        return 0;
}

/* ---- All of them ---- */

/* Returns whether q is gone. */
static bool query_ask_versions(PythonQuery *q) {
        q->waits_for_versions = versions_ask(q->python);
        if (q->waits_for_versions)
                return false;
        query_end_versions(q);
        return true;
}

/* Returns whether q is gone. */
static bool query_begin(PythonQuery *q) {
        q->is_new = false;
        if (q->need) {
                need_start(q->need);
                return true; /* maybe */
        }
        if (q->problem)
                return false;
        if (!python_hello(q->python))
                q->is_asking = true;
        else if (q->on_removed)
                return query_remove(q);
        else if (q->on_known)
                return query_ask_versions(q);
        else
                query_parse(q);
        return false;
}

void query_update(Python *p) {
        PythonQuery *q;

        /* From the start each time: whoever is told may take others with him. */
        do {
                for (q = p->queries.first;
                     q && !q->is_new && !q->problem && (!q->parsed || q->waits_for_versions);)
                        q = q->queries.next;
                if (!q)
                        break;
                if (q->is_new && query_begin(q))
                        continue;
                if (q->problem && q->on_known)
                        query_end_versions(q);
                else if (q->problem && q->on_removed)
                        query_removed(q, -ENOTCONN);
                else if (q->problem)
                        query_report_problem(q, q->problem);
                else if (q->parsed)
                        query_report_parsed(q, q->parsed);
        } while (q);
}

bool query_any_asks(const Python *p) {
        const PythonQuery *q;

        for (q = p->queries.first; q && !q->is_asking;)
                q = q->queries.next;
        return q;
}

void query_continue_all(Python *p, const char *why) {
        bool is_known = python_hello(p);

        for (PythonQuery *q = p->queries.first; q; q = q->queries.next) {
                if (!q->is_asking)
                        continue;
                q->is_asking = false;
                if (is_known)
                        q->is_new = true;
                else
                        q->problem =
                                str_copy(&q->why, why) >= 0 ? q->why : "The launcher cannot be reached.";
        }
        python_update_soon(p);
}

void query_stop_all(Python *p) {
        PythonQuery *q;

        do {
                for (q = p->queries.first; q && !q->need;)
                        q = q->queries.next;
                if (q)
                        query_end(q, &(const PythonOutcome){ .error = "The service is stopping.",
                                                             .environment = "" });
        } while (q);
}

void query_drop_all(Python *p) {
        while (p->queries.first)
                query_free(p->queries.first);
}
