/* SPDX-License-Identifier: MIT */

/* PARSE: asks each question once. Who asks what is being asked already joins, and answers are kept. */

#include <stdio.h>

#include "base/log.h"
#include "python/internal.h"
#include "python/order.h"
#include "python/parse.h"
#include "python/step.h"
#include "python/versions.h"

#define CACHE_ENTRIES_MAX 128
#define CACHE_ANSWER_BYTES_MAX (64 * KIB)
#define ORDER_BYTES_MAX (8 * MIB) /* what parse.py reads */

/* ---- What is known ---- */

struct CacheEntry {
        char key[SHA256_HEX_CHARS + 1];
        Parsed *parsed;
        LIST_LINK(CacheEntry) entries;
};

static void cache_drop(Python *p, CacheEntry *e) {
        LIST_REMOVE(&p->cache, entries, e);
        p->n_cache--;
        parsed_unref(e->parsed);
        free(e);
}

static Parsed* cache_find(Python *p, const char *key) {
        for (CacheEntry *e = p->cache.first; e; e = e->entries.next)
                if (streq(e->key, key)) {
                        LIST_REMOVE(&p->cache, entries, e);
                        LIST_PREPEND(&p->cache, entries, e);
                        return e->parsed;
                }
        return NULL;
}

static size_t parsed_bytes(const Parsed *parsed) {
        size_t n = strlen(parsed->tool_uv);

        STRV_FOREACH(s, parsed->messages)
                n += strlen(*s);
        STRV_FOREACH(s, parsed->requirements)
                n += strlen(*s);
        return n;
}

/* Without memory it is asked again the next time. */
static void cache_add(Python *p, const char *key, Parsed *parsed) {
        CacheEntry *e;

        if (parsed_bytes(parsed) > CACHE_ANSWER_BYTES_MAX)
                return;
        e = calloc(1, sizeof(CacheEntry));
        if (!e)
                return;
        memcpy(e->key, key, sizeof(e->key));
        e->parsed = parsed_ref(parsed);
        LIST_PREPEND(&p->cache, entries, e);
        p->n_cache++;
        while (p->n_cache > CACHE_ENTRIES_MAX)
                cache_drop(p, p->cache.last);
}

/* ---- Questions ---- */

struct Parse {
        Python *python;
        char key[SHA256_HEX_CHARS + 1];
        Buffer order;
        Step *step; /* NULL: waits for its turn */
        GrammarPolicy policy;
        LIST_HEAD(ParseClient) clients;
        bool is_over; /* they are told; one of them may make others leave */
        QueueItem waiting; /* for its turn */
        LIST_LINK(Parse) parses;
};

static void parse_free(Parse *q) {
        LIST_REMOVE(&q->python->parses, parses, q);
        if (q->waiting.line)
                queue_remove(&q->python->parses_waiting, &q->waiting);
        step_free(q->step);
        buffer_done(&q->order);
        free(q);
}

void parse_leave(ParseClient *c) {
        Parse *q;

        assert(c);

        q = TAKE_PTR(c->parse);
        if (!q)
                return;
        LIST_REMOVE(&q->clients, clients, c);
        if (!q->clients.first && !q->is_over) {
                python_update_soon(q->python);
                parse_free(q);
        }
}

/* parsed may be NULL. q is gone afterwards. */
static void parse_tell_of_step(Parse *q, Parsed *parsed, const char *message, const char *journal) {
        ParseClient *c;

        q->is_over = true;
        q->step = step_free(q->step);
        python_update_soon(q->python);
        while ((c = q->clients.first)) {
                LIST_REMOVE(&q->clients, clients, c);
                c->parse = NULL;
                c->journal = journal;
                c->on_parsed(c, parsed, message);
        }
        parse_free(q);
}

/* message quotes nobody. */
static void parse_tell(Parse *q, Parsed *parsed, const char *message) {
        parse_tell_of_step(q, parsed, message, message);
}

static void parse_on_done(const StepOutcome *outcome, void *userdata) {
        _cleanup_(parsed_unrefp) Parsed *parsed = NULL;
        Parse *q = userdata;
        Python *p = q->python;
        int r;

        if (!outcome->answer) {
                parse_tell_of_step(q, NULL, outcome->message, outcome->journal);
                return;
        }
        r = answer_read_parse(outcome->answer, &q->policy, &parsed);
        if (r < 0) {
                parse_tell(q, NULL,
                           r == -ENOMEM ?
                                   "The daemon is out of memory. Try again later." :
                                   "What was found out about the script's packages is not to be trusted, so "
                                   "nothing is done with it. Administrators: install all parts of mcp-exec "
                                   "from one package.");
                return;
        }
        for (size_t i = 0; i < INTERPRETERS_MAX; i++)
                if (*parsed->versions[i])
                        memcpy(p->versions[i], parsed->versions[i], sizeof(p->versions[i]));
        cache_add(p, q->key, parsed);
        parse_tell(q, parsed, NULL);
}

static ParseOrder parse_order(Python *p, const ParseInput *input) {
        return (ParseOrder){
                .script = input->text ?: "",
                .script_bytes = input->text_bytes,
                .dependencies = input->dependencies,
                .lines = input->lines,
                .python_version = input->python_version,
                .wants_syntax = input->wants_syntax,
                .hello = python_hello(p),
                .settings = p->settings,
        };
}

int parse_key(Python *p, const ParseInput *input, char ret[static SHA256_HEX_CHARS + 1]) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(ORDER_BYTES_MAX);
        ParseOrder o;
        int r;

        assert(p && input);

        o = parse_order(p, input);
        assert(o.hello);
        r = versions_look(p, o.hello);
        if (r < 0)
                return r;
        r = buffer_append_str(&b, p->interpreters_key);
        if (r >= 0)
                r = order_write_parse(&o, &b);
        if (r < 0)
                return r;
        sha256_hex(b.data, b.n_bytes, ret);
        return 0;
}

static int parse_new(Python *p, const ParseOrder *o, const char *key, const char *principal,
                     Parse **ret) {
        Parse *q;
        int r;

        q = calloc(1, sizeof(Parse));
        if (!q)
                return -ENOMEM;
        q->python = p;
        q->order = BUFFER_INIT(ORDER_BYTES_MAX);
        q->policy = (GrammarPolicy){
                .allows_urls = p->settings->packages.allow_direct_urls,
                .allows_vcs = p->settings->packages.allow_vcs,
                .allows_python_downloads = p->settings->packages.allow_python_downloads,
        };
        memcpy(q->key, key, sizeof(q->key));
        LIST_APPEND(&p->parses, parses, q);
        r = order_write_parse(o, &q->order);
        if (r >= 0)
                r = queue_push(&p->parses_waiting, principal ?: "", &q->waiting);
        if (r < 0) {
                parse_free(q);
                return r;
        }
        *ret = q;
        return 0;
}

int parse_submit(Python *p, const ParseInput *input, ParseClient *c, Parsed **ret) {
        char key[SHA256_HEX_CHARS + 1];
        ParseOrder o;
        Parsed *known;
        Parse *q;
        int r;

        assert(p && input && c && c->on_parsed && !c->parse);

        r = parse_key(p, input, key);
        if (r < 0)
                return r;
        o = parse_order(p, input);
        o.versions = (const char(*)[VERSION_CHARS_MAX + 1]) p->versions;

        *ret = NULL;
        known = cache_find(p, key);
        if (known) {
                *ret = parsed_ref(known);
                return 0;
        }
        for (q = p->parses.first; q && !streq(q->key, key);)
                q = q->parses.next;
        r = q ? 0 : parse_new(p, &o, key, input->principal, &q);
        if (r < 0)
                return r;
        c->parse = q;
        LIST_APPEND(&q->clients, clients, c);
        python_update_soon(p);
        return 0;
}

static int parse_start(Parse *q) {
        return step_new(
                &(const StepParameters){
                        .python = q->python,
                        .profile = WIRE_PROFILE_PARSE,
                        .program = "parse.py",
                        .order = q->order.data,
                        .order_bytes = q->order.n_bytes,
                        .timeout_usec = PARSE_TIMEOUT_USEC,
                        .on_done = parse_on_done,
                        .userdata = q,
                },
                &q->step);
}

void parse_update(Python *p) {
        size_t n_running = 0;

        for (const Parse *q = p->parses.first; q; q = q->parses.next)
                n_running += q->step != NULL;
        while (n_running < PARSES_MAX) {
                QueueItem *item = queue_pop(&p->parses_waiting);
                Parse *q;

                if (!item)
                        return;
                q = (Parse *) ((char *) item - offsetof(Parse, waiting));
                if (parse_start(q) >= 0)
                        n_running++;
                else {
                        char why[256];

                        (void) snprintf(why, sizeof(why),
                                        "The unit that reads what a script says about its packages could "
                                        "not be started. Administrators: see %s.",
                                        log_place("the journal (journalctl -u mcp-exec)"));
                        parse_tell(q, NULL, why);
                        /* Whoever was told may have changed the list. */
                        python_update_soon(p);
                        return;
                }
        }
}

void parse_done(Python *p) {
        while (p->parses.first) {
                ParseClient *c;

                while ((c = p->parses.first->clients.first)) {
                        LIST_REMOVE(&p->parses.first->clients, clients, c);
                        c->parse = NULL;
                }
                parse_free(p->parses.first);
        }
        while (p->cache.first)
                cache_drop(p, p->cache.first);
}

/* ---- What is found besides ---- */

int parse_add_problem(const Parsed *parsed, const char *why, PythonFinding **ret, size_t *ret_n) {
        PythonFinding *f;
        size_t n = 0;

        assert(parsed && why && ret && ret_n);

        f = calloc(parsed->n_findings + 1, sizeof(PythonFinding));
        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < parsed->n_findings; i++)
                if (parsed->findings[i].severity != PYTHON_WARNING ||
                    !streq(parsed->findings[i].kind, "requires-python"))
                        f[n++] = parsed->findings[i];
        f[n++] = (PythonFinding){ PYTHON_ERROR, "environment", 0, 0, why };
        *ret = f;
        *ret_n = n;
        return 0;
}
