/* SPDX-License-Identifier: MIT */

/* Preparation: a set in the making.
 *
 *      WAITING --> FETCHING --> INSTALLING --> COMMITTING --> (told, gone)
 *                     |             |              |
 *                     +-- the set is there already, or it failed: the leaf is removed
 *
 * One for all who need the same. It goes on as long as one of them waits. Its leaf has a name by chance, so
 * that what an interrupted one left is never built upon. */

#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/timeutil.h"
#include "exec/preparation.h"
#include "exec/size-text.h"
#include "python/internal.h"
#include "python/order.h"
#include "python/preparation.h"
#include "python/step.h"

#define STEP_USEC_MIN (10 * USEC_PER_SEC)

typedef enum PreparationState {
        PREPARATION_WAITING,
        PREPARATION_FETCHING,
        PREPARATION_INSTALLING,
        PREPARATION_COMMITTING,
} PreparationState;

struct Preparation {
        Python *python;
        PreparationState state;
        char request[SHA256_HEX_CHARS + 1], leaf[SHA256_HEX_CHARS + 1], set[SHA256_HEX_CHARS + 1];
        char *interpreter, *version;
        char **requirements;
        char *tool_uv;
        Fetched fetched;
        bool has_leaf, ignores_known;
        int leaf_fd; /* keeps other servers of the same user away from the leaf */
        uint64_t started_usec;
        const char *journal; /* of a step that failed; NULL: the message will do */
        Step *step;
        char phase[STEP_PHASE_CHARS_MAX + 1];
        LIST_HEAD(PreparationClient) clients;
        /* They are told something. One of them may make others leave meanwhile, also the next one. */
        bool is_telling;
        PreparationClient *next_told;
        QueueItem waiting; /* for a place among those that are made */
        LIST_LINK(Preparation) preparations;
};

static void preparation_free(Preparation *q) {
        LIST_REMOVE(&q->python->preparations, preparations, q);
        if (q->waiting.line)
                queue_remove(&q->python->preparations_waiting, &q->waiting);
        step_free(q->step);
        safe_close(q->leaf_fd);
        fetched_done(&q->fetched);
        free(q->interpreter);
        free(q->version);
        free(q->tool_uv);
        strv_free(q->requirements);
        free(q);
}

static void preparation_set_phase(Preparation *q, const char *phase) {
        (void) snprintf(q->phase, sizeof(q->phase), "%s", phase);
        q->is_telling = true;
        for (PreparationClient *c = q->clients.first; c; c = q->next_told) {
                q->next_told = c->clients.next;
                c->on_phase(c, q->phase);
        }
        q->is_telling = false;
}

static void preparation_on_phase(const char *phase, void *userdata) {
        Preparation *q = userdata;

        /* From now on the leaf is there. */
        if (q->leaf_fd < 0)
                q->leaf_fd = set_index_lock_leaf(&q->python->index, q->leaf);
        preparation_set_phase(q, phase);
}

/* q is gone afterwards; so is its leaf, soon, unless it became the set. */
static void preparation_tell(Preparation *q, SetEntry *e, ExecStatus status, const char *message) {
        Python *p = q->python;
        PreparationClient *c;

        q->is_telling = true;
        q->step = step_free(q->step);
        q->leaf_fd = safe_close(q->leaf_fd);
        if (q->has_leaf && removal_new(p, q->leaf, /* is_set= */ false, NULL, NULL) < 0)
                log_warning("Out of memory: a leftover of a set of packages stays until the next start.");
        while ((c = q->clients.first)) {
                LIST_REMOVE(&q->clients, clients, c);
                c->preparation = NULL;
                c->journal = q->journal ?: message;
                c->on_prepared(c, e, e ? e->warnings : NULL, status, message);
        }
        preparation_free(q);
        python_update_soon(p);
}

static void preparation_fail(Preparation *q, ExecStatus status, const char *message) {
        preparation_tell(q, NULL, status, message);
}

static void preparation_fail_memory(Preparation *q) {
        preparation_fail(q, EXEC_INFRA_ERROR, "The daemon is out of memory. Run it again later.");
}

static void preparation_fail_step(Preparation *q, const StepOutcome *outcome) {
        Python *p = q->python;

        /* A set that nobody uses is worth less than one that somebody wants. */
        if (streq(outcome->kind, "disk-full") && p->index.n_sets > 0) {
                const SetLimits limits = { .n_max = 0, .max_bytes = UINT64_MAX };
                SetEntry *victim =
                        set_index_choose_victim(&p->index, &limits, p->default_set, now_realtime_usec());

                if (victim)
                        (void) removal_new(p, victim->name, /* is_set= */ true, NULL, NULL);
        }
        log_full(outcome->is_infra ? LOG_WARNING : LOG_INFO, 0,
                 "Preparing a set of packages failed (%s): %s", *outcome->kind ? outcome->kind : "sandbox",
                 outcome->journal);
        q->journal = outcome->journal;
        preparation_fail(q, outcome->is_infra ? EXEC_INFRA_ERROR : EXEC_ERROR, outcome->message);
}

static void preparation_finish(Preparation *q) {
        Python *p = q->python;
        SetEntry *e;

        e = set_index_look(&p->index, q->set);
        if (!e) {
                if (removal_new(p, q->set, /* is_set= */ true, NULL, NULL) < 0)
                        log_warning("Out of memory: a set of packages that is not complete stays.");
                preparation_fail(
                        q, EXEC_INFRA_ERROR,
                        "The packages were prepared but cannot be used. Run it again; administrators: "
                        "install all parts of mcp-exec from one package.");
                return;
        }
        strv_free(e->warnings);
        e->warnings = TAKE_PTR(q->fetched.warnings);
        /* What is to be told with each use is found out anew after a restart. */
        if (memory_note(&p->memory, q->request, q->set, /* is_lasting= */ !e->warnings) < 0)
                log_warning("Out of memory: which set of packages a request led to is not remembered.");
        python_save(p);
        preparation_tell(q, e, EXEC_OK, NULL);
        python_evict(p);
}

static void preparation_on_committed(int error, const char *text, void *userdata) {
        _cleanup_free_ char *message = NULL;
        Preparation *q = userdata;

        if (error == 0) {
                SizeText size = {};
                const SetEntry *e;

                q->has_leaf = false;
                e = set_index_look(&q->python->index, q->set);
                if (e)
                        size = size_text_bytes(e->facts.set.size_bytes);
                log_info("Prepared set of packages %.16s… (%s) in %" PRIu64 " ms.", q->set, size.text,
                         (now_monotonic_usec() - q->started_usec) / USEC_PER_MSEC);
        }
        /* EEXIST: another server was faster. */
        if (error == 0 || error == EEXIST) {
                preparation_finish(q);
                return;
        }
        (void) str_printf(&message, "The packages were prepared but could not be put in place. %s", text);
        preparation_fail(q, EXEC_INFRA_ERROR, message ?: "The packages could not be put in place.");
}

static void preparation_commit(Preparation *q) {
        q->state = PREPARATION_COMMITTING;
        if (exec_engine_change_set(q->python->engine, WIRE_SET_COMMIT, q->leaf, q->set,
                                   preparation_on_committed, q) < 0)
                preparation_fail_memory(q);
}

/* What is left of the time for one set, but enough for a program to say why it is too little. */
static uint64_t time_left(const Preparation *q) {
        uint64_t spent = now_monotonic_usec() - q->started_usec,
                 all = q->python->settings->packages.prepare_timeout_usec;

        return spent + STEP_USEC_MIN < all ? all - spent : STEP_USEC_MIN;
}

static int preparation_start(Preparation *q, WireProfile profile, const char *program, const SetOrder *o,
                             void (*on_done)(const StepOutcome *outcome, void *userdata)) {
        _cleanup_buffer_ Buffer order = BUFFER_INIT(0);
        int r;

        r = profile == WIRE_PROFILE_FETCH ? order_write_fetch(o, &order) : order_write_install(o, &order);
        if (r < 0)
                return r;
        q->step = step_free(q->step);
        return step_new(
                &(const StepParameters){
                        .python = q->python,
                        .profile = profile,
                        .program = program,
                        .leaf = q->leaf,
                        .order = order.data,
                        .order_bytes = order.n_bytes,
                        .timeout_usec = o->budget_usec + STEP_SLACK_USEC,
                        .on_phase = preparation_on_phase,
                        .on_done = on_done,
                        .userdata = q,
                },
                &q->step);
}

static void preparation_on_installed(const StepOutcome *outcome, void *userdata) {
        if (outcome->answer)
                preparation_commit(userdata);
        else
                preparation_fail_step(userdata, outcome);
}

static int preparation_install(Preparation *q, const WireHello *hello) {
        q->state = PREPARATION_INSTALLING;
        return preparation_start(q, WIRE_PROFILE_INSTALL, "install.py",
                                 &(const SetOrder){
                                         .uv = hello->uv,
                                         .uv_on_host = hello->uv_on_host,
                                         .python = q->interpreter,
                                         .requirements = q->requirements,
                                         .lock = q->fetched.lock,
                                         .budget_usec = time_left(q),
                                         .settings = q->python->settings,
                                 },
                                 preparation_on_installed);
}

static int preparation_fetch(Preparation *q);

static void preparation_on_fetched(const StepOutcome *outcome, void *userdata) {
        const WireHello *hello;
        Preparation *q = userdata;
        Python *p = q->python;
        int r;

        if (!outcome->answer) {
                preparation_fail_step(q, outcome);
                return;
        }
        fetched_done(&q->fetched);
        r = answer_read_fetch(outcome->answer, &q->fetched);
        if (r >= 0)
                r = set_name(q->interpreter, q->version, q->fetched.lock, q->set);
        if (r < 0) {
                preparation_fail(q, EXEC_INFRA_ERROR,
                                 "What was fetched is not to be trusted, so nothing is done "
                                 "with it. Administrators: install all parts of mcp-exec "
                                 "from one package.");
                return;
        }
        if (set_index_look(&p->index, q->set)) {
                preparation_finish(q);
                return;
        }
        hello = python_hello(p);
        if (!hello)
                r = -ENOTCONN;
        else if (q->fetched.is_known) { /* it was evicted meanwhile: from the start, once */
                r = q->ignores_known ? -EBADMSG : 0;
                q->ignores_known = true;
                if (r >= 0)
                        r = preparation_fetch(q);
        } else
                r = preparation_install(q, hello);
        if (r < 0)
                preparation_fail(q, EXEC_INFRA_ERROR,
                                 "The packages could not be installed. Run it again later.");
}

/* Locks of what is there already, for this interpreter. */
static int known_locks(const Preparation *q, char ***ret) {
        _cleanup_strv_ char **l = NULL;
        char name[SHA256_HEX_CHARS + 1];
        int r;

        for (const SetEntry *e = q->python->index.sets.first; e && !q->ignores_known; e = e->sets.next) {
                r = set_name(q->interpreter, q->version, e->facts.lock, name);
                if (r >= 0 && !e->is_retiring && streq(name, e->name))
                        r = strv_extend(&l, e->facts.lock);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(l);
        return 0;
}

static int preparation_fetch(Preparation *q) {
        _cleanup_strv_ char **locks = NULL;
        const WireHello *hello = python_hello(q->python);
        int r;

        if (!hello)
                return -ENOTCONN;
        r = known_locks(q, &locks);
        if (r < 0)
                return r;
        q->state = PREPARATION_FETCHING;
        r = preparation_start(q, WIRE_PROFILE_FETCH, "fetch.py",
                              &(const SetOrder){
                                      .uv = hello->uv,
                                      .uv_on_host = hello->uv_on_host,
                                      .python = q->interpreter,
                                      .requirements = q->requirements,
                                      .tool_uv = q->tool_uv,
                                      .known_locks = locks,
                                      .budget_usec = time_left(q),
                                      .settings = q->python->settings,
                              },
                              preparation_on_fetched);
        if (r >= 0)
                q->has_leaf = true;
        return r;
}

/* 256 bits by chance. */
static int random_name(char ret[static SHA256_HEX_CHARS + 1]) {
        int r;

        r = random_hex_id(ret);
        return r < 0 ? r : random_hex_id(ret + RANDOM_HEX_ID_CHARS);
}

static int preparation_new(Python *p, const PreparationOrder *order, Preparation **ret) {
        Preparation *q;
        int r;

        q = calloc(1, sizeof(Preparation));
        if (!q)
                return -ENOMEM;
        q->python = p;
        q->leaf_fd = -EBADF;
        memcpy(q->request, order->request, sizeof(q->request));
        (void) snprintf(q->phase, sizeof(q->phase), "waiting for other preparations");
        LIST_APPEND(&p->preparations, preparations, q);

        r = random_name(q->leaf);
        if (r >= 0)
                r = str_copy(&q->interpreter, order->python);
        if (r >= 0)
                r = str_copy(&q->version, order->version);
        if (r >= 0)
                r = str_copy(&q->tool_uv, order->tool_uv);
        STRV_FOREACH(s, order->requirements)
                r = r < 0 ? r : strv_extend(&q->requirements, *s);
        if (r >= 0)
                r = queue_push(&p->preparations_waiting, order->principal, &q->waiting);
        if (r < 0) {
                preparation_free(q);
                return r;
        }
        *ret = q;
        return 0;
}

int preparation_join(Python *p, const PreparationOrder *order, PreparationClient *c) {
        Preparation *q;
        int r;

        assert(p && order && c && c->on_phase && c->on_prepared && !c->preparation);

        for (q = p->preparations.first; q && !streq(q->request, order->request);)
                q = q->preparations.next;
        r = q ? 0 : preparation_new(p, order, &q);
        if (r < 0)
                return r;
        c->preparation = q;
        LIST_APPEND(&q->clients, clients, c);
        c->on_phase(c, q->phase);
        python_update_soon(p);
        return 0;
}

/* Nobody waits for it. While it is committed, the launcher's answer comes soon and the set is as good as
 * ready. */
static bool is_abandoned(const Preparation *q) {
        return !q->clients.first && q->state != PREPARATION_COMMITTING;
}

static void preparation_abandon(Preparation *q) {
        if (q->has_leaf && removal_new(q->python, q->leaf, /* is_set= */ false, NULL, NULL) < 0)
                log_warning("Out of memory: a leftover of a set of packages stays until the next start.");
        preparation_free(q);
}

void preparation_leave(PreparationClient *c) {
        Preparation *q;

        assert(c);

        q = TAKE_PTR(c->preparation);
        if (!q)
                return;
        if (q->next_told == c)
                q->next_told = c->clients.next;
        LIST_REMOVE(&q->clients, clients, c);
        if (!is_abandoned(q))
                return;
        python_update_soon(q->python);
        if (!q->is_telling) /* else the update ends it, or who tells its end */
                preparation_abandon(q);
}

void preparation_update(Python *p) {
        unsigned n_running = 0;

        for (Preparation *q = p->preparations.first, *next; q; q = next) {
                next = q->preparations.next;
                if (is_abandoned(q))
                        preparation_abandon(q);
                else
                        n_running += q->state != PREPARATION_WAITING;
        }
        while (n_running < p->settings->packages.prepare_parallel) {
                QueueItem *item = queue_pop(&p->preparations_waiting);
                Preparation *q;
                char why[256];

                if (!item)
                        return;
                q = (Preparation *) ((char *) item - offsetof(Preparation, waiting));
                q->started_usec = now_monotonic_usec();
                if (preparation_fetch(q) >= 0) {
                        preparation_set_phase(q, "resolving");
                        n_running++;
                        continue;
                }
                (void) snprintf(why, sizeof(why),
                                "The unit that fetches packages could not be started. Administrators: see "
                                "%s.", log_place("the journal (journalctl -u mcp-exec)"));
                preparation_fail(q, EXEC_INFRA_ERROR, why);
                return; /* whoever was told may have changed the list; an update follows */
        }
}

void preparation_done(Python *p) {
        while (p->preparations.first) {
                PreparationClient *c;

                while ((c = p->preparations.first->clients.first)) {
                        LIST_REMOVE(&p->preparations.first->clients, clients, c);
                        c->preparation = NULL;
                }
                preparation_free(p->preparations.first);
        }
}
