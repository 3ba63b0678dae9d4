/* SPDX-License-Identifier: MIT */
#pragma once

/* The room's inside. Everybody else includes python/python.h.
 *
 *      attach.. (a run), query.. (a tool, a command), default.. (the administrator's set)
 *               \           |            /
 *                need: from a script to a ready set
 *               /                        \
 *      parse: PARSE, cached         preparation: FETCH, INSTALL, COMMIT; one for all who need the same
 *                                        \
 *                                    removal: what nobody needs any more */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/strv.h"
#include "exec/exec.h"
#include "exec/list.h"
#include "exec/queue.h"
#include "python/answer.h"
#include "python/index.h"
#include "python/memory.h"
#include "python/python.h"
#include "python/step.h"

#define PARSE_TIMEOUT_USEC (30 * USEC_PER_SEC)
#define STEP_SLACK_USEC (10 * USEC_PER_SEC) /* a program ends by itself before its unit is ended */
#define PARSES_MAX 8 /* at the same time; more wait */

typedef struct Parse Parse;
typedef struct Preparation Preparation;
typedef struct Removal Removal;
typedef struct Need Need;
typedef struct CacheEntry CacheEntry;

struct Python {
        sd_event *event;
        const Settings *settings;
        ExecEngine *engine;
        char *programs_directory, *sets_directory;

        char versions[INTERPRETERS_MAX][VERSION_CHARS_MAX + 1], /* as they say themselves; "": not yet */
                uv_version[VERSION_CHARS_MAX + 1];
        char interpreters_key[SHA256_HEX_CHARS + 1], /* of the programs that said so */
                uv_key[SHA256_HEX_CHARS + 1];
        bool is_uv_mute; /* it was asked, and says none: it is broken, or no uv */
        Step *versions_step; /* asks for them */
        uint64_t versions_asked_usec; /* 0: not since they are what they are */

        LIST_HEAD(CacheEntry) cache; /* newest use first */
        size_t n_cache;
        LIST_HEAD(Parse) parses;
        LIST_HEAD(Preparation) preparations;
        Queue parses_waiting, preparations_waiting; /* served in turn: nobody waits for all of another's */
        LIST_HEAD(Removal) removals;
        LIST_HEAD(Need) needs;
        LIST_HEAD(PythonQuery) queries;

        SetIndex index;
        Memory memory;
        bool is_swept; /* leftovers were looked for */
        bool is_evicting_soon; /* a set is in use no more */

        char *default_path; /* of the file that names them; NULL: none */
        char **default_requirements; /* NULL: none */
        unsigned *default_lines; /* of each of them, in the file */
        char **default_described; /* the same, as they are told of */
        PythonQuery *default_query;
        char *default_problem; /* why they are not there */
        uint64_t default_failed_usec;
        char default_set[SHA256_HEX_CHARS + 1];

        bool is_asking; /* the engine for the launcher's HELLO */
        sd_event_source *update_source, *save_source, *retry_source, *age_source;
};

void python_update_soon(Python *p);
void python_save(Python *p);
void python_save_soon(Python *p);

/* What the launcher said, or NULL before it did. */
const WireHello* python_hello(Python *p);

/* Removes sets beyond the limits; now, or after the callbacks that are going on. */
void python_evict(Python *p);
void python_evict_soon(Python *p);

/* ---- removal.c ---- */

/* Empties a leaf and removes it; with is_set it is a set before that. on_done (may be NULL): 0 or an errno.
 */
int removal_new(Python *p, const char *name, bool is_set, void (*on_done)(int error, void *userdata),
                void *userdata);
bool removal_is_known(const Python *p, const char *name);
void removal_update(Python *p);
void removal_done(Python *p);

/* ---- default.c ---- */
void default_facts(const Python *p, PythonFacts *ret);

/* ---- query.c ---- */
void query_update(Python *p);
bool query_any_asks(const Python *p);
void query_tell_versions(Python *p); /* to all who wait for them */
void query_continue_all(Python *p, const char *why);
void query_stop_all(Python *p); /* preparations */
void query_drop_all(Python *p);
