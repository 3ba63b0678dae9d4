/* SPDX-License-Identifier: MIT */

#include "base/log.h"
#include "base/timeutil.h"
#include "exec/timer.h"
#include "python/internal.h"
#include "python/need.h"
#include "python/parse.h"
#include "python/preparation.h"
#include "python/versions.h"

#define SAVE_USEC (5 * USEC_PER_SEC)
#define AGE_USEC (3600 * USEC_PER_SEC) /* how often old sets are looked for */

void python_update_soon(Python *p) {
        (void) sd_event_source_set_enabled(p->update_source, SD_EVENT_ONESHOT);
}

/* ---- What is remembered ---- */

void python_save(Python *p) {
        int r;

        r = memory_save(&p->memory);
        if (r < 0)
                log_warning_errno(r, "Cannot write %s; after a restart packages are looked up again",
                                  p->memory.path);
}

static int on_save(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        python_save(userdata);
        return 0;
}

void python_save_soon(Python *p) {
        int is_on = SD_EVENT_OFF;

        if (p->save_source)
                (void) sd_event_source_get_enabled(p->save_source, &is_on);
        if (is_on == SD_EVENT_OFF && timer_arm(p->event, &p->save_source, SAVE_USEC, on_save, p) < 0)
                python_save(p);
}

/* ---- Sets that nobody needs ---- */

static void python_on_leaf(const char *name, void *userdata) {
        Python *p = userdata;

        if (!removal_is_known(p, name) && !set_index_leaf_is_busy(&p->index, name))
                (void) removal_new(p, name, /* is_set= */ false, NULL, NULL);
}

static void python_on_broken(const char *name, void *userdata) {
        Python *p = userdata;

        log_warning("A set of packages (%.16s…) is not what its name says, removing it.", name);
        if (!removal_is_known(p, name))
                (void) removal_new(p, name, /* is_set= */ true, NULL, NULL);
}

/* Once: what is there, and what an earlier process left. */
static void python_sweep(Python *p) {
        int r;

        p->is_swept = true;
        r = set_index_scan(&p->index, python_on_leaf, python_on_broken, p);
        if (r < 0)
                log_warning_errno(r, "Cannot read the directory of the sets of packages, %s",
                                  p->index.directory);
        for (SetEntry *e = p->index.sets.first; e; e = e->sets.next)
                e->used_usec = MAX_OF(e->used_usec, memory_used_usec(&p->memory, e->name));
        python_evict(p);
}

static SetEntry* python_choose_victim(const Python *p) {
        const PackageSettings *s = &p->settings->packages;

        return set_index_choose_victim(&p->index,
                                       &(const SetLimits){
                                               .n_max = s->sets_max,
                                               .max_bytes = s->sets_max_bytes,
                                               .max_age_usec = s->sets_max_age_usec,
                                       },
                                       p->default_set, now_realtime_usec());
}

void python_evict(Python *p) {
        SetEntry *victim;

        p->is_evicting_soon = false;
        while ((victim = python_choose_victim(p))) {
                if (removal_new(p, victim->name, /* is_set= */ true, NULL, NULL) < 0)
                        return;
                log_info("Evicting set of packages %.16s….", victim->name);
        }
}

void python_evict_soon(Python *p) {
        /* Only where there is something to do: python_is_idle() must not become true without a word. */
        p->is_evicting_soon = python_choose_victim(p);
        if (p->is_evicting_soon)
                python_update_soon(p);
}

static int on_age(sd_event_source *s, uint64_t usec, void *userdata) {
        Python *p = userdata;

        (void) s;
        (void) usec;
        if (p->is_swept)
                python_evict(p);
        (void) timer_arm(p->event, &p->age_source, AGE_USEC, on_age, p);
        return 0;
}

/* ---- The launcher ---- */

const WireHello* python_hello(Python *p) {
        const ExecSandboxInfo *info = exec_engine_sandbox(p->engine);

        if (!info->is_known)
                return NULL;
        set_index_set_directory(&p->index, p->sets_directory ?: info->hello.sets_directory,
                                info->hello.is_user);
        if (!p->is_swept)
                python_sweep(p);
        return &info->hello;
}

/* why: what whoever waits is told if nothing is known. */
static void python_continue_all(Python *p, const char *why) {
        need_continue_all(p, why);
        query_continue_all(p, why);
}

static void python_on_info(const ExecSandboxInfo *info, void *userdata) {
        Python *p = userdata;

        p->is_asking = false;
        python_continue_all(p, info->error ?: "The launcher cannot be reached.");
}

/* Somebody waits for the launcher's HELLO, and nobody has asked for it. */
static void python_ask(Python *p) {
        if (p->is_asking || !(need_any_asks(p) || query_any_asks(p)))
                return;
        if (exec_engine_query_sandbox(p->engine, python_on_info, p) >= 0)
                p->is_asking = true;
        else
                python_continue_all(p, "The daemon is out of memory. Try again later.");
}

static int python_update(sd_event_source *s, void *userdata) {
        Python *p = userdata;

        (void) s;
        query_update(p);
        python_ask(p);
        parse_update(p);
        preparation_update(p);
        if (p->is_evicting_soon)
                python_evict(p);
        removal_update(p);
        return 0;
}

/* ---- The outside ---- */

int python_new(const PythonParameters *parameters, Python **ret) {
        _cleanup_(python_freep) Python *p = NULL;
        int r;

        assert(parameters && parameters->event && parameters->settings && parameters->engine);
        assert(parameters->programs_directory);
        assert(ret);

        if (parameters->sets_directory && strlen(parameters->sets_directory) >= sizeof(p->index.directory))
                return -ENAMETOOLONG;
        p = calloc(1, sizeof(Python));
        if (!p)
                return -ENOMEM;
        p->event = sd_event_ref(parameters->event);
        p->settings = parameters->settings;
        p->engine = parameters->engine;
        r = str_copy(&p->programs_directory, parameters->programs_directory);
        if (r >= 0)
                r = str_copy(&p->sets_directory, parameters->sets_directory);
        if (r >= 0)
                r = memory_init(&p->memory, parameters->state_directory);
        if (r >= 0)
                r = sd_event_add_defer(p->event, &p->update_source, python_update, p);
        if (r >= 0)
                r = sd_event_source_set_enabled(p->update_source, SD_EVENT_OFF);
        if (r >= 0)
                r = timer_arm(p->event, &p->age_source, AGE_USEC, on_age, p);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(p);
        return 0;
}

Python* python_free(Python *p) {
        if (!p)
                return NULL;

        query_drop_all(p);
        need_orphan_all(p);
        preparation_done(p);
        versions_leave(p);
        parse_done(p);
        removal_done(p);
        python_save(p);
        memory_done(&p->memory);
        set_index_done(&p->index);
        strv_free(p->default_requirements);
        free(p->default_lines);
        strv_free(p->default_described);
        free(p->default_path);
        free(p->default_problem);
        free(p->programs_directory);
        free(p->sets_directory);
        sd_event_source_disable_unref(p->update_source);
        sd_event_source_disable_unref(p->save_source);
        sd_event_source_disable_unref(p->retry_source);
        sd_event_source_disable_unref(p->age_source);
        sd_event_unref(p->event);
        free(p);
        return NULL;
}

static bool is_used_later(const SetEntry *a, const SetEntry *b) {
        if (a->used_usec != b->used_usec)
                return a->used_usec > b->used_usec;
        return strcmp(a->name, b->name) < 0;
}

int python_foreach_set(Python *p, int (*visit)(const PythonSet *s, void *userdata), void *userdata) {
        const SetEntry *last = NULL;
        int r;

        assert(p && visit);

        if (!python_hello(p))
                return 0;
        r = set_index_scan(&p->index, NULL, NULL, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < p->index.n_sets; i++) {
                const SetEntry *next = NULL;
                PythonSet s;

                for (const SetEntry *e = p->index.sets.first; e; e = e->sets.next)
                        if (!e->is_retiring && (!last || is_used_later(last, e)) &&
                            (!next || is_used_later(e, next)))
                                next = e;
                if (!next)
                        break;
                s = next->facts.set;
                memcpy(s.name, next->name, sizeof(s.name));
                s.used_usec = next->used_usec;
                s.n_runs = next->n_users;
                r = visit(&s, userdata);
                if (r != 0)
                        return r;
                last = next;
        }
        return 0;
}

void python_facts(const Python *p, PythonFacts *ret) {
        const ExecSandboxInfo *info;

        assert(p && ret);

        info = exec_engine_sandbox(p->engine);
        *ret = (PythonFacts){
                .uv_path = info->is_known ? info->hello.uv_on_host : "",
                .uv_version = info->is_known ? p->uv_version : "",
                .is_offline = p->settings->packages.is_offline,
        };
        default_facts(p, ret);
        for (size_t i = 0; i < INTERPRETERS_MAX; i++)
                ret->versions[i] = info->is_known ? p->versions[i] : "";
        if (!info->is_known)
                ret->problem = info->error ?: "The launcher was not asked yet.";
        else if (info->hello.verdict != WIRE_VERDICT_OK)
                ret->problem = info->hello.reason;
        else if (!*info->hello.sets_directory || !*info->hello.uv || *info->hello.sets_reason)
                ret->problem = *info->hello.sets_reason ? info->hello.sets_reason :
                                                          "The program uv is missing. "
                                                          "Install it, or set UvPath=.";
        else if (p->is_uv_mute)
                ret->problem = versions_mute_uv;
}

void python_sweep_once(Python *p) {
        assert(p);
        if (!p->is_swept)
                (void) python_hello(p);
}

void python_drain(Python *p) {
        assert(p);
        query_stop_all(p);
}

bool python_is_idle(const Python *p) {
        assert(p);
        return !p->parses.first && !p->preparations.first && !p->removals.first && !p->queries.first &&
               !p->is_evicting_soon;
}
