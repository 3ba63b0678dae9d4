/* SPDX-License-Identifier: MIT */

/* Need: from a script to a ready set, for a run or for whoever prepares ahead. */

#include "python/need.h"
#include "base/timeutil.h"
#include "base/utf8.h"
#include "python/block.h"
#include "python/internal.h"
#include "python/order.h"
#include "python/parse.h"
#include "python/preparation.h"

#define ERRORS_SHOWN_MAX 5

struct Need {
        Python *python; /* NULL: the room has gone */
        Buffer text; /* what PARSE reads of the script */
        char **dependencies;
        unsigned *lines; /* of the dependencies, where they are a file's; else NULL */
        bool is_prepared_ahead;
        char *principal, *python_version;
        const NeedHandlers *handlers;
        void *userdata;

        bool is_asking; /* waits for the launcher's HELLO */
        char script_key[SHA256_HEX_CHARS + 1]; /* "": not known */
        unsigned interpreter;
        Parsed *parsed; /* NULL: not yet, or not asked for */
        ParseClient parse;
        PreparationClient preparation;
        char environment[SHA256_HEX_CHARS + 1]; /* in use by this need; "": none */
        const char *journal; /* why it failed, where the message may quote others */
        LIST_LINK(Need) needs;
};

static void need_fail(Need *n, ExecStatus status, const char *message) {
        if (!n->journal)
                n->journal = message;
        n->handlers->on_failed(n, status, message, n->userdata);
}

const char* need_journal(const Need *n) {
        assert(n);
        return n->journal;
}

static void need_fail_memory(Need *n) {
        need_fail(n, EXEC_INFRA_ERROR, "The daemon is out of memory. Run it again later.");
}

/* ---- What PARSE has against it ---- */

/* All that is wrong is of this kind. */
static bool is_all_about(const Parsed *parsed, const char *kind) {
        bool is_found = false;

        for (size_t i = 0; i < parsed->n_findings; i++)
                if (parsed->findings[i].severity == PYTHON_ERROR) {
                        if (!streq(parsed->findings[i].kind, kind))
                                return false;
                        is_found = true;
                }
        return is_found;
}

static int write_errors(const Need *need, Buffer *b) {
        const char *what = need->is_prepared_ahead ? "Nothing was prepared" : "The script was not run";
        const Parsed *parsed = need->parsed;
        size_t n = 0;
        int r;

        if (is_all_about(parsed, "requires-python"))
                r = buffer_printf(b, "%s.\n", what);
        else if (need->lines) /* each of them says where in the list it is */
                r = 0;
        else
                r = buffer_printf(b, "%s, for its packages cannot be had as it names them.\n", what);
        for (size_t i = 0; i < parsed->n_findings && r >= 0; i++) {
                const PythonFinding *f = parsed->findings + i;

                if (f->severity != PYTHON_ERROR || ++n > ERRORS_SHOWN_MAX)
                        continue;
                if (n > 1)
                        r = buffer_append_str(b, "\n");
                /* Some name their lines themselves. */
                if (r >= 0 && f->line > 0 && strncmp(f->message, "Line ", strlen("Line ")) != 0)
                        r = buffer_printf(b, "Line %ju%s: ", (uintmax_t) f->line,
                                          need->lines ? " of the list" : "");
                if (r >= 0)
                        r = buffer_append_str(b, f->message);
        }
        if (r >= 0 && n > ERRORS_SHOWN_MAX)
                r = buffer_printf(b, "\n… and %zu more.", n - ERRORS_SHOWN_MAX);
        return r;
}

static void need_fail_invalid(Need *n) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        if (write_errors(n, &b) < 0)
                need_fail_memory(n);
        else {
                n->journal = is_all_about(n->parsed, "policy")          ? step_journal_policy :
                             is_all_about(n->parsed, "requires-python") ? "No interpreter fits." :
                                                   "Its packages cannot be had as it names them.";
                need_fail(n, EXEC_ERROR, b.data);
        }
}

/* Warnings of PARSE, then those of the preparation. */
static int collect_warnings(const Parsed *parsed, char *const *more, char ***ret) {
        _cleanup_strv_ char **l = NULL;
        int r = 0;

        for (size_t i = 0; parsed && i < parsed->n_findings && r >= 0; i++)
                if (parsed->findings[i].severity == PYTHON_WARNING)
                        r = strv_extend(&l, parsed->findings[i].message);
        STRV_FOREACH(s, more)
                r = r < 0 ? r : strv_extend(&l, *s);
        *ret = TAKE_PTR(l);
        return r;
}

/* ---- Ready ---- */

static void need_ready(Need *n, SetEntry *e) {
        _cleanup_strv_ char **warnings = NULL;
        uint64_t now_usec = now_realtime_usec();
        Python *p = n->python;

        /* Without memory for them the set is worth having all the same. */
        (void) collect_warnings(n->parsed, e ? e->warnings : NULL, &warnings);
        if (e && n->parsed && !warnings && *n->script_key)
                (void) memory_note(&p->memory, n->script_key, e->name, /* is_lasting= */ true);
        if (e) {
                set_entry_acquire(&p->index, e, now_usec);
                memcpy(n->environment, e->name, sizeof(n->environment));
                (void) memory_note_use(&p->memory, e->name, now_usec);
                python_save_soon(p);
        }
        n->handlers->on_ready(n, n->interpreter, n->environment, warnings, n->userdata);
}

int need_key(const Python *p, const Parsed *parsed, const WireHello *hello,
             char ret[static SHA256_HEX_CHARS + 1]) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        const char *version = parsed->interpreter_version;
        size_t n_major = strcspn(version, ".");
        int r;

        assert(parsed->interpreter >= 0 && parsed->interpreter < INTERPRETERS_MAX);

        r = buffer_printf(
                &b, "mcp-exec request 1\n%s\n%.*s\n", hello->interpreters[parsed->interpreter],
                (int) (n_major + (version[n_major] ? 1 + strspn(version + n_major + 1, "0123456789") : 0)),
                version);
        if (r >= 0)
                r = order_write_key(
                        &(const SetOrder){
                                .requirements = parsed->requirements,
                                .tool_uv = parsed->tool_uv,
                                .settings = p->settings,
                        },
                        &b);
        if (r < 0)
                return r;
        sha256_hex(b.data, b.n_bytes, ret);
        return 0;
}

SetEntry* need_find_set(Python *p, const char *key) {
        const char *name = memory_find(&p->memory, key);

        return name ? set_index_look(&p->index, name) : NULL;
}

/* What PARSE said of this script led to a set and to nothing that had to be told: it need not be asked
 * again, also after a restart. The key has all settings in it that decide either step. */
static SetEntry* need_find_short_cut(Need *n, const ParseInput *input) {
        const WireHello *hello = python_hello(n->python);
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char key[SHA256_HEX_CHARS + 1];
        SetEntry *e;

        if (parse_key(n->python, input, key) < 0 || buffer_printf(&b, "mcp-exec script 1\n%s\n", key) < 0 ||
            order_write_key(
                    &(const SetOrder){
                            .requirements = (char *const[]){ NULL },
                            .tool_uv = "{}",
                            .settings = n->python->settings,
                    },
                    &b) < 0)
                return NULL;
        sha256_hex(b.data, b.n_bytes, n->script_key);
        e = need_find_set(n->python, n->script_key);
        if (!e)
                return NULL;
        for (size_t i = 0; i < hello->n_interpreters && i < INTERPRETERS_MAX; i++)
                if (streq(hello->interpreters[i], e->facts.python)) {
                        n->interpreter = (unsigned) i;
                        return e;
                }
        return NULL;
}

static void need_on_phase(PreparationClient *c, const char *phase) {
        Need *n = (Need *) ((char *) c - offsetof(Need, preparation));

        if (n->handlers->on_phase)
                n->handlers->on_phase(n, phase, n->userdata);
}

/* Scripts and lists that name the same share one preparation, which speaks of a script. */
static int write_about_list(const char *message, Buffer *b) {
        static const char script[] = "the script";
        const char *s;
        int r = 0;

        for (; r >= 0 && (s = strstr(message, script)); message = s + sizeof(script) - 1)
                r = buffer_printf(b, "%.*sthe list", (int) (s - message), message);
        return r < 0 ? r : buffer_append_str(b, message);
}

static void need_on_prepared(PreparationClient *c, SetEntry *e, char *const *warnings, ExecStatus status,
                             const char *message) {
        Need *n = (Need *) ((char *) c - offsetof(Need, preparation));

        (void) warnings; /* the entry's */
        if (e)
                need_ready(n, e);
        else {
                _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

                n->journal = c->journal;
                /* Without memory for the better words the others have to do. */
                if (n->lines && write_about_list(message, &b) >= 0)
                        message = b.data;
                need_fail(n, status, message);
        }
}

/* ---- On its way ---- */

const char* need_find_problem(const Python *p, const WireHello *hello) {
        assert(p && hello);

        if (!*hello->sets_directory || !*hello->uv || *hello->sets_reason)
                return *hello->sets_reason ? hello->sets_reason :
                                             "Packages cannot be installed here: the program uv "
                                             "is missing. Administrators: install uv, or set UvPath=.";
        if (p->settings->packages.is_offline)
                return "These packages have not been prepared, and this server fetches none (Offline=yes). "
                       "Use what is there; administrators: prepare them with mcp-exec env prepare on a "
                       "server that may.";
        return NULL;
}

static void need_prepare(Need *n, const WireHello *hello, const char *key) {
        const char *problem = need_find_problem(n->python, hello);

        if (problem) {
                need_fail(n, EXEC_ERROR, problem);
                return;
        }
        n->preparation = (PreparationClient){ .on_phase = need_on_phase, .on_prepared = need_on_prepared };
        if (preparation_join(n->python,
                             &(const PreparationOrder){
                                     .request = key,
                                     .principal = n->principal,
                                     .python = hello->interpreters[n->parsed->interpreter],
                                     .version = n->parsed->interpreter_version,
                                     .requirements = n->parsed->requirements,
                                     .tool_uv = n->parsed->tool_uv,
                             },
                             &n->preparation) < 0)
                need_fail_memory(n);
}

static void need_take_parsed(Need *n, Parsed *take_parsed) {
        const WireHello *hello = python_hello(n->python);
        char key[SHA256_HEX_CHARS + 1];
        SetEntry *e;

        n->parsed = take_parsed;
        if (!n->parsed->is_valid || n->parsed->interpreter < 0) {
                need_fail_invalid(n);
                return;
        }
        n->interpreter = (unsigned) n->parsed->interpreter;
        if (strv_length(n->parsed->requirements) == 0 && !n->parsed->needs_python) {
                need_ready(n, NULL);
                return;
        }
        if (!hello || need_key(n->python, n->parsed, hello, key) < 0) {
                need_fail_memory(n);
                return;
        }
        e = need_find_set(n->python, key);
        if (e)
                need_ready(n, e);
        else
                need_prepare(n, hello, key);
}

static void need_on_parsed(ParseClient *c, Parsed *parsed, const char *message) {
        Need *n = (Need *) ((char *) c - offsetof(Need, parse));

        if (parsed)
                need_take_parsed(n, parsed_ref(parsed));
        else {
                n->journal = c->journal;
                need_fail(n, EXEC_INFRA_ERROR, message);
        }
}

static void need_parse(Need *n) {
        const ParseInput input = {
                .text = n->text.data,
                .text_bytes = n->text.n_bytes,
                .dependencies = n->dependencies,
                .lines = n->lines,
                .python_version = n->python_version,
                .principal = n->principal,
        };
        Parsed *parsed;
        SetEntry *e;
        int r;

        n->is_asking = false;
        e = need_find_short_cut(n, &input);
        if (e) {
                need_ready(n, e);
                return;
        }
        n->parse = (ParseClient){ .on_parsed = need_on_parsed };
        r = parse_submit(n->python, &input, &n->parse, &parsed);
        if (r == -EMSGSIZE)
                need_fail(n, EXEC_ERROR, n->lines ? "The list is too much to be read." :
                                                    "What the script says about its packages is too much to "
                                                    "be read.");
        else if (r < 0)
                need_fail_memory(n);
        else if (parsed)
                need_take_parsed(n, parsed);
        else if (n->handlers->on_phase)
                n->handlers->on_phase(n, n->lines ? "reading the list" : "reading the script's requirements",
                                      n->userdata);
}

void need_start(Need *n) {
        const WireHello *hello;

        assert(n);

        if (!n->python)
                return;
        hello = python_hello(n->python);
        if (hello && !*hello->sets_reason)
                need_parse(n);
        else {
                n->is_asking = true;
                python_update_soon(n->python);
        }
}

bool need_any_asks(const Python *p) {
        const Need *n;

        for (n = p->needs.first; n && !n->is_asking;)
                n = n->needs.next;
        return n;
}

void need_continue_all(Python *p, const char *why) {
        bool is_known = python_hello(p);
        Need *n;

        /* From the start each time: whoever is told may take others with him. */
        do {
                for (n = p->needs.first; n && !n->is_asking;)
                        n = n->needs.next;
                if (!n)
                        break;
                n->is_asking = false;
                if (is_known)
                        need_parse(n);
                else
                        need_fail(n, EXEC_INFRA_ERROR, why);
        } while (n);
}

int need_new(Python *p, const PythonScript *script, const char *principal, const NeedHandlers *handlers,
             void *userdata, Need **ret) {
        _cleanup_(need_freep) Need *n = NULL;
        int r;

        assert(p && script && principal && handlers && handlers->on_ready && handlers->on_failed);
        assert(ret);

        n = calloc(1, sizeof(Need));
        if (!n)
                return -ENOMEM;
        n->python = p;
        n->handlers = handlers;
        n->userdata = userdata;
        LIST_APPEND(&p->needs, needs, n);

        r = block_reduce(script->text ?: "", script->text_bytes, &n->text);
        if (r < 0)
                return r;
        /* What is not UTF-8 has no block that could be read; the interpreter will say so. */
        if (n->text.n_bytes > 0 && !utf8_is_valid(n->text.data, n->text.n_bytes))
                n->text.n_bytes = 0;
        STRV_FOREACH(s, script->dependencies) {
                r = strv_extend(&n->dependencies, *s);
                if (r < 0)
                        return r;
        }
        n->is_prepared_ahead = script->is_prepared_ahead;
        if (script->lines) {
                size_t n_lines = strv_length(script->dependencies);

                n->lines = calloc(n_lines + 1, sizeof(*n->lines));
                if (!n->lines)
                        return -ENOMEM;
                for (size_t i = 0; i < n_lines; i++)
                        n->lines[i] = script->lines[i];
        }
        r = str_copy(&n->python_version, script->python_version);
        if (r >= 0)
                r = str_copy(&n->principal, principal);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(n);
        return 0;
}

void need_stop(Need *n) {
        assert(n);

        n->is_asking = false;
        parse_leave(&n->parse);
        preparation_leave(&n->preparation);
}

Need* need_free(Need *n) {
        Python *p;

        if (!n)
                return NULL;

        need_stop(n);
        p = n->python;
        if (p) {
                SetEntry *e = NULL;

                LIST_REMOVE(&p->needs, needs, n);
                for (e = *n->environment ? p->index.sets.first : NULL; e && !streq(e->name, n->environment);)
                        e = e->sets.next;
                if (e) {
                        set_entry_release(e);
                        python_evict_soon(p);
                }
        }
        parsed_unref(n->parsed);
        buffer_done(&n->text);
        strv_free(n->dependencies);
        free(n->lines);
        free(n->python_version);
        free(n->principal);
        free(n);
        return NULL;
}

void need_orphan_all(Python *p) {
        while (p->needs.first) {
                Need *n = p->needs.first;

                need_stop(n);
                LIST_REMOVE(&p->needs, needs, n);
                n->python = NULL;
        }
}
