/* SPDX-License-Identifier: MIT */

/* lint: allow file-length: one state machine, to be read in one piece. */

/* Job: one transient unit.
 *
 * WAITING ─► CALLING ──reply──► QUEUED ──JobRemoved──► LIVE ──inactive──► READING ──GetAll──► finished
 *               └──error──► refused
 *
 * A unit is dead when it is inactive or failed *after* its start job has ended: the first change after
 * creation says "inactive" as well, before "activating". A unit that is active has been started, also when
 * the end of its start job is not told: a restart of our service that is queued in that moment makes one
 * job of the two, and that one waits for the end of the unit. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strv.h"
#include "base/timeutil.h"
#include "launch/bus.h"
#include "launch/job.h"
#include "launch/record.h"
#include "launch/unit-message.h"

typedef enum JobState {
        JOB_WAITING, /* for its turn to call */
        JOB_CALLING, /* StartTransientUnit is on its way */
        JOB_QUEUED,  /* the unit exists, its start job has not ended */
        JOB_LIVE,    /* the start job ended, well or not */
        JOB_READING, /* dead, its record is being fetched */
        _JOB_STATE_MAX,
} JobState;

/* How much longer than RuntimeMaxUSec= and the stop timeout a unit may be silent before it is asked
 * about. */
#define PATIENCE_USEC (15 * USEC_PER_SEC)
#define STOP_PATIENCE_USEC (10 * USEC_PER_SEC)
#define STOP_ATTEMPTS_MAX 5

/* How many calls may wait for their answers. dbus-daemon refuses what goes beyond 128 for one connection
 * (max_replies_per_connection=), and a burst of runs is larger. The rest is for ASSIGN. */
#define CALLS_MAX 64

struct Job {
        Manager *manager;
        Job *next, *previous;
        JobState state;
        char unit[sizeof(UNIT_NAME_PREFIX) + RANDOM_HEX_ID_CHARS + sizeof(UNIT_NAME_SUFFIX)];
        char *path;       /* D-Bus object of the unit */
        char *start_path; /* D-Bus object of the start job */
        sd_bus_message *start; /* while it waits for its turn */
        sd_bus_slot *call, *query, *assign;
        sd_event_source *patience;
        WireProfile profile;
        int hold;         /* closed when the unit is dead; -EBADF: nothing */
        unsigned n_stop_attempts;
        bool want_stop, want_record, want_query;
        bool is_active, is_dead, has_job; /* as last heard */
        bool start_failed;
        char invocation_id[33];
        uint64_t started_usec;
        WireFinished finished;
        const JobHandlers *handlers; /* NULL: nobody is interested any more */
        void *userdata;
};

const char* job_unit(const Job *j) {
        return j->unit;
}

const char* job_path(const Job *j) {
        return j->path;
}

WireProfile job_profile(const Job *j) {
        return j->profile;
}

size_t job_count(const Manager *m, WireProfile profile) {
        size_t n = 0;

        for (const Job *j = m->jobs; j; j = j->next)
                n += j->profile == profile;
        return n;
}

void job_hold(Job *j, int fd) {
        assert(j);

        safe_close(j->hold);
        j->hold = fd;
}

Job* job_find_unit(const Manager *m, const char *unit) {
        for (Job *j = m->jobs; j; j = j->next)
                if (streq(j->unit, unit))
                        return j;
        return NULL;
}

Job* job_find_path(const Manager *m, const char *path) {
        for (Job *j = m->jobs; j && path; j = j->next)
                if (streq(j->path, path))
                        return j;
        return NULL;
}

void job_fill_started(const Job *j, WireStarted *ret) {
        ret->monotonic_usec = j->started_usec;
        wire_set_text(ret->unit, sizeof(ret->unit), j->unit);
        wire_set_text(ret->invocation_id, sizeof(ret->invocation_id), j->invocation_id);
}

Job* job_free(Job *j) {
        Manager *m;

        if (!j)
                return NULL;

        m = j->manager;
        if (j->previous || m->jobs == j) {
                if (j->next)
                        j->next->previous = j->previous;
                if (j->previous)
                        j->previous->next = j->next;
                else
                        m->jobs = j->next;
                m->n_jobs--;
                if (m->on_changed)
                        m->on_changed(m->userdata);
        }
        sd_event_source_disable_unref(j->patience);
        sd_bus_message_unref(j->start);
        sd_bus_slot_unref(j->call);
        sd_bus_slot_unref(j->query);
        sd_bus_slot_unref(j->assign);
        free(j->path);
        free(j->start_path);
        safe_close(j->hold);
        free(j);
        return NULL;
}

/* A call to the manager whose answer nobody awaits: the unit's end is the answer. One that cannot even be
 * sent means that the bus is gone, and the end of our connection drops everything of ours. */
#define job_tell(j, member, ...)                                                                            \
        ((void) sd_bus_call_method_async((j)->manager->bus, NULL, MANAGER_NAME, MANAGER_PATH,               \
                                         MANAGER_INTERFACE, member, NULL, NULL, __VA_ARGS__))

/* The last word. Frees the job. */
static void job_finish(Job *j) {
        /* The unit is kept loaded for us until here (AddRef). */
        job_tell(j, "UnrefUnit", "s", j->unit);

        j->finished.start_failed = j->start_failed;
        if (j->handlers)
                j->handlers->on_finished(j, &j->finished, j->userdata);
        job_free(j);
}

/* The unit's end is not known and never will be. Not a success, whatever the program did. m: the answer
 * that says so, or NULL. */
static void job_gone(Job *j, const char *why, sd_bus_message *m) {
        const sd_bus_error *e = m ? sd_bus_message_get_error(m) : NULL;

        log_warning("%s: %s; its result is unknown%s%s", j->unit, why, e ? ": " : "", e ? e->name : "");
        j->finished.result = WIRE_RESULT_GONE;
        job_finish(j);
}

static int job_set_patience(Job *j, uint64_t usec);

/* A manager that executes itself anew drops the calls it has not answered: ask again when it is back. */
static bool is_interrupted(sd_bus_message *m) {
        return sd_bus_message_is_method_error(m, SD_BUS_ERROR_NO_REPLY);
}

static void calls_go_on(Manager *m);

static int on_record(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        Job *j = userdata;
        Manager *manager = j->manager;

        j->call = sd_bus_slot_unref(j->call);
        if (is_interrupted(m) && job_set_patience(j, STOP_PATIENCE_USEC) >= 0)
                j->state = JOB_LIVE;
        else if (sd_bus_message_is_method_error(m, NULL) || record_read(m, &j->finished) < 0)
                job_gone(j, "the service manager did not tell how it ended", m);
        else if (!j->start_failed && j->finished.main_code == 0 &&
                 j->finished.result == WIRE_RESULT_SUCCESS)
                /* A stub loaded for our question claims success of a unit that never ran. A unit without a
                 * known exit that is no success did run: a user's manager (257) that has seen the OOM killer
                 * end all of a unit does not wait for the main process. */
                job_gone(j, "the service manager knows nothing of its process", NULL);
        else
                job_finish(j);
        calls_go_on(manager);
        return 0;
}

static void job_step(Job *j) {
        /* A job may still be pending: a restart of our service stops the unit, because of BindsTo=, and
         * queues a start that waits for us (and that StartLimitBurst=1 will refuse). Whoever waited for
         * that job here would wait for his own restart. */
        if (j->state != JOB_LIVE || !j->is_dead)
                return;

        j->state = JOB_READING;
        j->want_record = true;
        calls_go_on(j->manager);
}

static int on_patience(sd_event_source *s _unused_, uint64_t usec _unused_, void *userdata) {
        Job *j = userdata;

        if (j->n_stop_attempts >= STOP_ATTEMPTS_MAX) {
                job_gone(j, "it does not end", NULL);
                return 0;
        }
        log_warning("%s is still there, stopping it again", j->unit);
        job_stop(j);
        job_query(j);
        return 0;
}

static int job_set_patience(Job *j, uint64_t usec) {
        j->patience = sd_event_source_disable_unref(j->patience);
        return sd_event_add_time_relative(j->manager->event, &j->patience, CLOCK_MONOTONIC, usec,
                                          USEC_PER_SEC, on_patience, j);
}

static void job_refuse(Job *j, const sd_bus_error *e) {
        _cleanup_free_ char *property = bus_unknown_property(e);
        Problem problem = {};

        /* When the answer was lost or late the unit may be there all the same, and must not stay: neither
         * running, nor dead and kept for the sake of the reference that it was made with. */
        job_tell(j, "StopUnit", "ss", j->unit, "replace");
        job_tell(j, "UnrefUnit", "s", j->unit);

        if (property)
                (void) problem_set(&problem, EOPNOTSUPP, "Use a newer systemd, Debian 12 (252) or later",
                                   "This systemd does not know the protection %s=", property);
        /* BindsTo= wants this service to run, which has to stop: for an upgrade, a restart, a shutdown. */
        else if (streq(e->name, "org.freedesktop.systemd1.TransactionIsDestructive"))
                (void) problem_set(&problem, EBUSY, "Run it again", "The service is stopping");
        else
                (void) problem_set(&problem, EIO, REMEDY_JOURNAL,
                                   "The service manager refused to start the sandbox (%s)", e->name);
        log_warning("%s was refused: %s: %s", j->unit, e->name, e->message ? e->message : "no reason given");

        if (j->handlers)
                j->handlers->on_refused(j, &problem, property, j->userdata);
        job_free(j);
}

static void job_take_start_reply(Job *j, sd_bus_message *m) {
        const char *path;

        if (sd_bus_message_is_method_error(m, NULL)) {
                job_refuse(j, sd_bus_message_get_error(m));
                return;
        }
        if (j->state != JOB_CALLING)
                return;
        if (sd_bus_message_read(m, "o", &path) < 0 || str_copy(&j->start_path, path) < 0) {
                job_stop(j);
                job_gone(j, "the service manager's answer is unreadable", NULL);
                return;
        }

        j->state = JOB_QUEUED;
        if (j->want_stop)
                job_stop(j);
}

static int on_start_reply(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        Job *j = userdata;
        Manager *manager = j->manager;

        j->call = sd_bus_slot_unref(j->call);
        job_take_start_reply(j, m);
        calls_go_on(manager);
        return 0;
}

void job_on_start_removed(Job *j, const char *job_path, const char *result) {
        assert(j && job_path && result);

        if (j->state > JOB_QUEUED || (j->start_path && !streq(j->start_path, job_path)))
                return; /* a stop job */

        j->state = JOB_LIVE;
        j->start_failed = !streq(result, "done");
        j->started_usec = now_monotonic_usec();
        if (!j->start_failed) {
                if (j->want_stop)
                        job_stop(j);
                if (j->handlers)
                        j->handlers->on_started(j, j->userdata);
        }
        job_step(j);
}

static int take_unit_property(sd_bus_message *m, const char *name, void *userdata) {
        Job *j = userdata;
        const char *text;
        const void *bytes;
        size_t n_bytes;
        uint32_t id;
        int r;

        if (streq(name, "ActiveState")) {
                r = sd_bus_message_read(m, "v", "s", &text);
                if (r < 0)
                        return r;
                j->is_active = streq(text, "active");
                j->is_dead = streq(text, "inactive") || streq(text, "failed");
                return r;
        }
        if (streq(name, "Job")) {
                r = sd_bus_message_read(m, "v", "(uo)", &id, &text);
                if (r >= 0)
                        j->has_job = id != 0;
                return r;
        }
        if (streq(name, "InvocationID")) {
                r = sd_bus_message_enter_container(m, 'v', "ay");
                if (r < 0)
                        return r;
                r = sd_bus_message_read_array(m, 'y', &bytes, &n_bytes);
                if (r < 0)
                        return r;
                for (size_t i = 0; n_bytes == 16 && i < n_bytes; i++)
                        (void) snprintf(j->invocation_id + 2 * i, 3, "%02x", ((const uint8_t*) bytes)[i]);
                return sd_bus_message_exit_container(m);
        }
        return sd_bus_message_skip(m, "v");
}

int job_on_properties(Job *j, sd_bus_message *m) {
        int r;

        assert(j && m);

        r = bus_read_properties(m, take_unit_property, j);
        if (r < 0)
                return r;
        if (j->state == JOB_QUEUED && j->is_active)
                job_on_start_removed(j, j->start_path, "done");
        else
                job_step(j);
        return 0;
}

static void job_take_query_reply(Job *j, sd_bus_message *m) {
        if (j->state != JOB_QUEUED && j->state != JOB_LIVE)
                return;
        if (is_interrupted(m))
                return;
        if (sd_bus_message_is_method_error(m, NULL) || bus_read_properties(m, take_unit_property, j) < 0)
                job_gone(j, "the service manager cannot tell its state", m);
        else if (j->state == JOB_QUEUED && j->is_dead && !j->has_job)
                job_gone(j, "it ended while the service manager was away", NULL);
        else if (j->state == JOB_QUEUED && !j->has_job)
                job_on_start_removed(j, j->start_path, "done");
        else
                job_step(j);
}

static int on_query_properties(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        Job *j = userdata;
        Manager *manager = j->manager;

        j->query = sd_bus_slot_unref(j->query);
        job_take_query_reply(j, m);
        calls_go_on(manager);
        return 0;
}

static int on_query_unit(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        Job *j = userdata;
        Manager *manager = j->manager;

        j->query = sd_bus_slot_unref(j->query);
        if ((j->state != JOB_QUEUED && j->state != JOB_LIVE) || is_interrupted(m)) {
                calls_go_on(manager);
                return 0;
        }
        if (sd_bus_message_is_method_error(m, NULL) ||
            sd_bus_call_method_async(j->manager->bus, &j->query, MANAGER_NAME, j->path, PROPERTIES_INTERFACE,
                                     "GetAll", on_query_properties, j, "s", UNIT_INTERFACE) < 0)
                job_gone(j, "the service manager does not know it any more", m);
        calls_go_on(manager);
        return 0;
}

void job_query(Job *j) {
        assert(j);

        if (j->query || (j->state != JOB_QUEUED && j->state != JOB_LIVE))
                return;

        j->want_query = true;
        calls_go_on(j->manager);
}

void jobs_query(Manager *m) {
        assert(m);

        for (Job *j = m->jobs; j; j = j->next)
                j->want_query = j->state == JOB_QUEUED || j->state == JOB_LIVE;
        calls_go_on(m);
}

static int job_call_start(Job *j) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *start = TAKE_PTR(j->start);

        j->state = JOB_CALLING;
        return sd_bus_call_async(j->manager->bus, &j->call, start, on_start_reply, j, 0);
}

/* What this job waits for, now. May free it. */
static void job_call(Job *j) {
        if (j->start) {
                if (job_call_start(j) < 0)
                        job_gone(j, "the service manager cannot be asked for it", NULL);
        } else if (j->want_record) {
                j->want_record = false;
                if (sd_bus_call_method_async(j->manager->bus, &j->call, MANAGER_NAME, j->path,
                                             PROPERTIES_INTERFACE, "GetAll", on_record, j, "s",
                                             SERVICE_INTERFACE) < 0)
                        job_gone(j, "the service manager cannot be asked", NULL);
        } else {
                j->want_query = false;
                /* GetUnit, for it does not load what is not there. A job that cannot even be asked about is
                 * asked about again when its patience ends. */
                if (j->state == JOB_QUEUED || j->state == JOB_LIVE)
                        (void) sd_bus_call_method_async(j->manager->bus, &j->query, MANAGER_NAME,
                                                        MANAGER_PATH, MANAGER_INTERFACE, "GetUnit",
                                                        on_query_unit, j, "s", j->unit);
        }
}

static size_t calls_unanswered(const Manager *m) {
        size_t n = 0;

        for (const Job *j = m->jobs; j; j = j->next)
                n += (j->call != NULL) + (j->query != NULL);
        return n;
}

/* Makes the calls that wait, the oldest job's first, as long as the bus lets so many be unanswered. */
static void calls_go_on(Manager *m) {
        while (calls_unanswered(m) < CALLS_MAX) {
                Job *next = NULL;

                for (Job *j = m->jobs; j; j = j->next) /* the newest comes first */
                        if (!j->call && (j->start || j->want_record || (j->want_query && !j->query)))
                                next = j;
                if (!next)
                        return;
                job_call(next);
        }
}

void job_stop(Job *j) {
        assert(j);

        j->want_stop = true;
        if (j->state == JOB_WAITING || j->state == JOB_CALLING || j->state == JOB_READING)
                return; /* in time, or over already */

        if (j->state == JOB_QUEUED)
                job_tell(j, "StopUnit", "ss", j->unit, "replace");
        else
                job_tell(j, "KillUnit", "ssi", j->unit, "all", (int32_t) SIGKILL);

        j->n_stop_attempts++;
        if (job_set_patience(j, STOP_PATIENCE_USEC) < 0)
                log_warning("%s: no timer for its stop", j->unit);
}

void job_abandon(Job *j) {
        assert(j);

        j->handlers = NULL;
        j->userdata = NULL;
        if (j->state == JOB_WAITING)
                job_free(j); /* nobody has heard of it */
        else
                job_stop(j);
}

static int on_assign_reply(sd_bus_message *m, void *userdata, sd_bus_error *error _unused_) {
        Job *j = userdata;

        j->assign = sd_bus_slot_unref(j->assign);
        if (sd_bus_message_is_method_error(m, NULL) && j->state != JOB_READING && !j->is_dead) {
                log_error("%s cannot be limited (%s), killing it", j->unit,
                          sd_bus_message_get_error(m)->name);
                job_stop(j);
        }
        return 0;
}

int job_assign(Job *j, const WireLimits *limits) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
        int r;

        assert(j && limits);

        if (j->state != JOB_LIVE)
                return 0; /* it has the limits of its START, or none any more */

        r = unit_message_limits(j->manager->bus, j->unit, limits, &m);
        if (r < 0)
                return r;
        j->assign = sd_bus_slot_unref(j->assign);
        return sd_bus_call_async(j->manager->bus, &j->assign, m, on_assign_reply, j, 0);
}

static uint64_t spec_number(const UnitSpec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_properties; i++)
                if (streq(spec->properties[i].name, name))
                        return spec->properties[i].number;
        return 0;
}

int job_start(Manager *m, const UnitSpec *spec, const int fds[static _WIRE_FD_MAX],
              const JobHandlers *handlers, void *userdata, Job **ret) {
        _cleanup_(job_freep) Job *j = NULL;
        char id[RANDOM_HEX_ID_CHARS + 1];
        int r;

        assert(m && spec && handlers && ret);

        j = calloc(1, sizeof(*j));
        if (!j)
                return -ENOMEM;
        j->manager = m;
        j->profile = spec->profile;
        j->hold = -EBADF;
        j->handlers = handlers;
        j->userdata = userdata;
        j->finished.cpu_nsec = j->finished.memory_peak_bytes = WIRE_UNKNOWN;

        r = random_hex_id(id);
        if (r < 0)
                return r;
        (void) snprintf(j->unit, sizeof(j->unit), UNIT_NAME_PREFIX "%s" UNIT_NAME_SUFFIX, id);
        r = sd_bus_path_encode(MANAGER_PATH "/unit", j->unit, &j->path);
        if (r < 0)
                return r;
        r = job_set_patience(j, spec_number(spec, "RuntimeMaxUSec") + PATIENCE_USEC);
        if (r < 0)
                return r;
        r = unit_message_start(m->bus, j->unit, spec, fds, &j->start);
        if (r >= 0 && calls_unanswered(m) < CALLS_MAX) /* then nobody else waits */
                r = job_call_start(j);
        if (r < 0)
                return r;

        j->next = m->jobs;
        if (m->jobs)
                m->jobs->previous = j;
        m->jobs = j;
        m->n_jobs++;
        *ret = TAKE_PTR(j);
        return 0;
}
